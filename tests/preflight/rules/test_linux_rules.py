"""What goes wrong on Linux hosts: each rule beside a healthy neighbour, one change away."""

from dataclasses import replace
from typing import Any

import pytest

from lab.gpus import Gpu
from lab.mac import Mac, macs
from lab.machine import Machine
from lab.netdevs import BondData, BridgePort, LegData, NetDev
from lab.rdma_devices import V1, V2, Device, GidRow, Port, Vf, roce_rows
from lab.routing import Way
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import NOT_IN_RECORD, Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import DriverId, NetnsMode, PhysState, PortState
from rdmadiag.facts.libraries import LibrariesFacts, MappedLibrary
from rdmadiag.facts.system import Ancestor
from rdmadiag.facts.verbs import VerbsFailure
from rdmadiag.gid.registry import chosen
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
from rdmadiag.preflight.verdict import Finding, Status
from rdmadiag.sources.run import gather
from rdmadiag.view.reconcile import devices
from rdmadiag.view.select import Selector

MAC = "0c:42:a1:00:00:01"
NETDEV = "ens1f0np0"
LEARNING, FORWARDING = 2, 3
V6 = "2001:db8::10"
NO_GUID = "0000:0000:0000:0000"
PCI = "mlx5_core 0000:08:00.0"
IBGDA = {"NVSHMEM_IB_ENABLE_IBGDA": "1"}
PEER_MAPPING = 'EnableStreamMemOPs: 1\nRegistryDwords: "PeerMappingOverride=1;"\n'


def findings(subject: Machine | Evidence, *names: str) -> list[Finding]:
    evidence = subject.evidence() if isinstance(subject, Machine) else subject
    return list(judge(evidence, tuple(Selector(name) for name in names)).findings)


def bonded(*legs: NetDev, **device: Any) -> Machine:
    """The RoCE host's netdev and `legs` under bond7, which has the address."""
    (own,) = roce_host().netdevs
    bond = replace(own, name="bond7", kind="bond")
    members = [replace(each, master="bond7", addresses=()) for each in (own, *legs)]
    rows = roce_rows("bond7", MAC, "192.0.2.10")
    return roce_host().with_device(**device).with_port(gids=rows).change(netdevs=(bond, *members))


def by_a_gateway(ttl: int) -> Machine:
    """The RoCE host with a default route, and this ip_default_ttl."""
    (own,) = roce_host().netdevs
    return roce_host().change(
        default_ttl=ttl, ways=(Way("0.0.0.0/0", own.name, gateway="192.0.2.254"),)
    )


def with_xdp(place: int) -> Machine:
    """rxe on a netdev whose program of XDP is there (XDP_ATTACHED_*)."""
    return soft(replace(VETHS[0], xdp=place))


def above_soft(kind: str) -> Machine:
    """rxe on eth0, and its address on a netdev of this kind above that."""
    machine = soft(VETHS[0])
    (own,) = machine.netdevs
    upper = replace(own, name="upper0", kind=kind, lower=own.name)
    (address,) = own.addresses
    rows = roce_rows("upper0", MAC, address.partition("/")[0])
    return machine.with_port(gids=rows).change(netdevs=(upper, replace(own, addresses=())))


def bridge_port(kind: str) -> Machine:
    """The RoCE host's netdev, with its address, below a netdev of this kind."""
    (own,) = roce_host().netdevs
    return roce_host().change(
        netdevs=(replace(own, master="above0"), NetDev("above0", mac=MAC, kind=kind))
    )


def on_a_bridge(state: int) -> Machine:
    """The RoCE host's address on a bridge, of which eth9 is a port in this state (BR_STATE_*)."""
    (own,) = roce_host().netdevs
    bridge = replace(own, name="br0", kind="bridge")
    rows = roce_rows("br0", MAC, "192.0.2.10")
    port = NetDev("eth9", master="br0", port=BridgePort(state))
    return roce_host().with_port(gids=rows, netdev="br0").change(netdevs=(bridge, port))


def with_siw(netdev: str | None) -> Machine:
    """rxe on a netdev, and siw on this one."""
    machine = soft(VETHS[0])
    port = Port(gids={0: GidRow("9e16:713b:9bf1::", V1, None)}, netdev=netdev)
    siw = Device("siw0", (port,), node_type="4: RNIC", protocol="iw", driver=DriverId.SIW, uverbs=9)
    return machine.change(devices=(*machine.devices, siw))


def with_inline(count: int) -> Machine:
    return roce_host().change(files={"/etc/rdma/rsocket/inline_default": f"{count}\n"})


def driven(data: BondData, *legs: LegData) -> Machine:
    """The same with what the bonding driver says; no finding but those on it."""
    machine = bonded(*(NetDev(f"eth{number}") for number in range(9, 8 + len(legs))))
    bond, *members = machine.netdevs
    rows = zip(members, legs, strict=True)
    return machine.change(
        netdevs=(replace(bond, bond=data), *(replace(each, leg=leg) for each, leg in rows))
    )


def bond_findings(machine: Machine) -> list[tuple[str, str]]:
    return [each for each in said(machine) if each[0] != "bonded-ports"]


def beside(machine: Machine, netdev: str) -> Machine:
    """The same with a second device, on that netdev."""
    (first,) = machine.devices
    port = replace(first.ports[0], netdev=netdev, gids=roce_rows(netdev, "02:00:00:00:00:09"))
    second = replace(first, name="mlx5_9", ports=(port,), uverbs=9, pci_address="0000:09:00.0")
    there = machine.netdevs
    if netdev not in {each.name for each in there}:
        there = (*there, NetDev(netdev, mac="02:00:00:00:00:09"))
    return machine.change(devices=(first, second), netdevs=there)


def said(subject: Machine | Evidence, *names: str) -> list[tuple[str, str]]:
    return [(each.rule, each.severity.value) for each in findings(subject, *names)]


def only(subject: Machine | Evidence, rule: str) -> Finding:
    (found,) = [each for each in findings(subject) if each.rule == rule]
    return found


def with_table(*addresses: str, kinds_of: tuple[str, ...] = (V1, V2)) -> Machine:
    """The RoCE host with these addresses, and no other."""
    rows = roce_rows(NETDEV, MAC, *addresses)
    kept = [row for row in rows.values() if row.kind in kinds_of]
    return roce_host().with_port(gids=dict(enumerate(kept)))


def with_address(*addresses: str) -> Machine:
    """The RoCE host with these addresses on its netdev and no others, one GID row each."""
    (netdev,) = roce_host().netdevs
    lengths = (f"{each}/{64 if ':' in each else 24}" for each in addresses)
    rows = (f"::ffff:{each}" if "." in each else each for each in addresses)
    return (
        roce_host()
        .with_port(gids={index: GidRow(each, V2, NETDEV) for index, each in enumerate(rows)})
        .change(netdevs=(replace(netdev, addresses=tuple(lengths)),))
    )


def flagged(flags: int, *addresses: str) -> Machine:
    """The same, the first address with these IFA_FLAGS."""
    machine = with_address(*addresses)
    (netdev,) = machine.netdevs
    return machine.change(netdevs=(replace(netdev, flags={addresses[0]: flags}),))


def two_roce(second: str = "192.0.2.11", mtu: int = 9000, **changes: Any) -> Machine:
    """Two RoCE adapters, each with a netdev of its own."""
    base = roce_host()
    other = NetDev("ens2f0np0", mac="0c:42:a1:00:00:02", mtu=mtu, addresses=(f"{second}/24",))
    port = Port(
        gids=roce_rows(other.name, other.mac, second), gid_table_length=256, netdev=other.name
    )
    device = Device(
        "mlx5_1",
        (port,),
        pci_address="0000:af:00.0",
        bridge="0000:ae:00.0",
        node_guid="0c42:a103:0000:0002",
        uverbs=1,
        **changes,
    )
    return base.change(
        devices=(*base.devices, device), netdevs=(*base.netdevs, other), arp_ignore=2
    )


def spare_port() -> Machine:
    """The RoCE host, whose card has a second function that never had a link."""
    base = roce_host()
    netdev = NetDev("ens1f1np1", mac="0c:42:a1:00:00:02", carrier=False, carrier_changes=1)
    port = Port(
        PortState.DOWN,
        PhysState.DISABLED,
        gids=roce_rows(netdev.name, netdev.mac),
        netdev=netdev.name,
    )
    second = replace(
        base.devices[0],
        name="mlx5_1",
        ports=(port,),
        pci_address="0000:08:00.1",
        node_guid="0c42:a103:0000:0002",
        uverbs=1,
    )
    return base.change(devices=(*base.devices, second), netdevs=(*base.netdevs, netdev))


def soft(*netdevs: NetDev, **changes: Any) -> Machine:
    """Soft RoCE over each netdev."""
    devices = []
    for number, netdev in enumerate(netdevs):
        (address,) = (each.partition("/")[0] for each in netdev.addresses)
        port = Port(
            gids={0: GidRow(f"::ffff:{address}", V2, netdev.name)},
            gid_table_length=16,
            netdev=netdev.name,
            active_mtu=1024,
        )
        devices.append(
            Device(
                f"rxe{number}",
                (port,),
                driver=DriverId.RXE,
                parent=netdev.name,
                uverbs=number,
                firmware="",
            )
        )
    return Machine("soft", tuple(devices), netdevs, **changes)


VETHS = (
    NetDev("veth0", addresses=("192.0.2.1/24",)),
    NetDev("veth1", addresses=("192.0.2.2/24",)),
)


def logged(*messages: str, **changes: Any) -> Machine:
    return roce_host().change(kernel_log=messages, **changes)


def bound(cpus: str, machine: Machine | None = None) -> Machine:
    return (machine or roce_host()).change(cpus_allowed=cpus)


def on_two_nodes() -> Machine:
    return two_roce("198.51.100.11", numa_node=1, local_cpus="16-31")


def with_env(machine: Machine | None = None, **variables: str) -> Machine:
    return (machine or roce_host()).change(environ=variables)


def exclusive(machine: Machine) -> Machine:
    return machine.change(netns_mode=NetnsMode.EXCLUSIVE.number)


def with_pkeys(*keys: int) -> Machine:
    return infiniband_host().with_port(0, 0, pkeys=keys)


def under(**parents: str) -> Machine:
    return roce_host().change(ancestors=(*parents.items(), ("systemd", "8388608")))


def with_gpu(machine: Machine | None = None, **changes: Any) -> Machine:
    return (machine or roce_host()).change(gpu=replace(Gpu(), **changes))


NO_FOLDER: dict[str, Any] = {"memory_peers": None, "open_driver": False}
"""nvidia_peermem of a kernel without /sys/kernel/mm/memory_peers, under the closed driver."""


def mapping(version: str | Missing, machine: Machine) -> Evidence:
    """The machine, and a process that has mapped an NCCL."""
    library = MappedLibrary("nccl", "/usr/lib/libnccl.so.2", version)
    return replace(machine.evidence(), libraries=LibrariesFacts(4711, (library,)))


def lost_function(evidence: Evidence) -> Evidence:
    sysfs = evidence.sysfs
    assert not isinstance(sysfs, Missing)
    (own,) = sysfs.candidates  # type: ignore[misc]
    more = (own, replace(own, address="0000:09:00.0"))
    return replace(evidence, sysfs=replace(sysfs, candidates=more))


def stale(evidence: Evidence) -> Evidence:
    process = evidence.process
    assert not isinstance(process, Missing)
    nodes = tuple(replace(node, dev="231:199") for node in process.nodes)  # type: ignore[union-attr]
    return replace(evidence, process=replace(process, nodes=nodes))


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


# --- GIDs and partitions -----------------------------------------------------------------


def test_a_table_of_v1_and_ipv6_is_one_finding() -> None:
    assert said(with_table(V6, kinds_of=(V1,))) == [("gid-v1-only", "warn")]


def test_software_with_a_link_local_address_of_its_own_is_warned_of() -> None:
    netdev = NetDev("veth0", addresses=("fe80::1/64",))
    port = Port(gids={0: GidRow("fe80::1", V2, "veth0")}, gid_table_length=16, netdev="veth0")
    device = Device("rxe0", (port,), driver=DriverId.RXE, parent="veth0")
    assert said(Machine("soft", (device,), (netdev,))) == [("gid-link-local-only", "warn")]


def test_no_other_host_reaches_soft_roce_on_the_loopback() -> None:
    finding = only(soft(NetDev("lo", addresses=("127.0.0.1/8",))), "gid-link-local-only")
    assert "no other host reaches it" in finding.summary
    assert finding.remedy[0] == "sudo rdma link delete rxe0"
    netdev = NetDev("eth0", addresses=("192.0.2.1/24",))
    assert "gid-link-local-only" not in dict(said(soft(netdev)))


def test_a_port_that_is_down_has_no_finding_on_its_gids() -> None:
    down = with_table().with_port(state=PortState.DOWN)
    assert "gid-link-local-only" not in dict(said(down))


def test_an_address_that_must_not_be_used_yields_to_another() -> None:
    duplicate = flagged(0xC8, V6, "2001:db8::11")
    assert said(duplicate)[0] == ("address-duplicate", "warn")
    assert said(flagged(0xC0, V6, "2001:db8::11"))[-1] == ("address-tentative", "info")
    (port,) = judge(duplicate.evidence()).ports
    assert (port.route_gid_index, port.safe_to_attempt_rtr) == (1, True)
    (alone,) = judge(flagged(0xC8, V6).evidence()).ports
    assert (alone.route_gid_index, alone.reasons) == (None, ("no_route_gid",))


def test_without_rtnetlink_if_inet6_says_it_too() -> None:
    evidence = replace(flagged(0xC8, V6).evidence(), netdev=Missing(Why.TIMEOUT, "late"))
    found = only(evidence, "address-duplicate")
    assert found.severity == "critical"
    assert found.evidence[1].source == "process"
    assert f"sudo ip address del {V6}/64 dev {NETDEV}" in found.remedy


def test_the_remedy_of_a_duplicate_can_be_pasted() -> None:
    assert only(flagged(0xC8, V6), "address-duplicate").remedy[-2:] == (
        f"sudo ip address del {V6}/64 dev {NETDEV}",
        f"sudo ip address add {V6}/64 dev {NETDEV}",
    )


@pytest.mark.parametrize(
    ("keys", "severity", "words"),
    [
        pytest.param((0, 0x8001), "warn", "no partition key at index 0", id="another index"),
        pytest.param((0x8000, 0x8001), "warn", "to use is at 1", id="a bit alone is no key"),
        pytest.param((0, 0x0001, 0x8002), "warn", "is at 2 (0x8002)", id="the first full one"),
        pytest.param((0x7FFF, 0x0001), "warn", "limited member", id="limited alone"),
        pytest.param((0x7FFF, 0x8001), "warn", "at 1 (0x8001)", id="limited at 0, full at 1"),
        pytest.param((0xFFFF, 0x0001), None, "", id="full at 0, limited at 1"),
    ],
)
def test_partition_keys(keys: tuple[int, ...], severity: str | None, words: str) -> None:
    expected = [("no-usable-pkey", severity)] if severity else []
    assert said(with_pkeys(*keys)) == expected
    assert all(words in each.summary for each in findings(with_pkeys(*keys)))


def test_the_key_to_use_is_given_in_each_programs_own_form() -> None:
    remedy = only(with_pkeys(0, 0, 0x8123), "no-usable-pkey").remedy
    assert any(line.startswith("export NCCL_IB_PKEY=2 ") for line in remedy)
    assert any(line.startswith("export UCX_IB_PKEY=0x123 ") for line in remedy)


# --- locked memory -----------------------------------------------------------------------


def asked(pid: int, memlock: str = "8388608") -> Evidence:
    evidence = under(slurmd=memlock).evidence()
    assert not isinstance(evidence.system, Missing)
    return replace(evidence, system=replace(evidence.system, asked_pid=pid))


@pytest.mark.parametrize(
    ("memlock", "severity"),
    [("65536", "critical"), ("8388608", "warn"), ("67108864", None), ("unlimited", None)],
)
def test_a_process_that_was_asked_for_is_judged_by_its_own_limit(
    memlock: str, severity: str | None
) -> None:
    found = said(asked(1200, memlock=memlock))
    assert found == ([("launcher-memlock-too-low", severity)] if severity else [])


def test_the_launcher_is_named_with_its_number() -> None:
    finding = only(asked(1200), "launcher-memlock-too-low")
    assert finding.summary.startswith("slurmd (1200) is limited to 8192 KiB of locked memory")
    assert finding.evidence[0].subject == "/proc/1200/limits: Max locked memory"
    assert "slurmd" in finding.evidence[0].value


def test_a_process_that_is_not_there_is_unknown() -> None:
    evidence = asked(4711)
    gone = Missing(Why.ABSENT, "/proc/4711/status: ENOENT")
    chain = (Ancestor(4711, gone, gone),)
    system = replace(evidence.system, ancestors=chain)  # type: ignore[type-var]
    assert said(replace(evidence, system=system)) == [("launcher-memlock-too-low", "unknown")]


def test_where_the_limit_is_inherited_the_origin_stands_in_the_evidence() -> None:
    machine = under(bash="8388608", slurmd="8388608", init="unlimited").change(
        memlock="8388608", uid=1000, capabilities=0
    )
    (finding,) = findings(machine)
    assert finding.rule == "memlock-too-low"
    assert [proof.subject for proof in finding.evidence] == [
        "/proc/self/limits: Max locked memory",
        "/proc/1199/limits: Max locked memory",
    ]
    assert finding.evidence[1].value.startswith("slurmd: ")


def test_init_alone_is_no_launcher() -> None:
    assert said(under(bash="unlimited")) == []


# --- the environment ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"NCCL_IB_HCA": "mlx5_0"}, None),
        ({"NCCL_IB_HCA": "=mlx5_0"}, None),
        ({"NCCL_IB_HCA": "=mlx5"}, "critical"),
        ({"NCCL_IB_HCA": "mlx5_0:1"}, None),
        ({"NCCL_IB_HCA": "mlx5_0:2"}, "critical"),
        ({"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}, "warn"),
        ({"NCCL_IB_HCA": "^mlx5_3"}, "info"),
        ({"NCCL_IB_HCA": ""}, None),
        ({"UCX_NET_DEVICES": "all"}, None),
        ({"UCX_NET_DEVICES": "mlx5_0:1"}, None),
        ({"UCX_NET_DEVICES": f"mlx5_0:1,{NETDEV}"}, None),
        ({"UCX_NET_DEVICES": "mlx5_*:1"}, None),
        ({"UCX_NET_DEVICES": "mlx4_0:1"}, "critical"),
        ({"UCX_NET_DEVICES": "mlx5_0:1,eth9"}, "warn"),
        ({"NVSHMEM_HCA_LIST": "rocep8s0f0:1"}, "critical"),
        ({"NVSHMEM_HCA_PE_MAPPING": "mlx5_0:1:2"}, None),
        ({"FI_VERBS_DEVICE_NAME": "mlx5_2"}, "critical"),
        ({"HCOLL_MAIN_IB": "mlx5_0:1"}, None),
        ({"OMPI_MCA_btl_openib_if_include": "mlx4_0"}, "critical"),
    ],
    ids=str,
)
def test_a_variable_that_names_devices(variables: dict[str, str], expected: str | None) -> None:
    found = said(with_env(**variables))
    assert found == ([("env-names-absent-device", expected)] if expected else [])


def test_the_variable_is_given_back_in_its_own_form() -> None:
    finding = only(with_env(NCCL_IB_HCA="=rocep8s0f0"), "env-names-absent-device")
    assert finding.remedy[-1].startswith("export NCCL_IB_HCA='=mlx5_0' "), (
        "zsh takes =NAME for the path of that command"
    )
    finding = only(with_env(UCX_NET_DEVICES="rocep8s0f0:1"), "env-names-absent-device")
    assert finding.remedy[-1].startswith("export UCX_NET_DEVICES=mlx5_0:1 ")


def test_with_a_device_selected_the_others_are_not_called_absent() -> None:
    machine = with_env(two_roce("198.51.100.11"), NCCL_IB_HCA="=mlx5_0,mlx5_1")
    assert said(machine, "mlx5_0") == []


@pytest.mark.parametrize(
    ("variable", "value", "expected", "words"),
    [
        ("NCCL_IB_DISABLE", "1", "warn", "TCP alone"),
        ("NCCL_IB_DISABLE", "0x2", "warn", "TCP alone"),
        ("NCCL_IB_DISABLE", "yes", None, ""),  # strtoll of a word is 0
        ("NCCL_NET", "Socket", "warn", "TCP alone"),
        ("NCCL_NET", "SOCKET", "warn", "TCP alone"),
        ("NCCL_NET", "IB", None, ""),
        ("UCX_TLS", "tcp", "warn", "none of rc"),
        ("UCX_TLS", "self,sm,cuda_copy,tcp", "warn", "none of rc"),
        ("UCX_TLS", "tcp,ud:aux", "warn", "none of rc"),
        ("UCX_TLS", "tcp,rc_x,self", None, ""),
        ("UCX_TLS", "rc_mlx5,cuda", None, ""),
        ("UCX_TLS", "dc,sm", None, ""),
        ("UCX_TLS", "ib", None, ""),
        ("UCX_TLS", "all", None, ""),
        ("UCX_TLS", "^tcp", None, ""),
        ("UCX_TLS", "^ib", "warn", "leaves out"),
        ("UCX_TLS", "^rc,ud,dc", "warn", "leaves out"),
        ("UCX_TLS", "^ud", None, ""),
        ("UCX_TLS", "tcp,warp", "info", "none of rc"),
        ("UCX_TLS", "", None, ""),
        ("UCX_NET_DEVICES", NETDEV, "warn", "names netdevs alone"),
        ("UCX_NET_DEVICES", "^mlx5_0:1", "warn", "leaves out every active port"),
        ("NCCL_IB_HCA", "^mlx5", "warn", "leaves out every active port"),
        ("FI_PROVIDER", "tcp", "warn", "no provider of RDMA"),
        ("FI_PROVIDER", "tcp;ofi_rxm", "warn", "no provider of RDMA"),
        ("FI_PROVIDER", "verbs;ofi_rxm", None, ""),
        ("FI_PROVIDER", "efa,tcp", None, ""),
        ("FI_PROVIDER", "^tcp", None, ""),
        ("FI_PROVIDER", "^verbs", "info", "leaves out verbs"),
        ("FI_PROVIDER", "quartz", "info", "no provider of RDMA"),
        ("MC_FORCE_TCP", "0", "warn", "TCP alone"),
        ("MC_FORCE_TCP", "", "warn", "TCP alone"),
    ],
)
def test_a_value_that_keeps_a_stack_from_rdma(
    variable: str, value: str, expected: str | None, words: str
) -> None:
    found = findings(with_env(**{variable: value}))
    rows = [("env-turns-rdma-off", expected)] if expected else []
    assert [(each.rule, each.severity.value) for each in found] == rows
    assert all(words in each.summary for each in found)
    assert all(each.remedy[0] == f"unset {variable}" for each in found)
    down = with_env(roce_host().with_port(state=PortState.DOWN), **{variable: value})
    assert "env-turns-rdma-off" not in dict(said(down))


def test_a_list_that_names_a_port_that_is_down_beside_an_active_one() -> None:
    machine = two_roce("198.51.100.11").with_port(1, 0, state=PortState.DOWN)
    finding = only(with_env(machine, NCCL_IB_HCA="=mlx5_1"), "env-turns-rdma-off")
    assert "names no active port" in finding.summary
    assert finding.remedy[1].startswith("export NCCL_IB_HCA='=mlx5_0' ")
    assert "env-turns-rdma-off" not in dict(said(with_env(machine, NCCL_IB_HCA="=mlx5_0")))


@pytest.mark.parametrize(
    ("variable", "index", "severity", "words"),
    [
        ("NCCL_IB_GID_INDEX", "9", "critical", "an empty row on mlx5_0/1"),
        ("NCCL_IB_GID_INDEX", "300", "critical", "beyond the table on mlx5_0/1"),
        ("NCCL_IB_GID_INDEX", "2", "warn", "RoCE v1 on mlx5_0/1"),
        ("NCCL_IB_GID_INDEX", "1", "warn", "link-local on mlx5_0/1"),
        ("NCCL_IB_GID_INDEX", "-1", None, ""),
        ("UCX_IB_GID_INDEX", "auto", None, ""),
        ("UCX_IB_GID_INDEX", "9", "critical", "an empty row"),
        ("MC_GID_INDEX", "9", "critical", "an empty row"),
        ("FI_VERBS_GID_IDX", "0", "warn", "RoCE v1"),
        ("NVSHMEM_IB_GID_INDEX", "3", None, ""),
        ("MORI_IB_GID_INDEX", "9", "critical", ""),
        ("MSCCLPP_IB_GID_INDEX", "9", "critical", ""),
        ("OMPI_MCA_btl_openib_gid_index", "9", "critical", ""),
        ("NCCL_IB_GID_INDEX", "three", "warn", "RoCE v1"),  # strtoll of a word is 0
        ("OMPI_MCA_btl_openib_gid_index", "three", None, ""),
    ],
)
def test_a_variable_that_names_a_row(
    variable: str, index: str, severity: str | None, words: str
) -> None:
    found = findings(with_env(**{variable: index}))
    expected = [("env-gid-index", severity)] if severity else []
    assert [(each.rule, each.severity.value) for each in found] == expected
    assert all(words in each.summary for each in found)
    assert all(f"export {variable}=3" in each.remedy for each in found)


def test_a_row_is_looked_at_on_the_ports_that_the_program_uses() -> None:
    rows = {**roce_rows("ens2f0np0", "0c:42:a1:00:00:02", "198.51.100.11")}
    moved = {0: rows[0], 1: rows[1], 5: rows[3]}
    machine = two_roce("198.51.100.11").with_port(1, 0, gids=moved)
    both = with_env(machine, NCCL_IB_GID_INDEX="3")
    assert only(both, "env-gid-index").summary.endswith("an empty row on mlx5_1/1")
    one = with_env(machine, NCCL_IB_GID_INDEX="3", NCCL_IB_HCA="=mlx5_0")
    assert said(one) == []
    but = with_env(machine, NCCL_IB_GID_INDEX="3", NCCL_IB_HCA="^mlx5_0")
    assert said(but) == [("env-gid-index", "critical")]


def test_where_nothing_better_is_there_the_row_is_not_blamed() -> None:
    machine = with_env(with_table(), NCCL_IB_GID_INDEX="1")
    assert said(machine) == [("gid-link-local-only", "warn")]


def test_infiniband_does_not_ask_for_the_row() -> None:
    assert said(with_env(infiniband_host(), NCCL_IB_GID_INDEX="7")) == []


# --- netdevs -----------------------------------------------------------------------------


def test_software_devices_in_one_subnet_are_a_note() -> None:
    assert said(soft(*VETHS)) == [("arp-flux", "info")]
    assert said(soft(*VETHS, arp_ignore=2)) == []


def test_other_subnets_and_another_arp_ignore_of_each_are_well() -> None:
    assert said(two_roce("198.51.100.11").change(arp_ignore=0)) == []
    strict = two_roce()
    quiet = tuple(replace(each, arp_ignore=1) for each in strict.netdevs)
    assert said(strict.change(arp_ignore=0, netdevs=quiet)) == []


def test_one_of_two_that_answers_for_both_is_enough() -> None:
    first, second = two_roce().netdevs
    machine = two_roce().change(arp_ignore=0, netdevs=(replace(first, arp_ignore=2), second))
    finding = only(machine, "arp-flux")
    assert [proof.subject for proof in finding.evidence if "DEVCONF" in proof.subject] == [
        "ens2f0np0 IPV4_DEVCONF_ARP_IGNORE"
    ]


def test_different_mtus_of_soft_roce_on_one_link_are_found() -> None:
    first, second = VETHS
    machine = soft(replace(first, mtu=9000), second, arp_ignore=2).with_port(0, 0, active_mtu=4096)
    finding = only(machine, "mtu-differs-in-subnet")
    assert finding.summary == "veth0 (MTU 9000) and veth1 (MTU 1500) are both in 192.0.2.0/24"
    assert finding.remedy[0] == "sudo ip link set dev veth1 mtu 9000"


@pytest.mark.parametrize(
    ("mtu", "roce"),
    [(9000, 4096), (4200, 4096), (4192, 4096), (4191, 2048), (1500, 1024), (576, 256), (300, None)],
)
def test_what_fits_a_netdevs_mtu_is_the_kernels_arithmetic(mtu: int, roce: int | None) -> None:
    assert netdevs.roce_mtu(mtu) == roce


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param({"name": "mlx5_bond_0"}, True, id="by the device's name"),
        pytest.param({}, False, id="not at all"),
    ],
)
def test_a_bond_is_known_by_its_name(names: dict[str, str], expected: bool) -> None:
    assert bool(said(roce_host().with_device(**names))) is expected


@pytest.mark.parametrize("kind", ["bond", "vlan", "bridge"])
def test_a_bond_is_known_by_the_kind_of_the_gids_netdev(kind: str) -> None:
    (netdev,) = roce_host().netdevs
    above = roce_host().change(netdevs=(replace(netdev, kind=kind),))
    enslaved = roce_host().change(
        netdevs=(replace(netdev, master="x0"), NetDev("x0", mtu=9000, kind=kind))
    )
    expected = [("bonded-ports", "info")] if kind == "bond" else []
    assert said(above) == expected
    below = [("netdev-is-bridge-port", "warn")] if kind == "bridge" else expected
    assert said(enslaved) == below


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        pytest.param(
            bonded(NetDev("eth9")),
            f"mlx5_0 is over bond7 ({NETDEV}, eth9), a bond",
            id="a NIC's one device for both legs",
        ),
        pytest.param(
            bonded(NetDev("eth9"), driver=DriverId.RXE, parent=NETDEV),
            f"mlx5_0 is on {NETDEV}, one leg of bond7 ({NETDEV}, eth9)",
            id="a software device on a leg",
        ),
        pytest.param(
            beside(bonded(NetDev("eth9")), "eth9"),
            f"mlx5_0 is on {NETDEV}, one leg of bond7 ({NETDEV}, eth9)",
            id="a device on each leg",
        ),
        pytest.param(
            beside(bonded(NetDev("eth9")), "eth8"),
            f"mlx5_0 is over bond7 ({NETDEV}, eth9), a bond",
            id="another device elsewhere",
        ),
    ],
)
def test_a_device_on_one_leg_is_no_bond_of_ports(machine: Machine, words: str) -> None:
    found = [each for each in findings(machine) if each.rule == "bonded-ports"]
    assert found[0].summary.startswith(words)


def test_the_legs_that_are_down_are_named() -> None:
    finding = only(bonded(NetDev("eth9", up=False), NetDev("eth8")), "bond-leg-down")
    assert finding.summary == "bond7, below mlx5_0, has 1 of 3 legs down: eth9"
    assert "sudo ip link set dev eth9 up" in finding.remedy


# --- virtual functions -------------------------------------------------------------------

VF = "0000:af:00.0"


def with_vf(guid: str = "0c42:a103:0000:0099", link: int = 0) -> Machine:
    """Two adapters, of which the second is a virtual function of the first."""
    machine = two_roce("198.51.100.11", physfn="0000:08:00.0")
    machine = machine.with_device(1, node_guid=guid)
    first, second = machine.devices
    vf = Vf(second.pci_address, guid=int(guid.replace(":", ""), 16), link=link)
    return machine.change(devices=(replace(first, vfs=(Vf(), vf)), second))


def test_a_virtual_function_without_a_guid_names_what_gives_it_one() -> None:
    finding = only(with_vf(guid=NO_GUID), "vf-without-guid")
    assert (finding.device, finding.severity) == ("mlx5_1", "warn")
    assert finding.summary == "mlx5_1 has no GUID: a virtual function was given none"
    assert finding.remedy == (
        f"sudo ip link set dev {NETDEV} vf 1 node_guid GUID   # 8 bytes, no other\u2019s",
        f"sudo ip link set dev {NETDEV} vf 1 port_guid GUID",
        f"echo {VF} | sudo tee /sys/bus/pci/drivers/mlx5_core/unbind",
        f"echo {VF} | sudo tee /sys/bus/pci/drivers/mlx5_core/bind",
    )


def test_in_a_virtual_machine_the_lines_are_for_its_host() -> None:
    finding = only(roce_host().with_device(node_guid=NO_GUID), "vf-without-guid")
    assert finding.summary == "mlx5_0 has no GUID: its function was given none"
    assert finding.remedy[0].startswith("# on the host that has the physical function")


def test_an_infiniband_port_that_is_down_for_want_of_a_guid_is_critical() -> None:
    machine = infiniband_host().change(devices=infiniband_host().devices[:1])
    down = machine.with_device(node_guid=NO_GUID).with_port(state=PortState.DOWN)
    assert only(down, "vf-without-guid").severity == "critical"
    assert said(down)[0][0] == "vf-without-guid"  # the cause is the answer
    initial = down.with_port(state=PortState.INIT, sm_lid=4)
    assert [each for each, _ in said(initial)] == ["vf-without-guid", "port-not-active"]
    assert "is INIT, not ACTIVE" in only(initial, "port-not-active").summary


@pytest.mark.parametrize(
    ("vfs", "expected"),
    [
        ((Vf(), Vf()), []),
        ((Vf(guid=None),), []),
        ((Vf(), Vf(guid=0)), [("vf-without-guid", "info")]),
        ((Vf(link=2), Vf(link=1)), [("vf-link-policy-down", "info")]),
        (Missing(Why.UNSUPPORTED, "none"), []),
        (Missing(Why.DENIED, "none"), [("source-failed", "unknown")]),
    ],
    ids=["well", "the driver has no GUIDs", "no GUID", "link down", "no list", "refused"],
)
def test_functions_that_nothing_here_uses_are_a_note(
    vfs: tuple[Vf, ...] | Missing, expected: list[tuple[str, str]]
) -> None:
    found = said(roce_host().with_device(vfs=vfs))
    assert [each[1] for each in found] == [each[1] for each in expected]
    assert not expected or expected[0][1] == "unknown" or found == expected


def test_a_link_that_is_set_to_down_below_a_device_here_is_a_warning() -> None:
    assert said(with_vf()) == []
    assert said(with_vf(link=2)) == [("vf-link-policy-down", "warn")]
    finding = only(with_vf(link=2), "vf-link-policy-down")
    assert (finding.device, finding.remedy) == (
        "mlx5_1",
        (f"sudo ip link set dev {NETDEV} vf 1 state auto",),
    )


LACP, NOBODY = BondData(), BondData(partner_mac="00:00:00:00:00:00")
USED, UNUSED, ELSEWHERE = LegData(), LegData(state=1), LegData(1, 0, 2)


@pytest.mark.parametrize(
    ("data", "legs", "words"),
    [
        (LACP, (USED, USED), None),
        (LACP, (USED, ELSEWHERE), "does not use 1 of 2 legs that have a link: eth9 (in another"),
        (LACP, (USED, UNUSED), "eth9 (LACP has not agreed)"),
        (NOBODY, (USED, ELSEWHERE), "eth9 (no LACP partner)"),
        (NOBODY, (USED,), None),
        (LACP, (USED, LegData(mii=3)), None),
        (LACP, (USED, LegData(1, 2, 2)), "eth9 (down for the bond's own monitor)"),
        (BondData(mode=1), (USED, UNUSED), None),
        (BondData(mode=1), (USED, LegData(1, 2)), "eth9 (down for the bond's own monitor)"),
        (BondData(mode=0), (USED, USED, LegData(0, 2)), "1 of 3 legs that have a link: eth10"),
        (BondData(aggregator=None), (USED, LegData(aggregator=None)), None),
    ],
    ids=[
        "both are used",
        "in another aggregator",
        "in the aggregator, and not agreed",
        "nobody answers LACP",
        "nobody answers, and there is one leg",
        "its updelay has not passed",
        "LACP, down for the monitor",
        "a backup is meant to wait",
        "a backup that would not do",
        "round robin",
        "aggregators that are not known",
    ],
)
def test_a_leg_with_a_link_that_its_bond_does_not_use(
    data: BondData, legs: tuple[LegData, ...], words: str | None
) -> None:
    machine = driven(data, *legs)
    assert bond_findings(machine) == ([("bond-leg-lost", "warn")] if words else [])
    assert (("bonded-ports", "info") in said(machine)) is (words is None)
    if words:
        assert words in only(machine, "bond-leg-lost").summary


def test_a_leg_without_carrier_is_not_said_twice() -> None:
    machine = driven(LACP, USED, LegData(1, 2, 2))
    bond, own, other = machine.netdevs
    down = machine.change(netdevs=(bond, own, replace(other, up=False)))
    assert bond_findings(down) == [("bond-leg-down", "warn")]


@pytest.mark.parametrize("policy", range(6))
@pytest.mark.parametrize("mode", range(7))
def test_a_policy_without_ports_sends_by_one_leg_where_the_mode_has_a_policy(
    mode: int, policy: int
) -> None:
    """layer2, layer2+3, encap2+3 and vlan+srcmac; of balance-xor and 802.3ad."""
    found = bond_findings(driven(BondData(mode=mode, hash_policy=policy), USED, USED))
    one_leg = mode in (2, 4) and policy in (0, 2, 3, 5)
    assert found == ([("bond-hash-one-leg", "info")] if one_leg else [])


def test_a_device_on_one_leg_of_a_bond_has_no_policy() -> None:
    machine = driven(BondData(hash_policy=0), USED, USED).with_device(
        driver=DriverId.RXE, parent=NETDEV
    )
    assert bond_findings(machine) == [("soft-roce-on-other-netdev", "critical")]


def test_an_older_record_says_nothing_of_the_driver() -> None:
    evidence = driven(LACP, USED, ELSEWHERE).evidence()
    assert not isinstance(evidence.netdev, Missing)
    old = replace(evidence.netdev, bonds=NOT_IN_RECORD)
    assert said(replace(evidence, netdev=old)) == [("bonded-ports", "info")]
    unread = replace(evidence.netdev, bonds=Missing(Why.MALFORMED, "torn"))
    assert "bond-leg-lost" not in dict(said(replace(evidence, netdev=unread)))


def test_a_full_rdma_cgroup_is_named_where_open_says_eagain() -> None:
    evidence = roce_host().evidence()
    assert not isinstance(evidence.verbs, Missing)
    (device,) = evidence.verbs.devices
    for number, name, expected in ((11, "EAGAIN", True), (16, "EBUSY", False)):
        failure = VerbsFailure("ibv_open_device", device.name, None, number, name)
        verbs = replace(evidence.verbs, failures=(failure,))
        finding = only(replace(evidence, verbs=verbs), "device-open-failed")
        assert ("rdma cgroup" in finding.summary) is expected
        assert ("rdma.max" in finding.remedy[0]) is expected


# --- speed -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "slot", "severity", "words"),
    [
        (("16.0 GT/s PCIe", "8"), ("16.0 GT/s PCIe", "16"), "warn", "16 GT/s x8 of 16 GT/s x16"),
        (("2.5 GT/s PCIe", "16"), ("16.0 GT/s PCIe", "16"), "warn", "perhaps power saving"),
        (("16.0 GT/s PCIe", "8"), ("16.0 GT/s PCIe", "8"), "info", "all that its slot has"),
        (("8.0 GT/s PCIe", "16"), ("8.0 GT/s PCIe", "16"), "info", "all that its slot has"),
        (("8.0 GT/s PCIe", "8"), ("8.0 GT/s PCIe", "16"), "warn", "8 GT/s x8"),
        (("8.0 GT/s PCIe", "8"), ("Unknown", "255"), "warn", "the slot may be the limit"),
        (("Unknown", "0"), ("16.0 GT/s PCIe", "16"), None, ""),
    ],
)
def test_a_pci_link_below_its_maximum(
    link: tuple[str, str], slot: tuple[str, str], severity: str | None, words: str
) -> None:
    found = findings(roce_host().with_device(link=link, slot=slot))
    expected = [("pcie-link-degraded", severity)] if severity else []
    assert [(each.rule, each.severity.value) for each in found] == expected
    assert all(words in each.summary for each in found)


def test_two_functions_of_one_card_share_the_finding() -> None:
    machine = two_roce("198.51.100.11", link=("8.0 GT/s PCIe", "16")).with_device(
        0, link=("8.0 GT/s PCIe", "16"), pci_address="0000:af:00.1"
    )
    assert said(machine) == [("pcie-link-degraded", "warn")]


def test_one_lane_of_ethernet_is_well() -> None:
    assert said(roce_host().with_port(rate="25 Gb/sec (1X EDR)")) == []


def test_with_an_adapter_near_the_far_one_is_a_note() -> None:
    finding = only(bound("0-15", on_two_nodes()), "numa-remote")
    assert (finding.severity.value, finding.device) == ("info", "mlx5_1")
    assert finding.remedy == ("numactl -N 1 -m 1 PROGRAM   # near mlx5_1",)
    assert (
        only(bound("40-47", on_two_nodes().change(cpus_online="0-47")), "numa-remote").device
        is None
    )


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(bound("0-31"), id="not bound"),
        pytest.param(bound("0-127"), id="more allowed than are online"),
        pytest.param(bound("16-31").with_device(numa_node=-1), id="no node known"),
        pytest.param(bound("0-7,24-31"), id="some near"),
        pytest.param(bound("16-31").change(cpus_online="16-31"), id="the others are offline"),
    ],
)
def test_a_process_that_is_not_bound_away_is_well(machine: Machine) -> None:
    assert said(machine) == []


@pytest.mark.parametrize(
    ("whole", "part", "expected"),
    [
        ("0-31", "0-31", True),
        ("0-15,16-31", "8-23", True),
        ("0-15,17-31", "8-23", False),
        ("16-31", "0", False),
        ("0-3", "", True),
    ],
)
def test_lists_of_cpus_cover_each_other(whole: str, part: str, expected: bool) -> None:
    assert speed.covers(speed.spans(whole), speed.spans(part)) is expected


@pytest.mark.parametrize("text", ["", "x", "0-", "²", "9" * 5000, f"0-{'9' * 5000}"])
def test_what_is_no_list_of_cpus_spans_none(text: str) -> None:
    assert speed.spans(text) == []


# --- GPUs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "kernel", "severity", "words"),
    [
        ({"peermem": None}, "6.8.0", None, ""),
        ({"peermem": None, "memory_peers": None}, "6.8.0-40-generic", "info", "DMA-BUF may serve"),
        ({"peermem": None, "memory_peers": ()}, "5.11.0", "warn", "seems not to be possible"),
        ({"peermem": None, "memory_peers": None, "open_driver": False}, "6.8.0", "warn", ""),
        ({"memory_peers": (), "open_driver": False}, "6.8.0", "warn", "has not registered"),
        ({"memory_peers": None, "open_driver": False}, "6.8.0", None, ""),
    ],
    ids=str,
)
def test_a_gpus_memory(
    changes: dict[str, Any], kernel: str, severity: str | None, words: str
) -> None:
    found = findings(with_gpu(**changes).change(kernel=kernel))
    expected = [("gpu-memory-unreachable", severity)] if severity else []
    assert [(each.rule, each.severity.value) for each in found] == expected
    assert all(words in each.summary for each in found)


def judged_gdr(evidence: Evidence, stack: str = "") -> list[tuple[str, str]]:
    found = judge(evidence, (), chosen([stack]) if stack else ()).findings
    return [(each.rule, each.severity.value) for each in found if each.rule == "gdr-version-gap"]


@pytest.mark.parametrize(
    ("changes", "version", "severity"),
    [
        (NO_FOLDER, "2.22.3", "warn"),
        (NO_FOLDER, "2.23.4", None),
        (NO_FOLDER, Missing(Why.ABSENT, "the name has no version"), None),
        ({"memory_peers": ("amd",), "open_driver": False}, "2.21.5", "warn"),
        ({"memory_peers": ("nv_mem_nc",), "open_driver": False}, "2.21.5", None),
        ({**NO_FOLDER, "peermem": None}, "2.21.5", None),  # gpu-memory-unreachable's
        ({**NO_FOLDER, "open_driver": True}, "2.21.5", "info"),
        ({**NO_FOLDER, "open_driver": True}, "2.12.12", "warn"),  # DMA-BUF since 2.13
        ({**NO_FOLDER, "functions": ()}, "2.21.5", None),
    ],
    ids=str,
)
def test_a_version_of_nccl_that_does_not_see_nvidia_peermem(
    changes: dict[str, Any], version: str | Missing, severity: str | None
) -> None:
    expected = [("gdr-version-gap", severity)] if severity else []
    assert judged_gdr(mapping(version, with_gpu(**changes).change(kernel="6.8.0"))) == expected


@pytest.mark.parametrize(
    ("stack", "severity"),
    [
        ("nccl@2.21.5", "warn"),
        ("nccl@2.18", "warn"),
        ("nccl@2.22.3", None),  # the range of one policy, which reaches to 2.26.1
        ("nccl@2.27", None),
        ("ucx@1.15", None),
    ],
)
def test_the_version_of_stack_counts_where_it_is_certainly_older(
    stack: str, severity: str | None
) -> None:
    expected = [("gdr-version-gap", severity)] if severity else []
    machine = with_gpu(**NO_FOLDER).change(kernel="6.8.0")
    assert judged_gdr(machine.evidence(), stack) == expected


def test_without_a_version_nothing_is_said_of_it() -> None:
    assert judged_gdr(with_gpu(**NO_FOLDER).evidence()) == []


@pytest.mark.parametrize(
    ("why", "status"), [(Why.TIMEOUT, "unknown"), (Why.DENIED, "ok"), (Why.ABSENT, "ok")]
)
def test_mappings_that_could_not_be_read_are_unknown_but_for_an_ordinary_user(
    why: Why, status: str
) -> None:
    evidence = replace(with_gpu().evidence(), libraries=Missing(why, "/proc/4711/maps"))
    verdict = judge(evidence)
    assert {each.rule for each in verdict.findings} <= {"source-failed"}
    assert verdict.status == status


def test_gpus_beside_software_devices_are_no_finding() -> None:
    assert said(soft(VETHS[0], gpu=Gpu(peermem=None, memory_peers=None, open_driver=False))) == []


def test_the_link_modes_of_a_slow_port_are_looked_at_by_ethtool() -> None:
    slow = two_roce("198.51.100.11").with_port(1, 0, rate="50 Gb/sec (2X EDR)")
    assert "ethtool ens2f0np0   #" in "\n".join(only(slow, "rate-below-siblings").remedy)
    infiniband = infiniband_host().with_port(1, 0, rate="100 Gb/sec (4X EDR)")
    assert "ethtool" not in "\n".join(only(infiniband, "rate-below-siblings").remedy)


# --- the kernel's log --------------------------------------------------------------------

DOWN, UP = f"{PCI} {NETDEV}: Link down", f"{PCI} {NETDEV}: Link up"
TIMEOUT = "wait_func: ACCESS_REG(0x805) timeout. Will cause a leak of a command resource"
SICK = f"{PCI}: poll_health:801:(pid 0): Fatal error 1 detected"


def test_a_driver_that_recovered_is_a_warning() -> None:
    machine = logged(SICK, f"{PCI}: health recovery succeeded")
    assert said(machine) == [("device-unhealthy-in-log", "warn")]
    assert said(logged(f"{PCI}: health recovery succeeded", SICK)) == [
        ("device-unhealthy-in-log", "critical")
    ]


@pytest.mark.parametrize(
    "message",
    [
        f"{PCI}: {TIMEOUT}",
        f"{PCI}: mlx5_handle_bad_state:120:(pid 4): health_care: handling bad device here",
        "bnxt_en 0000:08:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction",
    ],
    ids=["a firmware command", "a bad device", "a fatal PCIe error"],
)
def test_other_words_of_a_device_that_is_unhealthy(message: str) -> None:
    assert said(logged(message)) == [("device-unhealthy-in-log", "critical")]


def test_a_device_that_failed_and_is_gone_is_named_by_its_address() -> None:
    evidence = lost_function(logged(SICK.replace("08:00.0", "09:00.0")).evidence())
    finding = only(evidence, "device-unhealthy-in-log")
    assert finding.summary.startswith("PCI 0000:09:00.0: ")
    assert finding.device is None


@pytest.mark.parametrize(
    ("message", "severity"),
    [
        pytest.param("health issue observed, firmware internal error, severity(3) ERROR:", "warn"),
        pytest.param("Health issue observed, High temperature, severity(4) WARNING:", "none"),
        pytest.param("health recovery flow aborted, PCI reads still not working", "warn"),
    ],
    ids=["an error", "no error", "the recovery failed"],
)
def test_an_adapter_that_has_left_the_bus_is_named_beside_the_selected_ones(
    message: str, severity: str
) -> None:
    machine = two_roce("198.51.100.11").change(kernel_log=(f"mlx5_core 0000:99:00.0: {message}",))
    found = [each for each in findings(machine, "mlx5_1") if each.rule.startswith("device-unheal")]
    assert [each.severity for each in found] == ([severity] if severity == "warn" else [])
    assert all(each.device is None and "PCI 0000:99:00.0" in each.summary for each in found)


def test_an_adapter_whose_driver_may_carry_no_rdma_is_not_spoken_of() -> None:
    assert said(logged("i40e 0000:99:00.0: health recovery failed")) == []


def test_an_adapter_that_is_gone_went_down_once_without_flapping() -> None:
    gone = "mlx5_core 0000:99:00.0 ens9np0: Link"
    assert said(logged(f"{gone} down")) == []
    again = only(logged(f"{gone} down", f"{gone} up", f"{gone} down"), "link-flaps-in-log")
    assert (again.device, again.severity) == (None, "warn")
    assert "2 times" in again.summary


@pytest.mark.parametrize(
    ("messages", "flaps"),
    [
        pytest.param([DOWN, UP], 1, id="down and up again"),
        pytest.param([UP, DOWN, UP, DOWN, UP], 2, id="twice"),
        pytest.param([UP], 0, id="up alone"),
        pytest.param([f"{NETDEV}: NIC Link is Down"], 1, id="by the netdev's name"),
        pytest.param(["infiniband mlx5_0: Link down"], 1, id="by the device's name"),
        pytest.param([f"{PCI}: Port module event: module 0, Cable unplugged"], 1, id="a cable"),
        pytest.param(["igb 0000:03:00.0 eth7: igb: eth7 NIC Link is Down"], 0, id="another's"),
    ],
)
def test_links_that_went_down(messages: list[str], flaps: int) -> None:
    found = findings(logged(*messages))
    assert [each.rule for each in found] == (["link-flaps-in-log"] if flaps else [])
    times = {1: "once", 2: "2 times"}
    assert all(times[flaps] in each.summary for each in found)


def test_a_link_that_comes_up_while_the_host_starts_is_no_flap() -> None:
    evidence = logged(DOWN, UP).evidence()
    log = evidence.kernel_log
    assert not isinstance(log, Missing)
    assert not isinstance(log.lines, Missing)
    early = tuple(replace(line, seconds=12.5) for line in log.lines)
    assert said(replace(evidence, kernel_log=replace(log, lines=early))) == []


def test_a_port_that_is_down_has_the_finding_on_its_link_alone() -> None:
    machine = logged(DOWN).with_port(state=PortState.DOWN)
    assert "link-flaps-in-log" not in dict(said(machine))


def test_flaps_in_the_log_say_more_than_a_number() -> None:
    netdev = replace(roce_host().netdevs[0], carrier_changes=400)
    assert said(logged(DOWN, UP, netdevs=(netdev,))) == [("link-flaps-in-log", "warn")]


def test_lines_are_shown_as_dmesg_prints_them_and_the_last_three_alone() -> None:
    finding = only(logged(*[DOWN] * 5), "link-flaps-in-log")
    assert [proof.value for proof in finding.evidence] == [
        f"[ {1000 + at}.000000] {DOWN}" for at in (2, 3, 4)
    ]


def test_lines_on_a_device_that_was_not_selected_are_left_out() -> None:
    machine = two_roce("198.51.100.11").change(kernel_log=(SICK,))
    assert said(machine, "mlx5_1") == []
    assert said(machine, "mlx5_0") == [("device-unhealthy-in-log", "critical")]


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
