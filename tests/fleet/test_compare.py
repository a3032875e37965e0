"""Facts of hosts beside each other, as merge is given them."""

import re

import rdmadiag
from rdmadiag.facts.evidence import Evidence
from rdmadiag.fleet.compare import compared
from rdmadiag.fleet.host_report import HostReport
from rdmadiag.report import Report
from tests.fleet_documents import changed, document, host


def evidence_of(report: HostReport) -> Evidence:
    """Two hosts of a subnet have LIDs and GUIDs of their own."""
    text = rdmadiag.collect(sample="infiniband-two-hca").model_dump_json()
    more = 100 * int(report.node[1:])
    apart, found = re.subn(r'"lid": ?(\d+)', lambda lid: f'"lid":{int(lid[1]) + more}', text)
    assert found
    apart = apart.replace("c42:a103:0:", f"c42:a103:{more}:")
    return Report.model_validate_json(apart).evidence


def fleet() -> list[HostReport]:
    odd = changed(document(), ("host.kernel", "5.0"))
    return [host(f"n{i}", odd if i == 3 else document()) for i in range(1, 6)]


def test_hosts_of_one_kind_are_one_class_and_who_differs_is_named() -> None:
    found = compared(fleet(), evidence_of)
    assert [(each.name, each.nodes) for each in found.classes] == [("A", "n[1-5]")]
    assert found.class_of == {f"n{i}": "A" for i in range(1, 6)}
    (kernel,) = (each for each in found.drift if each.fact == "kernel")
    assert [(odd.value, odd.nodes) for odd in kernel.odd] == [("5.0", "n3")]
    assert found.odd["n3"]["kernel"] == "5.0"


def test_stacks_are_judged_between_hosts() -> None:
    (nccl,) = (
        each for each in compared(fleet(), evidence_of).compatibility if "nccl" in each.stack
    )
    assert (nccl.one, nccl.other, nccl.works) == ("n[1-5]", "n[1-5]", True)


def test_hosts_without_facts_are_in_no_class() -> None:
    assert compared([host("n1", {})], evidence_of).classes == ()
    assert compared([], evidence_of).class_of == {}
