"""Whether the netdevs that GIDs name are up, from the source that was read."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rdmadiag.facts import Address, GidEntry, GidTable, Missing, Why, known
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.gid import Family, Scope
from rdmadiag.gid.netdev import NetDevState, Unusable

if TYPE_CHECKING:
    from rdmadiag.facts.macos import MacInterface


class NetDevStates:
    """The state of netdevs: rtnetlink's word, else /proc/net/dev and sysfs together."""

    def __init__(self, evidence: Evidence) -> None:
        self._netlink = (
            None
            if isinstance(evidence.netdev, Missing)
            else {netdev.name: netdev for netdev in evidence.netdev.netdevs}
        )
        process = evidence.process
        names = Missing(Why.NOT_COLLECTED) if isinstance(process, Missing) else process.netdevs
        self._names = None if isinstance(names, Missing) else frozenset(names)
        ipv6 = Missing(Why.NOT_COLLECTED) if isinstance(process, Missing) else process.ipv6
        self._ipv6 = known(ipv6)
        self._sysfs = (
            {}
            if isinstance(evidence.sysfs, Missing)
            else {netdev.name: netdev.operstate for netdev in evidence.sysfs.netdevs}
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

    def _addresses(self, evidence: Evidence) -> Iterable[tuple[str, tuple[Address, ...]]]:
        """Of each netdev: rtnetlink's, else those of /proc/net/if_inet6; a Mac's by ifconfig."""
        read = self._mac if self._mac is not None else self._netlink
        if read is not None:
            return [(name, netdev.addresses) for name, netdev in read.items()]
        process = known(evidence.process)
        rows = known(process.ipv6_addresses) if process else None
        return (rows or {}).items()

    def state(self, name: str) -> NetDevState:
        """The state of the netdev of this name in this network namespace."""
        if self._mac is not None:
            return _mac_state(self._mac.get(name))
        if self._netlink is not None:
            found = self._netlink.get(name)
            if found is None:
                return NetDevState.ABSENT
            if not found.admin_up:
                return NetDevState.DOWN
            return _by_operstate(found.operstate)
        if self._names is not None and name not in self._names:
            return NetDevState.ABSENT
        return _by_operstate(self._sysfs.get(name, Missing(Why.ABSENT)))

    def unusable(self, gids: GidTable) -> dict[int, Unusable]:
        """Rows whose address their netdev has and must not use."""
        if not self._unusable:
            return {}
        keys = ((entry, (entry.netdev, _text(entry))) for entry in gids.entries)
        return {entry.index: self._unusable[key] for entry, key in keys if key in self._unusable}

    def unassigned(self, gids: GidTable) -> frozenset[int]:
        """Rows with an fe80:: address that their netdev, which we can see, lacks."""
        if self._ipv6 is None:
            return frozenset()
        return frozenset(
            entry.index
            for entry in gids.entries
            if entry.gid.scope is Scope.LINK_LOCAL
            and entry.gid.family is Family.IPV6
            and not isinstance(entry.netdev, Missing)
            and self.state(entry.netdev) is not NetDevState.ABSENT
            and str(entry.gid) not in self._ipv6.get(entry.netdev, ())
        )


def _text(entry: GidEntry) -> str:
    return entry.gid.ipv4 or str(entry.gid)


def _mac_state(interface: "MacInterface | None") -> NetDevState:
    if interface is None:
        return NetDevState.ABSENT
    inactive = interface.status == "inactive"
    return NetDevState.UP if interface.up and not inactive else NetDevState.DOWN


def _by_operstate(operstate: str | Missing) -> NetDevState:
    """RFC 2863; "unknown" is what drivers without operational states leave when up."""
    if isinstance(operstate, Missing):
        return NetDevState.UNKNOWN
    return NetDevState.UP if operstate in ("up", "unknown") else NetDevState.DOWN
