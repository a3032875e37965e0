"""Reading a recorded host back. Nothing of the machine that replays is looked at."""

import os
import re
import stat
from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeVar

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.environment import kept
from rdmadiag.facts.evidence import LINUX_SOURCES
from rdmadiag.host import READ_LIMIT, Attributes
from rdmadiag.host.answers import NodeStat, Ran, refusal, utf8
from rdmadiag.host.given_file import understood
from rdmadiag.host.in_turn import Waiting
from rdmadiag.host.layout import (
    ABOUT,
    COMMANDS,
    KERNEL,
    LOG,
    MAX_ENTRIES,
    META,
    NETLINK,
    ROOT,
    TRANSCRIPT,
    VERBS,
    command_name,
)
from rdmadiag.host.meta import Meta, read_meta
from rdmadiag.host.pci_config import SPACE_BYTES
from rdmadiag.host.tree import FolderTree, NoSnapshot, SnapshotError, Tree

T = TypeVar("T")

_ANSWER_LIMIT: Final = 16 * 1024 * 1024
_LINKS: Final = 40  # as many as Linux follows, MAXSYMLINKS
_LINK_TEXT: Final = re.compile(r"(\.\./)+[^\0\n]+")
_NOT_IN_BARE: Final = tuple(name for name in LINUX_SOURCES if name != "sysfs")
_NOT_STDIN: Final = "not read from stdin: save it as a file first, HOST.json"
_BARE: Final = Missing(Why.NOT_COLLECTED, "the snapshot holds sysfs files alone")


def open_snapshot(path: str) -> "SnapshotHost":
    """The recorded host in a folder or .tar.gz file; raises SnapshotError.

    OSError where this process may have no more memory or files, which says nothing of the record.
    """
    try:  # what may not be looked at would not be there, or hold nothing
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
        if is_folder:
            os.scandir(path).close()
    except PermissionError as error:
        raise SnapshotError(f"{path}: {error.strerror}") from error
    except (OSError, ValueError) as error:
        if refusal(error, path).why is Why.EXHAUSTED:
            raise
        why = (
            "not read from stdin: save it as a file first, HOST.json"
            if path == "-"
            else "no such snapshot"
        )
        raise NoSnapshot(f"{path}: {why}") from None
    if is_folder:
        return SnapshotHost(FolderTree(path), path)
    if not os.path.isfile(path):  # opening a FIFO would wait for its writer
        raise SnapshotError(f"{path}: neither a folder nor a file")
    from rdmadiag.host.archive import ArchiveTree

    return SnapshotHost(ArchiveTree(path), path)


def open_record(path: str, deadline: float, waiting_for: Waiting | None = None) -> "SnapshotHost":
    """The same of a record that the user names, within a budget: see host.given_file."""
    host = understood(path, lambda: open_snapshot(path), SnapshotError, deadline, waiting_for)
    host.given = True
    return host


class SnapshotHost:
    """A Host that answers from a snapshot, and says what the snapshot does not hold."""

    can_hang = False  # regular files alone are opened, and nothing else is queried
    given = False  # of ours, unless `open_record` opened it

    def __init__(self, tree: Tree, path: str) -> None:
        self._tree = tree
        self._folders: dict[str, str | Missing] = {}
        self._held: dict[str, int] = {}
        prefix = _top(tree)
        self._prefix = prefix
        for folder in (ROOT, NETLINK, COMMANDS, VERBS, LOG):
            if tree.kind(f"{prefix}{folder}") == "link":
                raise SnapshotError(f"{path}: {folder} is a link; a snapshot has a folder there")
        meta = read_meta(tree, prefix, path)
        self._bare = meta is None
        # A folder without one is a copy of /sys itself.
        self._is_of_sys = tree.kind(f"{prefix}sys") is None
        if meta is None:
            meta = Meta({})
            if not (self._has("sys/class/infiniband") or self._has("class/infiniband")):
                raise SnapshotError(
                    f"{path}: neither a snapshot (no {META}) nor a folder with sys/class/infiniband"
                )
        self._meta: Meta = meta
        about = tree.read(f"{prefix}{ABOUT}", READ_LIMIT)
        self.about = "" if isinstance(about, Missing) else about.decode("utf-8", "replace").strip()
        name = utf8(os.path.basename(os.path.normpath(path)))
        self.identity = meta.identity(name.removesuffix(".tar.gz"))
        self.lacks: Mapping[str, Missing] = (
            dict.fromkeys(_NOT_IN_BARE, _BARE) if self._bare else meta.lacks
        )

    def _has(self, name: str) -> bool:
        """Whether a bare folder holds `name`, links in it followed inside the folder."""
        found = self._walk(f"{self._prefix}{name}")
        return not isinstance(found, Missing) and self._tree.kind(found) is not None

    def _name(self, path: str) -> str:
        """A host's path as a name in the tree, links unresolved."""
        if not self._bare:
            return f"{self._prefix}{ROOT}{path}"
        if self._is_of_sys and path.startswith("/sys/"):
            path = path.removeprefix("/sys")
        return f"{self._prefix}{path[1:]}"

    def _content(self, name: str, limit: int) -> bytes | Missing:
        """Of the file at `name`, every link in it followed inside the tree."""
        parent, _, last = name.rpartition("/")
        if not parent:
            found = self._walk(name)
            return found if isinstance(found, Missing) else self._tree.read(found, limit)
        folder = self._folder(parent)
        if isinstance(folder, Missing):
            return folder
        here = f"{folder}/{last}"
        content = self._tree.read(here, limit)  # which follows no link
        if isinstance(content, Missing) and self._tree.kind(here) == "link":
            found = self._walk(here)
            return found if isinstance(found, Missing) else self._tree.read(found, limit)
        return content

    def _folder(self, name: str) -> str | Missing:
        """The folder at `name`, links followed: one step below the one that it is in, where that
        is known.
        """
        found = self._folders.get(name)
        if found is None:
            above, _, last = name.rpartition("/")
            parent = self._folders.get(above)
            here = f"{parent}/{last}" if isinstance(parent, str) and parent else ""
            is_name = last not in ("", ".", "..")
            is_below = bool(here) and is_name and self._tree.kind(here) == "folder"
            found = self._folders[name] = here if is_below else self._walk_to_folder(name)
        return found

    def _walk_to_folder(self, name: str) -> str | Missing:
        # The trailing "." makes a text file that stands for a link to a folder one to follow.
        return self._walk(f"{name}/.")

    def _walk(self, name: str) -> str | Missing:
        top = self._prefix + (ROOT if not self._bare else "")
        floor = [part for part in top.split("/") if part]
        rest = [part for part in name.split("/") if part][::-1]
        done: list[str] = []
        links = 0
        while rest:
            part = rest.pop()
            if part == ".":
                continue
            if part == "..":
                if len(done) <= len(floor):
                    return Missing(Why.DENIED, f"/{name}: a link leads out of the snapshot")
                done.pop()
                continue
            here = "/".join((*done, part))
            target = self._link_at(here, last=not rest)
            if target is None:
                done.append(part)
                continue
            links += 1
            if links > _LINKS:
                return Missing(Why.MALFORMED, f"/{name}: links lead in a circle")
            if not target:  # gone since, or an archive's link to nowhere
                return Missing(Why.ABSENT, f"/{name}: ENOENT")
            if target.startswith("/"):
                done, target = [], self._name(target)
            rest += [step for step in target.split("/") if step][::-1]
        return "/".join(done)

    def _link_at(self, name: str, *, last: bool) -> str | None:
        kind = self._tree.kind(name)
        if kind == "link":
            return self._tree.target(name)
        if kind == "file" and not last:
            return self._link_text(name)
        return None

    def _link_text(self, name: str) -> str | None:
        """The target in a text file that stands for a link (git's core.symlinks=false)."""
        content = self._tree.read(name, 4096)
        if isinstance(content, Missing):
            return None
        text = content.decode("utf-8", "replace").strip()
        return text if _LINK_TEXT.fullmatch(text) else None

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes | Missing:
        refused = self._meta.refused("read", path)
        if refused:
            return refused
        folded = self._meta.repeated.get(path)
        if folded is not None:
            return folded
        answer = self._content(self._name(path), limit)
        if isinstance(answer, Missing) and answer.why is Why.ABSENT:
            lost = self._lost(ROOT, path)
            if lost:
                return lost
        return _about(answer, path)

    def list(self, path: str) -> tuple[str, ...] | Missing:
        refused = self._meta.refused("list", path)
        if refused:
            return refused
        listed = self._meta.listings.get(path)
        if listed is not None:
            return listed
        name = self._folder(self._name(path))
        return _about(name if isinstance(name, Missing) else self._tree.names(name), path)

    def attributes(self, path: str, spared: Collection[str]) -> Attributes | Missing:
        names = self.list(path)
        if isinstance(names, Missing):
            return names
        return {name: self.read(f"{path}/{name}") for name in names if name not in spared}

    def pci_config(self, path: str) -> bytes | Missing:
        return self.read(path, SPACE_BYTES)

    def readlink(self, path: str) -> str | Missing:
        refused = self._meta.refused("readlink", path)
        if refused:
            return refused
        noted = self._meta.links.get(path)
        if noted is not None:
            return noted
        parent, _, last = self._name(path).rpartition("/")
        folder = self._folder(parent)
        if isinstance(folder, Missing):
            return _about(folder, path)
        name = f"{folder}/{last}"
        kind = self._tree.kind(name)
        if kind == "link":
            return self._tree.target(name)
        text = self._link_text(name) if kind == "file" else None
        if text is not None:
            return text
        if kind is None:
            return Missing(Why.ABSENT, f"{path}: ENOENT")
        return Missing(Why.UNSUPPORTED, f"{path}: EINVAL")

    def stat(self, path: str) -> NodeStat | Missing:
        return self._meta.refused("stat", path) or self._meta.nodes.get(path) or _unasked(path)

    def can_open(self, path: str) -> bool | Missing:
        answer = self._meta.refused("can_open", path)
        return self._meta.openable.get(path, _unasked(path)) if answer is None else answer

    def environ(self, wanted: Sequence[str]) -> dict[str, str] | Missing:
        refused = self._meta.refused("environ", "")
        if refused:
            return refused
        return kept(self._meta.environ, wanted)

    def netlink(self, name: str, protocol: int, request: bytes, deadline: float) -> bytes | Missing:
        """The reply that was recorded by this name, whatever `request` and the deadline are."""
        refused = self._meta.refused("netlink", name)
        if refused:
            return refused
        content = self._tree.read(f"{self._prefix}{NETLINK}/{name}.bin", _ANSWER_LIMIT)
        if isinstance(content, Missing):
            return self._unasked(NETLINK, f"netlink {name}")
        return content

    def run(self, argv: Sequence[str], deadline: float) -> Ran | Missing:
        """The output that was recorded of this command, whatever the deadline."""
        name = command_name(argv)
        refused = self._meta.refused("run", name)
        if refused:
            return refused
        returncode = self._meta.runs.get(name)
        out = self._tree.read(f"{self._prefix}{COMMANDS}/{name}.out", _ANSWER_LIMIT)
        err = self._tree.read(f"{self._prefix}{COMMANDS}/{name}.err", _ANSWER_LIMIT)
        if returncode is None or isinstance(out, Missing) or isinstance(err, Missing):
            return self._unasked(COMMANDS, " ".join(argv))
        return Ran(returncode, out, err)

    def verbs(self, gid_rows: int, deadline: float) -> bytes | Missing:
        """The transcript that was recorded, with the rows that were read then."""
        refused = self._meta.refused("verbs", TRANSCRIPT)
        if refused:
            return refused
        content = self._tree.read(f"{self._prefix}{VERBS}/{TRANSCRIPT}.jsonl", _ANSWER_LIMIT)
        return self._unasked(VERBS, "verbs") if isinstance(content, Missing) else content

    def kernel_log(self, seconds: float, words: Sequence[str], deadline: float) -> bytes | Missing:
        """The lines that were recorded, whatever `seconds` and `words` are."""
        refused = self._meta.refused("log", KERNEL)
        if refused:
            return refused
        content = self._tree.read(f"{self._prefix}{LOG}/{KERNEL}.txt", _ANSWER_LIMIT)
        return self._unasked(LOG, "the kernel's log") if isinstance(content, Missing) else content

    def _unasked(self, folder: str, subject: str) -> Missing:
        return self._lost(folder, subject) or _unasked(subject)

    def _lost(self, folder: str, subject: str) -> Missing | None:
        """Where the record holds fewer files than it was written with: any may be one of those."""
        written = self._meta.files.get(folder, 0)
        if not written:
            return None
        if folder not in self._held:
            self._held[folder] = _count(self._tree, f"{self._prefix}{folder}", written)
        held = self._held[folder]
        if held >= written:
            return None
        lost = "1 file" if written - held == 1 else f"{written - held} files"
        return Missing(Why.MALFORMED, f"{subject}: not in the snapshot, which lacks {lost}")


def _count(tree: Tree, top: str, enough: int) -> int:
    """Regular files below a folder, no more than `enough`."""
    waiting, files, seen = [top], 0, 0
    while waiting and files < enough and seen < 2 * MAX_ENTRIES:
        folder = waiting.pop()
        for name, kind in tree.kinds(folder).items():
            files += kind == "file"
            seen += 1
            if kind == "folder":
                waiting.append(f"{folder}/{name}")
    return files


def _unasked(subject: str) -> Missing:
    return Missing(Why.NOT_COLLECTED, f"{subject}: not in the snapshot")


def _about(answer: T | Missing, path: str) -> T | Missing:
    """A Missing that names the host's path, not the place in the snapshot."""
    if not isinstance(answer, Missing):
        return answer
    return Missing(answer.why, f"{path}: {answer.detail.rpartition(': ')[2]}")


def _top(tree: Tree) -> str:
    """ "" or "name/": an archive often holds one folder that holds the rest."""
    if tree.kind(META) is None and tree.kind("sys") is None and tree.kind("class") is None:
        names = tree.names("")
        if not isinstance(names, Missing) and len(names) == 1 and tree.kind(names[0]) == "folder":
            return f"{names[0]}/"
    return ""
