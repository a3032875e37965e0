"""The folder of a ring: numbered files of bounded size, for their owner alone.

    DIR/events.000001 … events.000008    records, appended
    DIR/alive                            one record that is overwritten: until when it was watched

A record is handed to the kernel by one write(2), and outlives this process from then on. What
outlives the host is what has reached the disk: it is sent there each second that it has grown,
by a thread, so that a slow disk holds up no reader.
"""

import errno
import fcntl
import os
import re
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from rdmadiag.host.target import target
from rdmadiag.watch.ring import FILES

ALIVE: Final = "alive"
META: Final = "meta.json"  # of a snapshot
_NAME: Final = re.compile(r"events\.([0-9]{6,12})")
_ALIVE_BYTES: Final = 1024
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_SYNC_SECONDS: Final = 1.0
FILE_LIMIT: Final = 16 << 20
"""Bytes of one file that are read: no file of the largest ring is longer."""


class RingFile:
    """A ring that is written to. Raises OSError, PermissionError for a folder of somebody else."""

    def __init__(self, path: str, size: int) -> None:
        """`size`: bytes of all its files together; of each an eighth."""
        self._most = max(1, size // FILES)
        self._folder = _open_folder(path)
        self._file = -1
        self._used = 0
        self._dirty = False
        self._synced = 0.0  # when the last time was, on time.monotonic's clock
        self._syncing: threading.Thread | None = None
        try:
            self._alive = os.open(
                ALIVE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600,
                dir_fd=self._folder,
            )  # fmt: skip
            try:
                fcntl.flock(self._alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(self._alive)
                raise OSError(errno.EBUSY, "another watch writes to it") from error
        except BaseException:
            os.close(self._folder)
            raise
        self.last_alive = os.pread(self._alive, _ALIVE_BYTES, 0)  # of the run before

    @property
    def busy(self) -> bool:
        """Whether the disk is being written to: a thread of ours waits for it."""
        return self._syncing is not None and self._syncing.is_alive()

    @property
    def due(self) -> float | None:
        """When `sync` has something to do, on time.monotonic's clock."""
        return self._synced + _SYNC_SECONDS if self._dirty and not self.busy else None

    def sync(self) -> None:
        """Sends what was written to the disk, without waiting for it."""
        self._synced = time.monotonic()
        if self._file < 0 or self.busy:
            return
        self._dirty = False
        self._syncing = threading.Thread(target=_sync, args=(os.dup(self._file),), daemon=True)
        self._syncing.start()

    def append(self, records: Sequence[bytes]) -> None:
        """All of them or, where the disk is full, those before the one that found no room.

        Raises OSError then; what was written of that one is taken back.
        """
        together: list[bytes] = []
        size = 0
        for record in records:
            if self._file < 0 or self._used + size + len(record) > self._most:
                self._write(together)
                together, size = [], 0
                self._begin()
            together.append(record)
            size += len(record)
        self._write(together)

    def say_alive(self, record: bytes) -> None:
        """Overwrites the record of until when it was watched; raises OSError."""
        os.pwrite(self._alive, record.ljust(_ALIVE_BYTES, b"\0"), 0)

    def close(self) -> None:
        """What was written is sent to the disk; one that hangs is waited for a second."""
        if self._dirty:
            self.sync()
        if self._syncing:
            self._syncing.join(_SYNC_SECONDS)
        for each in (self._file, self._alive, self._folder):
            if each >= 0:
                os.close(each)
        self._file = self._alive = self._folder = -1

    def _write(self, records: Sequence[bytes]) -> None:
        content = b"".join(records)
        if not content:
            return
        try:
            written = os.write(self._file, content)
            if written < len(content):
                written += os.write(self._file, content[written:])
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._used)
            raise
        self._used += written
        self._dirty = True

    def _begin(self) -> None:
        """A new file, and room for it."""
        numbers = _numbers(self._folder)
        for number in numbers[: max(0, len(numbers) - FILES + 1)]:
            os.unlink(name(number), dir_fd=self._folder)
        file = os.open(name(numbers[-1] + 1 if numbers else 1), _APPEND, 0o600, dir_fd=self._folder)
        before, self._file, self._used = self._file, file, 0
        if before >= 0:
            os.close(before)


def _sync(descriptor: int) -> None:
    try:
        with suppress(OSError):  # a file system that knows no such thing
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def name(number: int) -> str:
    """Of a ring's file: numbers count from 1."""
    return f"events.{number:06}"


def _numbers(folder: int) -> list[int]:
    found = map(_NAME.fullmatch, os.listdir(folder))
    return sorted(int(each[1]) for each in found if each)


def _open_folder(path: str) -> int:
    """A new folder, or this user's own that nobody else may write to."""
    with target(path) as there:
        if there.found is None:
            os.mkdir(there.name, 0o700, dir_fd=there.folder)
        folder = os.open(there.name, _FOLDER, dir_fd=there.folder)
    found = os.fstat(folder)
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        os.close(folder)
        raise PermissionError(errno.EPERM, "a folder that others may write to, or of another user")
    return folder


class Ring:
    """A ring that is read, file by file. A file that goes meanwhile is left out: a watch may be
    writing."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self._numbers = _numbers(folder)
        alive = _content(folder, ALIVE)
        if not self._numbers and alive is None:
            raise OSError(errno.ENOENT, "no ring: it holds no events")
        self.alive = (alive or b"")[:_ALIVE_BYTES]

    def files(self) -> Iterator[bytes]:
        """Oldest first."""
        for number in self._numbers[-FILES:]:
            content = _content(self._folder, name(number))
            if content is not None:
                yield content

    def last(self) -> Iterator[bytes]:
        """The newest that has something in it."""
        for number in reversed(self._numbers):
            content = _content(self._folder, name(number))
            if content:
                yield content
                return


def is_ring(path: str) -> bool:
    """Whether a folder is the one of a ring, by the names in it."""
    try:
        names = os.listdir(path)
    except (OSError, ValueError):
        return False
    return META not in names and any(each == ALIVE or _NAME.fullmatch(each) for each in names)


@contextmanager
def open_ring(path: str) -> Iterator[Ring]:
    """Raises OSError, ValueError for a path with a NUL in it."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield Ring(folder)
    finally:
        os.close(folder)


def _content(folder: int, name: str) -> bytes | None:
    """Up to FILE_LIMIT bytes of a regular file; None where there is none."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return None
        return os.read(handle, min(found.st_size, FILE_LIMIT))
    finally:
        os.close(handle)
