"""Tasks side by side, each in a forked child, under one absolute deadline.

A read of sysfs or a netlink request can hang in the kernel where no signal reaches it,
and a process with such a thread cannot end. A child can be killed and left behind.
"""

import os
import pickle
import selectors
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from rdmadiag.facts import Missing, Why

_CHUNK: Final = 1 << 20


def run_side_by_side(
    tasks: Mapping[str, Callable[[], Any]], deadline: float
) -> dict[str, Any | Missing]:
    """Each task's result, by name; a Missing for one that raised, died or came late.

    `deadline` is absolute on `time.monotonic`'s clock. Results travel by pickle. A late
    child is killed and not waited for; its pid stands in the Missing.
    """
    children = {name: _start(task) for name, task in tasks.items()}
    received: dict[str, bytearray] = {name: bytearray() for name in children}
    open_ends = dict(children)
    with selectors.DefaultSelector() as selector:
        for name, (_, pipe) in children.items():
            selector.register(pipe, selectors.EVENT_READ, name)
        while open_ends:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            for key, _ in selector.select(left):
                chunk = os.read(key.fd, _CHUNK)
                received[key.data] += chunk
                if not chunk:
                    selector.unregister(key.fd)
                    open_ends.pop(key.data)
    results = {}
    for name, (pid, pipe) in children.items():
        os.close(pipe)
        if name in open_ends:
            _abandon(pid)
            results[name] = Missing(
                Why.TIMEOUT, f"{name}: no answer before the deadline; its process {pid} was killed"
            )
        else:
            os.waitpid(pid, 0)  # its pipe is closed: it has written all and is exiting
            results[name] = _result(name, bytes(received[name]))
    return results


def _start(task: Callable[[], Any]) -> tuple[int, int]:
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    os.close(reader)
    return _child(task, writer)


def _child(task: Callable[[], Any], writer: int) -> NoReturn:
    try:
        try:
            answer = (True, task())
        except Exception as error:  # noqa: BLE001  # one source's bug must not cost the others
            import traceback

            answer = (False, (repr(error), traceback.format_exc()))
        with os.fdopen(writer, "wb") as out:
            pickle.dump(answer, out, pickle.HIGHEST_PROTOCOL)
    finally:
        # No cleanup of the parent's: its buffers and atexit handlers are not ours.
        os._exit(0)


def _abandon(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    # Reaped if it dies at once; one that is stuck in the kernel is left to init.
    end = time.monotonic() + 0.05
    while time.monotonic() < end:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.005)


def _result(name: str, content: bytes) -> Any | Missing:
    try:
        succeeded, value = pickle.loads(content)  # noqa: S301  # written by our own child
    except (EOFError, pickle.UnpicklingError):
        return Missing(Why.MALFORMED, f"{name}: its process ended without an answer")
    if succeeded:
        return value
    summary, trace = value
    if os.environ.get("RDMADIAG_DEBUG"):
        sys.stderr.write(trace)
    return Missing(Why.MALFORMED, f"{name}: a bug of rdmadiag: {summary}")
