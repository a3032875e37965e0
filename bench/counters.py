"""`counters --interval 1` on a large host: what it costs beside the same on one HCA.

The interval itself costs nothing: its work is CPU time, of the process and its children. The
hosts are plain files and recorded netlink replies (bench.live).
"""

import os
import sys

from bench.child import Command, CouldNotRun, measure
from bench.pairs import in_turn, median
from bench.table import Section, code, limit, ms
from bench.trees import PORTS

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIZES = (1, 64)  # HCAs
MOST_MS = 150.0
SECONDS = 60.0  # for one run
FORMS = ("text", "json")


def _command(folder: str, hcas: int, form: str) -> Command:
    start = f"import sys; sys.path.insert(0, {CHECKOUT!r}); from bench.live import main; "
    host = os.path.join(folder, f"counters-{hcas}")
    run = f"sys.exit(main({host!r}, 'counters', '--interval', '1', '-o', {form!r}))"
    name = f"rdmadiag counters --interval 1 -o {form}, {hcas} HCAs"
    return Command(name, (sys.executable, "-c", start + run))


def _write(folder: str) -> None:
    write = f"import sys; sys.path.insert(0, {CHECKOUT!r}); from bench.counters import main; "
    argv = (sys.executable, "-c", f"{write}main({folder!r})")
    measure(Command("python -m bench.counters", argv), SECONDS)


def counters(folder: str, rounds: int) -> Section:
    """CPU time at 64 HCAs less that at 1, which is start-up, with that HCA's share put back."""
    section = Section(
        "Counters",
        f"Two samples, an interval apart, of {PORTS} ports each HCA with 21 counters of the port, "
        "25 of the driver by two witnesses, 26 of the netdev and pause frames: CPU time of the "
        "process and its children. Its own work is (t(64) - t(1)) * 64 / 63: start-up is taken to "
        "be the same command on 1 HCA without that HCA's share.",
        ("form", "ms at 1 HCA", "ms at 64 HCAs", "own work, ms", "limit", "holds"),
    )
    try:
        _write(folder)
        for form in FORMS:
            small, large = (_command(folder, hcas, form) for hcas in SIZES)
            costs = in_turn((small, large), rounds, SECONDS)
            one = median([cost.cpu for cost in costs[small]])
            many = median([cost.cpu for cost in costs[large]])
            own = (many - one) * SIZES[1] / (SIZES[1] - SIZES[0])
            row = (code(form), ms(one), ms(many), ms(own), *limit(own * 1000, MOST_MS, " ms"))
            section.rows.append(row)
    except CouldNotRun as failure:
        section.failures.append(str(failure))
    return section


def main(folder: str) -> None:
    """Write the hosts below `folder`, every file in its place."""
    from lab.machine import big_host, with_counters
    from rdmadiag.host.recording import write_folder

    for hcas in SIZES:
        recording = with_counters(big_host(hcas, PORTS, gids=4, filled=4)).recording()
        files = {f"root{path}": content for path, content in recording.files.items()}
        files |= {f"netlink/{name}.bin": content for name, content in recording.netlink.items()}
        write_folder(files, os.path.join(folder, f"counters-{hcas}"))
