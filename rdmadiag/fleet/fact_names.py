"""Names of facts: "adapter[0].port[1].rate", and one name for what several adapters have alike."""

import re
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Final, TypeVar

from rdmadiag.fleet.fact_rows import FACTS, Kind, Of
from rdmadiag.fleet.fact_table import VARIABLE
from rdmadiag.ranges import ranges

P = TypeVar("P", bound=Hashable)

_NUMBERED: Final = re.compile(r"(adapter|gpu)\[([0-9]+)\](\.port\[[0-9]+\])?\.(.+)", re.DOTALL)
_KINDS: Final = {(fact.of, fact.name): fact.kind for fact in FACTS if fact.name is not None}


@lru_cache(maxsize=16_384)
def kind_of_name(name: str) -> Kind:
    """Variables ought to be equal; so does the number of adapters, which is hardware."""
    if name in ("adapters", "gpus"):
        return Kind.HARDWARE
    if name.startswith(VARIABLE):
        return Kind.EQUAL
    match = _NUMBERED.fullmatch(name)
    if match is None:
        return _KINDS.get((Of.HOST, name), Kind.MAY_DIFFER)
    of = Of.PORT if match[3] else Of(match[1])
    return _KINDS.get((of, match[4]), Kind.MAY_DIFFER)


@lru_cache(maxsize=16_384)
def place_of(name: str) -> tuple[int | None, int | None, str]:
    """The adapter, the port, and what is said of it; None where it is of none.

    >>> place_of("adapter[0].port[1].netdev.mtu"), place_of("kernel")
    ((0, 1, 'netdev.mtu'), (None, None, 'kernel'))
    """
    match = _NUMBERED.fullmatch(name)
    if match is None or match[1] != Of.ADAPTER:
        return None, None, name
    port = match[3]
    return int(match[2]), int(port[6:-1]) if port else None, match[4]


def folded(facts: Mapping[str, P]) -> dict[str, P]:
    """One name for adapters, or GPUs, of which all else is alike, in the order of the first.

    >>> folded({"adapter[0].rate": "100", "adapter[1].rate": "100", "adapter[2].rate": "50"})
    {'adapter[0-1].rate': '100', 'adapter[2].rate': '50'}
    """
    groups: dict[tuple[str, str, P], list[int]] = {}
    for name, value in facts.items():
        match = _NUMBERED.fullmatch(name)
        what, number = (match[1], int(match[2])) if match else ("", 0)
        rest = f"{match[3] or ''}.{match[4]}" if match else name
        groups.setdefault((what, rest, value), []).append(number)
    return {
        f"{what}[{ranges(numbers)}]{rest}" if what else rest: value
        for (what, rest, value), numbers in groups.items()
    }
