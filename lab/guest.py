"""tests/lab/guest: in User Mode Linux kernels side by side, or in one QEMU guest; and a shell."""

import shutil
import sys
import termios
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from lab import dcb_module, pci_bus, qemu, sshd, uml
from lab.boot import GUEST_OUT, Boot, Guest, Job, watch
from lab.failure import LabFailure
from lab.image import image
from lab.kernel import stock_kernel
from lab.plan import Part, Shard, form, shards, shards_of
from lab.results import claim, failed
from lab.siw_module import add_siw
from lab.uml_kernel import uml_kernel

SIDE_BY_SIDE = 3  # kernels at a time, mostly of one CPU: with `two` beside them, all it has
AGAIN = "-again"
RECORDED = "recorded"  # in an out folder: what tests/lab/replay reads
ENV = {"RDMADIAG_LAB": "guest"}
INTERACTIVE = "python -m lab.rxe && exec bash --norc -i"


def guest(part: Part, pytest_args: Sequence[str], seconds: float) -> int:
    """Run the part; the highest exit code of its guests. Results are in lab/out/<part>.

    Without arguments of pytest the part's own tests or the shards of lab/plan.toml run, and with
    some of them one guest. What fails in a shard runs once more, alone, and that counts.
    `seconds` is for all of it: boot, tests, power off.
    """
    out = claim(part.name)
    deadline = time.monotonic() + seconds
    if part.machine == "qemu":
        argv = pytest_argv(part, pytest_args)
        bus = {"options": pci_bus.OPTIONS, "append": pci_bus.APPEND} if part.pci else {}
        who, job = Guest(part.name, out), Job(argv, ENV | form(part, pytest_args))
        stock = stock_kernel(part.kernel)
        if not part.short and not part.kernel:
            add_siw(stock)
        start = partial(qemu.start, who, stock, image(), job, **bus)
        return watch([start], deadline, side_by_side=1)[0].exit_code()
    kernel = uml_kernel(part.kernel)
    uml.compile_checkout()
    env = ENV | form(part, pytest_args) | dcb_module.settings(kernel) | sshd.settings()
    if pytest_args or part.tests:
        argv = pytest_argv(part, pytest_args or _files(part.tests))
        who = Guest(part.name, out, cpus=cpus_of(argv))
        start = partial(uml.start, who, kernel, Job(argv, env))
        return watch([start], deadline, side_by_side=1)[0].exit_code()
    starts: list[Callable[[], Boot]] = [
        partial(uml.start, _sharded(shard, out), kernel, Job(_shard_argv(part, shard), env))
        for shard in shards_of(part)
    ]
    boots = watch(starts, deadline, side_by_side=SIDE_BY_SIDE)
    wrong = {boot.guest.name: boot for boot in boots if code_of(boot)[0] != 0}
    code = summary(boots)
    if again := [shard for shard in shards_of(part) if shard.name in wrong]:
        # Of tests with a clock, one or two of a thousand fail beside two busy kernels.
        second = watch(
            [
                partial(uml.start, _sharded(shard, out, AGAIN), kernel, Job(argv, env))
                for shard in again
                for argv in [pytest_argv(part, failed(out / shard.name) or _files(shard.tests))]
            ],
            deadline,
            side_by_side=1,
        )
        code = summary(second)
        boots += second
    for boot in boots:
        _gather(boot.guest.out / RECORDED, out / RECORDED)
    return code


def summary(boots: Sequence[Boot]) -> int:
    """Print a line for each guest; the highest exit code, 69 for one that died."""
    codes = []
    for boot in boots:
        code, what = code_of(boot)
        codes.append(code)
        took = f"{boot.seconds:7.1f} s, {boot.processor:6.1f} of a processor"
        print(f"{boot.guest.name:16} {took}  {what}")
    return max(codes)


def code_of(boot: Boot) -> tuple[int, str]:
    """The exit code of an ended guest, and the words for it."""
    try:
        code = boot.exit_code()
    except LabFailure as failure:
        return failure.exit_code, str(failure)
    return code, f"exit code {code}"


def shell(machine: str) -> int:
    """An interactive shell on a guest with rxe0 and rxe1; ends when the person leaves it."""
    if not sys.stdin.isatty():
        raise LabFailure("the shell needs a terminal")
    person = Guest("shell", claim("shell"))
    before = termios.tcgetattr(sys.stdin)
    try:
        if machine == "qemu":
            job = Job(["bash", "-c", INTERACTIVE], ENV)
            return qemu.shell(person, stock_kernel(), image(), job)
        # The console controls no terminal; tty0, which is the same, can.
        script = f"exec setsid --ctty --wait bash -c {INTERACTIVE!r} <>/dev/tty0 >&0 2>&1"
        return uml.shell(person, uml_kernel(), Job(["bash", "-c", script], ENV))
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


def pytest_argv(part: Part, extra: Sequence[str]) -> list[str]:
    """The command that the part's tests, or what `extra` names of them, take in a guest."""
    folder = [] if any(arg.startswith("tests/lab/") for arg in extra) else [f"tests/lab/{part.lab}"]
    only = ["-m", part.only] if part.only and not extra else []
    report = f"--junitxml={GUEST_OUT}/junit.xml"
    return ["pytest", "-p", "no:cacheprovider", "--tb=short", report, *folder, *only, *extra]


def _sharded(shard: Shard, out: Path, suffix: str = "") -> Guest:
    name = f"{shard.name}{suffix}"
    return Guest(name, out / name, cpus=shard.cpus, prefix=f"{name:10.16} | ")


def cpus_of(argv: Sequence[str]) -> int:
    """As many as the shards of the files have that it names."""
    named = {Path(arg.partition("::")[0]).name for arg in argv}
    return max((shard.cpus for shard in shards() if named & set(shard.tests)), default=1)


def _shard_argv(part: Part, shard: Shard) -> list[str]:
    return pytest_argv(part, _files(shard.tests))


def _files(names: Sequence[str]) -> list[str]:
    return [f"tests/lab/guest/{name}" for name in names]


def _gather(source: Path, target: Path) -> None:
    """Move what a shard recorded to where all have it."""
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
        shutil.rmtree(source)
