"""The 40 bytes before every datagram that a UD queue pair receives; pure.

InfiniBand and RoCE v1 put a GRH there, RoCE v2 its IP header: of IPv6 all 40 bytes, of IPv4 the
last 20, and the first 20 mean nothing (annex A17 of the InfiniBand specification, A17.9.2).
"""

import struct
from typing import Final

from rdmadiag.facts.gid import IPV4_MAPPED, Gid

GRH_BYTES: Final = 40

_IPV4_AT: Final = 20
_VERSION_AND_LENGTH: Final = 0x45  # IPv4 without options, as every RoCE sender makes it


def source(grh: bytes) -> Gid:
    """The GID of whom it is from: that of an IPv4 address is mapped, as in the GID table.

    Six as version at both places is distinguished by IPv4's checksum, as in libibverbs
    (get_grh_header_version, verbs.c).
    """
    if len(grh) != GRH_BYTES:
        raise ValueError(f"{len(grh)} bytes")
    ipv4 = grh[_IPV4_AT:]
    if ipv4[0] == _VERSION_AND_LENGTH and (grh[0] >> 4 != 6 or _is_checked(ipv4)):
        return Gid(IPV4_MAPPED + ipv4[12:16])
    return Gid(grh[8:24])


def _is_checked(header: bytes) -> bool:
    """Whether the one's complement sum over it is all ones: RFC 791, 3.1."""
    total: int = sum(struct.unpack(">10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total == 0xFFFF
