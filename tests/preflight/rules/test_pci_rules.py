"""PCI Express: each rule beside a healthy neighbour, one change away."""

import time
from dataclasses import replace
from typing import Any

import pytest

from lab.machine import Machine
from lab.pci import ISOLATED, Space, bridge
from lab.samples import gpu_host, roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import LINUX_SOURCES, Evidence
from rdmadiag.facts.pci import PciFacts
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.rules.pci import NO_RELAXED_ORDERING
from rdmadiag.preflight.verdict import Finding
from rdmadiag.sources.run import read
from rdmadiag.view.select import Selector
from tests.view.test_access_control import below_root_ports

EPYC = "cpu:type:x86,ven0002fam0019mod0001:feature:,0000"
EMERALD_RAPIDS = "cpu:type:x86,ven0000fam0006mod00CF:feature:,0000"
OF_PCI = (
    *("relaxed-ordering-off", "max-read-request-small", "max-payload-differs"),
    "acs-for-this-topology",
)


def findings(machine: Machine, *names: str) -> list[Finding]:
    selected = tuple(Selector(name) for name in names)
    return [each for each in judge(machine.evidence(), selected).findings if each.rule in OF_PCI]


def said(machine: Machine, *names: str) -> list[tuple[str, str]]:
    return [(each.rule, each.severity.value) for each in findings(machine, *names)]


def roce(adapter: Space, **changes: Any) -> Machine:
    return roce_host().with_pci(adapter=adapter).change(**changes)


HEALTHY = {
    "one adapter": roce_host().with_pci(),
    "four GPUs": gpu_host().with_pci(),
    "the IOMMU isolates root ports alone": roce_host().with_pci(bridge=bridge(acs=ISOLATED)),
    "an EPYC": roce(Space(), cpu=EPYC),
    "4096 bytes": roce(Space(read_request=4096)),
    "a virtual function in a virtual machine": roce(
        Space(
            payload=128,
            read_request=128,
            relaxed_ordering=False,
            no_snoop=False,
            extended_tags=False,
        )
    ),
    "a small payload, and a bridge that can do no more": roce_host().with_pci(
        adapter=Space(payload=128), bridge=bridge(payload=128, payload_supported=128)
    ),
}


@pytest.mark.parametrize("machine", HEALTHY.values(), ids=HEALTHY)
def test_a_healthy_host_has_no_finding(machine: Machine) -> None:
    assert said(machine) == []


STRICT = Space(relaxed_ordering=False)
ASKS = {"NCCL_IB_PCI_RELAXED_ORDERING": "1"}


@pytest.mark.parametrize(
    ("machine", "severity"),
    [
        pytest.param(roce(STRICT), "info", id="on another processor"),
        pytest.param(roce(STRICT, cpu="cpu:type:aarch64:feature:,0000"), "info", id="on Arm"),
        pytest.param(roce(STRICT, cpu=EPYC), "warn", id="on an EPYC"),
        pytest.param(roce(STRICT, cpu=EMERALD_RAPIDS), "warn", id="on Emerald Rapids"),
        pytest.param(roce(STRICT, environ=ASKS), "warn", id="NCCL asks for it"),
        pytest.param(
            roce(STRICT, environ={"UCX_IB_PCI_RELAXED_ORDERING": "Yes"}), "warn", id="UCX does"
        ),
        pytest.param(
            roce(STRICT, environ={"UCX_IB_PCI_RELAXED_ORDERING": "auto"}), "info", id="or may"
        ),
    ],
)
def test_strict_order_is_found_by_what_it_costs(machine: Machine, severity: str) -> None:
    assert said(machine) == [("relaxed-ordering-off", severity)]


def test_where_linux_turned_it_off_nothing_is_found() -> None:
    broadwell = bridge(device=0x6F02)
    assert said(roce_host().with_pci(adapter=STRICT, bridge=broadwell)) == []
    assert ("0x8086", "0x2f0e") in NO_RELAXED_ORDERING
    assert ("0x8086", "0x6f0f") not in NO_RELAXED_ORDERING


def test_a_variable_is_evidence_and_the_remedy_is_of_the_adapter() -> None:
    (found,) = findings(roce(STRICT, environ=ASKS))
    assert found.device == "mlx5_0"
    assert "NCCL_IB_PCI_RELAXED_ORDERING asks for it" in found.summary
    assert [each.value for each in found.evidence] == [
        "RlxdOrd -",
        "Intel, family 0x6, model 0x8f",
        "1",
    ]
    assert found.remedy[1].startswith("sudo setpci -s 0000:08:00.0 CAP_EXP+0x8.w=0010:0010")


@pytest.mark.parametrize("size", [128, 256])
def test_small_read_requests_are_found(size: int) -> None:
    (found,) = findings(roce(Space(read_request=size)))
    assert (found.rule, found.severity.value) == ("max-read-request-small", "warn")
    assert f"requests of {size} bytes" in found.summary
    assert found.remedy[1].startswith("sudo setpci -s 0000:08:00.0 CAP_EXP+0x8.w=5000:7000")


def test_adapters_of_one_kind_that_differ_are_a_note() -> None:
    machine = gpu_host().with_pci(
        adapter=Space(read_request=4096), _0000_19_00_0=Space(read_request=512)
    )
    (found,) = findings(machine)
    assert (found.rule, found.severity.value) == ("max-read-request-small", "info")
    assert found.device == "mlx5_0"
    # The adapter for management is of another kind.
    assert said(gpu_host().with_pci(adapter=Space(read_request=4096), _0000_08_00_0=Space())) == []


def test_a_payload_above_a_bridges_is_found() -> None:
    machine = roce_host().with_pci(adapter=Space(payload=512), bridge=bridge(payload=256))
    (found,) = findings(machine)
    assert (found.rule, found.severity.value) == ("max-payload-differs", "warn")
    assert found.evidence[0].value == "MaxPayload 512 bytes; the way: 256"


def test_a_small_payload_where_all_can_do_more_is_a_note() -> None:
    machine = roce_host().with_pci(adapter=Space(payload=128), bridge=bridge(payload=128))
    assert said(machine) == [("max-payload-differs", "info")]


def test_ports_of_a_shared_switch_that_redirect_are_found_once() -> None:
    machine = gpu_host().with_pci(bridge=bridge(acs=ISOLATED))
    (found,) = findings(machine)
    assert (found.rule, found.severity.value) == ("acs-for-this-topology", "warn")
    assert "8 bridges" in found.summary
    lines = [line for line in found.remedy if "setpci" in line]
    assert lines[0].startswith("sudo setpci -s 0000:18:00.0 ECAP_ACS+0x6.w=0000:000c")
    assert len(lines) == 8
    assert "xxx00xx@0000:18:00.0;xxx00xx@0000:18:01.0" in "".join(found.remedy)
    assert said(machine, "mlx5_0") == []  # whether all are seen is not known then


@pytest.mark.parametrize(
    ("change", "summary", "remedy"),
    [
        (
            {"ats": True},
            (
                "1 adapter has address translation (ATS), which must be off "
                "with GPUs below root ports of Grace or Vera"
            ),
            "sudo mlxconfig -d nic set ATS_ENABLED=0",
        ),
        (
            {"iommu_group": "1"},
            (
                "nic and gpu must be in IOMMU groups of their own, "
                "with GPUs below root ports of Grace or Vera"
            ),
            "sudo rdma_topo check",
        ),
    ],
    ids=["ATS", "a shared group"],
)
def test_below_root_ports_of_grace_what_is_wrong_is_found(
    change: dict[str, object], summary: str, remedy: str
) -> None:
    pci = PciFacts(below_root_ports(nic=change), Missing(Why.UNSUPPORTED, ""))
    verdict = judge(replace(gpu_host().evidence(), pci=pci))
    (found,) = (each for each in verdict.findings if each.rule == "acs-for-this-topology")
    assert (found.summary, found.severity.value) == (summary, "warn")
    assert any(line.startswith(remedy) for line in found.remedy)


def test_a_user_is_not_told_that_anything_is_off_and_the_verdict_is_not_unknown_for_it() -> None:
    def header(space: Space) -> bytes:
        return space.content()[:64]

    machine = gpu_host().with_pci(
        adapter=header(Space()), gpu=header(Space()), bridge=header(bridge())
    )
    verdict = judge(machine.evidence())
    assert verdict.status.value == "ok"
    skipped = {each.rule: each.why for each in verdict.skipped}
    assert {rule: skipped[rule] for rule in OF_PCI} == dict.fromkeys(OF_PCI, Why.DENIED)


def test_an_adapter_that_sleeps_is_skipped_with_the_reason(host_in_memory: Any) -> None:
    recording = roce(Space(read_request=128)).recording()
    path = "/sys/bus/pci/devices/0000:08:00.0/power/runtime_status"
    recording.files[path] = b"suspended\n"
    host, deadline = host_in_memory(recording), time.monotonic() + 10
    verdict = judge(Evidence(**{name: read(name, host, deadline) for name in LINUX_SOURCES}))
    assert [each for each in verdict.findings if each.rule in OF_PCI] == []
    skipped = {each.rule: (each.device, each.detail) for each in verdict.skipped}
    detail = "0000:08:00.0 is suspended, and is not woken"
    assert skipped["max-read-request-small"] == ("mlx5_0", detail)


def test_a_record_without_configuration_space_passes_none_of_the_rules() -> None:
    skipped = {each.rule: each.why for each in judge(roce_host().change(pci={}).evidence()).skipped}
    assert skipped["relaxed-ordering-off"] is Why.NOT_COLLECTED


def test_an_adapter_that_does_not_answer_makes_the_verdict_unknown() -> None:
    verdict = judge(roce(Space().content()).change(pci={"0000:08:00.0": b"\xff" * 4096}).evidence())
    assert verdict.status.value == "unknown"
