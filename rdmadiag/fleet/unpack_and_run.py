"""Runs on a node: unpacks what --copy sends on stdin, runs it, and leaves nothing behind.

`copy.py` sends this file's text as the argument of `python3 -c`; nothing here imports it, and
it imports nothing but the standard library. It ends with the command, or when stdin does: that
is the end of ssh. What is for the command's own stdin comes behind the archive.
"""

import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
from contextlib import suppress
from typing import Final

FAILED: Final = 125  # and a line on stderr that begins with OURS
OURS: Final = "rdmadiag-copy: "
_MAIN: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from rdmadiag.__main__ import main; main()"
)
_GRACE: Final = 2.0  # seconds between SIGTERM and SIGKILL


class Failed(Exception):
    """Why the archive could not be unpacked or started, in one line."""


def read(size: int) -> bytes:
    """From stdin, which stays open for as long as there is somebody at its end."""
    data = bytearray()
    while len(data) < size:
        more = os.read(0, size - len(data))
        if not more:
            raise Failed(f"only {len(data)} of {size} bytes arrived (is stdin passed on?)")
        data += more
    return bytes(data)


def whole(size: int, digest: str) -> bytes:
    """The archive."""
    data = read(size)
    if hashlib.sha256(data).hexdigest() != digest:
        raise Failed("what arrived is not what was sent")
    return data


def unpack(data: bytes, folder: str) -> None:
    """Regular files and folders below `folder` alone."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        for member in archive.getmembers():
            place = os.path.realpath(os.path.join(folder, member.name))
            if not place.startswith(folder + os.sep) or not (member.isreg() or member.isdir()):
                raise Failed(f"{member.name!r} in the archive")
            member.mode = 0o600 if member.isreg() else 0o700
        archive.extractall(folder)  # noqa: S202  # looked at above


class Child:
    """The command; ended when there is nobody to read what it writes."""

    def __init__(self, argv: list[str], fed: bytes) -> None:
        stdin = subprocess.PIPE if fed else subprocess.DEVNULL
        self.process = subprocess.Popen(  # noqa: S603  # an argv
            argv, bufsize=0, stdin=stdin, start_new_session=True
        )
        self._fed = fed
        self._ending = False

    def feed(self) -> None:
        """What is for its stdin, which stays open behind it."""
        rest = memoryview(self._fed)
        with suppress(OSError):
            while rest and self.process.stdin is not None:
                rest = rest[self.process.stdin.write(rest) or 0 :]

    def end(self, *_: object) -> None:
        """SIGTERM to its group, and SIGKILL where that is not enough."""
        if not self._ending:
            self._ending = True
            self.signal(signal.SIGTERM)
            late = threading.Timer(_GRACE, self.signal, (signal.SIGKILL,))
            late.daemon = True
            late.start()

    def signal(self, number: int) -> None:
        """To its group."""
        with suppress(OSError):
            os.killpg(self.process.pid, number)

    def watch(self) -> None:
        """Until the end of stdin."""
        with suppress(OSError):
            while os.read(0, 4096):
                pass
        self.end()


class Ends:
    """Signals that end it, from before there is a folder: each ends the child, if there is one."""

    def __init__(self) -> None:
        self.came = False
        self.child: Child | None = None
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, *_: object) -> None:
        self.came = True
        if self.child is not None:
            self.child.end()


def run(folder: str, arguments: list[str], fed: bytes, ends: Ends) -> int:
    """The exit code."""
    if ends.came:
        raise Failed("it was ended before it ran")
    # -I -S: neither the user's environment nor site-packages decide what runs.
    child = Child([sys.executable, "-I", "-S", "-B", "-c", _MAIN, folder, *arguments], fed)
    ends.child = child
    if ends.came:  # while it was being started
        child.end()
    for work in (child.watch, child.feed):
        threading.Thread(target=work, daemon=True).start()
    code = child.process.wait()
    return code if code >= 0 else 128 - code


def main() -> None:
    """SIZE SHA256 BYTES ARGUMENT…: BYTES are for the command's stdin."""
    os.umask(0o077)
    folder = None
    try:
        data = whole(int(sys.argv[1]), sys.argv[2])
        fed = read(int(sys.argv[3]))
        ends = Ends()
        folder = os.path.realpath(tempfile.mkdtemp(prefix="rdmadiag-copy-"))
        unpack(data, folder)
        code = run(folder, sys.argv[4:], fed, ends)
    except (Failed, OSError, tarfile.TarError) as error:
        sys.stderr.write(f"{OURS}{error}\n")
        code = FAILED
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    sys.stderr.flush()
    os._exit(code)  # not the thread that waits for stdin


if __name__ == "__main__":
    main()
