"""Which bond a device stands on, as one device for all of its legs or on one of them, and which
legs the bond does not use."""

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import Final, TypeVar
from typing import Protocol as Shape

from rdmadiag.facts import Missing, NetDev, NetDevFacts, Why, known, present
from rdmadiag.facts.bonding import Bonding, BondMode, Leg, LegState, MiiStatus
from rdmadiag.facts.evidence import Evidence
from rdmadiag.frozen import dataclass
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol

_MOST_BELOW: Final = 4  # VLANs on VLANs

Found_co = TypeVar("Found_co", covariant=True)


class OfNetdevs(Shape[Found_co]):
    """Facts of one source, each of a netdev."""

    def netdev(self, name: str) -> Found_co | None: ...


@dataclass(frozen=True, slots=True)
class Bond:
    """A bond below a device, as far as this network namespace shows it."""

    name: str | None  # the netdev; None where only the device's own name shows it
    legs: tuple[NetDev, ...]
    leg: str | None  # the one that the device stands on; None: on the bond as a whole


def bond_of(device: DeviceView, evidence: Evidence) -> Bond | None:
    """The bond of a device that stands on one.

    rxe and siw have one netdev. A NIC with both legs makes one device for them, whose netdev by
    RDMA netlink is the leg that is active (mlx5); two NICs have a device on each leg.
    """
    facts = evidence.netdev
    if not isinstance(facts, Missing):
        for below in _below(device, facts):
            if below.kind == "bond":
                return Bond(below.name, _legs(below.name, facts), None)
            master = facts.netdev(str(below.master))
            if master and master.kind == "bond":
                legs = _legs(master.name, facts)
                alone = _is_software(device) or _has_company(device, legs, evidence)
                on_leg = alone and "bond" not in device.name
                return Bond(master.name, legs, below.name if on_leg else None)
    return Bond(None, (), None) if "bond" in device.name else None


def netdevs_below(
    device: DeviceView, port: PortView, evidence: Evidence
) -> Iterator[str | Missing]:
    """What the port stands on, below its VLANs; of a bond that is one device, each leg."""
    bond = bond_of(device, evidence)
    if bond and bond.leg is None and bond.legs:
        yield from (leg.name for leg in bond.legs)
        return
    name = port.netdev
    facts = evidence.netdev
    for _ in range(_MOST_BELOW):
        found = None if isinstance(facts, Missing) else facts.netdev(str(name))
        if found is None or found.kind != "vlan" or isinstance(found.lower, Missing):
            break
        name = found.lower
    yield name


def found_below(
    device: DeviceView,
    port: PortView,
    evidence: Evidence,
    witness: "Missing | OfNetdevs[Found_co]",
) -> Iterator[Found_co | Missing]:
    """What the witness says of each netdev that a RoCE or iWARP port stands on."""
    if port.protocol not in (Protocol.ROCE, Protocol.IWARP):
        return
    if isinstance(witness, Missing):
        yield witness
        return
    for name in netdevs_below(device, port, evidence):
        if isinstance(name, Missing):
            yield name
            continue
        elsewhere = Missing(Why.ABSENT, f"{name} is not in this network namespace")
        yield witness.netdev(name) or elsewhere


def _below(device: DeviceView, facts: NetDevFacts) -> Iterator[NetDev]:
    """The netdevs that a device stands on, below their VLANs."""
    for name in _own(device):
        netdev = facts.netdev(name)
        while netdev and netdev.kind == "vlan" and (lower := facts.netdev(str(netdev.lower))):
            netdev = lower
        if netdev:
            yield netdev


def _own(device: DeviceView) -> Iterable[str]:
    """Its netdevs by RDMA netlink, else the parent of rxe, else those that its GIDs name."""
    netdevs = [known(port.nldev.netdev) for port in device.ports if port.nldev]
    parent = known(device.sysfs.parent) if device.sysfs else None
    named = [name for port in device.ports for name in sorted(port.netdevs_here)]
    return [each for each in netdevs if each] or ([parent] if parent else named)


def _is_software(device: DeviceView) -> bool:
    return any(port.is_software for port in device.ports)


def _has_company(device: DeviceView, legs: Iterable[NetDev], evidence: Evidence) -> bool:
    """Whether RDMA netlink shows another device on another leg."""
    nldev = known(evidence.nldev)
    others = {
        port.netdev
        for each in (nldev.devices if nldev else ())
        if each.name != device.name
        for port in present(each.ports)
    }
    return any(leg.name in others for leg in legs)


def _legs(name: str, facts: NetDevFacts) -> tuple[NetDev, ...]:
    return tuple(each for each in facts.netdevs if each.master == name)


# --- what the bonding driver does with the legs ------------------------------------------------


class Lost(Enum):
    """Why the driver sends nothing by a leg."""

    MONITOR = auto()  # its MII or ARP monitor says down
    NO_PARTNER = auto()  # nobody answers LACP: one leg alone is used
    AGGREGATOR = auto()  # LACP put it into another aggregator than the one in use
    NOT_AGREED = auto()  # in the one in use, and not collecting or distributing


def driver_of(bond: Bond, evidence: Evidence) -> Bonding | None:
    """What the driver says of this bond, where it is known."""
    facts = evidence.netdev
    bonds = () if isinstance(facts, Missing) else present(facts.bonds)
    return next((each for each in bonds if each.netdev == bond.name), None)


def lost_legs(bond: Bonding) -> tuple[tuple[Leg, Lost], ...]:
    """The legs that it does not use, though it is meant to, and why.

    Not a backup of active-backup, nor a leg whose `updelay` or `downdelay` has not passed.
    """
    found = ((leg, _why_lost(bond, leg)) for leg in bond.legs)
    return tuple((leg, why) for leg, why in found if why)


def _why_lost(bond: Bonding, leg: Leg) -> Lost | None:
    if leg.mii is MiiStatus.DOWN:
        return Lost.MONITOR
    if bond.mode is not BondMode.LACP or leg.mii is not MiiStatus.UP:
        return None
    elsewhere = leg.aggregator != bond.aggregator
    if leg.state is not LegState.BACKUP and not elsewhere:
        return None
    if isinstance(leg.aggregator, Missing) or isinstance(bond.aggregator, Missing):
        return Lost.NOT_AGREED if leg.state is LegState.BACKUP else None
    if bond.partner_mac == _NOBODY:
        return Lost.NO_PARTNER
    return Lost.AGGREGATOR if elsewhere else Lost.NOT_AGREED


_NOBODY: Final = "00:00:00:00:00:00"
