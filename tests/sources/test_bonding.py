"""Bonds: the kernel's attributes, the driver's file, and damaged ones of both."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.netdevs import BondData, LegData, NetDev
from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.bonding import Bonding, BondMode, Churn, HashPolicy, Leg, LegState, MiiStatus
from rdmadiag.host import netlink
from rdmadiag.sources.bonding import LacpOfLeg, parse_bonding_file, parse_bonds, read_bonds

# Documentation/networking/bonding.rst and bond_info_show_slave of drivers/net/bonding/bond_procfs.c
FILE = b"""Ethernet Channel Bonding Driver: v6.1.0

Bonding Mode: IEEE 802.3ad Dynamic link aggregation
Transmit Hash Policy: layer3+4 (1)
MII Status: up
MII Polling Interval (ms): 100

802.3ad info
LACP active: on
LACP rate: slow
System MAC address: 02:00:00:00:00:01
Active Aggregator Info:
\tAggregator ID: 1
\tPartner Mac Address: 02:00:00:00:00:fe

Slave Interface: ens1f0np0
MII Status: up
Permanent HW addr: 0c:42:a1:00:00:01
Aggregator ID: 1
Actor Churn State: none
Partner Churn State: monitoring
details actor lacp pdu:
    system priority: 65535
    system mac address: 02:00:00:00:00:01
details partner lacp pdu:
    system priority: 65535
    system mac address: 02:00:00:00:00:fe
    oper key: 1

Slave Interface: ens1f1np1
MII Status: up
Aggregator ID: 2
Actor Churn State: churned
Partner Churn State: churned
"""


def bond(*legs: tuple[str, LegData], data: BondData | None = None) -> bytes:
    """The links of bond0 and its legs, as rtnetlink lists them."""
    netdevs = [NetDev("bond0", kind="bond", bond=data or BondData())]
    netdevs += [NetDev(name, master="bond0", leg=leg) for name, leg in legs]
    machine = roce_host().change(netdevs=tuple(netdevs))
    return machine.recording().netlink["route-getlink"]


def only(links: bytes) -> Bonding:
    found = parse_bonds(links)
    assert isinstance(found, tuple)
    (one,) = found
    return one


def test_a_bond_and_its_legs_are_read_field_by_field() -> None:
    found = only(bond(("eth0", LegData()), ("eth1", LegData(1, 2, 7, (1, 2)))))
    assert (found.netdev, found.mode, found.hash_policy) == (
        "bond0",
        BondMode.LACP,
        HashPolicy.LAYER34,
    )
    assert (found.aggregator, found.partner_mac) == (1, "02:00:00:00:00:fe")
    first, second = found.legs
    assert (first.netdev, first.state, first.mii) == ("eth0", LegState.ACTIVE, MiiStatus.UP)
    assert (first.failures, first.aggregator, first.actor_state) == (1, 1, 0x3D)
    assert (second.state, second.mii, second.aggregator) == (LegState.BACKUP, MiiStatus.DOWN, 7)
    assert (second.actor_churn, second.partner_churn) == (Churn.CHURNED, Churn.NONE)
    assert isinstance(first.actor_churn, Missing)


@pytest.mark.parametrize("mode", BondMode)
def test_every_mode_has_the_kernels_number(mode: BondMode) -> None:
    order = "balance-rr active-backup balance-xor broadcast 802.3ad balance-tlb balance-alb"
    assert only(bond(data=BondData(mode=mode.number))).mode == order.split()[mode.number]


@pytest.mark.parametrize("policy", HashPolicy)
def test_every_hash_policy_has_the_kernels_number(policy: HashPolicy) -> None:
    order = "layer2 layer3+4 layer2+3 encap2+3 encap3+4 vlan+srcmac"
    found = only(bond(data=BondData(hash_policy=policy.number))).hash_policy
    assert found == order.split()[policy.number]


def test_without_lacp_there_is_no_aggregator() -> None:
    found = only(bond(("eth0", LegData(aggregator=None)), data=BondData(mode=1)))
    for value in (found.aggregator, found.partner_mac, found.legs[0].aggregator):
        assert isinstance(value, Missing)
        assert value.why is Why.ABSENT


def test_a_number_that_no_table_has_is_malformed_alone() -> None:
    found = only(bond(("eth0", LegData(state=9)), data=BondData(mode=77)))
    assert found.mode == Missing(Why.MALFORMED, "IFLA_BOND_MODE: 77")
    assert found.hash_policy is HashPolicy.LAYER34
    assert found.legs[0].state == Missing(Why.MALFORMED, "IFLA_BOND_SLAVE_STATE: 9")


def test_legs_of_two_bonds_stay_apart() -> None:
    machine = roce_host().change(
        netdevs=(
            NetDev("eth0", master="b1", leg=LegData()),
            NetDev("b1", kind="bond", bond=BondData()),
            NetDev("b2", kind="bond", bond=BondData(mode=1)),
            NetDev("eth1", master="b2", leg=LegData()),
        )
    )
    found = parse_bonds(machine.recording().netlink["route-getlink"])
    assert isinstance(found, tuple)
    assert {each.netdev: [leg.netdev for leg in each.legs] for each in found} == {
        "b1": ["eth0"],
        "b2": ["eth1"],
    }


def test_a_host_without_a_bond_has_none() -> None:
    assert parse_bonds(roce_host().recording().netlink["route-getlink"]) == ()


def test_the_drivers_file_has_churn_and_the_partner_of_each_leg() -> None:
    unknown = Missing(Why.ABSENT, "no LACP partner shown")
    assert parse_bonding_file(FILE) == {
        "ens1f0np0": LacpOfLeg(Churn.NONE, Churn.MONITORING, "02:00:00:00:00:fe"),
        "ens1f1np1": LacpOfLeg(Churn.CHURNED, Churn.CHURNED, unknown),
    }


@pytest.mark.parametrize("raw", [b"", b"\0\xff", b"Slave Interface: eth0\n"])
def test_another_file_is_malformed(raw: bytes) -> None:
    found = parse_bonding_file(raw)
    assert isinstance(found, Missing)
    assert found.why is Why.MALFORMED


class Files:
    """A host of one file, that counts what is read."""

    def __init__(self, content: bytes | Missing) -> None:
        self.content = content
        self.read_paths: list[str] = []

    def read(self, path: str, limit: int = 0) -> bytes | Missing:
        self.read_paths.append(path)
        return self.content


def legs_of(host: Files, links: bytes) -> tuple[Leg, ...]:
    found = read_bonds(host, links)  # type: ignore[arg-type]
    assert isinstance(found, tuple)
    return found[0].legs


def test_the_file_says_what_an_older_kernel_leaves_out() -> None:
    links = bond(("ens1f0np0", LegData()), ("ens1f1np1", LegData(churn=(2, 2))))
    host = Files(FILE)
    first, second = legs_of(host, links)
    assert host.read_paths == ["/proc/self/net/bonding/bond0"]
    assert (first.actor_churn, first.partner_churn) == (Churn.NONE, Churn.MONITORING)
    assert first.partner_mac == "02:00:00:00:00:fe"
    assert second.actor_churn is Churn.NONE, "rtnetlink goes first"


def test_a_file_that_is_refused_is_no_churn() -> None:
    refused = Missing(Why.DENIED, "EACCES")
    (leg,) = legs_of(Files(refused), bond(("eth0", LegData())))
    assert (leg.actor_churn, leg.partner_mac) == (refused, refused)
    assert leg.state is LegState.ACTIVE


@pytest.mark.parametrize("name", ["a/b", "..", "."])
def test_a_name_that_is_no_files_is_not_opened(name: str) -> None:
    links = (
        roce_host()
        .change(netdevs=(NetDev(name, kind="bond", bond=BondData()),))
        .recording()
        .netlink["route-getlink"]
    )
    host = Files(FILE)
    assert isinstance(read_bonds(host, links), tuple)  # type: ignore[arg-type]
    assert host.read_paths == []


def test_other_modes_have_no_file_to_read() -> None:
    host = Files(FILE)
    read_bonds(host, bond(("eth0", LegData()), data=BondData(mode=1)))  # type: ignore[arg-type]
    assert host.read_paths == []


def test_a_record_holds_what_its_host_said() -> None:
    (own,) = roce_host().netdevs
    machine = roce_host().change(
        netdevs=(
            replace(own, master="bond0", leg=LegData(1, 0, 2)),
            NetDev("bond0", kind="bond", bond=BondData()),
        )
    )
    from rdmadiag.sources.netdev import read_netdevs

    found = read_netdevs(machine.host(), time.monotonic() + 5)
    assert not isinstance(found, Missing)
    assert isinstance(found.bonds, tuple)
    assert found.bonds[0].legs[0].aggregator == 2


SOME = bond(("eth0", LegData()), ("eth1", LegData(1, 2, 7, (1, 2))))


@given(st.data())
def test_any_bytes_are_bonds_or_a_missing(data: st.DataObject) -> None:
    raw = bytearray(SOME)
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    found = parse_bonds(bytes(raw))
    assert isinstance(found, Missing | tuple)
    for each in () if isinstance(found, Missing) else found:
        assert isinstance(each.mode, BondMode | Missing)
        assert all(isinstance(leg.mii, MiiStatus | Missing) for leg in each.legs)


@given(st.binary(max_size=300))
def test_any_linkinfo_is_read_to_its_end(raw: bytes) -> None:
    for info in (raw, netlink.attribute(1, b"bond\0") + netlink.attribute(2, raw)):
        body = bytes(16) + netlink.attribute(3, b"b\0") + netlink.attribute(18, info)
        parse_bonds(netlink.request(16, 0, body + b"bond\0\0\0\0"))


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: FILE + text.encode()))
def test_any_file_is_read_to_its_end(raw: bytes) -> None:
    parse_bonding_file(raw)
    parse_bonding_file(FILE[:400] + raw)
