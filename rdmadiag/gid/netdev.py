"""The netdev that a GID names, as far as the GID depends on it."""

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


NOT_HERE: Final = (NetDevState.ABSENT, NetDevState.ELSEWHERE)


def netdev_state(entry: GidEntry, netdevs: Mapping[str, NetDevState]) -> NetDevState:
    """The state of the netdev that `entry` names."""
    if isinstance(entry.netdev, Missing):
        return NetDevState.UNKNOWN
    return netdevs.get(entry.netdev, NetDevState.UNKNOWN)
