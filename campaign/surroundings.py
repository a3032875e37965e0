"""Commands where the surroundings fail: stdout, stderr, locale, disk, files, processes, memory.

Each pair of two levels of two factors is tried at least once in a round (all-pairs).
"""

import contextlib
import ctypes
import errno
import itertools
import json
import os
import platform
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from campaign.result import Held, Result

_PROGRAM: Final = (sys.executable, "-m", "rdmadiag")
_SECONDS: Final = 90.0
_ROUNDS: Final = 30  # in the long form
_CANDIDATES: Final = 30  # of which each row of a round is the one with most new pairs
_MIB: Final = 1 << 20
_UNLIMITED: Final = ""

ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("preflight", "--sample", "roce-empty-gid-table"),
    "JSON": ("preflight", "--json", "--sample", "roce-empty-gid-table"),
    "verbose": ("preflight", "-v", "--sample", "mac-bridged"),
    "nagios": ("preflight", "--profile", "nagios", "--sample", "roce-empty-gid-table"),
    "slurm": ("preflight", "--profile", "slurm", "--sample", "roce-empty-gid-table"),
    "k8s": ("preflight", "--profile", "k8s", "--json", "--sample", "roce-empty-gid-table"),
    "JUnit": ("preflight", "-o", "junit", "--sample", "roce-healthy"),
    "this host": ("preflight", "--json"),
    "a file": ("preflight", "-o", "json", "--sample", "roce-healthy", "--output", "{disk}/made"),
    "expectations": ("expect", "--sample", "roce-healthy", "--output", "{disk}/made"),
    "snapshot": ("snapshot", "--sample", "roce-healthy", "{disk}/made"),
    "archive": ("snapshot", "--sample", "roce-healthy", "{disk}/made.tar.gz"),
    "explained": ("gids", "--explain", "--sample", "container-without-uverbs"),
    "devices": ("devices", "--json", "--sample", "infiniband-two-hca"),
    "counters": ("counters", "--sample", "infiniband-two-hca"),
    "a log": ("explain", "--log", "{work}/job.log"),
    "a word": ("explain", "errno", "110"),
    "schema": ("schema", "gids"),
    "help": ("--help",),
    "a mistake": ("gids", "--nonsense"),
    "a mistake as JSON": ("preflight", "--json", "--nonsense"),
    "no record": ("preflight", "--json", "--from", "{work}/nowhere"),
    "no attempt": ("pingpong", "--json"),
}
_JSON: Final = frozenset({"JSON", "this host", "devices", "k8s", "a mistake as JSON", "no record"})
_FAILED: Final = {"nagios": 3, "slurm": 0, "k8s": 1}
"""What a profile exits with where there is no verdict: docs/exit_codes.md."""

STDOUT: Final = ("pipe", "full", "read-only", "closed", "nobody reads", "a file")
STDERR: Final = ("pipe", "full", "read-only", "closed", "nobody reads")
_TAKES_NOTHING: Final = ("full", "read-only")

LOCALES: Final[Mapping[str, tuple[str, str]]] = {
    # name → what localedef makes it of
    "C": ("", ""),
    "C.UTF-8": ("", ""),
    "en_US.ISO-8859-1": ("en_US", "ISO-8859-1"),
    "tr_TR.ISO-8859-9": ("tr_TR", "ISO-8859-9"),
    "ru_RU.KOI8-R": ("ru_RU", "KOI8-R"),
    "ja_JP.EUC-JP": ("ja_JP", "EUC-JP"),
}
DISKS: Final = ("roomy", "full", "no file may grow")


_INTERPRETER: Final = re.compile(
    rb"SystemError: .*(?:error return without exception set|without setting an exception)"
)
"""CPython's own last words, where it has no memory for an exception: Python/ceval.c, call.c."""
_LOGGED: Final = b"ERROR:root:code for hash "
"""Lib/hashlib.py logs, with a traceback, that it could map no library, and goes on."""
_AGAIN: Final = 5  # runs: where the heap begins is drawn, so what fails first is, too


class Row(NamedTuple):
    """One level of each factor."""

    asked: str
    stdout: str
    stderr: str
    locale: str
    disk: str
    files: str
    processes: str
    memory: str

    @property
    def is_limited(self) -> bool:
        """Whether there may be too little to come to an end."""
        return any((self.files, self.processes, self.memory))

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self._asdict().items() if value)


class Ended(NamedTuple):
    """What a row came to."""

    code: int
    out: bytes | None  # None: nobody read it
    err: bytes | None
    entries: int = 0  # that are left on the disk


def run(short: bool, seed: int, folder: Path, seconds: float) -> Result:
    """See campaign/README.md."""
    began = time.monotonic()
    dice = random.Random(seed)
    tried: dict[str, int] = defaultdict(int)
    broken: dict[str, list[str]] = defaultdict(list)
    bench = _Bench(folder)
    good = {
        name: bench.run(Row(name, "pipe", "pipe", "C.UTF-8", "roomy", "", "", "")) for name in ASKED
    }
    inputs = 0
    for _ in range(1 if short else _ROUNDS):
        for row in _pairs(bench.factors(), dice):
            if time.monotonic() > began + seconds:
                break
            inputs += 1
            ended = bench.run(row)
            if row.memory and ended.code in (1, 120) and bench.is_interpreters(row, ended):
                continue
            if row.memory and ended.code == -signal.SIGSEGV:
                continue  # setrlimit(2), RLIMIT_AS: a stack that may not grow ends in SIGSEGV
            found = list(_held(row, ended, good[row.asked], bench.left))
            if short and row.memory and _is_broken(found) and not bench.repeats(row, good):
                continue
            for what, problem in found:
                tried[what] += 1
                if problem:
                    broken[what].append(f"{row}: {problem}")
    held = [Held(what, tried[what], broken[what]) for what in tried]
    return Result("surroundings", inputs, held, time.monotonic() - began)


def _pairs(factors: Sequence[Sequence[str]], dice: random.Random) -> Iterator[Row]:
    """Rows in which every two levels of two factors meet."""
    places = list(itertools.combinations(range(len(factors)), 2))
    left = {
        (one, other, first, second)
        for one, other in places
        for first in factors[one]
        for second in factors[other]
    }

    def met(row: Sequence[str]) -> set[tuple[int, int, str, str]]:
        return {(one, other, row[one], row[other]) for one, other in places} & left

    while left:
        one, other, first, second = dice.choice(sorted(left))
        rows = [[dice.choice(levels) for levels in factors] for _ in range(_CANDIDATES)]
        for row in rows:
            row[one], row[other] = first, second
        best = max(rows, key=lambda row: len(met(row)))
        left -= met(best)
        yield Row(*best)


# --- what must hold ------------------------------------------------------------------------------


def _held(row: Row, ended: Ended, good: Ended, left: Path) -> Iterator[tuple[str, str | None]]:
    code = ended.code
    allowed = _codes(row, good.code)
    yield (
        "the documented exit code, never a milder one",
        None if code in allowed else f"exit {code}, not {sorted(allowed)}: {ended.err!r:.300}",
    )
    if ended.err is not None:
        shown = b"Traceback" in ended.err and not (row.memory and _LOGGED in ended.err)
        yield "no traceback", f"{ended.err!r:.600}" if shown else None
        if code in (64, 70, 74, 77):
            lines = ended.err.splitlines()
            noted = row.asked == "verbose"
            one = (len(lines) == 1 or noted) and all(
                each.startswith(b"rdmadiag: ") for each in lines
            )
            yield "a failure is one line", None if one else f"{ended.err!r:.300}"
    if ended.out is not None and code == good.code:
        yield "a document is whole", _cut(row, ended.out, good)
    yield "what is written is whole, and nothing else", _left(row, ended, good, left)


def _is_broken(found: Iterable[tuple[str, str | None]]) -> bool:
    return any(problem for _, problem in found)


def _codes(row: Row, good: int) -> set[int]:
    """`good`, or what the row's surroundings may make of it."""
    writes = any("{disk}" in each for each in ASKED[row.asked])
    full = row.disk != "roomy" and (writes or row.stdout == "a file")
    found = set()
    if row.stdout in _TAKES_NOTHING or full:
        found.add(_FAILED.get(row.asked, 74))
        if row.asked in _FAILED or good >= 64:
            found.add(good)  # a verdict that a profile has a code for, and a mistake, keep theirs
        if row.stdout not in _TAKES_NOTHING:
            found.add(good)  # a short document may fit
        if writes:
            found.add(good)  # says nothing on stdout, or may fit
    else:
        found.add(good)
    if row.is_limited:
        found |= {good, _FAILED.get(row.asked, 3)}
    return found


def _cut(row: Row, out: bytes, good: Ended) -> str | None:
    if row.is_limited and not out:
        return None  # too little to come to a document, and the same code: unknown
    if bool(out) != bool(good.out):
        return "there is nothing" if good.out else f"there is {out!r:.200}"
    if row.asked in _JSON:
        try:
            json.loads(out)
        except ValueError as error:
            return f"{error}: {out[-100:]!r}"
    return None if out.endswith(b"\n") or not out else f"the last line is cut: {out[-100:]!r}"


def _left(row: Row, ended: Ended, good: Ended, left: Path) -> str | None:
    made = sorted(each.name for each in left.iterdir())
    expected = {Path(each).name for each in ASKED[row.asked] if "{disk}" in each} | {"stdout"}
    if extra := set(made) - expected:
        return f"left: {sorted(extra)}"
    for name in made:
        path = left / name
        if name == "made" and path.is_dir():
            if ended.entries - len(made) != good.entries - 1:
                return f"half a snapshot: {ended.entries} of {good.entries} entries"
        elif name == "made.tar.gz":
            with tarfile.open(path) as archive:
                archive.getmembers()
        elif name == "made" and not path.read_bytes().endswith(b"\n"):
            return f"half a file: {path.read_bytes()[-60:]!r}"
    if ended.code == good.code < 64 and expected - {"stdout"} - set(made):
        return f"exit {ended.code}, and nothing was written"
    return None


# --- a row's surroundings ------------------------------------------------------------------------


class _Bench:
    """Where rows are run: locales of its own, and a disk that can be full."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.locales = folder / "locales"
        self.disk = folder / "disk"
        self.left = folder / "left"
        self.locales.mkdir()
        self.disk.mkdir()
        (folder / "job.log").write_text(
            "NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on mlx5_0:1\n"
        )
        self.made = {name for name in LOCALES if self._locale(name)}
        self.mounts = _can_mount()
        self.filter = _no_processes()
        self.files = self._least(lambda number: ("files", str(number)), 3, 32)
        self.memory = self._least(lambda number: ("memory", str(number)), 8, 512)

    def factors(self) -> tuple[tuple[str, ...], ...]:
        """The levels of each factor; limits begin where the program itself starts."""
        files = tuple(str(self.files + more) for more in (0, 1, 2, 4, 10))
        memory = tuple(str(self.memory + more) for more in (0, 4, 8, 16, 32, 64))
        return (
            tuple(ASKED),
            STDOUT,
            STDERR,
            tuple(LOCALES),
            DISKS,
            (_UNLIMITED, *files),
            (_UNLIMITED, "none") if self.filter else (_UNLIMITED,),
            (_UNLIMITED, *memory),
        )

    def _locale(self, name: str) -> bool:
        source, charset = LOCALES[name]
        if not source or not shutil.which("localedef"):
            return not source
        made = subprocess.run(
            ("localedef", "-c", "-i", source, "-f", charset, str(self.locales / name)),
            capture_output=True,
            check=False,
        )
        return made.returncode == 0

    def _least(self, limit: Callable[[int], tuple[str, str]], low: int, high: int) -> int:
        """The least number with which --version still comes out."""
        while low < high:
            middle = (low + high) // 2
            name, value = limit(middle)
            limits = {"files": "", "processes": "", "memory": ""} | {name: value}
            row = Row("help", "pipe", "pipe", "C.UTF-8", "roomy", **limits)
            if self.run(row).code == 0:
                high = middle
            else:
                low = middle + 1
        return low

    def environment(self, locale: str) -> dict[str, str]:
        """Of one locale; by Python's own variable where the system has it not."""
        found = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "LC_ALL": locale,
            "LOCPATH": str(self.locales),
            "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if locale == "C":  # without what Python does to make UTF-8 of it
            found |= {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        elif locale not in self.made:
            found["PYTHONIOENCODING"] = LOCALES[locale][1]
        return found

    def is_interpreters(self, row: Row, ended: Ended) -> bool:
        """Whether CPython itself ended; run again with its words read, where they were not."""
        if ended.err is not None:
            return bool(_INTERPRETER.search(ended.err))
        read = row._replace(stderr="pipe")
        return any(_INTERPRETER.search(self.run(read).err or b"") for _ in range(_AGAIN))

    def repeats(self, row: Row, good: Mapping[str, Ended]) -> bool:
        """Whether it breaks again: where memory ends, what fails first is drawn."""
        return any(
            _is_broken(_held(row, self.run(row), good[row.asked], self.left)) for _ in range(_AGAIN)
        )

    def run(self, row: Row) -> Ended:
        """The command line in those surroundings."""
        shutil.rmtree(self.disk)
        self.disk.mkdir()
        places = {"{disk}": str(self.disk), "{work}": str(self.folder)}
        argv = [*_PROGRAM, *ASKED[row.asked]]
        for name, path in places.items():
            argv = [each.replace(name, path) for each in argv]
        with contextlib.ExitStack() as stack:
            if row.disk == "full" and self.mounts:
                stack.enter_context(_full(self.disk))
            out = _stream(row.stdout, self.disk, stack)
            err = _stream(row.stderr, self.disk, stack)
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self.environment(row.locale),
                preexec_fn=lambda: self._limit(row),
                start_new_session=True,
            )
            try:
                read = process.communicate(timeout=_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return Ended(-signal.SIGKILL, None, None)
            shutil.rmtree(self.left, ignore_errors=True)  # the disk itself is about to go
            shutil.copytree(self.disk, self.left, ignore=shutil.ignore_patterns("filler"))
        return Ended(
            process.returncode,
            read[0] if row.stdout == "pipe" else None,
            read[1] if row.stderr == "pipe" else None,
            len(list(self.left.rglob("*"))),
        )

    def _limit(self, row: Row) -> None:
        """In the child: the least it may have comes last."""
        for stream, number in ((row.stdout, 1), (row.stderr, 2)):
            if stream == "closed":
                os.close(number)
        if row.disk == "no file may grow" or (row.disk == "full" and not self.mounts):
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        if row.processes and self.filter:
            self.filter()
        if row.memory:
            size = int(row.memory) * _MIB
            resource.setrlimit(resource.RLIMIT_AS, (size, size))
        if row.files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (int(row.files), int(row.files)))


def _stream(kind: str, disk: Path, stack: contextlib.ExitStack) -> int | None:
    if kind == "pipe":
        return subprocess.PIPE
    if kind == "closed":
        return None
    if kind == "nobody reads":
        reader, writer = os.pipe()
        os.close(reader)
    elif kind == "a file":
        writer = os.open(disk / "stdout", os.O_WRONLY | os.O_CREAT, 0o600)
    else:
        writer = {
            "full": lambda: os.open("/dev/full", os.O_WRONLY),
            "read-only": lambda: os.open(os.devnull, os.O_RDONLY),
        }[kind]()
    stack.callback(os.close, writer)
    return writer


def _can_mount() -> bool:
    """Whether this process may have mounts of its own: nobody else sees them."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_mounts = 0x00020000  # CLONE_NEWNS, linux/sched.h
    private = 0x4000 | 0x40000  # MS_REC | MS_PRIVATE, linux/mount.h
    if sys.platform != "linux" or libc.unshare(new_mounts):
        return False
    return not libc.mount(b"none", b"/", None, private, None)


@contextlib.contextmanager
def _full(folder: Path) -> Iterator[None]:
    """A file system of its own with hardly any room: a page that a file can have."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=8k"):
        raise OSError(ctypes.get_errno(), "mount")
    try:
        (folder / "filler").write_bytes(b"x" * 4096)
        yield
    finally:
        libc.umount2(os.fsencode(folder), 2)  # MNT_DETACH


def _no_processes() -> Callable[[], None] | None:
    """What makes fork(2) and its kin fail with EAGAIN from here on: seccomp(2).

    RLIMIT_NPROC does not hold for root.
    """
    numbers = {"x86_64": (0xC000003E, (56, 57, 58, 435)), "aarch64": (0xC00000B7, (220, 435))}
    if sys.platform != "linux" or platform.machine() not in numbers:
        return None
    audit, calls = numbers[platform.machine()]

    class Instruction(ctypes.Structure):
        """struct sock_filter of linux/filter.h."""

        _fields_ = (
            ("code", ctypes.c_ushort),
            ("jt", ctypes.c_ubyte),
            ("jf", ctypes.c_ubyte),
            ("k", ctypes.c_uint),
        )

    class Program(ctypes.Structure):
        """struct sock_fprog."""

        _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Instruction)))

    load, equal, result = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
    allow, refuse = 0x7FFF0000, 0x00050000 | errno.EAGAIN
    code: list[tuple[int, int, int, int]] = [
        (load, 0, 0, 4),  # seccomp_data.arch
        (equal, 1, 0, audit),
        (result, 0, 0, allow),
        (load, 0, 0, 0),  # seccomp_data.nr
        *((equal, len(calls) - at, 0, number) for at, number in enumerate(calls)),
        (result, 0, 0, allow),
        (result, 0, 0, refuse),
    ]
    instructions = (Instruction * len(code))(*(Instruction(*each) for each in code))
    program = Program(len(code), instructions)
    libc: Any = ctypes.CDLL(None)

    def refuse_from_here() -> None:
        libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
        libc.prctl(22, 2, ctypes.byref(program))  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER

    return refuse_from_here
