"""How a command gets to nodes: ssh, one srun, or a program of the user's for each of them."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rdmadiag.quoting import shell_word


class NoSuchWay(ValueError):
    """--via names none; one line."""


@dataclass(frozen=True, slots=True)
class Ssh:
    """ssh to each node; by gateways where ClusterShell has a topology.conf."""

    options: str = ""  # as ssh takes them, "-p 2222 -i key"


@dataclass(frozen=True, slots=True)
class Srun:
    """One srun within an allocation, a task on each node."""


@dataclass(frozen=True, slots=True)
class Exec:
    """A program on this machine for each node."""

    words: tuple[str, ...]  # with %h for the node, and %% for %

    def argv(self, node: str, command: Sequence[str]) -> list[str]:
        """`node` has passed the grammar of names; there is no shell."""
        stands_for = {"%h": node, "%%": "%"}
        words = (_PERCENT.sub(lambda found: stands_for[found[0]], each) for each in self.words)
        return [*words, *command]


Way = Ssh | Srun | Exec


def way_of(via: str, ssh_options: str = "") -> Way:
    """--via as it was given; raises NoSuchWay."""
    if via == "ssh":
        return Ssh(ssh_options)
    if via == "srun":
        return Srun()
    if not via.startswith("exec:"):
        raise NoSuchWay(f'{via!r}: ssh, srun, or "exec:PROGRAM %h --"')
    try:
        words = tuple(shlex.split(via.removeprefix("exec:")))
    except ValueError as error:
        raise NoSuchWay(f"{via!r}: {error}") from error
    found = [each for word in words for each in _PERCENT.findall(word)]
    if unknown := [each for each in found if each not in _MEANS]:
        raise NoSuchWay(f"{via!r}: {unknown[0]!r} stands for nothing; %h is the node, %% is %")
    if "%h" not in found:
        raise NoSuchWay(f"{via!r} has no %h for the node's name")
    if "%h" in words[0]:
        raise NoSuchWay(f"{via!r}: a node's name is no program to run")
    return Exec(words)


_MEANS: Final = ("%h", "%%")
_PERCENT: Final = re.compile(r"%.?")


def for_a_shell(command: Sequence[str]) -> str:
    """The line that ssh hands to the login shell of the other end, whichever that is."""
    return " ".join(shell_word(word) for word in command)


def not_plain(command: Sequence[str]) -> list[str]:
    """The words that a shell would read as something else than themselves."""
    return [word for word in command if shell_word(word) != word]


def srun_argv(nodes: str, count: int, command: Sequence[str], *, fed: bool) -> list[str]:
    """One task on each of the `nodes`, which are folded; its output is for `Labelled`."""
    return [
        "srun",
        f"--nodelist={nodes}",
        f"--nodes={count}",
        f"--ntasks={count}",
        "--ntasks-per-node=1",
        "--label",
        "--overlap",  # beside steps of the job that run already
        "--no-kill",  # a node that fails ends its own task alone
        "--kill-on-bad-exit=0",
        "--wait=0",
        f"--input={'all' if fed else 'none'}",
        "--",
        *("sh", "-c", _TASK, "sh"),
        *command,
    ]


def squeue_argv(job: str) -> list[str]:
    """Prints the nodes that a job has now; nothing once it has ended."""
    return ["squeue", "--noheader", f"--job={job}", "--states=RUNNING", "--format=%N"]


_NODE: Final = b"rdmadiag-node "
_EXIT: Final = b"rdmadiag-exit "
_TASK: Final = (
    'echo "rdmadiag-node $SLURMD_NODENAME"; "$@"; code=$?; echo; echo "rdmadiag-exit $code"'
)
"""The label of srun is a task's number, and its own exit code is that of the worst task."""


@dataclass(slots=True)
class Task:
    """What one task of srun wrote."""

    node: str = ""
    code: int | None = None  # None: it has not ended
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    goes_on: set[str] = field(default_factory=set)  # streams whose last line is a piece of one


PIECE: Final = 1024
"""Bytes that slurmstepd sends at once (MAX_MSG_LEN, at the least from 2.0 to 22.05): srun labels
each piece of a longer line, and ends it as a line. What is left where a task ends is sent in such
pieces too, wherever its lines end: then a shorter one may be part of a line."""


class Labelled:
    """Both streams of `srun --label`, taken apart by task as they come."""

    def __init__(self, most: Mapping[str, int]) -> None:
        """`most`: bytes that are kept of a task's "stdout" and "stderr"."""
        self.tasks: dict[int, Task] = {}
        self.own = bytearray()  # what srun itself said on stderr
        self._most = most
        self._held = dict.fromkeys(most, b"")

    def take(self, stream: str, chunk: bytes) -> None:
        """Some bytes of "stdout" or "stderr"."""
        *lines, rest = (self._held[stream] + chunk).split(b"\n")
        self._held[stream] = rest[-self._most[stream] :]
        for line in lines:
            self._line(stream, line)

    def end(self) -> None:
        """No more bytes come."""
        for stream, rest in self._held.items():
            if rest:
                self._line(stream, rest)
            self._held[stream] = b""
        for task in self.tasks.values():
            if task.code is None and (found := _IN_PIECES.search(task.stdout)):
                task.code = int(found[1].replace(b"\n", b""))
                del task.stdout[found.start() :]

    @property
    def ended(self) -> set[str]:
        """Nodes whose task has ended."""
        return {task.node for task in self.tasks.values() if task.code is not None}

    def _line(self, stream: str, line: bytes) -> None:
        label = _LABEL.match(line)
        if label is None:
            if stream == "stderr" and len(self.own) < self._most[stream]:
                self.own += line + b"\n"
            return
        task = self.tasks.setdefault(int(label[1]), Task())
        text = line[label.end() :]
        is_first = stream not in task.goes_on
        is_whole = len(text) != PIECE
        (task.goes_on.discard if is_whole else task.goes_on.add)(stream)
        if stream == "stderr" or not is_first:
            self._keep(task, stream, text, is_whole=is_whole)
        elif not task.node and text.startswith(_NODE):
            task.node = text.removeprefix(_NODE).decode("ascii", "replace")
        elif text.startswith(_EXIT) and text[len(_EXIT) :].isdigit():
            task.code = int(text.removeprefix(_EXIT))
            del task.stdout[-1:]  # of the echo before it
        else:
            self._keep(task, stream, text, is_whole=is_whole)

    def _keep(self, task: Task, stream: str, text: bytes, *, is_whole: bool) -> None:
        kept = task.stdout if stream == "stdout" else task.stderr
        if len(kept) < self._most[stream]:
            kept += text + b"\n" * is_whole


_IN_PIECES: Final = re.compile(
    rb"(?:^|\n)" + rb"\n?".join(re.escape(bytes([each])) for each in _EXIT) + rb"([0-9\n]{1,6})\Z"
)
_LABEL: Final = re.compile(rb" *([0-9]{1,7}): ?")
