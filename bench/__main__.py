"""python -m bench: what rdmadiag costs beside its imports, on large hosts, beside its peers, and
beside another checkout of it.

Prints the tables, and writes them where --out says. A missed limit is a result, not an error:
the exit code is 1 only if something could not run. Linux only.
"""

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence

from bench.against import against
from bench.child import Command, CouldNotRun, measure
from bench.counters import counters
from bench.emulated import emulated
from bench.explain import explain
from bench.fleet import fleet
from bench.growth import growth
from bench.job import RANKS, job
from bench.memory import memory
from bench.results import document
from bench.rules import rules, sources
from bench.stacks import stacks
from bench.startup import startup
from bench.table import Section

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROUNDS = 15
TREES_SECONDS = 300.0
LOG_MIB = 1024
OF_TREES = {"rules", "sources", "growth", "stacks", "memory"}
"""Sections that need large hosts as folders of files."""
SECTIONS = (
    *("startup", "rules", "sources", "growth", "stacks", "memory"),
    *("counters", "explain", "fleet"),
)


def main() -> int:
    """0, or 1 if something could not run."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--rounds", type=_positive, default=ROUNDS, metavar="N", help="default: %(default)s"
    )
    parser.add_argument(
        "--log-mib",
        type=_positive,
        default=LOG_MIB,
        metavar="MIB",
        help="size of the log for explain; default: %(default)s",
    )
    parser.add_argument(
        "--job-ranks",
        type=_positive,
        default=RANKS,
        metavar="N",
        help="logs of 10 MiB for job, which is run where it is named; default: %(default)s",
    )
    parser.add_argument("--lab", action="store_true", help="also beside the peers, on a guest")
    parser.add_argument(
        "--against",
        type=os.path.abspath,
        metavar="DIR",
        help="also beside another checkout, with its .venv, such as the commit before",
    )
    parser.add_argument("--out", metavar="FILE", help="write the tables there, too")
    parser.add_argument(
        "sections",
        nargs="*",
        choices=[[], *SECTIONS, "lab", "job"],
        metavar="SECTION",
        help=f"only these: {', '.join((*SECTIONS, 'lab', 'job'))}; default: all but the last two",
    )
    options = parser.parse_args()
    if sys.platform != "linux":
        parser.error("wait4, pidfd and /proc as they are on Linux")
    load = os.getloadavg()[0]
    chosen = options.sections or [*SECTIONS, *(["lab"] if options.lab else [])]
    with tempfile.TemporaryDirectory(prefix="rdmadiag-bench-") as folder, _inside(folder):
        sections = list(_sections(chosen, folder, options))
    text = document(sections, options.rounds, load, lab=options.lab, only=options.sections)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(text)
    print(text, end="")
    return int(any(section.failures for section in sections))


def _sections(chosen: Sequence[str], folder: str, options: argparse.Namespace) -> Iterator[Section]:
    """One after the other; those that need large hosts not where these could not be made."""
    ready = True
    if OF_TREES & set(chosen) or options.against:
        try:
            _write_trees(folder)
        except CouldNotRun as failure:
            ready = False
            yield Section("Growth and memory", "", (), failures=[str(failure)])
    rounds = options.rounds
    run: Mapping[str, Callable[[], Section]] = {
        "startup": lambda: startup(rounds),
        "rules": lambda: rules(folder, rounds),
        "sources": lambda: sources(folder, rounds),
        "growth": lambda: growth(folder, rounds),
        "stacks": lambda: stacks(folder, rounds),
        "memory": lambda: memory(folder),
        "counters": lambda: counters(folder, rounds),
        "explain": lambda: explain(folder, rounds, options.log_mib),
        "fleet": lambda: fleet(folder),
        "job": lambda: job(folder, min(rounds, 3), options.job_ranks),
    }
    for name in chosen:
        if name != "lab" and (ready or name not in OF_TREES):
            yield run[name]()
    if options.against and ready:
        yield from against(options.against, folder, rounds)
    if "lab" in chosen:
        yield from emulated(rounds)


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _write_trees(folder: str) -> None:
    code = f"import sys; sys.path.insert(0, {CHECKOUT!r}); from bench.trees import main; "
    argv = (sys.executable, "-c", f"{code}main({folder!r})")
    measure(Command("python -m bench.trees", argv), TREES_SECONDS)


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    """Work in an empty folder: `python -c` looks for modules where it is started."""
    empty = os.path.join(folder, "empty")
    os.mkdir(empty)
    with contextlib.chdir(empty):
        yield


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
