"""Both ends of `pingpong --cm` or `exercise --cm` in one process over the fake libraries.

`cm_two_ends.py OUT…`:
Stdin has the two requests, first that of the end that listens; the files OUT get their records.
Calls of the fake libraries come from one thread at a time: ctypes keeps the interpreter's lock.
"""

import ctypes
import os
import select
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from rdmadiag.verbs import lib, open_context
from rdmadiag.verbs.abi import IbvRecvWr, IbvSendWr, IbvWc
from rdmadiag.verbs.bounds import Bounds, Late
from rdmadiag.verbs.cm_child import Attempt
from rdmadiag.verbs.exercise_child import Run
from rdmadiag.verbs.records import CmRequest, Done, ExerciseRequest, parse
from rdmadiag.verbs.transcript import Transcript

_c_int, _pointer, _POINTER = ctypes.c_int, ctypes.c_void_p, ctypes.POINTER
_bad = _POINTER(_pointer)


def keep_lock() -> None:
    """Instead of CDLL and CFUNCTYPE, which let other threads run meanwhile."""
    lib.ctypes.CDLL = ctypes.PyDLL  # type: ignore[misc,attr-defined]
    for name, arguments in {
        "_POST_SEND": (_pointer, _POINTER(IbvSendWr), _bad),
        "_POST_RECV": (_pointer, _POINTER(IbvRecvWr), _bad),
        "_POLL_CQ": (_pointer, _c_int, _POINTER(IbvWc)),
    }.items():
        setattr(open_context, name, ctypes.PYFUNCTYPE(_c_int, *arguments))


class ThreadBounds(Bounds):
    """Without signals, which are the main thread's."""

    def __init__(self) -> None:
        self._deadline = float("inf")
        self._signal = None

    def start(self, deadline: float) -> None:
        self._deadline = deadline

    def glance(self) -> None:
        self.check()

    def _ready(self, reading: Sequence[int], writing: Sequence[int], until: float) -> set[int]:
        self.check()
        seconds = min(self.left, until - time.monotonic(), 60.0)
        found = select.select(reading, writing, [], max(0.0, seconds))
        if not self.left:
            raise Late
        return {*found[0], *found[1]}


def run(request: CmRequest | ExerciseRequest, descriptor: int) -> None:
    transcript = Transcript(descriptor, request.start)
    if isinstance(request, ExerciseRequest):
        Run(request, transcript, ThreadBounds()).run()
    else:
        Attempt(request, transcript, ThreadBounds()).run()
    transcript.write(Done())


def main() -> None:
    keep_lock()
    threads = []
    for line, name in zip(sys.stdin.buffer, sys.argv[1:], strict=True):
        request: Any = parse(line)
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        threads.append(threading.Thread(target=run, args=(request, descriptor)))
        threads[-1].start()
        late = time.monotonic() + 10
        while request.meet == "listen" and time.monotonic() < late:
            with open(name, "rb") as file:
                if b'"listening"' in file.read():
                    break
            time.sleep(0.01)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
