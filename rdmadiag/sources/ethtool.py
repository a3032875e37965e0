"""ethtool netlink: state, modes, pause, FEC and rings of each netdev of a port.

One message for each netdev and kind: a dump would ask the drivers of all other netdevs too.
Before it asks the driver, the kernel wakes a PCI function that is suspended (ethnl_ops_begin of
net/ethtool/netlink.c): such a netdev is not looked at.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeVar

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ethtool import (
    SUBSTATES,
    Duplex,
    EthtoolFacts,
    ExtendedState,
    Fec,
    FecState,
    LinkModes,
    LinkState,
    NetdevEthtool,
    Pause,
    Rings,
)
from rdmadiag.facts.ib import Numbered
from rdmadiag.facts.routing import Link
from rdmadiag.frozen import dataclass
from rdmadiag.host import Host, netlink
from rdmadiag.sources.generic import asleep, ethtool_request, generic_attributes, read_family
from rdmadiag.sources.port_netdevs import read_links_of_ports

T = TypeVar("T")
N = TypeVar("N", bound=Numbered)

# ETHTOOL_A_{LINKSTATE,LINKMODES,PAUSE,FEC,RINGS}_*
_LINK, _EXT_STATE, _EXT_SUBSTATE, _EXT_DOWN_CNT = 2, 5, 6, 7
_MODES_AUTONEG, _OURS, _PEER, _SPEED, _DUPLEX, _LANES = 2, 3, 4, 5, 6, 9
_PAUSE_AUTONEG, _PAUSE_RX, _PAUSE_TX = 2, 3, 4
_FEC_MODES, _FEC_AUTO, _FEC_ACTIVE = 2, 3, 4
_RX_MAX, _TX_MAX, _RX, _TX = 2, 5, 6, 9

_BITS: Final = 3  # ETHTOOL_A_BITSET_BITS
_INDEX, _NAME, _VALUE = 1, 2, 3  # ETHTOOL_A_BITSET_BIT_*
_MOST_BITS: Final = 1024

_SPEED_UNKNOWN: Final = 0xFFFFFFFF
_DUPLEX_UNKNOWN: Final = 0xFF


# --- messages ----------------------------------------------------------------------------


def parse_link_state(reply: bytes) -> LinkState | Missing:
    """The reply to ETHTOOL_MSG_LINKSTATE_GET."""
    found = generic_attributes(reply)
    if isinstance(found, Missing):
        return found
    up = _flag(found, _LINK, "link state")
    extended = _one_of(found, _EXT_STATE, "extended link state", ExtendedState)
    number = netlink.number(found.get(_EXT_SUBSTATE))
    substates = () if isinstance(extended, Missing) else SUBSTATES.get(extended, ())
    substate: str | Missing
    if number is None:
        substate = Missing(Why.UNSUPPORTED, "the driver gives no extended link substate")
    elif 0 < number <= len(substates):
        substate = substates[number - 1]
    else:
        substate = Missing(Why.UNSUPPORTED, f"extended link substate {number} is not known here")
    return LinkState(
        up, extended, substate, number, _count(found, _EXT_DOWN_CNT, "link-down count")
    )


def parse_link_modes(reply: bytes) -> LinkModes | Missing:
    """The reply to ETHTOOL_MSG_LINKMODES_GET, its bitsets with names."""
    found = generic_attributes(reply)
    if isinstance(found, Missing):
        return found
    ours = _bits(found.get(_OURS), "link modes")
    peer = _bits(found.get(_PEER), "link modes of the peer")
    speed = _count(found, _SPEED, "speed")
    if speed in (_SPEED_UNKNOWN, 0):
        speed = Missing(Why.ABSENT, "the speed is not known")
    duplex: Duplex | Missing = Missing(Why.ABSENT, "the duplex is not known")
    if netlink.number(found.get(_DUPLEX)) != _DUPLEX_UNKNOWN:
        duplex = _one_of(found, _DUPLEX, "duplex", Duplex)
    lanes = _count(found, _LANES, "number of lanes")
    return LinkModes(
        autoneg=_flag(found, _MODES_AUTONEG, "autonegotiation"),
        supported=ours if isinstance(ours, Missing) else tuple(name for _, name, _ in ours),
        advertised=ours if isinstance(ours, Missing) else tuple(name for _, name, on in ours if on),
        peer=peer if isinstance(peer, Missing) else tuple(name for _, name, _ in peer),
        speed_mbps=speed,
        duplex=duplex,
        lanes=lanes or Missing(Why.ABSENT, "the number of lanes is not known"),
    )


def parse_pause_settings(reply: bytes) -> Pause | Missing:
    """The reply to ETHTOOL_MSG_PAUSE_GET."""
    found = generic_attributes(reply)
    if isinstance(found, Missing):
        return found
    return Pause(
        _flag(found, _PAUSE_AUTONEG, "autonegotiation of pause frames"),
        _flag(found, _PAUSE_RX, "pause frames"),
        _flag(found, _PAUSE_TX, "pause frames"),
    )


def parse_fec(reply: bytes) -> FecState | Missing:
    """The reply to ETHTOOL_MSG_FEC_GET; without an active mode the link is down, or has none."""
    found = generic_attributes(reply)
    if isinstance(found, Missing):
        return found
    modes = _bits(found.get(_FEC_MODES), "FEC modes")
    return FecState(
        auto=_flag(found, _FEC_AUTO, "automatic FEC"),
        modes=modes
        if isinstance(modes, Missing)
        else tuple(_known(index, "FEC mode", Fec) for index, _, _ in modes),
        active=_one_of(found, _FEC_ACTIVE, "active FEC mode", Fec),
    )


def parse_rings(reply: bytes) -> Rings | Missing:
    """The reply to ETHTOOL_MSG_RINGS_GET."""
    found = generic_attributes(reply)
    if isinstance(found, Missing):
        return found
    rx, tx, rx_max, tx_max = (
        _count(found, kind, "length of its rings") for kind in (_RX, _TX, _RX_MAX, _TX_MAX)
    )
    return Rings(rx, tx, rx_max, tx_max)


def _left_out(what: str) -> Missing:
    return Missing(Why.UNSUPPORTED, f"the driver gives no {what}")


def _count(found: dict[int, bytes], kind: int, what: str) -> int | Missing:
    value = netlink.number(found.get(kind))
    return _left_out(what) if value is None else value


def _flag(found: dict[int, bytes], kind: int, what: str) -> bool | Missing:
    value = _count(found, kind, what)
    return value if isinstance(value, Missing) else bool(value)


def _one_of(found: dict[int, bytes], kind: int, what: str, words: type[N]) -> N | Missing:
    value = _count(found, kind, what)
    return value if isinstance(value, Missing) else _known(value, what, words)


def _known(number: int, what: str, words: type[N]) -> N | Missing:
    known = words.from_number(number)
    return known or Missing(Why.UNSUPPORTED, f"{what} {number} is not known here")


def _bits(raw: bytes | None, what: str) -> tuple[tuple[int, str, bool], ...] | Missing:
    return _left_out(what) if raw is None else _bitset(raw)


@lru_cache(64)  # ports of one kind have the same ones
def _bitset(raw: bytes) -> tuple[tuple[int, str, bool], ...] | Missing:
    """Index, name and value of each bit: of its mask, or of a list without one."""
    listed = dict(netlink.attributes(raw)).get(_BITS)
    if listed is None:
        return Missing(Why.MALFORMED, "a bitset without names")
    bits = []
    for _, content in netlink.attributes(listed):
        bit = dict(netlink.attributes(content))
        index, name = netlink.number(bit.get(_INDEX)), netlink.text(bit.get(_NAME))
        if index is None:
            return Missing(Why.MALFORMED, "a bit without its index")
        bits.append((index, name or f"bit {index}", _VALUE in bit))
        if len(bits) > _MOST_BITS:
            return Missing(Why.MALFORMED, f"a bitset of more than {_MOST_BITS} bits")
    return tuple(bits)


# --- reading -----------------------------------------------------------------------------


def read_ethtool(host: Host, deadline: float) -> EthtoolFacts | Missing:
    """Each netdev of a port, where it is in this namespace; `deadline` as in Host.netlink."""
    links = read_links_of_ports(host, deadline)
    if isinstance(links, Missing):
        return links
    if not links:
        return EthtoolFacts(())
    reader = _Reader(host, read_family(host, netlink.ETHTOOL_GENL_NAME, deadline), deadline)
    return EthtoolFacts(tuple(map(reader.netdev, links)))


@dataclass(frozen=True, slots=True)
class _Reader:
    """One message after the other."""

    host: Host
    family: int | Missing
    deadline: float

    def netdev(self, link: Link) -> NetdevEthtool:
        """All of one netdev."""
        if suspended := asleep(self.host, link.name):
            return NetdevEthtool(link.name, *[suspended] * 5)
        return NetdevEthtool(
            link.name,
            self._get(link, "linkstate", netlink.ETHTOOL_MSG_LINKSTATE_GET, parse_link_state),
            self._get(link, "linkmodes", netlink.ETHTOOL_MSG_LINKMODES_GET, parse_link_modes),
            self._get(link, "pause", netlink.ETHTOOL_MSG_PAUSE_GET, parse_pause_settings),
            self._get(link, "fec", netlink.ETHTOOL_MSG_FEC_GET, parse_fec),
            self._get(link, "rings", netlink.ETHTOOL_MSG_RINGS_GET, parse_rings),
        )

    def _get(
        self, link: Link, what: str, command: int, parse: Callable[[bytes], T | Missing]
    ) -> T | Missing:
        if isinstance(self.family, Missing):
            return self.family
        name = f"ethtool-{what}-{link.ifindex}"
        request = ethtool_request(self.family, command, link.ifindex)
        reply = self.host.netlink(name, netlink.NETLINK_GENERIC, request, self.deadline)
        found = reply if isinstance(reply, Missing) else parse(reply)
        if isinstance(found, Missing) and found.why is Why.UNSUPPORTED:
            return Missing(found.why, f"the driver of {link.name} has no {what}")
        return found
