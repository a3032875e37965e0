"""python -m lab COMMAND: emulated RDMA hosts and a simulated InfiniBand fabric for tests/lab."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from lab.command import stop
from lab.failure import EX_LATE, EX_USAGE, LabFailure
from lab.guest import guest, shell
from lab.places import CHECKOUT
from lab.prepare import prepare
from lab.results import claim
from lab.two import two

TESTED = ("fabric", "guest", "replay", "two")  # commands that run tests/lab/<command>
DEADLINE_SECONDS = 3300.0  # for one of them, from its start to its end


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EX_USAGE, f"{self.prog}: {message}\n")


def main() -> int:
    parser = _Parser(prog="python -m lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, about in (
        ("prepare", "install Debian packages and fetch a kernel; safe to repeat"),
        ("fabric", "run tests/lab/fabric on a simulated InfiniBand fabric"),
        ("guest", "boot one emulated host and run tests/lab/guest on it"),
        ("replay", "read back here what tests/lab/guest recorded in its last run"),
        ("two", "boot two connected hosts and run tests/lab/two on both"),
        ("all", "prepare and every lab, with a table of what they took"),
        ("shell", "a root shell on an emulated host with rxe0 and rxe1"),
    ):
        takes = name in TESTED
        usage = f"%(prog)s{' [--deadline SECONDS] [PYTEST ARGUMENT…]' if takes else ''}"
        command = commands.add_parser(
            name, help=about, description=about, usage=usage, allow_abbrev=False
        )
        if takes:
            command.add_argument("--deadline", type=float, default=DEADLINE_SECONDS)
    known, extra = parser.parse_known_args()
    if extra and known.command not in TESTED:
        parser.error(f"{known.command} takes no arguments")
    try:
        return _run(known.command, extra, getattr(known, "deadline", DEADLINE_SECONDS))
    except LabFailure as failure:
        print(f"lab: {failure}", file=sys.stderr)
        return failure.exit_code
    except KeyboardInterrupt:
        return 130


def _run(command: str, pytest_args: Sequence[str], seconds: float) -> int:
    match command:
        case "prepare":
            return _prepare()
        case "fabric" | "replay":
            return _here(command, pytest_args, seconds)
        case "guest":
            return guest(pytest_args, seconds)
        case "two":
            return two(pytest_args, seconds)
        case "shell":
            return shell()
        case _:
            return _all(seconds)


def _prepare() -> int:
    kernel = prepare()
    print(f"ready: {kernel.release} in {kernel.root}")
    return 0


def _here(lab: str, pytest_args: Sequence[str], seconds: float) -> int:
    """A lab that needs no guest."""
    out = claim(lab)
    argv = [sys.executable, "-m", "pytest", f"--junitxml={out}/junit.xml", f"tests/lab/{lab}"]
    env = dict(os.environ, RDMADIAG_LAB=lab, RDMADIAG_LAB_OUT=str(out))
    child = subprocess.Popen(
        [*argv, *pytest_args], cwd=CHECKOUT, env=env, stdin=subprocess.DEVNULL, process_group=0
    )
    try:
        return child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise LabFailure(f"still running at the deadline, killed: {lab}", EX_LATE) from None
    finally:
        stop(child)


def _all(seconds: float) -> int:
    """Each lab in turn, also after one has failed; none without `prepare`."""
    labs: dict[str, Callable[[], int]] = {
        "prepare": _prepare,
        "fabric": lambda: _here("fabric", [], seconds),
        "guest": lambda: guest([], seconds),
        "replay": lambda: _here("replay", [], seconds),
        "two": lambda: two([], seconds),
    }
    rows: list[tuple[str, int, float]] = []
    for name, start in labs.items():
        print(f"== {name}", flush=True)
        began = time.monotonic()
        try:
            code = start()
        except LabFailure as failure:
            print(f"lab: {name}: {failure}", file=sys.stderr)
            code = failure.exit_code
        rows.append((name, code, time.monotonic() - began))
        if name == "prepare" and code != 0:
            break
    print(f"{'lab':8} {'exit':>4} {'seconds':>8}")
    for name, code, seconds in rows:
        print(f"{name:8} {code:4} {seconds:8.1f}")
    return max(code for _, code, _ in rows)


if __name__ == "__main__":
    sys.exit(main())
