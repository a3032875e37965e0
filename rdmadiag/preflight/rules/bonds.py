"""Bonds below RDMA devices: legs that are down, legs that are not used, how packets spread."""

from collections.abc import Iterable, Iterator
from typing import Final

from rdmadiag.facts import NetDev
from rdmadiag.facts.bonding import Bonding, BondMode, HashPolicy, Leg
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import device_attribute, netdev_text, seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.bonds import Bond, Lost, bond_of, driver_of, lost_legs
from rdmadiag.view.reconcile import DeviceView

_DRIVER: Final = "https://docs.kernel.org/networking/bonding.html"


@rule(
    "bonded-ports",
    Severity.INFO,
    "A bond of ports",
    "One RDMA device stands for the ports of a bond, or on one leg of it. A queue pair uses one "
    "port: a program with few queue pairs may reach half of the bandwidth, and more of them "
    "spread over all, perhaps evenly. A device on one leg is down when that leg is, whatever the "
    "others do.",
    ("https://github.com/openucx/ucx/issues/10430",),
    remedy={
        "": (
            "cat /proc/net/bonding/*",
            "export NCCL_IB_QPS_PER_CONNECTION=4   # NCCL's default is 1",
        ),
        "on one leg": ("cat /proc/net/bonding/{bond}",),
    },
    needs=("ports", "port state", "netdev", "bonds of netdevs"),
)
def bonded_ports(this: Rule, case: Case) -> Iterator[Finding]:
    """By the device's name, or by the netdev that it stands on; of lost legs others say more."""
    for device, bond in _bonds(case):
        if _down(bond) or _lost(bond, case):
            continue
        legs = f" ({', '.join(leg.name for leg in bond.legs)})" if bond.legs else ""
        if bond.leg:
            summary = f"{device.name} is on {bond.leg}, one leg of {bond.name}{legs}"
        else:
            name = f"{bond.name}{legs}, " if bond.name else ""
            summary = f"{device.name} is over {name}a bond: one queue pair uses one of its ports"
        proof = device_attribute(device, "name", device.name)
        if bond.leg:
            proof = Proof("netdev", f"{bond.leg} IFLA_MASTER", f"{bond.name}")
        elif bond.name:
            proof = Proof("netdev", f"{bond.name} IFLA_INFO_KIND", "bond")
        yield this.finding(
            summary,
            device=device.name,
            evidence=[proof],
            when="on one leg" if bond.leg else "",
            fill={"bond": bond.name},
        )


@rule(
    "bond-leg-down",
    Severity.WARN,
    "A leg of a bond is down",
    "The bond below a device works on with the legs that are left: at a part of its bandwidth, "
    "and perhaps without a spare.",
    (_DRIVER,),
    remedy=(
        "cat /proc/net/bonding/{bond}",
        "sudo ip link set dev {leg} up",
        "# no carrier: check the cable, and the far port",
    ),
    needs=("ports", "port state", "netdev", "bonds of netdevs"),
)
def bond_leg_down(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a bond; of a device whose own leg is down link-not-up says so."""
    for device, bond in _once(case):
        down = _down(bond)
        if not down:
            continue
        names = ", ".join(leg.name for leg in down)
        yield this.finding(
            f"{bond.name}, below {device.name}, has {len(down)} of {len(bond.legs)} legs down: "
            f"{names}",
            device=device.name,
            evidence=[
                Proof("netdev", f"{leg.name} IFLA_OPERSTATE", netdev_text(leg)) for leg in down
            ],
            fill={"bond": bond.name, "leg": tuple(leg.name for leg in down)},
        )


@rule(
    "bond-leg-lost",
    Severity.WARN,
    "A leg of a bond has a link and is not used",
    "The leg has a carrier, so that nothing looks broken, and the bonding driver sends nothing by "
    "it: its own monitor calls it down (ARP monitor, a netdev that MII cannot see through), or "
    "LACP has left it out of the aggregator in use. With LACP that is the switch's side: its port "
    "is in no port channel, in another one, or the legs go to two switches that are no pair "
    "(MLAG, VPC). The bond works on at a part of its bandwidth. Without any LACP partner one leg "
    "alone is used. Seconds after a bond came up LACP may not be through yet: look again.",
    (_DRIVER, "https://github.com/torvalds/linux/blob/v6.1/drivers/net/bonding/bond_3ad.c"),
    remedy={
        "monitor": (
            "cat /proc/net/bonding/{bond}",
            "ip -d link show {leg}   # bond_slave mii_status",
            "# ARP monitor: does its arp_ip_target answer on this leg?",
        ),
        "no partner": (
            "cat /proc/net/bonding/{bond}",
            "# on the switch: LACP (mode active) on the ports of {leg}, all in one port channel",
        ),
        "another aggregator": (
            "cat /proc/net/bonding/{bond}   # Aggregator ID, Partner Mac Address",
            "# on the switch: the port of {leg} into the port channel of the other legs",
            "# legs to two switches: they need to be one LACP system (MLAG, VPC, stack)",
        ),
        "not agreed": (
            "sudo cat /proc/net/bonding/{bond}   # details partner lacp pdu, of {leg}",
            "# on the switch: state of the port channel's member, speed and LACP mode",
        ),
    },
    needs=("ports", "port state", "netdev", "bonds of netdevs", "bonding driver"),
)
def bond_leg_lost(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a bond; legs without a carrier are bond-leg-down's."""
    for device, bond in _once(case):
        driver = driver_of(bond, case.evidence)
        lost = _lost(bond, case)
        if driver is None or not lost:
            continue
        names = ", ".join(leg.netdev for leg, _ in lost)
        why = lost[0][1]
        yield this.finding(
            f"{bond.name}, below {device.name}, does not use {len(lost)} of {len(bond.legs)} legs "
            f"that have a link: {names} ({_WORDS[why]})",
            device=device.name,
            evidence=list(_proofs(driver, lost)),
            when=_WHEN[why],
            fill={"bond": bond.name, "leg": tuple(leg.netdev for leg, _ in lost)},
        )


_WORDS: Final = {
    Lost.MONITOR: "down for the bond's own monitor",
    Lost.NO_PARTNER: "no LACP partner",
    Lost.AGGREGATOR: "in another LACP aggregator",
    Lost.NOT_AGREED: "LACP has not agreed",
}
_WHEN: Final = {
    Lost.MONITOR: "monitor",
    Lost.NO_PARTNER: "no partner",
    Lost.AGGREGATOR: "another aggregator",
    Lost.NOT_AGREED: "not agreed",
}


def _proofs(driver: Bonding, lost: Iterable[tuple[Leg, Lost]]) -> Iterator[Proof]:
    if driver.mode is BondMode.LACP:
        yield Proof(
            "netdev",
            f"{driver.netdev} IFLA_BOND_AD_INFO",
            f"aggregator {seen(driver.aggregator)}, partner {seen(driver.partner_mac)}",
        )
    for leg, _ in lost:
        text = f"state {seen(leg.state)}, MII {seen(leg.mii)}"
        if driver.mode is BondMode.LACP:
            text += f", aggregator {seen(leg.aggregator)}, churn {seen(leg.actor_churn)}"
            text += f" / {seen(leg.partner_churn)}"
        yield Proof("netdev", f"{leg.netdev} IFLA_INFO_SLAVE_DATA", text)


@rule(
    "bond-hash-one-leg",
    Severity.INFO,
    "A bond that sends all packets between two hosts by one leg",
    "The bond below the device spreads packets by addresses alone, without UDP ports: all of RoCE "
    "between two hosts (layer2+3), or all of it through one router (layer2), leaves by one leg, "
    "and further queue pairs do not help. Soft RoCE sends through the bond; a NIC that has one "
    "device for both legs (mlx5) spreads queue pairs by itself or by this policy, as its firmware "
    "and LAG mode are: then this may cost nothing.",
    (_DRIVER, "https://github.com/NVIDIA/nccl-tests/issues/191"),
    remedy=(
        "sudo ip link set dev {bond} type bond xmit_hash_policy layer3+4",
        "# what comes in is spread by the switch: its own hash needs layer 4, too",
    ),
    needs=("ports", "port state", "netdev", "bonds of netdevs", "bonding driver"),
)
def bond_hash_one_leg(this: Rule, case: Case) -> Iterator[Finding]:
    """Of devices on the whole of a bond with two legs that could both be used."""
    for device, bond in _once(case):
        driver = driver_of(bond, case.evidence)
        if driver is None or bond.leg or driver.mode not in (BondMode.XOR, BondMode.LACP):
            continue
        if driver.hash_policy not in _ADDRESSES_ALONE or len(bond.legs) < 2:
            continue
        policy = driver.hash_policy
        yield this.finding(
            f"{bond.name}, below {device.name}, spreads by {seen(policy)}: all packets between two "
            "hosts leave by one leg",
            device=device.name,
            evidence=[Proof("netdev", f"{bond.name} IFLA_BOND_XMIT_HASH_POLICY", seen(policy))],
            fill={"bond": bond.name},
        )


_ADDRESSES_ALONE: Final = (
    HashPolicy.LAYER2,
    HashPolicy.LAYER23,
    HashPolicy.ENCAP23,
    HashPolicy.VLAN_MAC,
)


def _down(bond: Bond) -> tuple[NetDev, ...]:
    return tuple(leg for leg in bond.legs if not leg.admin_up or leg.carrier is False)


def _lost(bond: Bond, case: Case) -> tuple[tuple[Leg, Lost], ...]:
    """Of the legs that are not down."""
    driver = driver_of(bond, case.evidence)
    down = {leg.name for leg in _down(bond)}
    found = lost_legs(driver) if driver else ()
    return tuple((leg, why) for leg, why in found if leg.netdev not in down)


def _bonds(case: Case) -> Iterator[tuple[DeviceView, Bond]]:
    """Devices with an active port, over a bond."""
    for device in case.devices:
        if any(port.is_active for port in device.ports):
            bond = bond_of(device, case.evidence)
            if bond:
                yield device, bond


def _once(case: Case) -> Iterator[tuple[DeviceView, Bond]]:
    """Each bond with the first device on it."""
    done = set()
    for device, bond in _bonds(case):
        if bond.name not in done:
            done.add(bond.name)
            yield device, bond


RULES: Final[tuple[Rule, ...]] = (bond_leg_down, bond_leg_lost, bonded_ports, bond_hash_one_leg)
