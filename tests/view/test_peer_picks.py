"""Pairs of two hosts' ports: what keeps a stack's two picks apart."""

from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.gid.registry import chosen
from rdmadiag.view.peer_picks import Side, StackPair, Talks, pairs
from rdmadiag.view.reconcile import devices, ports
from tests.fleet.record_pairs import other_host

GONE = Missing(Why.NOT_COLLECTED)


def side(evidence: Evidence) -> Side:
    return Side(tuple(ports(devices(evidence))), evidence, {})


def paired(here: Evidence, there: Evidence, stack: str = "nccl@2.27") -> list[StackPair]:
    found = pairs(side(here), side(there), chosen([stack]))
    return [each for pair in found for each in pair.stacks]


def tagged(evidence: Evidence, vlan: int | Missing, kind: str = "vlan") -> Evidence:
    network = evidence.netdev
    assert not isinstance(network, Missing)
    changed = tuple(replace(each, vlan_id=vlan, kind=kind) for each in network.netdevs)
    return replace(evidence, netdev=replace(network, netdevs=changed))


HERE = roce_host("192.0.2.10").evidence()
THERE = roce_host("192.0.2.11").evidence()


@pytest.mark.parametrize(
    ("there", "talks"),
    [
        (THERE, Talks.YES),
        (tagged(THERE, 43), Talks.NO),
        (tagged(THERE, GONE), Talks.YES),
        (roce_host("198.51.100.11").evidence(), Talks.ROUTED),
        (tagged(roce_host("198.51.100.11").evidence(), 43), Talks.ROUTED),
    ],
    ids=[
        "untagged at both ends",
        "in a VLAN at one end",
        "a VLAN of unknown number",
        "another subnet",
        "another subnet in a VLAN of its own",
    ],
)
def test_subnets_and_vlans(there: Evidence, talks: Talks) -> None:
    (found,) = paired(HERE, there)
    assert found.talks is talks
    assert found.why


def test_without_prefix_lengths_it_is_not_known() -> None:
    (found,) = paired(replace(HERE, netdev=GONE), THERE)
    assert found.talks is Talks.UNKNOWN


def test_a_stack_that_fails_at_one_end_names_the_end() -> None:
    bare = roce_host().with_port(gids={}).evidence()
    assert pairs(side(HERE), side(bare), chosen(["ucx"]))[0].stacks[0].why.startswith("at the peer")
    assert pairs(side(bare), side(HERE), chosen(["ucx"]))[0].stacks[0].why.startswith("here")


def test_ports_of_other_names_are_paired_with_each_of_their_kind() -> None:
    renamed = roce_host("192.0.2.11").with_device(name="rocep8s0f0").evidence()
    (found,) = pairs(side(HERE), side(renamed), chosen(["nccl@2.27"]))
    assert (found.local.device, found.remote.device) == ("mlx5_0", "rocep8s0f0")
    assert pairs(side(HERE), side(infiniband_host().evidence()), chosen(["nccl"])) == ()


def test_infiniband_of_another_subnet_prefix_needs_a_router() -> None:
    base = infiniband_host()
    row = base.devices[0].ports[0].gids[0]
    peer = other_host(base)
    other = peer.with_port(0, 0, gids={0: replace(row, gid="fec0::c42:a103:0:1")}).evidence()
    found = paired(base.evidence(), other)
    assert [each.talks for each in found] == [Talks.ROUTED, Talks.YES]
    empty = peer.with_port(0, 0, gids={}).evidence()
    assert paired(base.evidence(), empty)[0].talks is Talks.UNKNOWN


@pytest.mark.parametrize(
    ("ours", "theirs", "talks"),
    [
        ((0xFFFF,), (0xFFFF,), Talks.YES),
        ((0x8001, 0x7FFF), (0x8001,), Talks.YES),
        ((0x8001,), (0x0001,), Talks.YES),
        ((0x0001,), (0x0001,), Talks.NO),
        ((0x8001,), (0x8002,), Talks.NO),
        ((0x8000,), (0x8000,), Talks.NO),
    ],
    ids=["one", "a second key", "full and limited", "both limited", "none", "no partition's key"],
)
def test_over_infiniband_both_must_be_in_one_partition(
    ours: tuple[int, ...], theirs: tuple[int, ...], talks: Talks
) -> None:
    """IBTA volume 1, 10.9.3: keys match by their low 15 bits, not where both are limited."""
    base = infiniband_host()
    ends = base.with_port(0, 0, pkeys=ours), other_host(base).with_port(0, 0, pkeys=theirs)
    found = pairs(*(side(each.evidence()) for each in ends), chosen(["nccl@2.27"]))
    (said,) = found[0].stacks
    assert said.talks is talks
    assert ("no partition has both" in said.why) is (talks is Talks.NO)


@pytest.mark.parametrize("end", [0, 1])
def test_partition_keys_that_were_not_read_leave_it_unknown(end: int) -> None:
    base = infiniband_host()
    ends = [base.evidence(), other_host(base).evidence()]
    assert {each.talks for each in paired(*ends)} == {Talks.YES}
    ends[end] = replace(ends[end], sysfs=GONE)
    assert {each.talks for each in paired(*ends)} == {Talks.UNKNOWN}


def test_a_stack_that_neither_end_runs_is_not_paired() -> None:
    assert paired(HERE, THERE, "jaccl") == []


def test_link_local_addresses_talk_on_one_link() -> None:
    machine = Machine.change(roce_host("192.0.2.10"))
    (found,) = paired(machine.evidence(), THERE, "nccl@2.19")
    assert found.talks is Talks.YES
    assert (found.local.index, found.remote.index) == (0, 0)
