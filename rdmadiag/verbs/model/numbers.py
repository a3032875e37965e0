"""Numbers that fit the field that they go into: ctypes would cut them, without a word."""

import ctypes
from typing import Any


def fits(structure: type[ctypes.Structure], field: str, value: int) -> int:
    """The value; raises ValueError where an unsigned number of the field's size is another."""
    size: Any = getattr(structure, field).size
    return within(value, 8 * size, field)


def within(value: int, bits: int, name: str) -> int:
    """The value; raises ValueError where it is below 0 or has more bits."""
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{name} {value} has more than {bits} bits")
    return value
