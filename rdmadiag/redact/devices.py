"""Names of devices and netdevs in a record or a document: they stay, and the record lists them."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from rdmadiag.host import netlink
from rdmadiag.host.recording import Recording
from rdmadiag.ranges import folded
from rdmadiag.redact.names import DEVICE
from rdmadiag.watch.event import Kind

_FOLDERS: Final = ("/sys/class/infiniband", "/sys/class/net")
_NODES: Final = "/sys/class/infiniband_verbs"
_NAME: Final = re.compile(r"[^\s/\0\"',;()\[\]<>|]{1,63}")  # a kernel forbids less
_REPLIES: Final = (
    # name in a record, bytes of the family's own header, the attribute that is a name
    ("route-getlink", 16, 3),  # IFLA_IFNAME
    ("nldev-get", 0, 2),  # RDMA_NLDEV_ATTR_DEV_NAME
)
_NETDEVS: Final = re.compile(r"^ *([^\s:/]+):(?= *\d| flags=)", re.MULTILINE)
_REGISTRY: Final = re.compile(rb">(rdma_[\w-]{1,32})<")
_OF_DEVICES: Final = (Kind.DEVICE, Kind.NETDEV, Kind.LINK, Kind.TRAFFIC)
"""Events of `watch` whose subject is a device's or a netdev's name, or a port's."""

_KEYS: Final = ("device", "netdev", "parent", "ndev")
_TABLES: Final = ("devices", "netdevs")
"""Their rows have it as `name`."""

_NUMBER: Final = re.compile(r"0x|[0-9a-f]{2,4}:")  # of PCI: what a device is, and where


def devices_of(recording: Recording) -> frozenset[str]:
    """Of RDMA devices and netdevs, from every source that names them."""
    found = {name for folder in _FOLDERS for name in recording.listings.get(folder, ())}
    for name, skip, attribute in _REPLIES:
        found |= set(_in_reply(recording.netlink.get(name, b""), skip, attribute))
    texts = [
        recording.files.get("/proc/self/net/dev", b""),
        *(ran.stdout for name, ran in recording.commands.items() if "ifconfig" in name),
    ]
    for text in texts:
        found |= set(_NETDEVS.findall(text.decode("utf-8", "replace")))
    for name, ran in recording.commands.items():
        if "ioreg" in name:
            found |= {each.decode() for each in _REGISTRY.findall(ran.stdout)}
    return frozenset(each for each in found if _NAME.fullmatch(each))


def nodes_of(recording: Recording) -> frozenset[str]:
    """uverbs0 and the like: numbers, which nobody chose."""
    return frozenset(recording.listings.get(_NODES, ()))


def devices_in(document: Any) -> frozenset[str]:
    """By the keys of all documents."""
    found: set[Any] = set()
    left = [("", document)]
    while left:
        table, value = left.pop()
        if isinstance(value, dict):
            found |= {each for key, each in value.items() if key in _KEYS and isinstance(each, str)}
            if table in _TABLES:
                found.add(str(value.get("name")))
            if value.get("kind") in _OF_DEVICES:
                found.add(str(value.get("subject")).partition("/")[0])
            left += value.items()
        elif isinstance(value, list):
            left += [(table, each) for each in value]
    return frozenset(
        each
        for each in found - {"None"}
        if re.fullmatch(r"[\w.:-]{1,63}", each) and not _NUMBER.match(each)
    )


def listed(names: Iterable[str]) -> list[str]:
    """One line of all, as ranges, and one of those that somebody gave."""
    every = sorted(names, key=_in_order)
    given = [each for each in every if not DEVICE.fullmatch(each)]
    lines = [f"names of devices and netdevs: {', '.join(folded(every)) or 'none was found'}"]
    if given:
        said = "of these in no form of a kernel, so that somebody chose them"
        lines.append(f"{said}: {', '.join(folded(given))}")
    return lines


def _in_reply(reply: bytes, skip: int, number: int) -> Iterator[str]:
    try:
        for message in netlink.messages(reply):
            name = netlink.text(
                dict(netlink.attributes(netlink.body(reply, message, skip))).get(number)
            )
            if name is not None:
                yield name
    except ValueError:  # torn: the reply is left out of the result
        return


def _in_order(name: str) -> tuple[tuple[str, int], ...]:
    return tuple((word, int(digits or 0)) for word, digits in re.findall(r"(\D*)(\d{0,9})", name))
