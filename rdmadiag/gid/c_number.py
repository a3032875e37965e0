"""How programs written in C read a number from text: the digits it begins with, else 0.

>>> strtol("3"), strtol(" 0x10"), strtol("010"), strtol("auto"), strtol("-1"), strtol("3abc")
(3, 16, 8, 0, -1, 3)
>>> atoi("010"), atoi("0x10")
(10, 0)

C17 7.22.1.4 and 7.22.1.2. A program that does not look where the number ended takes a word
for 0, which for a GID index is a row like any other.
"""

import re
from typing import Final

_NUMBER: Final = r"[ \t\n\v\f\r]*([+-]?)(?:0[xX]([0-9a-fA-F]{1,32})|([0-9]{1,40}))"
_DECIMAL: Final = r"[ \t\n\v\f\r]*([+-]?)([0-9]{1,40})"
_LONG: Final = 1 << 63


def strtol(text: str) -> int | None:
    """strtol(text, NULL, 0); None where it says ERANGE."""
    match = re.match(_NUMBER, text)
    if match is None:
        return 0
    sign, hexadecimal, digits = match.groups()
    if hexadecimal is not None:
        value = int(hexadecimal, 16)
    elif digits.startswith("0"):
        # "08" ends after the 0, as 8 is no octal digit.
        octal = re.match("[0-7]*", digits)
        value = int(octal[0], 8) if octal and octal[0] else 0
    else:
        value = int(digits)
    value = -value if sign == "-" else value
    return value if -_LONG <= value < _LONG else None


def atoi(text: str) -> int:
    """atoi(text): decimal alone; what does not fit an int is cut to its low 32 bits."""
    match = re.match(_DECIMAL, text)
    if match is None:
        return 0
    value = int(match[2])
    return to_int(max(-_LONG, min(-value if match[1] == "-" else value, _LONG - 1)))


def to_int(value: int) -> int:
    """The low 32 bits as a signed number."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def has_number(text: str) -> bool:
    """Whether a number stands at its beginning."""
    return re.match(_NUMBER, text) is not None
