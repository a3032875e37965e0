"""sysfs: each attribute's form, and whole trees with one thing changed."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import GidEntry, Missing, PciFunction, SysfsNetDev, UverbsEntry, Why
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer, NodeType, PhysState, PortState
from rdmadiag.sources import sysfs
from rdmadiag.sources.sysfs import read_sysfs

PARSERS = {
    "state": (sysfs.parse_state, PortState),
    "phys_state": (sysfs.parse_phys_state, PhysState),
    "node_type": (sysfs.parse_node_type, NodeType),
    "link_layer": (sysfs.parse_link_layer, LinkLayer),
    "rate": (sysfs.parse_rate, float),
    "guid": (sysfs.parse_guid, str),
    "gid": (sysfs.parse_gid, Gid),
    "gid_type": (lambda raw: sysfs.parse_gid_type(raw, LinkLayer.ETHERNET), GidType),
    "boolean": (sysfs.parse_boolean, bool),
    "settings": (sysfs.parse_settings, tuple),
    "pci_address": (sysfs.parse_pci_address, str),
}
REAL = st.sampled_from(
    [
        b"4: ACTIVE\n",
        b"5: LinkUp\n",
        b"1: CA\n",
        b"InfiniBand\n",
        b"100 Gb/sec (4X EDR)\n",
        b"0002:c903:00e0:1234\n",
        b"fe80:0000:0000:0000:0002:c903:00e0:1234\n",
        b"RoCE v2\n",
        b"PCI_SLOT_NAME=0000:43:00.0\n",
    ]
)


@st.composite
def damaged(draw):
    """A real attribute with some bytes replaced, and perhaps cut."""
    raw = bytearray(draw(REAL))
    for _ in range(draw(st.integers(1, 3))):
        raw[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
    return bytes(raw[: draw(st.integers(0, len(raw)))])


@pytest.mark.parametrize("name", PARSERS)
@given(raw=st.binary(max_size=120) | damaged())
def test_any_bytes_are_a_value_of_the_kind_or_malformed(name, raw):
    parse, kind = PARSERS[name]
    found = parse(raw)
    assert isinstance(found, kind | Missing)


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        (b"1: DOWN\n", PortState.DOWN),
        (b"2: INIT\n", PortState.INIT),
        (b"3: ARMED\n", PortState.ARMED),
        (b"4: ACTIVE\n", PortState.ACTIVE),
        (b"5: ACTIVE_DEFER\n", PortState.ACTIVE_DEFER),
    ],
    ids=lambda value: value.decode().strip() if isinstance(value, bytes) else "",
)
def test_the_states_that_the_kernel_documents(raw, state):
    assert sysfs.parse_state(raw) is state


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        (b"1: Sleep\n", PhysState.SLEEP),
        (b"2: Polling\n", PhysState.POLLING),
        (b"3: Disabled\n", PhysState.DISABLED),
        (b"4: PortConfigurationTraining\n", PhysState.TRAINING),
        (b"5: LinkUp\n", PhysState.LINK_UP),
        (b"6: LinkErrorRecovery\n", PhysState.LINK_ERROR_RECOVERY),
        (b"7: Phy Test\n", PhysState.PHY_TEST),
    ],
    ids=lambda value: value.decode().strip() if isinstance(value, bytes) else "",
)
def test_the_physical_states_that_the_kernel_documents(raw, state):
    assert sysfs.parse_phys_state(raw) is state


@pytest.mark.parametrize(
    ("raw", "kind"),
    [(b"1: CA\n", NodeType.CA), (b"4: RNIC\n", NodeType.RNIC), (b"2: switch\n", NodeType.SWITCH)],
    ids=["a channel adapter", "iWARP", "a switch"],
)
def test_the_node_types_that_the_kernel_documents(raw, kind):
    assert sysfs.parse_node_type(raw) is kind


def test_a_number_that_no_table_knows_is_malformed():
    assert sysfs.parse_state(b"9: NEW\n") == Missing(
        Why.MALFORMED, "'9: NEW' is not a known PortState"
    )


@pytest.mark.parametrize(
    ("raw", "layer"),
    [
        (b"InfiniBand\n", LinkLayer.INFINIBAND),
        (b"Ethernet\n", LinkLayer.ETHERNET),
        (b"Unspecified\n", LinkLayer.UNSPECIFIED),
        (b"Unknown\n", LinkLayer.UNSPECIFIED),
    ],
    ids=["InfiniBand", "Ethernet", "Unspecified", "Unknown"],
)
def test_the_link_layers_that_the_kernel_prints(raw, layer):
    assert sysfs.parse_link_layer(raw) is layer


@pytest.mark.parametrize(
    ("raw", "why"),
    [(b"\n", Why.ABSENT), (b"Token Ring\n", Why.MALFORMED)],
    ids=["none at all", "another one"],
)
def test_a_link_layer_that_is_none_is_missing(raw, why):
    assert sysfs.parse_link_layer(raw).why is why


@pytest.mark.parametrize(
    ("raw", "rate"),
    [
        (b"2.5 Gb/sec (1X)\n", 2.5),
        (b"40 Gb/sec (4X QDR)\n", 40.0),
        (b"800 Gb/sec (4X XDR)\n", 800.0),
        (b"100 Gb/sec (4X EDR)\n", 100.0),
    ],
    ids=lambda value: value.decode().strip() if isinstance(value, bytes) else "",
)
def test_a_rate_is_in_gigabits(raw, rate):
    assert sysfs.parse_rate(raw) == rate


@pytest.mark.parametrize(
    ("raw", "guid"),
    [
        (b"0002:c903:00e0:1234\n", "0002:c903:00e0:1234"),
        (b"0x0002C90300E01234\n", "0002:c903:00e0:1234"),
        (b"0000:0000:0000:0000\n", "0000:0000:0000:0000"),
    ],
    ids=["as sysfs writes it", "one hexadecimal number", "a GUID that was never set"],
)
def test_a_guid_is_written_in_the_groups_of_sysfs(raw, guid):
    assert sysfs.parse_guid(raw) == guid


@pytest.mark.parametrize("raw", [b"", b"0002:c903:00e0\n", b"0002:c903:00e0:123g\n"])
def test_what_is_no_guid_is_malformed(raw):
    assert sysfs.parse_guid(raw).why is Why.MALFORMED


@pytest.mark.parametrize(
    ("raw", "layer", "kind"),
    [
        (b"RoCE v2\n", LinkLayer.ETHERNET, GidType.ROCE_V2),
        (b"IB/RoCE v1\n", LinkLayer.ETHERNET, GidType.ROCE_V1),
        (b"IB/RoCE v1\n", LinkLayer.INFINIBAND, GidType.IB),
    ],
    ids=["RoCE v2", "RoCE v1", "InfiniBand"],
)
def test_the_link_layer_tells_what_the_kernel_prints_alike(raw, layer, kind):
    assert sysfs.parse_gid_type(raw, layer) is kind


def test_what_is_printed_alike_is_not_guessed_without_the_link_layer():
    found = sysfs.parse_gid_type(b"IB/RoCE v1\n", Missing(Why.DENIED, "link_layer: EACCES"))
    assert found == Missing(Why.DENIED, "IB or RoCE v1: the link layer is not known")
    assert sysfs.parse_gid_type(b"RoCE v2\n", Missing(Why.DENIED)) is GidType.ROCE_V2


def test_the_address_of_a_pci_function_is_in_its_uevent():
    uevent = b"DRIVER=ib_qib\nPCI_CLASS=C0600\nPCI_SLOT_NAME=0000:43:00.0\nMODALIAS=pci:v\n"
    assert sysfs.parse_pci_address(uevent) == "0000:43:00.0"
    assert sysfs.parse_pci_address(b"PCI_SLOT_NAME=virtio0\n").why is Why.MALFORMED


# --- whole trees ------------------------------------------------------------------------

PORT = "/sys/class/infiniband/mlx5_0/ports/1"


def test_a_healthy_machine_is_told_whole(memory_host):
    found = read_sysfs(memory_host)
    roce, ib = found.devices
    assert (roce.name, roce.node_type, roce.node_guid) == (
        "mlx5_0",
        NodeType.CA,
        "0c42:a103:0000:0001",
    )
    assert (roce.firmware, roce.hca_type, roce.board_id) == (
        "22.31.1014",
        "MT4125",
        "MT_0000000359",
    )
    assert roce.pci == PciFunction(
        address="0000:08:00.0",
        driver="mlx5_core",
        vendor="0x15b3",
        device="0x101d",
        pci_class="0x020000",
        numa_node=0,
        current_link_speed="16.0 GT/s PCIe",
        current_link_width=16,
        max_link_speed="16.0 GT/s PCIe",
        max_link_width=16,
    )
    port = roce.port(1)
    assert (port.state, port.phys_state, port.link_layer) == (
        PortState.ACTIVE,
        PhysState.LINK_UP,
        LinkLayer.ETHERNET,
    )
    assert (port.rate, port.rate_gbps, port.cap_mask, port.has_smi) == (
        "100 Gb/sec (4X EDR)",
        100.0,
        0x04010000,
        False,
    )
    assert port.pkeys == {0: 0xFFFF}
    assert port.gids.length == 16
    assert port.gids.entries[2] == GidEntry(
        2, Gid.parse("::ffff:192.0.2.1"), GidType.ROCE_V1, "eth0"
    )
    assert port.gids.entries[3].type is GidType.ROCE_V2
    assert (ib.port(1).lid, ib.port(1).sm_lid, ib.port(1).link_layer) == (
        7,
        1,
        LinkLayer.INFINIBAND,
    )
    alias = "pci:v000015B3d0000101Dsv000015B3sd00000000bc02sc00i00"
    assert found.uverbs[1] == UverbsEntry("uverbs1", "mlx5_1", "231:193", 1, alias)
    assert found.uverbs_abi == 6
    assert found.netdevs == (SysfsNetDev("eth0", 2, "up", 1500, "0c:42:a1:00:00:01"),)
    assert [each.address for each in found.candidates] == ["0000:08:00.0", "0000:09:00.0"]


def test_settings_of_a_driver_that_has_them_are_lines(memory_host):
    device = "/sys/class/infiniband/mlx5_0"
    lines = b"Global tclass=106\ntclass=160 dst_ip=192.0.2.0/24\n"
    memory_host.recording.files |= {
        f"{device}/tc/1/traffic_class": lines,
        f"{device}/ttl/1/ttl": b"64\n",
    }
    found = read_sysfs(memory_host)
    port = found.device("mlx5_0").port(1)
    assert port.traffic_class == ("Global tclass=106", "tclass=160 dst_ip=192.0.2.0/24")
    assert port.ttl == ("64",)
    other = found.device("mlx5_1").port(1)
    assert (other.traffic_class.why, other.ttl.why) == (Why.ABSENT, Why.ABSENT)
    assert sysfs.parse_settings(b"\n") == ()


def test_no_counter_and_no_device_node_is_read(memory_host):
    read_sysfs(memory_host)
    paths = {path for _, path in memory_host.asked}
    assert paths
    assert not [path for path in paths if "counters" in path or not path.startswith("/sys/")]


@pytest.mark.parametrize(
    ("path", "content", "field", "why"),
    [
        (f"{PORT}/state", b"\x7fELF\0\1", "state", Why.MALFORMED),
        (f"{PORT}/state", b"4", "state", Why.MALFORMED),
        (f"{PORT}/state", b"", "state", Why.MALFORMED),
        (f"{PORT}/phys_state", b"12345678901: X", "phys_state", Why.MALFORMED),
        (f"{PORT}/link_layer", b"", "link_layer", Why.ABSENT),
        (f"{PORT}/rate", b"\xff\xfe", "rate", Why.MALFORMED),
        (f"{PORT}/rate", b"fast", "rate_gbps", Why.MALFORMED),
        (f"{PORT}/lid", b"none", "lid", Why.MALFORMED),
        (f"{PORT}/has_smi", b"yes", "has_smi", Why.MALFORMED),
    ],
    ids=[
        "a binary state",
        "a truncated state",
        "an empty state",
        "a number with too many digits",
        "an empty link layer",
        "a rate that is not text",
        "a rate without a number",
        "a LID in words",
        "a flag in words",
    ],
)
def test_one_bad_attribute_costs_only_itself(memory_host, path, content, field, why):
    healthy = read_sysfs(memory_host).device("mlx5_0")
    memory_host.recording.files[path] = content
    changed = read_sysfs(memory_host).device("mlx5_0")
    assert getattr(changed.port(1), field).why is why
    assert changed.port(1).gids.length == healthy.port(1).gids.length
    assert changed.pci == healthy.pci
    assert changed.firmware == healthy.firmware


@pytest.mark.parametrize(
    "why", [Why.DENIED, Why.UNSUPPORTED, Why.TIMEOUT], ids=lambda why: f"it is {why}"
)
def test_an_attribute_that_is_refused_keeps_its_reason(memory_host, why):
    memory_host.recording.refuse("read", f"{PORT}/state", Missing(why, f"{PORT}/state: E"))
    port = read_sysfs(memory_host).device("mlx5_0").port(1)
    assert port.state == Missing(why, f"{PORT}/state: E")
    assert port.phys_state is PhysState.LINK_UP


@pytest.mark.parametrize(
    ("folder", "field"),
    [
        ("/sys/class/infiniband", "devices"),
        ("/sys/class/infiniband_verbs", "uverbs"),
        ("/sys/bus/pci/devices", "candidates"),
    ],
)
def test_a_folder_that_cannot_be_listed_is_missing_and_the_rest_is_told(memory_host, folder, field):
    refused = Missing(Why.DENIED, f"{folder}: EACCES")
    healthy = read_sysfs(memory_host)
    memory_host.recording.refuse("list", folder, refused)
    found = read_sysfs(memory_host)
    assert getattr(found, field) == refused
    others = {"devices", "uverbs", "candidates"} - {field}
    assert all(getattr(found, other) == getattr(healthy, other) for other in others)
    assert found.device("mlx5_0") is None or field != "devices"


@pytest.mark.parametrize(("rows", "is_read"), [(4096, True), (4097, False), (10**9, False)])
def test_a_gid_table_that_is_longer_than_any_is_not_believed(memory_host, rows, is_read):
    memory_host.recording.listings[f"{PORT}/gids"] = ("0", "1", str(rows - 1))
    gids = read_sysfs(memory_host).device("mlx5_0").port(1).gids
    assert is_read is not isinstance(gids, Missing)
    if not is_read:
        assert gids == Missing(Why.MALFORMED, f"{PORT}/gids: {rows} rows, more than any port has")


@pytest.mark.parametrize("table", ["gids", "pkeys"])
def test_a_table_that_cannot_be_listed_is_missing(memory_host, table):
    memory_host.recording.refuse("list", f"{PORT}/{table}", Missing(Why.DENIED, "EACCES"))
    port = read_sysfs(memory_host).device("mlx5_0").port(1)
    assert getattr(port, table) == Missing(Why.DENIED, "EACCES")


def test_ports_that_cannot_be_listed_are_missing(memory_host):
    memory_host.recording.refuse(
        "list", "/sys/class/infiniband/mlx5_0/ports", Missing(Why.DENIED, "EACCES")
    )
    device = read_sysfs(memory_host).device("mlx5_0")
    assert device.ports == Missing(Why.DENIED, "EACCES")
    assert device.port(1) is None


def test_partition_keys_that_are_all_refused_are_not_taken_for_none(memory_host):
    memory_host.recording.refuse("read", f"{PORT}/pkeys/0", Missing(Why.DENIED, "EACCES"))
    assert read_sysfs(memory_host).device("mlx5_0").port(1).pkeys == Missing(Why.DENIED, "EACCES")


def test_a_partition_key_of_zero_is_an_empty_slot(memory_host):
    memory_host.recording.listings[f"{PORT}/pkeys"] = ("0", "1", "2")
    memory_host.recording.files[f"{PORT}/pkeys/1"] = b"0x0000\n"
    memory_host.recording.files[f"{PORT}/pkeys/2"] = b"0x8001\n"
    assert read_sysfs(memory_host).device("mlx5_0").port(1).pkeys == {0: 0xFFFF, 2: 0x8001}


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        (b"not a gid\n", "'not a gid' is not a GID"),
        (b"fe80:0000:0000:00", "'fe80:0000:0000:00' is not a GID"),
        (
            b"0000:0000:0000:0000:0000:0000:0000:0000 and more\n",
            "'0000:0000:0000:0000:0000:0000:0000:0000 and more' is not a GID",
        ),
    ],
    ids=["a word", "cut short", "an empty slot with text behind it"],
)
def test_a_bad_row_of_the_gid_table_is_named_and_the_others_stay(memory_host, content, detail):
    memory_host.recording.files[f"{PORT}/gids/3"] = content
    gids = read_sysfs(memory_host).device("mlx5_0").port(1).gids
    assert gids.unreadable == {3: Missing(Why.MALFORMED, f"{PORT}/gids/3: {detail}")}
    assert [entry.index for entry in gids.entries] == [0, 1, 2, 4, 5]
    assert gids.length == 16


def test_a_row_of_the_gid_table_that_is_refused_is_named(memory_host):
    refused = Missing(Why.DENIED, f"{PORT}/gids/0: EACCES")
    memory_host.recording.refuse("read", f"{PORT}/gids/0", refused)
    gids = read_sysfs(memory_host).device("mlx5_0").port(1).gids
    assert gids.unreadable == {0: refused}


@pytest.mark.parametrize("zero", [b"::\n", b"0:0:0:0:0:0:0:0\n"], ids=["::", "short groups"])
def test_an_empty_row_in_another_notation_is_an_empty_row(memory_host, zero):
    memory_host.recording.files[f"{PORT}/gids/1"] = zero
    gids = read_sysfs(memory_host).device("mlx5_0").port(1).gids
    assert [entry.index for entry in gids.entries] == [0, 2, 3, 4, 5]
    assert gids.unreadable == {}


def test_a_gid_table_without_rows_has_no_length(memory_host):
    memory_host.recording.listings[f"{PORT}/gids"] = ()
    gids = read_sysfs(memory_host).device("mlx5_0").port(1).gids
    assert (gids.length, gids.entries) == (0, ())


def test_a_copy_that_lost_a_row_keeps_the_length_of_the_table(memory_host):
    names = memory_host.recording.listings[f"{PORT}/gids"]
    memory_host.recording.listings[f"{PORT}/gids"] = tuple(name for name in names if name != "8")
    assert read_sysfs(memory_host).device("mlx5_0").port(1).gids.length == 16


def test_names_that_are_no_table_index_are_passed_over(memory_host):
    odd = (".", "-1", "01", "1a", "²", "9" * 5000)
    memory_host.recording.listings[f"{PORT}/gids"] += odd
    memory_host.recording.listings["/sys/class/infiniband/mlx5_0/ports"] += odd
    device = read_sysfs(memory_host).device("mlx5_0")
    assert [port.number for port in device.ports] == [1]
    assert device.port(1).gids.length == 16


def test_a_gid_without_attributes_is_told_with_what_is_missing(memory_host):
    """As on kernels before 4.4, which have no gid_attrs."""
    files = memory_host.recording.files
    for path in [path for path in files if "gid_attrs" in path]:
        del files[path]
    found = read_sysfs(memory_host)
    entry = found.device("mlx5_0").port(1).gids.entries[0]
    assert entry.type == Missing(Why.ABSENT, f"{PORT}/gid_attrs/types/0: ENOENT")
    assert entry.netdev == Missing(Why.ABSENT, f"{PORT}/gid_attrs/ndevs/0: ENOENT")
    assert found.netdevs == ()


def test_a_netdev_name_with_a_slash_is_not_looked_up(memory_host):
    memory_host.recording.files[f"{PORT}/gid_attrs/ndevs/0"] = b"../../../etc\n"
    found = read_sysfs(memory_host)
    assert [netdev.name for netdev in found.netdevs] == ["eth0"]
    assert not [path for _, path in memory_host.asked if "etc" in path]


def test_hidden_names_are_no_devices(memory_host):
    memory_host.recording.listings["/sys/class/infiniband"] += (".", ".git")
    assert len(read_sysfs(memory_host).devices) == 2


# --- the PCI function -------------------------------------------------------------------

DEVICE = "/sys/class/infiniband/mlx5_0/device"


def test_a_device_that_is_no_pci_function_says_so(memory_host):
    memory_host.recording.links[DEVICE] = "../../../mlx5_core.sf.4"
    assert read_sysfs(memory_host).device("mlx5_0").pci == Missing(
        Why.UNSUPPORTED, f"{DEVICE}: mlx5_core.sf.4 is not a PCI function"
    )


def test_a_software_device_has_a_parent_and_no_pci_function(memory_host):
    del memory_host.recording.links[DEVICE]
    for name in [each for each in memory_host.recording.files if each.startswith(DEVICE)]:
        del memory_host.recording.files[name]
    memory_host.recording.files["/sys/class/infiniband/mlx5_0/parent"] = b"eth0\n"
    device = read_sysfs(memory_host).device("mlx5_0")
    assert device.parent == "eth0"
    assert device.pci == Missing(Why.ABSENT, f"{DEVICE}: ENOENT")


def test_a_copy_with_a_folder_for_the_link_is_told_by_its_uevent(memory_host):
    del memory_host.recording.links[DEVICE]
    memory_host.recording.refuse("readlink", DEVICE, Missing(Why.UNSUPPORTED, f"{DEVICE}: EINVAL"))
    assert read_sysfs(memory_host).device("mlx5_0").pci.address == "0000:08:00.0"


def test_a_folder_for_the_link_without_a_uevent_names_the_uevent(memory_host):
    del memory_host.recording.links[DEVICE]
    memory_host.recording.refuse("readlink", DEVICE, Missing(Why.UNSUPPORTED, f"{DEVICE}: EINVAL"))
    memory_host.recording.files[f"{DEVICE}/uevent"] = b"DRIVER=x\n"
    found = read_sysfs(memory_host).device("mlx5_0").pci
    assert found == Missing(
        Why.MALFORMED, f"{DEVICE}/uevent: 'DRIVER=x' is not the uevent of a PCI function"
    )


def test_a_function_without_a_driver_is_told_without_one(memory_host):
    del memory_host.recording.links[f"{DEVICE}/driver"]
    pci = read_sysfs(memory_host).device("mlx5_0").pci
    assert pci.driver == Missing(Why.ABSENT, f"{DEVICE}/driver: ENOENT")
    assert pci.address == "0000:08:00.0"


@pytest.mark.parametrize(
    ("pci_class", "driver", "listed"),
    [
        (b"0x020000\n", "mlx5_core", True),
        (b"0x020000\n", "e1000e", False),
        (b"0x020000\n", None, False),
        (b"0x020700\n", None, True),
        (b"0x0c0600\n", None, True),
        (b"0x010802\n", "nvme", False),
        (b"\xff", "mlx5_core", False),
    ],
    ids=[
        "an Ethernet function whose driver has an RDMA half",
        "an Ethernet function whose driver has none",
        "an Ethernet function without a driver",
        "an InfiniBand function without a driver",
        "an InfiniBand function of the serial bus class",
        "a disk",
        "a function whose class cannot be read",
    ],
)
def test_which_functions_could_carry_rdma(memory_host, pci_class, driver, listed):
    folder = "/sys/bus/pci/devices/0000:0a:00.0"
    memory_host.recording.listings["/sys/bus/pci/devices"] = ("0000:0a:00.0",)
    memory_host.recording.files[f"{folder}/class"] = pci_class
    if driver:
        memory_host.recording.links[f"{folder}/driver"] = f"../../../bus/pci/drivers/{driver}"
    found = read_sysfs(memory_host).candidates
    assert [each.address for each in found] == (["0000:0a:00.0"] if listed else [])


# --- what changes while it is read ------------------------------------------------------


def test_a_device_that_disappears_between_two_reads_is_told_with_its_reasons(host_in_memory, roce):
    class Unplugged(host_in_memory):
        def read(self, path, limit=65536):
            if path.startswith("/sys/class/infiniband/mlx5_0/") and ("read", path) in self.asked:
                raise AssertionError(f"{path} was read twice")
            if path == f"{PORT}/phys_state":
                self.unplug()
            return super().read(path, limit)

        def unplug(self):
            for store in (self.recording.files, self.recording.links, self.recording.listings):
                for path in [each for each in store if "/mlx5_0/" in each]:
                    del store[path]

    found = read_sysfs(Unplugged(roce.recording()))
    port = found.device("mlx5_0").port(1)
    assert port.state is PortState.ACTIVE
    assert port.phys_state == Missing(Why.ABSENT, f"{PORT}/phys_state: ENOENT")
    assert port.gids == Missing(Why.ABSENT, f"{PORT}/gids: ENOENT")
    assert found.device("mlx5_1").port(1).state is PortState.ACTIVE


def test_a_machine_with_thousands_of_rows_is_read_in_time(host_in_memory):
    from lab.machine import big_host

    machine = big_host(hcas=4, ports=2, gids=256)
    began = time.monotonic()
    found = read_sysfs(host_in_memory(machine.recording()))
    assert time.monotonic() - began < 20
    assert sum(len(port.gids.entries) for each in found.devices for port in each.ports) == 4 * 2 * 8
