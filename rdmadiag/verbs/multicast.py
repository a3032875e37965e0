"""A multicast group of RoCE that nobody else has, and this host's interest in it.

On RoCE there is no subnet manager to ask: a queue pair is attached, and the host joins the
group of IP as librdmacm's join does, without which soft RoCE's own IP layer drops it.
"""

import ipaddress
import os
import random
import socket
import struct
from typing import Final

from rdmadiag.facts.gid import IPV4_MAPPED, Gid

QUEUE_PAIR: Final = 0xFFFFFF
"""That a multicast message is addressed to; InfiniBand specification 10.5."""

_LOCAL_IPV4: Final = ipaddress.IPv4Network("239.255.0.0/16")  # RFC 2365: the local scope
_TRANSIENT_LINK: Final = b"\xff\x12"  # RFC 4291: not assigned for good, of this link alone


def drawn(gid: Gid, source: random.Random) -> bytes:
    """The GID of a group that a port with this GID can reach: of IPv4 for an IPv4 address."""
    if gid.raw.startswith(IPV4_MAPPED):
        host = source.randrange(1, _LOCAL_IPV4.num_addresses - 1)
        return IPV4_MAPPED + _LOCAL_IPV4[host].packed
    return _TRANSIENT_LINK + source.randbytes(14)


class Interest:
    """This host's membership of a group of IP, on the interface of a port's GID.

    The kernel leaves it when the process ends, however it ends.
    """

    def __init__(self, netdev: str, group: bytes) -> None:
        """Raises OSError."""
        index = socket.if_nametoindex(netdev)
        mapped = group.startswith(IPV4_MAPPED)
        family = socket.AF_INET if mapped else socket.AF_INET6
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            if mapped:
                request = group[12:] + bytes(4) + struct.pack("=i", index)  # struct ip_mreqn
                self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
            else:
                request = group + struct.pack("=I", index)  # struct ipv6_mreq
                self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
        except OSError:
            self._socket.close()
            raise

    def close(self) -> None:
        """Leaves the group."""
        self._socket.close()


def netdev_of(device: str, port: int, index: int) -> str:
    """The interface of a row of the GID table; raises OSError."""
    path = f"/sys/class/infiniband/{device}/ports/{port}/gid_attrs/ndevs/{index}"
    with open(path, encoding="ascii", errors="surrogateescape") as file:
        return file.readline(os.pathconf("/", "PC_NAME_MAX")).strip()
