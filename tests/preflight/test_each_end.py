"""What is wrong with an end by itself, in the answer for two."""

from dataclasses import replace
from typing import Any

from lab.machine import Machine
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Missing
from rdmadiag.facts.ib import PhysState, PortState
from rdmadiag.preflight.each_end import EachEnd, beside_ways, each_end, with_each_end
from rdmadiag.preflight.judge_ends import judge
from rdmadiag.view.compat import Compat, compat
from rdmadiag.view.ends import HostEnd
from rdmadiag.view.peer_picks import Side, Talks
from rdmadiag.view.reconcile import devices, ports
from tests.fleet.record_pairs import other_host

ROCE, IB = roce_host(), infiniband_host()


def end(machine: Machine, name: str, **evidence: Any) -> HostEnd:
    found = replace(machine.evidence(), **evidence)
    return HostEnd(name, found, tuple(devices(found)))


def without_node(machine: Machine) -> HostEnd:
    """Its first device has no /dev/infiniband/uverbs0."""
    found = machine.evidence()
    assert not isinstance(found.process, Missing)
    assert not isinstance(found.process.nodes, Missing)
    nodes = tuple(each for each in found.process.nodes if each.name != "uverbs0")
    return end(machine, "bad", process=replace(found.process, nodes=nodes))


def answer(here: HostEnd, there: HostEnd) -> tuple[Compat, EachEnd]:
    sides = [Side(tuple(ports(each.devices)), each.evidence, {}) for each in (here, there)]
    own = each_end(here, there)
    return with_each_end(compat(*sides, ()), own), own


def test_two_that_are_well_have_nothing_of_their_own() -> None:
    found, own = answer(end(ROCE, "a"), end(other_host(ROCE), "b"))
    assert own == EachEnd((), ())
    assert found.talks is Talks.YES


def test_an_end_with_a_critical_finding_on_the_port_is_not_known() -> None:
    bad, good = without_node(ROCE), end(other_host(ROCE), "b")
    for ends, letter in (((bad, good), "A"), ((good, bad), "B")):
        found, own = answer(*ends)
        assert found.talks is Talks.UNKNOWN
        assert found.why.endswith(f"{letter} by itself: uverbs-node-missing")
        judged = beside_ways(judge(*ends), found, *ends, own)
        assert judged.status == "critical"
        assert [(each.hosts, each.finding.rule) for each in judged.findings] == [
            (("bad",), "uverbs-node-missing")
        ]


def test_a_finding_on_another_device_leaves_the_answer_alone() -> None:
    found, own = answer(without_node(IB), end(other_host(IB), "b"))
    assert [each.device for each in own.here] == ["mlx5_0"]
    assert [(each.here.device, each.talks) for each in found.ports] == [
        ("mlx5_1", Talks.YES),
        ("mlx5_0", Talks.UNKNOWN),
    ]
    assert found.talks is Talks.YES


def test_ports_that_cannot_talk_stay_so() -> None:
    found, _ = answer(without_node(ROCE), end(other_host(ROCE).with_port(gids={}), "b"))
    assert found.talks is Talks.NO


def test_where_no_port_is_active_the_findings_say_why() -> None:
    here = end(ROCE, "a")
    down = other_host(ROCE).with_port(state=PortState.DOWN, phys=PhysState.POLLING)
    there = end(down, "b")
    found, own = answer(here, there)
    assert (found.talks, found.ports) == (Talks.NO, ())
    judged = beside_ways(judge(here, there), found, here, there, own)
    assert "link-not-up" in [each.finding.rule for each in judged.findings]
