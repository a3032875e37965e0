"""`rdmadiag exercise` with a fault in each cell: what must then be said of it.

    python -m lab.faulty FAULT exercise --allow-rtr …

The end that drives has the fault: the operations of its child are those of FAULTS, the rest of
the program is as it is. The other host, where there is one, knows nothing of it.
"""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from rdmadiag.facts.exercise import Operation
from rdmadiag.verbs import exercise_child, operation
from rdmadiag.verbs.operation import Pair
from rdmadiag.verbs.work import CMP_SWAP, OUT, READ, WRITE, Target, Work

_FAULT = "RDMADIAG_LAB_FAULT"
_ATOMIC = {"pieces": ((OUT, 8),), "operands": (1, 2)}


def _elsewhere(change: Callable[[Target], Target]) -> dict[Operation, Callable[[Pair], None]]:
    """One-sided operations on a target that is not the one the other end gave."""

    def posted(opcode: int, **more: object) -> Callable[[Pair], None]:
        def run(pair: Pair) -> None:
            pair.arm()
            before = pair.other.read(0, 4096)
            work = Work(opcode, target=change(pair.other.target()))
            pair.one.post(replace(work, **more))  # type: ignore[arg-type]
            pair.collect({pair.one: (1, 0)})
            # Of UC it has left: whether it has arrived only the memory can tell.
            pair.eventually(lambda: pair.other.read(0, 4096) != before, "it did not arrive")

        return run

    return {
        Operation.WRITE: posted(WRITE),
        Operation.READ: posted(READ),
        Operation.CMP_SWAP: posted(CMP_SWAP, **_ATOMIC),
    }


def _too_small(seen_by: str) -> dict[Operation, Callable[[Pair], None]]:
    def send(pair: Pair) -> None:
        pair.arm()
        pair.other.receives(pair.room(length=100))
        pair.one.post(Work())
        if seen_by == "one":
            time.sleep(0.5)  # the other end's completion stays in its queue
            pair.collect({pair.one: (1, 0)})
        pair.collect({pair.other: (0, 1)})

    return {Operation.SEND: send}


def _no_receive(pair: Pair) -> None:
    pair.arm()
    pair.one.post(Work())
    pair.collect({pair.one: (1, 0), pair.other: (0, 1)})


FAULTS: dict[str, dict[Operation, Callable[[Pair], None]]] = {
    "wrong rkey": _elsewhere(lambda target: replace(target, rkey=target.rkey ^ 0x5A5A00)),
    "wrong address": _elsewhere(lambda target: replace(target, address=target.address + (1 << 30))),
    "too small, sender": _too_small("one"),
    "too small, receiver": _too_small("other"),
    "no receive": {Operation.SEND: _no_receive},
}


def main() -> None:
    """The child: exercise_child, with the operations of one fault."""
    operation.OPERATIONS.update(FAULTS[os.environ[_FAULT]])
    exercise_child.main()


def command() -> None:
    """The command, whose child is `main`."""
    from rdmadiag.__main__ import main as run
    from rdmadiag.verbs import watchdog
    from rdmadiag.verbs.child import program

    os.environ[_FAULT] = sys.argv.pop(1)

    def ours(module: str) -> list[str]:
        return [each.replace(f"rdmadiag.verbs.{module}", "lab.faulty") for each in program(module)]

    watchdog.program = ours  # type: ignore[attr-defined]
    run()


if __name__ == "__main__":
    command()
