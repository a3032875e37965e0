"""Counters of the netdevs below RDMA ports: rtnetlink, sysfs, and ethtool's standard statistics.

IFLA_STATS64 of RTM_GETLINK has what /sys/class/net/NAME/statistics shows; the files are read
where there is no netlink (a copied tree). Pause frames, FEC and the physical layer are ethtool
netlink's, requested for each netdev by itself: a dump would read those of excluded devices too.
A bond has none of these three (bond_ethtool_ops of drivers/net/bonding/bond_main.c): they are
those of its legs.
"""

import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Final, TypeVar

from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.bonding import Bonding
from rdmadiag.facts.counters import ALL, NOTHING, CounterSet, CounterSource, Key, Spared, Wanted
from rdmadiag.frozen import dataclass
from rdmadiag.host import Host, netlink
from rdmadiag.late import late
from rdmadiag.sources.bonding import link_name, parse_bonds
from rdmadiag.sources.counters import clock_of, parse_count, read_netdev, read_port_numbers
from rdmadiag.sources.dump import dump
from rdmadiag.sources.ethtool import parse_link_modes
from rdmadiag.sources.fec_counters import parse_fec_counters, parse_phy_counters, phy_request
from rdmadiag.sources.generic import asleep, ethtool_request, generic_attributes, read_family
from rdmadiag.sources.nldev_counters import PortNetdevs, read_device_indexes
from rdmadiag.sources.sysfs import CLASS, NET_CLASS
from rdmadiag.sources.text import attribute

STATS64: Final = (
    "rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors",
    "rx_dropped", "tx_dropped", "multicast", "collisions", "rx_length_errors",
    "rx_over_errors", "rx_crc_errors", "rx_frame_errors", "rx_fifo_errors",
    "rx_missed_errors", "tx_aborted_errors", "tx_carrier_errors", "tx_fifo_errors",
    "tx_heartbeat_errors", "tx_window_errors", "rx_compressed", "tx_compressed",
    "rx_nohandler", "rx_otherhost_dropped",
)  # fmt: skip
"""struct rtnl_link_stats64, linux/if_link.h; older kernels stop earlier."""

_IFINFOMSG: Final = 16  # bytes of struct ifinfomsg
_IFNAME, _STATS64 = 3, 23  # IFLA_*
_CARRIER: Final = {"carrier_changes": 35, "carrier_down_count": 48}  # IFLA_*
_PAUSE_STATS: Final = 5  # ETHTOOL_A_PAUSE_STATS
_PAUSE_COUNTERS: Final = {2: "tx_pause_frames", 3: "rx_pause_frames"}  # ETHTOOL_A_PAUSE_STAT_*
_KERNEL: Final = late(r"([0-9]{1,3})\.([0-9]{1,3})")
_SINCE: Final = (5, 10)  # ETHTOOL_A_PAUSE_STATS; those of FEC and eth-phy came later

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Link:
    """One netdev of an RTM_GETLINK dump."""

    name: str
    ifindex: int
    counters: dict[str, int]


def parse_links(reply: bytes) -> dict[str, Link] | Missing:
    """The reply to an RTM_GETLINK dump: name → its counters."""
    links = {}
    try:
        # Not by pyroute2, which decodes all that a link has, for three of its attributes.
        for message in netlink.messages(reply):
            if message.type == netlink.NLMSG_DONE:
                continue
            header = netlink.body(reply, message)[:_IFINFOMSG]
            if len(header) < _IFINFOMSG:
                where = f"netlink message at byte {message.offset}"
                return Missing(Why.MALFORMED, f"{where}: no struct ifinfomsg")
            found = dict(netlink.attributes(netlink.body(reply, message, _IFINFOMSG)))
            name = link_name(found.get(_IFNAME))
            if name and name.isprintable():
                (index,) = struct.unpack_from("=i", header, 4)
                links[name] = Link(name, index, _counters(found))
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    return links


def _counters(found: dict[int, bytes]) -> dict[str, int]:
    stats = found.get(_STATS64, b"")
    length = min(len(stats) // 8, len(STATS64))
    values = dict(zip(STATS64, struct.unpack_from(f"={length}Q", stats), strict=False))
    for name, kind in _CARRIER.items():
        count = netlink.number(found.get(kind))
        if count is not None:
            values[name] = count
    return values


def parse_pause(reply: bytes) -> dict[str, int] | Missing:
    """The reply to ETHTOOL_MSG_PAUSE_GET: pause frames, where the driver counts them."""
    found = generic_attributes(reply)
    if isinstance(found, Missing):
        return found
    stats = found.get(_PAUSE_STATS, b"")
    values = {}
    for kind, content in netlink.attributes(stats):
        value = netlink.number(content)
        if kind in _PAUSE_COUNTERS and value is not None:
            values[_PAUSE_COUNTERS[kind]] = value
    return values or Missing(Why.UNSUPPORTED, "the driver counts no pause frames")


def read_netdev_counters(
    host: Host,
    deadline: float,
    wanted: Wanted = ALL,
    spared: Spared = NOTHING,
) -> tuple[CounterSet, ...]:
    """The netdev and pause sets of every port that has a netdev; `deadline` is absolute."""
    ports = tuple(_netdevs(host, deadline, wanted))
    if not ports:
        return ()
    reader = _Reader(host, deadline, wanted, spared)
    return tuple(
        each for device, port, netdev in ports for each in reader.sets(device, port, netdev)
    )


def _netdevs(host: Host, deadline: float, wanted: Wanted) -> Iterator[tuple[str, int, str]]:
    names = tuple(present(host.list(CLASS)))
    wanted = wanted.among(names)
    listed = [name for name in names if wanted.device(name)]
    if listed:
        netdevs = PortNetdevs(host, read_device_indexes(host, deadline), deadline)
        for name in listed:
            for number in present(read_port_numbers(host, name)):
                if wanted.port(name, number):
                    netdev = read_netdev(host, name, number, netdevs)
                    if not isinstance(netdev, Missing):
                        yield name, number, netdev


class _Reader:
    """One dump of all links, and what ethtool netlink counts of each netdev by itself."""

    def __init__(self, host: Host, deadline: float, wanted: Wanted, spared: Spared) -> None:
        self._host = host
        self._deadline = deadline
        self._wanted = wanted
        self._spared = spared
        self._clock = clock_of(host)
        # As sources.netdev requests them, so that one record serves both.
        name, protocol = "route-getlink", netlink.NETLINK_ROUTE
        reply = dump(self._host, name, protocol, netlink.GET_LINKS, self._deadline)
        self._links = reply if isinstance(reply, Missing) else parse_links(reply)
        bonds = () if isinstance(reply, Missing) else parse_bonds(reply)
        self._bonds: tuple[Bonding, ...] = () if isinstance(bonds, Missing) else bonds
        self._seconds = self._clock()
        self._family: int | Missing | None = None

    def sets(self, device: str, port: int, netdev: str) -> Iterator[CounterSet]:
        link = None if isinstance(self._links, Missing) else self._links.get(netdev)
        source, seconds = CounterSource.NETDEV, self._seconds
        if not link:
            empty = CounterSet(source, device, port, netdev, None, seconds, {}, {})
            yield self._files(empty, f"{NET_CLASS}/{netdev}/statistics")
            return
        counters = link.counters or Missing(Why.UNSUPPORTED, f"{netdev}: no IFLA_STATS64")
        yield CounterSet(source, device, port, netdev, link.ifindex, seconds, counters, {})
        legs = tuple(self._legs(device, netdev))
        for each in legs or (link,):
            yield from self._ethtool_sets(device, port, each, leg=bool(legs))

    def _legs(self, device: str, netdev: str) -> Iterator[Link]:
        """Those of the bond that the device is on as a whole; its netdev may be the active one."""
        links = {} if isinstance(self._links, Missing) else self._links
        for bond in self._bonds:
            legs = [each.netdev for each in bond.legs]
            if netdev == bond.netdev or (netdev in legs and self._is_on_all(device, legs)):
                yield from (links[name] for name in legs if name in links)
                return

    def _is_on_all(self, device: str, legs: Collection[str]) -> bool:
        """Whether no other device is on another leg; not where some may not be looked at."""
        if "bond" in device:  # mlx5_bond_0
            return True
        # One without hardware, such as rxe, has the netdev that it was made on.
        if isinstance(self._host.readlink(f"{CLASS}/{device}/device"), Missing):
            return False
        every = Wanted(excluded=self._wanted.excluded)
        found = _netdevs(self._host, self._deadline, every)
        others = {name for other, _, name in found if other != device}
        return not self._wanted.excluded and others.isdisjoint(legs)

    def _ethtool_sets(
        self, device: str, port: int, link: Link, *, leg: bool
    ) -> Iterator[CounterSet]:
        suspended = asleep(self._host, link.name)
        for source in (CounterSource.PAUSE, CounterSource.FEC, CounterSource.PHY):
            values: dict[str, int] | Missing
            seconds, speed = self._clock(), None
            if suspended:
                values = suspended
            else:
                key = (source, device, port, link.name if leg else None), link.ifindex
                values, speed = self._ethtool(source, key, link.ifindex)
            # Not `replace`, which takes three times as long: a large host has hundreds of sets.
            yield CounterSet(
                source, device, port, link.name, link.ifindex, seconds, values, {}, None, speed, leg
            )

    def _files(self, empty: CounterSet, folder: str) -> CounterSet:
        names = self._host.list(folder)
        if isinstance(names, Missing):
            # It may live in another network namespace; what netlink said comes first.
            reason = self._links if isinstance(self._links, Missing) else names
            return replace(empty, values=reason)
        read = {name: attribute(self._host, f"{folder}/{name}", parse_count) for name in names}
        return replace(
            empty,
            values={name: value for name, value in read.items() if not isinstance(value, Missing)},
            refused={name: value for name, value in read.items() if isinstance(value, Missing)},
        )

    def _ethtool(
        self, source: CounterSource, key: tuple[Key, int | None], ifindex: int
    ) -> tuple[dict[str, int] | Missing, int | Missing | None]:
        """The values of a set, and beside those of FEC the speed in Mbit/s."""
        if key in self._spared.sets:
            return self._spared.sets[key], None
        if self._family is None:
            self._family = self._read_family()
        if isinstance(self._family, Missing):
            return self._family, None
        found = self._statistics(source, self._family, ifindex)
        if source is not CounterSource.FEC or isinstance(found, Missing):
            return found, None
        return found, self._speed(self._family, ifindex)

    def _statistics(
        self, source: CounterSource, family: int, ifindex: int
    ) -> dict[str, int] | Missing:
        if source is CounterSource.PHY:
            name, request = f"ethtool-phy-{ifindex}", phy_request(family, ifindex)
            return self._answer(name, request, parse_phy_counters)
        if source is CounterSource.FEC:
            command, name, parse = netlink.ETHTOOL_MSG_FEC_GET, "fec-stats", parse_fec_counters
        else:
            command, name, parse = netlink.ETHTOOL_MSG_PAUSE_GET, "pause-get", parse_pause
        request = ethtool_request(family, command, ifindex, statistics=True)
        return self._answer(f"ethtool-{name}-{ifindex}", request, parse)

    def _speed(self, family: int, ifindex: int) -> int | Missing:
        # As sources.ethtool requests them, so that one record serves both.
        request = ethtool_request(family, netlink.ETHTOOL_MSG_LINKMODES_GET, ifindex)
        modes = self._answer(f"ethtool-linkmodes-{ifindex}", request, parse_link_modes)
        return modes if isinstance(modes, Missing) else modes.speed_mbps

    def _answer(
        self, name: str, request: bytes, parse: Callable[[bytes], T | Missing]
    ) -> T | Missing:
        reply = self._host.netlink(name, netlink.NETLINK_GENERIC, request, self._deadline)
        return reply if isinstance(reply, Missing) else parse(reply)

    def _read_family(self) -> int | Missing:
        version = _KERNEL.match(self._host.identity.kernel)
        if version and (int(version[1]), int(version[2])) < _SINCE:
            return Missing(Why.UNSUPPORTED, "ethtool netlink counts in Linux 5.10 and newer")
        return read_family(self._host, netlink.ETHTOOL_GENL_NAME, self._deadline)
