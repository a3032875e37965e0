"""Whose a line is, as launchers of commands on many hosts mark it.

Read in: Slurm src/common/write_labelled_message.c and src/slurmd/slurmstepd/io.c, ClusterShell
CLI/Display.py and CLI/Clush.py, pdsh(1) and dshbak(1), kubectl logs --prefix,
ansible.posix plugins/callback/json.py.
"""

import re
from enum import Enum, auto
from typing import Final

from rdmadiag.fleet.nodes import NotNodes, is_name, spread
from rdmadiag.frozen import dataclass
from rdmadiag.quoting import printable


class Mark(Enum):
    """What stands before a line, or a block of lines."""

    NONE = auto()
    TASK = auto()  # srun -l: the number of a task, with zeros before it
    NODE = auto()  # clush, pdsh, a host of Ansible's inventory: a node, or a set of them
    POD = auto()  # kubectl logs --prefix: a pod, whose host may be called otherwise
    BLOCK = auto()  # clush -b, dshbak -c: lines below a header that names their nodes


@dataclass(frozen=True, slots=True)
class Label:
    """Whose lines they are, as far as the launcher says."""

    mark: Mark
    text: str = ""

    def nodes(self) -> tuple[str, ...]:
        """Those that it names; of a task none."""
        if self.mark in (Mark.NODE, Mark.BLOCK):
            try:
                return spread(self.text)
            except NotNodes:
                return ()
        return (self.text,) if self.mark is Mark.POD and is_name(self.text) else ()


UNLABELLED: Final = Label(Mark.NONE)

_TASK: Final = re.compile(rb" {0,10}([0-9]{1,10}): ?(.*)", re.DOTALL)
# Not the day and hour of a syslog in ISO form: "2026-03-13T22:26:01+01:00 node2 kernel: …".
_NODE: Final = re.compile(
    rb"(?![0-9]{4}-[0-9]{2}-[0-9]{2}T)([A-Za-z0-9_][A-Za-z0-9._\[\],-]{0,500}): ?(.*)", re.DOTALL
)
_POD: Final = re.compile(
    rb"\[pod/([^/\]\s]{1,253})/[^\]\s]{1,253}\] ?"
    rb"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,18}(?:Z|[+-][0-9:]{5}) )?(.*)",  # --timestamps
    re.DOTALL,
)


def split(line: bytes) -> tuple[Label, bytes]:
    """The label of a line, and what stands behind it."""
    first = line[:1]
    if first == b"[":
        if found := _POD.fullmatch(line):
            return Label(Mark.POD, found[1].decode("ascii", "backslashreplace")), found[2]
    elif first not in (b"{", b'"', b"}"):
        if found := _TASK.fullmatch(line):
            return Label(Mark.TASK, str(int(found[1]))), found[2]
        if found := _NODE.fullmatch(line):
            return Label(Mark.NODE, found[1].decode("ascii")), found[2]
    return UNLABELLED, line


_DOCUMENT: Final = b' {"schema_version"'
_LAST_LABEL: Final = re.compile(rb"[A-Za-z0-9_][A-Za-z0-9._-]{0,252}:\Z")
_LAST_OPENS: Final = re.compile(rb"[A-Za-z0-9_][A-Za-z0-9._-]{0,252}: \{\Z")
_LATER_POD: Final = re.compile(rb"(?<=.)\[pod/[^\]\s/]{1,253}/[^\]\s]{1,253}\] ", re.DOTALL)


def unglued(line: bytes) -> tuple[bytes, bytes]:
    """A line, and what another host printed behind it on the same one; b"" mostly.

    pdsh and kubectl end no line that a host did not end, such as one that died in its middle.
    """
    if line.startswith(b"[pod/"):
        found = _LATER_POD.search(line)
        return (line[: found.start()], line[found.start() :]) if found else (line, b"")
    at = line.find(_DOCUMENT, 1)
    while at > 0:
        found = _LAST_LABEL.search(line, max(0, at - 254), at)
        if found and found.start():
            return line[: found.start()], line[found.start() :]
        at = line.find(_DOCUMENT, at + 1)
    if line.endswith(b": {"):  # of one that is printed over many lines
        found = _LAST_OPENS.search(line, max(0, len(line) - 256))
        if found and found.start():
            return line[: found.start()], line[found.start() :]
    return line, b""


@dataclass(frozen=True, slots=True)
class Ending:
    """What a launcher says of how a command ended."""

    nodes: tuple[str, ...]  # () where it names none
    task: str | None  # of srun, where it is one
    code: int | None
    detail: str
    is_error: bool = False  # the launcher calls it one


_SRUN: Final = re.compile(r"srun: error: (\S{1,500}): tasks? ([0-9,-]{1,200}): (.{1,200})")
_CLUSH: Final = re.compile(
    r"(?:clush|clubak): (\S{1,500}?)(?: \([0-9]+\))?: "
    r"(exited with exit code \d{1,3}|command timeout)"
)
_PDSH: Final = re.compile(r"(?:pdsh|pdcp)@[^:\s]{1,253}: ([^:\s]{1,253}): (.{1,200})")
_LAUNCHERS: Final = re.compile(
    r"(?:srun|slurmstepd|salloc|sbatch|clush|clubak|pdsh|pdsh@\S+|dshbak|kubectl|error): (.{1,300})"
)
_OWN: Final = (
    *(b"srun:", b"slurmstepd:", b"salloc:", b"sbatch:", b"clush:", b"clubak:", b"dshbak:"),
    *(b"kubectl:", b"error:", b"pdsh", b"pdcp"),
)
_CODE: Final = re.compile(r"[Ee]xited with exit code (\d{1,3})\b")


def is_launchers(line: bytes) -> bool:
    """Whether a line begins like one that a launcher has written itself."""
    return line.startswith(_OWN)


def ending(line: str) -> Ending | None:
    """Of a line that a launcher has written itself; None of any other."""
    if found := _SRUN.fullmatch(line):
        nodes = _nodes(found[1])
        task = found[2] if found[2].isdigit() else None
        return Ending(nodes, str(int(task)) if task else None, _code(found[3]), printable(found[3]))
    if found := _CLUSH.fullmatch(line) or _PDSH.fullmatch(line):
        nodes = _nodes(found[1])
        if nodes:
            return Ending(nodes, None, _code(found[2]), printable(found[2]))
    if found := _LAUNCHERS.match(line):
        return Ending((), None, None, printable(line[:300]), "error" in found[0])
    return None


def _code(text: str) -> int | None:
    found = _CODE.search(text)
    return int(found[1]) if found else None


def _nodes(text: str) -> tuple[str, ...]:
    try:
        return spread(text)
    except NotNodes:
        return ()


_OWN_HEADER: Final = re.compile(rb"pd(?:sh|cp)@[A-Za-z0-9._-]{1,253}")
_DASHES: Final = re.compile(rb"-{10,200}")
_COUNT: Final = re.compile(rb" \([0-9]{1,9}\)$")


class Blocks:
    """Lines below headers of three lines, as clush -b and dshbak -c write them."""

    def __init__(self) -> None:
        self._held: list[bytes] = []  # of what may become a header
        self.label = UNLABELLED  # of the block that has begun

    def take(self, line: bytes) -> list[bytes]:
        """Lines that are no header's; the label may have changed where there are none."""
        self._held.append(line)
        first, *rest = self._held
        if not _DASHES.fullmatch(first):
            return self.rest()
        if rest and not _header(rest[0]):
            return self.rest()
        if len(rest) < 2:
            return []
        if rest[1] != first:
            return self.rest()
        self.label = Label(Mark.BLOCK, _COUNT.sub(b"", rest[0]).decode("ascii"))
        self._held.clear()
        return []

    def rest(self) -> list[bytes]:
        """What was held and is no header after all."""
        held, self._held = self._held, []
        return held


def _header(line: bytes) -> bool:
    if _OWN_HEADER.fullmatch(line):
        return True
    try:
        spread(_COUNT.sub(b"", line).decode("ascii"))
    except (NotNodes, UnicodeDecodeError):
        return False
    return True


class Pieces:
    """A document that comes in lines, until its outermost bracket closes.

    srun -l breaks a line after each 1024 bytes (MAX_MSG_LEN), in words and in letters of UTF-8,
    and labels each piece. Of JSON that is printed over many lines no end of a line matters
    either: so the pieces are put together without.
    """

    __slots__ = ("_depth", "_escaped", "_in_text", "_pieces", "begun", "size")

    def __init__(self, begun: int) -> None:
        self.begun = begun  # the number of its first line
        self.size = 0
        self._pieces: list[bytes] = []
        self._depth = 0
        self._in_text = self._escaped = False

    def add(self, piece: bytes) -> bool:
        """Whether the document is whole with it."""
        self._pieces.append(piece)
        self.size += len(piece)
        if self._escaped:
            piece = piece[1:]
            self._escaped = False
        if b"\\" in piece:
            self._escaped = (len(piece) - len(piece.rstrip(b"\\"))) % 2 == 1
            piece = _ESCAPE.sub(b"", piece)
        parts = piece.split(b'"')
        outside = b"".join(parts[1 if self._in_text else 0 :: 2])
        self._in_text ^= len(parts) % 2 == 0
        self._depth += outside.count(b"{") + outside.count(b"[")
        self._depth -= outside.count(b"}") + outside.count(b"]")
        return self._depth <= 0 and not self._in_text

    def content(self) -> bytes:
        """The bytes of the document, lines joined."""
        return b"".join(self._pieces)


_ESCAPE: Final = re.compile(rb"\\.?", re.DOTALL)

_BEGINS: Final = re.compile(rb'\{\s*(?:["}]|$)|\[\s*(?:\{|$)')
_BEGINS_ANEW: Final = re.compile(rb'\{(?:"schema_version"|\s*$)')


def begins(line: bytes) -> bool:
    """Whether a document begins with a line."""
    return _BEGINS.match(line) is not None


def begins_anew(line: bytes) -> bool:
    """Whether one does where another has not ended."""
    return _BEGINS_ANEW.match(line) is not None
