"""Starts one command for many nodes, and brings back what each answered; all else here is pure.

ClusterShell's engine does the waiting, its workers reach the nodes: ssh, gateways, groups. Each
child is in a session of its own, and is started by vfork and not, as ClusterShell does, by a fork
in Python. All of them are ended here, with whatever they leave behind.
"""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, Final, Self

from rdmadiag.fleet.node_answer import Ending, NodeAnswer, ending_of
from rdmadiag.fleet.nodes import NoClusterShell, NotNodes, fold, is_name, spread
from rdmadiag.fleet.ways import Labelled, Srun, Ssh, Way, for_a_shell, squeue_argv, srun_argv

MOST: Final[Mapping[str, int]] = {"stdout": 16 << 20, "stderr": 64 << 10}
"""Bytes that are kept of what one node writes."""

FANOUT: Final = 64
"""Children at once; ClusterShell's own default."""

_TICK: Final = 0.25  # seconds between looks at deadlines
_AFTER_EOF: Final = 1.0  # for a child that has closed its output to end
_AFTER_TERM: Final = 1.0  # between SIGTERM and SIGKILL
_AFTER_KILL: Final = 2.0  # to go; what is in an uninterruptible sleep does not
_AT_EOF: Final = 0.02  # usual
_SQUEUE: Final = 10.0
_RESERVED_FILES: Final = 64
_FILES_EACH: Final = 6  # both ends of three pipes


class CannotLaunch(Exception):
    """Nothing was started; why, in one line."""


class Stopped(BaseException):
    """SIGINT, SIGTERM or SIGHUP came; all children have been ended by then."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


Seen = Callable[[int, Collection[str]], None]
"""Called some times a second with how many nodes have ended, and which have not."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One command for many nodes."""

    nodes: tuple[str, ...]
    command: tuple[str, ...]  # argv on the node
    way: Way
    fanout: int = FANOUT
    host_deadline: float = 60.0  # seconds of each, from its start
    deadline: float = 600.0  # seconds of the whole
    fed: bytes | None = None  # for stdin, which stays open behind it; None: /dev/null
    named: bool = False  # a node's name follows its last word, but for srun and gateways

    def command_of(self, node: str) -> tuple[str, ...]:
        """What is run for that node."""
        if not self.named:
            return self.command
        *words, last = self.command
        return (*words, f"{last}{node}")


def nodes_of(text: str) -> tuple[str, ...]:
    """The nodes that -w names, groups of ClusterShell's configuration too; raises NotNodes."""
    if "@" not in text and "*" not in text:
        return spread(text)
    node_set, errors = _node_set()
    try:
        found = tuple(node_set(text))
    except errors as error:
        raise NotNodes(f"{text}: {error}") from error
    return _checked(found, text)


def all_nodes() -> tuple[str, ...]:
    """Those of -a: what the default source of groups calls all; raises NotNodes."""
    node_set, errors = _node_set()
    try:
        found = tuple(node_set.fromall())
    except errors as error:
        raise NotNodes(f"-a: {error}; see clustershell's groups.conf(5)") from error
    return _checked(found, "-a")


def _checked(found: tuple[str, ...], text: str) -> tuple[str, ...]:
    if not found:
        raise NotNodes(f"{text}: no nodes")
    if odd := [name for name in found if not is_name(name)]:
        raise NotNodes(f"{text}: {odd[0]!r} cannot be the name of a node")
    return found


def _node_set() -> tuple[Any, tuple[type[Exception], ...]]:
    try:
        from ClusterShell.NodeSet import NodeSet, NodeSetException
        from ClusterShell.NodeUtils import GroupResolverError, GroupSourceError
        from ClusterShell.RangeSet import RangeSetException
    except ImportError as error:
        raise NoClusterShell(
            "sets of nodes need ClusterShell: pip install 'rdmadiag[fleet]'"
        ) from error
    return NodeSet, (NodeSetException, GroupResolverError, GroupSourceError, RangeSetException)


def gateways() -> int:
    """Through how many ssh goes, by ClusterShell's topology.conf(5); raises CannotLaunch."""
    workers = _workers()
    try:
        return int(workers.gateways(workers.task()))
    except workers.ERRORS as error:
        raise CannotLaunch(f"topology.conf: {error}") from error


def launch(what: Launch, seen: Seen | None = None) -> dict[str, NodeAnswer]:
    """Node → its answer, in the order of the nodes. Nothing that it started runs on afterwards.

    Where one of its nodes has left the job, srun starts nothing on any of them: then it is
    started once more, for those that are there. Raises CannotLaunch, NoClusterShell, and Stopped.
    """
    assert what.nodes
    assert all(map(is_name, what.nodes))
    until = time.monotonic() + what.deadline
    answers = _launched(what, seen)
    if not isinstance(what.way, Srun) or any(
        each.ending is not Ending.UNREACHABLE for each in answers.values()
    ):
        return answers
    there = nodes_of_job()
    if there is None or there.issuperset(what.nodes):
        return answers
    rest = tuple(node for node in what.nodes if node in there)
    left = until - time.monotonic()
    again = _launched(replace(what, nodes=rest, deadline=left), seen) if rest and left > 0 else {}
    why = f"no longer a node of job {os.environ.get('SLURM_JOB_ID', '')}".encode()
    return {
        node: again.get(node, before)
        if node in there
        else NodeAnswer(node, Ending.UNREACHABLE, None, b"", why)
        for node, before in answers.items()
    }


def nodes_of_job() -> frozenset[str] | None:
    """The nodes that the Slurm job that this runs in has now: none once it has ended.

    None where squeue does not say.
    """
    argv = squeue_argv(os.environ.get("SLURM_JOB_ID", ""))
    try:
        child = subprocess.Popen(  # noqa: S603  # no shell
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError:
        return None
    try:
        out, err = child.communicate(timeout=_SQUEUE)
    except subprocess.TimeoutExpired:
        child.kill()
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        child.returncode = -signal.SIGKILL  # nobody waits for it, at exit either
        return None
    if child.returncode != 0:
        return frozenset() if b"Invalid job id" in err else None
    try:
        return frozenset(spread(",".join(out.decode().split()))) if out.strip() else frozenset()
    except (NotNodes, UnicodeDecodeError):
        return None


def _launched(what: Launch, seen: Seen | None) -> dict[str, NodeAnswer]:
    with _Children() as children:
        run = _Run(what, children, seen)
        try:
            run.all()
        finally:
            children.end_all()
        return run.answers()


@dataclass(slots=True)
class _Kept:
    """What one node has written so far, and how it ended."""

    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    cut: bool = False
    begun: bool = False
    ending: Ending | None = None
    code: int | None = None

    def take(self, stream: str, chunk: bytes) -> bool:
        """Whether there is room for it."""
        kept = self.stdout if stream == "stdout" else self.stderr
        room = MOST[stream] - len(kept)
        kept += chunk[:room]
        if len(chunk) > room:
            self.cut = True
        return len(chunk) <= room or stream == "stderr"


class _Run:
    """One launch while it goes on: a Listener of the workers."""

    def __init__(self, what: Launch, children: "_Children", seen: Seen | None) -> None:
        self.what = what
        self.kept = {node: _Kept() for node in what.nodes}
        self.labelled = Labelled(MOST) if isinstance(what.way, Srun) else None
        self._children = children
        self._seen = seen
        self._until = time.monotonic() + what.deadline
        self._open = set(what.nodes)

    def all(self) -> None:
        """Until every node has ended, or the time is up."""
        workers = _workers()
        task = workers.task()
        task.set_info("fanout", at_once(self.what.fanout))
        task.set_info("connect_timeout", min(10, max(1, int(self.what.host_deadline))))
        if isinstance(self.what.way, Ssh) and self.what.way.options:
            task.set_info("ssh_options", self.what.way.options)
        workers.bind(self)
        handler = workers.Handler()
        try:
            worker = self._worker(task, handler)
            task.timer(_TICK, handler, interval=_TICK, autoclose=True)
            if self.what.fed is not None:
                worker.write(self.what.fed)
            task.resume()
        except OSError as error:
            self._none_for_the_rest(Ending.NOT_STARTED, error.strerror or str(error), error)
        except workers.ERRORS as error:  # of gateways
            self._none_for_the_rest(Ending.UNREACHABLE, str(error), error)
        finally:
            task.abort(kill=True)
            workers.bind(None)
        self._children.until_ended(self._until)

    def _none_for_the_rest(self, ending: Ending, why: str, error: Exception) -> None:
        """The others have their answers; raises CannotLaunch where there are none."""
        rest = [kept for kept in self.kept.values() if kept.ending is None]
        if len(rest) == len(self.kept) and not any(kept.begun for kept in rest):
            raise CannotLaunch(f"nothing could be started: {why}") from error
        for kept in rest:
            if not kept.begun:
                kept.ending, kept.stderr = ending, bytearray(why.encode())

    def _worker(self, task: Any, handler: Any) -> Any:
        what = self.what
        if isinstance(what.way, Ssh):
            return task.shell(
                for_a_shell(what.command),
                nodes=",".join(what.nodes),
                handler=handler,
                timeout=what.host_deadline,
                stderr=True,
            )
        nodes = "srun" if isinstance(what.way, Srun) else ",".join(what.nodes)
        worker = _workers().ByArgv(
            nodes, handler, timeout=what.host_deadline, command="argv", stderr=True
        )
        task.schedule(worker)
        return worker

    def argv(self, node: str) -> list[str]:
        """Of the child for a node, but for ssh."""
        way = self.what.way
        if isinstance(way, Srun):
            fed = self.what.fed is not None
            nodes = self.what.nodes
            return srun_argv(fold(nodes), len(nodes), self.what.command, fed=fed)
        assert not isinstance(way, Ssh)
        return way.argv(node, self.what.command_of(node))

    def line(self, node: str) -> str:
        """For ssh."""
        return for_a_shell(self.what.command_of(node))

    def start(self, argv: Sequence[str], node: str, *, gateway: bool) -> "subprocess.Popen[bytes]":
        """A child; raises OSError."""
        if gateway:  # which may be a node, too
            return self._children.start(argv, fed=True, ended=lambda code: None)
        fed = self.what.fed is not None
        child = self._children.start(argv, fed=fed, ended=self._ended(node))
        self.begun(node)
        return child

    def begun(self, node: str) -> None:
        """A gateway has been given a node."""
        for each in self._of(node):
            each.begun = True

    def at_eof(self, pid: int, *, patient: bool) -> None:
        """A child has closed its output: it ends now, or is ended."""
        self._children.at_eof(pid, _AFTER_EOF if patient else _AT_EOF)

    def end(self, pid: int) -> None:
        """A child must be ended."""
        self._children.end(pid)

    def take(self, node: str, stream: str, chunk: bytes) -> bool:
        """What a node wrote; False where it must be ended."""
        if self.labelled is not None:
            self.labelled.take(stream, chunk)
            return True
        kept = self.kept.get(node)
        if kept is None or kept.take(stream, chunk):
            return True
        kept.ending = Ending.TOO_MUCH
        return False

    def _ended(self, node: str) -> Callable[[int | None], None]:
        def ended(code: int | None) -> None:
            self.ended(node, code)

        return ended

    def ended(self, node: str, code: int | None) -> None:
        """A child, or a node behind a gateway, has ended; None: it was killed by us."""
        if self.labelled is not None:
            self.labelled.end()
            self._of_tasks(code)
            return
        kept = self.kept.get(node)
        self._open.discard(node)
        if kept is None or kept.ending is not None:
            return
        kept.code = code
        if code is None:
            kept.ending = Ending.LATE
        else:
            by_ssh = isinstance(self.what.way, Ssh)
            kept.ending = ending_of(code, bytes(kept.stdout), bytes(kept.stderr), by_ssh=by_ssh)

    def late(self, node: str) -> None:
        """A node's time is up."""
        for kept in self._of(node):
            if kept.ending is None:
                kept.ending = Ending.LATE
        self._open.discard(node)

    def tick(self) -> bool:
        """Looks at the clock; True where the time of the whole is up."""
        self._children.look()
        if self._seen is not None:
            left = self._open - (self.labelled.ended if self.labelled else set())
            self._seen(len(self.kept) - len(left), left)
        return time.monotonic() >= self._until

    def _of(self, node: str) -> Collection[_Kept]:
        if self.labelled is not None:
            return self.kept.values()
        return (self.kept[node],) if node in self.kept else ()

    def _of_tasks(self, code: int | None) -> None:
        """What the tasks of srun wrote, to the nodes that they ran on."""
        assert self.labelled is not None
        by_node = {task.node: task for task in self.labelled.tasks.values()}
        for node, kept in self.kept.items():
            task = by_node.get(node)
            if task is None:
                kept.stderr = bytearray(self.labelled.own)
                if kept.ending is None:
                    kept.ending = Ending.LATE if code is None else Ending.UNREACHABLE
                continue
            kept.stdout, kept.stderr, kept.code = task.stdout, task.stderr, task.code
            if task.code is not None:
                kept.ending = ending_of(
                    task.code, bytes(task.stdout), bytes(task.stderr), by_ssh=False
                )
            elif kept.ending is None:
                kept.ending = Ending.LATE if code is None else Ending.KILLED

    def answers(self) -> dict[str, NodeAnswer]:
        """What there is."""
        return {
            node: NodeAnswer(
                node,
                kept.ending or (Ending.NOT_REACHED_IN_TIME if not kept.begun else Ending.LATE),
                kept.code,
                bytes(kept.stdout),
                bytes(kept.stderr),
                kept.cut,
            )
            for node, kept in self.kept.items()
        }


def _workers() -> Any:
    """Imports ClusterShell; raises NoClusterShell."""
    try:
        from rdmadiag.fleet import workers
    except ImportError as error:
        raise NoClusterShell(
            "a fleet is reached with ClusterShell: pip install 'rdmadiag[fleet]'"
        ) from error
    return workers


def at_once(fanout: int) -> int:
    """So many children, or as many as there may be open files for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = fanout * _FILES_EACH + _RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
    if soft == resource.RLIM_INFINITY:
        return fanout
    return max(1, min(fanout, (soft - _RESERVED_FILES) // _FILES_EACH))


@dataclass(slots=True)
class _Child:
    popen: "subprocess.Popen[bytes]"
    ended: Callable[[int | None], None]
    term_at: float | None = None  # when it is sent a SIGTERM
    kill_at: float | None = None


class _Children:
    """Every child that was started and has not been waited for; a context of three signals."""

    _SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self._running: dict[int, _Child] = {}
        self._starting = False
        self._owed: int | None = None
        self._closing = False

    def __enter__(self) -> Self:
        self._before = {}
        for number in self._SIGNALS:
            before = signal.getsignal(number)
            if before != signal.SIG_IGN:  # as nohup has it
                self._before[number] = before
                signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if self._owed is not None:
            raise Stopped(self._owed)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        if self._owed is None:
            self._owed = number
            if not self._starting and not self._closing:
                raise Stopped(number)

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Nothing is raised between the start of a child and its entry in the list."""
        self._starting = True
        try:
            yield
        finally:
            self._starting = False
        if self._owed is not None and not self._closing:
            raise Stopped(self._owed)

    def start(
        self, argv: Sequence[str], *, fed: bool, ended: Callable[[int | None], None]
    ) -> "subprocess.Popen[bytes]":
        """In a session of its own: no terminal asks for a password, ^C is ours to pass on."""
        with self._undisturbed():
            child = subprocess.Popen(  # noqa: S603  # no shell; names have passed the grammar
                argv,
                bufsize=0,
                stdin=subprocess.PIPE if fed else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._running[child.pid] = _Child(child, ended)
        return child

    def at_eof(self, pid: int, patience: float = _AT_EOF) -> None:
        """It has closed its output: it ends now, or is ended."""
        until = time.monotonic() + patience
        while not self._gone(pid) and time.monotonic() < until:
            time.sleep(0.001)
        if pid in self._running:
            self._end(pid, time.monotonic() + _AFTER_EOF)

    def end(self, pid: int) -> None:
        """SIGTERM now, SIGKILL later."""
        self._end(pid, time.monotonic())

    def _end(self, pid: int, at: float) -> None:
        child = self._running.get(pid)
        if child is not None and child.term_at is None:
            child.term_at, child.kill_at = at, at + _AFTER_TERM
            self._signal_when_due(child)

    def look(self) -> None:
        """Who has gone, and whose time is up."""
        for pid, child in list(self._running.items()):
            if child.kill_at is not None and not self._gone(pid):
                self._signal_when_due(child)

    def _signal_when_due(self, child: _Child) -> None:
        now = time.monotonic()
        if child.kill_at is not None and now >= child.kill_at:
            _signal(child.popen.pid, signal.SIGKILL)
        elif child.term_at is not None and now >= child.term_at:
            _signal(child.popen.pid, signal.SIGTERM)
            _signal(child.popen.pid, signal.SIGCONT)

    def _gone(self, pid: int) -> bool:
        """Whether it has ended; what it left in its group is killed before its number is free."""
        child = self._running[pid]
        if not _has_ended(child.popen):
            return False
        _signal(pid, signal.SIGKILL)
        code = child.popen.wait()
        del self._running[pid]
        child.ended(None if child.term_at is not None and code < 0 else code)
        return True

    def until_ended(self, until: float) -> None:
        """Those that have closed their output, and no longer than `until`."""
        while self._running and time.monotonic() < until:
            self.look()
            if self._running:
                time.sleep(0.01)

    def end_all(self) -> None:
        """All of them; a signal of ours does not interrupt this."""
        self._closing = True
        for pid in list(self._running):
            self._end(pid, time.monotonic())
        until = time.monotonic() + _AFTER_TERM + _AFTER_KILL
        while self._running and time.monotonic() < until:
            self.look()
            if self._running:
                time.sleep(0.005)
        for child in self._running.values():  # in an uninterruptible sleep
            child.popen.returncode = -signal.SIGKILL  # nobody waits for it, at exit either
            child.ended(None)


def _has_ended(child: "subprocess.Popen[bytes]") -> bool:
    """Without waiting for it where the system can tell."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return child.poll() is not None
    if child.returncode is not None:
        return True
    how = os.WEXITED | os.WNOHANG | os.WNOWAIT
    try:
        return os.waitid(os.P_PID, child.pid, how) is not None
    except ChildProcessError:  # somebody else has waited for it
        return child.poll() is not None


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
