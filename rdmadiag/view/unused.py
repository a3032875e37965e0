"""Ports without a link that nobody seems to use: by their addresses and what their carrier did.

The second port of a card without a cable, virtual functions that no machine was given, the ports
of a multi-plane adapter that its data does not go by. Not what a cable that fell out leaves: that
port had a link, or an address, or another card of its board has one at the same place.

An InfiniBand port polls with and without a cable, so its physical state decides little. One that
was used has a LID of the subnet manager's, which stays when its link goes, or a netdev (IPoIB)
that had a link or was given an address.
"""

from collections.abc import Iterable, Sequence

from rdmadiag.facts import Missing, NetDev, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import NO_LID, PhysState
from rdmadiag.view.cm_device import IPOIB_OCTETS, hardware_address
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol
from rdmadiag.view.unshown import FAILED

_UNREAD = (*FAILED, Why.NOT_COLLECTED)
_LINK_LOCAL = "link"  # Address.scope
_GUID = 8  # bytes: the second half of a GID, and the last of IPoIB's address


def is_unused(
    device: DeviceView, port: PortView, devices: Sequence[DeviceView], evidence: Evidence
) -> bool | None:
    """Whether it is, of a port that is down; None where what would show it was not read."""
    if port.protocol is Protocol.INFINIBAND:
        return _all(
            _waits_for_a_peer(port),
            _has_no_lid(port),
            _is_quiet_infiniband(device, port, devices, evidence),
            _is_no_exception(device, port, devices),
        )
    if port.protocol not in (Protocol.ROCE, Protocol.IWARP):
        return None if port.protocol is Protocol.UNKNOWN else False
    names = _netdevs(device, port, evidence)
    if names is None:
        return None
    quiet = _is_quiet(names, evidence) if names else _is_a_spare(device, port)
    if not quiet:
        return quiet
    return _is_no_exception(device, port, devices)


def _all(*answers: bool | None) -> bool | None:
    if False in answers:
        return False
    return None if None in answers else True


# --- InfiniBand ---------------------------------------------------------------------------------


def _waits_for_a_peer(port: PortView) -> bool | None:
    """Not one that negotiates with a peer."""
    if isinstance(port.phys_state, Missing):
        return None
    return port.phys_state in (PhysState.POLLING, PhysState.DISABLED, PhysState.SLEEP)


def _has_no_lid(port: PortView) -> bool | None:
    return None if isinstance(port.lid, Missing) else port.lid in NO_LID


def _is_quiet_infiniband(
    device: DeviceView, port: PortView, devices: Sequence[DeviceView], evidence: Evidence
) -> bool | None:
    """By its netdevs; without one it must be the spare port of a card that is in use."""
    if isinstance(evidence.netdev, Missing) or isinstance(port.gids, Missing):
        return None
    guids = {entry.gid.raw[_GUID:] for entry in port.entries}
    names = [
        netdev.name
        for netdev in evidence.netdev.netdevs
        if len(octets := hardware_address(netdev)) == IPOIB_OCTETS and octets[-_GUID:] in guids
    ]
    if names:
        return _is_quiet(names, evidence)
    card = _card(device)
    return any(
        each.is_active
        for other in devices
        if other is device or (card is not None and _card(other) == card)
        for each in other.ports
    )


def _card(device: DeviceView) -> str | None:
    """The PCI address without the function."""
    return None if isinstance(device.pci, Missing) else device.pci.address.rpartition(".")[0]


# --- Ethernet -----------------------------------------------------------------------------------


def _netdevs(device: DeviceView, port: PortView, evidence: Evidence) -> frozenset[str] | None:
    """The names of its netdevs, of whatever network namespace."""
    found = set(port.netdevs)
    if port.nldev and not isinstance(port.nldev.netdev, Missing):
        found.add(port.nldev.netdev)
    if found:
        return frozenset(found)
    witnesses: list[object] = [evidence.nldev, port.gids]
    if device.nldev:
        witnesses += [device.nldev.ports, device.nldev.unreadable_ports.get(port.number)]
    if port.nldev:
        witnesses.append(port.nldev.netdev)
    return None if any(map(_is_unread, witnesses)) else frozenset()


def _is_quiet(names: Iterable[str], evidence: Evidence) -> bool | None:
    """Whether the netdevs had no link since they were made, and nobody gave them an address."""
    if isinstance(evidence.netdev, Missing):
        return None
    answers = []
    for name in names:
        netdev = evidence.netdev.netdev(name)
        if netdev is None:  # another network namespace's
            return False
        answers.append(_never_linked(netdev))
    return _all(*answers)


def _never_linked(netdev: NetDev) -> bool | None:
    """A carrier that has changed once has gone since the netdev was made: it was none."""
    if any(each.scope != _LINK_LOCAL for each in netdev.addresses):
        return False
    if isinstance(netdev.master, str):  # of a bond or a bridge
        return False
    carrier, changes = netdev.carrier, netdev.carrier_changes
    if isinstance(carrier, Missing) or isinstance(changes, Missing) or _is_unread(netdev.master):
        return None
    return carrier is False and changes <= 1


def _is_a_spare(device: DeviceView, port: PortView) -> bool:
    """A port without netdev and GIDs, beside one of its own device that is active."""
    return not port.entries and any(each.is_active for each in device.ports)


def _is_no_exception(
    device: DeviceView, port: PortView, devices: Sequence[DeviceView]
) -> bool | None:
    """Whether no other card of its kind has a link at the same place."""
    own = _place(device, port)
    if own is None:
        return True if port.is_software else None
    perhaps = False
    for other in devices:
        for each in other.ports if other is not device else ():
            if each.is_software or (each.states and not each.is_active):
                continue
            place = _place(other, each)
            if place == own and each.is_active:
                return False
            perhaps = perhaps or place in (None, own)
    return None if perhaps else True


def _place(device: DeviceView, port: PortView) -> tuple[str, ...] | None:
    """The kind of a card, and which of its ports it is; None where that is not known."""
    pci = device.pci
    if isinstance(pci, Missing) or isinstance(pci.vendor, Missing):
        return None
    if isinstance(pci.device, Missing):
        return None
    function = pci.address.rpartition(".")[2]
    return pci.vendor, pci.device, function, str(port.number)


def _is_unread(value: object) -> bool:
    return isinstance(value, Missing) and value.why in _UNREAD
