"""A whole record, or a printed document, with pseudonyms for the names in it.

What is taken is what the sources of rdmadiag read of a record, never the record's files as they
are: what no source knows is not in the result. What cannot be understood is left out and listed.
"""

import json
import plistlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from posixpath import normpath
from typing import Any, Final

from rdmadiag.facts import Identity, Missing, Why
from rdmadiag.frozen import dataclass
from rdmadiag.host import pci_config
from rdmadiag.host.answers import Ran
from rdmadiag.host.recording import Recording
from rdmadiag.redact.addresses import Addresses, Seen
from rdmadiag.redact.devices import devices_in, devices_of, listed, nodes_of
from rdmadiag.redact.names import STANDARD_FOLDERS, Names
from rdmadiag.redact.netlink import Messages
from rdmadiag.redact.pseudonyms import Pseudonyms, new_key
from rdmadiag.redact.secrets import REMOVED
from rdmadiag.redact.text import Numbers, Text
from rdmadiag.redact.values import Spread, Values

LEFT_IN: Final = (
    "PCI addresses, vendor and device numbers, models, board ids and part numbers",
    "versions of kernels, firmware, drivers and libraries; names of kernel modules and libraries",
    "LIDs, P_Keys, Q_Keys, queue pair numbers, VLANs, ports of protocols, interface indexes",
    "the class of an address: loopback, private, link-local, documentation, multicast, ::ffff:",
    "IPv4's first bits where ranges of other classes are near, and lengths of networks",
    "the last hexadecimal digit of MACs and GUIDs, and whether they are universal; not the vendor",
    "link-local addresses' prefix, which is InfiniBand's default subnet prefix; multicast groups",
    "numbers of processes, users and groups; times; counters; sizes",
    "common names: root, localhost, python3, mpirun, slurmstepd (rdmadiag.redact.names.ORDINARY)",
    "words of kernel logs, panic reports and settings that have no form of a name",
)
"""What a redacted record still says, one line each."""

COMMON_NAMES: Final = (
    "in other text, a name of this record that is a word of the system or of one or two letters"
)
"""One line more where a host is called "rdma" or "n1": names stand alone in few places."""

_RAW: Final = {
    "fw_ver": re.compile(rb"[\w.:()+ -]{0,64}\n?"),
    "hw_rev": re.compile(rb"\w{0,16}\n?"),
    "modalias": re.compile(rb"[a-z]{1,12}:[\w:,*.-]{0,4000}\n?"),
    "osrelease": re.compile(rb"[\w.+~-]{0,64}\n?"),
    "version": re.compile(rb"[\w.:+ ~-]{0,80}\n?"),
}
"""Files that hold digits which look like an address, and never one; by their name."""

_NUMBERS: Final = re.compile(rb"-?[0-9]{1,20}\n?")
_NAME_LINE: Final = re.compile(r"^(Name:[ \t]*)(.*)$", re.MULTILINE)
_UDP_ADDRESS: Final = re.compile(r"\b([0-9A-F]{32}|[0-9A-F]{8})(?=:[0-9A-F]{4}\b)")
_INET6_ADDRESS: Final = re.compile(r"^[0-9a-f]{32}", re.MULTILINE)
_CONFIG: Final = re.compile(r"/sys/.*/config")
_STATUS: Final = re.compile(r"/proc/[^/]+/status$")
_COMM: Final = re.compile(r"/proc/[^/]+/comm$")
_HOSTS: Final = re.compile(r"/etc/hosts$")
_RESOLVER: Final = re.compile(r"/etc/resolv\.conf$")
_HOSTNAME: Final = re.compile(r"/proc/sys/kernel/hostname$")
_UDP_TABLES: Final = re.compile(r"/proc/[^/]+/net/(?:udp|tcp|raw)6?$")
_IF_INET6: Final = re.compile(r"/proc/[^/]+/net/if_inet6$")
_PANICS: Final = re.compile(r"/Library/Logs/DiagnosticReports/")
_UEVENT: Final = re.compile(r"MODALIAS=[a-z]{1,12}:[\w:,*.-]{0,4000}\n?|PCI_\w+=[\w:.]+\n?")
_USER: Final = re.compile(r"/(?:home|Users|export/home)/([^/:\s]+)")
_GONE: Final = "left out by redaction: "
_DRAWS: Final = 30
_ANYWHERE: Final = (
    "host",
    "user",
    "prog",
    "fs",
    "serial",
)  # words of a setting, and folders, may be any word
_LEAST: Final = 4  # characters of a name that is looked for at the end


@dataclass(frozen=True, slots=True)
class Redacted:
    """A record with pseudonyms, and what was done to it."""

    recording: Recording
    identity: Identity
    late: dict[str, Missing]
    left_out: tuple[str, ...]  # one line each: which part, and why
    by_chance: int  # pseudonyms that are addresses of the same record
    has_common_names: bool  # see COMMON_NAMES
    devices: tuple[str, ...]  # names of devices and netdevs, as they stand in the result

    def manifest(self) -> dict[str, Any]:
        """What the record itself says of it."""
        return {
            "left_in": _left_in(self.devices, self.has_common_names),
            "left_out": list(self.left_out),
            "by_chance": self.by_chance,
        }


@dataclass(frozen=True, slots=True)
class RedactedDocument:
    """The same of a document that was printed."""

    document: Any
    by_chance: int  # pseudonyms that are addresses of the same document
    has_common_names: bool  # see COMMON_NAMES
    devices: tuple[str, ...]  # as in Redacted

    def manifest(self) -> dict[str, Any]:
        """What the document itself says of it."""
        return {
            "left_in": _left_in(self.devices, self.has_common_names),
            "left_out": [],
            "by_chance": self.by_chance,
        }


def _left_in(devices: Iterable[str], has_common_names: bool) -> list[str]:
    """One line each, those first that are of this record."""
    return [*listed(devices), *LEFT_IN, *([COMMON_NAMES] if has_common_names else [])]


def redact_record(
    recording: Recording, identity: Identity, late: Mapping[str, Missing], key: bytes | None
) -> Redacted:
    """The same record with pseudonyms; without a key, by one that is drawn and dropped."""
    left = _Left(devices_of(recording), nodes_of(recording), _modules(recording))
    # The first round finds what there is; networks and bare digits are known in the second.
    known = _Known(_names_in(recording, identity))
    first = _Run(key or new_key(), left, known, identity)
    first.record(recording, late)
    run = _Run(_drawn(key, first.addresses.seen), left, first.found, identity)
    return _checked(run.record(recording, late), run)


def redact_document(
    document: Any, key: bytes | None, spread: Spread | None = None
) -> RedactedDocument:
    """The same of what `preflight --json` and the like printed; raises ValueError.

    Of a list of documents, as `watch --json` prints them, all have the same pseudonyms. `spread`
    is for what `fleet` printed: it makes names of a set of nodes.

    That is for what is nested too deep, and where a name could not be replaced.
    """
    known: dict[str, str] = {}
    for each in document if isinstance(document, list) else (document,):
        host = each.get("host") if isinstance(each, dict) else None
        name = host.get("hostname") if isinstance(host, dict) else None
        if isinstance(name, str):
            _note_host(known, name)
    _note_users(known, json.dumps(document, ensure_ascii=False))
    left = _Left(devices_in(document))
    first = _Run(key or new_key(), left, _Known(known), None, spread)
    first.values.json(document)
    run = _Run(_drawn(key, first.addresses.seen), left, first.found, None, spread)
    made = run.values.json(document)
    if run.text.still_names(json.dumps(made, ensure_ascii=False)):
        raise ValueError("a name could not be replaced in it")
    return RedactedDocument(
        made,
        sum(1 for _ in run.addresses.by_chance()),
        run.text.has_common_names,
        run.devices(),
    )


def _drawn(key: bytes | None, seen: Seen) -> bytes:
    """A key that makes none of the addresses of another one; of a few small networks of many
    hosts there may be none."""
    if key is not None:
        return key
    for _ in range(_DRAWS):
        key = new_key()
        if next(Addresses(Pseudonyms(key), seen).by_chance(), None) is None:
            break
    assert key is not None
    return key


def _note_host(known: dict[str, str], name: str) -> None:
    """Label by label; a domain's name may be an ordinary word."""
    for at, label in enumerate(name.split(".")):
        if label:
            known.setdefault(label.casefold(), "domain" if at else "host")


def _note_users(known: dict[str, str], text: str) -> None:
    for found in _USER.finditer(text):
        known.setdefault(found[1].casefold(), "user")


def _names_in(recording: Recording, identity: Identity) -> dict[str, str]:
    """Names that stand where only names stand."""
    known: dict[str, str] = {}
    _note_host(known, identity.hostname)
    for path, content in recording.files.items():
        text = content.decode("latin-1")
        if _COMM.fullmatch(path):
            known.setdefault(text.strip().casefold(), "prog")
        elif _STATUS.fullmatch(path):
            known |= {
                found[2].strip().casefold(): "prog"
                for found in _NAME_LINE.finditer(text)
                if found[2].strip().casefold() not in known
            }
    for text in (*recording.environ.values(), *recording.files, *recording.links.values()):
        _note_users(known, text)
    for name in ("HOME", "XDG_STATE_HOME"):
        for part in recording.environ.get(name, "").split("/"):
            if len(part) >= _LEAST and part not in STANDARD_FOLDERS:
                known.setdefault(part.casefold(), "folder")
    known.pop("", None)
    return known


@dataclass(frozen=True, slots=True)
class _Left:
    """Words that are nobody's name in this record."""

    devices: frozenset[str]
    nodes: frozenset[str] = frozenset()  # uverbs0
    modules: frozenset[str] = frozenset()  # of the kernel


@dataclass(frozen=True, slots=True)
class _Known:
    """What a round begins with, from the one before it."""

    names: Mapping[str, str]  # in small letters → kind
    domains: frozenset[str] = frozenset()
    seen: Seen = field(default_factory=Seen)


def _modules(recording: Recording) -> frozenset[str]:
    """Of the kernel: a verdict may rest on their names."""
    table = recording.files.get("/proc/modules", b"").decode("latin-1")
    return frozenset(line.split()[0] for line in table.splitlines() if line.strip())


class _Run:
    """One round over a record."""

    def __init__(
        self,
        key: bytes,
        left: _Left,
        known: _Known,
        identity: Identity | None,
        spread: Spread | None = None,
    ) -> None:
        pseudonyms = Pseudonyms(key)
        seen = known.seen
        self.addresses = Addresses(pseudonyms, seen)
        self.addresses.seen.networks |= seen.networks
        self.names = Names(pseudonyms, left.devices | left.nodes, left.modules)
        self.names.seen.update(known.names)
        self.names.domains |= known.domains
        self.text = Text(
            pseudonyms, self.addresses, self.names, known.names, Numbers(seen.ipv4, _all(seen))
        )
        self.values = Values(self.text, spread)
        self.messages = Messages(
            self.addresses,
            self.text,
            lambda name: pseudonyms.word("chain", name.encode().hex()),  # capitals differ
        )
        self._identity = identity
        self._left = left
        self._known = known
        self._seen = seen
        self.left_out: list[str] = []

    @property
    def found(self) -> _Known:
        """What this round and those before it know: to find anywhere."""
        found = {word: kind for word, kind in self.names.seen.items() if kind in _ANYWHERE}
        domains = frozenset(self.names.domains)
        return _Known({**found, **self._known.names}, domains, self.addresses.seen)

    # --- parts ---------------------------------------------------------------------------

    def record(self, old: Recording, late: Mapping[str, Missing]) -> Redacted:
        """The recording with pseudonyms: files, answers of commands, netlink and refusals."""
        new = Recording()
        for question, refused in old.refused.items():
            for subject, missing in refused.items():
                new.refuse(question, self._path(subject), self._missing(missing))
        self._each(new, "read", "files", old.files, self._file, self._path)
        self._each(new, "netlink", "netlink", old.netlink, self.messages, str)
        self._each(new, "run", "commands", old.commands, self._command, str)
        self._each(new, "verbs", "verbs", old.verbs, self._transcript, str)
        self._each(new, "log", "logs", old.logs, self._log, str)
        for path, names in old.listings.items():
            new.listings[self._path(path)] = tuple(self._entry(path, name) for name in names)
        new.links |= {self._path(path): self.text(target) for path, target in old.links.items()}
        new.nodes |= {self._path(path): node for path, node in old.nodes.items()}
        new.openable |= {self._path(path): answer for path, answer in old.openable.items()}
        new.environ |= self.values.environment(old.environ)
        assert self._identity is not None
        return Redacted(
            new,
            self._identity_of(self._identity),
            {name: self._missing(missing) for name, missing in late.items()},
            tuple(self.left_out),
            sum(1 for _ in self.addresses.by_chance()),
            self.text.has_common_names,
            self.devices(),
        )

    def devices(self) -> tuple[str, ...]:
        """Their names as the result has them: one may be made of a MAC."""
        return tuple(sorted({self.text(name) for name in self._left.devices}))

    def _each(
        self,
        new: Recording,
        question: str,
        store: str,
        old: Mapping[str, Any],
        redact: Callable[[str, Any], Any],
        path: Callable[[str], str],
    ) -> None:
        for subject, content in old.items():
            try:
                made = redact(subject, content)
            except Exception as error:  # noqa: BLE001  # a hostile part may raise anything
                self.drop(new, question, path(subject), f"not understood ({type(error).__name__})")
            else:
                getattr(new, store)[path(subject)] = made

    def drop(self, new: Recording, question: str, subject: str, why: str) -> None:
        """Not in the result: said there as what makes no sense, and in the list."""
        new.refuse(question, subject, Missing(Why.MALFORMED, f"{subject}: {_GONE}{why}"))
        self.left_out.append(f"{subject}: {why}")

    def _identity_of(self, identity: Identity) -> Identity:
        return replace(
            identity,
            hostname=self.names.host(identity.hostname),
            kernel=self.text.words(identity.kernel),
            machine=self.text.words(identity.machine),
        )

    def _missing(self, missing: Missing) -> Missing:
        return Missing(missing.why, self.text(missing.detail))

    def _path(self, path: str) -> str:
        return self.text(path)

    def _entry(self, folder: str, name: str) -> str:
        """A name in a folder, as it is in the path of the file."""
        return self._path(f"{folder}/{name}").rpartition("/")[2]

    def _file(self, path: str, content: bytes) -> bytes:
        path = normpath(path)
        if _CONFIG.fullmatch(path):
            return pci_config.gathered(lambda count, at: content[at : at + count])
        if _NUMBERS.fullmatch(content):
            return content
        name = path.rpartition("/")[2]
        raw = _RAW.get(name)
        if raw is not None and raw.fullmatch(content):
            return content
        text = content.decode()  # raises for what is not UTF-8
        return self._file_text(path, name, text).encode()

    def _file_text(self, path: str, name: str, text: str) -> str:
        of_name = {
            "node_guid": self._colons,
            "sys_image_guid": self._colons,
            "node_desc": self.values.node_description,
            "uevent": self._uevent,
        }.get(name)
        if of_name:
            return of_name(text)
        for pattern, of_path in (
            (_COMM, self._comm),
            (_STATUS, self._process),
            (_HOSTS, self._hosts),
            (_RESOLVER, self._resolver),
            (_HOSTNAME, self._hostname),
            (_UDP_TABLES, self._sockets),
            (_IF_INET6, self._interface_addresses),
            (_PANICS, self._panic),
        ):
            if pattern.match(path):
                return of_path(text)
        if text.lstrip()[:1] == "{":
            return json.dumps(self.values.json(json.loads(text)), ensure_ascii=False) + "\n"
        return self.text(text)

    def _colons(self, text: str) -> str:
        return self.text.colons(text.strip()) + text[len(text.rstrip()) :]

    def _comm(self, text: str) -> str:
        return self.names.of("prog", text) + "\n"

    def _process(self, text: str) -> str:
        return _NAME_LINE.sub(lambda found: found[1] + self.names.of("prog", found[2]), text)

    def _hosts(self, text: str) -> str:
        return "".join(map(self._hosts_line, text.splitlines(keepends=True)))

    def _resolver(self, text: str) -> str:
        """What is read of it alone: options and comments may say anything."""
        rows = (line.split() for line in text.splitlines())
        return "".join(
            " ".join([key, *map(self.text if key == "nameserver" else self.names.host, words)])
            + "\n"
            for key, *words in filter(None, rows)
            if key in ("nameserver", "search", "domain")
        )

    def _hostname(self, text: str) -> str:
        return self.names.host(text) + "\n"

    def _sockets(self, text: str) -> str:
        return _UDP_ADDRESS.sub(self._socket, text)

    def _interface_addresses(self, text: str) -> str:
        return _INET6_ADDRESS.sub(
            lambda found: self.addresses.ipv6(bytes.fromhex(found[0])).hex(), text
        )

    def _uevent(self, text: str) -> str:
        return "".join(
            line if _UEVENT.fullmatch(line) else self.text(line)
            for line in text.splitlines(keepends=True)
        )

    def _hosts_line(self, line: str) -> str:
        row = line.partition("#")[0].split()
        if not row:
            return "\n"
        return "\t".join([self.text(row[0]), *map(self.names.host, row[1:])]) + "\n"

    def _socket(self, found: re.Match[str]) -> str:
        """Of /proc/net: 32 bits at a time, as numbers of the host's order."""
        raw = b"".join(
            bytes.fromhex(found[0][at : at + 8])[::-1] for at in range(0, len(found[0]), 8)
        )
        made = self.addresses.ipv4(raw) if len(raw) == 4 else self.addresses.ipv6(raw)
        return "".join(made[at : at + 4][::-1].hex().upper() for at in range(0, len(made), 4))

    def _panic(self, text: str) -> str:
        """Its time, and what says the driver's name: a report names every process."""
        from rdmadiag.redact.panic import shortened

        return self.text(shortened(text))

    def _command(self, name: str, ran: Ran) -> Ran:
        out, err = ran.stdout, ran.stderr
        if "ioreg" in name and out.lstrip()[:1] == b"<":
            made = self._plist(out)
        elif out.lstrip()[:1] in (b"{", b"[") and "system_profiler" in name:
            document = self.values.json(json.loads(out))
            made = json.dumps(document, ensure_ascii=False, indent=1).encode()
        elif "log_show" in name:
            made = self.values.json_lines(out.decode()).encode()
        else:
            made = self.text(out.decode()).encode()
        return Ran(ran.returncode, made, self.text(err.decode("utf-8", "replace")).encode())

    def _plist(self, raw: bytes) -> bytes:
        try:
            document = plistlib.loads(raw)
        except Exception as error:
            raise ValueError("no property list") from error
        return plistlib.dumps(self._registry(document, ""), sort_keys=False)

    def _registry(self, value: Any, key: str, depth: int = 0) -> Any:
        """Numbers and text of the I/O registry; data of which nobody knows what it is are empty."""
        if depth > 100:
            raise ValueError("nested too deep")
        if isinstance(value, dict):
            return {name: self._registry(each, name, depth + 1) for name, each in value.items()}
        if isinstance(value, list):
            return [self._registry(each, key, depth + 1) for each in value]
        if isinstance(value, str):
            return self.values.string(key, value)
        if isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            large = value >> 40 and key != "IORegistryEntryID"
            return 0 if large else value
        return b"" if isinstance(value, bytes) else REMOVED

    def _transcript(self, _: str, content: bytes) -> bytes:
        return self.values.json_lines(content.decode()).encode()

    def _log(self, _: str, content: bytes) -> bytes:
        return self.text(content.decode("utf-8", "replace")).encode()

    # --- what is left --------------------------------------------------------------------

    def has_address(self, content: bytes) -> bool:
        """Whether bytes that were to be replaced are still in it."""
        return any(
            form in content
            for each in (*self._seen.macs, *self._seen.guids, *self._seen.ipv6)
            if len(set(each)) > 2
            for form in (each, each[::-1])
        )


def _all(seen: Seen) -> list[bytes]:
    return [*seen.macs, *seen.guids, *seen.ipv6]


def _checked(made: Redacted, run: _Run) -> Redacted:
    """Without replies of a kernel in which an address is still found: a table here is wrong."""
    recording = made.recording
    for name, content in list(recording.netlink.items()):
        if run.has_address(content):
            del recording.netlink[name]
            run.drop(recording, "netlink", name, "an address was left in it")
    return replace(made, left_out=tuple(run.left_out))
