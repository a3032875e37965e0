"""Logs as jobs, daemons and hosts print them in an ordinary week, whole: usual/*.toml.

They were written from knowledge of what programs print, by people who had seen neither rules nor
program, and are labelled by what their lines say. Of the threads in threads/, most of which are
of trackers of bugs, they are the other half: what is frequent. threads/SCORES.md has what the
first reading of each file came to, before it was learned from.
"""

import tomllib
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent / "usual"
HEALTHY, OTHER, UNKNOWN = "healthy", "other", "unknown"  # of a row, in place of a cause
LOGS: Final[list[dict[str, Any]]] = [
    {**row, "id": f"{path.stem}/{row['id']}"}
    for path in sorted(FOLDER.glob("*.toml"))
    for row in tomllib.loads(path.read_text("utf-8"))["log"]
]


def fails(row: dict[str, Any]) -> bool:
    """Whether something failed in it that has a cause of the registry."""
    return not {HEALTHY, OTHER} & {row["labels"][0]}
