"""Bit errors on the wire: ethtool netlink's statistics of FEC and of the physical layer.

A FEC counter is an array of 64-bit numbers: the total, then one for each lane where the driver
counts by lane; of no length where it does not count (fec_stats_recalc of net/ethtool/fec.c). A
driver that has no counter of a group leaves its nest empty (stats_put_stats of
net/ethtool/stats.c).

    ethtool --include-statistics --show-fec ens1f0np0
    ethtool --statistics ens1f0np0 --groups eth-phy
"""

import struct
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.host import netlink
from rdmadiag.sources.generic import NESTED, ethtool_request, generic_attributes, generic_body

_FEC_STATS: Final = 5  # ETHTOOL_A_FEC_STATS
_FEC_COUNTERS: Final = {  # ETHTOOL_A_FEC_STAT_*
    2: "corrected_blocks",
    3: "uncorrectable_blocks",
    4: "corrected_bits",
}
_MOST_LANES: Final = 64  # ETHTOOL_MAX_LANES is 8

_STATS_HEADER, _GROUPS, _GROUP = 2, 3, 4  # ETHTOOL_A_STATS_*
_GROUP_ID, _STATISTIC = 2, 4  # ETHTOOL_A_STATS_GRP_*
_NO_MASK, _BITS = 1, 3  # ETHTOOL_A_BITSET_*
_BIT, _INDEX = 1, 1  # ETHTOOL_A_BITSET_BITS_BIT, ETHTOOL_A_BITSET_BIT_INDEX
_ETH_PHY: Final = 0  # ETHTOOL_STATS_ETH_PHY
_PHY_COUNTERS: Final = {0: "SymbolErrorDuringCarrier"}  # ETHTOOL_A_STATS_ETH_PHY_5_SYM_ERR
_U32: Final = struct.Struct("=I")


def phy_request(family: int, ifindex: int) -> bytes:
    """ETHTOOL_MSG_STATS_GET for the group eth-phy of one netdev."""
    bit = netlink.attribute(NESTED | _BIT, netlink.attribute(_INDEX, _U32.pack(_ETH_PHY)))
    groups = netlink.attribute(_NO_MASK, b"") + netlink.attribute(NESTED | _BITS, bit)
    return ethtool_request(
        family,
        netlink.ETHTOOL_MSG_STATS_GET,
        ifindex,
        header=_STATS_HEADER,
        more=netlink.attribute(NESTED | _GROUPS, groups),
    )


def parse_fec_counters(reply: bytes) -> dict[str, int] | Missing:
    """The reply to ETHTOOL_MSG_FEC_GET: "corrected_bits", and by lane "corrected_bits/lane0"."""
    found = generic_attributes(reply)
    if isinstance(found, Missing):
        return found
    values: dict[str, int] = {}
    for kind, content in netlink.attributes(found.get(_FEC_STATS, b"")):
        name = _FEC_COUNTERS.get(kind)
        if name is None or not content:
            continue
        if len(content) % 8 or len(content) > 8 * (1 + _MOST_LANES):
            return Missing(Why.MALFORMED, f"{name} of {len(content)} bytes")
        total, *lanes = struct.unpack(f"={len(content) // 8}Q", content)
        values[name] = total
        values |= {f"{name}/lane{at}": each for at, each in enumerate(lanes)}
    return values or Missing(Why.UNSUPPORTED, "the driver counts nothing of FEC")


def parse_phy_counters(reply: bytes) -> dict[str, int] | Missing:
    """The reply to ETHTOOL_MSG_STATS_GET, group eth-phy."""
    body = generic_body(reply)
    if isinstance(body, Missing):
        return body
    values: dict[str, int] = {}
    for kind, group in netlink.attributes(body):
        parts = list(netlink.attributes(group)) if kind == _GROUP else []
        if netlink.number(dict(parts).get(_GROUP_ID)) != _ETH_PHY:
            continue
        statistics = (each for part, each in parts if part == _STATISTIC)
        for number, content in (pair for each in statistics for pair in netlink.attributes(each)):
            value = netlink.number(content)
            if number in _PHY_COUNTERS and value is not None:
                values[_PHY_COUNTERS[number]] = value
    return values or Missing(Why.UNSUPPORTED, "the driver counts nothing of the physical layer")
