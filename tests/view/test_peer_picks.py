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


def test_a_stack_that_neither_end_runs_is_not_paired() -> None:
    assert paired(HERE, THERE, "jaccl") == []


def test_link_local_addresses_talk_on_one_link() -> None:
    machine = Machine.change(roce_host("192.0.2.10"))
    (found,) = paired(machine.evidence(), THERE, "nccl@2.19")
    assert found.talks is Talks.YES
    assert (found.local.index, found.remote.index) == (0, 0)
