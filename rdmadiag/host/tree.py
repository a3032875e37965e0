"""Files of a recorded host in a folder.

A tree answers for names relative to its top, without following links: following is
`SnapshotHost`'s, which checks every step.
"""

import os
import stat
from collections.abc import Mapping
from typing import Literal, Protocol

from rdmadiag.facts import Missing
from rdmadiag.host.answers import refusal, utf8
from rdmadiag.host.live import read_capped

Kind = Literal["file", "folder", "link", "other"]


class SnapshotError(Exception):
    """A snapshot that cannot be used; the message is one line for the user."""


class NoSnapshot(SnapshotError):
    """Nothing is at its path."""


class Tree(Protocol):
    """Read access to files by relative name ("root/sys/class/net"); "" is the top."""

    def kind(self, name: str) -> Kind | None:
        """What stands there; None for nothing."""

    def target(self, name: str) -> str:
        """Where a link points, as written."""

    def names(self, name: str) -> tuple[str, ...] | Missing:
        """The names in a folder, sorted."""

    def kinds(self, name: str) -> Mapping[str, Kind]:
        """What stands in a folder, by name; nothing of what is none, or cannot be listed."""

    def read(self, name: str, limit: int) -> bytes | Missing:
        """The content of a regular file."""


class FolderTree:
    """A folder on this machine; only regular files below it are ever opened."""

    def __init__(self, top: str) -> None:
        self._top = os.path.realpath(top)

    def _path(self, name: str) -> str:
        return f"{self._top}/{name}" if name else self._top

    def kind(self, name: str) -> Kind | None:
        """By lstat(2)."""
        try:
            mode = os.lstat(self._path(name)).st_mode
        except (OSError, ValueError):  # ValueError: a NUL in the name
            return None
        if stat.S_ISREG(mode):
            return "file"
        if stat.S_ISDIR(mode):
            return "folder"
        return "link" if stat.S_ISLNK(mode) else "other"

    def target(self, name: str) -> str:
        """As readlink(2) gives it; empty for what is no link."""
        try:
            return utf8(os.readlink(self._path(name)))
        except (OSError, ValueError):
            return ""

    def names(self, name: str) -> tuple[str, ...] | Missing:
        """Sorted; a Missing with the errno of what cannot be listed."""
        try:
            return tuple(sorted(map(utf8, os.listdir(self._path(name)))))
        except (OSError, ValueError) as error:
            return refusal(error, f"/{name}")

    def kinds(self, name: str) -> Mapping[str, Kind]:
        """As readdir(3) gives them: without a call for each."""
        try:
            with os.scandir(self._path(name)) as entries:
                return {utf8(each.name): _kind_of(each) for each in entries}
        except (OSError, ValueError):
            return {}

    def read(self, name: str, limit: int) -> bytes | Missing:
        """Of a regular file alone, which is opened without waiting."""
        try:
            # The last step is opened without following a link that came in meanwhile.
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
            handle = os.open(self._path(name), flags)
        except (OSError, ValueError) as error:
            return refusal(error, f"/{name}")
        try:
            return read_capped(handle, f"/{name}", limit)
        finally:
            os.close(handle)


def _kind_of(entry: "os.DirEntry[str]") -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_file(follow_symlinks=False):
        return "file"
    return "folder" if entry.is_dir(follow_symlinks=False) else "other"
