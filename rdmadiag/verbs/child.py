"""Starts the query's child process, and kills and abandons it when it is late."""

import json
import sys
import time
from pathlib import Path
from typing import Final

from rdmadiag import command
from rdmadiag.facts import Missing

LIBRARY: Final = {
    "linux": "libibverbs.so.1",
    # In the dyld cache: there is no file of this name on disk, dlopen alone finds it.
    "darwin": "/usr/lib/librdma.dylib",
}
"""What a platform's loader is asked for."""

_PROGRAM: Final = (
    "import sys; sys.path.append(sys.argv.pop(1)); from rdmadiag.verbs.query import main; main()"
)
_ROOT: Final = str(Path(__file__).parent.parent.parent)
_WARNINGS: Final = 4096  # bytes kept of what the library writes on stderr


def ask(platform: str, library: str, gid_rows: int, deadline: float) -> bytes | Missing:
    """The transcript of one query: verbs.query's lines, and last how the child ended.

    `deadline` is absolute on time.monotonic's clock. Missing where no process could be
    started.
    """
    # Not a fork of ours: a library that starts threads must find a process without any.
    # -I -S: neither the user's environment nor site-packages decide what runs.
    start = time.monotonic()
    program = [sys.executable, "-I", "-S", "-c", _PROGRAM, _ROOT]
    argv = [*program, platform, library, str(gid_rows), repr(start)]
    ended = command.finish(argv, deadline)
    if isinstance(ended, Missing):
        return ended
    end = {
        "end": ended.returncode,
        "pid": ended.pid,
        "unkillable": not ended.reaped,
        "at": round(time.monotonic() - start, 6),
        "stderr": ended.stderr[:_WARNINGS].decode("utf-8", "backslashreplace"),
    }
    return ended.stdout + b"\n" + json.dumps(end).encode() + b"\n"
