"""python -m bench.launching: how fast children are started for many nodes, beside others.

Each starts a child that does nothing for each of N names, 64 at once, and waits for all of them:
`fleet run` (with ClusterShell's engine and a child by vfork), clush and pdsh with the same worker
(`-R exec`), and asyncio without either. In turn, several times: only the ratios mean something
on a busy machine.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final

FANOUT: Final = 64
ROUNDS: Final = 3
SECONDS: Final = 600.0
_OURS: Final = """\
import sys
from rdmadiag.fleet.launch import Launch, launch
from rdmadiag.fleet.node_answer import Ending
from rdmadiag.fleet.nodes import spread
from rdmadiag.fleet.ways import way_of
found = launch(Launch(spread(sys.argv[1]), (), way_of("exec:/bin/true %h"), deadline=600.0))
sys.exit({each.ending for each in found.values()} != {Ending.ANSWERED})
"""


async def _all(count: int) -> None:
    free = asyncio.Semaphore(FANOUT)

    async def one(number: int) -> None:
        async with free:
            pipe = asyncio.subprocess.PIPE
            child = await asyncio.create_subprocess_exec(
                "/bin/true", f"n{number}", stdin=pipe, stdout=pipe, stderr=pipe
            )
            await child.communicate()

    await asyncio.gather(*map(one, range(count)))


def _program(*argv: str) -> Callable[[], object]:
    return lambda: subprocess.run(
        argv, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=SECONDS
    )


def main() -> int:
    """Prints a table; 0."""
    parser = argparse.ArgumentParser(prog="python -m bench.launching", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="default: %(default)s")
    options = parser.parse_args()
    count = options.count
    nodes = f"n[1-{count}]"
    clush = os.path.join(os.path.dirname(sys.executable), "clush")
    exec_worker = ("-R", "exec", "-f", str(FANOUT), "-w", nodes, "/bin/true", "%h")
    runs: dict[str, Callable[[], object]] = {
        "fleet run": _program(sys.executable, "-c", _OURS, nodes),
        "clush": _program(clush, *exec_worker),
        "asyncio": lambda: asyncio.run(_all(count)),
    }
    if shutil.which("pdsh"):
        runs["pdsh"] = _program("pdsh", *exec_worker)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(options.rounds):
        for name, run in runs.items():
            begun = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begun)
    ours = statistics.median(seconds["fleet run"])
    print(f"{count} children, {FANOUT} at once, load {os.getloadavg()[0]:.1f}\n")
    print("| by | s | a second | times ours |\n|---|---|---|---|")
    for name, found in seconds.items():
        middle = statistics.median(found)
        print(f"| {name} | {middle:.2f} | {count / middle:.0f} | {middle / ours:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
