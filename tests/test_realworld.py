"""Captures of real machines, read as a bare sysfs; expected values come from the files' text."""

import re
import shutil
from pathlib import Path

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.host.recorded import open_snapshot
from rdmadiag.sources.run import gather
from rdmadiag.sources.sysfs import read_sysfs

PORTS = [("hfi1_0", 1), ("mlx4_0", 1), ("mlx4_0", 2), ("mlx5_0", 1)]
QIB_PCI = "devices/pci0000:40/0000:40:03.0/0000:43:00.0"


def text(path: Path) -> str:
    return path.read_text().strip()


@pytest.fixture(params=["as a copy of /sys", "in a folder with sys in it"])
def opened(request, realworld, tmp_path):
    """Opens one of the captured trees, and tells where its files are."""

    def open_tree(name):
        tree = realworld / "sysfs" / name
        if request.param == "as a copy of /sys":
            return open_snapshot(str(tree)), tree
        shutil.copytree(tree, tmp_path / "host" / "sys", symlinks=True)
        return open_snapshot(str(tmp_path / "host")), tmp_path / "host" / "sys"

    return open_tree


def test_every_device_of_the_procfs_fixtures_is_told(opened):
    host, tree = opened("procfs_fixtures")
    found = read_sysfs(host)
    folder = tree / "class/infiniband"
    assert [device.name for device in found.devices] == sorted(p.name for p in folder.iterdir())
    for device in found.devices:
        assert device.firmware == text(folder / device.name / "fw_ver")
        assert device.board_id == text(folder / device.name / "board_id")
        numbers = sorted(int(port.name) for port in (folder / device.name / "ports").iterdir())
        assert [port.number for port in device.ports] == numbers
    assert found.device("mlx4_0").hca_type == text(folder / "mlx4_0/hca_type")


@pytest.mark.parametrize(("name", "number"), PORTS, ids=str)
def test_every_port_of_the_procfs_fixtures_is_told_as_its_files_say(opened, name, number):
    host, tree = opened("procfs_fixtures")
    port = read_sysfs(host).device(name).port(number)
    files = tree / f"class/infiniband/{name}/ports/{number}"
    assert f"{port.state.number}: {port.state.upper()}" == text(files / "state")
    assert str(port.phys_state.number) == text(files / "phys_state").partition(":")[0]
    assert port.rate == text(files / "rate")
    assert port.rate_gbps == float(text(files / "rate").partition(" ")[0])
    assert port.link_layer == text(files / "link_layer").lower()


def test_what_the_procfs_fixtures_leave_out_is_absent(opened):
    host, _ = opened("procfs_fixtures")
    found = read_sysfs(host)
    device = found.device("mlx4_0")
    assert device.node_guid.why is device.pci.why is Why.ABSENT
    assert device.port(1).gids.why is device.port(1).lid.why is Why.ABSENT
    assert found.uverbs.why is found.candidates.why is Why.ABSENT


def test_a_guid_is_told_as_its_file_says(opened):
    host, tree = opened("procfs_fixtures")
    guid = text(tree / "class/infiniband/mlx5_0/node_guid")
    assert read_sysfs(host).device("mlx5_0").node_guid == guid


def test_the_qib_is_told_through_links_that_are_text_files(opened):
    host, tree = opened("hwloc_40intel64_qib")
    (device,) = read_sysfs(host).devices
    files = tree / QIB_PCI / "infiniband/qib0"
    assert device.name == "qib0"
    assert device.node_guid == text(files / "node_guid")
    assert device.sys_image_guid == text(files / "sys_image_guid")
    assert device.board_id == text(files / "board_id")
    assert device.hca_type == text(files / "hca_type")
    assert device.hw_rev == text(files / "hw_rev")
    assert device.node_desc == text(files / "node_desc")
    assert f"{device.node_type.number}: {device.node_type.upper()}" == text(files / "node_type")
    assert device.firmware == Missing(Why.ABSENT, "/sys/class/infiniband/qib0/fw_ver: ENOENT")


def test_the_port_of_the_qib_is_told_as_its_files_say(opened):
    host, tree = opened("hwloc_40intel64_qib")
    port = read_sysfs(host).device("qib0").port(1)
    files = tree / QIB_PCI / "infiniband/qib0/ports/1"
    assert f"{port.state.number}: {port.state.upper()}" == text(files / "state")
    assert str(port.phys_state.number) == text(files / "phys_state").partition(":")[0]
    assert port.rate == text(files / "rate")
    assert port.link_layer == text(files / "link_layer").lower()
    for name in ("lid", "sm_lid", "cap_mask", "lid_mask_count", "sm_sl"):
        assert getattr(port, name) == int(text(files / name), 0)
    keys = {int(each.name): int(text(each), 0) for each in (files / "pkeys").iterdir()}
    assert port.pkeys == {index: key for index, key in keys.items() if key}
    rows = {int(each.name): text(each) for each in (files / "gids").iterdir()}
    assert {entry.index: entry.gid.groups for entry in port.gids.entries} == {
        index: row for index, row in rows.items() if re.search("[1-9a-f]", row)
    }
    assert port.gids.length == len(rows)
    assert all(entry.type.why is Why.ABSENT for entry in port.gids.entries)


def test_the_pci_function_of_the_qib_is_told_as_its_files_say(opened):
    host, tree = opened("hwloc_40intel64_qib")
    pci = read_sysfs(host).device("qib0").pci
    files = tree / QIB_PCI
    assert pci.address == Path(QIB_PCI).name
    assert pci.driver == re.search("DRIVER=(.*)", text(files / "uevent"))[1]
    assert (pci.vendor, pci.device) == (text(files / "vendor"), text(files / "device"))
    assert pci.pci_class == text(files / "class")
    assert pci.numa_node == int(text(files / "numa_node"))
    assert pci.current_link_speed == text(files / "current_link_speed")
    assert pci.current_link_width == int(text(files / "current_link_width"))
    assert pci.max_link_speed.why is Why.ABSENT


@pytest.mark.parametrize("name", ["procfs_fixtures", "hwloc_40intel64_qib"])
def test_a_capture_of_sysfs_alone_leaves_the_other_sources_not_collected(opened, soon, name):
    host, _ = opened(name)
    found = gather(host, soon)
    assert found.nldev.why is found.netdev.why is found.process.why is Why.NOT_COLLECTED
    assert found.sysfs == read_sysfs(host)
