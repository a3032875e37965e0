"""RDMA netlink: replies as the kernel lays them out, damaged ones, and what is never asked."""

import dataclasses
import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Chardev, Missing, NldevDevice, NldevPort, ResourceCount, Why
from rdmadiag.facts.ib import DriverId, NetnsMode, NodeType, PhysState, PortState
from rdmadiag.host import netlink
from rdmadiag.host.live import LiveHost
from rdmadiag.sources import nldev
from rdmadiag.sources.nldev import read_nldev
from rdmadiag.sources.nldev_messages import GET, GET_CHARDEV, PORT_GET, request
from tests.sources.any_bytes import damaged, well_typed

PARSERS = {
    "nldev-get": (nldev.parse_indexes, tuple),
    "nldev-get-0": (nldev.parse_device, NldevDevice),
    "nldev-port-get-0-1": (nldev.parse_port, NldevPort),
    "nldev-port-get-1-1": (nldev.parse_port, NldevPort),
    "nldev-get-chardev-0": (nldev.parse_chardev, Chardev),
    "nldev-res-get-0": (nldev.parse_resources, dict),
    "nldev-sys-get": (nldev.parse_netns_mode, NetnsMode),
}


@pytest.fixture(scope="module")
def replies(roce):
    """What the kernel of the healthy machine answers, by the name of the request."""
    return roce.recording().netlink


def reply(*attributes, op=1):
    """An nldev message as the kernel lays it out: numbers from rdma/rdma_netlink.h."""
    body = b""
    for number, value in attributes:
        body += struct.pack("=HH", 4 + len(value), number) + value + bytes(-len(value) % 4)
    return struct.pack("=IHHII", 16 + len(body), (5 << 10) + op, 0, 0, 0) + body


def u8(value):
    return struct.pack("=B", value)


def u32(value):
    return struct.pack("=I", value)


def u64(value):
    return struct.pack("=Q", value)


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
def test_any_bytes_are_facts_of_the_promised_types_or_missing(name, replies, data):
    parse, kind = PARSERS[name]
    found = parse(data.draw(damaged(replies[name]) | st.binary(max_size=120)))
    assert isinstance(found, kind | Missing)
    assert well_typed(found, type(found))
    if isinstance(found, dict):
        assert all(isinstance(key, str) for key in found)
        assert all(well_typed(each, ResourceCount) for each in found.values())


@pytest.mark.parametrize("name", PARSERS)
def test_a_reply_that_is_cut_anywhere_is_facts_or_missing(name, replies):
    parse, kind = PARSERS[name]
    whole = replies[name]
    for length in range(len(whole)):
        assert isinstance(parse(whole[:length]), kind | Missing)
    assert parse(whole[: len(whole) // 2]).why is Why.MALFORMED


# --- each reply's form ------------------------------------------------------------------

DEVICE = [
    (1, u32(3)),
    (2, b"mlx5_3\0"),
    (3, u32(2)),
    (5, b"22.31.1014\0"),
    (6, u64(0x0C42A10300000001)),
    (7, u64(0x0C42A10300000001)),
    (14, u8(1)),
    (67, b"roce\0"),
]


def without(attributes, number):
    return [each for each in attributes if each[0] != number]


def test_a_device_is_told_whole():
    found = nldev.parse_device(reply(*DEVICE))
    assert (found.index, found.name, found.port_count) == (3, "mlx5_3", 2)
    assert (found.node_type, found.firmware, found.protocol) == (NodeType.CA, "22.31.1014", "roce")
    assert found.node_guid == found.sys_image_guid == "0c42:a103:0000:0001"


def test_attributes_that_are_not_known_are_passed_over():
    odd = [(0x3FFF, b"whatever"), (200, b""), (0x8000 | 15, u32(0))]
    assert nldev.parse_device(reply(*odd, *DEVICE, *odd)) == nldev.parse_device(reply(*DEVICE))


@pytest.mark.parametrize(
    ("number", "field", "name"),
    [
        (3, "port_count", "PORT_INDEX"),
        (5, "firmware", "FW_VERSION"),
        (6, "node_guid", "NODE_GUID"),
        (14, "node_type", "DEV_NODE_TYPE"),
        (67, "protocol", "DEV_PROTOCOL"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_attribute_that_an_older_kernel_does_not_send_is_absent(number, field, name):
    found = nldev.parse_device(reply(*without(DEVICE, number)))
    assert getattr(found, field) == Missing(Why.ABSENT, f"RDMA_NLDEV_ATTR_{name}")


def test_an_empty_firmware_version_is_absent():
    found = nldev.parse_device(reply(*without(DEVICE, 5), (5, b"\0")))
    assert found.firmware == Missing(Why.ABSENT, "RDMA_NLDEV_ATTR_FW_VERSION: empty")


def test_a_firmware_version_that_is_not_text_is_malformed():
    found = nldev.parse_device(reply(*without(DEVICE, 5), (5, b"\xff\xfe\0")))
    assert found.firmware.why is Why.MALFORMED


def test_a_node_type_that_no_table_knows_is_malformed():
    found = nldev.parse_device(reply(*without(DEVICE, 14), (14, u8(99))))
    assert found.node_type == Missing(
        Why.MALFORMED, "RDMA_NLDEV_ATTR_DEV_NODE_TYPE: 99 is not a known NodeType"
    )


@pytest.mark.parametrize(
    "attributes",
    [without(DEVICE, 1), without(DEVICE, 2), [*without(DEVICE, 2), (2, b"\xff\0")], []],
    ids=["no index", "no name", "a name that is not text", "nothing at all"],
)
def test_a_device_that_cannot_be_told_apart_is_malformed(attributes):
    assert nldev.parse_device(reply(*attributes)).why is Why.MALFORMED


def test_the_indexes_of_a_dump_are_told_once_and_in_order():
    dump = b"".join(reply((1, u32(index))) for index in (4, 0, 4, 2)) + reply((2, b"nameless\0"))
    assert nldev.parse_indexes(dump) == (0, 2, 4)
    assert nldev.parse_indexes(b"") == ()


def test_an_infiniband_port_is_told_with_its_lids():
    found = nldev.parse_port(
        reply(
            (1, u32(0)),
            (3, u32(1)),
            (9, u32(7)),
            (10, u32(1)),
            (11, u8(0)),
            (12, u8(4)),
            (13, u8(5)),
        )
    )
    assert (found.number, found.state, found.phys_state) == (
        1,
        PortState.ACTIVE,
        PhysState.LINK_UP,
    )
    assert (found.lid, found.sm_lid, found.lmc) == (7, 1, 0)
    assert found.netdev == Missing(Why.ABSENT, "RDMA_NLDEV_ATTR_NDEV_NAME")


def test_a_roce_port_is_told_with_its_netdev():
    found = nldev.parse_port(
        reply((3, u32(1)), (12, u8(1)), (13, u8(3)), (50, u32(2)), (51, b"eth0\0"))
    )
    assert (found.state, found.phys_state) == (PortState.DOWN, PhysState.DISABLED)
    assert (found.netdev, found.netdev_index) == ("eth0", 2)
    assert found.lid == Missing(Why.ABSENT, "RDMA_NLDEV_ATTR_LID")


def test_a_port_without_a_number_is_malformed():
    assert nldev.parse_port(reply((12, u8(4)))) == Missing(
        Why.MALFORMED, "nldev port without a number"
    )


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ((231 << 8) | 192, "231:192"),
        ((231 << 8) | (1 << 20) | 5, "231:261"),
        ((0xFFF << 8) | 0xFF, "4095:255"),
        (0xFFFFFFFF, "4095:1048575"),
    ],
    ids=["the first node", "a minor above 255", "the largest old number", "the largest number"],
)
def test_a_device_number_is_decoded_as_the_kernel_encodes_it(number, text):
    major, minor = map(int, text.split(":"))
    # huge_encode_dev of include/linux/kdev_t.h
    assert number == (minor & 0xFF) | (major << 8) | ((minor & ~0xFF) << 12)
    assert nldev.parse_chardev(reply((70, b"uverbs0\0"), (72, u64(number)))).dev == text


def test_a_character_device_is_told_with_its_driver():
    found = nldev.parse_chardev(
        reply((70, b"uverbs0\0"), (71, u64(1)), (72, u64(231 << 8 | 192)), (73, u32(14)))
    )
    assert found == Chardev("uverbs0", 1, "231:192", DriverId.RXE)
    assert nldev.parse_chardev(reply((70, b"uverbs0\0"))).dev.why is Why.ABSENT
    assert nldev.parse_chardev(reply((71, u64(1)))).why is Why.MALFORMED


def entry(*attributes):
    body = reply(*attributes)[16:]
    return (0x8000 | 16, body)


def test_resources_are_counted_by_their_name():
    summary = reply(
        entry((17, b"qp\0"), (18, u64(3)), (118, u64(1024))),
        entry((17, b"mr\0"), (18, u64(0))),
        entry((17, b"nameless\0")),
        (17, b"stray\0"),
    )[16:]
    found = nldev.parse_resources(reply((1, u32(0)), (0x8000 | 15, summary)))
    assert found == {
        "qp": ResourceCount(3, 1024),
        "mr": ResourceCount(0, Missing(Why.ABSENT, "RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_MAX")),
    }


def test_resources_without_a_summary_are_malformed():
    assert nldev.parse_resources(reply((1, u32(0)))).why is Why.MALFORMED


@pytest.mark.parametrize(
    ("number", "mode"), [(0, NetnsMode.EXCLUSIVE), (1, NetnsMode.SHARED)], ids=["0", "1"]
)
def test_the_namespace_mode_is_exclusive_or_shared(number, mode):
    assert nldev.parse_netns_mode(reply((66, u8(number)), op=6)) is mode


def test_a_namespace_mode_that_is_none_is_missing():
    assert nldev.parse_netns_mode(reply(op=6)).why is Why.UNSUPPORTED
    assert nldev.parse_netns_mode(reply((66, u8(9)), op=6)) == Missing(
        Why.MALFORMED, "netns mode 9"
    )


def test_an_empty_reply_is_absent():
    assert nldev.parse_device(b"") == Missing(Why.ABSENT, "empty nldev reply")


# --- requests ---------------------------------------------------------------------------


def test_a_request_is_laid_out_as_the_kernel_reads_it():
    dump = request(GET, netlink.NLM_F_DUMP)
    (header,) = netlink.messages(dump)
    assert (header.type, header.flags, header.length) == (5121, 0x301, 16)
    one = request(PORT_GET, 0, [("DEV_INDEX", 1), ("PORT_INDEX", 2)])
    assert one[16:] == reply((1, u32(1)), (3, u32(2)))[16:]
    uverbs = request(GET_CHARDEV, 0, [("CHARDEV_TYPE", "uverbs")])
    assert uverbs[16:] == reply((69, b"uverbs\0"))[16:]


class Wire:
    """A host that keeps every request and passes questions on to another."""

    def __init__(self, host):
        self.host = host
        self.sent = {}

    def __getattr__(self, name):
        return getattr(self.host, name)

    def netlink(self, name, protocol, request, deadline):
        assert protocol == netlink.NETLINK_RDMA
        self.sent[name] = request
        return self.host.netlink(name, protocol, request, deadline)


def test_every_request_is_a_read_with_no_more_than_it_needs(memory_host, replies, soon):
    wire = Wire(memory_host)
    read_nldev(wire, soon)
    own = {name for name in replies if name.startswith("nldev-")}
    of_programs = {name for name in own if name.startswith("nldev-res-ctx-")}
    assert set(wire.sent) == own - of_programs
    for sent in wire.sent.values():
        netlink.require_read_only(netlink.NETLINK_RDMA, sent)
    assert len(wire.sent["nldev-sys-get"]) == 16
    assert not any(each.flags & 4 for each in map(first, wire.sent.values()))  # NLM_F_ACK


def first(request):
    return next(netlink.messages(request))


# --- whole machines ---------------------------------------------------------------------


def test_a_healthy_machine_is_told_whole(memory_host, soon):
    found = read_nldev(memory_host, soon)
    assert [device.name for device in found.devices] == ["mlx5_0", "mlx5_1"]
    roce = found.device("mlx5_0")
    assert (roce.port(1).netdev, roce.chardev.name, roce.chardev.dev) == (
        "eth0",
        "uverbs0",
        "231:192",
    )
    assert roce.resources["qp"].current == 1
    assert found.device("mlx5_1").port(1).lid == 7
    assert found.device("mlx5_1").port(2) is None
    assert found.device("mlx5_9") is None
    assert (found.unreadable, found.netns_mode) == ((), NetnsMode.SHARED)


class NotAsked:
    """A host without ib_core, on which any netlink request is a mistake."""

    def list(self, path):
        return Missing(Why.ABSENT, f"{path}: ENOENT")

    def netlink(self, name, protocol, request, deadline):
        raise AssertionError(f"{name}: opening nldev would load ib_core")


def test_nldev_is_not_opened_where_ib_core_is_not_loaded(soon):
    found = read_nldev(NotAsked(), soon)
    assert found.why is Why.ABSENT
    assert "ib_core is not loaded" in found.detail


@pytest.mark.parametrize("sign", ["/sys/module/ib_core", "/sys/class/infiniband"])
def test_one_sign_of_ib_core_is_enough(memory_host, soon, sign):
    for path in {"/sys/module/ib_core", "/sys/class/infiniband"} - {sign}:
        memory_host.recording.listings.pop(path, None)
    assert len(read_nldev(memory_host, soon).devices) == 2


def test_character_devices_are_not_asked_for_where_ib_uverbs_is_not_loaded(memory_host, soon):
    del memory_host.recording.listings["/sys/class/infiniband_verbs"]
    found = read_nldev(memory_host, soon)
    assert {device.chardev for device in found.devices} == {
        Missing(Why.ABSENT, "ib_uverbs is not loaded")
    }
    assert not [name for _, name in memory_host.asked if "chardev" in name]


@pytest.mark.parametrize("why", [Why.DENIED, Why.TIMEOUT, Why.UNSUPPORTED])
def test_a_refused_dump_is_the_reason_for_everything(memory_host, soon, why):
    refused = Missing(why, "netlink nldev-get: E")
    memory_host.recording.refuse("netlink", "nldev-get", refused)
    assert read_nldev(memory_host, soon) == refused


def test_a_dump_that_is_cut_short_is_malformed(memory_host, replies, soon):
    memory_host.recording.netlink["nldev-get"] = replies["nldev-get"][:-3]
    assert read_nldev(memory_host, soon).why is Why.MALFORMED


EINVAL = Missing(Why.UNSUPPORTED, "netlink: EINVAL")  # what Linux says of an index without a device
GONE = Missing(Why.ABSENT, "RDMA device 0 was deleted while it was being read")


@pytest.mark.parametrize(
    "refused",
    [
        pytest.param(("nldev-get-0",), id="at the second question"),
        pytest.param(("nldev-port-get-0-1", "nldev-get-0-again"), id="at the question of a port"),
    ],
)
def test_a_device_that_is_deleted_meanwhile_is_gone_and_the_other_stays(refused, memory_host, soon):
    for name in refused:
        memory_host.recording.refuse("netlink", name, EINVAL)
    found = read_nldev(memory_host, soon)
    assert [device.name for device in found.devices] == ["mlx5_1"]
    assert found.unreadable == (GONE,)


def test_a_device_that_is_refused_otherwise_is_named_with_the_reason(memory_host, soon):
    memory_host.recording.refuse("netlink", "nldev-get-0", Missing(Why.DENIED, "EPERM"))
    assert read_nldev(memory_host, soon).unreadable == (
        Missing(Why.DENIED, "nldev device 0: EPERM"),
    )


def test_a_port_that_is_refused_is_kept_with_its_reason(memory_host, soon):
    refused = Missing(Why.UNSUPPORTED, "netlink nldev-port-get-0-1: EINVAL")
    healthy = read_nldev(memory_host, soon)
    memory_host.recording.refuse("netlink", "nldev-port-get-0-1", refused)
    found = read_nldev(memory_host, soon)
    changed = dataclasses.replace(healthy.device("mlx5_0"), ports=(), unreadable_ports={1: refused})
    assert found == dataclasses.replace(healthy, devices=(changed, healthy.devices[1]))


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("nldev-get-chardev-0", "chardev"),
        ("nldev-res-get-0", "resources"),
    ],
    ids=["its character device", "its resources"],
)
def test_a_part_of_a_device_that_is_refused_is_missing_alone(memory_host, soon, name, field):
    refused = Missing(Why.UNSUPPORTED, f"netlink {name}: EINVAL")
    healthy = read_nldev(memory_host, soon)
    memory_host.recording.refuse("netlink", name, refused)
    found = read_nldev(memory_host, soon)
    changed = dataclasses.replace(healthy.device("mlx5_0"), **{field: refused})
    assert found == dataclasses.replace(healthy, devices=(changed, healthy.devices[1]))
    if field == "ports":
        assert found.device("mlx5_0").port(1) is None


def test_a_device_without_a_port_count_has_missing_ports(memory_host, soon):
    memory_host.recording.netlink["nldev-get-0"] = reply((1, u32(0)), (2, b"mlx5_0\0"))
    assert read_nldev(memory_host, soon).device("mlx5_0").ports == Missing(
        Why.ABSENT, "RDMA_NLDEV_ATTR_PORT_INDEX"
    )


@pytest.mark.parametrize(("count", "asked"), [(0, 0), (2**32 - 1, 255)], ids=["none", "billions"])
def test_no_more_ports_are_asked_for_than_a_device_can_have(memory_host, soon, count, asked):
    memory_host.recording.netlink["nldev-get-0"] = reply(
        (1, u32(0)), (2, b"mlx5_0\0"), (3, u32(count))
    )
    read_nldev(memory_host, soon)
    ports = [name for _, name in memory_host.asked if name.startswith("nldev-port-get-0-")]
    assert len(ports) == asked


def test_a_live_machine_without_rdma_is_not_changed_by_looking(soon):
    before = sorted(os.listdir("/sys/module"))
    found = read_nldev(LiveHost(), soon)
    assert sorted(os.listdir("/sys/module")) == before
    assert isinstance(found, nldev.NldevFacts | Missing)
