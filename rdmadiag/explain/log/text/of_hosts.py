"""Several hosts in one text, each read alone: one account of what failed on which."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from rdmadiag.explain.log.account import Account, Failure
from rdmadiag.explain.log.kind import MAY_BE, SHOWN
from rdmadiag.explain.log.recognition.signs.listings import SIGNS

OF_LISTINGS: Final = frozenset({SHOWN, MAY_BE, "port-not-active", *(each.word for each in SIGNS)})
"""What a failure is called that a listing shows: of several hosts together it may be none."""


def is_of_one_text(account: Account) -> bool:
    """Whether it stands whatever each host alone has printed."""
    return account.first is not None and account.first.what not in OF_LISTINGS


def put_side_by_side(account: Account, hosts: Mapping[str, tuple[bytes, Account]]) -> Account:
    """The account of all, with what listings show by those of each host alone; as it is without.

    What the lines of other kinds say all together stays: one host may have what another explains.
    """
    if not hosts:
        return account
    shown = ((host, _shown(each.failures)) for host, (_, each) in hosts.items())
    of = {
        number
        for text, _ in hosts.values()
        for number, line in enumerate(text.split(b"\n"), 1)
        if line
    }
    rest = (each for each in account.failures if of.isdisjoint(each.lines))
    failures = (*_of(shown), *rest)
    return replace(account, failures=tuple(sorted(failures, key=lambda each: each.lines[:1])))


def _shown(failures: Iterable[Failure]) -> tuple[Failure, ...]:
    return tuple(each for each in failures if each.what in OF_LISTINGS)


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
    return tuple(found.values())
