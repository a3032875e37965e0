"""RDMA netlink: the counters of a port, and which DEV_INDEX a name has.

A port has some thirty counters, of the same names as the next one.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.host import Host, netlink
from rdmadiag.sources.dump import dump
from rdmadiag.sources.nldev import ask, parse_netns_mode, parse_port
from rdmadiag.sources.nldev_messages import (
    GET,
    NUMBER,
    PORT_GET,
    STAT_GET,
    SYS_GET,
    first,
    integer,
    messages,
    nest,
    request,
    rows,
    text,
)

_ENTRY_NAME: Final = NUMBER["STAT_HWCOUNTER_ENTRY_NAME"]
_ENTRY_VALUE: Final = NUMBER["STAT_HWCOUNTER_ENTRY_VALUE"]

_counter_name = lru_cache(1024)(netlink.text)  # every port has the same ones


def parse_device_indexes(reply: bytes) -> dict[str, int] | Missing:
    """The reply to a GET dump: DEV_NAME → DEV_INDEX."""
    indexes = {}
    try:
        for found in messages(reply):
            name, index = text(found, "DEV_NAME"), integer(found, "DEV_INDEX")
            if isinstance(name, str) and isinstance(index, int) and name.isprintable():
                indexes[name] = index
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    return indexes


def parse_statistics(reply: bytes) -> dict[str, int] | Missing:
    """The reply to STAT_GET with DEV_INDEX and PORT_INDEX: counter → value."""
    found = first(reply)
    if isinstance(found, Missing):
        return found
    table = nest(found, "STAT_HWCOUNTERS")
    if table is None:
        return Missing(Why.MALFORMED, "nldev statistics without counters")
    values = {}
    for entry in rows(table, "STAT_HWCOUNTER_ENTRY"):
        name = _counter_name(entry.get(_ENTRY_NAME))
        counted = netlink.number(entry.get(_ENTRY_VALUE))
        if name and counted is not None:
            values[name] = counted
    return values


def read_device_indexes(host: Host, deadline: float) -> Mapping[str, int] | Missing:
    """DEV_INDEX by name. Only for a host with devices: ib_core is loaded there."""
    asked = request(GET, netlink.NLM_F_DUMP)
    reply = dump(host, "nldev-get", netlink.NETLINK_RDMA, asked, deadline)
    return reply if isinstance(reply, Missing) else parse_device_indexes(reply)


class PortNetdevs:
    """The netdev of each port, of this network namespace alone, as RDMA netlink names it."""

    def __init__(self, host: Host, indexes: Mapping[str, int] | Missing, deadline: float) -> None:
        self._host = host
        self._indexes = indexes
        self._deadline = deadline
        self._new_enough: bool | None = None

    def of(self, device: str, port: int) -> str | Missing:
        """ABSENT: it has none here. Anything else: RDMA netlink does not say."""
        if isinstance(self._indexes, Missing):
            return self._indexes
        index = self._indexes.get(device)
        if index is None:
            return Missing(Why.NOT_COLLECTED, "RDMA netlink does not show the device")
        at = (("DEV_INDEX", index), ("PORT_INDEX", port))
        found = ask(
            self._host, f"nldev-port-get-{index}-{port}", PORT_GET, at, parse_port, self._deadline
        )
        if isinstance(found, Missing):
            return Missing(Why.UNSUPPORTED, found.detail)
        if isinstance(found.netdev, Missing) and not self._names_netdevs():
            return Missing(Why.UNSUPPORTED, "a kernel that names no netdev")
        return found.netdev

    def _names_netdevs(self) -> bool:
        """Whether the kernel is new enough: the netns mode is newer (5.2) than the name (4.18)."""
        if self._new_enough is None:
            mode = ask(self._host, "nldev-sys-get", SYS_GET, (), parse_netns_mode, self._deadline)
            self._new_enough = not isinstance(mode, Missing)
        return self._new_enough


def read_statistics(host: Host, index: int, port: int, deadline: float) -> dict[str, int] | Missing:
    """The default counters of a port; EINVAL, which is unsupported, where its driver has none."""
    name = f"nldev-stat-get-{index}-{port}"
    asked = request(STAT_GET, 0, (("DEV_INDEX", index), ("PORT_INDEX", port)))
    reply = host.netlink(name, netlink.NETLINK_RDMA, asked, deadline)
    if isinstance(reply, Missing):
        return reply
    found = parse_statistics(reply)
    return Missing(found.why, f"{name}: {found.detail}") if isinstance(found, Missing) else found
