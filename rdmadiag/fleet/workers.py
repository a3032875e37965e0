"""Workers of ClusterShell, as `launch` wants them; imported only where there is ClusterShell.

What differs from its own, of version 1.9 and 1.10:
- a child is an argv and never a line for a shell, and is started by the listener;
- what it writes is handed on as it comes, with a line's end or without: theirs keeps an endless
  line whole, and loses text before a carriage return that ends none;
- nobody waits in the engine for a child that has closed its output and goes on.
"""

import logging
import os
import subprocess
from collections.abc import Sequence
from typing import Any, Final, Protocol

from ClusterShell.Communication import Channel
from ClusterShell.Engine.Engine import E_READ, E_WRITE
from ClusterShell.Event import EventHandler
from ClusterShell.Propagation import RouteResolvingError
from ClusterShell.Task import Task, TaskException, task_self
from ClusterShell.Topology import TopologyError
from ClusterShell.Worker.Exec import ExecClient, ExecWorker
from ClusterShell.Worker.Ssh import SshClient, WorkerSsh
from ClusterShell.Worker.Worker import WorkerException

ERRORS: Final = (RouteResolvingError, TaskException, TopologyError, WorkerException)
UNREACHED: Final = 255  # ssh's own exit code
_LINE_MOST: Final = 16 << 20  # bytes of a line in a tree

# Broken pipes of nodes that have gone: logging would write them on stderr.
logging.getLogger("ClusterShell").addHandler(logging.NullHandler())


class Listener(Protocol):
    """What starts the children, and is called with what becomes of them."""

    def argv(self, node: str) -> list[str]:
        """Of the child for a node, but for ssh."""

    def line(self, node: str) -> str:
        """What ssh hands to the shell of a node."""

    def start(self, argv: Sequence[str], node: str, *, gateway: bool) -> "subprocess.Popen[bytes]":
        """A child; raises OSError."""

    def begun(self, node: str) -> None:
        """A gateway has been given a node."""

    def take(self, node: str, stream: str, chunk: bytes) -> bool:
        """What a node wrote on "stdout" or "stderr"; False where it must be ended."""

    def at_eof(self, pid: int, *, patient: bool) -> None:
        """A child has closed its output: it ends now, or is ended."""

    def end(self, pid: int) -> None:
        """A child must be ended."""

    def ended(self, node: str, code: int | None) -> None:
        """A node behind a gateway has ended; None: it was late."""

    def late(self, node: str) -> None:
        """A node's time is up."""

    def tick(self) -> bool:
        """Looks at the clock; True where the time of the whole is up."""


_bound: list[Listener] = []


def bind(listener: Listener | None) -> None:
    """Whom all workers of this process listen to: one launch at a time."""
    _bound[:] = [listener] if listener else []


def gateways(task: Task) -> int:
    """How many nodes stand next to this one in topology.conf(5); 0 without one."""
    if not task._default_tree_is_enabled():  # noqa: SLF001  # reads the file
        return 0
    return sum(len(child.nodeset) for child in task.topology.root.children())


def task() -> Task:
    """This thread's, which keeps nothing of what nodes write."""
    made = task_self()
    for name in ("stdout_msgtree", "stderr_msgtree"):
        made.set_default(name, False)
    made.set_default("distant_worker", BySsh)
    return made


class Handler(EventHandler):  # type: ignore[misc]  # ships no types
    """Of a worker of ours, or of a tree of them."""

    def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:
        """A line, in a tree."""
        _bound[0].take(str(node), sname, msg + b"\n")

    def ev_pickup(self, worker: Any, node: str) -> None:
        """A node's command begins."""
        _bound[0].begun(str(node))

    def ev_hup(self, worker: Any, node: str, rc: int | None) -> None:
        """A node's command has ended; without a tree its child says so, and more."""
        if not isinstance(worker, ExecWorker):
            _bound[0].ended(str(node), UNREACHED if rc is None else rc)

    def ev_close(self, worker: Any, timedout: bool) -> None:
        """All of a tree have."""
        if timedout and not isinstance(worker, ExecWorker):
            for node in worker.iter_keys_timeout():
                _bound[0].ended(str(node), None)

    def ev_timer(self, timer: Any) -> None:
        """Some times a second."""
        if _bound[0].tick():
            task_self().abort()  # raises what ends the engine


class _Client(ExecClient):  # type: ignore[misc]
    """One child."""

    def _build_cmd(self) -> tuple[list[str], None]:
        return _bound[0].argv(str(self.key)), None

    def _exec_nonblock(self, commandlist: Any, shell: bool = False, env: Any = None) -> Any:
        assert not shell
        gateway = isinstance(self.worker.eh, Channel)
        child = _bound[0].start(commandlist, str(self.key), gateway=gateway)
        for name, pipe, mask in (
            (self.worker.SNAME_STDERR, child.stderr, E_READ),
            (self.worker.SNAME_STDOUT, child.stdout, E_READ),
            (self.worker.SNAME_STDIN, child.stdin, E_WRITE),
        ):
            if pipe is not None:  # ClusterShell closes numbers, Popen's objects themselves
                with pipe:
                    fd = os.dup(pipe.fileno())
                os.set_blocking(fd, False)
                self.streams.set_stream(name, fd, mask, retain=mask == E_READ)
        return child

    @property
    def _is_direct(self) -> bool:
        """Not a gateway's channel, nor a branch of a tree."""
        return isinstance(self.worker.eh, Handler)

    def _handle_read(self, sname: str) -> None:
        if self._is_direct:
            if not _bound[0].take(str(self.key), sname, self._read(sname)):
                self.abort()
            return
        super()._handle_read(sname)
        if sname in self.streams and len(self.streams[sname].rbuf) > _LINE_MOST:
            self.abort()

    def _close(self, abort: bool, timeout: bool) -> None:
        self.streams.clear()
        self.invalidate()
        if timeout:
            _bound[0].late(str(self.key))
        if abort:
            _bound[0].end(self.popen.pid)
        else:
            _bound[0].at_eof(self.popen.pid, patient=not self._is_direct)
        worker = self.worker
        if timeout:
            worker._on_node_timeout(self.key)  # noqa: SLF001  # as its own clients do
        elif not abort:
            code = self.popen.returncode
            self._on_nodeset_close(self.key, UNREACHED if code is None else code)
        worker._check_fini()  # noqa: SLF001


class ByArgv(ExecWorker):  # type: ignore[misc]
    """A child for each node, with the listener's argv."""

    SHELL_CLASS = _Client


class _ClientBySsh(_Client, SshClient):  # type: ignore[misc]
    def _build_cmd(self) -> tuple[list[str], None]:
        *argv, node, command = SshClient._build_cmd(self)[0]  # noqa: SLF001
        if not isinstance(self.worker.eh, Channel):
            command = _bound[0].line(str(self.key))
        # A master of ControlMaster=auto would outlive us.
        return [*argv, "-T", "-oControlMaster=no", "--", node, command], None


class BySsh(WorkerSsh):  # type: ignore[misc]
    """ssh for each node, with the options that ClusterShell is configured for."""

    SHELL_CLASS = _ClientBySsh
