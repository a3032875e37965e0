"""What kind of thing a path names: looked at before what reads many logs is imported."""

import os
from typing import Final

from rdmadiag.cli.exits import Refused

SNAPSHOT: Final = ("meta.json", "root", "sys")
"""What stands in the folder of a snapshot."""
_PATTERN: Final = frozenset("*?[")


def is_pattern(path: str) -> bool:
    """Whether it names several files, where no file is called so."""
    return not _PATTERN.isdisjoint(path)


def is_folder(path: str, deadline: float) -> bool:
    """Whether a path of --from is a folder of reports: a folder, and no snapshot."""
    from rdmadiag.host.given_file import understood

    def look() -> bool:
        return os.path.isdir(path) and not any(
            os.path.exists(os.path.join(path, name)) for name in SNAPSHOT
        )

    return understood(path, look, Refused, deadline)
