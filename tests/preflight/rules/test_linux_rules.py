"""What goes wrong on Linux hosts: each rule beside a healthy neighbour, one change away."""

from dataclasses import replace

import pytest

from lab.mac import Mac, macs
from lab.machine import Machine
from lab.netdevs import BondData, LegData, NetDev
from lab.rdma_devices import V1, V2, Vf
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import DriverId
from rdmadiag.preflight import rules
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.rules import (
    _FAMILIES,
    CATALOGUE,
    _rules,
    bonds,
    check,
    environment,
    gpu,
    kernel_log,
    kinds,
    netdevs,
    speed,
    vfs,
)
from rdmadiag.preflight.verdict import Status
from rdmadiag.sources.run import gather
from rdmadiag.view.reconcile import devices
from tests.preflight.rules.linux_machines import (
    FORWARDING,
    IBGDA,
    LEARNING,
    NETDEV,
    NO_FOLDER,
    NO_GUID,
    PCI,
    PEER_MAPPING,
    V6,
    VETHS,
    above_soft,
    bonded,
    bound,
    bridge_port,
    by_a_gateway,
    driven,
    exclusive,
    findings,
    flagged,
    logged,
    lost_function,
    mapping,
    on_a_bridge,
    said,
    soft,
    spare_port,
    stale,
    two_roce,
    under,
    with_address,
    with_env,
    with_gpu,
    with_inline,
    with_pkeys,
    with_siw,
    with_table,
    with_xdp,
)

BNXT = "libibverbs: Warning: Driver mlx5 does not support the kernel ABI of 6 (supports 1 to 1)"

ROWS = [
    # --- the provider ---------------------------------------------------------------------
    (
        "driver-abi-mismatch",
        "critical",
        roce_host().change(rejected=("mlx5_0",), verbs_stderr=f"{BNXT} for device /sys/x/mlx5_0"),
        roce_host().change(verbs_stderr="libibverbs: Warning: something else"),
    ),
    (
        "device-not-in-verbs",
        "critical",
        roce_host().change(rejected=("mlx5_0",)),
        roce_host(),
    ),
    (
        "provider-not-named",
        "critical",
        roce_host().change(rejected=("mlx5_0",), configured=("rxe",)),
        roce_host().change(configured=("mlx5",)),
    ),
    ("uverbs-node-stale", "critical", stale(roce_host().evidence()), roce_host()),
    # --- GIDs -----------------------------------------------------------------------------
    ("gid-link-local-only", "warn", with_table(), with_table("192.0.2.10")),
    (
        "gid-v1-only",
        "warn",
        with_table("192.0.2.10", kinds_of=(V1,)),
        with_table("192.0.2.10", kinds_of=(V2,)),
    ),
    ("gid-ipv6-only", "warn", with_table(V6), with_table(V6, "192.0.2.10")),
    ("address-duplicate", "critical", flagged(0xC8, V6), with_address("192.0.2.10", V6)),
    ("address-tentative", "unknown", flagged(0xC0, V6), with_address("192.0.2.10", V6)),
    # --- InfiniBand -----------------------------------------------------------------------
    ("no-usable-pkey", "critical", with_pkeys(0, 0), with_pkeys(0xFFFF, 0)),
    ("narrow-link", "warn", infiniband_host().with_port(0, 0, rate="50 Gb/sec (1X HDR)")
     .with_device(0, board_id="another"),
     infiniband_host().with_port(0, 0, rate="100 Gb/sec (2X HDR)").with_device(0, board_id="x")),
    # --- locked memory --------------------------------------------------------------------
    (
        "launcher-memlock-too-low",
        "info",
        under(bash="unlimited", slurmd="8388608"),
        under(bash="unlimited", slurmd="unlimited"),
    ),
    # --- the environment ------------------------------------------------------------------
    (
        "env-names-absent-device",
        "critical",
        with_env(NCCL_IB_HCA="rocep8s0f0"),
        with_env(NCCL_IB_HCA="mlx5"),
    ),
    ("env-gid-index", "critical", with_env(NCCL_IB_GID_INDEX="9"), with_env(NCCL_IB_GID_INDEX="3")),
    (
        "env-pkey-index",
        "critical",
        with_env(with_pkeys(0xFFFF, 0x8001, 0), NCCL_IB_PKEY="2", NCCL_IB_HCA="=mlx5_0"),
        with_env(with_pkeys(0xFFFF, 0x8001, 0), NCCL_IB_PKEY="1", NCCL_IB_HCA="=mlx5_0"),
    ),
    ("env-turns-rdma-off", "warn", with_env(NCCL_IB_DISABLE="1"), with_env(NCCL_IB_DISABLE="0")),
    ("env-misspelt", "warn", with_env(NCCL_IB_GID_INDX="3"), with_env(NCCL_IB_AR_THRESHOLD="3")),
    # --- netdevs --------------------------------------------------------------------------
    (
        "mtu-differs-in-subnet",
        "warn",
        two_roce(mtu=4200),
        two_roce(mtu=9000),
    ),
    (
        "mtu-below-netdev",
        "warn",
        roce_host().with_port(active_mtu=1024),
        roce_host().with_port(active_mtu=4096),
    ),
    (
        "soft-roce-on-other-netdev",
        "critical",
        above_soft("bond"),
        above_soft("vlan"),
    ),
    (
        "netdev-is-bridge-port",
        "warn",
        bridge_port("bridge"),
        bridge_port("vrf"),
    ),
    (
        "bridge-forwards-nothing",
        "critical",
        on_a_bridge(LEARNING),
        on_a_bridge(FORWARDING),
    ),
    ("rsocket-inline-large", "warn", with_inline(8000), with_inline(1024)),
    ("arp-flux", "warn", two_roce().change(arp_ignore=0), two_roce().change(arp_ignore=1)),
    ("hop-limit-low", "warn", by_a_gateway(7), by_a_gateway(8)),
    ("xdp-at-port", "warn", with_xdp(2), with_xdp(0)),
    (
        "netdev-dormant",
        "warn",
        roce_host().change(netdevs=(replace(roce_host().netdevs[0], dormant=True),)),
        roce_host(),
    ),
    (
        "carrier-changes",
        "info",
        roce_host().change(netdevs=(replace(roce_host().netdevs[0], carrier_changes=20),)),
        roce_host().change(netdevs=(replace(roce_host().netdevs[0], carrier_changes=19),)),
    ),
    (
        "jumbo-not-used",
        "info",
        roce_host()
        .with_port(active_mtu=1024)
        .change(netdevs=(replace(roce_host().netdevs[0], mtu=1500),)),
        roce_host().change(netdevs=(replace(roce_host().netdevs[0], mtu=4200),)),
    ),
    # --- speed ----------------------------------------------------------------------------
    (
        "pcie-link-degraded",
        "warn",
        roce_host().with_device(link=("16.0 GT/s PCIe", "8")),
        roce_host().with_device(link=("16.0 GT/s PCIe", "16")),
    ),
    (
        "rate-below-siblings",
        "warn",
        infiniband_host().with_port(1, 0, rate="100 Gb/sec (4X EDR)"),
        infiniband_host()
        .with_port(1, 0, rate="100 Gb/sec (4X EDR)")
        .with_device(1, board_id="MT_0000000999"),
    ),
    ("numa-remote", "warn", bound("16-31"), bound("8-23")),
    # --- GPUs -----------------------------------------------------------------------------
    (
        "ibgda-not-possible",
        "warn",
        with_gpu().change(environ=IBGDA | {"NVSHMEM_IBGDA_NIC_HANDLER": "gpu"}),
        with_gpu(parameters=PEER_MAPPING).change(
            environ=IBGDA | {"NVSHMEM_IBGDA_NIC_HANDLER": "gpu"}
        ),
    ),
    (
        "ibgda-not-possible",
        "warn",
        with_gpu().change(environ=IBGDA | {"NVSHMEM_IBGDA_NIC_HANDLER": "cpu"}),
        with_gpu(gdrdrv=True).change(environ=IBGDA | {"NVSHMEM_IBGDA_NIC_HANDLER": "cpu"}),
    ),
    (
        "ibgda-not-possible",
        "info",
        with_gpu().change(environ=IBGDA),
        with_gpu().change(environ={"NVSHMEM_IB_ENABLE_IBGDA": "0"}),
    ),
    (
        "ibgda-not-possible",
        "warn",
        with_gpu(roce_host().with_device(pci_driver="erdma"), parameters=PEER_MAPPING).change(
            environ=IBGDA
        ),
        with_gpu(parameters=PEER_MAPPING).change(environ=IBGDA),
    ),
    (
        "gpu-memory-unreachable",
        "warn",
        with_gpu(peermem=None, memory_peers=None, open_driver=False),
        with_gpu(),
    ),
    (
        "gdr-version-gap",
        "warn",
        mapping("2.22.3", with_gpu(**NO_FOLDER)),
        mapping("2.23.4", with_gpu(**NO_FOLDER)),
    ),
    (
        "iommu-translates",
        "info",
        with_gpu(roce_host().with_device(iommu_domain="DMA-FQ")),
        with_gpu(roce_host().with_device(iommu_domain="identity")),
    ),
    # --- kinds ----------------------------------------------------------------------------
    ("function-without-device", "info", lost_function(roce_host().evidence()), roce_host()),
    ("link-not-up", "info", spare_port(), roce_host()),
    ("vf-without-guid", "warn", roce_host().with_device(node_guid=NO_GUID), roce_host()),
    (
        "vf-link-policy-down",
        "info",
        roce_host().with_device(vfs=(Vf(link=2),)),
        roce_host().with_device(vfs=(Vf(),)),
    ),
    ("netns-exclusive", "info", exclusive(roce_host()), roce_host()),
    (
        "firmware-differs",
        "warn",
        infiniband_host().with_device(1, firmware="20.31.1014"),
        infiniband_host().with_device(1, firmware="20.31.1014", board_id="MT_0000000999"),
    ),
    ("bonded-ports", "info", roce_host().with_device(name="mlx5_bond_0"), roce_host()),
    ("bond-leg-down", "warn", bonded(NetDev("eth9", up=False)), roce_host()),
    ("bond-leg-lost", "warn", driven(BondData(), LegData(), LegData(1, 0, 2)), roce_host()),
    (
        "iwarp-device",
        "info",
        roce_host()
        .with_device(node_type="4: RNIC", protocol="iw")
        .change(nodes={"uverbs0": 0o666, "rdma_cm": 0o666}, port_mapper=True),
        roce_host(),
    ),
    (
        "efa-device",
        "info",
        roce_host().with_device(pci_driver="efa", driver=DriverId.EFA),
        roce_host(),
    ),
    # --- the kernel's log ------------------------------------------------------------------
    (
        "device-unhealthy-in-log",
        "critical",
        logged(f"{PCI}: device's health compromised - reached miss count"),
        logged("igb 0000:99:00.0: device's health compromised - reached miss count"),
    ),
    (
        "link-flaps-in-log",
        "warn",
        logged(f"{PCI} {NETDEV}: Link down", f"{PCI} {NETDEV}: Link up"),
        logged(f"{PCI} {NETDEV}: Link up"),
    ),
    (
        "contexts-exhausted-in-log",
        "warn",
        logged(f"{PCI}: mlx5_cmd_check:810:(pid 7): ALLOC_UAR(0x802) op_mod(0x0) failed, status "
               "limits exceeded(0x8), syndrome (0xe4c7bd)"),
        logged(f"{PCI}: mlx5_cmd_check:810:(pid 7): ALLOC_UAR(0x802) op_mod(0x0) failed, status "
               "bad parameter(0x3), syndrome (0xe4c7bd)"),
    ),
    (
        "adapter-hot-in-log",
        "warn",
        logged(f"{PCI}: temp_warn:188:(pid 0): High temperature on sensors with bit set 0 1"),
        logged(f"{PCI}: temperature sensors 0 1 are back to normal"),
    ),
    (
        "slot-power-in-log",
        "info",
        logged(f"{PCI}: mlx5_pcie_event:299:(pid 7): Detected insufficient power on the PCIe slot "
               "(27W)."),
        logged(f"{PCI}: mlx5_pcie_event:304:(pid 7): PCIe slot advertised sufficient power (75W)."),
    ),
    (
        "register-refused-in-log",
        "info",
        logged(f"{PCI}: mlx5_cmd_out_err:838:(pid 1441871): ACCESS_REG(0x805) op_mod(0x1) failed, "
               "status bad operation(0x2), syndrome (0x305684), err(-22)"),
        logged(f"{PCI}: firmware version: 22.31.1014"),
    ),
    (
        "kernel-log-unreadable",
        "info",
        roce_host().change(kernel_log=Missing(Why.DENIED, "/dev/kmsg: EPERM")),
        roce_host().change(kernel_log=Missing(Why.NOT_COLLECTED, "not in the snapshot")),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("netdev", "rules"),
    [(VETHS[0].name, ["netdev-of-two-devices"]), (None, [])],
    ids=["the same", "another namespace's"],
)
def test_a_netdev_has_one_device(netdev: str | None, rules: list[str]) -> None:
    found = [each for each in findings(with_siw(netdev), "rxe0") if "two" in each.rule]
    assert [each.rule for each in found] == rules
    for each in found:
        assert "rdma_cm takes rxe0" in each.summary
        assert each.remedy[-1].startswith("sudo rdma link delete siw0")


@pytest.mark.parametrize(
    ("rule", "severity", "broken"), [row[:3] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_one_change_gives_one_finding(rule: str, severity: str, broken: Machine | Evidence) -> None:
    assert said(broken) == [(rule, severity)]
    (finding,) = findings(broken)
    assert finding.evidence
    assert all(proof.subject and proof.value for proof in finding.evidence)
    assert finding.remedy
    assert finding.references
    lines = (finding.summary, *finding.remedy, *(proof.value for proof in finding.evidence))
    assert not [line for line in lines if "\n" in line]


@pytest.mark.parametrize(
    ("rule", "healthy"), [(row[0], row[3]) for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_its_healthy_neighbour_is_not_spoken_of(rule: str, healthy: Machine) -> None:
    assert said(healthy) == []


# Stands beside bonded-ports: below; beside what else is said of a device of iWARP.
_BESIDE_OTHERS = {"bond-hash-one-leg", "netdev-of-two-devices"}


def test_each_rule_has_a_row() -> None:
    families = (bonds, environment, gpu, kernel_log, kinds, netdevs, speed, vfs)
    codes = {rule.code for family in families for rule in family.RULES} - _BESIDE_OTHERS
    assert codes <= {row[0] for row in ROWS} <= set(CATALOGUE)


HEALTHY = {
    "RoCE": roce_host(),
    "InfiniBand": infiniband_host(),
    "two adapters": two_roce("198.51.100.11"),
    "with GPUs": with_gpu(two_roce("198.51.100.11")),
    "soft RoCE": soft(VETHS[0]),
}


@pytest.mark.parametrize("machine", HEALTHY.values(), ids=list(HEALTHY))
def test_a_healthy_host_is_spoken_of_by_none(machine: Machine) -> None:
    assert said(machine) == []


@pytest.mark.parametrize("source", ["system", "kernel_log"])
@pytest.mark.parametrize("why", list(Why))
def test_without_the_new_sources_a_healthy_host_is_no_worse_than_unknown(
    source: str, why: Why
) -> None:
    evidence = replace(roce_host().evidence(), **{source: Missing(why, "reason")})
    severities = {severity for _, severity in said(evidence)}
    of_the_log = source == "kernel_log" and why in (Why.DENIED, Why.ABSENT, Why.UNSUPPORTED)
    assert severities <= ({"info"} if of_the_log else {"info", "unknown"})


# --- what could not be read of a value is skipped, and never well ----------------------------


def test_where_the_driver_of_an_adapter_could_not_be_read_ibgda_is_not_known() -> None:
    machine = with_gpu(roce_host().with_device(pci_driver="erdma"), parameters=PEER_MAPPING)
    evidence = machine.change(environ=IBGDA).evidence()
    sysfs = evidence.sysfs
    assert not isinstance(sysfs, Missing)
    assert not isinstance(sysfs.devices[0].pci, Missing)
    pci = replace(sysfs.devices[0].pci, driver=Missing(Why.MALFORMED, "driver"))
    unread = replace(sysfs, devices=(replace(sysfs.devices[0], pci=pci),))
    verdict = judge(replace(evidence, sysfs=unread))
    assert verdict.status is Status.UNKNOWN
    assert "ibgda-not-possible" in {each.rule for each in verdict.skipped}


def test_where_the_version_of_a_library_could_not_be_read_it_is_not_known() -> None:
    verdict = judge(mapping(Missing(Why.DENIED, "EACCES"), with_gpu(**NO_FOLDER)))
    assert verdict.status is Status.UNKNOWN
    assert "gdr-version-gap" in {each.rule for each in verdict.skipped}


# --- families are left out where they have nothing to say ------------------------------------


@pytest.mark.parametrize(
    "subject",
    [*(row[2] for row in ROWS), *HEALTHY.values(), *(mac for mac, _ in macs().values())],
    ids=lambda subject: getattr(subject, "hostname", "evidence"),
)
def test_a_family_that_does_not_apply_would_have_found_nothing(
    subject: Machine | Mac | Evidence, soon: float
) -> None:
    evidence = subject if isinstance(subject, Evidence) else gather(subject.host(), soon)
    case = Case(evidence, devices(evidence))
    own = [rule for family, _ in _FAMILIES for rule in _rules(family)]  # of preflight
    every = [finding for rule in own for finding in rule.check(case)]
    assert {rule.code for rule in own} < set(CATALOGUE)
    assert list(check(case).findings) == every


def test_there_is_no_other_name_in_the_package_of_rules() -> None:
    with pytest.raises(AttributeError, match="CATALOG"):
        _ = rules.CATALOG  # type: ignore[attr-defined]
