"""The I/O registry of a Mac: one class at a time, as `ioreg -a -l -r -c CLASS` prints it.

    <array><dict><key>IOObjectClass</key><string>AppleThunderboltRDMAInterface</string>…

A property list, or nothing where there is no such object. `-c` finds objects of the class
and of those derived from it (ioreg(8)); each is one. Counting them is the decision of x/rdma
without its false matches: that counts every line of the whole registry that mentions the name.
"""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeGuard

from rdmadiag.facts import Missing, Why, known
from rdmadiag.facts.macos import (
    PEER_INTERFACE,
    XDOMAIN_SERVICE,
    Holder,
    RdmaInterface,
    RegistryFacts,
    ThunderboltIpPort,
)
from rdmadiag.host import Host
from rdmadiag.late import late
from rdmadiag.sources.output import parsed

SECONDS: Final = 3.0
"""For all classes together, as in x/rdma."""

INTERFACE: Final = "AppleThunderboltRDMAInterface"
PEER: Final = PEER_INTERFACE
XDOMAIN: Final = XDOMAIN_SERVICE
IP_PORT: Final = "AppleThunderboltIPPort"
PROTECTION_DOMAIN: Final = "AppleThunderboltRDMAProtectionDomain"
QUEUE_PAIR: Final = "AppleThunderboltRDMAQueuePair"
CLASSES: Final = (PEER, XDOMAIN, INTERFACE, IP_PORT, PROTECTION_DOMAIN, QUEUE_PAIR)

_CREATOR: Final = late(r"pid ([0-9]{1,9}), (.*)")
_TEXT_OBJECT: Final = late(
    r"[ |]*\+-o (\S.{0,200}?) {1,4}<class (\w{1,200}), id (0x[0-9a-f]{1,16})"
)
_GUID: Final = late(r"[0-9a-f]{4}(:[0-9a-f]{4}){3}")
_INACTIVE: Final = 1  # kIOServiceInactiveState
_LINK_UP: Final = 2  # IOLinkStatus, kIONetworkLinkActive

_TEXT_FORM: Final = "text form"  # a mark on objects that have a class and a name alone

Registry = tuple[dict[str, Any], ...]


def read_ioreg(host: Host, deadline: float) -> RegistryFacts | Missing:
    """Every class that RDMA is made of; `deadline` is absolute."""
    limit = min(deadline, time.monotonic() + SECONDS)
    found = {name: _read_class(host, name, limit) for name in CLASSES}
    first = found[PEER]
    if all(isinstance(objects, Missing) for objects in found.values()):
        assert isinstance(first, Missing)
        return first
    interfaces, ports = found[INTERFACE], found[IP_PORT]
    kinds = {
        _identity(entry): name
        for name in (PROTECTION_DOMAIN, QUEUE_PAIR)
        for entry in known(found[name]) or ()
    }
    return RegistryFacts(
        interfaces=interfaces
        if isinstance(interfaces, Missing)
        else tuple(_interface(entry, kinds) for entry in interfaces),
        peer_interfaces=_count(found[PEER]),
        xdomain_services=_count(found[XDOMAIN]),
        ip_ports=ports if isinstance(ports, Missing) else tuple(map(_ip_port, ports)),
        protection_domains=_count(found[PROTECTION_DOMAIN]),
        queue_pairs=_count(found[QUEUE_PAIR]),
    )


def read_ip_ports(host: Host, deadline: float) -> tuple[ThunderboltIpPort, ...] | Missing:
    """The Thunderbolt ports and how often their links came up; `deadline` is absolute."""
    ports = _read_class(host, IP_PORT, min(deadline, time.monotonic() + SECONDS))
    return ports if isinstance(ports, Missing) else tuple(map(_ip_port, ports))


def argv(name: str) -> tuple[str, ...]:
    """The command that prints a class's objects and what hangs below them."""
    return ("/usr/sbin/ioreg", "-a", "-l", "-r", "-c", name)


def _read_class(host: Host, name: str, deadline: float) -> Registry | Missing:
    return parsed(
        host, argv(name), deadline, f"ioreg -c {name}", partial(parse_registry, name=name)
    )


def parse_registry(raw: bytes, name: str) -> Registry | Missing:
    """`ioreg -a -r -c NAME` → the objects of that class and of derived ones, each once.

    Each is a dict of its properties with IORegistryEntryChildren. The text form, which
    ioreg prints without -a, gives objects with a class and a name alone.
    """
    if not raw.strip():
        return ()
    if raw.lstrip()[:3] == b"+-o":
        return _parse_text(raw, name)
    import plistlib

    try:
        document = plistlib.loads(raw)
    except Exception as error:  # noqa: BLE001  # expat's, plistlib's, binascii's: all say "no plist"
        return Missing(Why.MALFORMED, f"no property list: {error}"[:200])
    if not isinstance(document, list):
        return Missing(Why.MALFORMED, f"a {type(document).__name__} is no list of objects")
    seen: dict[object, dict[str, Any]] = {}
    for entry in document:
        if not isinstance(entry, dict):
            return Missing(Why.MALFORMED, f"a {type(entry).__name__} is no registry object")
        if _is_of(entry.get("IOObjectClass", name), name):
            seen[_identity(entry)] = entry
    return tuple(seen.values())


def _is_of(kind: object, name: str) -> bool:
    """Whether an object that `-c NAME` found counts for it: not if it has a count of its own."""
    return kind == name or kind not in CLASSES


def _parse_text(raw: bytes, name: str) -> Registry:
    """Below an object that was found any class is printed: the name alone identifies it."""
    found = {
        match[3]: {
            _TEXT_FORM: True,
            "IOObjectClass": match[2],
            "IORegistryEntryName": match[1].partition("@")[0],
        }
        for line in raw.decode("utf-8", "replace").splitlines()
        if (match := _TEXT_OBJECT.match(line))
        and (_is_of(match[2], name) if line.startswith("+") else match[2] == name)
    }
    return tuple(found.values())


def _count(found: Registry | Missing) -> int | Missing:
    return found if isinstance(found, Missing) else len(found)


def _identity(entry: dict[str, Any]) -> object:
    number = entry.get("IORegistryEntryID")
    return number if _is_number(number) else ("unnumbered", id(entry))


def _below(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each object once, the nearest first; one with two parents is printed below both."""
    waiting, seen = deque([entry]), {_identity(entry)}
    while waiting:
        children = waiting.popleft().get("IORegistryEntryChildren")
        for child in children if isinstance(children, list) else ():
            if isinstance(child, dict) and _identity(child) not in seen:
                seen.add(_identity(child))
                waiting.append(child)
                yield child


def _interface(entry: dict[str, Any], kinds: Mapping[object, str]) -> RdmaInterface:
    """`kinds`: which objects are protection domains and queue pairs, derived ones too."""
    below = list(_below(entry))
    named = ((each, kinds.get(_identity(each), each.get("IOObjectClass"))) for each in below)
    found = [(each, kind) for each, kind in named if kind in (PROTECTION_DOMAIN, QUEUE_PAIR)]
    resources, classes = [each for each, _ in found], [kind for _, kind in found]
    power = entry.get("IOPowerManagement")
    state = power.get("CurrentPowerState") if isinstance(power, dict) else None
    # The text form has no properties and no children: nothing was counted there.
    uncounted = Missing(Why.UNSUPPORTED, "ioreg printed text") if _TEXT_FORM in entry else None
    return RdmaInterface(
        name=_string(entry.get("IORegistryEntryName")) or "?",
        node_guid=_guid(entry.get("node_guid")),
        power_state=state if _is_number(state) else _absent("CurrentPowerState"),
        protection_domains=uncounted or classes.count(PROTECTION_DOMAIN),
        queue_pairs=uncounted or classes.count(QUEUE_PAIR),
        inactive=sum(map(_is_inactive, resources)),
        holders=tuple(_holders(below)),
    )


def _is_inactive(entry: dict[str, Any]) -> bool:
    state, busy = entry.get("IOServiceState"), entry.get("IOServiceBusyState")
    return _is_number(state) and bool(state & _INACTIVE) and bool(busy)


def _holders(below: list[dict[str, Any]]) -> Iterator[Holder]:
    seen = set()
    for entry in below:
        match = _CREATOR.fullmatch(_string(entry.get("IOUserClientCreator")))
        if match and match[0] not in seen:
            seen.add(match[0])
            yield Holder(int(match[1]), match[2])


def _ip_port(entry: dict[str, Any]) -> ThunderboltIpPort:
    family = [entry, *_below(entry)]
    status = _first(family, "IOLinkStatus", int)
    return ThunderboltIpPort(
        netdev=_first(family, "BSD Name", str),
        link_up=status if isinstance(status, Missing) else bool(status & _LINK_UP),
        link_active_count=_first(family, "IOLinkActiveCount", int),
    )


def _first(entries: list[dict[str, Any]], key: str, kind: type) -> Any:
    for entry in entries:
        value = entry.get(key)
        if _is_number(value) if kind is int else isinstance(value, kind):
            return value
    return _absent(key)


def _absent(key: str) -> Missing:
    return Missing(Why.ABSENT, f"no {key}")


def _is_number(value: Any) -> TypeGuard[int]:
    """Of 64 bits, signed or not; True is none."""
    return type(value) is int and -(2**63) <= value < 2**64


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _guid(value: Any) -> str | Missing:
    """node_guid has been seen as text; eight bytes or a number say the same."""
    if isinstance(value, str) and _GUID.fullmatch(value):
        return value
    if isinstance(value, bytes) and len(value) == 8:
        text = value.hex()
    elif _is_number(value):
        text = f"{value % 2**64:016x}"  # property lists have signed numbers
    elif value is None:
        return _absent("node_guid")
    else:
        return Missing(Why.MALFORMED, "node_guid: no GUID")
    return ":".join(text[at : at + 4] for at in range(0, 16, 4))
