"""The netdevs of two addresses beside each other: their MTUs, and the layers that they stand on."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing, NetDev
from rdmadiag.facts.routing import UNANSWERED
from rdmadiag.preflight.rules.ends_values import values_of
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.ends import Towards

_LAYERS: Final = frozenset(
    ("bond", "bridge", "geneve", "ipvlan", "macsec", "macvlan", "team", "vlan", "vxlan")
)
"""IFLA_INFO_KIND of netdevs that stand on others."""
_LEAST_MTU: Final = 1500  # of Ethernet, IEEE 802.3


@rule(
    "ends-mtu-differs",
    Severity.WARN,
    "The two netdevs have different MTUs",
    "Both addresses are in one subnet, and their netdevs have different MTUs. What the one with "
    "the larger sends at full size the other, or a switch on the way, drops without a word, and "
    "queue pairs of the larger path MTU fail at RTR or in the middle.",
    ("https://github.com/ROCm/rocSHMEM/pull/214",),
    remedy=(
        "sudo ip link set dev {netdev} mtu {mtu}   # or the larger one at the peer, and the switch",
    ),
)
def mtu_differs(this: Rule, case: Towards) -> Iterator[Finding]:
    """At the end of the larger one, whose frames get lost; at the other one's below 1500."""
    here, there = case.mine.netdev, case.theirs.netdev
    if isinstance(here.mtu, Missing) or isinstance(there.mtu, Missing) or here.mtu <= there.mtu:
        return
    if case.mine.holds(case.theirs.address):
        yield this.finding(
            f"{here.name} of {case.near.name} has MTU {here.mtu}, {there.name} of "
            f"{case.far.name} {there.mtu}",
            device=case.mine.device,
            port=case.mine.port,
            evidence=[
                Proof("netdev", f"{case.near.name}: {here.name} IFLA_MTU", str(here.mtu)),
                Proof("netdev", f"{case.far.name}: {there.name} IFLA_MTU", str(there.mtu)),
            ],
            fill=values_of(case) | {"mtu": there.mtu},
        )


def is_below_ethernets(netdev: NetDev) -> bool:
    """Whether its MTU is below what every Ethernet link takes: then it is the odd one of two."""
    return not isinstance(netdev.mtu, Missing) and netdev.mtu < _LEAST_MTU


@rule(
    "ends-no-carrier",
    Severity.CRITICAL,
    "Neither end has a link",
    "The netdevs of both addresses are up, and neither has a carrier: not a setting of one of the "
    "hosts, but what is between them is off, the switch, its power, or the cable that joins them.",
    ("https://docs.kernel.org/networking/operstates.html",),
    remedy=(
        "ip link show dev {netdev}   # at both hosts: NO-CARRIER",
        "# the switch between them: does it run? and the cable, where they have one alone",
    ),
)
def no_carrier(this: Rule, case: Towards) -> Iterator[Finding]:
    """IFLA_CARRIER of netdevs that are up; where one is down by itself, that is the cause."""
    here, there = case.mine.netdev, case.theirs.netdev
    if not all(each.admin_up and each.carrier is False for each in (here, there)):
        return
    yield this.finding(
        f"{here.name} of {case.near.name} and {there.name} of {case.far.name} are up, and neither "
        "has a carrier",
        device=case.mine.device,
        port=case.mine.port,
        evidence=[
            Proof("netdev", f"{case.near.name}: {here.name} IFLA_CARRIER", "0"),
            Proof("netdev", f"{case.far.name}: {there.name} IFLA_CARRIER", "0"),
        ],
        fill=values_of(case),
    )


@rule(
    "ends-layers-differ",
    Severity.WARN,
    "The two addresses are on netdevs of different kinds or VLANs, and one is not reached",
    "The address of one host is on a VLAN, a bond, a bridge or the like, the other's is not, or is "
    "in another VLAN or one of another protocol, and the neighbour table says that the peer does "
    "not answer. Frames of a VLAN reach one without only where a switch port takes the tag off; a "
    "bond sends by the leg that its own monitor calls up.",
    (),
    remedy=(
        "ip -d link show {netdev}   # at both hosts: VLAN, bond and its active leg, bridge",
        "# the switch's ports: which VLAN is tagged there, and which is not?",
    ),
)
def layers_differ(this: Rule, case: Towards) -> Iterator[Finding]:
    """Where either end's look for the other has failed."""
    mine, theirs = _layer(case.mine.netdev), _layer(case.theirs.netdev)
    read = "IFLA_INFO_KIND"
    one, other = _protocol(case.mine.netdev), _protocol(case.theirs.netdev)
    if mine and theirs and one and other and one != other:
        mine, theirs, read = f"{mine}, {one}", f"{theirs}, {other}", "IFLA_VLAN_PROTOCOL"
    if mine is None or mine == theirs:
        return
    entries = (case.neighbour, case.heard)
    if not any(each is not None and each.state in UNANSWERED for each in entries):
        return
    here, there = case.mine.netdev, case.theirs.netdev
    yield this.finding(
        f"{case.mine.address} of {case.near.name} is on {here.name} ({mine}), "
        f"{case.theirs.address} of {case.far.name} on {there.name} ({theirs or 'no layer'}), and "
        "the one does not answer the other",
        device=case.mine.device,
        port=case.mine.port,
        evidence=[
            Proof("netdev", f"{case.near.name}: {here.name} {read}", mine),
            Proof("netdev", f"{case.far.name}: {there.name} {read}", theirs or "none"),
        ],
        fill=values_of(case),
    )


def stands_on_others(netdev: NetDev) -> bool:
    """Whether it is a VLAN, a bond, a bridge or the like."""
    return _layer(netdev) is not None


def _protocol(netdev: NetDev) -> str | None:
    """Of a VLAN: "802.1Q", of another its number; linux/if_ether.h."""
    number = netdev.vlan_protocol
    if isinstance(number, Missing):
        return None
    return {0x8100: "802.1Q", 0x88A8: "802.1ad"}.get(number, f"{number:#x}")


def _layer(netdev: NetDev) -> str | None:
    """ "vlan 100", "bond"; None of a netdev that stands on no other."""
    if isinstance(netdev.kind, Missing) or netdev.kind not in _LAYERS:
        return None
    vlan = netdev.vlan_id
    return f"{netdev.kind} {vlan}" if not isinstance(vlan, Missing) else netdev.kind
