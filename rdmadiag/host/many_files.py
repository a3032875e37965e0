"""Files of many hosts that a user names: a folder, an archive, a stream; one after the other.

What is in them others have written: each is bounded, and so is all of it. To be called in a
child (rdmadiag.host.given_file), since a file system that has gone holds whoever reads it.
"""

import errno
import gzip
import os
import select
import stat
import tarfile
import time
import zlib
from collections.abc import Iterator
from typing import IO, Final

from rdmadiag.frozen import dataclass
from rdmadiag.host.given_file import OF_PROC, is_of_proc, open_given
from rdmadiag.host.layout import META, ROOT

MOST_FILES: Final = 1_000_000
MOST_BYTES: Final = 16 << 30
"""Of all that is read, unpacked."""

HELD: Final = 32 << 20
"""A file up to this size is read at once; of a longer one come chunks."""

_CHUNK: Final = 1 << 20
_DEPTH: Final = 8
_TOO_MUCH: Final = f"more than {MOST_BYTES >> 30} GiB in all: the rest is not read"
_PACKED: Final = (".tar", ".tar.gz", ".tgz")
STDIN: Final = "-"
_SNAPSHOT: Final = "a snapshot, and no report: rdmadiag preflight --json --from FOLDER > HOST.json"


class NotRead(Exception):
    """Of what the user named nothing can be read; one line."""


@dataclass(frozen=True, slots=True)
class Text:
    """One file: all of it, its chunks, or why it cannot be read."""

    where: str
    names: tuple[str, ...]  # of the file without its ending, and of the folders that it is in
    content: bytes | None = None
    chunks: Iterator[bytes] | None = None  # to be used up before the next Text is asked for
    refused: str | None = None


def texts(path: str, deadline: float) -> Iterator[Text]:
    """Every file below `path`, or stdin for "-", until `deadline` on time.monotonic's clock.

    Raises NotRead where there is nothing at `path`. Symbolic links to folders are not followed;
    what begins with a dot is passed over, and a snapshot is refused as a whole.
    """
    budget = _Budget()
    if path == STDIN:
        yield from _long("stdin", (), budget.count(_stream(0, deadline)))
        return
    try:
        kind = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        raise NotRead(f"{path}: {getattr(error, 'strerror', None) or error}") from (
            error if isinstance(error, PermissionError) else None
        )
    if stat.S_ISDIR(kind):
        yield from _folder(path, budget)
    else:
        yield from _file(path, path, budget, deadline)


class _Budget:
    """What may still be read."""

    def __init__(self) -> None:
        self.files, self.bytes = MOST_FILES, MOST_BYTES

    def take(self, size: int) -> bool:
        """Whether so many bytes more are within it."""
        self.bytes -= size
        return self.bytes >= 0

    def count(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The same chunks, as far as it goes."""
        for chunk in chunks:
            if not self.take(len(chunk)):
                raise OSError(errno.EFBIG, _TOO_MUCH)
            yield chunk


def _folder(path: str, budget: _Budget) -> Iterator[Text]:
    pending = [(path, 0)]
    while pending:
        folder, depth = pending.pop()
        try:
            refused = OF_PROC if is_of_proc(os.stat(folder)) else None
            with os.scandir(folder) as found:
                entries = [] if refused else sorted(found, key=lambda each: each.name)
        except OSError as error:
            refused = error.strerror
        if refused:
            yield Text(folder, (), refused=refused)
            continue
        if {META, ROOT} <= {entry.name for entry in entries}:
            yield Text(folder, _names(os.path.relpath(folder, path)), refused=_SNAPSHOT)
            continue
        below = []
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth < _DEPTH:
                    below.append((entry.path, depth + 1))
                else:
                    yield Text(entry.path, (), refused=f"more than {_DEPTH} folders deep")
                continue
            budget.files -= 1
            if budget.files < 0:
                yield Text(
                    folder, (), refused=f"more than {MOST_FILES} files: the rest is not read"
                )
                return
            yield from _entry(entry, os.path.relpath(entry.path, path), budget)
        pending.extend(reversed(below))


def _entry(entry: "os.DirEntry[str]", name: str, budget: _Budget) -> Iterator[Text]:
    try:
        regular = entry.is_file()
    except OSError as error:
        yield Text(entry.path, (), refused=error.strerror)
        return
    if regular:
        yield from _file(entry.path, name, budget, None)
    else:
        yield Text(entry.path, (), refused="neither a regular file nor a folder")


def _file(path: str, name: str, budget: _Budget, deadline: float | None) -> Iterator[Text]:
    """`deadline` where it may be a pipe."""
    if path.endswith(_PACKED):
        yield from _archive(path, budget)
        return
    names = _names(name)
    try:
        handle = open_given(path)
    except OSError as error:
        yield Text(path, names, refused=error.strerror)
        return
    try:
        found = os.fstat(handle)
        if stat.S_ISFIFO(found.st_mode):
            if deadline is not None:
                yield from _long(path, names, budget.count(_stream(handle, deadline)))
        elif path.endswith(".gz"):
            with os.fdopen(handle, "rb", closefd=False) as file:
                yield from _long(path, names, budget.count(_chunks(gzip.GzipFile(fileobj=file))))
        elif found.st_size <= HELD:
            with os.fdopen(handle, "rb", closefd=False) as file:
                content = file.read(HELD + 1)
            if budget.take(len(content)):
                yield Text(path, names, content=content)
            else:
                yield Text(path, names, refused=_TOO_MUCH)
        else:
            with os.fdopen(handle, "rb", closefd=False) as file:
                yield from _long(path, names, budget.count(_chunks(file)))
    except OSError as error:
        yield Text(path, names, refused=error.strerror or str(error))
    finally:
        os.close(handle)


def _long(path: str, names: tuple[str, ...], chunks: Iterator[bytes]) -> Iterator[Text]:
    """What comes in chunks; behind it, where it broke off, why."""
    refused: list[str] = []

    def whole() -> Iterator[bytes]:
        try:
            yield from chunks
        except (OSError, EOFError, zlib.error) as error:
            refused.append(getattr(error, "strerror", None) or str(error))

    yield Text(path, names, chunks=whole())
    for why in refused:
        yield Text(path, names, refused=why)


def _chunks(file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


def _archive(path: str, budget: _Budget) -> Iterator[Text]:
    """Nothing of it is unpacked to disk."""
    try:
        handle = open_given(path)
        with (
            os.fdopen(handle, "rb") as file,
            tarfile.open(
                fileobj=file, mode="r|*", encoding="utf-8", errors="backslashreplace"
            ) as archive,
        ):
            for member in archive:
                budget.files -= 1
                if budget.files < 0 or not budget.take(max(0, member.size)):
                    yield Text(path, (), refused="more than may be read: the rest is left")
                    return
                place = f"{path}/{member.name}"
                last = member.name.rpartition("/")[2]
                if not member.isfile() or last.startswith("."):
                    continue
                names = _names(member.name)
                stream = archive.extractfile(member)
                if stream is None:
                    continue
                if member.size <= HELD:
                    yield Text(place, names, content=stream.read())
                else:
                    yield from _long(place, names, _chunks(stream))
    except OSError as error:
        yield Text(path, (), refused=error.strerror or str(error))
    except Exception as error:  # noqa: BLE001  # tarfile lets through what a damaged header makes
        yield Text(path, (), refused=f"no archive, or damaged: {error}")


def _names(path: str) -> tuple[str, ...]:
    """ "run7/node017/report.json" → "report", "node017", "run7"; a name may have dots."""
    *folders, last = [part for part in path.split("/") if part not in ("", ".", "..")] or [""]
    found = [last]
    while "." in last:
        last = last.rpartition(".")[0]
        found.append(last)
    return (*found, *reversed(folders))


def _stream(handle: int, deadline: float) -> Iterator[bytes]:
    """What comes, until its end; raises OSError where that is not reached by the deadline.

    What a pipe holds by then has come: it is read once more, and no pipe holds more than a chunk.
    """
    in_time = True
    while in_time:
        left = deadline - time.monotonic()
        in_time = left > 0
        if not select.select([handle], [], [], max(0.0, left))[0]:
            break
        try:
            chunk = os.read(handle, _CHUNK)
        except BlockingIOError:
            continue
        if not chunk:
            return
        yield chunk
    raise OSError(errno.ETIMEDOUT, "had not ended at the deadline (--timeout)")
