"""Where GPUs and RDMA devices stand on the PCI bus."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.gpus import Card
from lab.machine import Machine
from lab.samples import gpu_host, roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.topology import Adapter, GpuKind, Place
from rdmadiag.host.live import LiveHost
from rdmadiag.sources import topology
from rdmadiag.sources.topology import MOST, read_topology

WAY = "../../../devices/pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:01.0/0000:1B:00.0"


def read(machine: Machine):
    return read_topology(machine.host())


def with_card(**changes) -> Machine:
    return roce_host().change(cards=(replace(Card("0000:1b:00.0"), **changes),))


def test_a_place_is_read_from_the_root_to_the_function() -> None:
    bridges = ("0000:16:01.0", "0000:17:00.0", "0000:18:01.0")
    assert topology.parse_place(WAY) == (Place("pci0000:16", bridges), "0000:1b:00.0")


def test_a_part_of_a_function_stands_where_the_function_does() -> None:
    assert topology.parse_place(f"{WAY}/mlx5_core.sf.2") == topology.parse_place(WAY)


@pytest.mark.parametrize(
    "target",
    [
        "",
        "../../devices/virtual/infiniband/rxe0",
        "../../../devices/pci0000:16",
        "0000:16:01.0/0000:1b:00.0",
        "pci0000:00" + "/0000:00:01.0" * 40,
        "pci0000:00/" + "x" * 5000 + "/0000:00:01.0",
    ],
)
def test_what_is_no_path_on_the_bus_is_malformed(target: str) -> None:
    found = topology.parse_place(target)
    assert isinstance(found, Missing)
    assert found.why is Why.MALFORMED
    assert len(found.detail) < 200


@given(st.text() | st.from_regex(r"(pci[0-9]{4}:[0-9]{2}/)?([0-9]{4}:[0-9]{2}:[0-9]{2}\.0/)*"))
def test_any_link_is_a_place_or_malformed(text: str) -> None:
    assert isinstance(topology.parse_place(text), tuple | Missing)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_number_or_malformed(raw: bytes) -> None:
    for parse in (topology.parse_id, topology.parse_class):
        found = parse(raw)
        assert isinstance(found, Missing) or found.startswith("0x")


@pytest.mark.parametrize(
    ("vendor", "pci_class", "kind"),
    [
        ("0x10de", "0x030200", GpuKind.GPU),
        ("0x10de", "0x030000", GpuKind.GPU),
        ("0x1002", "0x030000", GpuKind.GPU),
        ("0x1002", "0x038000", GpuKind.GPU),
        ("0x1002", "0x120000", GpuKind.GPU),
        ("0x1da3", "0x120000", GpuKind.ACCELERATOR),
        ("0x1a03", "0x030000", None),  # ASPEED: the management controller's
        ("0x102b", "0x030000", None),
        ("0x10de", "0x040300", None),  # a GPU's sound
        ("0x15b3", "0x020000", None),
    ],
)
def test_what_is_a_gpu(vendor: str, pci_class: str, kind: GpuKind | None) -> None:
    found = read(with_card(ids=(vendor, "0x2330", pci_class)))
    assert [each.kind for each in found.gpus] == ([kind] if kind else [])


def test_a_virtual_function_of_a_gpu_is_none_of_ours() -> None:
    assert read(with_card(physical="0000:1a:00.0")).gpus == ()


def test_a_gpu_that_sleeps_is_not_asked_for_its_link() -> None:
    (gpu,) = read(with_card(is_suspended=True)).gpus
    assert gpu.current_link_speed.why is gpu.max_link_width.why is Why.NOT_COLLECTED
    assert gpu.numa_node == 0
    (awake,) = read(with_card()).gpus
    assert (awake.current_link_speed, awake.current_link_width) == ("32.0 GT/s PCIe", 16)


def test_adapters_and_gpus_of_a_host() -> None:
    found = read(gpu_host())
    assert [gpu.address for gpu in found.gpus] == [
        "0000:1b:00.0",
        "0000:45:00.0",
        "0000:99:00.0",
        "0000:bf:00.0",
    ]
    bridges = ("0000:16:01.0", "0000:17:00.0", "0000:18:00.0")
    first = Adapter("mlx5_0", "0000:19:00.0", Place("pci0000:16", bridges), None)
    assert found.adapters[0] == first
    assert found.gpus[0].place == Place("pci0000:16", (*bridges[:2], "0000:18:01.0"))


def test_a_virtual_function_names_the_physical_one(host_in_memory) -> None:
    recording = roce_host().recording()
    recording.links["/sys/bus/pci/devices/0000:08:00.0/physfn"] = "../0000:08:00.1"
    (own,) = read_topology(host_in_memory(recording)).adapters
    assert own.physical_function == "0000:08:00.1"


def test_a_subfunction_stands_where_its_function_does(host_in_memory) -> None:
    recording = roce_host().recording()
    recording.links["/sys/class/infiniband/mlx5_0/device"] = "../../../mlx5_core.sf.2"
    auxiliary = f"{topology.AUXILIARY}/mlx5_core.sf.2"
    recording.links[auxiliary] = f"{WAY}/mlx5_core.sf.2"
    (own,) = read_topology(host_in_memory(recording)).adapters
    assert own.address == "0000:1b:00.0"
    assert own.place.root == "pci0000:16"


def test_software_has_no_place(host_in_memory) -> None:
    recording = roce_host().recording()
    del recording.links["/sys/class/infiniband/mlx5_0/device"]
    (own,) = read_topology(host_in_memory(recording)).adapters
    assert isinstance(own.address, Missing)
    assert isinstance(own.place, Missing)


def test_more_gpus_than_any_host_has_is_malformed(host_in_memory) -> None:
    cards = tuple(Card(f"{at:04x}:01:00.0") for at in range(MOST + 1))
    assert read(roce_host().change(cards=cards)).gpus.why is Why.MALFORMED
    assert len(read(roce_host().change(cards=cards[1:])).gpus) == MOST


def test_of_other_functions_the_class_alone_is_read(host_in_memory) -> None:
    host = host_in_memory(roce_host().recording())
    read_topology(host)
    files = [path for question, path in host.asked if question in ("read", "file", "files")]
    assert files == ["/sys/bus/pci/devices/0000:08:00.0/class"]
    assert not [path for _, path in host.asked if path.endswith("/config")]


def test_a_host_without_a_bus_has_none(host_in_memory) -> None:
    recording = roce_host().recording()
    del recording.listings["/sys/bus/pci/devices"]
    found = read_topology(host_in_memory(recording))
    assert found.gpus.why is Why.ABSENT


def test_this_machine_can_be_read() -> None:
    found = read_topology(LiveHost())
    for gpu in () if isinstance(found.gpus, Missing) else found.gpus:
        assert isinstance(gpu.place, Place)
