"""What surrounds the devices: PCI, CPUs, the IOMMU, GPUs."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.gpus import Gpu
from rdmadiag.facts import Limit, Missing, Why
from rdmadiag.host.live import LiveHost
from rdmadiag.sources import system
from rdmadiag.sources.system import read_system

PATH = "../../../devices/pci0000:00/0000:00:01.0/0000:02:00.0/0000:08:00.0"


@given(st.text())
def test_any_link_is_a_path_or_malformed(text):
    assert isinstance(system.parse_pci_path(text), tuple | Missing)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_list_words_and_a_driver_or_missing(raw):
    assert isinstance(system.parse_cpu_list(raw), str | Missing)
    assert isinstance(system.parse_iommu_options(raw), tuple)
    assert isinstance(system.parse_open_driver(raw), bool | Missing)


def test_a_path_is_told_from_the_root_to_the_function():
    assert system.parse_pci_path(PATH) == ("0000:00:01.0", "0000:02:00.0", "0000:08:00.0")


def test_of_the_command_line_the_words_on_the_iommu_are_kept():
    raw = b"BOOT_IMAGE=/vmlinuz root=UUID=1 intel_iommu=on iommu=pt amd_IOMMU=off quiet\n"
    assert system.parse_iommu_options(raw) == ("intel_iommu=on", "iommu=pt", "amd_IOMMU=off")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06\n", True),
        (b"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01\n", False),
    ],
    ids=["open", "closed"],
)
def test_the_open_driver_says_so(raw, expected):
    assert system.parse_open_driver(raw) is expected


@pytest.mark.parametrize(
    ("raw", "stream", "mapping"),
    [
        ('EnableStreamMemOPs: 1\nRegistryDwords: "PeerMappingOverride=1;"\n', True, True),
        ('EnableStreamMemOPs: 0\nRegistryDwords: ""\nRegistryDwordsPerDevice: ""\n', False, False),
        ('RegistryDwords: "RMx=2;PeerMappingOverride=0x1"\n', Why.ABSENT, True),
        ('RegistryDwords: "PeerMappingOverride=10;"\n', Why.ABSENT, False),
        ('RegistryDwords: "NoPeerMappingOverride=1;"\n', Why.ABSENT, False),
        ("EnableStreamMemOPs: 1\n", True, Why.ABSENT),
    ],
)
def test_what_nvidias_driver_was_loaded_with(raw, stream, mapping):
    found = system.parse_nvidia_parameters(f"ResmanDebugLevel: 4294967295\n{raw}".encode())
    values = (found.stream_mem_ops, found.peer_mapping)
    assert tuple(each.why if isinstance(each, Missing) else each for each in values) == (
        stream,
        mapping,
    )


@given(st.binary(max_size=300))
def test_any_bytes_are_parameters_or_malformed(raw):
    found = system.parse_nvidia_parameters(raw)
    assert isinstance(found, system.NvidiaParameters | Missing)


def test_gdrcopys_driver_and_parameters_are_read_where_there_is_a_gpu(roce, host_in_memory):
    found = read_system(host_in_memory(roce.change(gpu=Gpu(gdrdrv=True)).recording())).gpus
    assert (found.gdrdrv, found.parameters.peer_mapping) == (True, False)
    older = Gpu(parameters=None)
    found = read_system(host_in_memory(roce.change(gpu=older).recording())).gpus
    assert isinstance(found.gdrdrv, Missing)


def test_a_healthy_machine_is_told_whole(memory_host):
    found = read_system(memory_host)
    first, second = found.paths
    assert (first.device, first.function) == ("mlx5_0", "0000:08:00.0")
    assert [bridge.address for bridge in first.bridges] == ["0000:00:01.0"]
    assert (first.slot_max_link_speed, first.slot_max_link_width) == ("16.0 GT/s PCIe", 16)
    assert (first.local_cpus, first.iommu_domain) == ("0-15", "identity")
    assert second.function == "0000:09:00.0"
    assert (found.cpus_online, found.kernel, found.iommu_options) == ("0-31", "6.1.0", ())
    assert found.gpus.functions == ()


def test_no_configuration_space_is_read_which_the_source_pci_has(roce, host_in_memory):
    host = host_in_memory(roce.change(gpu=Gpu()).recording())
    found = read_system(host)
    redirects = [bridge.redirects.why for path in found.paths for bridge in path.bridges]
    assert redirects == [Why.NOT_COLLECTED, Why.NOT_COLLECTED]
    assert not [path for _, path in host.asked if path.endswith("/config")]


def test_peer_memory_is_looked_for_where_there_is_a_gpu(roce, host_in_memory):
    found = read_system(host_in_memory(roce.change(gpu=Gpu()).recording())).gpus
    assert (found.functions, found.peermem) == (("0000:17:00.0",), "580.65.06")
    assert (found.memory_peers, found.open_driver) == (("nv_mem",), True)
    none = Gpu(peermem=None, memory_peers=None, open_driver=False)
    found = read_system(host_in_memory(roce.change(gpu=none).recording())).gpus
    assert (found.peermem.why, found.memory_peers.why) == (Why.ABSENT, Why.ABSENT)
    assert found.open_driver is False


def test_a_function_right_below_the_root_has_no_bridge(memory_host):
    link = "/sys/bus/pci/devices/0000:08:00.0"
    memory_host.recording.links[link] = "../../../devices/pci0000:00/0000:08:00.0"
    path = read_system(memory_host).paths[0]
    assert (path.bridges, path.slot_max_link_speed.why) == ((), Why.ABSENT)


def test_a_record_without_the_way_through_pci_says_so(memory_host):
    del memory_host.recording.links["/sys/bus/pci/devices/0000:08:00.0"]
    path = read_system(memory_host).paths[0]
    assert path.bridges.why is path.slot_max_link_width.why is Why.ABSENT
    assert path.local_cpus == "0-15"


def test_a_software_device_has_no_path(memory_host):
    memory_host.recording.links["/sys/class/infiniband/mlx5_0/device"] = "../../net/veth0"
    assert [path.device for path in read_system(memory_host).paths] == ["mlx5_1"]


# --- the processes above -------------------------------------------------------------------


def test_a_name_with_brackets_and_blanks_stays_whole():
    assert system.parse_name(b"Name:\t(sd-pam) x\nPPid:\t1\n") == "(sd-pam) x"


CHAIN = (("bash", "unlimited"), ("slurmstepd", "65536"), ("slurmd", "8388608"), ("init", "0"))


def above(roce, host_in_memory, pid=None, **changes):
    machine = roce.change(ancestors=CHAIN)
    host = host_in_memory(machine.recording())
    for path, content in changes.items():
        host.recording.files[f"/proc/{path.removeprefix('pid')}/status"] = content
    return [(each.pid, each.name) for each in read_system(host, pid).ancestors]


def test_the_parents_are_told_up_to_init_with_the_limit_of_each(roce, host_in_memory):
    found = read_system(host_in_memory(roce.change(ancestors=CHAIN).recording()))
    assert [(each.name, each.memlock.soft) for each in found.ancestors] == [
        ("bash", "unlimited"),
        ("slurmstepd", 65536),
        ("slurmd", 8388608),
        ("init", 0),
    ]
    assert [each.pid for each in found.ancestors] == [1200, 1199, 1198, 1]
    assert found.asked_pid is None


def test_a_process_that_was_asked_for_is_told_with_its_own_parents(roce, host_in_memory):
    found = read_system(host_in_memory(roce.change(ancestors=CHAIN).recording()), 1198)
    assert [each.name for each in found.ancestors] == ["slurmd", "init"]
    assert found.asked_pid == 1198


def test_a_process_that_is_not_there_is_missing_and_not_left_out(roce, host_in_memory):
    found = read_system(host_in_memory(roce.recording()), 99999)
    (asked,) = found.ancestors
    assert (asked.name.why, asked.memlock.why) == (Why.ABSENT, Why.ABSENT)


def test_parents_in_a_circle_are_read_once(roce, host_in_memory):
    found = above(roce, host_in_memory, pid1198=b"Name:\tslurmd\nPPid:\t1200\n")
    assert found == [(1200, "bash"), (1199, "slurmstepd"), (1198, "slurmd")]


def test_the_first_process_of_a_container_has_no_parent(roce, host_in_memory):
    host = host_in_memory(roce.recording())
    host.recording.files["/proc/self/status"] = b"Name:\tx\nPPid:\t0\n"
    assert read_system(host).ancestors == ()


def test_where_processes_of_others_are_hidden_the_chain_ends(roce, host_in_memory):
    host = host_in_memory(roce.change(ancestors=CHAIN).recording())
    for name in ("status", "limits"):
        host.recording.refuse("read", f"/proc/1199/{name}", Missing(Why.DENIED, "EACCES"))
    found = read_system(host).ancestors
    assert [each.pid for each in found] == [1200, 1199]
    assert found[-1].memlock.why is Why.DENIED


@given(st.binary(max_size=200))
def test_any_status_has_a_parent_and_a_name_or_none(raw):
    assert isinstance(system.parse_parent(raw), int | Missing)
    assert isinstance(system.parse_name(raw), str | Missing)


def test_this_machine_is_told_as_it_is():
    found = read_system(LiveHost())
    assert found.ancestors[0].pid == os.getppid()
    assert isinstance(found.ancestors[0].memlock, Limit)
    assert isinstance(found.cpus_online, str)
    assert isinstance(found.kernel, str)
