"""python -m bench.history: a year of daily merges of 10,000 hosts, and what asking for one costs.

The file is built as `fleet merge --history` builds it, merge by merge, from the facts of a sample:
each day some hosts break or mend, some change a fact, the median of ten pairs is noise of 2 %
(5 % of each), and twice in the year every host gets another kernel. Then `rdmadiag fleet history`
runs, as a process, for nodes that nobody has asked for. Prints one table; exits 1 where an answer
took a second.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from rdmadiag.fleet.fact_table import HostFacts, facts_of
from rdmadiag.fleet.history import DAY, PairFigures, Said, add
from rdmadiag.host.history_file import history_file
from rdmadiag.preflight.verdict import Status

START = 1_767_225_600
LIMIT = 1.0  # seconds
ASKED = 20  # nodes
BREAK = 0.01  # of the hosts, each day
CHANGE = 0.02
UPDATES = (120, 240)  # days
STATUSES = tuple(Status)
TABLES = ("runs", "said", "changes", "pairs")


def main() -> int:
    """0, or 1 if an answer took as long as LIMIT."""
    parser = argparse.ArgumentParser(prog="python -m bench.history", description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=365)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "fleet.db")
        took, busy = zip(*_built(path, given.hosts, given.days), strict=True)
        names = [f"node{at:05}" for at in random.Random(2).sample(range(given.hosts), ASKED)]  # noqa: S311
        asked = [_took("fleet", "history", name, "--history", path) for name in names]
        start_up = [_took("--version") for _ in names]
        print(f"hosts, days, rows      {given.hosts}, {given.days}, {given.hosts * given.days}")
        with history_file(path, 10, create=False) as connection:
            for table in TABLES:
                rows = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
                print(f"rows of {table:<14} {rows}")
        print(f"file                   {os.path.getsize(path) / 1e6:.0f} MB")
        print(f"add: first, median     {took[0]:.2f} s, {statistics.median(took):.2f} s")
        print(f"add: slowest, last     {max(took):.2f} s, {took[-1]:.2f} s")
        print(f"  CPU: slowest, median {max(busy):.2f} s, {statistics.median(busy):.2f} s")
        print(
            f"fleet history NODE     {statistics.median(asked):.2f} s, at most {max(asked):.2f} s"
        )
        print(f"rdmadiag --version     {statistics.median(start_up):.2f} s")
        return int(max(asked) >= LIMIT)


def _built(path: str, hosts: int, days: int) -> Iterator[tuple[float, float]]:
    """Seconds that each merge took to add, and those of the CPU alone."""
    picked = random.Random(1)  # noqa: S311
    made = subprocess.run(
        (sys.executable, "-m", "rdmadiag", "preflight", "--sample", "infiniband-two-hca", "--json"),
        stdout=subprocess.PIPE,
        check=False,
    )
    base = dict(facts_of(json.loads(made.stdout)))
    facts = [
        HostFacts(base | {"hostname": f"node{at:05}", "adapter[0].node_guid": f"{at:016x}"})
        for at in range(hosts)
    ]
    status = [Status.OK] * hosts
    for day in range(days):
        for at in range(hosts):
            if picked.random() < BREAK:
                status[at] = picked.choice(STATUSES)
            if picked.random() < CHANGE:
                other = {"adapter[1].firmware": f"20.{picked.randrange(50)}.1014"}
                facts[at] = HostFacts({**facts[at], **other})
            if day in UPDATES:
                facts[at] = HostFacts({**facts[at], "kernel": f"6.{day}.0"})
        merge = {
            f"node{at:05}": Said(
                status[at],
                () if status[at] is Status.OK else ("link-not-up",),
                {},
                facts[at],
                PairFigures(10, 0, picked.gauss(2.1, 0.042), picked.gauss(390, 7.8)),
            )
            for at in range(hosts)
        }
        start, worked = time.perf_counter(), time.process_time()
        with history_file(path, 10, create=True) as connection:
            assert add(connection, START + day * DAY, merge)
        yield time.perf_counter() - start, time.process_time() - worked


def _took(*argv: str) -> float:
    """Seconds."""
    start = time.perf_counter()
    subprocess.run(
        (sys.executable, "-m", "rdmadiag", *argv), stdout=subprocess.DEVNULL, check=False
    )
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
