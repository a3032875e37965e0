"""python -m lab COMMAND: RDMA hosts on a machine that has none, for tests/lab."""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NoReturn

from lab.command import stop
from lab.failure import EX_LATE, EX_USAGE, LabFailure
from lab.guest import guest, shell
from lab.kernel import stock_kernel
from lab.places import CHECKOUT
from lab.plan import SHORT, Part, long_form, parts
from lab.prepare import prepare
from lab.results import claim, failures
from lab.two import two
from lab.uml_kernel import uml_kernel

DEADLINE_SECONDS = 1800.0  # for one part, from its start to its end
MACHINES = {
    "here": "on this machine",
    "uml": "in User Mode Linux",
    "qemu": "on Debian's stock kernel under QEMU",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EX_USAGE, f"{self.prog}: {message}\n")


def main() -> int:
    plan = {part.name: part for part in parts()}
    parser = _parser(plan.values())
    known, extra = parser.parse_known_args()
    if extra and known.command not in plan:
        parser.error(f"{known.command} takes no such arguments: {' '.join(extra)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # guests end too
    try:
        match known.command:
            case "prepare":
                return _prepare(plan.values())
            case "short":
                os.environ[SHORT] = "1"
                return _several([part for part in plan.values() if part.short])
            case "all":
                return _several(long_form())
            case "shell":
                prepare()
                return shell(known.machine)
            case name:
                prepare()
                return _run(plan[name], extra, known.deadline)
    except LabFailure as failure:
        print(f"lab: {failure}", file=sys.stderr)
        return failure.exit_code
    except KeyboardInterrupt:
        return 130


def _parser(plan: Iterable[Part]) -> _Parser:
    parser = _Parser(prog="python -m lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, about in (
        ("prepare", "install Debian packages, find or build kernels; safe to repeat"),
        ("short", "prepare and the parts of the short form, with a table of what they took"),
        ("all", "prepare and every part, with a table"),
        ("shell", "a root shell on a host with rxe0 and rxe1"),
    ):
        command = commands.add_parser(name, help=about, description=about, allow_abbrev=False)
        if name == "shell":
            command.add_argument("--machine", choices=("uml", "qemu"), default="uml")
    for part in plan:
        about = f"tests/lab/{part.lab} {MACHINES[part.machine]}"
        about += f" {part.kernel}" if part.kernel else f" (-m {part.only!r})" if part.only else ""
        usage = "%(prog)s [--deadline SECONDS] [PYTEST ARGUMENT…]"
        command = commands.add_parser(
            part.name, help=about, description=about, usage=usage, allow_abbrev=False
        )
        command.add_argument("--deadline", type=float, default=DEADLINE_SECONDS)
    return parser


def _prepare(wanted: Iterable[Part]) -> int:
    """What these parts need."""
    prepare()
    machines = {(part.machine, part.kernel) for part in wanted}
    for machine, version in sorted(machines):
        if machine == "uml":
            print(f"ready: {uml_kernel(version).program}")
        elif machine == "qemu":
            print(f"ready: {stock_kernel(version).image}")
    return 0


def _run(part: Part, pytest_args: Sequence[str], seconds: float) -> int:
    run = {"guest": guest, "two": two}.get(part.lab, _here)
    return run(part, pytest_args, seconds)


def _here(part: Part, pytest_args: Sequence[str], seconds: float) -> int:
    """A part that needs no guest."""
    out = claim(part.name)
    argv = [sys.executable, "-m", "pytest", f"--junitxml={out}/junit.xml", f"tests/lab/{part.lab}"]
    env = dict(os.environ, RDMADIAG_LAB=part.lab, RDMADIAG_LAB_OUT=str(out))
    child = subprocess.Popen(
        [*argv, *pytest_args], cwd=CHECKOUT, env=env, stdin=subprocess.DEVNULL, process_group=0
    )
    try:
        return child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise LabFailure(f"still running at the deadline, killed: {part.name}", EX_LATE) from None
    finally:
        stop(child)


def _several(wanted: Sequence[Part]) -> int:
    """Each part in turn, also after one has failed; none without `prepare`."""
    steps: dict[str, Callable[[], int]] = {"prepare": lambda: _prepare(wanted)}
    for part in wanted:
        steps[part.name] = partial(_run, part, [], DEADLINE_SECONDS)
    rows: list[tuple[str, int, float]] = []
    with ExitStack() as begun:
        for name, start in steps.items():
            print(f"== {name}", flush=True)
            began = time.monotonic()
            for part in wanted:
                if part.beside == name:
                    steps[part.name] = begun.enter_context(_begun(part)).wait
            try:
                code = start()
            except LabFailure as failure:
                print(f"lab: {name}: {failure}", file=sys.stderr)
                code = failure.exit_code
            rows.append((name, code, time.monotonic() - began))
            if name == "prepare" and code != 0:
                break
    print(f"{'part':10} {'exit':>4} {'seconds':>8}   load average {os.getloadavg()[1]:.1f}")
    for name, code, seconds in rows:
        print(f"{name:10} {code:4} {seconds:8.1f}")
    for name, _, _ in rows:
        for line in failures(name):
            print(f"failed: {line}")
    return max(code for _, code, _ in rows)


@contextmanager
def _begun(part: Part) -> Iterator["subprocess.Popen[bytes]"]:
    """The part in a process of its own, which ends by itself at the part's deadline."""
    child = subprocess.Popen(
        [sys.executable, "-m", "lab", part.name], cwd=CHECKOUT, stdin=subprocess.DEVNULL
    )
    try:
        yield child
    finally:
        child.terminate()  # its own handler ends its guests
        try:
            child.wait(60.0)
        except subprocess.TimeoutExpired:
            child.kill()


if __name__ == "__main__":
    sys.exit(main())
