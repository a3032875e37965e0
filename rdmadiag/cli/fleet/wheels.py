"""The folder of --wheels, read in a child: within a time, and no more than so much memory."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from rdmadiag.host.given_file import WAIT, understood

if TYPE_CHECKING:
    from rdmadiag.fleet.wheels import Wheels

T = TypeVar("T")


def wheels_of(folder: str | None, until: float) -> "Wheels | None":
    """What is in it, each read of it within WAIT seconds.

    `until` is absolute on time.monotonic's clock, and for all of them.
    """
    from rdmadiag.fleet.wheels import NoArchive, Wheels

    if folder is None:
        return None

    def within(path: str, read: Callable[[], T]) -> T:
        return understood(path, read, NoArchive, min(until, time.monotonic() + WAIT))

    return Wheels(folder, within)
