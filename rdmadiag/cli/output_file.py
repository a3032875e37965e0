"""--output FILE: whole or not at all, for whoever reads it meanwhile."""

import errno
import os
import stat
from typing import Final

from rdmadiag.cli.exits import NotWritten, Refused
from rdmadiag.cli.writing import look, write
from rdmadiag.host.target import replace_file, target

OWN: Final = 0o600
"""Mode of a new file: a report names hosts, addresses and GUIDs."""

FOR_OTHERS: Final = 0o644
"""Of one that is made to be read by others, whatever the umask: a collector, another host."""

_DESCRIPTORS: Final = ("/dev/std", "/dev/fd/", "/proc/")


def check_output(path: str, option: str = "--output") -> None:
    """Refuses what could not be written to, before any work is done."""
    if not path:
        raise Refused(f"{option}: names no file")
    if os.path.abspath(path).startswith(_DESCRIPTORS):  # a log that is open would be replaced
        raise Refused(f"{option} {path}: is what is open already; stdout needs no {option}")
    look(f"{option} {path}", lambda: _check(path, option))


def write_output(path: str, text: str | bytes, mode: int = OWN, option: str = "--output") -> None:
    """Replace the file, or make a new one of this mode."""
    content = text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text

    def replace() -> None:
        try:
            replace_file(path, content, mode)
        except OSError as error:
            raise NotWritten(f"{option} {path}: {error.strerror}") from error

    write(f"{option} {path}", replace)


def _check(path: str, option: str) -> None:
    folder = os.path.dirname(os.path.realpath(path))
    try:
        with target(path) as there:
            if there.found is not None and not stat.S_ISREG(there.found.st_mode):
                raise Refused(f"{option} {path}: is there, and is no regular file")
            if not os.access(".", os.W_OK | os.X_OK, dir_fd=there.folder, effective_ids=True):
                read_only = os.fstatvfs(there.folder).f_flag & os.ST_RDONLY
                raise NotWritten(f"{option} {path}: {folder} cannot be written to") from (
                    None if read_only else PermissionError(errno.EACCES, folder)
                )
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Refused(f"{option} {path}: there is no folder {folder}") from error
    except OSError as error:  # a link to itself, a name that is too long
        raise Refused(f"{option} {path}: {error.strerror}") from error
