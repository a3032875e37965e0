"""One netlink exchange: framing, the list of requests we may send, and a deadline.

The bytes pass through here, so that a snapshot can hold them as they were. Messages are built
and read in `sources`: rtnetlink's by pyroute2, those of RDMA and of ethtool by hand.
"""

import _socket  # the enumerations of `socket` take 5 ms to make, a thirtieth of a preflight
import errno
import os
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Final, NamedTuple

NETLINK_ROUTE: Final = 0
NETLINK_SOCK_DIAG: Final = 4
NETLINK_NETFILTER: Final = 12
NETLINK_GENERIC: Final = 16
NETLINK_RDMA: Final = 20

RTM_GETLINK: Final = 18  # linux/rtnetlink.h
RTM_GETADDR: Final = 22
RTM_GETROUTE: Final = 26
RTM_GETNEIGH: Final = 30
RTM_GETRULE: Final = 34
RTM_GETQDISC: Final = 38
RTM_GETTCLASS: Final = 42
RTM_GETTFILTER: Final = 46
RTM_GETNEIGHTBL: Final = 66
RTM_GETADDRLABEL: Final = 74
RTM_GETDCB: Final = 78

NLM_F_REQUEST: Final = 0x01
NLM_F_MULTI: Final = 0x02
NLM_F_DUMP_INTR: Final = 0x10
NLM_F_DUMP: Final = 0x300

NLMSG_ERROR: Final = 2
NLMSG_DONE: Final = 3

RDMA_NL_NLDEV: Final = 5

NFT_GETCHAIN: Final = 10 << 8 | 4  # NFNL_SUBSYS_NFTABLES, linux/netfilter/nf_tables.h
NFT_GETRULE: Final = 10 << 8 | 7
NFT_GETSET: Final = 10 << 8 | 10
NFT_GETSETELEM: Final = 10 << 8 | 13

SOCK_DIAG_BY_FAMILY: Final = 20  # linux/sock_diag.h
TCP_FAMILIES: Final = (2, 10)  # AF_INET, AF_INET6
IPPROTO_TCP: Final = 6

GENL_ID_CTRL: Final = 16  # linux/genetlink.h
CTRL_CMD_GETFAMILY: Final = 3
CTRL_ATTR_FAMILY_ID: Final = 1
CTRL_ATTR_FAMILY_NAME: Final = 2
ETHTOOL_GENL_NAME: Final = "ethtool"
ETHTOOL_MSG_LINKMODES_GET: Final = 4  # linux/ethtool_netlink.h
ETHTOOL_MSG_LINKSTATE_GET: Final = 6
ETHTOOL_MSG_RINGS_GET: Final = 15
ETHTOOL_MSG_PAUSE_GET: Final = 21
ETHTOOL_MSG_FEC_GET: Final = 29
ETHTOOL_MSG_MODULE_EEPROM_GET: Final = 31
ETHTOOL_MSG_STATS_GET: Final = 32
ETHTOOL_MSG_MODULE_GET: Final = 34
DEVLINK_GENL_NAME: Final = "devlink"
DEVLINK_CMD_ESWITCH_GET: Final = 29  # linux/devlink.h
DEVLINK_CMD_PARAM_GET: Final = 38
DEVLINK_CMD_INFO_GET: Final = 51
DEVLINK_CMD_HEALTH_REPORTER_GET: Final = 52

READ_ONLY: Final[dict[int, frozenset[int]]] = {
    NETLINK_ROUTE: frozenset(
        {
            *(RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE, RTM_GETNEIGH, RTM_GETRULE),
            *(RTM_GETQDISC, RTM_GETTCLASS, RTM_GETTFILTER, RTM_GETNEIGHTBL),
            RTM_GETADDRLABEL,
        }
    ),
    NETLINK_NETFILTER: frozenset({NFT_GETCHAIN, NFT_GETRULE, NFT_GETSET, NFT_GETSETELEM}),
    # RDMA_NLDEV_CMD_*: GET, PORT_GET, SYS_GET, RES_GET and its kinds, GET_CHARDEV,
    # STAT_GET, RES_CTX_GET, RES_SRQ_GET, STAT_GET_STATUS
    NETLINK_RDMA: frozenset(
        (RDMA_NL_NLDEV << 10) + op for op in (1, 5, 6, 9, 10, 11, 12, 13, 14, 15, 17, 22, 23, 24)
    ),
}
"""Message types by protocol that are sent; every other one is refused."""

GENERIC_READS: Final[dict[str, frozenset[int]]] = {
    ETHTOOL_GENL_NAME: frozenset(
        {
            ETHTOOL_MSG_LINKMODES_GET,
            ETHTOOL_MSG_LINKSTATE_GET,
            ETHTOOL_MSG_RINGS_GET,
            ETHTOOL_MSG_PAUSE_GET,
            ETHTOOL_MSG_FEC_GET,
            ETHTOOL_MSG_MODULE_EEPROM_GET,
            ETHTOOL_MSG_STATS_GET,
            ETHTOOL_MSG_MODULE_GET,
        }
    ),
    DEVLINK_GENL_NAME: frozenset(
        {
            DEVLINK_CMD_ESWITCH_GET,
            DEVLINK_CMD_PARAM_GET,
            DEVLINK_CMD_INFO_GET,
            DEVLINK_CMD_HEALTH_REPORTER_GET,
        }
    ),
}
"""Commands by family of generic netlink that are sent."""

_families: Final[dict[int, str]] = {}
"""Types that the kernel itself has named as a family's: they are numbered as it starts."""

DCB_HEADER: Final = struct.Struct("=BBxx")  # struct dcbmsg: family, command
DCB_CMD_IEEE_GET: Final = 21  # linux/dcbnl.h

_HEADER: Final = struct.Struct("=IHHII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_ATTRIBUTE_TYPE: Final = 0x3FFF  # NLA_TYPE_MASK
GENERIC_HEADER: Final = struct.Struct("=BBH")  # struct genlmsghdr: command, version
_ERROR: Final = struct.Struct("=i")
_DATAGRAM: Final = 256 * 1024


class NotARead(Exception):
    """A request that could change something; a bug of ours, never sent."""


class Message(NamedTuple):
    """One message in a buffer."""

    offset: int
    length: int
    type: int
    flags: int
    sequence: int


def messages(buffer: bytes) -> Iterator[Message]:
    """The messages in `buffer`; raises ValueError where one is cut short."""
    offset = 0
    while offset < len(buffer):
        if len(buffer) - offset < _HEADER.size:
            raise ValueError(f"netlink reply ends inside a header, at byte {offset}")
        length, kind, flags, sequence, _ = _HEADER.unpack_from(buffer, offset)
        if length < _HEADER.size or offset + length > len(buffer):
            raise ValueError(f"netlink reply ends inside a message, at byte {offset}")
        yield Message(offset, length, kind, flags, sequence)
        offset += (length + 3) & ~3


def error_number(buffer: bytes, message: Message) -> int:
    """The errno of an NLMSG_ERROR or of the status in an NLMSG_DONE; 0 for none."""
    if message.length < _HEADER.size + _ERROR.size:
        return 0
    (status,) = _ERROR.unpack_from(buffer, message.offset + _HEADER.size)
    return max(0, -int(status))


def require_read_only(protocol: int, request: bytes) -> None:
    """Raises NotARead unless every message in `request` is a GET that we know."""
    allowed = READ_ONLY.get(protocol, frozenset())
    for message in messages(request):
        if protocol == NETLINK_GENERIC and _is_generic_read(request, message):
            continue
        if protocol == NETLINK_ROUTE and _is_dcb_read(request, message):
            continue
        if protocol == NETLINK_SOCK_DIAG and _is_list_of_tcp(request, message):
            continue
        if message.type not in allowed:
            raise NotARead(
                f"netlink protocol {protocol}: message type {message.type} is not a read"
            )


def _is_generic_read(request: bytes, message: Message) -> bool:
    """A list of families, or a GET to a family that the kernel has named."""
    if message.length < _HEADER.size + GENERIC_HEADER.size:
        return False
    command, _, _ = GENERIC_HEADER.unpack_from(request, message.offset + _HEADER.size)
    if message.type == GENL_ID_CTRL:
        return bool(command == CTRL_CMD_GETFAMILY)
    return command in GENERIC_READS.get(_families.get(message.type, ""), ())


def _is_dcb_read(request: bytes, message: Message) -> bool:
    """The command decides, whatever the type says: dcb_doit of net/dcb/dcbnl.c executes a set in
    a message of the type RTM_GETDCB too."""
    if message.type != RTM_GETDCB or message.length < _HEADER.size + DCB_HEADER.size:
        return False
    _, command = DCB_HEADER.unpack_from(request, message.offset + _HEADER.size)
    return bool(command == DCB_CMD_IEEE_GET)


def _is_list_of_tcp(request: bytes, message: Message) -> bool:
    """Of TCP alone: for every other protocol the kernel looks for another module (inet_diag.c)."""
    if message.type != SOCK_DIAG_BY_FAMILY or message.length < _HEADER.size + 2:
        return False
    family, protocol = body(request, message)[:2]
    return family in TCP_FAMILIES and protocol == IPPROTO_TCP


def families(replies: bytes) -> dict[str, int]:
    """Name → type of messages, in a list of families; raises ValueError for a torn one."""
    listed = {}
    for message in messages(replies):
        if message.type != GENL_ID_CTRL:
            continue
        found = dict(attributes(body(replies, message, GENERIC_HEADER.size)))
        name, kind = text(found.get(CTRL_ATTR_FAMILY_NAME)), number(found.get(CTRL_ATTR_FAMILY_ID))
        if name and kind is not None:
            listed[name] = kind
    return listed


def request(kind: int, flags: int, payload: bytes = b"") -> bytes:
    """The bytes of one message of type `kind`: pyroute2's encoder takes a tenth of a
    millisecond, and a large host gets a thousand of them."""
    return _HEADER.pack(_HEADER.size + len(payload), kind, NLM_F_REQUEST | flags, 0, 0) + payload


def attribute(kind: int, content: bytes) -> bytes:
    """One attribute, padded."""
    return (
        _ATTRIBUTE.pack(_ATTRIBUTE.size + len(content), kind) + content + bytes(-len(content) % 4)
    )


def body(buffer: bytes, message: Message, skip: int = 0) -> bytes:
    """What follows the header of a message, and `skip` bytes of its family's own header."""
    return buffer[message.offset + _HEADER.size + skip : message.offset + message.length]


def attributes(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and content of the attributes in a nest; one that claims more than there is ends it."""
    at, end = 0, len(raw)
    while at + 4 <= end:
        length, kind = _ATTRIBUTE.unpack_from(raw, at)
        if length < 4 or at + length > end:
            return
        yield kind & _ATTRIBUTE_TYPE, raw[at + 4 : at + length]
        at += (length + 3) & ~3


def _dump(kind: int, header: bytes) -> bytes:
    return request(kind, NLM_F_DUMP, header)


GET_LINKS: Final = _dump(RTM_GETLINK, bytes(16))
GET_FAMILIES: Final = _dump(GENL_ID_CTRL, GENERIC_HEADER.pack(CTRL_CMD_GETFAMILY, 1, 0))
"""Of generic netlink."""


def number(content: bytes | None) -> int | None:
    """An unsigned attribute of 1, 2, 4 or 8 bytes; None for another length, or without one."""
    if content is None or len(content) not in (1, 2, 4, 8):
        return None
    return int.from_bytes(content, sys.byteorder)


def text(content: bytes | None) -> str | None:
    """A string attribute; None without one, or where it is empty or holds what none should."""
    found = (content or b"").rstrip(b"\0").decode("utf-8", "replace")
    return found if found and found.isprintable() else None


def exchange(protocol: int, request: bytes, deadline: float) -> bytes:
    """Send one request and return its replies, without the closing NLMSG_DONE.

    An NLMSG_DONE that carries NLM_F_DUMP_INTR is kept: `interrupted` looks for it.

    `deadline` is absolute on `time.monotonic`'s clock. Raises TimeoutError past it,
    OSError with the kernel's errno when the kernel refuses, ValueError for a reply that
    is cut short, NotARead for a request that is not a read.
    """
    require_read_only(protocol, request)
    kind = _socket.SOCK_RAW | _socket.SOCK_CLOEXEC
    with closing(_socket.socket(_socket.AF_NETLINK, kind, protocol)) as link:
        link.bind((0, 0))
        link.settimeout(_left(deadline))
        link.send(request)
        replies = bytearray()
        while True:
            link.settimeout(_left(deadline))
            datagram, _, flags, _ = link.recvmsg(_DATAGRAM)
            if flags & _socket.MSG_TRUNC:
                raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
            content, complete = take(datagram)
            replies += content
            if complete:
                break
    whole = bytes(replies)
    if protocol == NETLINK_GENERIC:
        _families.update(
            (kind, name) for name, kind in families(whole).items() if name in GENERIC_READS
        )
    return whole


def take(datagram: bytes) -> tuple[bytes, bool]:
    """The messages of a datagram that belong to the reply, and whether it ends there.

    Raises OSError for the kernel's refusal and ValueError for a message that is cut short.
    """
    replies = bytearray()
    for message in messages(datagram):
        end = message.type in (NLMSG_ERROR, NLMSG_DONE)
        number = error_number(datagram, message) if end else 0
        if number:
            raise OSError(number, os.strerror(number))
        if not end or message.flags & NLM_F_DUMP_INTR:
            replies += datagram[message.offset : message.offset + ((message.length + 3) & ~3)]
        if end or not message.flags & NLM_F_MULTI:
            return bytes(replies), True
    return bytes(replies), False


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def interrupted(buffer: bytes) -> bool:
    """Whether the kernel marked this dump as inconsistent: something changed meanwhile."""
    return any(message.flags & NLM_F_DUMP_INTR for message in messages(buffer))
