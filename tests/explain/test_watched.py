"""Causes of what a ring holds: which events speak of one, and in which order they stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.explain.causes import CAUSES
from rdmadiag.explain.watched import MOST, causes_of
from rdmadiag.watch.event import Action, Event, Happened, Kind, Source

UP = {"name": "eth0", "admin_up": True, "carrier": True, "mtu": 9000, "kind": None}


def happened(kind, action, subject, before=None, /, **details):
    source = Source.KERNEL if kind is Kind.LINE else Source.ROUTE
    return Happened(source, kind, action, subject, details, before or {})


def link(before, /, subject="eth0", action=Action.CHANGED, **details):
    return happened(Kind.LINK, action, subject, before, **{**UP, **details})


def line(text):
    return happened(Kind.LINE, Action.LOGGED, "kernel", line=text)


def asynchronous(event):
    return happened(Kind.ASYNC_EVENT, Action.NOTIFIED, "mlx5_0/1", event=event)


def health(state):
    return happened(Kind.HEALTH, Action.CHANGED, "pci/0000:08:00.0", state=state)


def flash(action):
    return happened(Kind.FLASH, action, "pci/0000:08:00.0")


def route(action, subject="192.0.2.0/24", kind="unicast"):
    return happened(Kind.ROUTE, action, subject, netdev="eth0", type=kind)


def address(action, subject="192.0.2.1/24"):
    return happened(Kind.ADDRESS, action, subject, netdev="eth0")


def neighbour(state):
    return happened(Kind.NEIGHBOUR, Action.CHANGED, "192.0.2.2", netdev="eth0", state=state)


def object_of(subsystem, action, subject, word):
    return happened(Kind.OBJECT, action, subject, subsystem=subsystem, action=word)


def device(action):
    return happened(Kind.DEVICE, action, "mlx5_0")


def netdev(action):
    return happened(Kind.NETDEV, action, "mlx5_0", netdev="eth0")


LOST = link({"carrier": True}, carrier=False)
BACK = link({"carrier": False})
DOWN = link({"admin_up": True, "carrier": True}, admin_up=False, carrier=False)
GONE_LINK = link(None, action=Action.REMOVED)
BLOCKED = route(Action.ADDED, kind="unreachable")
MODULE_GONE = object_of("module", Action.REMOVED, "mlx5_ib", "remove")
OBJECT_GONE = object_of("infiniband", Action.REMOVED, "mlx5_0", "remove")

SPEAKS = {
    "link-lost": (LOST, BACK),
    "interface-down": (DOWN, link({"admin_up": False})),
    "mtu-mismatch": (link({"mtu": 9000}, mtu=1500), None),
    "device-removed": (device(Action.REMOVED), device(Action.ADDED)),
    "device-renamed": (device(Action.RENAMED), None),
    "gid-without-netdev": (netdev(Action.DETACHED), netdev(Action.ATTACHED)),
    "gid-row-removed": (address(Action.REMOVED), address(Action.ADDED)),
    "gid-changed": (address(Action.ADDED), None),
    "no-route": (route(Action.REMOVED), route(Action.ADDED)),
    "route-unreachable": (BLOCKED, route(Action.REMOVED, kind="unreachable")),
    "peer-unreachable": (neighbour("failed"), neighbour("reachable")),
    "driver-going": (MODULE_GONE, object_of("module", Action.ADDED, "mlx5_ib", "add")),
    "firmware-failed": (health("error"), health("healthy")),
    "device-resetting": (flash(Action.BEGAN), flash(Action.ENDED)),
    "port-went-down": (asynchronous("IBV_EVENT_PORT_ERR"), asynchronous("IBV_EVENT_PORT_ACTIVE")),
}
"""Cause → what points to it, and what mends it."""


def causes(*every):
    return causes_of([Event(at, 100.0 + at, each) for at, each in enumerate(every, start=1)])


def labels(*every):
    return [(each.label, each.subject) for each in causes(*every)]


@pytest.mark.parametrize("label", SPEAKS)
def test_what_speaks_of_a_cause(label) -> None:
    (found,) = causes(SPEAKS[label][0])
    assert found.label == label
    assert found.text == CAUSES[label].text
    assert (found.number, found.time, found.count, found.mended) == (1, 101.0, 1, False)


@pytest.mark.parametrize("label", [label for label, (_, mends) in SPEAKS.items() if mends])
def test_what_mends_it_is_seen_and_what_breaks_it_again_too(label) -> None:
    breaks, mends = SPEAKS[label]
    by_label = {each.label: each for each in causes(breaks, mends)}
    assert by_label[label].mended
    again = {each.label: each for each in causes(breaks, mends, breaks)}[label]
    assert (again.mended, again.count, again.number) == (False, 2, 1)


@pytest.mark.parametrize(
    "event",
    [
        link(None),
        BACK,
        link(None, action=Action.ADDED),
        happened(Kind.LINK, Action.NOTIFIED, "eth0", **UP),
        address(Action.REMOVED, "fe80::1/64"),
        route(Action.REMOVED, "fe80::/64"),
        route(Action.REMOVED, "192.0.2.255/32", "broadcast"),
        route(Action.REMOVED, kind="local"),
        route(Action.ADDED),
        neighbour("stale"),
        asynchronous("IBV_EVENT_COMM_EST"),
        asynchronous(None),
        health("healthy"),
        object_of("net", Action.REMOVED, "eth0", "remove"),
        object_of("pci", Action.CHANGED, "0000:08:00.0", "bind"),
        line("mlx5_core 0000:08:00.0 eth0: Link up"),
        line("nfs: server not responding"),
        happened(Kind.WATCH, Action.BEGAN, "node7"),
        happened(Kind.LOSS, Action.LOST, "route", why="ENOBUFS"),
    ],
    ids=lambda each: f"{each.kind} {each.action} {dict(each.details)}"[:60],
)
def test_what_speaks_of_none(event) -> None:
    assert labels(event) == []


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("eth0: Link down", "link-lost"),
        ("health compromised - reached miss count", "firmware-failed"),
    ],
)
def test_a_line_of_the_kernel_is_read_as_a_log_is(text, label) -> None:
    assert labels(line(f"mlx5_core 0000:08:00.0: {text}")) == [(label, "0000:08:00.0")]


def test_a_line_that_says_that_the_link_is_back_mends_it() -> None:
    function = "mlx5_core 0000:08:00.0"
    (found,) = causes(line(f"{function} eth0: Link down"), line(f"{function} eth0: Link up"))
    assert (found.label, found.subject, found.mended) == ("link-lost", "0000:08:00.0", True)
    (other,) = causes(line(f"{function}: Link down"), line("mlx5_core 0000:09:00.0: Link up"))
    assert not other.mended


def test_one_device_that_goes_is_told_once_by_two_sources() -> None:
    (found,) = causes(OBJECT_GONE, device(Action.REMOVED))
    assert (found.label, found.subject, found.count) == ("device-removed", "mlx5_0", 2)
    unbound = object_of("pci", Action.CHANGED, "0000:08:00.0", "unbind")
    assert labels(unbound) == [("device-removed", "0000:08:00.0")]


def test_what_went_first_is_first() -> None:
    assert labels(LOST, DOWN) == [("link-lost", "eth0"), ("interface-down", "eth0")]
    assert labels(OBJECT_GONE, LOST)[0] == ("device-removed", "mlx5_0")


def test_what_follows_from_a_link_is_behind_it_whatever_came_first() -> None:
    found = labels(route(Action.REMOVED), address(Action.REMOVED), LOST)
    assert [label for label, _ in found] == ["link-lost", "no-route", "gid-row-removed"]


def test_what_lasts_is_before_what_was_mended() -> None:
    found = labels(LOST, BACK, address(Action.REMOVED))
    assert [label for label, _ in found] == ["gid-row-removed", "link-lost"]


def test_links_of_containers_are_last() -> None:
    veth = link(None, subject="veth7", action=Action.REMOVED, kind="veth")
    assert labels(veth, address(Action.ADDED)) == [
        ("gid-changed", "192.0.2.1/24"),
        ("gid-row-removed", "veth7"),
    ]


def test_the_lines_to_paste_name_the_place_and_a_hostile_one_is_quoted() -> None:
    (found,) = causes(link({"carrier": True}, subject="e$(reboot)", carrier=False))
    assert any("'e$(reboot)'" in each for each in found.next)
    assert not any(" e$(reboot)" in each for each in found.next)


EVENTS = st.lists(st.sampled_from([each for pair in SPEAKS.values() for each in pair if each]))


@given(EVENTS)
def test_each_cause_is_told_once_of_a_place_and_no_more_of_them_than_can_be_read(every) -> None:
    found = causes(*every)
    assert len(found) <= MOST
    assert len({(each.label, each.subject) for each in found}) == len(found)
    assert sum(each.count for each in found) <= len(every)


@given(st.text(max_size=80))
def test_of_any_line_something_comes_or_nothing(text) -> None:
    assert len(causes(line(text))) <= 1


@pytest.mark.parametrize(
    "event",
    [
        link({"admin_up": True}, "lo", admin_up=False),
        link({"mtu": 65536}, "lo", mtu=1500),
        happened(Kind.ADDRESS, Action.REMOVED, "198.51.100.1/32", netdev="lo"),
        happened(Kind.ROUTE, Action.REMOVED, "198.51.100.0/24", netdev="lo", type="unicast"),
    ],
    ids=["down", "mtu", "address", "route"],
)
def test_what_happens_to_loopback_is_no_cause(event) -> None:
    assert labels(event) == []
    assert labels(event, LOST) == [("link-lost", "eth0")]


def test_a_route_of_ipv6_that_refuses_is_a_cause_although_the_kernel_puts_it_on_loopback() -> None:
    at = {"netdev": "lo", "type": "unreachable"}
    added = happened(Kind.ROUTE, Action.ADDED, "2001:db8:1::/64", **at)
    removed = happened(Kind.ROUTE, Action.REMOVED, "2001:db8:1::/64", **at)
    assert labels(added) == [("route-unreachable", "2001:db8:1::/64")]
    assert [each.mended for each in causes(added, removed)] == [True]
