"""What is written to a path that a user names: whole or not at all, and nowhere else.

In a folder that all may write to, such as /tmp, another user can put a symbolic link, or a file
of his own, where a name is expected. As the kernel's protected_symlinks and protected_regular
(Documentation/admin-guide/sysctl/fs.rst), which renames and looks by readlink get past.
"""

import errno
import os
import secrets
import signal
import stat
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Final, NamedTuple

_LINKS: Final = 40  # path_resolution(7)
_SEARCH: Final = getattr(os, "O_PATH", 0x40000000)  # there: O_EXEC of macOS' sys/fcntl.h
_FOLDER: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | _SEARCH
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SHARED: Final = stat.S_ISVTX | stat.S_IWOTH


class Target(NamedTuple):
    """A name in a folder that is held open: whoever moves the path moves neither."""

    folder: int
    name: str
    found: os.stat_result | None  # what stands there now


@contextmanager
def target(path: str) -> Iterator[Target]:
    """Where `path` leads, links followed. Raises OSError; PermissionError for a trap."""
    folder = os.open("/", _FOLDER)
    try:
        steps = deque(_steps(os.path.join(os.getcwd(), path)))
        links = 0
        while True:
            name = steps.popleft() if steps else "."
            found = _lstat(name, folder)
            if found is not None:
                _require_trusted(os.fstat(folder), found)
            if found is not None and stat.S_ISLNK(found.st_mode):
                links += 1
                if links > _LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                leads = os.readlink(name, dir_fd=folder)
                steps.extendleft(reversed(_steps(leads)))
                step = "/" if leads.startswith("/") else "."
            elif not steps:
                yield Target(folder, name, found)
                return
            else:
                step = name
            below = os.open(step, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
    finally:
        os.close(folder)


def _steps(path: str) -> list[str]:
    return [step for step in path.split("/") if step not in ("", ".")]


def _lstat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _require_trusted(folder: os.stat_result, found: os.stat_result) -> None:
    if folder.st_mode & _SHARED != _SHARED or found.st_uid in (os.geteuid(), folder.st_uid):
        return
    kinds = {stat.S_IFLNK: "symbolic link", stat.S_IFREG: "file"}
    if kind := kinds.get(stat.S_IFMT(found.st_mode)):
        raise PermissionError(
            errno.EPERM, f"a {kind} of uid {found.st_uid} stands in a folder that all may write to"
        )


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals that would end the command wait until nothing is half done; SIGKILL does not."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_ENDING: Final = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
    | {signal.SIGABRT, signal.SIGALRM, signal.SIGPIPE, signal.SIGXCPU}
)


def replace_file(path: str, content: bytes, mode: int) -> None:
    """A file that others see before or after, never half; synced. Raises OSError.

    One that is replaced keeps its mode, and its owner where we may give it; `mode` is of a new one.
    """
    with uninterrupted(), target(path) as there:

        def write(file: IO[bytes]) -> None:
            file.write(content)
            before = there.found
            if before is not None:
                with suppress(PermissionError):
                    os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fchmod(file.fileno(), mode if before is None else before.st_mode & 0o777)

        _place(there, write)


def create_file(path: str, write: Callable[[IO[bytes]], None]) -> None:
    """A new file of mode 0600 with what `write` puts into it; raises OSError."""
    with uninterrupted(), target(path) as there:
        if there.found is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        _place(there, write)


def _place(there: Target, write: Callable[[IO[bytes]], None]) -> None:
    temporary: str | None = _temporary()
    descriptor = os.open(str(temporary), _NEW, 0o600, dir_fd=there.folder)
    try:
        with open(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(str(temporary), there.name, src_dir_fd=there.folder, dst_dir_fd=there.folder)
        temporary = None
    finally:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=there.folder)
    _sync(there.folder)


def _temporary() -> str:
    """A name that no collector of files takes: a dot in front, .tmp at the end."""
    return f".rdmadiag.{secrets.token_hex(8)}.tmp"


def _sync(folder: int) -> None:
    """So that the new name outlives a power cut; some file systems refuse it."""
    with suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def create_folder(path: str, files: Mapping[str, bytes], last: str) -> None:
    """A folder of mode 0700 with `files`, path in it → content, each 0600; raises OSError.

    It must be new, or empty and this user's: what is in it then comes at the end, `last` last.
    """
    with uninterrupted(), target(path) as there:
        if there.found is None:
            with _filled(there.folder, files) as temporary:
                os.rename(temporary, there.name, src_dir_fd=there.folder, dst_dir_fd=there.folder)
            return
        if there.found.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, f"the folder is of uid {there.found.st_uid}")
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folder = os.open(there.name, flags, dir_fd=there.folder)
        try:
            if os.listdir(folder):
                raise FileExistsError(errno.EEXIST, "folder is not empty")
            with _filled(folder, files) as temporary:
                tops = {name.partition("/")[0] for name in files}
                for name in sorted(tops, key=lambda each: (each == last, each)):
                    os.rename(f"{temporary}/{name}", name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(folder)


@contextmanager
def _filled(folder: int, files: Mapping[str, bytes]) -> Iterator[str]:
    """The name of a new folder with the files; what is still there at the end is removed."""
    temporary = _temporary()
    os.mkdir(temporary, 0o700, dir_fd=folder)
    made = {temporary}
    try:
        for name, content in files.items():
            path = f"{temporary}/{name}"
            _make_folders(os.path.dirname(path), folder, made)
            with open(os.open(path, _NEW, 0o600, dir_fd=folder), "wb") as file:
                file.write(content)
        yield temporary
    finally:  # by name: it takes no descriptor, of which there may be none left
        for name in files:
            with suppress(OSError):
                os.unlink(f"{temporary}/{name}", dir_fd=folder)
        for path in sorted(made, reverse=True):
            with suppress(OSError):
                os.rmdir(path, dir_fd=folder)


def _make_folders(path: str, folder: int, made: set[str]) -> None:
    if path not in made:
        _make_folders(os.path.dirname(path), folder, made)
        os.mkdir(path, 0o700, dir_fd=folder)
        made.add(path)
