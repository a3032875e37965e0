"""Where a command writes is looked at, and written, in a child.

It may be on a network file system that has gone, which holds whoever looks for ever.
"""

import time
from collections.abc import Callable

from rdmadiag.cli.exits import NotWritten, Refused
from rdmadiag.facts import Missing
from rdmadiag.host.given_file import WAIT
from rdmadiag.host.isolation import in_one_child
from rdmadiag.host.target import uninterrupted


def look(named: str, task: Callable[[], None]) -> None:
    """Raises the Refused that `task` raises; NotWritten, of `named`, where it does not end."""

    def outcome() -> tuple[Refused, BaseException | None] | None:
        try:
            task()
        except Refused as error:
            return error, error.__cause__  # which pickle leaves out
        return None

    try:
        found = in_one_child(named, outcome, time.monotonic() + WAIT)
    except OSError:  # no child could be started
        task()
        return
    if isinstance(found, Missing):
        raise NotWritten(found.detail)
    if found:
        raise found[0] from found[1]


def write(named: str, task: Callable[[], None]) -> None:
    """As `look`. The child is killed with its parent, and would leave half a file: so no signal
    that can wait ends the parent meanwhile."""
    with uninterrupted():
        look(named, task)


def create(place: str, task: Callable[[], None]) -> None:
    """As `write`, of what is new; NotWritten too for an OSError of the `task`."""

    def created() -> None:
        try:
            task()
        except FileExistsError as error:
            raise Refused(f"{place}: {error.strerror}") from error
        except OSError as error:
            raise NotWritten(f"{place}: {error.strerror}") from error

    write(place, created)
