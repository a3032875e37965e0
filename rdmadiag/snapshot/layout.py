"""Names and limits of the snapshot format."""

import re
from collections.abc import Sequence
from typing import Final

FORMAT: Final = "rdmadiag-snapshot"
VERSION: Final = 1

META: Final = "meta.json"
ABOUT: Final = "ABOUT"
ROOT: Final = "root"
NETLINK: Final = "netlink"
COMMANDS: Final = "cmd"

REPEATED_FROM: Final = 8
"""A content that stands in this many files is written once, in meta.json."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""Unpacked size of all files in an archive."""

MAX_ENTRIES: Final = 50_000
"""Entries in an archive."""


def command_name(argv: Sequence[str]) -> str:
    """The file name that stands for a command line."""
    return re.sub(r"[^A-Za-z0-9.=-]+", "_", " ".join(argv))[:150]
