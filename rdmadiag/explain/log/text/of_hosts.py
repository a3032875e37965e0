"""Several hosts in one text, each read alone: one account of what failed on which."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from rdmadiag.explain.log.account import Account, Failure
from rdmadiag.explain.log.kind import MAY_BE, SHOWN
from rdmadiag.explain.log.recognition.settings import LISTED_DOWN

OF_LISTINGS: Final = frozenset({SHOWN, MAY_BE, LISTED_DOWN, "port-not-active"})
"""What a failure is called that a listing shows: of several hosts together it may be none."""


def is_of_one_text(account: Account) -> bool:
    """Whether it stands whatever each host alone has printed."""
    return account.first is not None and account.first.what not in OF_LISTINGS


def put_side_by_side(account: Account, hosts: Mapping[str, Account]) -> Account:
    """The account of all, with what failed by those of each host alone; as it is without hosts."""
    if not hosts:
        return account
    failures = _of(((host, each.failures) for host, each in hosts.items()))
    consequences = _of(((host, each.consequences) for host, each in hosts.items()))
    if not failures and not consequences and len(hosts) == 1:
        return account
    unknown = tuple(one for each in hosts.values() for one in each.unknown)
    return replace(
        account,
        failures=failures,
        consequences=consequences,
        unknown=account.unknown if account.first is None else unknown,
    )


def _of(several: Iterable[tuple[str, tuple[Failure, ...]]]) -> tuple[Failure, ...]:
    """Each once, with all hosts that have it; in the order of their lines."""
    found: dict[tuple[object, ...], Failure] = {}
    for host, failures in several:
        for each in failures:
            labels = tuple(cause.label for cause in each.causes)
            key = (each.what, labels, each.device, each.port)
            known = found.get(key)
            if known is None:
                found[key] = replace(each, speakers=(host,))
            else:
                found[key] = replace(
                    known,
                    speakers=(*known.speakers, host),
                    count=known.count + each.count,
                    lines=tuple(sorted({*known.lines, *each.lines})),
                    last_line=max(known.last_line, each.last_line),
                )
    return tuple(sorted(found.values(), key=lambda each: each.lines[:1]))
