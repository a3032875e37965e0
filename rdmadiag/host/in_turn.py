"""Tasks in this process, one after the other, under one absolute deadline.

For what cannot hang: the regular files of a sample of ours. A fork costs more than most of
what is read there. Everything else runs in children that can be abandoned:
`rdmadiag.host.isolation`.
"""

import os
import sys
import time
from collections.abc import Callable, Collection
from typing import Any, Final, Protocol

from rdmadiag.facts import Missing, Why
from rdmadiag.host.answers import refusal
from rdmadiag.quoting import printable

_TICK_SECONDS: Final = 1.0

Waiting = Callable[[Collection[str]], None]


class Tasks(Protocol):
    """Tasks by name: `start` each, `begin`, then `collect` all of them."""

    def start(self, name: str, task: Callable[[], Any]) -> None:
        """Take `task` on."""

    def begin(self) -> None:
        """All are started: those that run beside this process run from here on at the latest."""

    def collect(
        self, deadline: float, waiting_for: Waiting | None = None
    ) -> dict[str, Any | Missing]:
        """Each task's result; a Missing for one that raised, died or came late.

        `deadline` is absolute on `time.monotonic`'s clock. `waiting_for` is called about once
        a second with the names of the tasks that have not answered.
        """


class InTurn:
    """Tasks in the order in which they were started.

    None is interrupted: the deadline is looked at before each.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, Callable[[], Any]] = {}

    def start(self, name: str, task: Callable[[], Any]) -> None:
        """Take `task` on; `collect` runs it."""
        self._tasks[name] = task

    def begin(self) -> None:
        """Nothing: none runs beside this process."""

    def collect(
        self, deadline: float, waiting_for: Waiting | None = None
    ) -> dict[str, Any | Missing]:
        """Runs each; one whose turn comes after the deadline is late."""
        results: dict[str, Any | Missing] = {}
        shown = time.monotonic()
        for name, task in self._tasks.items():
            now = time.monotonic()
            if waiting_for and now - shown >= _TICK_SECONDS:
                waiting_for(self._tasks.keys() - results.keys())
                shown = now
            late = Missing(Why.TIMEOUT, f"{name}: not read before the deadline")
            results[name] = late if now >= deadline else _answer(name, task)
        self._tasks.clear()
        return results


def _answer(name: str, task: Callable[[], Any]) -> Any | Missing:
    try:
        return task()
    except Exception as error:  # noqa: BLE001  # one source's bug must not cost the others
        import traceback

        return bug(name, repr(error), traceback.format_exc(), ran_out(error))


def ran_out(error: Exception) -> bool:
    """Whether a task was short of memory, threads or file descriptors, which is no bug of it."""
    if isinstance(error, MemoryError) or "start new thread" in str(error):
        return True
    return isinstance(error, OSError) and refusal(error, "").why is Why.EXHAUSTED


def bug(name: str, summary: str, trace: str, exhausted: bool) -> Missing:
    """What stands for the result of a task that raised; its traceback only when debugging."""
    if exhausted:
        return Missing(Why.EXHAUSTED, f"{name}: {summary}")
    if os.environ.get("RDMADIAG_DEBUG"):
        sys.stderr.write("".join(f"{printable(line)}\n" for line in trace.splitlines()))
    return Missing(Why.MALFORMED, f"{name}: a bug of rdmadiag: {summary}")
