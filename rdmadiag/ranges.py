"""Numbers, and names with numbers in them, as ranges."""

import re
from collections.abc import Iterable
from typing import Final

_DIGITS: Final = re.compile(r"([0-9]+)")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_FEW: Final = 3
"""So many names of one form are read as fast one by one."""

_MOST: Final = 8
"""Runs of digits in a name that is folded: what a record has may be a page of them."""


def ranges(numbers: Iterable[int]) -> str:
    """In their order, each once.

    >>> ranges([4, 0, 1, 2])
    '0-2,4'
    """
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{one}" if one == last else f"{one}-{last}" for one, last in parts)


def folded(names: Iterable[str]) -> list[str]:
    """Names that differ in one number alone as one, where they are many; others as they are.

    In the order of the first of each. A number with a leading zero (a PCI address) is a word.

    >>> folded(["mlx5_1/1", "mlx5_2/1", "mlx5_3/1", "mlx5_4/1", "rxe0/1"])
    ['mlx5_[1-4]/1', 'rxe0/1']
    """
    forms: dict[str, list[list[str]]] = {}
    for name in dict.fromkeys(names):
        pieces = _DIGITS.split(name)  # every second one is a number
        numbers = pieces[1::2]
        is_form = 0 < len(numbers) <= _MOST and all(map(_NUMBER.fullmatch, numbers))
        key = "\0".join(pieces[::2]) if is_form else f"\1{name}"
        forms.setdefault(key, []).append(pieces)
    return [each for pieces in forms.values() for each in _of_one_form(pieces)]


def _of_one_form(names: list[list[str]]) -> list[str]:
    """Folded by the number that has most values among them."""
    if len(names) <= _FEW:
        return ["".join(each) for each in names]
    at = max(range(1, len(names[0]), 2), key=lambda place: len({each[place] for each in names}))
    alike: dict[tuple[str, str], list[int]] = {}
    for each in names:
        ends = "".join(each[:at]), "".join(each[at + 1 :])
        alike.setdefault(ends, []).append(int(each[at]))
    found = []
    for (before, after), numbers in alike.items():
        if len(numbers) > _FEW:
            found.append(f"{before}[{ranges(numbers)}]{after}")
        else:
            found += [f"{before}{number}{after}" for number in numbers]
    return found
