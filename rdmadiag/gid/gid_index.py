"""The row of a GID table that a variable's text names, as the program reads it.

None where the program then chooses by itself. To most of them "auto" is 0, which is a row:
see rdmadiag.gid.c_number.
"""

from typing import Final

from rdmadiag.gid.c_number import has_number, strtol

_MOST: Final = 10**6


def lenient_index(value: str) -> int | None:
    """For programs that take what is no number for 0."""
    index = strtol(value) if value else None
    return index if index is not None and 0 <= index < _MOST else None


def checked_index(value: str) -> int | None:
    """For programs that refuse what is no number, or know words."""
    return lenient_index(value) if has_number(value) else None
