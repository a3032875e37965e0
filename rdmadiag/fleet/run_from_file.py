"""`__main__.py` of what `fleet archive` writes: unpacks it, runs it, and leaves nothing behind.

Nothing here imports it, and it imports nothing but the standard library. Pythons that are too old
for the rest read it too: it is what says so.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
import zlib
from importlib.machinery import EXTENSION_SUFFIXES

USAGE = 64
CANNOT_WRITE = 74
COMPILED = "pydantic_core/_pydantic_core"
PYTHONS = "for.txt"
MAIN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from rdmadiag.__main__ import main; main()"


class Failed(Exception):
    """One line, and the exit code."""

    def __init__(self, line: str, code: int) -> None:
        super().__init__(line)
        self.line = line
        self.code = code


def unpack(file: str, folder: str) -> None:
    """What this Python needs of it."""
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        compiled = [name for name in names if name.startswith(COMPILED + ".")]
        own = COMPILED + EXTENSION_SUFFIXES[0]
        if own not in compiled:
            this = "Python {}.{}, {}".format(*sys.version_info[:2], EXTENSION_SUFFIXES[0])
            raise Failed(f"{file} is for {archive.read(PYTHONS).decode()}; this is {this}", USAGE)
        archive.extractall(folder, [name for name in names if name == own or name not in compiled])


def own_python() -> str:
    """The program that runs this: without PATH in its environment Python does not find itself."""
    return sys.executable or os.path.realpath("/proc/self/exe")


class Ends:
    """Signals that end it, from before there is a folder: the command gets them too."""

    def __init__(self) -> None:
        self.came = 0
        self.child = None  # type: subprocess.Popen[bytes] | None
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                signal.signal(number, self._note)

    def _note(self, number: int, _: object) -> None:
        self.came = number
        if self.child is not None and number != signal.SIGINT:  # Ctrl-C comes to both
            self.child.send_signal(number)


def run(folder: str, arguments: list, ends: Ends) -> int:  # type: ignore[type-arg]  # Python 3.8
    """The exit code."""
    if ends.came:
        return 128 + ends.came
    # -I -S: neither the user's environment nor site-packages decide what runs.
    child = subprocess.Popen(  # noqa: S603  # an argv
        [own_python(), "-I", "-S", "-B", "-c", MAIN, folder, *arguments]
    )
    ends.child = child
    if ends.came:  # while it was being started
        child.send_signal(ends.came)
    code = child.wait()
    return code if code >= 0 else 128 - code


def main() -> int:
    """The exit code of the command."""
    ends = Ends()
    folder = None
    try:
        folder = os.path.realpath(tempfile.mkdtemp(prefix="rdmadiag-file-"))  # 0700
        unpack(os.path.dirname(os.path.abspath(__file__)), folder)
        return run(folder, sys.argv[1:], ends)
    except Failed as failed:
        sys.stderr.write(f"rdmadiag: {failed.line}\n")
        return failed.code
    except (OSError, zipfile.BadZipFile, zlib.error) as error:
        sys.stderr.write(f"rdmadiag: cannot be unpacked or started: {error}\n")
        return CANNOT_WRITE
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
