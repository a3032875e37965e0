"""Asynchronous events of devices that a child has open: the verbs library is its alone."""

import errno
import os
import subprocess
from collections.abc import Sequence

from rdmadiag.facts import Missing
from rdmadiag.host import child_process
from rdmadiag.host.answers import not_started
from rdmadiag.host.command import abandon
from rdmadiag.host.notifications import Lost, Subscription

_READ = 65536
_LONGEST = 4096  # bytes of a line


class AsyncEventsChild(Subscription):
    """Lines of rdmadiag.verbs.async_child, one a read."""

    def __init__(self, name: str, child: "subprocess.Popen[bytes]") -> None:
        assert child.stdout is not None
        super().__init__(name, child.stdout.fileno())
        os.set_blocking(self.descriptor, False)
        self._child = child
        self._buffer = b""

    def read(self) -> bytes | Lost | None:
        """Raises OSError once the child has ended."""
        if b"\n" not in self._buffer:
            try:
                more = os.read(self.descriptor, _READ)
            except BlockingIOError:
                return None
            if not more:
                raise OSError(errno.EPIPE, "its process has ended")
            self._buffer += more
        line, end, rest = self._buffer.partition(b"\n")
        if not end and len(line) <= _LONGEST:
            return None
        self._buffer = rest
        return line

    def close(self) -> None:
        """Ends the child, and with it its devices are closed."""
        child_process.running.discard(self._child.pid)
        if self._child.poll() is None:
            abandon(self._child)
        if self._child.stdout:
            self._child.stdout.close()


def follow_async_events(name: str, devices: Sequence[str]) -> AsyncEventsChild | Missing:
    """Of `devices`, which are opened; what refuses is said by the first lines."""
    from rdmadiag.verbs.child import LIBRARY, program

    argv = [*program("async_child"), LIBRARY["linux"], *devices]
    with child_process.starting():
        try:
            child = subprocess.Popen(  # noqa: S603  # our own program, no shell
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=child_process.before_exec(),  # noqa: PLW1509  # takes no lock
            )
        except OSError as error:
            return not_started(error, "a child for asynchronous events")
        child_process.running.add(child.pid)
    return AsyncEventsChild(name, child)
