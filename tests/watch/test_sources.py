"""Uevents, RDMA netlink's monitor, devlink and the kernel's log: each message as an event."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.host import netlink
from rdmadiag.watch.asynchronous import parse_async
from rdmadiag.watch.devlink import parse_devlink, parse_group
from rdmadiag.watch.event import Kind, Source
from rdmadiag.watch.kernel import parse_record
from rdmadiag.watch.rdma import parse_monitor, parse_monitor_mode
from rdmadiag.watch.uevent import parse_uevent


def message(kind, *attributes, head=b""):
    body = head + b"".join(netlink.attribute(number, value) for number, value in attributes)
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def u32(value):
    return struct.pack("=I", value)


# --- uevents -----------------------------------------------------------------------------


def uevent(action="add", path="/devices/virtual/infiniband/rxe0", **variables):
    rows = {"ACTION": action, "DEVPATH": path, "SUBSYSTEM": "infiniband", **variables}
    return "\0".join([f"{action}@{path}", *(f"{k}={v}" for k, v in rows.items()), ""]).encode()


def test_a_uevent_has_its_object_and_what_is_kept_of_its_variables():
    event = parse_uevent(uevent(NAME="rxe0", SECRET="x", DRIVER="d" * 500))
    assert (event.source, event.kind, event.action) == ("uevent", "object", "added")
    assert event.subject == "rxe0"
    assert event.details == {
        "action": "add",
        "subsystem": "infiniband",
        "path": "/devices/virtual/infiniband/rxe0",
        "name": "rxe0",
        "driver": "d" * 200,
    }


@pytest.mark.parametrize(
    ("word", "action"),
    [("remove", "removed"), ("move", "renamed"), ("bind", "changed"), ("change", "changed")],
)
def test_what_a_uevent_says_became_of_it(word, action):
    assert parse_uevent(uevent(word)).action == action


def test_a_disks_uevent_is_not_followed():
    assert parse_uevent(uevent(SUBSYSTEM="block")) is None


@pytest.mark.parametrize(
    "raw",
    [b"", b"libudev\0\xfe\xed", b"add@/x\0ACTION=add\0DEVPATH=/y\0", uevent()[10:]],
    ids=["nothing", "of udev", "another path", "cut"],
)
def test_what_is_no_uevent_is_said(raw):
    assert parse_uevent(raw).kind is Kind.UNREADABLE


@given(st.binary(max_size=300))
def test_any_bytes_are_a_uevent_or_none(raw):
    found = parse_uevent(raw)
    assert found is None or found.source is Source.UEVENT


# --- RDMA netlink ------------------------------------------------------------------------

MONITOR = (5 << 10) + 28


def monitored(number, *attributes):
    return message(MONITOR, *attributes, (102, bytes([number])))


@pytest.mark.parametrize(
    ("number", "kind", "action"),
    [
        (0, "device", "added"),
        (1, "device", "removed"),
        (2, "netdev", "attached"),
        (3, "netdev", "detached"),
        (4, "device", "renamed"),
        (5, "netdev", "renamed"),
        (77, "device", "notified"),
    ],
)
def test_what_the_monitor_says(number, kind, action):
    (event,) = parse_monitor(
        monitored(number, (1, u32(3)), (2, b"rxe0\0"), (3, u32(1)), (50, u32(7)), (51, b"eth7\0"))
    )
    assert (event.kind, event.action, event.subject) == (kind, action, "rxe0")
    assert (event.details["port"], event.details["netdev"]) == (1, "eth7")
    assert event.details.get("type") == (77 if number == 77 else None)


def test_of_a_renamed_netdev_no_device_is_named():
    (event,) = parse_monitor(monitored(5, (50, u32(7)), (51, b"eth7\0")))
    assert event.subject == "eth7"
    (event,) = parse_monitor(monitored(2, (1, u32(3)), (50, u32(7))))
    assert (event.subject, event.details["netdev"]) == ("#3", "#7")


def test_a_torn_message_of_the_monitor_is_said():
    assert [each.kind for each in parse_monitor(monitored(0)[:-3])] == [Kind.UNREADABLE]
    assert parse_monitor(message(MONITOR + 1, (2, b"x\0"))) == ()


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        (message(6, (103, b"\1")), True),
        (message(6, (103, b"\0")), False),
        (message(6, (66, b"\1")), False),
    ],
    ids=["it does", "it is off", "an older kernel"],
)
def test_whether_a_kernel_tells_of_devices(reply, found):
    assert parse_monitor_mode(reply) is found


def test_a_mode_that_cannot_be_read_is_missing():
    assert parse_monitor_mode(b"").why is Why.ABSENT
    assert parse_monitor_mode(b"\1\2").why is Why.MALFORMED


@given(st.binary(max_size=200))
def test_any_bytes_of_the_monitor_are_events_or_none(raw):
    assert isinstance(parse_monitor(raw), tuple)
    assert isinstance(parse_monitor_mode(raw), bool | Missing)


@given(st.lists(st.tuples(st.integers(0, 110), st.binary(max_size=12)), max_size=8))
def test_any_attributes_of_the_monitor_are_an_event(attributes):
    (event,) = parse_monitor(message(MONITOR, *attributes))
    assert event.subject


# --- devlink -----------------------------------------------------------------------------


def devlink(command, *attributes):
    handle = ((1, b"pci\0"), (2, b"0000:08:00.0\0"))
    return message(21, *handle, *attributes, head=bytes([command, 1, 0, 0]))


def nest(*attributes):
    return b"".join(netlink.attribute(number, value) for number, value in attributes)


def test_a_health_reporter_that_fails():
    reporter = nest(
        (115, b"fw_fatal\0"), (116, b"\1"), (117, struct.pack("=Q", 3)), (118, struct.pack("=Q", 2))
    )
    (event,) = parse_devlink(devlink(54, (114, reporter)))
    assert (event.kind, event.subject) == ("health", "pci/0000:08:00.0")
    assert event.details == {
        "reporter": "fw_fatal",
        "state": "error",
        "errors": 3,
        "recoveries": 2,
        "port": None,
    }


def test_a_state_that_is_newer_than_this_is_its_number():
    (event,) = parse_devlink(devlink(54, (114, nest((116, b"\7")))))
    assert event.details["state"] == "7"
    (event,) = parse_devlink(devlink(54))
    assert event.details["state"] is None


@pytest.mark.parametrize(
    ("command", "kind", "action"),
    [
        (3, "device", "added"),
        (4, "device", "removed"),
        (58, "flash", "began"),
        (60, "flash", "changed"),
        (59, "flash", "ended"),
    ],
)
def test_devices_and_firmware(command, kind, action):
    (event,) = parse_devlink(devlink(command, (124, b"Erasing\0"), (125, struct.pack("=Q", 5))))
    assert (event.kind, event.action) == (kind, action)
    if kind == "flash":
        assert (event.details["message"], event.details["done"]) == ("Erasing", 5)


def test_what_is_not_followed_is_none_and_what_is_torn_is_said():
    assert parse_devlink(devlink(7)) == ()
    assert parse_devlink(message(21, head=b"\3"))[0].kind is Kind.UNREADABLE
    assert parse_devlink(devlink(3)[:-3])[0].kind is Kind.UNREADABLE


def family(name, *groups):
    rows = nest(*((n, nest((1, g + b"\0"), (2, u32(n + 8)))) for n, g in enumerate(groups, 1)))
    return message(16, (1, b"\x15\0"), (2, name + b"\0"), (7, rows), head=b"\1\2\0\0")


def test_the_group_is_looked_up_in_the_list_of_all_families():
    reply = family(b"nlctrl", b"notify") + family(b"devlink", b"other", b"config")
    assert parse_group(reply) == 10
    assert parse_group(family(b"nlctrl", b"config")).why is Why.UNSUPPORTED
    assert parse_group(reply[:-3]).why is Why.MALFORMED


@given(st.binary(max_size=200))
def test_any_bytes_of_devlink_are_events_or_none(raw):
    assert isinstance(parse_devlink(raw), tuple)
    assert isinstance(parse_group(raw), int | Missing)


# --- the kernel's log --------------------------------------------------------------------


def test_a_line_of_a_driver_is_an_event():
    number, event = parse_record(
        b"4,416,17717449968,-;mlx5_core 0000:08:00.0 eth0: Link down\n SUBSYSTEM=pci\n"
    )
    assert number == 416
    assert event.details == {
        "level": 4,
        "seconds": "17717.449968",
        "line": "mlx5_core 0000:08:00.0 eth0: Link down",
    }


@pytest.mark.parametrize(
    "line", [b"usb 1-1: new device", b"Command line: rdma password=x"], ids=["usb", "private"]
)
def test_another_line_is_counted_and_not_kept(line):
    assert parse_record(b"6,417,1,-;" + line) == (417, None)


@pytest.mark.parametrize("line", [b"BUG: unable to handle", b"task blocked for more than 120 s"])
def test_what_ends_a_host_is_kept(line):
    assert parse_record(b"0,1,1,-;" + line)[1] is not None


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_none(raw):
    found = parse_record(raw)
    assert found is None or found[0] >= 0


# --- asynchronous events -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "subject", "details"),
    [
        (b'{"device":"a","event":10,"element":2}', "a/2", {"event": "IBV_EVENT_PORT_ERR"}),
        (b'{"device":"a","event":8,"element":2}', "a", {"port": None}),
        (b'{"device":"a","event":99,"element":0}', "a", {"meaning": "newer than rdmadiag"}),
        (b'{"device":"a","failed":"x"}', "a", {"why": "x"}),
    ],
    ids=["of a port", "of the device", "a newer one", "a failure"],
)
def test_a_line_of_the_child_is_an_event(line, subject, details):
    event = parse_async(line)
    assert event.subject == subject
    assert details.items() <= event.details.items()


@given(
    st.binary(max_size=80)
    | st.sampled_from([b"[]", b'{"device":1}', b'{"device":"a","event":"x"}'])
)
def test_any_other_line_is_said_to_be_none(line):
    assert parse_async(line).source is Source.ASYNC
