"""The netdev that a GID names and the address there, as far as the GID depends on them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from rdmadiag.facts import GidEntry, Missing


class NetDevState(StrEnum):
    """What this network namespace says of the netdev that a GID names."""

    UP = "up"
    DOWN = "down"
    ABSENT = "absent"  # the namespace does not have it
    ELSEWHERE = "elsewhere"  # another one has it, and a connected queue pair routes there
    UNKNOWN = "unknown"


class Unusable(StrEnum):
    """Why the kernel does not use an address that a netdev has (RFC 4862, 5.4)."""

    DUPLICATE = "duplicate"  # duplicate address detection found it on another host
    TENTATIVE = "tentative"  # detection has not ended


OPERATIONAL: Final = frozenset({"up", "unknown"})
"""Operational states of a netdev that passes traffic: networking/operstates.rst.

"unknown" is what drivers without such states leave when up.
"""
DORMANT: Final = "dormant"
"""It has a carrier, and waits for a supplicant of 802.1X. Where the switch asks for none, IPv4 and
RoCE over it pass; where it does, nothing: the host does not show which. IPv6 waits with it
(addrconf_link_ready).
"""
NOT_HERE: Final = (NetDevState.ABSENT, NetDevState.ELSEWHERE)


def netdev_state(entry: GidEntry, netdevs: Mapping[str, NetDevState]) -> NetDevState:
    """The state of the netdev that `entry` names."""
    if isinstance(entry.netdev, Missing):
        return NetDevState.UNKNOWN
    return netdevs.get(entry.netdev, NetDevState.UNKNOWN)
