"""Messages of nfnetlink: a header of its own, and numbers that are big-endian."""

import struct
from collections.abc import Iterator
from typing import Final

from rdmadiag.host import netlink

HEADER: Final = struct.Struct("=BBH")  # struct nfgenmsg: family, version, res_id


def rows(reply: bytes) -> Iterator[tuple[int, dict[int, bytes]]]:
    """Family and attributes of each message; raises ValueError for one that has no header."""
    for message in netlink.messages(reply):
        if message.type in (netlink.NLMSG_DONE, netlink.NLMSG_ERROR):
            continue
        content = netlink.body(reply, message)
        if len(content) < HEADER.size:
            raise ValueError(f"netlink message at byte {message.offset} has no header")
        yield content[0], dict(netlink.attributes(content[HEADER.size :]))


def number(raw: bytes | None, *, signed: bool = False) -> int | None:
    """Of 4 or 8 bytes."""
    return int.from_bytes(raw, "big", signed=signed) if raw and len(raw) in (4, 8) else None


def text(raw: bytes | None) -> str:
    """ "" without one."""
    return netlink.text(raw) or ""
