"""Writing a host down: every answer of a Host, the refusals among them."""

import io
import json
import os
import tarfile
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from posixpath import normpath
from typing import IO, Any, Final

from rdmadiag import __version__
from rdmadiag.facts import Identity, Missing, Why
from rdmadiag.host import READ_LIMIT, Attributes, Host
from rdmadiag.host.answers import NodeStat, Ran
from rdmadiag.host.layout import (
    COMMANDS,
    FORMAT,
    KERNEL,
    LOG,
    META,
    NETLINK,
    REPEATED_FROM,
    ROOT,
    TRANSCRIPT,
    VERBS,
    VERSION,
    command_name,
    fold_numbers,
)
from rdmadiag.host.target import create_file, create_folder

_IDENTITY: Final = ("hostname", "platform", "kernel", "machine")

KEPT_WORDS: Final = {"/proc/cmdline": b"iommu"}
"""Of these files the words with this in them are kept: the others have held passwords."""


def pared(content: bytes, wanted: bytes) -> bytes:
    """The words that hold `wanted`, in any case."""
    return b" ".join(word for word in content.split() if wanted in word.lower()) + b"\n"


@dataclass
class Recording:
    """Every answer of a host, by path or name."""

    files: dict[str, bytes] = field(default_factory=dict)
    refused: dict[str, dict[str, Missing]] = field(default_factory=dict)
    listings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, NodeStat] = field(default_factory=dict)
    openable: dict[str, bool] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)
    netlink: dict[str, bytes] = field(default_factory=dict)
    commands: dict[str, Ran] = field(default_factory=dict)
    verbs: dict[str, bytes] = field(default_factory=dict)
    logs: dict[str, bytes] = field(default_factory=dict)

    def refuse(self, question: str, subject: str, answer: Missing) -> None:
        """Note that `question` ("read", "list", …) about `subject` was not answered."""
        self.refused.setdefault(question, {})[subject] = answer

    def timed_out(self) -> list[Missing]:
        """Refusals that another try may not meet: they are the moment's, not the host's."""
        refused = [each for answers in self.refused.values() for each in answers.values()]
        return [each for each in refused if each.why is Why.TIMEOUT]

    def add(self, other: "Recording") -> None:
        """Take in what another source's recording holds."""
        for question, refused in other.refused.items():
            self.refused.setdefault(question, {}).update(refused)
        for name in (
            "files",
            "listings",
            "links",
            "nodes",
            "openable",
            "environ",
            "netlink",
            "commands",
            "verbs",
            "logs",
        ):
            getattr(self, name).update(getattr(other, name))


class RecordingHost:
    """A Host that passes every question on and notes the answer."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.recording = Recording()

    @property
    def identity(self) -> Identity:
        return self._host.identity

    @property
    def lacks(self) -> Mapping[str, Missing]:
        return self._host.lacks

    @property
    def can_hang(self) -> bool:
        """As the host that is recorded."""
        return self._host.can_hang

    @property
    def given(self) -> bool:
        """As the host that is recorded."""
        return self._host.given

    def _note(self, question: str, store: dict[str, Any], subject: str, answer: Any) -> Any:
        if isinstance(answer, Missing):
            self.recording.refuse(question, subject, answer)
        else:
            store[subject] = answer
        return answer

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes | Missing:
        answer: bytes | Missing = self._host.read(path, limit)
        if path in KEPT_WORDS and not isinstance(answer, Missing):
            answer = pared(answer, KEPT_WORDS[path])
        self._note("read", self.recording.files, path, answer)
        return answer

    def list(self, path: str) -> tuple[str, ...] | Missing:
        answer = self._host.list(path)
        self._note("list", self.recording.listings, path, answer)
        return answer

    def attributes(self, path: str, spared: Collection[str]) -> Attributes | Missing:
        names = self.list(path)
        if isinstance(names, Missing):
            return names
        return {name: self.read(f"{path}/{name}") for name in names if name not in spared}

    def pci_config(self, path: str) -> bytes | Missing:
        answer = self._host.pci_config(path)
        self._note("read", self.recording.files, path, answer)
        return answer

    def readlink(self, path: str) -> str | Missing:
        answer = self._host.readlink(path)
        self._note("readlink", self.recording.links, path, answer)
        return answer

    def stat(self, path: str) -> NodeStat | Missing:
        answer = self._host.stat(path)
        self._note("stat", self.recording.nodes, path, answer)
        return answer

    def can_open(self, path: str) -> bool | Missing:
        answer = self._host.can_open(path)
        self._note("can_open", self.recording.openable, path, answer)
        return answer

    def environ(self, wanted: Sequence[str]) -> dict[str, str] | Missing:
        answer = self._host.environ(wanted)
        if isinstance(answer, Missing):
            self.recording.refuse("environ", "", answer)
        else:
            self.recording.environ.update(answer)
        return answer

    def netlink(self, name: str, protocol: int, request: bytes, deadline: float) -> bytes | Missing:
        answer = self._host.netlink(name, protocol, request, deadline)
        self._note("netlink", self.recording.netlink, name, answer)
        return answer

    def run(self, argv: Sequence[str], deadline: float) -> Ran | Missing:
        answer = self._host.run(argv, deadline)
        self._note("run", self.recording.commands, command_name(argv), answer)
        return answer

    def verbs(self, gid_rows: int, deadline: float) -> bytes | Missing:
        answer = self._host.verbs(gid_rows, deadline)
        self._note("verbs", self.recording.verbs, TRANSCRIPT, answer)
        return answer

    def kernel_log(self, seconds: float, words: Sequence[str], deadline: float) -> bytes | Missing:
        answer = self._host.kernel_log(seconds, words, deadline)
        self._note("log", self.recording.logs, KERNEL, answer)
        return answer


def documents(
    recording: Recording,
    identity: Identity,
    late: Mapping[str, Missing],
    recorded_at: str | None = None,
    redacted: Mapping[str, Any] | None = None,
) -> dict[str, bytes]:
    """A snapshot's files: path inside the snapshot → content.

    `late` names the sources that gave nothing, so that a replay says the same of them;
    `redacted` what was done to it.
    """
    files = {f"{NETLINK}/{name}.bin": content for name, content in recording.netlink.items()}
    files |= {f"{VERBS}/{name}.jsonl": content for name, content in recording.verbs.items()}
    files |= {f"{LOG}/{name}.txt": content for name, content in recording.logs.items()}
    runs = {}
    for name, ran in recording.commands.items():
        files[f"{COMMANDS}/{name}.out"] = ran.stdout
        files[f"{COMMANDS}/{name}.err"] = ran.stderr
        runs[name] = ran.returncode
    repeated, single = _fold(recording.files)
    # A path may hold ".."; what is written never lies outside the root.
    files |= {f"{ROOT}{normpath(path)}": content for path, content in single.items()}
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "tool_version": __version__,
        "recorded_at": recorded_at or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "identity": {key: getattr(identity, key) for key in _IDENTITY},
        "lacks": {name: asdict(missing) for name, missing in late.items()},
        "refused": {
            question: {subject: asdict(missing) for subject, missing in sorted(refused.items())}
            for question, refused in sorted(recording.refused.items())
        },
        "listings": {
            path: fold_numbers(names) for path, names in sorted(recording.listings.items())
        },
        "links": dict(sorted(recording.links.items())),
        "nodes": {path: asdict(node) for path, node in sorted(recording.nodes.items())},
        "openable": dict(sorted(recording.openable.items())),
        "environ": dict(sorted(recording.environ.items())),
        "runs": runs,
        "repeated": repeated,
        "files": Counter(name.partition("/")[0] for name in files),
    }
    if redacted is not None:
        meta["redacted"] = redacted
    files[META] = json.dumps(meta, indent=1, ensure_ascii=False).encode() + b"\n"
    return dict(sorted(files.items()))


def _fold(files: Mapping[str, bytes]) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """Contents that stand in many files of a folder, once; a GID table is mostly empty rows."""
    groups: dict[tuple[bytes, str], list[str]] = {}
    for path, content in files.items():
        folder, _, name = path.rpartition("/")
        groups.setdefault((content, folder), []).append(name)
    repeated: list[dict[str, Any]] = []
    single: dict[str, bytes] = {}
    for (content, folder), names in groups.items():
        if len(names) >= REPEATED_FROM and content.isascii():
            row = {"content": content.decode(), "folder": folder, "names": fold_numbers(names)}
            repeated.append(row)
        else:
            single |= {f"{folder}/{name}": content for name in names}
    return repeated, single


def write_folder(files: Mapping[str, bytes], folder: str) -> None:
    """Write a snapshot as a folder, which must be new or empty; raises OSError.

    For its user alone, and whole or not at all: without meta.json it would be read as a bare tree.
    """
    above = os.path.dirname(os.path.abspath(folder))
    if not os.path.isdir(above):
        os.makedirs(above, exist_ok=True)
    create_folder(folder, files, META)


def write_archive(files: Mapping[str, bytes], path: str) -> None:
    """The same as a new .tar.gz file."""
    create_file(path, partial(_pack, files))


def _pack(files: Mapping[str, bytes], out: IO[bytes]) -> None:
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o600
            member.mtime = int(time.time())
            archive.addfile(member, io.BytesIO(content))
