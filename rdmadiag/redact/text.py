"""Names in text: what has the form of an address, a path of a user, or a name that is known.

mlx5_core 0000:65:00.0 ens1f0np0: Link up, 0c:42:a1:24:3f:0e
rdma_cm: fe80::e42:a1ff:fe24:3f0e → 10.20.3.7, Comm: vasp_std, /home/alice/run/in.txt
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Final

from rdmadiag.redact.addresses import Addresses
from rdmadiag.redact.mentions import Mentions, is_ipv4
from rdmadiag.redact.names import NETWORK_OF_LUSTRE, Names, apart
from rdmadiag.redact.pseudonyms import Pseudonyms
from rdmadiag.redact.secrets import without_random, without_secrets

_HEX: Final = r"[0-9A-Fa-f]"
_ADDRESS: Final = re.compile(
    # The first that fits is taken: the longest forms first.
    rf"(?P<uuid>(?:(?<![0-9A-Za-z])|(?<=\bpod)|(?<=[-_]pod)){_HEX}{{8}}(?:[-_]{_HEX}{{4}}){{3}}"
    rf"[-_]{_HEX}{{12}}(?![0-9A-Za-z]))"
    rf"|(?P<octets>(?<![0-9A-Za-z:.-]){_HEX}{{2}}(?:(?::{_HEX}{{2}}){{19}}|(?::{_HEX}{{2}}){{7}}"
    rf"|(?::{_HEX}{{2}}){{5}}|(?:-{_HEX}{{2}}){{7}}|(?:-{_HEX}{{2}}){{5}})(?![0-9A-Fa-f]|[:-]{_HEX}))"
    rf"|(?P<cisco>(?<![0-9A-Za-z.]){_HEX}{{4}}\.{_HEX}{{4}}\.{_HEX}{{4}}(?![0-9A-Za-z.]))"
    rf"|(?P<colons>(?<![0-9A-Za-z:.])(?:{_HEX}{{1,4}})?:(?:{_HEX}{{0,4}}:)+"
    rf"(?:\d{{1,3}}(?:\.\d{{1,3}}){{3}}|{_HEX}{{1,4}})?(?P<length6>/\d{{1,3}}(?!\d))?(?![0-9A-Za-z:]))"
    r"|(?P<dotted>(?:(?<![0-9A-Za-z.])|(?<=\bMGC))\d{1,3}(?:\.\d{1,3}){3}(?P<length4>/\d{1,2}(?![\d.]))?(?!\d|\.\d|[A-Za-z]))"
    rf"|(?P<cloud>(?<=[a-z]-){_HEX}{{17}}(?![0-9A-Za-z]))"  # i-0a1b2c3d4e5f67890
    rf"|(?P<hex>(?<![0-9A-Fa-f])(?<!/commit/)(?!(?<=po)d)(?:0[xX])?{_HEX}{{8,}}(?![0-9A-Fa-f]))"
)
_NETMASK: Final = re.compile(r"\binet (\d{1,3}(?:\.\d{1,3}){3}) netmask 0x([0-9a-f]{8})\b")
_HOME: Final = re.compile(
    r"(/(?:home|Users|export/home|u|scratch|work|data|mnt|gpfs|lustre|nfs|projects?|Volumes|srv)/)"
    r"([^\s\"':;,()\[\]<>|]+)"
)
_LOGIN: Final = re.compile(r"(?<![\w.+@-])([A-Za-z0-9][\w.+-]*)@([A-Za-z0-9][\w.-]*\w)")
_NETWORK: Final = re.compile(NETWORK_OF_LUSTRE)
_REVISION: Final = re.compile(r"v?[0-9][0-9.x]*|(?=[a-f]*[0-9])[0-9a-f]{7,40}")
_COMMAND: Final = re.compile(
    r"(\b[Cc]omm: ?|\b[Tt]ask:? (?=\S+:\d)|\btask=(?=[^\s,]+,pid=)|\bKilled process \d+ \("
    r"|\b[Pp]rocess (?=\S+ \(pid))"
    r"([^\s,:)\]\"']+)"
)
_CREATOR: Final = re.compile(r"(\bpid \d{1,9}, )([^\"<\n]+)")
_REPORT_FILE: Final = re.compile(
    r"(?<![\w.-])([\w.+ -]{1,64}?)_"
    r"(\d{4}-\d\d-\d\d-\d{6})_([\w.-]{1,64}?)(\.(?:panic|ips|crash|diag|spin|hang))\b"
)
_DOMAIN: Final = re.compile(
    r"(?i)(?<![\w.@/-])(?!com\.apple\.)[a-z0-9][a-z0-9-]{0,62}"
    r"(?:\.[a-z0-9][a-z0-9-]{0,62}){0,10}"
    r"\.(?:com|org|net|edu|gov|mil|int|io|local|lan|internal|corp|cluster|localdomain|intra|example"
    r"|test|invalid|de|fr|uk|ch|at|nl|it|es|eu|jp|cn|kr|in|au|ca|us|se|fi|no|dk|pl|cz|br|za)"
    r"(?![\w-]|\.[a-z0-9])"
)
_WORDY: Final = re.compile(r"[G-WYZg-wyz@$]")
"""Without it there is nothing in a text but digits: a row of a table."""

_OF_KERNEL: Final = ("/sys/", "/proc/")
"""Paths whose words the kernel chose, but for hosts, users and addresses in them."""

_SHORT: Final = 200  # characters
_MOST_SHORT: Final = 50_000
_ADDRESS_BYTES4: Final = 8  # hexadecimal digits
_MOST_DIGITS4: Final = 10
_LONG: Final = 20  # digits of what is no number of a kernel: a container's, a commit's


def _any_of(patterns: Iterable[str]) -> re.Pattern[str] | None:
    """Any of the patterns, where no letter or digit touches it."""
    joined = "|".join(patterns)
    return re.compile(rf"(?i)(?<![A-Za-z0-9])(?:{joined})(?![A-Za-z0-9])") if joined else None


class Text:
    """Finds names in text and puts pseudonyms in their place."""

    def __init__(
        self,
        pseudonyms: Pseudonyms,
        addresses: Addresses,
        names: Names,
        known: Mapping[str, str],
        numbers: "Numbers | None" = None,
    ) -> None:
        """`known` are names in small letters, with their kind, to find anywhere."""
        self._pseudonyms = pseudonyms
        self._addresses = addresses
        self.names = names
        self._kinds = known
        words = [each for each in known if len(each) > 2 and not names.is_common(each)]
        self._words = _any_of(
            apart(each, re.escape(each)) for each in sorted(words, key=len, reverse=True)
        )
        self.has_common_names = len(words) < sum(not names.is_kept(each) for each in known)
        hosts = sorted((each for each, kind in known.items() if kind == "host"), key=len)
        families = dict.fromkeys(filter(None, map(names.family_of, reversed(hosts))))
        self._families = _any_of(families)
        # "login.hpc": of a domain that this record's hosts are in
        domains = "|".join(map(re.escape, sorted(names.domains, key=len, reverse=True)))
        self._in_domain = (
            re.compile(
                rf"(?i)(?<![\w./@-])[a-z0-9][a-z0-9-]{{0,62}}\.(?:{domains})(?![\w-]|\.[a-z0-9])"
            )
            if domains
            else None
        )
        self._mentions = Mentions(names, self.serial, lambda raw: raw in self._numbers.ipv4)
        self._numbers = numbers or Numbers()
        self._short: dict[str, str] = {}  # a table has thousands of rows, most of them alike

    def __call__(self, text: str) -> str:
        """The same text without them."""
        if len(text) > _SHORT:
            return self._made(text)
        made = self._short.get(text)
        if made is None:
            if len(self._short) >= _MOST_SHORT:
                self._short.clear()
            made = self._short[text] = self._made(text)
        return made

    def _made(self, text: str) -> str:
        if not _WORDY.search(text):
            return self.words(_ADDRESS.sub(self._address, text))
        if text.startswith(_OF_KERNEL):
            return self.words(_ADDRESS.sub(self._address, self._paths(text)))
        for found in _NETMASK.finditer(text):
            self._learn(found[1], found[2])
        text = without_secrets(text)
        text = self._mentions(text)
        text = self._paths(text)
        text = _LOGIN.sub(self._login, text)
        text = _REPORT_FILE.sub(self._report_file, text)
        text = _COMMAND.sub(lambda found: found[1] + self.names.of("prog", found[2]), text)
        text = _CREATOR.sub(lambda found: found[1] + self.names.of("prog", found[2]), text)
        text = _DOMAIN.sub(lambda found: self.names.host(found[0]), text)
        if self._in_domain is not None:
            text = self._in_domain.sub(lambda found: self.names.host(found[0]), text)
        text = _ADDRESS.sub(self._address, text)
        text = self.words(text)
        if self._families is not None:
            text = self._families.sub(lambda found: self.names.of("host", found[0]), text)
        return without_random(text)

    def _paths(self, text: str) -> str:
        return _HOME.sub(lambda found: found[1] + self._below_home(found[1], found[2]), text)

    def guid(self, digits: str) -> str:
        """A GUID of 16 digits, even where they might be a count."""
        plain = digits[2:] if digits[:2] in ("0x", "0X") else digits
        made = self._addresses.guid(bytes.fromhex(plain)).hex()
        return digits[: len(digits) - len(plain)] + _as(plain, made)

    def serial(self, text: str) -> str:
        """A serial number: digits for it, as many."""
        return self.names.number(text)

    def still_names(self, text: str) -> bool:
        """Whether a known name stands in it."""
        return self._words is not None and bool(self._words.search(text))

    def words(self, text: str) -> str:
        """Without known names; what has the form of an address is none."""
        if self._words is None:
            return text
        return self._words.sub(
            lambda found: self.names.of(self._kinds[found[0].casefold()], found[0]), text
        )

    def _login(self, found: re.Match[str]) -> str:
        """user@host; not stack@commit, as the pages of our own have it."""
        who, where = found.groups()
        if _NETWORK.fullmatch(where) or (_REVISION.fullmatch(where) and not is_ipv4(where)):
            return found[0]
        return f"{who if is_ipv4(who) else self.names.of('user', who)}@{self._host(where)}"

    def _host(self, name: str) -> str:
        return name if is_ipv4(name) else self.names.host(name)

    def _below_home(self, top: str, path: str) -> str:
        first, slash, rest = path.partition("/")
        kind = "user" if top in ("/home/", "/Users/", "/export/home/", "/u/") else "folder"
        return self.names.of(kind, first) + slash + self.names.folder(rest)

    def _report_file(self, found: re.Match[str]) -> str:
        """Of a Mac: PROGRAM_TIME_HOST.panic; the kernel's own are called kernel, panic-full…"""
        program = found[1].strip()
        if not re.fullmatch(r"(?i)kernel|panic[\w-]*", program):
            program = self.names.of("prog", program)
        return f"{program}_{found[2]}_{self.names.host(found[3])}{found[4]}"

    def _learn(self, address: str, mask: str) -> None:
        length = int(mask, 16).bit_count()
        if is_ipv4(address):
            self._addresses.learn4(ipaddress.IPv4Address(address).packed, length)

    def _address(self, found: re.Match[str]) -> str:
        kind = found.lastgroup
        text = found[0]
        for name in ("uuid", "octets", "cisco", "colons", "dotted", "cloud", "hex"):
            if found[name] is not None:
                kind = name
                break
        if kind == "uuid":
            return text if not text.strip("0-_") else self._pseudonyms.digits("uuid", text)
        if kind == "cloud":
            return self._pseudonyms.digits("hex", text)
        if kind == "octets":
            separator = text[2]
            made = self._addresses.hardware(bytes.fromhex(text.replace(separator, "")))
            return _as(text, made.hex(separator))
        if kind == "cisco":
            digits = self._addresses.mac(bytes.fromhex(text.replace(".", ""))).hex()
            return _as(text, ".".join(digits[at : at + 4] for at in (0, 4, 8)))
        if kind == "colons":
            return self.colons(text)
        if kind == "dotted":
            return self._dotted(text)
        return self._hex(text)

    def colons(self, text: str) -> str:
        """An IPv6 address, a GID or a GUID with colons; what is none of them stays."""
        address, slash, length = text.partition("/")
        try:
            raw = ipaddress.IPv6Address(address).packed
        except ValueError:
            groups = address.split(":")
            if len(groups) != 4 or any(len(each) != 4 for each in groups):
                return text
            made = self._addresses.guid(bytes.fromhex("".join(groups))).hex()
            return _as(address, _groups(made)) + slash + length
        size = int(length) if slash and int(length) <= 128 else 128
        made6 = self._addresses.network6(raw, size)
        if made6 == raw:
            return text
        if "." in address and made6[:12] != raw[:12]:  # of no class that has IPv4 in it
            return ipaddress.IPv6Address(made6).compressed + slash + length
        return _as(address, _printed6(address, made6)) + slash + length

    def _dotted(self, text: str) -> str:
        address, slash, length = text.partition("/")
        if not is_ipv4(address):  # 192.168.001.001
            address = ".".join(part.lstrip("0") or "0" for part in address.split("."))
        if not is_ipv4(address):
            return text
        raw = ipaddress.IPv4Address(address).packed
        size = int(length) if slash and int(length) <= 32 else 32
        return str(ipaddress.IPv4Address(self._addresses.network4(raw, size))) + slash + length

    def _hex(self, text: str) -> str:
        """Digits without colons: by how many they are, and whether they are known."""
        digits = text[2:] if text[:2] in ("0x", "0X") else text
        start = text[: len(text) - len(digits)]
        if len(digits) == _ADDRESS_BYTES4:
            raw = bytes.fromhex(digits)
            if raw in self._numbers.ipv4:
                return start + _as(digits, self._addresses.ipv4(raw).hex())
            if raw[::-1] in self._numbers.ipv4:
                return start + _as(digits, self._addresses.ipv4(raw[::-1])[::-1].hex())
            return text
        of = {12: self._addresses.mac, 16: self._addresses.guid, 32: self._addresses.ipv6}.get(
            len(digits)
        )
        if digits.isdecimal() and not start and digits.casefold() not in self._numbers.known:
            return self._decimal(text)  # a count, or a time
        if of:
            return start + _as(digits, of(bytes.fromhex(digits)).hex())
        if len(digits) < _LONG or not digits.strip("0"):
            return text
        return start + self._pseudonyms.digits("hex", digits)

    def _decimal(self, text: str) -> str:
        """An address of this record as one number."""
        value = int(text) if len(text) <= _MOST_DIGITS4 else 1 << 32
        if value >> 32 or value.to_bytes(4, "big") not in self._numbers.ipv4:
            return text
        return str(int.from_bytes(self._addresses.ipv4(value.to_bytes(4, "big")), "big"))


class Numbers:
    """Addresses that were seen in a form that says so, to know them where none does."""

    def __init__(self, ipv4: Iterable[bytes] = (), known: Iterable[bytes] = ()) -> None:
        self.ipv4 = frozenset(ipv4)
        self.known = frozenset(each.hex() for each in known)


def _printed6(before: str, raw: bytes) -> str:
    """In the form of the text before: written out, or shortened, or with an IPv4 address."""
    address = ipaddress.IPv6Address(raw)
    if "." in before:
        return f"{before.rpartition(':')[0]}:{ipaddress.IPv4Address(raw[12:])}"
    if "::" in before:
        return address.compressed
    if all(len(each) == 4 for each in before.split(":")):
        return address.exploded
    return ":".join(f"{int(each, 16):x}" for each in address.exploded.split(":"))


def _groups(digits: str) -> str:
    return ":".join(digits[at : at + 4] for at in range(0, len(digits), 4))


def _as(before: str, after: str) -> str:
    """In capitals where the text before was."""
    return after.upper() if before != before.lower() and before == before.upper() else after
