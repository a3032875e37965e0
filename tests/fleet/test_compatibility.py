"""Which stacks can talk between which nodes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lab.machine import Machine
from lab.samples import roce_host
from rdmadiag.facts import Identity, Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.fleet.classes import classes
from rdmadiag.fleet.compatibility import MOST_GROUPS, compatibility, stack_picks
from rdmadiag.fleet.drift import drift
from rdmadiag.fleet.host_report import HostReport
from rdmadiag.gid.registry import chosen, every
from rdmadiag.preflight.judge import judge
from rdmadiag.render.judged import PreflightDocument
from tests.fleet_documents import host

NCCL = chosen(["nccl@2.27"])
IDENTITY = Identity("h", "linux", "6.1.0", "x86_64")


class Fleet:
    """Reports of hosts, and whose evidence was read again."""

    def __init__(self) -> None:
        self.reports: list[HostReport] = []
        self.asked: list[str] = []
        self._evidence: dict[str, Evidence | Missing] = {}

    def add(self, node: str, evidence: Evidence, again: Missing | None = None) -> None:
        import json

        document = PreflightDocument.of(
            host=IDENTITY, evidence=evidence, verdict=judge(evidence)
        ).model_dump_json()
        self.reports.append(host(node, json.loads(document)))
        self._evidence[node] = again or evidence

    def evidence_of(self, report: HostReport) -> Evidence | Missing:
        self.asked.append(report.node)
        return self._evidence[report.node]


def roce(last: int, *, network: str = "192.0.2", **more: Any) -> Evidence:
    return roce_host(f"{network}.{last}", **more).evidence()


def fleet(hosts: Mapping[str, Evidence]) -> Fleet:
    made = Fleet()
    for node, evidence in hosts.items():
        made.add(node, evidence)
    return made


def said(made: Fleet) -> list[tuple[str, str, bool | None, str]]:
    found = compatibility(made.reports, made.evidence_of, NCCL)
    return [(each.one, each.other, each.works, each.why) for each in found.rows]


def with_variable(evidence: Evidence, **set_: str) -> Evidence:
    process = evidence.process
    assert not isinstance(process, Missing)
    return replace(evidence, process=replace(process, environment=dict(set_)))


def test_nodes_that_are_alike_are_judged_once_and_by_two_of_them() -> None:
    made = fleet({f"n{at}": roce(at) for at in range(1, 9)})
    assert said(made) == [("n[1-8]", "n[1-8]", True, "same type, family and subnet")]
    assert made.asked == ["n1", "n8"]


def test_one_node_alone_has_nobody_to_talk_to() -> None:
    assert said(fleet({"n1": roce(1)})) == []


def test_two_subnets_need_a_router() -> None:
    made = fleet({f"a{at}": roce(at) for at in (1, 2, 3)})
    for at in (1, 2):
        made.add(f"b{at}", roce(at, network="198.51.100"))
    routed = "different subnets: a router must pass RoCE v2 (UDP 4791)"
    same = "same type, family and subnet"
    assert said(made) == [
        ("a[1-3]", "a[1-3]", True, same),
        ("a[1-3]", "b[1-2]", True, routed),
        ("b[1-2]", "b[1-2]", True, same),
    ]


def test_a_pinned_index_that_the_others_do_not_use_keeps_them_apart() -> None:
    made = fleet({f"a{at}": roce(at) for at in (1, 2, 3)})
    made.add("b1", with_variable(roce(9), NCCL_IB_GID_INDEX="0"))
    (within, across) = said(made)
    assert within[2] is True
    assert across[:3] == ("a[1-3]", "b1", False)
    assert "roce_v1" in across[3]


def test_a_pinned_row_that_is_empty_names_the_port() -> None:
    made = fleet({f"a{at}": with_variable(roce(at), NCCL_IB_GID_INDEX="9") for at in (1, 2)})
    ((_, _, works, why),) = said(made)
    assert works is False
    assert why.startswith("mlx5_0/1: here: row 9 is empty")


def test_a_report_that_could_not_be_read_again_is_not_known() -> None:
    made = fleet({"a1": roce(1)})
    made.add("a2", roce(2), again=Missing(Why.TIMEOUT, "2 s"))
    assert said(made) == [
        ("a[1-2]", "a[1-2]", None, "a report could not be read again: timeout: 2 s")
    ]


def test_groups_without_a_common_protocol_cannot_talk() -> None:
    from lab.samples import infiniband_host

    made = fleet({"a1": roce(1)})
    made.add("b1", infiniband_host().evidence())
    assert said(made) == [("a1", "b1", False, "no active ports of one protocol at both ends")]


def test_nodes_of_two_partitions_cannot_talk() -> None:
    from lab.samples import infiniband_host
    from tests.fleet.record_pairs import other_host

    def node(machine: Machine, key: int) -> Evidence:
        return machine.with_port(0, pkeys=(key,)).with_port(1, pkeys=(key,)).evidence()

    base = infiniband_host()
    made = fleet({"a1": node(base, 0x8001), "a2": node(other_host(base), 0x8001)})
    assert [each[:3] for each in said(made)] == [("a[1-2]", "a[1-2]", True)]
    made.add("b1", node(other_host(other_host(base)), 0x8002))
    assert [each[:3] for each in said(made)] == [
        ("a[1-2]", "a[1-2]", True),
        ("a[1-2]", "b1", False),
    ]
    assert "no partition has both" in said(made)[1][3]


def test_nothing_that_was_read_is_no_proof_of_no_port() -> None:
    made = fleet({"a1": roce(1)})
    made.add("b1", Evidence())
    assert [works for _, _, works, _ in said(made)] == [None]


@pytest.mark.slow
def test_a_subnet_for_each_node_makes_no_pair_for_each() -> None:
    made = fleet({f"n{at}": roce(1, network=f"10.0.{at}") for at in range(60)})
    assert [each[:3] for each in said(made)] == [("n[0-59]", "n[0-59]", True)]
    assert len(made.asked) == 2


def test_there_is_an_end_to_pairs_and_who_was_left_out_is_named() -> None:
    made = Fleet()
    for at in range(MOST_GROUPS + 4):
        made.add(f"n{at:02}", with_variable(roce(1), NCCL_IB_HCA=f"mlx5_{at}"))
    found = compatibility(made.reports, made.evidence_of, NCCL)
    assert found.unjudged == "n[16-19]"
    assert len(found.rows) <= MOST_GROUPS * (MOST_GROUPS - 1) // 2


def test_stacks_that_stand_alike_are_one_line() -> None:
    made = fleet({f"n{at}": roce(at) for at in (1, 2)})
    found = compatibility(made.reports, made.evidence_of, every()).rows
    assert len(found) == len({(each.works, each.why) for each in found})
    assert any("nccl" in each.stack.split(", ") for each in found)


@pytest.mark.parametrize("count", [3, 30])
def test_picks_are_worked_out_once_for_nodes_that_are_alike(count: int) -> None:
    first = roce(1)
    made = fleet({f"n{at}": first for at in range(count)})
    made.add("odd", with_variable(roce(9), NCCL_IB_GID_INDEX="0"))
    found = stack_picks(made.reports, made.evidence_of, NCCL)
    assert sorted(made.asked) == ["n0", "odd"]
    assert list(found["n0"].values()) == ["3"]
    assert found["n1"] is found["n0"]
    (pick,) = [each for each in drift(classes(made.reports), found) if ".pick." in each.fact]
    assert pick.fact.startswith("adapter[0].port[1].pick.nccl ")
    assert (pick.majority, pick.count) == ("3", count)
    assert [(each.value[0], each.nodes) for each in pick.odd] == [("0", "odd")]


def test_picks_of_a_node_that_could_not_be_read_again_are_unread() -> None:
    made = fleet({f"n{at}": roce(at) for at in (1, 2, 3)})
    made.add("odd", with_variable(roce(9), NCCL_IB_GID_INDEX="0"))
    made.add("gone", with_variable(roce(8), NCCL_IB_GID_INDEX="7"), Missing(Why.ABSENT, "x"))
    picks = stack_picks(made.reports, made.evidence_of, NCCL)
    (pick,) = [each for each in drift(classes(made.reports), picks) if ".pick." in each.fact]
    assert pick.unread == "gone"


def test_stacks_that_pick_alike_are_one_line() -> None:
    made = fleet({f"n{at}": roce(at) for at in (1, 2, 3)})
    made.add("odd", with_variable(roce(9), NCCL_IB_GID_INDEX="0"))
    picks = stack_picks(made.reports, made.evidence_of, chosen(["nccl"]))
    found = [each for each in drift(classes(made.reports), picks) if ".pick." in each.fact]
    assert len(found) < len(chosen(["nccl"]))
