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
        stamped = replace(record, at=round(time.monotonic() - self._start, 6))
        # Where the parent is gone nobody reads, and what was made must still be destroyed.
        with suppress(BrokenPipeError):
            os.write(self._descriptor, encode(stamped))

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
