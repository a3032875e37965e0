"""The same sentence of many devices: said once, with the names of the others."""

import re
from collections.abc import Callable, Hashable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

_NAME: Final = re.compile(
    r"[A-Za-z_]{2}[A-Za-z_.-]{0,62}[0-9][\w./:]*|[0-9a-f]{4}(?::[0-9a-f]{2}){2}\.[0-9]"
)
"""A name with a number in it: mlx5_0/1, ens1f0np0, uverbs0; or a PCI address. Not x16, 100G.

IB_DEVICE_NAME_MAX is 64; without a bound, letters of a hostile name were tried in every split.
"""


def form(sentence: str) -> str:
    """What is left of it where names do not count.

    >>> form("mlx5_0/1 uses MTU 1024, and ens1f0np0 (MTU 9000) allows 4096")
    '* uses MTU 1024, and * (MTU 9000) allows 4096'
    """
    return _NAME.sub("*", sentence)


def alike(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Groups of equal keys, in the order of their first."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())
