"""RDMA netlink: the counters of a port, and which DEV_INDEX a name has.

The replies are read by hand: a port has some thirty counters, and pyroute2 takes longer to
decode them than the driver to count.
"""

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.host import Host, netlink
from rdmadiag.sources.nldev_attributes import NUMBER

_GET: Final = (netlink.RDMA_NL_NLDEV << 10) + 1
_STAT_GET: Final = (netlink.RDMA_NL_NLDEV << 10) + 17
_U32: Final = struct.Struct("=I")
_INDEX: Final = NUMBER["DEV_INDEX"]
_NAME: Final = NUMBER["DEV_NAME"]
_PORT: Final = NUMBER["PORT_INDEX"]
_TABLE: Final = NUMBER["STAT_HWCOUNTERS"]
_ENTRY: Final = NUMBER["STAT_HWCOUNTER_ENTRY"]
_ENTRY_NAME: Final = NUMBER["STAT_HWCOUNTER_ENTRY_NAME"]
_ENTRY_VALUE: Final = NUMBER["STAT_HWCOUNTER_ENTRY_VALUE"]


_name = lru_cache(1024)(netlink.text)  # every port has the same ones


def parse_device_indexes(reply: bytes) -> dict[str, int] | Missing:
    """The reply to a GET dump: DEV_NAME → DEV_INDEX."""
    indexes = {}
    try:
        for message in netlink.messages(reply):
            if message.type == netlink.NLMSG_DONE:
                continue
            found = dict(netlink.attributes(netlink.body(reply, message)))
            name, index = netlink.text(found.get(_NAME)), netlink.number(found.get(_INDEX))
            if name and index is not None and index < 2**32:  # u32, whatever its length says
                indexes[name] = index
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    return indexes


def parse_statistics(reply: bytes) -> dict[str, int] | Missing:
    """The reply to STAT_GET with DEV_INDEX and PORT_INDEX: counter → value."""
    try:
        message = next(netlink.messages(reply), None)
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    if message is None:
        return Missing(Why.ABSENT, "empty nldev reply")
    table = dict(netlink.attributes(netlink.body(reply, message))).get(_TABLE)
    if table is None:
        return Missing(Why.MALFORMED, "nldev statistics without counters")
    values = {}
    for kind, entry in netlink.attributes(table):
        if kind == _ENTRY:
            found = dict(netlink.attributes(entry))
            name = _name(found.get(_ENTRY_NAME))
            counted = netlink.number(found.get(_ENTRY_VALUE))
            if name and counted is not None:
                values[name] = counted
    return values


def read_device_indexes(host: Host, deadline: float) -> Mapping[str, int] | Missing:
    """DEV_INDEX by name. Only for a host with devices: ib_core is loaded there."""
    request = netlink.request(_GET, netlink.NLM_F_DUMP)
    reply = host.netlink("nldev-get", netlink.NETLINK_RDMA, request, deadline)
    return reply if isinstance(reply, Missing) else parse_device_indexes(reply)


def read_statistics(host: Host, index: int, port: int, deadline: float) -> dict[str, int] | Missing:
    """The default counters of a port; EINVAL, which is unsupported, where its driver has none."""
    payload = netlink.attribute(_INDEX, _U32.pack(index))
    payload += netlink.attribute(_PORT, _U32.pack(port))
    name = f"nldev-stat-get-{index}-{port}"
    request = netlink.request(_STAT_GET, 0, payload)
    reply = host.netlink(name, netlink.NETLINK_RDMA, request, deadline)
    if isinstance(reply, Missing):
        return reply
    found = parse_statistics(reply)
    return Missing(found.why, f"{name}: {found.detail}") if isinstance(found, Missing) else found
