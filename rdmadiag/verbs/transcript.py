"""What a child does with the verbs library, written down before and after each call."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.records import Call, Failed, Record, Returned, encode


class Transcript:
    """The lines that the parent reads."""

    def __init__(self, descriptor: int, start: float) -> None:
        """`start` is on time.monotonic's clock, which all processes share."""
        self._descriptor = descriptor
        self._start = start

    def write(self, record: Record) -> None:
        """One line, at once: what is buffered when a call hangs would be lost."""
        self._put(encode(replace(record, at=round(time.monotonic() - self._start, 6))))

    def _put(self, line: bytes) -> None:
        # Where the parent is gone nobody reads, and what was made must still be destroyed.
        with suppress(BrokenPipeError):
            os.write(self._descriptor, line)

    def held(self) -> "Held":
        """One whose lines are kept back."""
        return Held(self._descriptor, self._start)

    def step(
        self, call: str, make: Callable[[], Any], device: str | None = None, port: int | None = None
    ) -> Any:
        """The answer of `make`, or None where it failed; both are written down."""
        self.write(Call(call=call, device=device, port=port))
        try:
            answer = make()
        except CallFailed as failed:
            self.write(Failed(errno=failed.errno))
            return None
        self.write(Returned(answer=answer))
        return answer


class Held(Transcript):
    """Lines that are kept back until it is known whether they matter."""

    def __init__(self, descriptor: int, start: float) -> None:
        super().__init__(descriptor, start)
        self._lines: list[bytes] | None = []

    def _put(self, line: bytes) -> None:
        if self._lines is None:
            super()._put(line)
        else:
            self._lines.append(line)

    def release(self) -> None:
        """Write what was kept back, and from now on at once."""
        lines, self._lines = self._lines, None
        for line in lines or ():
            self._put(line)
