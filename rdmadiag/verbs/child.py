"""How a child that loads the verbs library is started; the query's is killed when late."""

import sys
import time
from pathlib import Path
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.host import command
from rdmadiag.verbs.records import Ended, encode

LIBRARY: Final = {
    "linux": "libibverbs.so.1",
    # In the dyld cache: there is no file of this name on disk, dlopen alone finds it.
    "darwin": "/usr/lib/librdma.dylib",
}
"""By platform: what its loader finds the library by."""

CM_LIBRARY: Final = "librdmacm.so.1"
CM_NODE: Final = "/dev/infiniband/rdma_cm"
"""What librdmacm opens; Linux alone."""

_ROOT: Final = str(Path(__file__).parent.parent.parent)
_WARNINGS: Final = 4096  # bytes kept of what the library writes on stderr


def program(module: str) -> list[str]:
    """The command line that runs `main` of a module of rdmadiag.verbs."""
    # Not a fork of ours: a library that starts threads must find a process without any.
    # -I -S: neither the user's environment nor site-packages decide what runs.
    code = (
        f"import sys; sys.path.append(sys.argv.pop(1)); "
        f"from rdmadiag.verbs.{module} import main; main()"
    )
    return [sys.executable, "-I", "-S", "-c", code, _ROOT]


def ask(platform: str, library: str, gid_rows: int, deadline: float) -> bytes | Missing:
    """The transcript of one query: verbs.query's lines, and last how the child ended.

    `deadline` is absolute on time.monotonic's clock. Missing where no process could be
    started.
    """
    start = time.monotonic()
    argv = [*program("query"), platform, library, str(gid_rows), repr(start), repr(deadline)]
    ended = command.finish(argv, deadline)
    if isinstance(ended, Missing):
        return ended
    # Of a child that ended well, and was not read to its end, the last call says nothing: neither
    # that it crashed nor for how long it ran.
    unread = ended.output_held and ended.returncode == 0
    end = Ended(
        at=0.0 if unread else round(time.monotonic() - start, 6),
        end=None if unread else ended.returncode,
        pid=ended.pid,
        unkillable=not ended.reaped,
        stderr=ended.stderr[:_WARNINGS].decode("utf-8", "backslashreplace"),
    )
    return ended.stdout + b"\n" + encode(end)
