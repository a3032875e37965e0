"""Names of which the words around them say what they are: users, servers, serial numbers.

nfs: server store3:/export/projx not responding, user=alice, S/N MT2042X12345,
MGC10.20.30.99@o2ib, acmefs-OST0003, https://alice@db7.acme.co/x, ip-10-20-30-77
"""

import ipaddress
import re
from collections.abc import Callable
from typing import Final

from rdmadiag.redact.names import DEVICE, NETWORK_OF_LUSTRE, NO_HOST, Names
from rdmadiag.redact.secrets import REMOVED

_PUBLIC: Final = re.compile(
    r"(?i)(?:[\w-]+\.)*(?:github\.com|kernel\.org|nvidia\.com|man7\.org|rfc-editor\.org|go\.dev"
    r"|die\.net|sqlite\.org|oiforum\.com|juniper\.net|cisco\.com|ubuntu\.com|nftables\.org"
    r"|prometheus\.io|snia\.org|json-schema\.org|es\.net|pytorch\.org|apple\.com|debian\.org"
    r"|redhat\.com|intel\.com|broadcom\.com|amd\.com|openfabrics\.org|ietf\.org|python\.org"
    r"|docs\.example\.org|kubernetes\.io|freedesktop\.org|gnu\.org|w3\.org)"
)
"""Whose pages are for everybody: documents of rdmadiag refer to them."""

_URL: Final = re.compile(
    r"(?<![A-Za-z0-9])([A-Za-z][A-Za-z0-9+.-]{1,20}://)(?:([^\s/@:\"'<>]{1,64})(:[^\s/@\"'<>]{1,200})?@)?"
    r"([A-Za-z0-9][\w.-]{0,252})"
)
_NID: Final = re.compile(
    # Lustre's: an address or a name at a network of its own; MGC is the client of that server.
    r"(?<![\w.@-])((?:MG[CS]@?)?)([A-Za-z0-9][\w.-]*)?"
    rf"@({NETWORK_OF_LUSTRE})(?![\w.-])"
)
_TARGET: Final = re.compile(r"(?<![A-Za-z0-9])([A-Za-z]\w{0,7})(?=-(?:OST|MDT)[0-9a-f]{4})")
_NUMBER: Final = re.compile(r"(?i)0x[0-9a-f]+|\d+|fe80")
_DASHED: Final = re.compile(
    r"(?<![A-Za-z0-9-])(?:([A-Za-z][A-Za-z0-9]{0,20})-)?(\d{1,3}(?:-\d{1,3}){3})(?![0-9-]|[A-Za-z])"
)
_DASHED_PREFIX: Final = frozenset(("ip", "ec2", "host", "vm", "pod", "node", "compute", "inst"))
_SERIAL: Final = re.compile(
    r"(?i)((?<![A-Za-z0-9/])(?:s/n|sn|serial(?:[ _-]?(?:nos?\.?|num(?:ber)?))?|sernum"
    r"|service[ _-]?tag|asset[ _-]?tag)\\?[\"']?(?:\s{0,4}[:=#(]\s{0,4}|\s{1,4})\\?[\"']?)"
    r"(?!0x)(?=[A-Z-]*[0-9])([A-Z0-9][A-Z0-9-]{4,39})(?![A-Za-z0-9:])"
)
_USER: Final = re.compile(
    r"(?i)("
    # user=alice, "login": "alice", owner: alice
    r"(?<![A-Za-z])(?:[re]?user(?:[_-]?name)?|login(?:[_-]?name)?|log_?name|acct"
    r"|account(?:[_-]?name)?|[ae]?uid|owner|principal|submitter)"
    r"(?:\\?[\"']?:\s?\\?[\"']|\\?[\"']?=\\?[\"']?|:\s?)"
    # uid=1000(alice); --user alice, -u alice, ssh -l alice
    r"|\b[ug]id=\d{1,10}\(|(?<!\S)--[\w-]{0,20}user(?:name)?\s|(?<!journalctl)\s-u\s"
    r"|\bmysql\w*\s(?:[^\n|;]{0,80}?\s)?-u\s?|\b(?:ssh|rsh|rlogin)\s(?:[^\n|;]{0,80}?\s)?-l\s"
    # "for user alice", "user alice7", "user 'alice'"
    r"|\b(?:(?:for|by|of|as|from) (?:invalid )?user |user (?=\"|'|[a-z]+(?:\d|[._-][a-z]))"
    r"|account (?=\w+[-_\d])|publickey for |password for "
    r"|(?:sudo|su|runuser) (?:- |-\w+ )?(?=[a-z]+\d))[\"']?"
    r")([A-Za-z][\w.-]{0,63}\w)(?!\w|\(\))"
)
_SURE_OF_USER: Final = re.compile(r"[=(]\\?[\"']?$|-[ul]\s?$|user(?:name)?\s$")
_EXPORT: Final = re.compile(r"(?<![\w./:@%-])([A-Za-z0-9][\w.-]{1,252}):(/[^\s\"',;:()\[\]<>|]*)")
_SHARE: Final = re.compile(r"(?<![\w:/.])//([A-Za-z0-9][\w.-]*\w)(?=/\w)")  # of SMB
_SYSTEM_FOLDERS: Final = ("/sys", "/proc", "/dev", "/run", "/etc", "/usr", "/lib", "/opt", "/var")
_SERVER: Final = re.compile(
    r"(?i)(\b(?:servers?|host|peer|node|connection (?:to|from|with)) [\"']?)([A-Za-z0-9][\w.-]*\w)"
    r"(?=[\"']?[:,]? (?:(?:is|was|has) )?(?:not responding|OK|timed out|unreachable|refused|lost"
    r"|rejected|gone|dead|died|rebooted|restored)\b)"
)
_NAME_OF_STORAGE: Final = re.compile(r"(?i)\b((?:nqn|iqn)\.\d{4}-\d\d\.)([a-z0-9][\w.:-]*\w)")
_OF_NVME: Final = ("org.nvmexpress:uuid:", "org.nvmexpress.discovery")
_HOST: Final = re.compile(
    r"(?i)(\b(?:host(?:name)?|nodename|server|peer|client|node|nodelist)\\?[\"']?=\\?[\"']?"
    r"|\b(?:ssh|scp|ping|rsync) (?=\w*-)"
    r"|\b(?:host(?:name)?|nodename|server|peer|client|nodelist|ssh|scp|rsync|ping|reach|resolve"
    r"|connect(?:ed|ing|ion)? (?:to|from|with)|disconnect(?:ed|ing)? from)\\?[\"']?"
    r"(?:\s?:\s?|\s)\\?[\"']?(?=[\w.-]*\d))"
    r"([A-Za-z][A-Za-z0-9]*(?:[.-][A-Za-z0-9]+)*)(?![\w/@(])"
)
_WORDS_OF_HOSTS: Final = ("node", "host", "server", "client", "switch", "router", "mac", "manager")
"""With a number behind them a host's name, though words of a system."""

_MOST_ENDING: Final = 24
_LETTERS_OF_A_COUNTRY: Final = 2
_DOTTED: Final = re.compile(
    # Of three labels and more, whatever the last: nfs-alpha.internal.acme.co
    r"(?i)(?<![\w.@/-])([a-z0-9][a-z0-9-]{0,62}(?:\.[a-z0-9][a-z0-9-]{0,62}){1,10}"
    rf"\.[a-z]{{2,{_MOST_ENDING}}})\.?(?![\w-]|\.[a-z0-9]|\()"
)
_FILE_WORDS: Final = """
    so py pyc sh pl rs cc cpp cxx c h hpp md gz xz zip tar bz2 ko conf cfg json jsonl txt log out
    err toml yaml yml xml xsl html htm service socket target timer mount slice scope device plist
    kext dylib framework app panic ips bin img hex dat pem crt key pid lock d bak old rc
"""
_FILE_ENDINGS: Final = frozenset(_FILE_WORDS.split())
_NO_HOST_WORDS: Final = """
    net kernel vm fs dev debug user sunrpc kern hw com org io java torch numpy rdmadiag
"""
_NO_HOST_LABELS: Final = frozenset(_NO_HOST_WORDS.split())
"""Trees of dotted names that are no hosts: sysctl, bundles of a Mac, modules of Python and Java."""


class Mentions:
    """Finds names by what stands beside them."""

    def __init__(
        self, names: Names, serial: Callable[[str], str], is_known: Callable[[bytes], bool]
    ) -> None:
        """`serial` makes digits of a serial number, `is_known` is of IPv4 addresses of the host."""
        self._names = names
        self._serial = serial
        self._is_known = is_known

    def __call__(self, text: str) -> str:
        """The same text with pseudonyms for them."""
        text = _URL.sub(self._url, text)
        text = _NAME_OF_STORAGE.sub(self._storage, text)
        text = _SERIAL.sub(self._numbered, text)
        text = _USER.sub(self._user, text)
        text = _NID.sub(self._nid, text)
        text = _TARGET.sub(lambda found: self._names.of("fs", found[1]), text)
        text = _EXPORT.sub(self._export, text)
        text = _SHARE.sub(lambda found: f"//{self._address_or_host(found[1])}", text)
        text = _SERVER.sub(lambda found: found[1] + self._address_or_host(found[2]), text)
        text = _DASHED.sub(self._dashed, text)
        text = _HOST.sub(self._host, text)
        return _DOTTED.sub(self._dotted, text)

    def _url(self, found: re.Match[str]) -> str:
        scheme, user, password, host = found.groups()
        login = ""
        if user:
            login = f"{self._names.of('user', user)}{f':{REMOVED}' if password else ''}@"
        name = host.rstrip(".-_")
        made = name if _PUBLIC.fullmatch(name) else self._address_or_host(name)
        return f"{scheme}{login}{made}{host[len(name) :]}"

    def _storage(self, found: re.Match[str]) -> str:
        """A name of NVMe or iSCSI: a date, a domain, and what an administrator wrote."""
        before, name = found.groups()
        return found[0] if name.startswith(_OF_NVME) else before + self._names.of("host", name)

    def _numbered(self, found: re.Match[str]) -> str:
        self._names.note_serial(found[2])
        return found[1] + self._serial(found[2])

    def _user(self, found: re.Match[str]) -> str:
        """A plain word is searched for elsewhere only where it cannot be one of a sentence."""
        before, name = found.groups()
        if self._names.is_common(name) or is_ipv4(name):
            return found[0]
        is_sure = not name.isalpha() or bool(_SURE_OF_USER.search(before))
        return before + self._names.of("user", name, learn=is_sure)

    def _nid(self, found: re.Match[str]) -> str:
        service, who, network = found.groups()
        is_end_of_address = found.string[: found.start()].endswith(":")
        if who is None or is_ipv4(who) or is_end_of_address:
            return found[0]
        return f"{service}{self._names.host(who)}@{network}"

    def _export(self, found: re.Match[str]) -> str:
        name, path = found.groups()
        if path.startswith((*_SYSTEM_FOLDERS, "//")):
            return found[0]
        return f"{self._address_or_host(name)}:{self._names.folder(path)}"

    def _address_or_host(self, name: str) -> str:
        is_none = DEVICE.fullmatch(name) or NO_HOST.fullmatch(name) or _NUMBER.fullmatch(name)
        if is_none or is_ipv4(name) or self._names.is_common(name):
            return name
        return self._names.host(name)

    def _dashed(self, found: re.Match[str]) -> str:
        """An address in a name is a name: ip-10-20-30-77."""
        prefix, numbers = found.groups()
        address = numbers.replace("-", ".")
        if not is_ipv4(address):
            return found[0]
        value = ipaddress.IPv4Address(address)
        is_said = (prefix or "").casefold() in _DASHED_PREFIX
        is_likely = bool(prefix) and value.is_private and int(value) >> 24 != 0
        if is_said or is_likely or self._is_known(value.packed):
            return self._names.of("host", found[0])
        return found[0]

    def _host(self, found: re.Match[str]) -> str:
        before, name = found.groups()
        if _is_file(name) or self._names.holds_made(name):
            return found[0]
        words = [each.casefold() for each in re.split(r"[.-]|\d+", name) if each]
        is_of_hosts = words[0] in _WORDS_OF_HOSTS and name[-1].isdecimal()
        if all(map(self._names.is_word, words)) and not is_of_hosts:
            return found[0]
        return before + self._address_or_host(name)

    def _dotted(self, found: re.Match[str]) -> str:
        name = found[1]
        labels = name.casefold().split(".")
        if _is_file(name) or any(map(str.isdecimal, labels)) or labels[0].startswith("lib"):
            return found[0]
        if len(labels[-1]) > _LETTERS_OF_A_COUNTRY and labels[0] in _NO_HOST_LABELS:
            return found[0]
        return self._names.host(name) + found[0][len(name) :]


def _is_file(name: str) -> bool:
    return "." in name and any(each in _FILE_ENDINGS for each in name.casefold().split(".")[1:])


def is_ipv4(text: str) -> bool:
    """Whether it is an address."""
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True
