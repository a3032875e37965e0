"""One folder of records, and the names in it that may be read.

A name is looked at step by step: "..", an absolute path, a link at any step, and what is neither
a folder nor a regular file are refused before anything is opened. What a snapshot's own links
lead to is confined by rdmadiag.host.recorded. Whoever may write to the folder may put another
record in a place after it was looked at: it is for records of people who are trusted with it.
"""

import os
import stat
from collections.abc import Iterator
from itertools import islice
from typing import Final

_DEPTH: Final = 3
_MARKS: Final = ("meta.json", "sys/class/infiniband")
"""What a folder has in it that is a snapshot."""

_RECORDS: Final = (".json", ".tar.gz")
_LOGS: Final = (".log", ".out", ".err", ".txt")


class NoSuchRecord(Exception):
    """A name that is not of a record in the folder; the message is one line."""


class RecordFolder:
    """The records below `top`; raises NoSuchRecord where that is no folder."""

    def __init__(self, top: str) -> None:
        if not top or not os.path.isdir(top):
            raise NoSuchRecord(f"{top!r}: no such folder")
        self._top = os.path.realpath(top)

    def path(self, name: str) -> str:
        """Where the record of that name is; NoSuchRecord for what is none, or is outside."""
        steps = name.split("/")
        if not name or any(step in ("", ".", "..") or "\0" in step for step in steps):
            raise NoSuchRecord(f"{name!r}: not the name of a record; `records` lists them")
        found = self._top
        for number, step in enumerate(steps, start=1):
            found = f"{found}/{step}"
            kind = _kind(found)
            last = number == len(steps)
            if kind == "link":
                raise NoSuchRecord(f"{name!r}: a symbolic link, which is not followed")
            if kind is None or (kind != "folder" and not last):
                raise NoSuchRecord(f"{name!r}: no such record; `records` lists them")
            if kind == "other":
                raise NoSuchRecord(f"{name!r}: neither a folder nor a regular file")
        return found

    def names(self, most: int) -> tuple[tuple[str, ...], bool]:
        """The names of `most` records in order, and whether there are more."""
        return _first(self._walk("", _DEPTH, _RECORDS), most)

    def logs(self, most: int) -> tuple[tuple[str, ...], bool]:
        """The same of files that are called as logs are, but for those inside snapshots."""
        return _first(self._walk("", _DEPTH, _LOGS), most)

    def _walk(self, below: str, depth: int, ends: tuple[str, ...]) -> Iterator[str]:
        try:
            entries = sorted(os.listdir(f"{self._top}/{below}"))
        except OSError:
            return
        for entry in entries:
            name = f"{below}{entry}"
            path = f"{self._top}/{name}"
            kind = _kind(path)
            if kind == "file" and name.endswith(ends):
                yield name
            elif kind == "folder":
                if any(os.path.lexists(f"{path}/{mark}") for mark in _MARKS):
                    if ends is _RECORDS:
                        yield name
                elif depth > 1:
                    yield from self._walk(f"{name}/", depth - 1, ends)


def _first(names: Iterator[str], most: int) -> tuple[tuple[str, ...], bool]:
    found = tuple(islice(names, most))
    return found, next(names, None) is not None


def _kind(path: str) -> str | None:
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError):
        return None
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "other"
