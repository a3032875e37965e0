"""The file that a fleet's history is kept in, opened as a database: SQLite's, by the stdlib."""

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final
from urllib.parse import quote

from rdmadiag.host.target import target

_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def history_file(path: str, wait: float, *, create: bool) -> Iterator[sqlite3.Connection]:
    """A connection whose transactions are begun by hand; `wait` seconds for other writers.

    Without `create` it is for reading alone, but where a writer died: then its half transaction
    is undone first, which SQLite does by writing (https://www.sqlite.org/lockingv3.html).

    A new file is for its owner alone. Raises OSError: PermissionError for a trap that another
    user has laid in a folder that all may write to, FileNotFoundError where there is no file and
    none is to be created. sqlite3.Error for what SQLite says.
    """
    _check(path, create=create)
    _check(path + "-journal", create=False, needed=False)
    place = os.path.realpath(path)
    is_written = create or os.path.exists(place + "-journal")
    mode = "rw" if is_written and os.access(place, os.W_OK) else "ro"
    uri = f"file:{quote(os.fsencode(place))}?mode={mode}"
    with closing(sqlite3.connect(uri, wait, isolation_level=None, uri=True)) as opened:
        yield opened


def _check(path: str, *, create: bool, needed: bool = True) -> None:
    with target(path) as (folder, name, found):
        if found is None and create:
            with suppress(FileExistsError):  # another writer was first
                os.close(os.open(name, _NEW, 0o600, dir_fd=folder))
        elif found is None and needed:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        elif found is not None and not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "no regular file")
