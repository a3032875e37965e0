"""What a child does with the verbs library, written down before and after each call.

A call that never returns is the last line: the parent needs no more than that to say
where it hangs.
"""

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rdmadiag.verbs.lib import CallFailed


class Transcript:
    """The lines that the parent reads."""

    def __init__(self, descriptor: int, start: float) -> None:
        self._descriptor = descriptor
        self._start = start

    def write(self, **row: Any) -> None:
        """One line, at once: what is buffered when a call hangs would be lost."""
        row["at"] = round(time.monotonic() - self._start, 6)
        # Where the parent is gone nobody reads, and what was made must still be destroyed.
        with suppress(BrokenPipeError):
            os.write(self._descriptor, json.dumps(row).encode() + b"\n")

    def step(
        self, call: str, make: Callable[[], Any], device: str | None = None, port: int | None = None
    ) -> Any:
        """The answer of `make`, or None where it failed; both are written down."""
        self.write(call=call, device=device, port=port)
        try:
            answer = make()
        except CallFailed as failed:
            self.write(errno=failed.errno)
            return None
        self.write(answer=answer)
        return answer
