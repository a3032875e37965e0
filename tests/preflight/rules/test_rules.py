"""Every rule: a healthy machine and one change give its finding, and nothing else does."""

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from lab.machine import Machine, MemoryTree
from lab.netdevs import NetDev
from lab.rdma_devices import V2, Device, GidRow, Port, roce_rows
from lab.samples import infiniband_host, roce_host
from rdmadiag.explain.causes import CAUSES
from rdmadiag.facts import Missing, UverbsEntry, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import DriverId, LinkLayer, NetnsMode, PhysState, PortState
from rdmadiag.host.recorded import SnapshotHost
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.rules import CATALOGUE
from rdmadiag.preflight.verdict import Finding, Severity
from rdmadiag.sources.run import gather
from rdmadiag.view.reconcile import devices
from rdmadiag.view.select import Selector

MIB = 1024 * 1024


def two_port_roce() -> Machine:
    mac = "0c:42:a1:00:00:02"
    base = roce_host()
    second = replace(
        base.devices[0].ports[0],
        gids=roce_rows("ens1f1np1", mac, "198.51.100.7"),
        netdev="ens1f1np1",
    )
    device = replace(base.devices[0], ports=(base.devices[0].ports[0], second))
    return base.change(devices=(device,), netdevs=(*base.netdevs, NetDev("ens1f1np1", mac=mac)))


def findings(subject: Machine | Evidence, *names: str) -> list[Finding]:
    evidence = subject.evidence() if isinstance(subject, Machine) else subject
    return list(judge(evidence, tuple(Selector(name) for name in names)).findings)


def said(subject: Machine | Evidence, *names: str) -> list[tuple[str, str]]:
    return [(each.rule, each.severity.value) for each in findings(subject, *names)]


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(roce_host(), id="a RoCE host"),
        pytest.param(infiniband_host(), id="an InfiniBand host"),
        pytest.param(two_port_roce(), id="a RoCE host with two ports"),
    ],
)
def test_a_healthy_host_gives_no_finding(machine: Machine) -> None:
    assert said(machine) == []


DOWN = {"state": PortState.DOWN, "phys": PhysState.DISABLED}
UNCABLED = {"state": PortState.DOWN, "phys": PhysState.POLLING}
UNMANAGED = {"state": PortState.INIT, "lid": 0, "sm_lid": 0}
NETDEV = "ens1f0np0"
PLAIN_USER = {"uid": 1000, "capabilities": 0}


def down_netdev(machine: Machine) -> Machine:
    netdevs = tuple(replace(each, up=False) for each in machine.netdevs)
    return machine.change(netdevs=netdevs)


def bare(machine: Machine, *without: str) -> Evidence:
    """sysfs alone, and no file of these names in it."""
    files = {
        path.removeprefix("/"): content.encode()
        for path, content in machine.sysfs_files().items()
        if not path.endswith(without)
    }
    return gather(SnapshotHost(MemoryTree(files), "bare"), time.monotonic() + 60)


def elsewhere(**netdev: Any) -> Machine:
    """A port whose netdev is another namespace's, beside a netdev here of the same name."""
    own = NetDev(NETDEV, addresses=("203.0.113.1/24",), **({"mac": "02:00:00:00:00:01"} | netdev))
    return roce_host().with_port(netdev=None).change(netdevs=(own,))


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        pytest.param(
            infiniband_host().with_port(0, 0, **UNMANAGED).with_port(1, 0, **UNMANAGED),
            [("no-subnet-manager", "critical")] * 2,
            id="ports in INIT with SM LID 0 wait for a subnet manager",
        ),
        pytest.param(
            infiniband_host().with_port(0, 0, state=PortState.INIT, lid=0, sm_lid=1),
            [("port-not-active", "warn")],
            id="a port in INIT that knows its subnet manager is just not active",
        ),
        pytest.param(
            infiniband_host().with_port(0, 0, state=PortState.ARMED),
            [("port-not-active", "warn")],
            id="ARMED is not ACTIVE",
        ),
        pytest.param(
            infiniband_host().with_port(0, 0, **UNCABLED),
            [("link-not-up", "warn")],
            id="one idle port beside an active one may be unused",
        ),
        pytest.param(
            infiniband_host().with_port(0, 0, **UNCABLED).with_port(1, 0, **UNCABLED),
            [("link-not-up", "critical")] * 2,
            id="no port at all is critical",
        ),
        pytest.param(
            down_netdev(roce_host().with_port(**DOWN)),
            [("link-not-up", "critical")],
            id="a netdev that is down is one finding, that of the link",
        ),
        pytest.param(
            down_netdev(roce_host()),
            [("route-netdev-down", "critical")],
            id="a port that says ACTIVE over a netdev that is down",
        ),
        pytest.param(
            roce_host().change(netdevs=()),
            [("route-netdev-absent", "warn")],
            id="GIDs whose netdev is in another namespace, where the kernel routes",
        ),
        pytest.param(
            roce_host().change(netdevs=(), netns_mode=None),
            [("route-netdev-absent", "critical")],
            id="the same on a kernel that does not",
        ),
        pytest.param(
            bare(infiniband_host(), "link_layer", "node_type"),
            [("link-layer-unreadable", "unknown")] * 2 + [("source-not-collected", "info")],
            id="a copied tree without what tells InfiniBand from RoCE",
        ),
        pytest.param(
            bare(roce_host().with_device(node_type="4: RNIC"), "link_layer"),
            [("iwarp-device", "info"), ("source-not-collected", "info")],
            id="a copied tree of iWARP without its link layer: no LID is missed",
        ),
        pytest.param(
            elsewhere(up=False),
            [("route-netdev-absent", "warn")],
            id="a netdev here that is down and has the name of the other",
        ),
        pytest.param(
            elsewhere(mtu=9000),
            [("route-netdev-absent", "warn")],
            id="a netdev here that is up and has the name of the other",
        ),
        pytest.param(
            roce_host().with_port(gids={}),
            [("no-usable-gid", "critical")],
            id="an ACTIVE RoCE port with an empty GID table",
        ),
        pytest.param(
            roce_host().with_port(nldev_state=PortState.DOWN),
            [("state-disagreement", "unknown")],
            id="active for sysfs and down for nldev",
        ),
        pytest.param(
            roce_host().change(nodes={}),
            [("uverbs-node-missing", "critical")],
            id="no /dev/infiniband",
        ),
        pytest.param(
            roce_host().change(nodes={"rdma_cm": 0o666}),
            [("uverbs-node-missing", "critical")],
            id="rdma_cm in /dev/infiniband and no uverbs node",
        ),
        pytest.param(
            roce_host().with_device(uverbs=None),
            [("uverbs-node-missing", "critical")],
            id="ib_uverbs not loaded",
        ),
        pytest.param(
            roce_host().change(nodes={"uverbs0": 0o000}, openable=False),
            [("uverbs-node-not-openable", "critical")],
            id="a node that this user may not open",
        ),
        pytest.param(
            roce_host().change(libraries=False),
            [("verbs-library-missing", "critical")],
            id="no libibverbs",
        ),
        pytest.param(
            roce_host().with_device(driver=DriverId.ERDMA),
            [("provider-library-missing", "critical")],
            id="libibverbs without the provider for this driver",
        ),
        pytest.param(
            roce_host().change(memlock=str(64 * 1024), **PLAIN_USER),
            [("memlock-too-low", "critical")],
            id="64 KiB of locked memory",
        ),
        pytest.param(
            roce_host().change(memlock=str(8 * MIB), **PLAIN_USER),
            [("memlock-too-low", "warn")],
            id="8 MiB of locked memory",
        ),
        pytest.param(
            roce_host().change(memlock=str(64 * MIB), **PLAIN_USER), [], id="64 MiB are enough"
        ),
        pytest.param(
            roce_host().change(memlock=str(64 * 1024)),
            [("memlock-too-low", "warn")],
            id="64 KiB under CAP_IPC_LOCK bind the user's programs only",
        ),
        pytest.param(
            roce_host().change(memlock=str(8 * MIB)),
            [("memlock-too-low", "info")],
            id="8 MiB under CAP_IPC_LOCK are worth a note",
        ),
    ],
)
def test_one_change_gives_one_finding(machine: Machine, expected: list[tuple[str, str]]) -> None:
    assert said(machine) == expected


def test_a_port_that_was_asked_for_is_critical_when_idle() -> None:
    machine = infiniband_host().with_port(0, 0, **UNCABLED)
    assert said(machine, "mlx5_0") == [("link-not-up", "critical")]
    assert said(machine, "mlx5_1") == []


def test_a_down_netdev_is_named_with_the_command_that_brings_it_up() -> None:
    (finding,) = findings(down_netdev(roce_host().with_port(**DOWN)))
    assert finding.summary.endswith("its netdev ens1f0np0 is administratively down")
    assert finding.remedy == ("sudo ip link set dev ens1f0np0 up",)


def test_a_netdev_without_carrier_points_to_the_cable() -> None:
    evidence = roce_host().with_port(**DOWN).evidence()
    assert not isinstance(evidence.netdev, Missing)
    (netdev,) = evidence.netdev.netdevs
    unplugged = replace(netdev, carrier=False, operstate="down")
    (finding,) = findings(replace(evidence, netdev=replace(evidence.netdev, netdevs=(unplugged,))))
    assert "has no carrier" in finding.summary
    assert any(line.startswith("ethtool ens1f0np0") for line in finding.remedy)


def test_the_remedy_of_a_disabled_infiniband_port_enables_it() -> None:
    (finding, _) = findings(infiniband_host().with_port(0, 0, **DOWN).with_port(1, 0, **DOWN))
    assert "sudo ibportstate -C mlx5_0 -P 1 -D 0 1 enable" in finding.remedy


def test_a_roce_port_without_link_and_netdev_still_gets_a_look() -> None:
    (finding,) = findings(roce_host().with_port(**DOWN).change(netdevs=()))
    assert (finding.rule, finding.severity) == ("link-not-up", Severity.CRITICAL)
    assert finding.remedy[0] == "rdma link show mlx5_0/1"


def test_a_container_has_remedies_of_its_own() -> None:
    machine = roce_host().change(
        nodes={}, container="/.dockerenv", memlock=str(8 * MIB), **PLAIN_USER
    )
    node, memlock = findings(machine)
    assert node.remedy[0].startswith("docker run --device=/dev/infiniband")
    assert memlock.remedy[-1].startswith("docker run --ulimit memlock=-1")


def test_raising_the_limit_is_offered_where_the_hard_limit_allows_it() -> None:
    evidence = roce_host().change(memlock=str(8 * MIB), **PLAIN_USER).evidence()
    assert not isinstance(evidence.process, Missing)
    assert not isinstance(evidence.process.memlock, Missing)
    for hard, command in (("unlimited", "ulimit -l unlimited"), (128 * MIB, "ulimit -l 131072")):
        limit = replace(evidence.process.memlock, hard=hard)
        process = replace(evidence.process, memlock=limit)
        (finding,) = findings(replace(evidence, process=process))
        assert finding.remedy[0] == command


def test_capabilities_of_a_user_namespace_do_not_lift_the_limit() -> None:
    evidence = roce_host().change(memlock=str(64 * 1024)).evidence()
    assert not isinstance(evidence.process, Missing)
    process = replace(evidence.process, initial_userns=False)
    assert said(replace(evidence, process=process)) == [("memlock-too-low", "critical")]


def test_a_limit_that_cannot_be_read_is_unknown_not_fine() -> None:
    evidence = roce_host().evidence()
    assert not isinstance(evidence.process, Missing)
    process = replace(evidence.process, memlock=Missing(Why.DENIED, "EACCES"))
    assert said(replace(evidence, process=process)) == [("memlock-too-low", "unknown")]


def test_a_software_device_with_a_default_gid_alone_cannot_send() -> None:
    # rxe keeps its EUI-64 GID when its netdev has no address: captured tables show RTR to fail.
    netdev = NetDev("veth0", mac="08:00:27:2e:f7:a5")
    rows = {0: GidRow("fe80::a00:27ff:fe2e:f7a5", V2, "veth0")}
    port = Port(gids=rows, netdev="veth0", gid_table_length=1024)
    device = Device("rxe0", (port,), driver=DriverId.RXE, parent="veth0")
    (finding,) = findings(Machine("rxe", (device,), (netdev,)))
    assert finding.rule == "no-usable-gid"
    assert "veth0 does not have that address" in finding.summary
    assert "sudo ip address add ADDRESS/PREFIX dev veth0" in finding.remedy


def test_hardware_with_a_default_gid_alone_is_not_called_mute() -> None:
    machine = roce_host().with_port(gids=roce_rows(NETDEV, "0c:42:a1:00:00:01"))
    bare = machine.change(netdevs=(NetDev(NETDEV, mac="0c:42:a1:00:00:01"),))
    assert said(bare) == [("gid-link-local-only", "warn")]


def with_sysfs(evidence: Evidence, **changes: object) -> Evidence:
    assert not isinstance(evidence.sysfs, Missing)
    return replace(evidence, sysfs=replace(evidence.sysfs, **changes))  # type: ignore[arg-type]


def with_process(evidence: Evidence, **changes: object) -> Evidence:
    assert not isinstance(evidence.process, Missing)
    return replace(evidence, process=replace(evidence.process, **changes))  # type: ignore[arg-type]


def no_device(**changes: object) -> Evidence:
    """A healthy host whose adapter is there and whose RDMA device is not."""
    evidence = roce_host().evidence()
    assert not isinstance(evidence.nldev, Missing)
    gone = with_sysfs(evidence, devices=(), uverbs=())
    gone = replace(gone, nldev=replace(evidence.nldev, devices=()))
    gone = replace(gone, verbs=replace(evidence.verbs, devices=()))  # type: ignore[type-var]
    return with_process(gone, **changes) if changes else gone


UNTOLD = Missing(Why.UNSUPPORTED, "RDMA_NLDEV_SYS_ATTR_NETNS_MODE")
SERVED = UverbsEntry("uverbs7", "mlx5_7", "231:199", 1)


def with_mode(evidence: Evidence, mode: NetnsMode | Missing) -> Evidence:
    assert not isinstance(evidence.nldev, Missing)
    return replace(evidence, nldev=replace(evidence.nldev, netns_mode=mode))


def function(driver: str | None, **changes: object) -> Evidence:
    evidence = no_device()
    assert not isinstance(evidence.sysfs, Missing)
    (candidate,) = evidence.sysfs.candidates  # type: ignore[misc]
    named = Missing(Why.ABSENT, "ENOENT") if driver is None else driver
    evidence = with_sysfs(evidence, candidates=(replace(candidate, driver=named),))
    return with_process(evidence, **changes) if changes else evidence


@pytest.mark.parametrize(
    ("evidence", "words", "command"),
    [
        pytest.param(
            with_sysfs(no_device(), candidates=()),
            "no PCI function known to an RDMA driver",
            "lspci",
            id="no hardware",
        ),
        pytest.param(
            with_sysfs(no_device(), candidates=Missing(Why.DENIED, "EACCES")),
            "the PCI functions could not be read",
            "lspci",
            id="PCI not readable",
        ),
        pytest.param(
            no_device(modules=("ib_core",)),
            "module mlx5_ib is not loaded for PCI 0000:08:00.0 (mlx5_core)",
            "sudo modprobe mlx5_ib",
            id="the RDMA half of the driver not loaded",
        ),
        pytest.param(
            function("ice", modules=("ib_core",)),
            "if that function carries RDMA at all",
            "sudo modprobe irdma",
            id="a driver whose cards may or may not carry RDMA",
        ),
        pytest.param(
            function("vfio-pci"),
            "PCI 0000:08:00.0 is bound to vfio-pci, not to an RDMA driver",
            "lspci -k -s 0000:08:00.0",
            id="passed through to a virtual machine",
        ),
        pytest.param(
            function(None),
            "PCI 0000:08:00.0 (0x15b3) has no driver bound",
            "lspci -k -s 0000:08:00.0",
            id="no driver",
        ),
        pytest.param(
            no_device(),
            "none was registered for PCI 0000:08:00.0 (mlx5_core)",
            "sudo dmesg",
            id="loaded, and no device came of it",
        ),
        pytest.param(
            no_device(modules=Missing(Why.DENIED, "EACCES")),
            "none was registered",
            "sudo dmesg",
            id="modules not readable: no claim that one is missing",
        ),
        pytest.param(
            with_mode(no_device(modules=()), NetnsMode.SHARED),
            "none was registered",
            "sudo dmesg",
            id="RDMA built into the kernel: no claim that a module is missing",
        ),
        pytest.param(
            with_mode(with_sysfs(no_device(modules=()), candidates=()), NetnsMode.EXCLUSIVE),
            "exclusive netns mode; another network namespace may have a device",
            "rdma system show",
            id="exclusive netns mode, RDMA built into the kernel",
        ),
        pytest.param(
            with_mode(with_sysfs(no_device(), uverbs=(SERVED,)), NetnsMode.EXCLUSIVE),
            "exclusive netns mode; another network namespace has mlx5_7",
            "rdma system show",
            id="exclusive netns mode, and a character device of another namespace's",
        ),
        pytest.param(
            with_mode(no_device(initial_netns=False), NetnsMode.SHARED),
            "none was registered",
            "sudo dmesg",
            id="another network namespace, which sees all devices",
        ),
        pytest.param(
            with_mode(no_device(initial_netns=False), UNTOLD),
            "not in the initial network namespace",
            "sudo nsenter -t 1 -n rdma dev",
            id="another network namespace",
        ),
        pytest.param(
            with_mode(with_sysfs(no_device(initial_netns=False), candidates=()), UNTOLD),
            "not in the initial network namespace",
            "sudo nsenter -t 1 -n rdma dev",
            id="another network namespace without PCI",
        ),
        pytest.param(
            with_sysfs(no_device(modules=("siw",)), candidates=()),
            "siw is loaded and no link was added",
            "sudo rdma link add siw0 type siw",
            id="a software driver without a link",
        ),
    ],
)
def test_no_device_names_the_missing_step(evidence: Evidence, words: str, command: str) -> None:
    (finding,) = findings(evidence)
    assert (finding.rule, finding.severity) == ("no-rdma-device", Severity.UNKNOWN)
    assert words in finding.summary
    assert finding.remedy[0].startswith(command)


def test_whose_a_netdev_of_that_name_is_cannot_be_known_without_nldevs_ports() -> None:
    evidence = elsewhere(mtu=9000).evidence()
    assert not isinstance(evidence.nldev, Missing)
    late = replace(evidence.nldev.devices[0], ports=Missing(Why.TIMEOUT, "late"))
    nldev = replace(evidence.nldev, devices=(late, *evidence.nldev.devices[1:]))
    verdict = judge(replace(evidence, nldev=nldev))
    assert ("route-netdev-absent", "netdevs of GIDs") in {
        (each.rule, each.need) for each in verdict.skipped
    }
    assert verdict.status == "unknown"


def test_whether_the_kernel_routes_in_another_namespace_is_unknown_without_nldev() -> None:
    evidence = roce_host().change(netdevs=()).evidence()
    verdict = judge(replace(evidence, nldev=Missing(Why.TIMEOUT)))
    assert ("route-netdev-absent", Severity.UNKNOWN) in {
        (each.rule, each.severity) for each in verdict.findings
    }
    assert verdict.ports[0].reasons == ("route_netdev_unknown",)


@pytest.mark.parametrize("machine", [elsewhere(up=False), down_netdev(roce_host())])
def test_less_evidence_of_namespaces_is_no_graver_finding(machine: Machine) -> None:
    evidence = machine.evidence()
    full = {each.rule: each.severity for each in judge(evidence).findings}
    for lacking in ({"nldev"}, {"netdev"}, {"nldev", "netdev"}, {"nldev", "netdev", "process"}):
        missing = dict.fromkeys(lacking, Missing(Why.TIMEOUT))
        for each in judge(replace(evidence, **missing)).findings:
            graver = each.severity is Severity.CRITICAL
            assert not graver or full.get(each.rule) is Severity.CRITICAL, (lacking, each.rule)


def vlan_host(*here: str) -> Machine:
    """A port with an address on each of two VLANs, of which `here` are in this namespace."""
    rows = {
        0: GidRow("fe80::e42:a1ff:fe00:1", V2, NETDEV),
        1: GidRow("::ffff:192.0.2.10", V2, "ens1f0np0.43"),
        2: GidRow("::ffff:198.51.100.10", V2, "ens1f0np0.44"),
    }
    base = roce_host()
    return base.with_port(gids=rows).change(
        netdevs=(
            replace(base.netdevs[0], addresses=()),
            *(NetDev(name, kind="vlan", lower=NETDEV) for name in here),
        )
    )


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        pytest.param(["ens1f0np0.43", "ens1f0np0.44"], [], id="both are here"),
        pytest.param(["ens1f0np0.43"], [], id="the first is here"),
        pytest.param(["ens1f0np0.44"], [("route-fallback", "warn")], id="the second alone is"),
        pytest.param([], [("route-fallback", "warn")], id="none: link-local is left"),
    ],
)
def test_falling_back_to_a_lesser_gid_is_found(
    here: list[str], expected: list[tuple[str, str]]
) -> None:
    assert said(vlan_host(*here)) == expected
    for finding in findings(vlan_host(*here)):
        assert "ens1f0np0.43 is not in this network namespace" in finding.summary


def test_in_exclusive_mode_a_device_that_sysfs_alone_shows_is_out_of_reach() -> None:
    evidence = infiniband_host().evidence()
    assert not isinstance(evidence.nldev, Missing)
    nldev = replace(evidence.nldev, devices=(), netns_mode=NetnsMode.EXCLUSIVE)
    verdict = judge(replace(evidence, nldev=nldev))
    assert {(f.rule, f.severity) for f in verdict.findings} == {
        ("device-in-one-source", Severity.CRITICAL)
    }
    assert verdict.safe_to_attempt_rtr is False
    assert all("device_in_other_netns" in port.reasons for port in verdict.ports)
    assert any("rdma system set netns shared" in line for line in verdict.findings[0].remedy)


def test_active_without_a_link_is_a_contradiction() -> None:
    assert said(infiniband_host().with_port(0, 0, phys=PhysState.POLLING)) == [
        ("state-contradicts-link", "unknown")
    ]


def test_an_active_infiniband_port_without_a_readable_lid_is_unknown() -> None:
    evidence = _port_of(infiniband_host(), lid=Missing(Why.ABSENT, "ENOENT"))
    assert ("lid-unreadable", "unknown") in said(evidence)


def by_sysfs_alone(evidence: Evidence) -> Evidence:
    nobody = Missing(Why.NOT_COLLECTED)
    return replace(evidence, nldev=nobody, verbs=nobody)


def _port_of(machine: Machine, **changes: object) -> Evidence:
    evidence = machine.evidence()
    assert not isinstance(evidence.sysfs, Missing)
    first, *others = evidence.sysfs.devices  # type: ignore[misc]
    changed = replace(first, ports=(replace(first.ports[0], **changes),))
    return by_sysfs_alone(with_sysfs(evidence, devices=(changed, *others)))


def test_a_node_whose_mode_allows_it_is_refused_by_something_else() -> None:
    (finding,) = findings(roce_host().change(openable=False))
    assert not any("chmod" in line for line in finding.remedy)
    (finding,) = findings(roce_host().change(openable=False, nodes={"uverbs0": 0o600}))
    assert any("chmod 0666" in line for line in finding.remedy)


def test_exclusive_netns_mode_is_named_as_the_reason() -> None:
    evidence = no_device()
    assert not isinstance(evidence.nldev, Missing)
    exclusive = replace(evidence.nldev, netns_mode=NetnsMode.EXCLUSIVE)
    (finding,) = findings(replace(evidence, nldev=exclusive))
    assert "exclusive netns mode" in finding.summary


def test_without_ib_core_there_is_one_finding() -> None:
    machine = Machine("bare")
    evidence = replace(machine.evidence(), nldev=Missing(Why.ABSENT, "ib_core is not loaded"))
    assert said(evidence) == [("no-rdma-device", "unknown")]


@pytest.mark.parametrize("why", [Why.DENIED, Why.TIMEOUT, Why.MALFORMED, Why.UNSUPPORTED])
@pytest.mark.parametrize("source", ["sysfs", "nldev", "netdev", "process", "verbs"])
def test_a_source_that_failed_is_unknown_and_the_rest_is_judged(source: str, why: Why) -> None:
    evidence = replace(roce_host().evidence(), **{source: Missing(why, "reason")})
    spoken = findings(evidence)
    failed = [each for each in spoken if each.rule == "source-failed"]
    assert [each.severity for each in failed] == [Severity.UNKNOWN]
    assert "reason" in failed[0].summary
    assert [view.name for view in devices(evidence)] == ["mlx5_0"]


def test_sysfs_that_may_not_be_listed_is_not_taken_for_no_device() -> None:
    evidence = with_sysfs(roce_host().evidence(), devices=Missing(Why.DENIED, "EACCES"))
    assert "no-rdma-device" not in {rule for rule, _ in said(evidence)}
    assert ("source-failed", "unknown") in said(evidence)


def test_sources_that_were_not_read_are_one_note() -> None:
    evidence = replace(
        roce_host().evidence(),
        nldev=Missing(Why.NOT_COLLECTED),
        netdev=Missing(Why.NOT_COLLECTED),
        process=Missing(Why.NOT_COLLECTED),
    )
    (finding,) = findings(evidence)
    assert (finding.rule, finding.severity) == ("source-not-collected", Severity.INFO)
    assert finding.summary == "not looked at: nldev, netdev, process"


def test_a_device_in_one_source_alone_is_named_with_both_lists() -> None:
    evidence = infiniband_host().evidence()
    assert not isinstance(evidence.nldev, Missing)
    one = replace(evidence.nldev, devices=evidence.nldev.devices[:1])
    (finding,) = findings(replace(evidence, nldev=one))
    assert (finding.rule, finding.device) == ("device-in-one-source", "mlx5_1")
    assert {proof.value for proof in finding.evidence} >= {"mlx5_0 mlx5_1", "mlx5_0"}


def test_a_device_that_nldev_alone_shows_is_not_lost() -> None:
    evidence = infiniband_host().evidence()
    assert not isinstance(evidence.sysfs, Missing)
    hidden = with_sysfs(evidence, devices=evidence.sysfs.devices[:1])  # type: ignore[index]
    assert ("device-in-one-source", "warn") in said(hidden)


def test_a_device_that_nldev_refuses_is_unknown() -> None:
    evidence = infiniband_host().evidence()
    assert not isinstance(evidence.nldev, Missing)
    refused = replace(
        evidence.nldev,
        devices=evidence.nldev.devices[:1],
        unreadable=(Missing(Why.ABSENT, "nldev device 1: ENODEV"),),
    )
    assert said(replace(evidence, nldev=refused)) == [("nldev-device-refused", "unknown")]


def test_a_port_that_nldev_refuses_is_unknown_and_named() -> None:
    evidence = infiniband_host().evidence()
    assert not isinstance(evidence.nldev, Missing)
    first, second = evidence.nldev.devices
    refused = replace(second, ports=(), unreadable_ports={1: Missing(Why.TIMEOUT, "late")})
    (finding,) = findings(
        replace(evidence, nldev=replace(evidence.nldev, devices=(first, refused)))
    )
    assert (finding.rule, finding.device, finding.port) == ("nldev-device-refused", "mlx5_1", 1)


def test_a_device_without_readable_ports_is_unknown() -> None:
    evidence = infiniband_host().evidence()
    assert not isinstance(evidence.sysfs, Missing)
    first, second = evidence.sysfs.devices  # type: ignore[misc]
    dangling = replace(second, ports=Missing(Why.ABSENT, "ENOENT"))
    evidence = by_sysfs_alone(with_sysfs(evidence, devices=(first, dangling)))
    assert ("device-unreadable", "unknown") in said(evidence)


def _port(evidence: Evidence, **changes: object) -> Evidence:
    assert not isinstance(evidence.sysfs, Missing)
    (device,) = evidence.sysfs.devices  # type: ignore[misc]
    (port,) = device.ports
    changed = replace(device, ports=(replace(port, **changes),))
    return by_sysfs_alone(with_sysfs(evidence, devices=(changed,)))


def test_a_state_that_cannot_be_read_is_unknown() -> None:
    evidence = _port(roce_host().evidence(), state=Missing(Why.MALFORMED, "x"))
    assert ("port-state-unknown", "unknown") in said(evidence)


def test_a_gid_table_that_cannot_be_read_is_unknown() -> None:
    evidence = _port(roce_host().evidence(), gids=Missing(Why.DENIED, "EACCES"))
    assert ("gid-table-unreadable", "unknown") in said(evidence)


def test_rows_that_cannot_be_read_are_counted() -> None:
    evidence = roce_host().evidence()
    assert not isinstance(evidence.sysfs, Missing)
    table = evidence.sysfs.devices[0].ports[0].gids  # type: ignore[index, union-attr]
    partial = replace(table, unreadable={5: Missing(Why.MALFORMED), 6: Missing(Why.DENIED)})
    spoken = findings(_port(evidence, gids=partial))
    assert "2 rows" in next(f.summary for f in spoken if f.rule == "gid-table-unreadable")


def test_an_unknown_link_layer_of_a_channel_adapter_is_infiniband() -> None:
    # Trees of old kernels, and of the ibsim simulator, have no link_layer file.
    assert said(infiniband_host().with_port(0, 0, layer=None).with_port(1, 0, layer=None)) == []


def _every_machine() -> list[Machine]:
    return [roce_host(), infiniband_host(), two_port_roce(), Machine("bare")]


@pytest.mark.parametrize("machine", _every_machine(), ids=lambda machine: machine.hostname)
def test_no_missing_source_makes_a_verdict_better(machine: Machine) -> None:
    order = ["ok", "warn", "unknown", "critical"]
    evidence = machine.evidence()
    whole = judge(evidence)
    for source, why in product(("sysfs", "nldev", "netdev", "process", "verbs"), Why):
        partial = judge(replace(evidence, **{source: Missing(why)}))
        if why is not Why.NOT_COLLECTED:
            assert order.index(partial.status) >= order.index(whole.status), (source, why)
        assert whole.safe_to_attempt_rtr or not partial.safe_to_attempt_rtr, (source, why)


WITHOUT_REMEDY = ("system-not-supported", "source-not-collected", "few-memory-regions")


def test_every_rule_of_the_catalogue_says_what_it_means() -> None:
    for code, rule in CATALOGUE.items():
        assert code == rule.code
        assert code == code.lower().replace("_", "-")
        assert rule.title
        assert rule.meaning.endswith(".")
        assert all(each.startswith("https://") for each in rule.references)
        assert rule.remedy or code in WITHOUT_REMEDY
        assert not [line for line in rule.remedy if "\n" in line]


def test_the_comments_of_remedies_write_and_run_nothing_where_a_shell_knows_no_comments() -> None:
    lines = [
        line for rule in CATALOGUE.values() for each in rule.remedies.values() for line in each
    ]
    lines += [line for cause in CAUSES.values() for line in (*cause.linux, *cause.darwin)]
    for line in lines:
        comment = line if line.startswith("#") else line.partition("   # ")[2]
        assert not set("<>|`&") & set(comment), line
        assert "$(" not in comment, line


def _found() -> set[str]:
    changes: list[Callable[[], Evidence]] = [no_device, lambda: Machine("bare").evidence()]
    return {finding.rule for change in changes for finding in findings(change())}


def test_findings_carry_evidence_and_a_remedy_to_paste() -> None:
    machines = (
        down_netdev(roce_host()),
        roce_host().with_port(gids={}),
        roce_host().change(nodes={}, libraries=False),
        infiniband_host().with_port(0, 0, **UNMANAGED),
    )
    for machine in machines:
        for finding in findings(machine):
            assert finding.evidence, finding.rule
            assert finding.remedy, finding.rule
            assert all(proof.subject and proof.value for proof in finding.evidence)
            assert "\n" not in finding.summary
            assert all("\n" not in line for line in finding.remedy)
    assert "no-rdma-device" in _found()


def test_an_iwarp_port_that_is_active_is_a_healthy_port() -> None:
    machine = roce_host().with_device(node_type="4: RNIC", protocol="iw")
    machine = machine.change(nodes={"uverbs0": 0o666, "rdma_cm": 0o666}, port_mapper=True)
    assert said(machine) == [("iwarp-device", "info")]


def test_the_link_layer_of_a_port_is_what_sysfs_says() -> None:
    (view,) = devices(roce_host().evidence())
    assert view.ports[0].link_layer is LinkLayer.ETHERNET


def test_a_libibverbs_that_cannot_be_loaded_is_named_before_the_source() -> None:
    why = "/lib/x86_64-linux-gnu/libibverbs.so.1: file too short"
    evidence = replace(roce_host().evidence(), verbs=Missing(Why.ABSENT, why))
    verdict = judge(evidence)
    graver = [each for each in verdict.findings if each.severity is not Severity.INFO]
    assert [each.rule for each in graver] == ["verbs-library-missing", "source-failed"]
    assert graver[0].severity is Severity.UNKNOWN
    assert graver[0].summary == f"libibverbs.so.1 is there and cannot be loaded: {why}"


def test_a_library_that_nothing_loads_is_none_that_cannot_be_loaded() -> None:
    host = roce_host().evidence()
    assert not isinstance(host.sysfs, Missing)
    sysfs = replace(host.sysfs, uverbs=Missing(Why.ABSENT, "ENOENT"))
    verbs = Missing(Why.ABSENT, "ib_uverbs is not loaded, so libibverbs was not asked")
    found = judge(replace(host, sysfs=sysfs, verbs=verbs)).findings
    assert "verbs-library-missing" not in {each.rule for each in found}
