"""Wheels of pydantic-core in a folder that the user names: which there are, and what is in one.

Whoever opens the folder says within what it is read: it may lie on a file system that has gone,
and a wheel may unpack to more than there is memory.
"""

import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeVar

from rdmadiag.frozen import dataclass
from rdmadiag.quoting import printable

T = TypeVar("T")

COMPILED: Final = "pydantic_core"

MOST_UNPACKED: Final = 256 << 20
"""Bytes, of all the wheels that are taken; a wheel of today has five million."""

_LIMIT: Final = f"{MOST_UNPACKED >> 20} MiB"

_PACKED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""As the specification of wheels has it; other ways unpack more at once than is asked for."""

_UNREADABLE: Final = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""Of zipfile: RuntimeError for what is encrypted, or compressed by a way that it does not know."""


class NoArchive(Exception):
    """There is none for this Python; one line."""


class Within(Protocol):
    """Does what reads `path`; raises NoArchive also for what takes more time or memory."""

    def __call__(self, path: str, read: Callable[[], T]) -> T:
        """What `read` returns, or raises."""


@dataclass(frozen=True, slots=True)
class Wheels:
    """The folder, and the budget within which it is read."""

    folder: str
    within: Within

    def names(self) -> list[str]:
        """All files in it; raises NoArchive."""
        return self.within(self.folder, self._names)

    def unpacked(self, name: str, most: int) -> dict[str, bytes]:
        """Name in an archive → content, of one wheel.

        Raises NoArchive, also for more than `most` bytes.
        """
        path = os.path.join(self.folder, name)
        return self.within(path, lambda: _unpacked(path, most))

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self.folder))
        except OSError as error:
            raise NoArchive(f"{self.folder}: {error.strerror}") from error


def size(files: Mapping[str, bytes]) -> int:
    """Bytes of all contents."""
    return sum(map(len, files.values()))


def _unpacked(path: str, most: int) -> dict[str, bytes]:
    name = os.path.basename(path)
    if not os.path.isfile(path):  # of a FIFO nothing may ever come
        raise NoArchive(f"{name}: is no regular file")
    found: dict[str, bytes] = {}
    left = most
    try:
        with zipfile.ZipFile(path) as wheel:
            for each in wheel.infolist():
                if not each.filename.startswith(f"{COMPILED}/") or each.is_dir():
                    continue
                if each.compress_type not in _PACKED:
                    raise NoArchive(f"{name}: is not packed as wheels are")
                with wheel.open(each) as member:
                    content = found[each.filename] = member.read(left + 1)
                left -= len(content)
                if left < 0:
                    raise NoArchive(f"{name}: the wheels unpack to more than {_LIMIT}")
    except _UNREADABLE as error:
        raise NoArchive(f"{name}: {printable(str(error))}") from error
    return found
