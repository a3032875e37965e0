"""Messages of RDMA netlink (nldev): what is requested, and the attributes of what is answered.

Numbers and types: rdma/rdma_netlink.h, enum rdma_nldev_command and enum rdma_nldev_attr. They
are read by hand: pyroute2 has no nldev, and a node has tens of thousands of queue pairs.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.host import netlink

GET: Final = 1
PORT_GET: Final = 5
SYS_GET: Final = 6
RES_GET: Final = 9
GET_CHARDEV: Final = 15
STAT_GET: Final = 17

ATTRIBUTES: Final = (
    (0, "RDMA_NLDEV_ATTR_PAD", "none"),
    (1, "RDMA_NLDEV_ATTR_DEV_INDEX", "uint32"),
    (2, "RDMA_NLDEV_ATTR_DEV_NAME", "asciiz"),
    (3, "RDMA_NLDEV_ATTR_PORT_INDEX", "uint32"),
    (4, "RDMA_NLDEV_ATTR_CAP_FLAGS", "uint64"),
    (5, "RDMA_NLDEV_ATTR_FW_VERSION", "asciiz"),
    (6, "RDMA_NLDEV_ATTR_NODE_GUID", "uint64"),
    (7, "RDMA_NLDEV_ATTR_SYS_IMAGE_GUID", "uint64"),
    (8, "RDMA_NLDEV_ATTR_SUBNET_PREFIX", "uint64"),
    (9, "RDMA_NLDEV_ATTR_LID", "uint32"),
    (10, "RDMA_NLDEV_ATTR_SM_LID", "uint32"),
    (11, "RDMA_NLDEV_ATTR_LMC", "uint8"),
    (12, "RDMA_NLDEV_ATTR_PORT_STATE", "uint8"),
    (13, "RDMA_NLDEV_ATTR_PORT_PHYS_STATE", "uint8"),
    (14, "RDMA_NLDEV_ATTR_DEV_NODE_TYPE", "uint8"),
    (15, "RDMA_NLDEV_ATTR_RES_SUMMARY", "nest"),
    (16, "RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY", "nest"),
    (17, "RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME", "asciiz"),
    (18, "RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR", "uint64"),
    (19, "RDMA_NLDEV_ATTR_RES_QP", "nest"),
    (20, "RDMA_NLDEV_ATTR_RES_QP_ENTRY", "nest"),
    (21, "RDMA_NLDEV_ATTR_RES_LQPN", "uint32"),
    (22, "RDMA_NLDEV_ATTR_RES_RQPN", "uint32"),
    (26, "RDMA_NLDEV_ATTR_RES_TYPE", "uint8"),
    (27, "RDMA_NLDEV_ATTR_RES_STATE", "uint8"),
    (28, "RDMA_NLDEV_ATTR_RES_PID", "uint32"),
    (29, "RDMA_NLDEV_ATTR_RES_KERN_NAME", "asciiz"),
    (30, "RDMA_NLDEV_ATTR_RES_CM_ID", "nest"),
    (31, "RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY", "nest"),
    (33, "RDMA_NLDEV_ATTR_RES_SRC_ADDR", "none"),
    (35, "RDMA_NLDEV_ATTR_RES_CQ", "nest"),
    (36, "RDMA_NLDEV_ATTR_RES_CQ_ENTRY", "nest"),
    (40, "RDMA_NLDEV_ATTR_RES_MR", "nest"),
    (41, "RDMA_NLDEV_ATTR_RES_MR_ENTRY", "nest"),
    (45, "RDMA_NLDEV_ATTR_RES_MRLEN", "uint64"),
    (46, "RDMA_NLDEV_ATTR_RES_PD", "nest"),
    (47, "RDMA_NLDEV_ATTR_RES_PD_ENTRY", "nest"),
    (50, "RDMA_NLDEV_ATTR_NDEV_INDEX", "uint32"),
    (51, "RDMA_NLDEV_ATTR_NDEV_NAME", "asciiz"),
    (60, "RDMA_NLDEV_ATTR_RES_PDN", "uint32"),
    (64, "RDMA_NLDEV_ATTR_RES_CTXN", "uint32"),
    (66, "RDMA_NLDEV_SYS_ATTR_NETNS_MODE", "uint8"),
    (67, "RDMA_NLDEV_ATTR_DEV_PROTOCOL", "asciiz"),
    (69, "RDMA_NLDEV_ATTR_CHARDEV_TYPE", "asciiz"),
    (70, "RDMA_NLDEV_ATTR_CHARDEV_NAME", "asciiz"),
    (71, "RDMA_NLDEV_ATTR_CHARDEV_ABI", "uint64"),
    (72, "RDMA_NLDEV_ATTR_CHARDEV", "uint64"),
    (73, "RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID", "uint32"),
    (80, "RDMA_NLDEV_ATTR_STAT_HWCOUNTERS", "nest"),
    (81, "RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY", "nest"),
    (82, "RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME", "asciiz"),
    (83, "RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE", "uint64"),
    (86, "RDMA_NLDEV_ATTR_RES_CTX", "nest"),
    (87, "RDMA_NLDEV_ATTR_RES_CTX_ENTRY", "nest"),
    (88, "RDMA_NLDEV_ATTR_RES_SRQ", "nest"),
    (89, "RDMA_NLDEV_ATTR_RES_SRQ_ENTRY", "nest"),
    (99, "RDMA_NLDEV_ATTR_DEV_TYPE", "uint8"),
    (100, "RDMA_NLDEV_ATTR_PARENT_NAME", "asciiz"),
    (118, "RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_MAX", "uint64"),
)
"""Number, name and type; the types have pyroute2's names."""

NUMBER: Final[dict[str, int]] = {
    name.removeprefix("RDMA_NLDEV_").removeprefix("ATTR_"): number for number, name, _ in ATTRIBUTES
}
"""By name without its prefix."""

_NAME: Final = {number: name for number, name, _ in ATTRIBUTES}
_BITS: Final = {number: int(kind[4:]) for number, _, kind in ATTRIBUTES if kind.startswith("uint")}
_PACK: Final = {8: "=B", 16: "=H", 32: "=I", 64: "=Q"}

Attributes = Mapping[int, bytes]
"""Of one message or nest: number → content."""


def request(op: int, flags: int = 0, attributes: Iterable[tuple[str, int | str]] = ()) -> bytes:
    """The bytes of one request; attribute names as in NUMBER.

    Without NLM_F_ACK: its zero error would follow the reply as one more message.
    """
    payload = b"".join(
        netlink.attribute(NUMBER[name], _content(NUMBER[name], value)) for name, value in attributes
    )
    return netlink.request((netlink.RDMA_NL_NLDEV << 10) + op, flags, payload)


def _content(number: int, value: int | str) -> bytes:
    if isinstance(value, str):
        return value.encode() + b"\0"
    return struct.pack(_PACK[_BITS[number]], value)


def messages(reply: bytes) -> Iterator[Attributes]:
    """The attributes of each message; raises ValueError where one is cut short."""
    for message in netlink.messages(reply):
        if message.type != netlink.NLMSG_DONE:
            yield dict(netlink.attributes(netlink.body(reply, message)))


def first(reply: bytes) -> Attributes | Missing:
    """The attributes of a reply's first message; of a reply that is cut short, Missing."""
    try:
        found = list(messages(reply))
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    return found[0] if found else Missing(Why.ABSENT, "empty nldev reply")


def integer(found: Attributes, name: str) -> int | Missing:
    """A number, which fits its type whatever length it came in."""
    number = NUMBER[name]
    raw = found.get(number)
    if raw is None:
        return Missing(Why.ABSENT, _NAME[number])
    value = netlink.number(raw)
    return _malformed(number, raw) if value is None or value >> _BITS[number] else value


def text(found: Attributes, name: str) -> str | Missing:
    """A string that is not empty."""
    number = NUMBER[name]
    raw = found.get(number)
    if raw is None:
        return Missing(Why.ABSENT, _NAME[number])
    try:
        value = raw.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        return _malformed(number, raw)
    return value or Missing(Why.ABSENT, f"{_NAME[number]}: empty")


def _malformed(number: int, raw: bytes) -> Missing:
    return Missing(Why.MALFORMED, f"{_NAME[number]}: {raw!r:.60}")


def nest(found: Attributes, name: str) -> bytes | None:
    """A nest of attributes, for `netlink.attributes`."""
    return found.get(NUMBER[name])


def rows(table: bytes, name: str) -> Iterator[Attributes]:
    """The nests of this name in a table."""
    number = NUMBER[name]
    for kind, content in netlink.attributes(table):
        if kind == number:
            yield dict(netlink.attributes(content))
