"""Makes the faults in the lab: `python -m faults.run [--open | --held-out] [NAME|FAMILY…]`.

Each guest, a User Mode Linux kernel, makes some of them in turn. What they record goes
to faults/records.
"""

import argparse
import json
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Final

from faults.table import HERE, Fault, faults, held_out
from lab import uml
from lab.boot import Guest, Job, watch
from lab.failure import LabFailure
from lab.prepare import prepare
from lab.results import claim
from lab.uml_kernel import uml_kernel
from lab.uml_module import setting

SECONDS: Final = 7200.0
A_GUEST: Final = 12
"""Faults of one guest: what one leaves behind does not reach many others."""
KEEP_SECONDS: Final = 3.0
ALONE: Final = ("kernel-log", "neighbour-limits", "netns-exclusive")
"""A guest of their own: their log, their limits and their mode are the kernel's."""
PRINTK: Final = "RDMADIAG_LAB_PRINTK"
"""Where a guest finds the module that has the kernel say a line (lab/printk)."""
RECORDS: Final = HERE / "records"


def main(argv: list[str]) -> int:
    """0 if every fault was made and took effect."""
    parser = argparse.ArgumentParser(prog="python -m faults.run", description=__doc__)
    parser.add_argument("--open", action="store_true", help="the families that are tuned on")
    parser.add_argument("--held-out", action="store_true", help="those that the seed drew")
    parser.add_argument("--missing", action="store_true", help="those without a record")
    parser.add_argument("--deadline", type=float, default=SECONDS, help="seconds for all")
    parser.add_argument("names", nargs="*", help="faults, families or twins")
    known = parser.parse_args(argv)
    names = list(dict.fromkeys(wanted(known.open, known.held_out, known.names)))
    if known.missing:
        names = [name for name in names if not (RECORDS / f"{name}.json").exists()]
    if not names:
        parser.error("no such fault")
    try:
        prepare()
        return guests(names, known.deadline)
    except LabFailure as failure:
        print(f"faults: {failure}", file=sys.stderr)
        return failure.exit_code


def wanted(only_open: bool, only_held: bool, names: list[str]) -> list[str]:
    """Names of faults, and of their twins after them."""
    drawn = held_out()
    rows: list[Fault] = []
    for each in faults():
        held = each.family in drawn
        if (only_open and held) or (only_held and not held):
            continue
        if not names or {each.name, each.family, *each.twins, "healthy"} & set(names):
            rows.append(each)
    twins = [name for each in rows for name in each.twins]
    if names and all(name.startswith("healthy") for name in names):
        return [name for name in twins if name in names or "healthy" in names]
    return [each.name for each in rows] + twins


def guests(names: list[str], seconds: float) -> int:
    """The highest exit code."""
    folder = claim("faults") / "guest"
    kernel = uml_kernel("7.2")
    uml.compile_checkout()
    env = {"RDMADIAG_LAB": "faults"}
    if any(name.startswith("kernel-log") for name in names):
        env |= setting(PRINTK, kernel, "printk")
    deadline = time.monotonic() + seconds
    code = 0
    for some in batches(names):
        shutil.rmtree(folder, ignore_errors=True)
        job = Job([sys.executable, "-m", "faults.inside", *some], env)
        start = partial(uml.start, Guest("faults", folder), kernel, job)
        with ended(folder, some):
            boot = watch([start], deadline, side_by_side=1)[0]
        try:
            code = max(code, boot.exit_code())
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            print(f"{boot.seconds:.0f} s, CPU {used.ru_utime + used.ru_stime:.0f} s", flush=True)
        except LabFailure as failure:
            print(f"faults: {failure}", file=sys.stderr)
            code = max(code, failure.exit_code)
    return code


def batches(names: list[str]) -> list[list[str]]:
    """The faults of each guest."""
    alone = [name for name in names if name.startswith(ALONE)]
    rest = [name for name in names if name not in alone]
    together = [rest[start : start + A_GUEST] for start in range(0, len(rest), A_GUEST)]
    return [*together, *([name] for name in alone)]


@contextmanager
def ended(folder: Path, names: list[str]) -> Iterator[None]:
    """Keep what each fault recorded as it ends: the guest may be late, or be stopped."""
    done = Event()

    def look() -> None:
        left = list(names)
        while left:
            is_last = done.wait(KEEP_SECONDS)
            for name in [each for each in left if (folder / each / "record.json").exists()]:
                keep(folder / name, name)
                left.remove(name)
            if is_last:
                return

    thread = Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def keep(made: Path, name: str) -> None:
    """Put what a guest recorded of a fault in its place, if it took effect."""
    if not json.loads((made / "record.json").read_text())["took_effect"]:
        return
    RECORDS.mkdir(exist_ok=True)
    shutil.copyfile(made / "record.json", RECORDS / f"{name}.json")
    for snapshot in made.glob("*.tar.gz"):
        shutil.copyfile(snapshot, RECORDS / f"{name}.{snapshot.name}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
