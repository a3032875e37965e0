"""How names become addresses here: /etc/hosts, /etc/nsswitch.conf, /etc/resolv.conf.

    /etc/hosts            192.0.2.2 node2.example node2   # an address, its name, others for it
    /etc/nsswitch.conf    hosts: files mdns4_minimal [NOTFOUND=return] dns
    /etc/resolv.conf      nameserver 192.0.2.53
                          search example lan

No name is looked up: that would send packets, and wait.
"""

import re
from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import NOT_IN_RECORD, Missing, Why
from rdmadiag.facts.address import packed_ipv4, packed_ipv6, printed
from rdmadiag.facts.naming import NamedAddress, NamingFacts
from rdmadiag.host import Host
from rdmadiag.late import late
from rdmadiag.sources.dump import gathered
from rdmadiag.sources.text import attribute, malformed, parse_text

MOST: Final = 1024
"""Rows that are kept."""

_HOSTS: Final = "/etc/hosts"
_LIMIT: Final = 1 << 20
_HOSTNAME: Final = "/proc/sys/kernel/hostname"
_SWITCH: Final = "/etc/nsswitch.conf"
_RESOLVER: Final = "/etc/resolv.conf"
_SERVERS: Final = 3  # MAXNS of resolv.h
_SEARCH: Final = 32
_NAME: Final = late(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_SERVICES: Final = late(r"^[ \t]*hosts:([^\n#]*)", re.MULTILINE)
_ACTION: Final = late(r"\[[^\]]*\]")
_SERVICE: Final = late(r"\w{1,32}")


def parse_hosts(raw: bytes) -> tuple[NamedAddress, ...] | Missing:
    """/etc/hosts; glibc passes over what is no address and a name, and so do we."""
    return gathered(_rows(raw.decode("utf-8", "replace")), MOST, f"rows in {_HOSTS}")


def _rows(text: str) -> Iterator[NamedAddress]:
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or ("",)
        known = _address(address)
        found = tuple(filter(_NAME.fullmatch, names))
        if known is not None and found:
            yield NamedAddress(known, found)


def _address(text: str) -> str | None:
    """As the kernel prints it; of a link-local one without its netdev."""
    try:
        packed = packed_ipv6(text.partition("%")[0]) if ":" in text else packed_ipv4(text)
    except (OSError, ValueError):
        return None
    return printed(packed)


def parse_services(raw: bytes) -> tuple[str, ...] | Missing:
    """/etc/nsswitch.conf → who is asked for a host's address, in this order."""
    found = _SERVICES.search(raw.decode("utf-8", "replace"))
    if found is None:
        return Missing(Why.ABSENT, f"{_SWITCH}: no row of hosts")
    words = _ACTION.sub(" ", found[1]).split()
    if not all(map(_SERVICE.fullmatch, words)):
        return malformed(found[0].encode(), "a list of name services")
    return tuple(words)


def parse_servers(raw: bytes) -> tuple[str, ...]:
    """/etc/resolv.conf → the name servers that are asked, in this order; what is no address is
    passed over, as glibc does.
    """
    rows = _resolver_rows(raw)
    known = (_address(words[0]) for key, words in rows if key == "nameserver" and words)
    return tuple(each for each in known if each is not None)[:_SERVERS]


def parse_search(raw: bytes) -> tuple[str, ...]:
    """/etc/resolv.conf → domains that a short name is tried in; the last row counts."""
    found = [words for key, words in _resolver_rows(raw) if key in ("search", "domain")]
    return tuple(filter(_NAME.fullmatch, found[-1]))[:_SEARCH] if found else ()


def _resolver_rows(raw: bytes) -> Iterator[tuple[str, list[str]]]:
    for line in raw.decode("utf-8", "replace").splitlines():
        if not line.startswith((";", "#")):
            key, *words = line.split() or ("",)
            yield key, words


def read_naming(host: Host) -> NamingFacts:
    """Each by itself; nothing of a record from before."""
    name = attribute(host, _HOSTNAME, parse_text)
    if isinstance(name, Missing) and name.why is Why.ABSENT:  # every Linux has the file
        return NamingFacts(NOT_IN_RECORD, NOT_IN_RECORD, NOT_IN_RECORD)
    hosts = host.read(_HOSTS, _LIMIT)
    return NamingFacts(
        name,
        hosts if isinstance(hosts, Missing) else parse_hosts(hosts),
        attribute(host, _SWITCH, parse_services),
        attribute(host, _RESOLVER, parse_servers),
        attribute(host, _RESOLVER, parse_search),
    )
