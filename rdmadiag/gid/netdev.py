"""The netdev that a GID names, as far as the GID depends on it."""

from collections.abc import Mapping
from enum import StrEnum

from rdmadiag.facts import GidEntry, Missing


class NetDevState(StrEnum):
    """What this network namespace says of the netdev that a GID names."""

    UP = "up"
    DOWN = "down"
    ABSENT = "absent"  # the namespace has no netdev of this name
    UNKNOWN = "unknown"


def netdev_state(entry: GidEntry, netdevs: Mapping[str, NetDevState]) -> NetDevState:
    """The state of the netdev that `entry` names."""
    if isinstance(entry.netdev, Missing):
        return NetDevState.UNKNOWN
    return netdevs.get(entry.netdev, NetDevState.UNKNOWN)
