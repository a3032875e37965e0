"""A netlink dump that is whole: one that changed while it was made is requested once more."""

from collections.abc import Iterable
from itertools import islice
from typing import Final, TypeVar

from rdmadiag.facts import Missing, Why
from rdmadiag.host import Host, netlink

_CHANGED: Final = "the kernel's table changed during each of two dumps (NLM_F_DUMP_INTR)"

T = TypeVar("T")


def dump(host: Host, name: str, protocol: int, request: bytes, deadline: float) -> bytes | Missing:
    """The reply to an NLM_F_DUMP; `name` is that of a record's file, -again that of a second one.

    MALFORMED where the second was interrupted, too: rows may be absent from it, or stand twice.
    """
    for each in (name, f"{name}-again"):
        reply = host.netlink(each, protocol, request, deadline)
        if isinstance(reply, Missing):
            return reply
        try:
            if not netlink.interrupted(reply):
                return reply
        except ValueError as error:
            return Missing(Why.MALFORMED, f"netlink {each}: {error}")
    return Missing(Why.MALFORMED, f"netlink {name}: {_CHANGED}")


def gathered(rows: Iterable[T], most: int, what: str) -> tuple[T, ...] | Missing:
    """The rows of a reply; Missing for more than `most`, and where one raises ValueError."""
    try:
        found = tuple(islice(rows, most + 1))
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    return found if len(found) <= most else Missing(Why.UNSUPPORTED, f"more than {most} {what}")
