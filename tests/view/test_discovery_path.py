"""The way to a usable device: which step fails first, and that it is reported with its evidence."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.machine import Machine, MemoryTree
from lab.rdma_devices import Device
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Missing, PciFunction, Why
from rdmadiag.facts.evidence import LINUX_ONLY, Evidence
from rdmadiag.facts.ib import DriverId, NetnsMode
from rdmadiag.facts.verbs import KILLED, Unanswered
from rdmadiag.host.recorded import SnapshotHost
from rdmadiag.sources.run import gather
from rdmadiag.view.access import named
from rdmadiag.view.discovery_path import (
    DiscoveryPath,
    Stage,
    Step,
    functions_without_device,
    parse_abi_refusals,
    walk,
)
from rdmadiag.view.reconcile import devices

REFUSAL = (
    "libibverbs: Warning: Driver mlx5 does not support the kernel ABI of 6 (supports 1 to 1) "
    "for device /sys/class/infiniband/mlx5_0"
)
FATAL = "libibverbs: Fatal: kernel ABI version 7 doesn't match library version 6."
NOT_ASKED = Missing(Why.NOT_COLLECTED)


def path(subject: Machine | Evidence) -> DiscoveryPath:
    evidence = subject.evidence() if isinstance(subject, Machine) else subject
    (device,) = devices(evidence)
    found = walk(device, evidence)
    assert found is not None
    return found


def step(subject: Machine | Evidence, stage: Stage) -> Step:
    (found,) = [each for each in path(subject).steps if each.stage is stage]
    return found


def with_source(source: str, **changes: object) -> Evidence:
    evidence = roce_host().evidence()
    return replace(evidence, **{source: replace(getattr(evidence, source), **changes)})


def hidden_by_nldev() -> Evidence:
    return with_source("nldev", devices=(), netns_mode=NetnsMode.EXCLUSIVE)


def without_library() -> Evidence:
    return roce_host().change(libraries=False).evidence()


def stale_node() -> Evidence:
    nodes = roce_host().evidence().process.nodes  # type: ignore[union-attr]
    return with_source("process", nodes=tuple(replace(node, dev="231:199") for node in nodes))  # type: ignore[union-attr]


def unnamed(configured: object, stderr: str = "") -> Evidence:
    evidence = roce_host().change(rejected=("mlx5_0",), verbs_stderr=stderr).evidence()
    library = replace(evidence.process.library, configured=configured)  # type: ignore[union-attr,type-var,arg-type]
    return replace(evidence, process=replace(evidence.process, library=library))  # type: ignore[type-var,arg-type]


def test_every_step_of_a_healthy_device_passes() -> None:
    found = path(roce_host())
    assert found.fails_at is None
    assert found.failure is None
    assert [each.stage for each in found.steps if each.passed is not True] == []
    assert all(each.subject and each.value for each in found.steps)


NO_FOLDER = "libibverbs: Warning: couldn't open config directory '/etc/libibverbs.d'."
NOT_LOADED = (
    "libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so': "
    "libnl-3.so.200: cannot open shared object file"
)
REJECTED = roce_host().change(rejected=("mlx5_0",))


@pytest.mark.parametrize(
    ("subject", "stage", "subject_words", "value_words"),
    [
        pytest.param(
            hidden_by_nldev(),
            Stage.KERNEL,
            "RDMA_NLDEV_CMD_GET",
            "netns mode exclusive, sysfs shows it",
            id="another namespace has it",
        ),
        pytest.param(
            roce_host().with_device(uverbs=None),
            Stage.CHAR_DEVICE,
            "/sys/class/infiniband_verbs/*/ibdev",
            "absent",
            id="ib_uverbs is not loaded",
        ),
        pytest.param(
            roce_host().change(nodes={"rdma_cm": 0o666}),
            Stage.NODE,
            "/dev/infiniband/uverbs0",
            "not there",
            id="no node",
        ),
        pytest.param(
            with_source("sysfs", uverbs_abi=7),
            Stage.KERNEL_ABI,
            "/sys/class/infiniband_verbs/abi_version",
            "7; libibverbs takes 3 to 6",
            id="a kernel of another ABI",
        ),
        pytest.param(
            REJECTED.change(verbs_stderr=FATAL),
            Stage.KERNEL_ABI,
            "stderr of libibverbs",
            "kernel ABI version 7",
            id="a kernel of another ABI, by libibverbs",
        ),
        pytest.param(
            without_library(), Stage.LIBRARY, "libibverbs.so.1", "in none of", id="no libibverbs"
        ),
        pytest.param(
            REJECTED.change(configured=("rxe", "siw")),
            Stage.PROVIDER_LIBRARY,
            "/etc/libibverbs.d/*.driver",
            "mlx5 is in none of 2 files",
            id="no file of /etc/libibverbs.d names the provider",
        ),
        pytest.param(
            unnamed(Missing(Why.ABSENT, "ENOENT"), NO_FOLDER),
            Stage.PROVIDER_LIBRARY,
            "/etc/libibverbs.d/*.driver",
            "no such folder",
            id="no folder /etc/libibverbs.d, and libibverbs says so",
        ),
        pytest.param(
            REJECTED.change(configured=(), environ={"RDMAV_DRIVERS": "rxe", "IBV_DRIVERS": "mlx5"}),
            Stage.PROVIDER_LIBRARY,
            "/etc/libibverbs.d/*.driver",
            "mlx5 is in none of 0 files",
            id="IBV_DRIVERS is not read where RDMAV_DRIVERS is set",
        ),
        pytest.param(
            REJECTED.change(verbs_stderr=NOT_LOADED),
            Stage.PROVIDER_LIBRARY,
            "libmlx5-rdmav*.so",
            "libnl-3.so.200",
            id="the provider's library cannot be loaded",
        ),
        pytest.param(
            REJECTED.with_device(driver=DriverId.ERDMA),
            Stage.PROVIDER_LIBRARY,
            "liberdma-rdmav*.so",
            "not beside libibverbs",
            id="no provider library",
        ),
        pytest.param(
            REJECTED.change(verbs_stderr=REFUSAL),
            Stage.DRIVER_ABI,
            "/sys/class/infiniband_verbs/uverbs0/abi_version",
            "6; mlx5 supports 1 to 1",
            id="a provider of another ABI",
        ),
        pytest.param(REJECTED, Stage.LISTED, "ibv_get_device_list", "no device", id="not listed"),
        pytest.param(
            stale_node(),
            Stage.NODE_NUMBER,
            "/dev/infiniband/uverbs0",
            "231:199; the device is 231:192",
            id="a node of another number",
        ),
        pytest.param(
            roce_host().change(nodes={"uverbs0": 0o600}, openable=False),
            Stage.ACCESS,
            "/dev/infiniband/uverbs0",
            "crw------- uid 0 gid 0",
            id="a closed node",
        ),
    ],
)
def test_the_first_step_that_fails_has_its_evidence(
    subject: Machine | Evidence, stage: Stage, subject_words: str, value_words: str
) -> None:
    found = path(subject)
    assert found.fails_at is stage
    assert found.failure is not None
    assert found.failure.subject == subject_words
    assert value_words in found.failure.value
    assert found.steps[found.failure_number - 1] is found.failure


def test_a_device_that_is_listed_and_cannot_be_opened_fails_at_the_last_step() -> None:
    evidence = roce_host().change(openable=False).evidence()
    process = replace(
        evidence.process,  # type: ignore[type-var]
        nodes=tuple(replace(node, openable=True) for node in evidence.process.nodes),  # type: ignore[union-attr]
    )
    found = path(replace(evidence, process=process))
    assert found.fails_at is Stage.OPENED
    assert found.failure is not None
    assert found.failure.value == "13 EACCES"


@pytest.mark.parametrize(
    "environ",
    [
        {"RDMAV_DRIVERS": "rxe;mlx5"},
        {"RDMAV_DRIVERS": "siw:/opt/rdma/libmlx5"},
        {"IBV_DRIVERS": "mlx5"},
    ],
    ids=["RDMAV_DRIVERS", "an absolute path", "IBV_DRIVERS"],
)
def test_a_variable_names_the_provider_as_a_file_does(environ: dict[str, str]) -> None:
    found = step(REJECTED.change(configured=(), environ=environ), Stage.PROVIDER_LIBRARY)
    assert found.passed is True


@pytest.mark.parametrize(
    "configured", [Missing(Why.ABSENT, "ENOENT"), Missing(Why.DENIED, "EACCES"), NOT_ASKED]
)
def test_a_folder_that_was_not_seen_names_nothing_and_leaves_nothing_out(
    configured: Missing,
) -> None:
    evidence = unnamed(configured)
    (device,) = devices(evidence)
    assert isinstance(named(device, evidence).is_named, Missing)
    assert step(evidence, Stage.PROVIDER_LIBRARY).passed is True  # it is there


def test_a_library_of_another_prefix_has_a_folder_that_is_not_known() -> None:
    evidence = REJECTED.change(configured=()).evidence()
    library = replace(evidence.process.library, libibverbs=("/opt/rdma/lib/libibverbs.so.1",))  # type: ignore[union-attr,type-var]
    moved = replace(evidence, process=replace(evidence.process, library=library))  # type: ignore[type-var]
    (device,) = devices(moved)
    assert isinstance(named(device, moved).is_named, Missing)


@pytest.mark.parametrize(
    ("path", "passed"), [("/sys/", True), ("/mnt/sys", Missing(Why.NOT_COLLECTED))]
)
def test_without_netlink_libibverbs_reads_the_sysfs_of_its_variable(
    path: str, passed: bool | Missing
) -> None:
    evidence = roce_host().change(environ={"SYSFS_PATH": path}).evidence()
    found = step(replace(evidence, nldev=Missing(Why.ABSENT, "no RDMA netlink")), Stage.KERNEL)
    assert type(found.passed) is type(passed)
    assert step(evidence, Stage.KERNEL).passed is True


def test_what_was_not_looked_at_has_not_failed() -> None:
    evidence = roce_host().evidence()
    blind = replace(evidence, verbs=NOT_ASKED, process=NOT_ASKED)
    found = path(blind)
    assert found.fails_at is None
    unknown = {each.stage for each in found.steps if isinstance(each.passed, Missing)}
    assert {Stage.NODE, Stage.LIBRARY, Stage.LISTED, Stage.ACCESS, Stage.OPENED} <= unknown


@pytest.mark.parametrize("source", ["sysfs", "nldev", "process", "verbs", "netdev"])
@pytest.mark.parametrize("why", list(Why))
def test_no_missing_source_makes_a_step_fail(source: str, why: Why) -> None:
    evidence = replace(roce_host().evidence(), **{source: Missing(why, "reason")})
    assert path(evidence).fails_at is None


@pytest.mark.parametrize(
    ("evidence", "stage"),
    [
        pytest.param(
            with_source("sysfs", devices=(), uverbs=Missing(Why.DENIED, "EACCES")),
            None,
            id="nldev tells what sysfs does not",
        ),
        pytest.param(
            replace(
                with_source("sysfs", uverbs=Missing(Why.DENIED, "EACCES")),
                nldev=NOT_ASKED,
                verbs=NOT_ASKED,
            ),
            Stage.CHAR_DEVICE,
            id="the class of character devices may not be listed",
        ),
        pytest.param(
            replace(
                with_source("nldev", devices=(), unreadable=(Missing(Why.TIMEOUT, "late"),)),
                sysfs=Missing(Why.DENIED, "EACCES"),
            ),
            Stage.KERNEL,
            id="nldev refuses the device, and sysfs was not read",
        ),
        pytest.param(
            replace(with_source("process", library=Missing(Why.DENIED, "x")), verbs=NOT_ASKED),
            Stage.LIBRARY,
            id="the library's folders were not read",
        ),
        pytest.param(
            with_source(
                "process",
                nodes=(
                    replace(
                        roce_host().evidence().process.nodes[0],  # type: ignore[union-attr, index]
                        dev=Missing(Why.MALFORMED, "not a device node"),
                    ),
                ),
            ),
            Stage.NODE_NUMBER,
            id="a file where the node should be",
        ),
    ],
)
def test_what_is_not_known_is_missing_there(evidence: Evidence, stage: Stage | None) -> None:
    if stage is None:
        assert path(evidence).fails_at is None
    else:
        assert isinstance(step(evidence, stage).passed, Missing)


@pytest.mark.parametrize(
    ("end", "seconds"), [("killed at the deadline", 6.0), ("ended by signal 11", 0.0)]
)
def test_an_open_that_does_not_come_back_is_the_step_that_fails(end: str, seconds: float) -> None:
    stopped = Unanswered("ibv_open_device", "mlx5_0", None, seconds, end, 42, unkillable=False)
    found = path(with_source("verbs", unanswered=stopped))
    assert found.fails_at is Stage.OPENED
    assert found.failure is not None
    assert found.failure.value == end


def test_a_list_that_does_not_come_back_is_not_an_empty_one() -> None:
    stopped = Unanswered("ibv_get_device_list", None, None, 6.0, KILLED, 42, unkillable=False)
    evidence = with_source("verbs", unanswered=stopped, devices=())
    assert isinstance(step(evidence, Stage.LISTED).passed, Missing)


def test_without_netlink_sysfs_names_the_device() -> None:
    evidence = replace(roce_host().evidence(), nldev=NOT_ASKED)
    assert step(evidence, Stage.KERNEL) == Step(
        Stage.KERNEL, True, "/sys/class/infiniband", "mlx5_0"
    )
    provider = step(evidence, Stage.PROVIDER)
    assert provider.passed is True
    assert "pci:v000015B3d0000101D" in provider.value
    assert step(evidence, Stage.NODE_NUMBER).passed is True


def test_a_device_that_verbs_alone_lists_fails_at_the_step_of_the_kernel() -> None:
    evidence = roce_host().evidence()
    alone = replace(
        evidence,
        sysfs=replace(evidence.sysfs, devices=()),  # type: ignore[type-var]
        nldev=replace(evidence.nldev, devices=()),  # type: ignore[type-var]
    )
    found = path(alone)
    assert found.fails_at is Stage.KERNEL
    assert found.failure is not None
    assert found.failure.value.endswith("sysfs does not show it either")


def test_a_mac_has_another_way() -> None:
    evidence = roce_host().evidence()
    (device,) = devices(evidence)
    assert walk(device, replace(evidence, sysfs=LINUX_ONLY)) is None


# --- stderr ---------------------------------------------------------------------------------


def test_a_refusal_is_read_with_its_device() -> None:
    (found,) = parse_abi_refusals(["something else", REFUSAL])
    assert (found.driver, found.abi, found.low, found.high) == ("mlx5", 6, 1, 1)
    assert (found.device, found.line) == ("mlx5_0", REFUSAL)


def test_a_refusal_without_a_device_counts_for_those_of_its_driver() -> None:
    short = REFUSAL.partition(" for device")[0]
    assert path(REJECTED.change(verbs_stderr=short)).fails_at is Stage.DRIVER_ABI
    other = short.replace("mlx5", "bnxt_re")
    assert path(REJECTED.change(verbs_stderr=other)).fails_at is Stage.LISTED


def test_a_refusal_of_another_device_is_that_devices() -> None:
    other = REFUSAL.replace("mlx5_0", "mlx5_7")
    assert path(REJECTED.change(verbs_stderr=other)).fails_at is Stage.LISTED


@given(st.lists(st.text(max_size=200), max_size=4))
def test_any_lines_are_refusals_or_none(lines: list[str]) -> None:
    assert isinstance(parse_abi_refusals(lines), tuple)


@given(
    st.integers(0, 10**8), st.integers(0, 10**8), st.integers(0, 10**8), st.from_regex(r"\A\w+\Z")
)
def test_a_refusal_of_any_numbers_is_read(abi: int, low: int, high: int, name: str) -> None:
    line = f"Driver {name} does not support the kernel ABI of {abi} (supports {low} to {high})"
    (found,) = parse_abi_refusals([line])
    assert (found.driver, found.abi, found.low, found.high) == (name, abi, low, high)


# --- PCI functions ---------------------------------------------------------------------------


def extra(*functions: PciFunction, machine: Machine | None = None) -> Evidence:
    evidence = (machine or roce_host()).evidence()
    sysfs = evidence.sysfs
    assert not isinstance(sysfs, Missing)
    assert not isinstance(sysfs.candidates, Missing)
    return replace(evidence, sysfs=replace(sysfs, candidates=(*sysfs.candidates, *functions)))


def function(address: str, driver: str | None, vendor: str = "0x15b3") -> PciFunction:
    evidence = roce_host().evidence()
    assert not isinstance(evidence.sysfs, Missing)
    (own,) = evidence.sysfs.candidates  # type: ignore[misc]
    bound = driver or Missing(Why.ABSENT, "ENOENT")
    return replace(own, address=address, driver=bound, vendor=vendor)


def stages(evidence: Evidence) -> dict[str, Stage | None]:
    found = functions_without_device(devices(evidence), evidence)
    return {each.address: each.discovery.fails_at for each in found}


def test_on_a_healthy_host_each_function_has_its_device() -> None:
    for machine in (roce_host(), infiniband_host(), Machine("bare")):
        assert stages(machine.evidence()) == {}


@pytest.mark.parametrize(
    ("driver", "vendor", "stage"),
    [
        pytest.param("mlx5_core", "0x15b3", Stage.KERNEL, id="loaded, and no device came of it"),
        pytest.param("mlx4_core", "0x15b3", Stage.MODULE, id="the RDMA half is not loaded"),
        pytest.param(None, "0x15b3", Stage.PCI_DRIVER, id="no driver"),
        pytest.param("nvme", "0x15b3", Stage.PCI_DRIVER, id="another driver"),
    ],
)
def test_a_function_without_a_device_has_its_step(
    driver: str | None, vendor: str, stage: Stage
) -> None:
    assert stages(extra(function("0000:0a:00.0", driver, vendor))) == {"0000:0a:00.0": stage}


@pytest.mark.parametrize(
    ("driver", "vendor"),
    [("ice", "0x8086"), ("vfio-pci", "0x15b3")],
    ids=["a card that may have no RDMA", "one that a virtual machine has"],
)
def test_a_function_that_need_not_have_a_device_is_left_out(driver: str, vendor: str) -> None:
    assert stages(extra(function("0000:0a:00.0", driver, vendor))) == {}


def test_the_second_port_of_a_bond_is_behind_the_first() -> None:
    bond = roce_host().with_device(name="mlx5_bond_0")
    second = function("0000:08:00.1", "mlx5_core")
    assert stages(extra(second, machine=bond)) == {}
    assert stages(extra(second)) == {"0000:08:00.1": Stage.KERNEL}


def test_two_devices_have_a_way_each() -> None:
    two = infiniband_host().change(rejected=("mlx5_1",)).evidence()
    ways = {device.name: walk(device, two) for device in devices(two)}
    assert {name: way.fails_at for name, way in ways.items() if way} == {
        "mlx5_0": None,
        "mlx5_1": Stage.LISTED,
    }


def test_a_device_without_a_known_provider_is_unknown_there() -> None:
    machine = Machine("odd", (Device("x0", roce_host().devices[0].ports, DriverId.UNKNOWN),))
    evidence = machine.evidence()
    (device,) = devices(evidence)
    bare = replace(device, provider=None, driver=Missing(Why.ABSENT, "the driver gives no id"))
    found = walk(bare, evidence)
    assert found is not None
    assert {each.stage for each in found.steps if isinstance(each.passed, Missing)} == {
        Stage.PROVIDER
    }


def test_what_a_copied_tree_lacks_is_no_step_that_fails() -> None:
    files = {path[1:]: text.encode() for path, text in roce_host().sysfs_files().items()}
    kept = {path: text for path, text in files.items() if "infiniband_verbs" not in path}
    evidence = gather(SnapshotHost(MemoryTree(kept), "bare"), time.monotonic() + 60)
    (device,) = devices(evidence)
    path = walk(device, evidence)
    assert path
    assert path.failure is None
