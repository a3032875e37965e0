"""Files of a recorded host in a .tar.gz, held in memory: nothing is unpacked to disk."""

import gzip
import io
import tarfile
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.frozen import dataclass
from rdmadiag.host.layout import MAX_BYTES, MAX_ENTRIES
from rdmadiag.host.tree import Kind, SnapshotError

_STREAM_LIMIT: Final = MAX_BYTES + MAX_ENTRIES * 2 * tarfile.BLOCKSIZE
"""Bytes of tar stream: content plus a header and padding for every entry."""


_NAME_LIMIT: Final = 4096  # PATH_MAX


@dataclass(frozen=True, slots=True)
class _Entry:
    kind: Kind
    content: bytes = b""
    target: str = ""


class ArchiveTree:
    """A .tar.gz held in memory; nothing of it is unpacked to disk."""

    def __init__(self, path: str) -> None:
        self._entries: dict[str, _Entry] = {"": _Entry("folder")}
        self._children: dict[str, set[str]] = {"": set()}
        try:
            with (
                gzip.open(path) as raw,
                tarfile.open(
                    fileobj=_Bounded(raw), mode="r|", encoding="utf-8", errors="backslashreplace"
                ) as archive,
            ):
                self._load(archive)
        except SnapshotError as error:
            raise SnapshotError(f"{path}: refused: {error}") from None
        except OSError as error:
            if isinstance(error, gzip.BadGzipFile):
                raise _unreadable(path, "no gzip; a report's name ends in .json") from error
            raise SnapshotError(f"{path}: {error.strerror or error}") from error
        except Exception as error:  # tarfile lets through whatever a damaged header makes it raise
            raise _unreadable(path, error) from error

    def _load(self, archive: tarfile.TarFile) -> None:
        size = 0
        for count, member in enumerate(archive, 1):
            if count > MAX_ENTRIES:
                raise SnapshotError(f"more than {MAX_ENTRIES} entries")
            name = _checked(member)
            if member.isfile():
                size += member.size
                if member.size < 0 or size > MAX_BYTES:
                    raise SnapshotError(f"more than {MAX_BYTES // 1024**2} MiB unpacked")
                stream = archive.extractfile(member)
                self._add(name, _Entry("file", content=stream.read() if stream else b""))
            elif member.issym():
                self._add(name, _Entry("link", target=member.linkname))
            else:
                self._add(name, _Entry("folder"))

    def _add(self, name: str, entry: _Entry) -> None:
        self._entries[name] = entry
        while name:
            parent, _, last = name.rpartition("/")
            known = parent in self._children
            self._children.setdefault(parent, set()).add(last)
            if known:
                break
            self._entries.setdefault(parent, _Entry("folder"))
            name = parent
        if len(self._entries) > 2 * MAX_ENTRIES:  # folders that no entry stands for
            raise SnapshotError(f"more than {MAX_ENTRIES} folders")

    def kind(self, name: str) -> Kind | None:
        """As its header in the archive says."""
        entry = self._entries.get(name)
        return entry.kind if entry else None

    def target(self, name: str) -> str:
        """As its header says; empty for what is no link."""
        entry = self._entries.get(name)
        return entry.target if entry else ""

    def names(self, name: str) -> tuple[str, ...] | Missing:
        """Sorted; of folders that have no header of their own, too."""
        if self.kind(name) != "folder":
            return Missing(Why.ABSENT, f"/{name}: ENOENT")
        return tuple(sorted(self._children.get(name, ())))

    def kinds(self, name: str) -> dict[str, Kind]:
        """As their headers say."""
        top = f"{name}/" if name else ""
        return {each: self._entries[top + each].kind for each in self._children.get(name, ())}

    def read(self, name: str, limit: int) -> bytes | Missing:
        """From what was unpacked into memory."""
        entry = self._entries.get(name)
        if entry is None or entry.kind != "file":
            return Missing(Why.ABSENT, f"/{name}: ENOENT")
        if len(entry.content) > limit:
            return Missing(Why.MALFORMED, f"/{name}: longer than {limit} bytes")
        return entry.content


def _checked(member: tarfile.TarInfo) -> str:
    """The member's relative name; raises SnapshotError for one that must not be there."""
    if len(member.name) > _NAME_LIMIT:
        raise SnapshotError(f"an entry's name is longer than {_NAME_LIMIT} bytes")
    if member.name.startswith("/"):
        raise SnapshotError(f"entry {member.name!r} is absolute")
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise SnapshotError(f"entry {member.name!r} climbs out of the archive")
    if not (member.isfile() or member.isdir() or member.issym()):
        raise SnapshotError(
            f"entry {member.name!r} is neither a file, a folder nor a symbolic link"
        )
    return "/".join(parts)


def _unreadable(path: str, error: object) -> SnapshotError:
    return SnapshotError(f"{path}: not a readable .tar.gz snapshot ({error})")


class _Bounded(io.RawIOBase):
    """A stream that ends a decompression bomb: it raises past _STREAM_LIMIT bytes."""

    def __init__(self, raw: gzip.GzipFile) -> None:
        super().__init__()
        self._raw = raw
        self._left = _STREAM_LIMIT

    def read(self, size: int = -1) -> bytes:
        """Bytes from the stream."""
        content = self._raw.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise SnapshotError(f"more than {MAX_BYTES // 1024**2} MiB unpacked")
        return content
