"""Generic netlink: the number of a family, and requests to it."""

import struct
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.host import Host, netlink
from rdmadiag.sources.dump import dump
from rdmadiag.sources.sysfs import NET_CLASS

_FAMILIES: Final = "genl-families"

NESTED: Final = 0x8000  # NLA_F_NESTED
_HEADER: Final = 1  # ETHTOOL_A_*_HEADER, of all messages but those whose first one pads
_DEV_INDEX, _FLAGS = 1, 3  # ETHTOOL_A_HEADER_*
_FLAG_STATS: Final = 4  # ETHTOOL_FLAG_STATS
_U32: Final = struct.Struct("=I")


def read_family(host: Host, name: str, deadline: float) -> int | Missing:
    """The type of a family's messages, from the list of all families.

    Looked up by name, a family that is not there would make the kernel look for a module.
    """
    reply = dump(host, _FAMILIES, netlink.NETLINK_GENERIC, netlink.GET_FAMILIES, deadline)
    if isinstance(reply, Missing):
        return reply
    try:
        families = netlink.families(reply)
    except ValueError as error:
        return Missing(Why.MALFORMED, f"{_FAMILIES}: {error}")
    return families.get(name, Missing(Why.UNSUPPORTED, f"no {name} netlink"))


def generic_request(family: int, command: int, payload: bytes, flags: int = 0) -> bytes:
    """A message of a family: its command, and attributes."""
    return netlink.request(family, flags, netlink.GENERIC_HEADER.pack(command, 1, 0) + payload)


def ethtool_request(
    family: int,
    command: int,
    ifindex: int,
    *,
    statistics: bool = False,
    header: int = _HEADER,
    more: bytes = b"",
) -> bytes:
    """An ETHTOOL_MSG_*_GET for one netdev; statistics are counted by firmware on some NICs.

    `header` is the number of its ETHTOOL_A_*_HEADER; `more` are attributes after it.
    """
    of = netlink.attribute(_DEV_INDEX, _U32.pack(ifindex))
    if statistics:
        of += netlink.attribute(_FLAGS, _U32.pack(_FLAG_STATS))
    return generic_request(family, command, netlink.attribute(NESTED | header, of) + more)


def asleep(host: Host, netdev: str) -> Missing | None:
    """Why a driver's answer is not asked for: the kernel would wake a PCI function for it.

    ethnl_ops_begin of net/ethtool/netlink.c.
    """
    path = f"{NET_CLASS}/{netdev}/device/power/runtime_status"
    if "/" in netdev or host.read(path) != b"suspended\n":
        return None
    return Missing(Why.NOT_COLLECTED, f"{path}: suspended, and would be woken")


def generic_attributes(reply: bytes) -> dict[int, bytes] | Missing:
    """Those of the one message of a reply; of several of one kind the last."""
    body = generic_body(reply)
    return body if isinstance(body, Missing) else dict(netlink.attributes(body))


def generic_body(reply: bytes) -> bytes | Missing:
    """The one message of a reply, behind its headers."""
    try:
        message = next(netlink.messages(reply), None)
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    if message is None:
        return Missing(Why.ABSENT, "empty reply")
    return netlink.body(reply, message, netlink.GENERIC_HEADER.size)
