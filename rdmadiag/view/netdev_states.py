"""Whether the netdevs that GIDs name are up, from the source that was read.

A GID names its netdev without its network namespace (gid_attrs/ndevs, print_ndev of
drivers/infiniband/core/sysfs.c), and each namespace may have an eth0.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from rdmadiag.facts import Address, GidEntry, GidTable, Missing, NldevPort, Why, known
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.gid import Family, Gid, Scope
from rdmadiag.gid.netdev import DORMANT, NOT_HERE, OPERATIONAL, NetDevState, Unusable
from rdmadiag.late import late

if TYPE_CHECKING:
    from rdmadiag.facts.macos import MacInterface

_MAC: Final = late(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
_FEW: Final = 4  # netdevs above each other: a VLAN of a bond of two legs


class NetDevStates:
    """The state of netdevs: rtnetlink's word, else /proc/net/dev and sysfs together."""

    def __init__(self, evidence: Evidence) -> None:
        self._netlink = (
            None
            if isinstance(evidence.netdev, Missing)
            else {netdev.name: netdev for netdev in evidence.netdev.netdevs}
        )
        self._legs: dict[str, list[str]] = {}
        for each in (self._netlink or {}).values():
            if isinstance(each.master, str):
                self._legs.setdefault(each.master, []).append(each.name)
        process = evidence.process
        names = Missing(Why.NOT_COLLECTED) if isinstance(process, Missing) else process.netdevs
        self._names = None if isinstance(names, Missing) else frozenset(names)
        ipv6 = Missing(Why.NOT_COLLECTED) if isinstance(process, Missing) else process.ipv6
        self._ipv6 = known(ipv6)
        self._sysfs = (
            {}
            if isinstance(evidence.sysfs, Missing)
            else {netdev.name: netdev for netdev in evidence.sysfs.netdevs}
        )
        mac = evidence.mac_network
        self._mac = (
            None
            if isinstance(mac, Missing) or isinstance(mac.interfaces, Missing)
            else {each.name: each for each in mac.interfaces}
        )
        self._unusable = {
            (name, address.address): Unusable.DUPLICATE
            if address.duplicate is True
            else Unusable.TENTATIVE
            for name, addresses in self._addresses(evidence)
            for address in addresses
            if True in (address.duplicate, address.tentative)
        }
        self.is_mac = evidence.is_mac
        self.names = (
            {}
            if isinstance(evidence.netdev, Missing)
            else {netdev.ifindex: netdev.name for netdev in evidence.netdev.netdevs}
        )
        # Kernels that show the mode (5.2) look for a route where the GID's netdev is
        # (set_addr_netns_by_gid_rcu, drivers/infiniband/core/addr.c).
        nldev = evidence.nldev
        shows_mode = not isinstance(nldev, Missing) and not isinstance(nldev.netns_mode, Missing)
        self._not_here = NetDevState.ELSEWHERE if shows_mode else NetDevState.ABSENT

    def _addresses(self, evidence: Evidence) -> Iterable[tuple[str, tuple[Address, ...]]]:
        """Of each netdev: rtnetlink's, else those of /proc/net/if_inet6; a Mac's by ifconfig."""
        read = self._mac if self._mac is not None else self._netlink
        if read is not None:
            return [(name, netdev.addresses) for name, netdev in read.items()]
        process = known(evidence.process)
        rows = known(process.ipv6_addresses) if process else None
        return (rows or {}).items()

    def of(self, gids: GidTable, port: NldevPort | None) -> dict[str, NetDevState]:
        """The state of each netdev that rows of a port's table name; `port` as nldev shows it."""
        return {name: self._state(name, rows, port) for name, rows in _by_netdev(gids).items()}

    def namesakes(self, states: Mapping[str, NetDevState]) -> frozenset[str]:
        """Names of other namespaces' netdevs that are also those of netdevs here.

        So are those of which it is not known whose they are.
        """
        listed = self._netlink or {}
        return frozenset(
            name
            for name, state in states.items()
            if (state in NOT_HERE and not self._is_absent(name))
            or (state is NetDevState.UNKNOWN and name in listed)
        )

    def _state(self, name: str, rows: Iterable[GidEntry], port: NldevPort | None) -> NetDevState:
        if self._mac is not None:
            return _mac_state(self._mac.get(name))
        if self._is_absent(name):
            return self._not_here if port else NetDevState.ABSENT
        if not self._is_ours(name, rows, port):
            # Without addresses to compare, or nldev's word, it may be another's of that name.
            is_listed = port is not None and self._netlink is not None
            return self._not_here if is_listed else NetDevState.UNKNOWN
        found = self._netlink.get(name) if self._netlink is not None else None
        if found is None:
            shown = self._sysfs.get(name)
            return _by_operstate(shown.operstate) if shown else NetDevState.UNKNOWN
        return _by_operstate(found.operstate) if found.admin_up else NetDevState.DOWN

    def _is_absent(self, name: str) -> bool:
        """Whether this namespace has no netdev of that name."""
        names = self._names if self._netlink is None else self._netlink
        return names is not None and name not in names

    def _is_ours(self, name: str, rows: Iterable[GidEntry], port: NldevPort | None) -> bool:
        """Whether this namespace's netdev of that name is the one that the rows name.

        nldev names a port's netdev in the namespace that it lives in alone (fill_port_info).
        """
        own = known(port.netdev) if port else None
        if own is not None and own in self._beside(name):
            return True
        found = self._netlink.get(name) if self._netlink is not None else None
        addresses = set((self._ipv6 or {}).get(name, ()))
        if found:
            addresses |= {each.address for each in found.addresses}
        for each in (found, self._sysfs.get(name)):
            addresses |= {_default_gid(each.mac)} if each else set()
        return any(_text(row) in addresses for row in rows)

    def _beside(self, name: str) -> frozenset[str]:
        """The netdev, what it stands on, what that is enslaved to, and so on."""
        netdevs = self._netlink or {}
        seen = {name}
        for _ in range(_FEW):
            below = {netdevs[each].lower for each in seen & netdevs.keys()}
            legs = {leg for each in seen for leg in self._legs.get(each, ())}
            seen |= legs | {each for each in below if isinstance(each, str)}
        return frozenset(seen)

    def unusable(self, gids: GidTable) -> dict[int, Unusable]:
        """Rows whose address their netdev has and must not use."""
        if not self._unusable:
            return {}
        keys = ((entry, (entry.netdev, _text(entry))) for entry in gids.entries)
        return {entry.index: self._unusable[key] for entry, key in keys if key in self._unusable}

    def unassigned(self, gids: GidTable, port: NldevPort | None) -> frozenset[int]:
        """Rows with an fe80:: address that their netdev, which is ours, lacks."""
        if self._ipv6 is None:
            return frozenset()
        return frozenset(
            entry.index
            for name, rows in _by_netdev(gids).items()
            if not self._is_absent(name) and self._is_ours(name, rows, port)
            for entry in rows
            if entry.gid.scope is Scope.LINK_LOCAL
            and entry.gid.family is Family.IPV6
            and str(entry.gid) not in self._ipv6.get(name, ())
        )


def _by_netdev(gids: GidTable) -> dict[str, list[GidEntry]]:
    """The rows of each netdev that is named, in the netdevs' order."""
    named: dict[str, list[GidEntry]] = {}
    for entry in gids.entries:
        if not isinstance(entry.netdev, Missing):
            named.setdefault(entry.netdev, []).append(entry)
    return dict(sorted(named.items()))


def _default_gid(mac: str | Missing) -> str:
    """The link-local GID that is made of a MAC (make_default_gid); "" without one."""
    if isinstance(mac, Missing) or not _MAC.fullmatch(mac):
        return ""
    octets = bytes.fromhex(mac.replace(":", ""))
    tail = bytes((octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]))
    return str(Gid(b"\xfe\x80" + bytes(6) + tail))


def _text(entry: GidEntry) -> str:
    return entry.gid.ipv4 or str(entry.gid)


def _mac_state(interface: "MacInterface | None") -> NetDevState:
    if interface is None:
        return NetDevState.ABSENT
    inactive = interface.status == "inactive"
    return NetDevState.UP if interface.up and not inactive else NetDevState.DOWN


def _by_operstate(operstate: str | Missing) -> NetDevState:
    """RFC 2863."""
    if isinstance(operstate, Missing) or operstate == DORMANT:
        return NetDevState.UNKNOWN
    return NetDevState.UP if operstate in OPERATIONAL else NetDevState.DOWN
