"""What is made on each device: the counts of `rdma res`. An idle one has the kernel's own."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lab.attempt import Attempt, children, until
from lab.command import run
from lab.failure import EX_LATE, LabFailure

COMMAND_SECONDS = 30.0
SETTLE_SECONDS = 20.0  # for what a process held that was killed: seconds on a busy machine

Counts = dict[str, dict[str, int]]


def counts() -> Counts:
    """Device → kind → how many."""
    rows: list[dict[str, Any]] = json.loads(
        run(["rdma", "-j", "res"], timeout=COMMAND_SECONDS).stdout
    )
    kinds = ("pd", "cq", "qp", "cm_id", "mr", "ctx", "srq")
    return {row["ifname"]: {kind: row[kind] for kind in kinds if kind in row} for row in rows}


@contextmanager
def unchanged() -> Iterator[None]:
    """Afterwards the counts are those of before, and no process has a device for a pingpong.

    LabFailure where they are not, a few seconds later.
    """
    before = counts()
    yield
    late = time.monotonic() + SETTLE_SECONDS
    while (found := counts()) != before:
        if time.monotonic() > late:
            raise LabFailure(f"before: {before}; now: {found}")
        time.sleep(0.1)
    if not until(lambda: not children(), SETTLE_SECONDS):
        raise LabFailure(f"processes that are still there: {children()}")


def cm_listeners() -> int:
    """How many programs listen through the RDMA connection manager."""
    found = run(["rdma", "-j", "res", "show", "cm_id"], timeout=COMMAND_SECONDS)
    rows: list[dict[str, Any]] = json.loads(found.stdout or "[]")
    return sum(row.get("state") == "LISTEN" for row in rows)


def queue_pair_states(device: str) -> list[str]:
    """Of the queue pairs that processes have, such as RTS."""
    found = run(["rdma", "-j", "res", "show", "qp", "link", device], timeout=COMMAND_SECONDS)
    rows: list[dict[str, Any]] = json.loads(found.stdout or "[]")
    return [row["state"] for row in rows if "pid" in row and row.get("state")]


def is_connected(device: str) -> bool:
    """Whether a process has a queue pair that is; siw_query_qp of 6.1 fills in no state."""
    states = queue_pair_states(device)
    return "RTS" in states or (device.startswith("siw") and bool(states))


def in_the_middle(attempt: Attempt, device: str) -> None:
    """Return when it is in the middle of its exchange."""
    if not until(lambda: is_connected(device), attempt.deadline):
        raise LabFailure("no queue pair came to RTS", EX_LATE)
    time.sleep(1.0)  # through the verified messages
