"""A fleet's history on its file: adding a merge, and asking for nodes."""

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rdmadiag.fleet.history import HistoryError, PairFigures, Said, add, past
from rdmadiag.fleet.host_report import HostReport
from rdmadiag.fleet.merged import Unused
from rdmadiag.fleet.of_merge import said_of, time_of
from rdmadiag.fleet.trend import NodeHistory, history_of
from rdmadiag.host.history_file import history_file

WAIT: Final = 30.0
"""Seconds for other writers."""


class NotThere(HistoryError):
    """There is nothing at the path."""


def add_merge(
    path: str,
    reports: Sequence[HostReport],
    unused: Iterable[Unused] = (),
    odd: Mapping[str, Mapping[str, str]] | None = None,
    pairs: Mapping[str, PairFigures] | None = None,
) -> bool:
    """Whole or not at all; False where these reports are in it already. Raises HistoryError.

    It waits for other writers, and for the file: to be called in a child.
    """
    said = said_of(reports, unused, odd, pairs)
    return add_said(path, time_of(reports, time.time()), said)


def add_said(path: str, at: int, said: Mapping[str, Said]) -> bool:
    """As `add_merge`; `at` in seconds since the epoch."""
    try:
        with history_file(path, WAIT, create=True) as connection:
            return add(connection, at, said)
    except (HistoryError, sqlite3.Error, OSError) as error:
        raise _named(path, error) from error


def histories(path: str, nodes: Sequence[str], wait: float) -> dict[str, NodeHistory]:
    """Those of the nodes that the history knows; raises HistoryError, and NotThere of them.

    For a child as well.
    """
    try:
        with history_file(path, wait, create=False) as connection:
            found = past(connection, nodes)
    except (HistoryError, sqlite3.Error, OSError) as error:
        raise _named(path, error) from error
    made = {node: history_of(each) for node, each in found.items()}
    return {node: each for node, each in made.items() if each is not None}


def _named(path: str, error: Exception) -> HistoryError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    kind = NotThere if isinstance(error, FileNotFoundError) else HistoryError
    return kind(f"{path}: {reason}")
