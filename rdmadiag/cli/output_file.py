"""--output FILE: whole or not at all, for whoever reads it meanwhile."""

import os
import stat
import tempfile
from contextlib import suppress
from typing import Final

from rdmadiag.cli.exits import Refused

MODE: Final = 0o644  # whatever the umask: node_exporter runs as another user


_DESCRIPTORS: Final = ("/dev/std", "/dev/fd/", "/proc/")


def check_output(path: str) -> None:
    """Refuses what could not be written to, before any work is done."""
    if not path:
        raise Refused("--output: names no file")
    if os.path.abspath(path).startswith(_DESCRIPTORS):  # a log that is open would be replaced
        raise Refused(f"--output {path}: is what is open already; stdout needs no --output")
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    try:
        if not stat.S_ISREG(os.stat(target).st_mode):
            raise Refused(f"--output {path}: is there, and is no regular file")
    except FileNotFoundError:
        pass
    except OSError as error:  # a link to itself, a name that is too long
        raise Refused(f"--output {path}: {error.strerror}") from error
    if not os.path.isdir(folder):
        raise Refused(f"--output {path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Refused(f"--output {path}: {folder} cannot be written to")


def write_output(path: str, text: str) -> None:
    """Replace the file: a temporary one beside it, synced, then renamed over it.

    Its name begins with a dot and does not end in .prom, so no collector takes it.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=folder)
        with open(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
            os.fchmod(file.fileno(), MODE)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, target)
        temporary = None
        _sync_folder(folder)
    except OSError as error:
        raise Refused(f"--output {path}: {error.strerror}") from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)


def _sync_folder(folder: str) -> None:
    """So that the new name outlives a power cut; some file systems refuse it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
