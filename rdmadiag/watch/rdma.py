"""RDMA netlink's monitor, RDMA_NLDEV_CMD_MONITOR of rdma/rdma_netlink.h (Linux 6.12).

rdma_nl_notify_event of drivers/infiniband/core/nldev.c: a device came, went or was renamed, its
port got a netdev or lost it, or that netdev was renamed.
"""

from collections.abc import Mapping
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.host import netlink
from rdmadiag.watch.event import NOTHING, Action, Happened, Kind, Source, Value
from rdmadiag.watch.route import unreadable

GROUP: Final = 4
"""RDMA_NL_GROUP_NOTIFY."""

_SYS_GET, _MONITOR = 6, 28  # RDMA_NLDEV_CMD_*
_MESSAGE: Final = (netlink.RDMA_NL_NLDEV << 10) + _MONITOR
_DEV_INDEX, _DEV_NAME, _PORT, _NDEV_INDEX, _NDEV_NAME = 1, 2, 3, 50, 51  # RDMA_NLDEV_ATTR_*
_EVENT_TYPE, _MONITOR_MODE = 102, 103  # the latter RDMA_NLDEV_SYS_ATTR_*

_EVENTS: Final[Mapping[int, tuple[Kind, Action]]] = {
    0: (Kind.DEVICE, Action.ADDED),  # RDMA_REGISTER_EVENT
    1: (Kind.DEVICE, Action.REMOVED),  # RDMA_UNREGISTER_EVENT
    2: (Kind.NETDEV, Action.ATTACHED),  # RDMA_NETDEV_ATTACH_EVENT
    3: (Kind.NETDEV, Action.DETACHED),  # RDMA_NETDEV_DETACH_EVENT
    4: (Kind.DEVICE, Action.RENAMED),  # RDMA_RENAME_EVENT
    5: (Kind.NETDEV, Action.RENAMED),  # RDMA_NETDEV_RENAME_EVENT
}

_OTHER: Final = (Kind.DEVICE, Action.NOTIFIED)

ASK: Final = netlink.request((netlink.RDMA_NL_NLDEV << 10) + _SYS_GET, 0)
"""Whether this kernel sends any: one that does not lets the group be joined, and is silent."""


def parse_monitor_mode(reply: bytes) -> bool | Missing:
    """The reply to RDMA_NLDEV_CMD_SYS_GET → whether the kernel notifies."""
    try:
        message = next(netlink.messages(reply), None)
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    if message is None:
        return Missing(Why.ABSENT, "an empty reply to RDMA_NLDEV_CMD_SYS_GET")
    found = dict(netlink.attributes(netlink.body(reply, message)))
    return bool(netlink.number(found.get(_MONITOR_MODE)))


def parse_monitor(datagram: bytes) -> tuple[Happened, ...]:
    """The events in one datagram."""
    found: list[Happened] = []
    try:
        found.extend(
            _event(dict(netlink.attributes(netlink.body(datagram, message))))
            for message in netlink.messages(datagram)
            if message.type == _MESSAGE
        )
    except ValueError as error:
        found.append(unreadable(Source.RDMA, str(error)))
    return tuple(found)


def _event(found: Mapping[int, bytes]) -> Happened:
    number = netlink.number(found.get(_EVENT_TYPE))
    index = netlink.number(found.get(_DEV_INDEX))
    device = netlink.text(found.get(_DEV_NAME)) or (None if index is None else f"#{index}")
    netdev_index = netlink.number(found.get(_NDEV_INDEX))
    netdev = netlink.text(found.get(_NDEV_NAME))
    details: dict[str, Value] = {"index": index, "port": netlink.number(found.get(_PORT))}
    details["netdev"] = netdev or (None if netdev_index is None else f"#{netdev_index}")
    kind, action = _EVENTS.get(-1 if number is None else number, _OTHER)
    if action is Action.NOTIFIED:
        details["type"] = number
    # Of a netdev that was renamed the kernel names no device: fill_mon_netdev_rename.
    subject = device or str(details["netdev"] or "?")
    return Happened(Source.RDMA, kind, action, subject, details, NOTHING)
