"""Ports without a link that nobody seems to use: by their addresses and what their carrier did.

The second port of a card without a cable, virtual functions that no machine was given, the ports
of a multi-plane adapter that its data does not go by. Not what a cable that fell out leaves: that
port had a link, or an address, or another card of its board has one at the same place.
"""

from collections.abc import Iterable, Sequence

from rdmadiag.facts import Missing, NetDev, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol
from rdmadiag.view.unshown import FAILED

_UNREAD = (*FAILED, Why.NOT_COLLECTED)
_LINK_LOCAL = "link"  # Address.scope


def is_unused(
    device: DeviceView, port: PortView, devices: Sequence[DeviceView], evidence: Evidence
) -> bool | None:
    """Whether it is, of a port that is down; None where what would show it was not read.

    Of Ethernet alone: of InfiniBand nothing tells a port that never had a link.
    """
    if port.protocol not in (Protocol.ROCE, Protocol.IWARP):
        return None if port.protocol is Protocol.UNKNOWN else False
    names = _netdevs(device, port, evidence)
    if names is None:
        return None
    quiet = _is_quiet(names, evidence) if names else _is_a_spare(device, port)
    if not quiet:
        return quiet
    return _is_no_exception(device, port, devices)


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
    if False in answers:
        return False
    return None if None in answers else True


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
