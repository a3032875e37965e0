"""Archives, folders, reports, samples and logs through whole commands, within a budget.

Each command is a fork of a process in which the program is loaded already: what is counted is
what it does with its input. The input is kept where it broke something.
"""

import ctypes
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from campaign import forge
from campaign.corpus import CHECKOUT, logs
from campaign.result import Held, Result

SHORT: Final = 300
LONG: Final = 10_000

TIMEOUT: Final = 4.0
"""Seconds of --timeout: what a command may wait for its record, and think about it."""

_PROCESSOR: Final = 2 * TIMEOUT + 2.0  # in the child that reads, in the command, and to start
_WALL: Final = 90.0  # this machine may be busy
_RESIDENT: Final = 1_600_000  # KiB; rdmadiag.cli.budget.MEMORY
_SPACE: Final = 6 << 30

_COMMANDS: Final = (
    "preflight --json --from R",
    "preflight --json --from R",
    "preflight --from R",
    "preflight -o junit --from R",
    "preflight -o prometheus --from R",
    "preflight -o nagios --from R",
    "gids --from R",
    "gids --json --from R",
    "gids --explain --from R",
    "gids --explain --json --from R",
    "devices --from R",
    "devices --json --from R",
    "resources --from R",
    "resources --json --from R",
    "counters --from R",
    "counters --json --from R",
    "expect --from R",
    "snapshot --from R OUT",
    "gids --sample roce-healthy --peer R",
    "diff R R",
    "diff SAMPLE R",
    "diff --json R SAMPLE",
    "preflight --sample roce-healthy --since R",
    "compat SAMPLE R",
    "compat --json R R",
    "explain --log L --from R",
    "gids --env nccl --from R",
)
_REPORT: Final = (
    "preflight --json --from R.json",
    "preflight --from R.json",
    "gids --json --from R.json",
    "gids --explain --from R.json",
    "devices --from R.json",
    "devices --json --from R.json",
    "resources --from R.json",
    "expect --from R.json",
    "preflight -o junit --from R.json",
    "explain --log L --from R.json",
    "gids --sample roce-healthy --peer R.json",
    "diff SAMPLE R.json",
    "diff --json R.json SAMPLE",
    "compat SAMPLE R.json",
)
_SAMPLE: Final = (
    "counters --from R.json",
    "counters --json --from R.json",
    "counters --sample roce-healthy --since R.json",
    "diff --json R.json R.json",
)
_LOG: Final = ("explain --log L", "explain --json --log L", "explain --log L --sample roce-healthy")

_CODE: Final = "the exit code is 0, 1, 2, 3 or 64"
_BUG: Final = "no bug of ours is named, and no traceback shown, on stdout or stderr"
_TIME: Final = (
    f"--timeout {TIMEOUT:g}: at most {_PROCESSOR:g} s of processor time in all, and an end"
)
_MEMORY: Final = f"no process holds more than {_RESIDENT // 1000} MB"
_JSON: Final = "with --json, stdout is one JSON document"
_CONTROL: Final = "no control character of the record reaches the terminal"
_LEFT: Final = "no process and no temporary file is left"
_PROPERTIES: Final = (_CODE, _BUG, _TIME, _MEMORY, _JSON, _CONTROL, _LEFT)

_RAW: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_PR_SET_CHILD_SUBREAPER: Final = 36


class _Case(NamedTuple):
    number: int
    seed: int
    folder: Path
    base: Path


@dataclass(frozen=True)
class _Ran:
    """How a command ended."""

    line: str
    status: int
    processor: float  # seconds
    wall: float
    resident: int  # KiB
    out: str
    err: str
    left: str


def run(short: bool, seed: int, folder: Path, seconds: float) -> Result:
    """See campaign.result."""
    began = time.monotonic()
    base = folder / "base"
    base.mkdir()
    for number, sample in enumerate(_SAMPLES):
        _save(base / f"report{number}", "preflight", "--json", "--sample", sample)
        _save(base / f"sample{number}", "counters", "--json", "--sample", sample)
    cases = [
        _Case(number, seed, folder / f"case-{number}", base)
        for number in range(SHORT if short else LONG)
    ]
    violations: dict[str, list[str]] = {what: [] for what in _PROPERTIES}
    done = 0
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn"), _load) as pool:
        for broken in pool.map(_within(began + seconds), cases, chunksize=8):
            if broken is None:
                continue
            done += 1
            for what, line in broken:
                violations[what].append(line)
    shutil.rmtree(base)
    held = [Held(what, done, violations[what]) for what in _PROPERTIES]
    return Result("records", done, held, time.monotonic() - began)


_SAMPLES: Final = (
    *("roce-healthy", "infiniband-two-hca", "container-without-uverbs", "mac-wedged"),
)


def _save(path: Path, *arguments: str) -> None:
    with path.open("wb") as out:
        subprocess.run(
            [sys.executable, "-m", "rdmadiag", *arguments],
            cwd=CHECKOUT,
            stdout=out,
            check=False,
            timeout=120,
        )


def _load() -> None:
    """What every command would import, once."""
    import importlib
    import pkgutil

    import rdmadiag

    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for room in ("cli", "render", "preflight", "view", "sources", "explain", "gid", "host"):
        package = importlib.import_module(f"{rdmadiag.__name__}.{room}")
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(each.name)
    forge._machines()  # noqa: SLF001


@dataclass(frozen=True)
class _within:  # noqa: N801  # a function that travels to a worker
    """Nothing more after `limit`, on time.monotonic's clock."""

    limit: float

    def __call__(self, case: _Case) -> list[tuple[str, str]] | None:
        return _try(case) if time.monotonic() < self.limit else None


@cache
def _bases(base: Path, kind: str) -> tuple[bytes, ...]:
    return tuple(each.read_bytes() for each in sorted(base.glob(f"{kind}*")))


def _try(case: _Case) -> list[tuple[str, str]]:
    random = Random(f"{case.seed} {case.number}")
    case.folder.mkdir()
    arguments = _made(random, case)
    ran = _run(arguments, case.folder)
    broken = [(what, f"{ran.line}: {problem}") for what, problem in _problems(ran)]
    if not broken:
        shutil.rmtree(case.folder, ignore_errors=True)
    return broken


def _made(random: Random, case: _Case) -> list[str]:
    """The input, and the command line that reads it."""
    kind = random.random()
    record = case.folder / "record"
    if kind < 0.55:
        line, record = random.choice(_COMMANDS), case.folder / "record.tar.gz"
        forge.archive(random, record)
    elif kind < 0.68:
        line = random.choice(_COMMANDS)
        forge.folder(random, record)
    elif kind < 0.88:
        line = random.choice(_REPORT)
        forge.document(random, random.choice(_bases(case.base, "report")), Path(f"{record}.json"))
    elif kind < 0.95:
        line = random.choice(_SAMPLE)
        forge.document(random, random.choice(_bases(case.base, "sample")), Path(f"{record}.json"))
    else:
        line = random.choice(_LOG)
    places = {
        "R": str(record),
        "R.json": f"{record}.json",
        "SAMPLE": str(CHECKOUT / "rdmadiag" / "samples" / "roce-healthy"),
        "L": str(case.folder / "log"),
        "OUT": str(case.folder / random.choice(("copy", "copy.tar.gz"))),
    }
    if "L" in line.split():
        forge.log(random, logs(), case.folder / "log")
    return [*(places.get(word, word) for word in line.split()), "--timeout", f"{TIMEOUT:g}"]


def _run(arguments: list[str], folder: Path) -> _Ran:
    out, err = folder / "stdout", folder / "stderr"
    began = time.monotonic()
    child = os.fork()
    if not child:
        _become(arguments, out, err, folder)
    end = began + _WALL
    while True:
        ended, status, used = os.wait4(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            _, status, used = os.wait4(child, 0)
            break
        time.sleep(0.002)
    wall = time.monotonic() - began
    return _Ran(
        " ".join(arguments),
        status,
        used.ru_utime + used.ru_stime,
        wall,
        used.ru_maxrss,
        out.read_bytes().decode("utf-8", "replace"),
        err.read_bytes().decode("utf-8", "replace"),
        _left(folder),
    )


def _become(arguments: list[str], out: Path, err: Path, folder: Path) -> None:
    """In the fork: the command, as rdmadiag.__main__ runs it."""
    code = 99
    try:
        resource.setrlimit(resource.RLIMIT_AS, (_SPACE, _SPACE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.environ |= {"HOME": str(folder), "TMPDIR": str(folder), "COLUMNS": "80"}
        os.environ.pop("XDG_CONFIG_HOME", None)
        for path, number in ((os.devnull, 0), (str(out), 1), (str(err), 2)):
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            os.dup2(handle, number)
            os.close(handle)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        from rdmadiag.cli import run

        code = run(arguments)
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001  # what Python itself would print
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _left(folder: Path) -> str:
    """Processes, which are children of this one by now, and files."""
    end = time.monotonic() + 5.0
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        if not pids:
            break
        if time.monotonic() > end:
            for pid in pids:
                os.kill(int(pid), signal.SIGKILL)
            return f"processes {', '.join(pids)}"
        time.sleep(0.005)
    known = {"record", "record.tar.gz", "record.json", "log", "copy", "copy.tar.gz"}
    return ", ".join(sorted(set(os.listdir(folder)) - known - {"stdout", "stderr"}))


def _problems(ran: _Ran) -> list[tuple[str, str]]:
    found = []
    code = os.waitstatus_to_exitcode(ran.status)
    if code not in (0, 1, 2, 3, 64):
        found.append((_CODE, f"{code}: {ran.err[-200:]!r}"))
    if "Traceback (most" in ran.err or "a bug of" in ran.err + ran.out:
        text = ran.err + ran.out
        at = max(text.find("a bug of"), 0)
        found.append((_BUG, repr(text[at : at + 160])))
    if ran.processor > _PROCESSOR or ran.wall >= _WALL:
        found.append((_TIME, f"{ran.processor:.1f} s, {ran.wall:.1f} s by the clock"))
    if ran.resident > _RESIDENT:
        found.append((_MEMORY, f"{ran.resident // 1000} MB"))
    is_json = "--json" in ran.line
    if is_json and not _is_document(ran.out):
        found.append((_JSON, repr(ran.out[:80])))
    if not is_json and (raw := _RAW.search(ran.out + ran.err)):
        found.append(
            (_CONTROL, repr((ran.out + ran.err)[max(raw.start() - 40, 0) : raw.end() + 40]))
        )
    if ran.left:
        found.append((_LEFT, ran.left))
    return found


def _is_document(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
