"""Names and limits of the snapshot format."""

import re
from collections.abc import Sequence
from typing import Final

_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}")

FORMAT: Final = "rdmadiag-snapshot"
VERSION: Final = 1

META: Final = "meta.json"
ABOUT: Final = "ABOUT"
ROOT: Final = "root"
NETLINK: Final = "netlink"
COMMANDS: Final = "cmd"
VERBS: Final = "verbs"
LOG: Final = "log"

KERNEL: Final = "kernel"
"""The one log in LOG."""

TRANSCRIPT: Final = "query"
"""The one transcript in VERBS."""

REPEATED_FROM: Final = 8
"""A content that stands in this many files is written once, in meta.json."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""Unpacked size of all files in an archive."""

MAX_ENTRIES: Final = 50_000
"""Entries in an archive."""


def command_name(argv: Sequence[str]) -> str:
    """The file name that stands for a command line.

    Arguments with blanks, such as a log predicate, are left out: they may be worded anew,
    and a recorded host is to be read by newer versions too.
    """
    words = (argument for argument in argv if " " not in argument)
    return re.sub(r"[^A-Za-z0-9.=-]+", "_", " ".join(words)).strip("_")[:150]


def fold_numbers(names: Sequence[str]) -> str | list[str]:
    """The names of a folder; a table's rows ("0", "1", …) as ranges: "0-2,5"."""
    if not names or not all(_NUMBER.fullmatch(name) for name in names):
        return sorted(names)
    numbers = sorted(int(name) for name in names)
    ranges = [[numbers[0], numbers[0]]]
    for number in numbers[1:]:
        if number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{low}-{high}" if high > low else str(low) for low, high in ranges)


def unfold_numbers(folded: str | list[str]) -> tuple[str, ...]:
    """What fold_numbers was given; raises ValueError for more rows than any table has."""
    if not isinstance(folded, str):
        return tuple(folded)
    names: list[str] = []
    for part in folded.split(","):
        low, _, high = part.partition("-")
        first, last = int(low), int(high or low)
        if last - first > MAX_ENTRIES:
            raise ValueError(f"{part} is too many rows")
        names += (str(number) for number in range(first, last + 1))
        if len(names) > MAX_ENTRIES:
            raise ValueError(f"more than {MAX_ENTRIES} rows")
    return tuple(names)
