"""The tables in one document, what they were taken on, and how to repeat them."""

import os
import platform
from collections.abc import Sequence

from bench.pairs import LEAST_PAIRS
from bench.table import Section


def document(
    sections: Sequence[Section], rounds: int, load: float, *, lab: bool, only: Sequence[str] = ()
) -> str:
    """Markdown. `load` is the load average of the last minute before the start."""
    head = _head(rounds, load, lab=lab, only=only)
    return "\n\n".join((head, *(each.text() for each in sections))) + "\n"


def _head(rounds: int, load: float, *, lab: bool, only: Sequence[str]) -> str:
    arguments = f" --rounds {rounds}" + (" --lab" if lab else "")
    arguments += "".join(f" {name}" for name in only)
    cpus = len(os.sched_getaffinity(0))
    taken = (
        f"Taken on {cpus} CPUs, {platform.machine()}, Python {platform.python_version()}, "
        f"{platform.system()}, load average {load:.2f} at the start. {rounds} counted rounds after "
        "one that is not counted; in a round all that is compared runs in turn."
    )
    repeat = (
        f"Repeat: `.venv/bin/python -m bench{arguments}` took these figures; `make bench` sets up "
        "what is needed first. `--lab` needs root on Debian and boots an emulated host. Files of "
        "1 GB are written below the folder for temporary files and removed."
    )
    lines = ["# What rdmadiag costs", taken, repeat]
    if rounds < LEAST_PAIRS:
        lines.insert(
            1, f"**A trial: {rounds} rounds are fewer than the {LEAST_PAIRS} that count.**"
        )
    if not lab and not only:
        lines.append("This run was without `--lab`: no comparison with other tools.")
    return "\n\n".join(lines)
