"""How each child that drives a device begins: one request on stdin, its transcript on stdout."""

import os
import sys
from typing import Final, TypeVar

from rdmadiag.verbs import records
from rdmadiag.verbs.records import Malformed, Request
from rdmadiag.verbs.transcript import Transcript

_REQUEST_LIMIT: Final = 1 << 18  # bytes

R = TypeVar("R", bound=Request)


def begin(kind: type[R]) -> tuple[R, Transcript]:
    """The request, and where to write; ends the process where no such request comes."""
    request = records.parse(sys.stdin.buffer.readline(_REQUEST_LIMIT))
    if not isinstance(request, kind):
        why = request.why if isinstance(request, Malformed) else request.kind
        sys.exit(f"no request: {why}")
    # A provider that prints on stdout must not break our lines.
    transcript = Transcript(os.dup(1), request.start)
    os.dup2(2, 1)
    return request, transcript
