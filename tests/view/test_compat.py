"""Two ends beside each other: what lets them talk, and what stops them."""

import pydoc
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.mac import ready_mac
from lab.machine import Machine
from lab.rdma_devices import GidRow, roce_rows
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import DriverId, PhysState, PortState
from rdmadiag.gid.registry import chosen
from rdmadiag.sources.run import gather
from rdmadiag.view.compat import Compat, compat, of_stacks
from rdmadiag.view.compat_rows import Agreement
from rdmadiag.view.peer_picks import BEST_FIRST, Side, Talks
from rdmadiag.view.reconcile import devices, ports
from tests.fleet.record_pairs import other_host

Planted = Callable[[Machine], Machine]
PEER = roce_host("192.0.2.11")
STACKS = chosen(("ucx", "nccl@2.27"))


def side(evidence: Evidence) -> Side:
    return Side(tuple(ports(devices(evidence))), evidence, {})


def between(here: Machine, there: Machine) -> Compat:
    return compat(side(here.evidence()), side(there.evidence()), STACKS)


def mac() -> Evidence:
    return gather(ready_mac().host(), time.monotonic() + 60.0)


def other_subnet(host: Machine) -> Machine:
    netdev = replace(host.netdevs[0], addresses=("198.51.100.9/24",))
    rows = roce_rows(netdev.name, netdev.mac, "198.51.100.9")
    return host.change(netdevs=(netdev,)).with_port(gids=rows)


def link_local_alone(host: Machine) -> Machine:
    netdev = replace(host.netdevs[0], addresses=("fe80::e42:a1ff:fe00:1/64",))
    rows = {0: GidRow("fe80::e42:a1ff:fe00:1", "RoCE v2", netdev.name)}
    return host.change(netdevs=(netdev,)).with_port(gids=rows)


def v1_alone(host: Machine) -> Machine:
    rows = host.devices[0].ports[0].gids
    return host.with_port(gids={at: row for at, row in rows.items() if "v1" in row.kind})


def v2_alone(host: Machine) -> Machine:
    rows = host.devices[0].ports[0].gids
    return host.with_port(gids={at: row for at, row in rows.items() if "v2" in row.kind})


def pkeys(*keys: int) -> Planted:
    return lambda host: host.with_port(0, pkeys=keys).with_port(1, pkeys=keys)


def prefix(host: Machine) -> Machine:
    rows = {0: GidRow("fec0::c42:a103:0:1", "IB/RoCE v1")}
    return host.with_port(0, gids=rows).with_port(1, gids=rows)


def down(host: Machine) -> Machine:
    return host.with_port(state=PortState.DOWN, phys=PhysState.POLLING)


def lids(first: int, second: int) -> Planted:
    return lambda host: host.with_port(0, lid=first).with_port(1, lid=second)


def omni_path(host: Machine) -> Machine:
    """One adapter of Omni-Path, which says that its link layer is InfiniBand."""
    device = replace(host.devices[0], protocol="opa", driver=DriverId.HFI1, pci_driver="hfi1")
    return host.change(devices=(device,))


ROCE, IB = roce_host(), infiniband_host()
IB_PEER = other_host(IB)
CASES: dict[str, tuple[Machine, Machine, Talks, str]] = {
    "two RoCE hosts": (ROCE, PEER, Talks.YES, "are in one subnet"),
    "one address at both ends": (
        ROCE,
        ROCE,
        Talks.UNKNOWN,
        "one host, or an address given twice",
    ),
    "two subnets": (ROCE, other_subnet(PEER), Talks.ROUTED, "a router must pass RoCE v2"),
    "link-local alone": (
        ROCE,
        link_local_alone(PEER),
        Talks.UNKNOWN,
        "whether they are on one link is not known",
    ),
    "RoCE v1 and v2": (v1_alone(ROCE), v2_alone(PEER), Talks.NO, "roce_v1"),
    "no GID": (ROCE, PEER.with_port(gids={}), Talks.NO, "the second has no GID"),
    "no link": (ROCE, down(PEER), Talks.NO, "B has no active port: mlx5_0/1 down"),
    "RoCE and InfiniBand": (
        ROCE,
        IB,
        Talks.NO,
        "no active ports of one protocol: A has roce, B infiniband",
    ),
    "Omni-Path and InfiniBand": (
        omni_path(IB),
        IB_PEER,
        Talks.NO,
        "one end is Omni-Path and the other InfiniBand",
    ),
    "two Omni-Path hosts": (omni_path(IB), omni_path(IB_PEER), Talks.YES, "by LID"),
    "two InfiniBand hosts": (IB, IB_PEER, Talks.YES, "one subnet prefix, by LID"),
    "one LID at both ends": (IB, lids(17, 18)(IB_PEER), Talks.NO, "both have LID 17 and one"),
    "one LID in two subnets": (
        IB,
        lids(17, 18)(prefix(IB_PEER)),
        Talks.ROUTED,
        "an InfiniBand router must join them",
    ),
    "one port at both ends": (IB, IB, Talks.UNKNOWN, "one port, or a GUID given twice"),
    "two subnet prefixes": (IB, prefix(IB), Talks.ROUTED, "an InfiniBand router must join them"),
    "two partitions": (
        pkeys(0x8001)(IB),
        pkeys(0x8002)(IB),
        Talks.NO,
        "no partition has both, one of them as a full member",
    ),
    "two limited members": (pkeys(0x7FFF)(IB), pkeys(0x7FFF)(IB), Talks.NO, "no partition"),
    "a limited member and a full one": (
        pkeys(0x7FFF)(IB),
        IB_PEER,
        Talks.YES,
        "one subnet prefix, by LID",
    ),
    "no device": (ROCE, Machine("bare"), Talks.NO, "B has no RDMA port"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_answer(name: str) -> None:
    here, there, talks, why = CASES[name]
    found = between(here, there)
    assert found.talks is talks
    assert why in found.why


def rows(found: Compat, agreement: Agreement) -> set[str]:
    every = (*found.rows, *(row for pair in found.ports for row in pair.rows))
    return {each.subject for each in every if each.agreement is agreement}


DIFFERS: dict[str, tuple[Planted, set[str]]] = {
    "nothing": (lambda host: host, set()),
    "MTU": (lambda host: host.with_port(active_mtu=1024), {"active_mtu"}),
    "netdev's MTU": (
        lambda host: host.change(netdevs=(replace(host.netdevs[0], mtu=1500),)),
        {"netdev_mtu"},
    ),
    "rate": (lambda host: host.with_port(rate="25 Gb/sec (1X EDR)"), {"rate"}),
    "firmware": (lambda host: host.with_device(firmware="22.43.1"), {"firmware"}),
    "adapter": (lambda host: host.with_device(hca_type="MT4129"), {"hca_type"}),
    "kernel": (lambda host: host.change(kernel="6.12.0"), {"kernel"}),
    "subnet": (other_subnet, {"subnets"}),
    "families": (v2_alone, {"gids"}),
}


@pytest.mark.parametrize("name", DIFFERS)
def test_what_differs_and_stops_nobody(name: str) -> None:
    plant, wanted = DIFFERS[name]
    found = between(ROCE, plant(PEER))
    assert found.talks in (Talks.YES, Talks.ROUTED)
    assert rows(found, Agreement.DIFFERS) == wanted
    assert rows(found, Agreement.STOPS) == set()


def test_stacks_with_one_address_at_both_ends_are_not_known() -> None:
    (pair,) = between(ROCE, ROCE).ports
    assert {each.talks for each in pair.stacks} == {Talks.UNKNOWN}
    assert all("an address given twice" in each.why for each in pair.stacks)


def test_a_lid_that_was_not_read_might_be_the_other_ends_too() -> None:
    evidence = IB_PEER.evidence()
    late = Missing(Why.TIMEOUT, "no answer before the deadline")
    assert not isinstance(evidence.verbs, Missing)
    blind = replace(evidence, sysfs=late, verbs=late)
    assert compat(side(IB.evidence()), side(blind), STACKS).talks is Talks.UNKNOWN


@pytest.mark.parametrize("name", CASES)
def test_a_stack_is_no_better_than_its_ports(name: str) -> None:
    here, there, *_ = CASES[name]
    for pair in between(here, there).ports:
        assert all(
            BEST_FIRST.index(each.talks) >= BEST_FIRST.index(pair.talks) for each in pair.stacks
        )


def of_ports(count: int, name: str) -> Evidence:
    """A host with so many adapters, each with a port in a subnet of its own."""
    base = ROCE.devices[0]
    netdevs = [
        replace(ROCE.netdevs[0], name=f"{name}n{at}", addresses=(f"10.{at}.{len(name)}.1/24",))
        for at in range(count)
    ]
    devices = [
        replace(
            base,
            name=f"{name}_{at}",
            uverbs=at,
            pci_address=f"0000:{at + 1:02x}:00.0",
            ports=(
                replace(
                    base.ports[0],
                    netdev=netdev.name,
                    gids=roce_rows(netdev.name, netdev.mac, netdev.addresses[0].partition("/")[0]),
                ),
            ),
        )
        for at, netdev in enumerate(netdevs)
    ]
    return ROCE.change(devices=tuple(devices), netdevs=tuple(netdevs)).evidence()


def test_what_a_hosts_evidence_shows_is_looked_up_once_for_all_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ports of other names are held each against each."""
    here, there = side(of_ports(6, "a")), side(of_ports(6, "bb"))
    looked: list[str] = []
    for module, name in (("compat_rows", "devices"), ("peer_picks", "ip_address")):
        place = f"rdmadiag.view.{module}.{name}"
        real = pydoc.locate(place)
        assert callable(real)

        def counted(*given: object, name: str = name, real: Callable[..., object] = real) -> object:
            looked.append(name)
            return real(*given)

        monkeypatch.setattr(place, counted)
    assert len(compat(here, there, STACKS).ports) == 36
    assert looked.count("devices") == 2
    assert looked.count("ip_address") <= 2 * 2 * 6  # for the rows, and for the stacks


def test_a_stack_that_takes_link_local_gids_across_subnets_is_not_known() -> None:
    found = compat(side(ROCE.evidence()), side(other_subnet(PEER).evidence()), chosen(("nccl",)))
    said = {each.version: each.talks for each in found.ports[0].stacks}
    assert said.pop("≤2.20") is Talks.UNKNOWN
    assert set(said.values()) == {Talks.ROUTED}


@pytest.mark.parametrize("swapped", [False, True])
def test_a_port_without_a_gid_has_no_subnet_to_compare(swapped: bool) -> None:
    ends = (PEER.with_port(gids={}), ROCE) if swapped else (ROCE, PEER.with_port(gids={}))
    found = between(*ends)
    assert rows(found, Agreement.STOPS) == {"gids"}
    assert "subnets" not in {row.subject for row in found.ports[0].rows}
    which = "the first" if swapped else "the second"
    assert found.why.endswith(f"{which} has no GID")


def test_a_named_stack_decides_by_the_ports_that_suit_it() -> None:
    assert of_stacks(between(ROCE, PEER), STACKS).talks is Talks.YES
    bare = between(ROCE, PEER.with_port(gids={}))
    assert of_stacks(bare, STACKS) == bare
    second = IB_PEER.with_port(0, pkeys=(0x8003,))
    assert of_stacks(between(IB, second), STACKS).talks is Talks.YES
    odd = of_stacks(between(ROCE, PEER), chosen(("jaccl",)))
    assert odd.talks is Talks.UNKNOWN
    assert odd.why.startswith("MLX JACCL ")
    empty = PEER.with_port(gids={3: PEER.devices[0].ports[0].gids[3]})
    old = chosen(("nccl@2.20",))
    by_index = compat(side(ROCE.evidence()), side(empty.evidence()), old)
    assert by_index.talks is Talks.YES
    assert of_stacks(by_index, old).talks is Talks.NO


def test_ports_that_do_best_stand_first_and_the_others_are_named() -> None:
    found = between(IB, IB_PEER.with_port(0, pkeys=(0x8003,)))
    assert [(each.here.device, each.talks) for each in found.ports] == [
        ("mlx5_1", Talks.YES),
        ("mlx5_0", Talks.NO),
    ]
    assert "; but not mlx5_0/1 - mlx5_0/1: no partition has both" in found.why


def test_stacks_stand_beside_the_ports() -> None:
    (pair,) = between(ROCE, PEER).ports
    assert {each.stack for each in pair.stacks} == {"ucx", "nccl"}
    assert {each.talks for each in pair.stacks} == {Talks.YES}


@pytest.mark.parametrize("source", ["sysfs", "verbs", "netdev", "nldev"])
def test_less_evidence_is_not_known_or_what_it_was(source: str) -> None:
    late = Missing(Why.TIMEOUT, "no answer before the deadline")
    blind = replace(IB.evidence(), **{source: late})
    found = compat(side(IB.evidence()), side(blind), STACKS)
    assert found.talks in (Talks.YES, Talks.UNKNOWN)
    assert rows(found, Agreement.STOPS) == rows(found, Agreement.DIFFERS) == set()


def test_partition_keys_that_were_not_read_are_not_known() -> None:
    late = Missing(Why.TIMEOUT, "no answer before the deadline")
    found = compat(side(IB.evidence()), side(replace(IB.evidence(), sysfs=late)), STACKS)
    assert (found.talks, "pkeys" in rows(found, Agreement.UNKNOWN)) == (Talks.UNKNOWN, True)


@pytest.mark.parametrize("end", [0, 1])
def test_rows_of_a_gid_table_that_could_not_be_read_might_have_fitted(end: int) -> None:
    sides = [side(v1_alone(ROCE).evidence()), side(v2_alone(PEER).evidence())]
    assert compat(sides[0], sides[1], STACKS).talks is Talks.NO
    denied = {5: Missing(Why.DENIED, "EACCES")}
    lost = tuple(
        replace(port, gids=replace(port.gids, unreadable=denied))
        for port in sides[end].ports
        if not isinstance(port.gids, Missing)
    )
    sides[end] = Side(lost, sides[end].evidence, {})
    found = compat(sides[0], sides[1], STACKS)
    assert found.talks is Talks.UNKNOWN
    assert f"rows of the GID table of {'AB'[end]} could not be read" in found.why


@pytest.mark.parametrize("end", [0, 1], ids=["A", "B"])
def test_a_port_whose_state_was_not_read_might_talk_where_the_others_cannot(end: int) -> None:
    kept = IB.with_port(0, state=PortState.DOWN, phys=PhysState.POLLING)
    found = kept.evidence()
    peer = side(IB_PEER.evidence())
    assert compat(side(found), peer, STACKS).talks is Talks.YES  # by the second
    seen, denied = side(found), Missing(Why.DENIED, "EACCES")
    unread = replace(
        seen,
        ports=tuple(
            replace(port, state=denied, sysfs=None, nldev=None, verbs=None)
            if port.is_active
            else port
            for port in seen.ports
        ),
    )
    ends = [unread, side(IB.evidence())]
    answer = compat(ends[end], ends[1 - end], STACKS)
    assert answer.talks is Talks.UNKNOWN
    name = next(port.name for port in unread.ports if isinstance(port.state, Missing))
    assert answer.why.startswith(f"whether {name} of {'AB'[end]} is active is not known: denied")


def test_a_host_of_which_no_source_answered_is_not_known() -> None:
    late = Missing(Why.TIMEOUT, "no answer before the deadline")
    nothing = replace(ROCE.evidence(), sysfs=late, nldev=late, verbs=late)
    found = compat(side(ROCE.evidence()), side(nothing), STACKS)
    assert found.talks is Talks.UNKNOWN
    assert found.why.startswith("the ports of B are not known: sysfs timeout")


# --- Macs -----------------------------------------------------------------------------------------


OTHER = "0B0E7A6C-0000-4000-8000-000000000001"


def of_domain(evidence: Evidence, uuid: str | Missing) -> Evidence:
    """Another Mac, or the one at the other end of the cable."""
    assert not isinstance(evidence.thunderbolt, Missing)
    buses = tuple(replace(bus, domain_uuid=uuid) for bus in evidence.thunderbolt.buses)
    return replace(evidence, thunderbolt=replace(evidence.thunderbolt, buses=buses))


def test_a_cable_to_another_mac_stops_them() -> None:
    here = mac()
    assert not isinstance(here.thunderbolt, Missing)
    own = {bus.domain_uuid for bus in here.thunderbolt.buses}
    found = compat(side(here), side(of_domain(here, OTHER)), chosen(("jaccl",)))
    assert found.talks is Talks.NO
    assert found.why.endswith("the cable of rdma_en1 leads to another computer than the peer")
    (row,) = [row for row in found.ports[0].rows if row.agreement is Agreement.STOPS]
    assert row.subject == "cable"
    assert str(row.here).split(" → ")[0] in own
    assert str(row.there).split(" → ")[0] == OTHER


def test_two_records_of_one_mac_are_said_to_be_so() -> None:
    one = side(mac())
    found = compat(one, one, chosen(("jaccl",)))
    assert found.talks is Talks.UNKNOWN
    assert found.why.endswith(": one Mac, by two records")


def test_a_cable_between_the_two_lets_link_local_addresses_talk() -> None:
    here = mac()
    assert not isinstance(here.thunderbolt, Missing)
    (peer,) = {each.domain_uuid for bus in here.thunderbolt.buses for each in bus.peers}
    found = compat(side(here), side(of_domain(here, peer)), chosen(("jaccl",)))
    assert found.talks is Talks.YES
    assert "cable" in rows(found, Agreement.SAME)


def test_cables_that_name_no_computer_are_not_known() -> None:
    here = mac()
    assert not isinstance(here.thunderbolt, Missing)
    buses = tuple(replace(bus, peers=()) for bus in here.thunderbolt.buses)
    alone = replace(here, thunderbolt=replace(here.thunderbolt, buses=buses))
    found = compat(side(alone), side(of_domain(alone, OTHER)), chosen(("jaccl",)))
    assert (found.talks, found.why.rpartition(": ")[2]) == (
        Talks.UNKNOWN,
        "cable is not known at both ends",
    )


def test_macos_releases_are_rows() -> None:
    here = mac()
    assert not isinstance(here.macos, Missing)
    there = replace(here, macos=replace(here.macos, build="26A1"))
    found = compat(side(here), side(there), chosen(("jaccl",)))
    assert "macos_build" in rows(found, Agreement.DIFFERS)
