"""Each command, ended by each signal at many moments, while its caller holds a pipe.

The caller is whoever wrote `$(rdmadiag …)`: it waits until nobody holds that pipe any more. So
the pipe must end soon after the command, with no child of it left and no file half written.
"""

import ctypes
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from campaign.corpus import CHECKOUT
from campaign.result import Held, Result

SIGNALS: Final = (
    *(signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGXCPU, signal.SIGABRT),
)
"""Those that end a process which does not want them, and that somebody sends."""

MOMENTS: Final = 100
_SHORT: Final = 2  # moments of the first three signals
SECONDS: Final = 15.0  # until the pipe ends and no child is left; on an idle machine 0.1

_PR_SET_CHILD_SUBREAPER: Final = 36  # linux/prctl.h: whoever loses its parent becomes our child

_RUN: Final = "from rdmadiag.__main__ import main; main()"
_HANGS: Final = f"""
import signal, rdmadiag.sources.process as process
def read(*_, **__):
    while True: signal.pause()
process.read_process = read
{_RUN}
"""
_CHILD_HANGS: Final = f"""
import sys, time, rdmadiag.sources.process as process
from rdmadiag.host import command
def read(*_, **__):
    command.run(["sleep", "600"], time.monotonic() + 600)
process.read_process = read
{_RUN}
"""

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "preflight": (_RUN, "preflight"),
    "preflight --json": (_RUN, "preflight --json"),
    "preflight --output": (_RUN, "preflight --json --sample roce-healthy --output OUT/file"),
    "preflight, a source hangs": (_HANGS, "preflight --timeout 20"),
    "preflight, a command hangs": (_CHILD_HANGS, "preflight --timeout 20"),
    "gids": (_RUN, "gids"),
    "gids --from": (_RUN, "gids --from RECORD"),
    "gids --from, a source hangs": (_HANGS, "preflight --from RECORD"),
    "gids --explain": (_RUN, "gids --explain --sample container-without-uverbs"),
    "devices": (_RUN, "devices"),
    "counters": (_RUN, "counters --interval 0.2"),
    "counters --watch": (_RUN, "counters --watch --interval 0.1"),
    "resources": (_RUN, "resources"),
    "explain": (_RUN, "explain errno 110"),
    "explain --log -": (_RUN, "explain --log -"),
    "explain --log PIPE": (_RUN, "explain --log PIPE"),
    "pingpong": (_RUN, "pingpong --allow-rtr --listen 127.0.0.1:1"),
    "expect": (_RUN, "expect --sample roce-healthy --output OUT/file"),
    "snapshot DIR": (_RUN, "snapshot --sample roce-healthy OUT/copy"),
    "snapshot FILE": (_RUN, "snapshot --sample roce-healthy OUT/copy.tar.gz"),
    "samples": (_RUN, "samples"),
    "schema": (_RUN, "schema preflight"),
}
"""What is run, as which program."""

_WAIT: Final = frozenset(
    {"preflight, a source hangs", "preflight, a command hangs", "gids --from, a source hangs"}
    | {"counters --watch", "explain --log -", "explain --log PIPE"}
)
"""Those that end by a signal alone, or at a deadline that is far away."""

_EOF: Final = f"the caller's pipe ends within {SECONDS:g} s of the signal"
_CHILD: Final = "no process of the command is left"
_FILE: Final = "no temporary file is left but by SIGKILL, and no file that is not whole"
_TRACE: Final = "no traceback is printed"


class _Case(NamedTuple):
    command: str
    number: int
    seconds: float  # after its start
    folder: Path
    record: Path


@dataclass(frozen=True)
class _Ended:
    case: _Case
    pipe: str = ""  # what is wrong with it
    child: str = ""
    file: str = ""
    trace: str = ""


def run(short: bool, seed: int, folder: Path, seconds: float) -> Result:
    """See campaign.result."""
    began = time.monotonic()
    random = Random(seed)
    record = folder / "record.tar.gz"
    _rdmadiag("snapshot", "--sample", "roce-healthy", str(record))
    lasts = {name: _lasts(name, folder, record) for name in COMMANDS}
    cases = [
        _Case(name, number, random.uniform(0, lasts[name]), folder, record)
        for name in COMMANDS
        for number in (SIGNALS[:3] if short else SIGNALS)
        for _ in range(_SHORT if short else MOMENTS)
    ]
    cases = [case._replace(folder=folder / f"case-{at}") for at, case in enumerate(cases)]
    random.shuffle(cases)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn"), _adopt) as pool:
        limit = began + seconds
        ended = [each for each in pool.map(_within(limit), cases, chunksize=4) if each]
    held = [
        Held(_EOF, len(ended), [_line(each, each.pipe) for each in ended if each.pipe]),
        Held(_CHILD, len(ended), [_line(each, each.child) for each in ended if each.child]),
        Held(_FILE, len(ended), [_line(each, each.file) for each in ended if each.file]),
        Held(_TRACE, len(ended), [_line(each, each.trace) for each in ended if each.trace]),
    ]
    return Result("signals", len(ended), held, time.monotonic() - began)


@dataclass(frozen=True)
class _within:  # noqa: N801  # a function that travels to a worker
    """Nothing more after `limit`, on time.monotonic's clock: the cases are in random order."""

    limit: float

    def __call__(self, case: _Case) -> _Ended | None:
        return _end(case) if time.monotonic() < self.limit else None


def _line(ended: _Ended, problem: str) -> str:
    case = ended.case
    name = signal.Signals(case.number).name
    return f"{case.command}, {name} after {case.seconds:.3f} s: {problem}"


def _rdmadiag(*arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "rdmadiag", *arguments],
        cwd=CHECKOUT,
        stdout=subprocess.DEVNULL,
        check=False,
        timeout=60,
    )


def _adopt() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A shell's background job, as this may be, ignores the first two, and what nohup(1) starts
    # the third: so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _lasts(name: str, folder: Path, record: Path) -> float:
    """Seconds of the command by itself; of one that waits, until it does."""
    if name in _WAIT:
        name = "preflight"
    case = _Case(name, signal.SIGKILL, 60.0, folder / "by-itself", record)
    began = time.monotonic()
    with _start(case) as child:
        child.communicate(timeout=60)
    shutil.rmtree(case.folder)
    return time.monotonic() - began


def _start(case: _Case) -> "subprocess.Popen[bytes]":
    case.folder.mkdir()
    for name in ("out", "tmp", "home"):
        (case.folder / name).mkdir()
    os.mkfifo(case.folder / "pipe")
    program, line = COMMANDS[case.command]
    places = {"OUT": "out", "PIPE": "pipe"}
    arguments = []
    for word in line.split():
        for name, place in places.items():
            word = word.replace(name, str(case.folder / place))  # noqa: PLW2901
        arguments.append(word.replace("RECORD", str(case.record)))
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(case.folder / "home"),
            "TMPDIR": str(case.folder / "tmp"),
            "LC_ALL": "C.UTF-8",
        },
    )


def _end(case: _Case) -> _Ended:
    child = _start(case)
    assert child.stdin
    assert child.stdout
    assert child.stderr
    try:
        time.sleep(case.seconds)
        child.send_signal(case.number)
        end = time.monotonic() + SECONDS
        errors, pipe = _drain(child, end)
        left = _left(child, end)
        file = _files(case)
        # A Ctrl-C before `main` runs shows Python's own, which nothing of ours could catch.
        ours = "Traceback" in errors and "rdmadiag/__main__.py" in errors
        trace = errors.strip().rpartition("\n")[2][:160] if ours else ""
        return _Ended(case, pipe, left, file, trace)
    finally:
        for stream in (child.stdin, child.stdout, child.stderr):
            with suppress(OSError):
                stream.close()
        shutil.rmtree(case.folder, ignore_errors=True)


def _drain(child: "subprocess.Popen[bytes]", end: float) -> tuple[str, str]:
    """What was on stderr, and what is wrong with the pipes."""
    assert child.stdout
    assert child.stderr
    errors = b""
    streams = [child.stdout, child.stderr]
    while streams:
        ready, _, _ = select.select(streams, [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return errors.decode(), f"still open after {SECONDS:g} s"
        for stream in ready:
            chunk = os.read(stream.fileno(), 1 << 16)
            if not chunk:
                streams.remove(stream)
            elif stream is child.stderr:
                errors += chunk
    return errors.decode("utf-8", "replace"), ""


def _left(child: "subprocess.Popen[bytes]", end: float) -> str:
    """Processes that have not ended: they are children of this one by now."""
    while True:
        child.poll()
        with suppress(ChildProcessError):
            while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                child.poll()
                os.waitpid(-1, os.WNOHANG)
        pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        if not pids:
            return ""
        if time.monotonic() > end:
            break
        time.sleep(0.01)
    lines = []
    for pid in map(int, pids):
        with suppress(OSError):
            lines.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:80])
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return "; ".join(lines)


def _files(case: _Case) -> str:
    """What is there and should not be."""
    found = [
        str(each.relative_to(case.folder))
        for place in ("tmp", "home")
        for each in (case.folder / place).rglob("*")
    ]
    found += [
        f"out/{each.name}"
        for each in (case.folder / "out").iterdir()
        if not (case.number == signal.SIGKILL and each.name.startswith(".rdmadiag."))
        if each.name not in ("file", "copy", "copy.tar.gz") or not _is_whole(each)
    ]
    return ", ".join(found)


def _is_whole(path: Path) -> bool:
    if path.name == "file":
        return path.read_bytes().endswith(b"\n")
    from rdmadiag.host.recorded import open_snapshot
    from rdmadiag.host.tree import SnapshotError

    try:
        host = open_snapshot(str(path))
    except SnapshotError:
        return False
    return host.identity.hostname != "" and bool(host.list("/sys/class/infiniband"))
