"""Thunderbolt cabling of a Mac: system_profiler's JSON, real captures of it, and damaged ones."""

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from lab.mac import ready_mac
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.macos import ThunderboltBus, ThunderboltFacts, ThunderboltPeer
from rdmadiag.host.answers import Ran
from rdmadiag.host.layout import command_name
from rdmadiag.sources import thunderbolt
from rdmadiag.sources.thunderbolt import parse_thunderbolt, read_thunderbolt

FACTS = TypeAdapter(ThunderboltFacts | Missing)
RDMA = 64087


@pytest.fixture
def mac_host(host_in_memory):
    """TN3205's Mac: receptacle 1 with a peer, 2 without."""
    return host_in_memory(ready_mac().recording(), "darwin")


def service(protocol, **more):
    """A service that a peer offers."""
    return {"_name": "unknown_xd_service", "protocol_id_key": protocol} | more


def peer_item(*services, **more):
    """A Mac at the other end of the cable."""
    known = {
        "_name": "MacBook Pro",
        "device_name_key": "Mac17,6",
        "domain_uuid_key": "BC5DEC53-7E36-4A9A-8459-456EBAB5E58A",
        "services_title": list(services),
        "vendor_id_key": "0x0A27",
    }
    return known | more


DISPLAY = {
    "_name": "Studio Display",
    "device_name_key": "Studio Display",
    "mode_key": "thunderbolt_three",
    "receptacle_upstream_ambiguous_tag": {"current_speed_key": "20 Gb/s"},
}
PEER = peer_item(service(1, _name="service_ip"), service(RDMA))


def bus_entry(*items, speed="80 Gb/s", number="1", **tag):
    """A bus and what hangs on it."""
    status = "receptacle_connected" if items else "receptacle_no_devices_connected"
    known = {
        "_name": "thunderboltusb4_bus_0",
        "device_name_key": "Mac mini",
        "domain_uuid_key": "4FBE0A88-3F0B-46F4-9511-3713B2315360",
        "receptacle_1_tag": {
            "current_speed_key": speed,
            "link_status_key": "0x2",
            "receptacle_id_key": number,
            "receptacle_status_key": status,
        }
        | tag,
        "route_string_key": "0",
        "switch_uid_key": "0x05AC51E771159CF0",
    }
    return known | ({"_items": list(items)} if items else {})


def without(found, *keys):
    """The same but for these keys."""
    return {key: value for key, value in found.items() if key not in keys}


def parse(*buses):
    """The facts of these buses."""
    return parse_thunderbolt(json.dumps({"SPThunderboltDataType": buses}).encode())


def parse_bus(bus):
    """The facts of the one bus there is."""
    (found,) = parse(bus).buses
    return found


# --- any content ------------------------------------------------------------------------

KEYS = st.sampled_from(
    [
        "_items",
        "_name",
        "current_speed_key",
        "device_name_key",
        "domain_uuid_key",
        "protocol_id_key",
        "receptacle_1_tag",
        "receptacle_id_key",
        "receptacle_status_key",
        "services_title",
    ]
)
WORDS = st.sampled_from(["80 Gb/s", "Up to 40 Gb/s x1", "9999 Gb/s", "\ud83d", "\x1b[2J", ""])
LEAVES = WORDS | st.text() | st.integers() | st.booleans() | st.none() | st.floats()
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)
ENTRIES = st.lists(st.dictionaries(KEYS, JSON, max_size=6) | JSON, max_size=3)


@given(st.binary(max_size=100) | st.builds(lambda found: json.dumps(found).encode(), JSON))
def test_any_document_is_facts_or_missing(raw):
    assert isinstance(parse_thunderbolt(raw), ThunderboltFacts | Missing)


@given(ENTRIES)
def test_any_buses_are_facts_that_a_document_can_carry(entries):
    found = parse(*entries)
    if not all(isinstance(each, dict) for each in entries):
        assert found.why is Why.MALFORMED
        return
    assert len(found.buses) == len(entries)
    assert FACTS.validate_json(FACTS.dump_json(found)) == found


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"Thunderbolt/USB4:\n\n    Thunderbolt/USB4 Bus 2:\n",
        b'{"SPThunderboltDataType": [{"_name": "thunderbolt',
        b"\xff\xfe\xfd",
        b"[" * 10**5,
        b"[]",
        b'"SPThunderboltDataType"',
        b"{}",
        b'{"SPThunderboltDataType": {"_name": "thunderboltusb4_bus_0"}}',
        b'{"SPUSBDataType": []}',
    ],
    ids=[
        "nothing",
        "the text form",
        "half a document",
        "no text",
        "no end of brackets",
        "a list",
        "a string",
        "an empty object",
        "a bus outside of a list",
        "another report",
    ],
)
def test_what_is_no_list_of_buses_is_malformed(raw):
    found = parse_thunderbolt(raw)
    assert found.why is Why.MALFORMED
    assert found.detail
    assert len(found.detail) < 250


def test_a_mac_without_thunderbolt_has_no_buses():
    assert parse() == ThunderboltFacts(())


# --- a bus ------------------------------------------------------------------------------


def test_a_bus_with_a_peer_is_told_whole():
    assert parse_bus(bus_entry(PEER)) == ThunderboltBus(
        name="thunderboltusb4_bus_0",
        model="Mac mini",
        domain_uuid="4FBE0A88-3F0B-46F4-9511-3713B2315360",
        receptacle="1",
        connected=True,
        speed_gbps=80,
        speed_is_maximum=False,
        peers=(
            ThunderboltPeer(
                name="MacBook Pro",
                model="Mac17,6",
                domain_uuid="BC5DEC53-7E36-4A9A-8459-456EBAB5E58A",
                protocols=(1, RDMA),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("speed", "gbps", "is_maximum"),
    [
        ("Up to 120 Gb/s", 120, True),
        ("Up to 40 Gb/s", 40, True),
        ("Up to 40 Gb/s x1", 40, True),
        ("Up to 20 Gb/s x2", 20, True),
        ("80 Gb/s", 80, False),
        ("40 Gb/s", 40, False),
        ("20 Gb/s", 20, False),
    ],
)
def test_a_speed_is_a_number_and_whether_it_is_the_most(speed, gbps, is_maximum):
    found = parse_bus(bus_entry(speed=speed))
    assert (found.speed_gbps, found.speed_is_maximum) == (gbps, is_maximum)


@pytest.mark.parametrize(
    "speed", ["fast", "80", "about 80 Gb/s", "Up to 80 Gb/s, or less", "99999 Gb/s"]
)
def test_a_speed_in_other_words_is_malformed(speed):
    found = parse_bus(bus_entry(speed=speed))
    assert found.speed_gbps == Missing(Why.MALFORMED, f"current_speed_key: {speed!r} is no speed")
    assert not found.speed_is_maximum


@pytest.mark.parametrize(
    ("status", "connected"),
    [("receptacle_connected", True), ("receptacle_no_devices_connected", False)],
)
def test_a_receptacle_is_connected_or_not(status, connected):
    found = parse_bus(bus_entry(receptacle_status_key=status))
    assert found.connected is connected


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("receptacle_id_key", "receptacle"),
        ("receptacle_status_key", "connected"),
        ("current_speed_key", "speed_gbps"),
    ],
)
def test_a_key_that_the_receptacle_lacks_is_absent(key, field):
    bus = bus_entry(PEER)
    bus["receptacle_1_tag"] = without(bus["receptacle_1_tag"], key)
    assert getattr(parse_bus(bus), field) == Missing(Why.ABSENT, f"no {key}")


@pytest.mark.parametrize("tag", [None, "1", []], ids=repr)
def test_a_bus_without_a_receptacle_is_still_a_bus(tag):
    found = parse_bus(bus_entry(PEER) | {"receptacle_1_tag": tag})
    assert found.receptacle.why is found.connected.why is found.speed_gbps.why is Why.ABSENT
    assert (found.model, len(found.peers)) == ("Mac mini", 1)


@pytest.mark.parametrize(
    ("key", "field"), [("device_name_key", "model"), ("domain_uuid_key", "domain_uuid")]
)
@pytest.mark.parametrize("value", [7, None, "", "\x1b[2J", ["Mac mini"]], ids=repr)
def test_a_value_that_is_no_text_is_missing(key, field, value):
    assert isinstance(getattr(parse_bus(bus_entry() | {key: value}), field), Missing)


def test_a_bus_without_a_name_has_none():
    found = parse_bus(without(bus_entry(without(PEER, "_name")), "_name"))
    assert (found.name, found.peers[0].name) == ("?", "?")


def test_buses_are_told_in_the_order_of_their_receptacles():
    found = parse(*(bus_entry(number=number) for number in ("3", "1", "2")))
    assert [bus.receptacle for bus in found.buses] == ["1", "2", "3"]


# --- what hangs on it -------------------------------------------------------------------


def test_a_peer_whose_rdma_is_off_offers_ip_alone():
    (peer,) = parse_bus(bus_entry(peer_item(service(1)))).peers
    assert (peer.protocols, peer.is_host) == ((1,), True)


@pytest.mark.parametrize("key", ["rdma", "ˇˇˇˇˇˇAD", "\x00\ud83d", None], ids=ascii)
def test_rdma_is_known_by_its_number_whatever_its_name(key):
    (peer,) = parse_bus(bus_entry(peer_item(service(RDMA, service_key_key=key)))).peers
    assert RDMA in peer.protocols


@pytest.mark.parametrize(
    "services",
    [[{"_name": "rdma"}], [service(True)], ["rdma"], "rdma", None],
    ids=["no number", "true", "a name", "a word", "none"],
)
def test_services_without_a_number_are_not_the_same_as_none(services):
    (peer,) = parse_bus(bus_entry(peer_item() | {"services_title": services})).peers
    assert (type(peer.protocols), peer.is_host) == (Missing, True)


def test_a_number_may_be_written_as_text_and_stands_beside_one_that_cannot_be_read():
    (peer,) = parse_bus(bus_entry(peer_item(service("64087"), service(None)))).peers
    assert peer.protocols == (RDMA,)


@pytest.mark.parametrize("item", [DISPLAY, without(DISPLAY, "device_name_key")])
def test_a_display_is_no_host(item):
    (peer,) = parse_bus(bus_entry(item)).peers
    assert (peer.name, peer.protocols, peer.is_host) == ("Studio Display", (), False)


def test_what_hangs_on_a_dock_is_told_too():
    dock = DISPLAY | {"_name": "Dock", "_items": [DISPLAY, PEER]}
    hub = DISPLAY | {"_name": "Hub", "_items": [dock]}
    found = parse_bus(bus_entry(hub)).peers
    assert [peer.name for peer in found] == ["Hub", "Dock", "Studio Display", "MacBook Pro"]
    assert [peer.is_host for peer in found] == [False, False, False, True]


@pytest.mark.parametrize("items", [None, "MacBook Pro", {"_name": "MacBook Pro"}, [None, "Mac"]])
def test_items_that_are_no_objects_are_no_peers(items):
    assert parse_bus(bus_entry() | {"_items": items}).peers == ()


def test_a_chain_without_end_ends_somewhere():
    item = PEER
    for _ in range(200):
        item = DISPLAY | {"_items": [item]}
    assert 10 < len(parse_bus(bus_entry(item)).peers) < 100


# --- real machines ----------------------------------------------------------------------

CAPTURES = ("system_profiler_m4pro_mini_peer_40g_macos27",)


@pytest.fixture(params=CAPTURES)
def capture(request, realworld):
    """JSON and text of one machine at one time."""
    form = {name: realworld / "apple" / f"{request.param}.{name}" for name in ("json", "txt")}
    if not all(path.is_file() for path in form.values()):
        pytest.skip(f"no {request.param} among the captures")
    return parse_thunderbolt(form["json"].read_bytes()), form["txt"].read_text()


def test_a_real_mac_with_a_display_and_a_peer_is_told(capture):
    found, _ = capture
    assert [(bus.receptacle, bus.connected) for bus in found.buses] == [
        ("1", False),
        ("2", True),
        ("3", True),
    ]
    idle, linked, display = found.buses
    assert (idle.speed_gbps, idle.speed_is_maximum, idle.peers) == (120, True, ())
    assert (linked.speed_gbps, linked.speed_is_maximum) == (40, False)
    assert linked.peers == (
        ThunderboltPeer(
            "MacBook Pro", "Mac17,6", "BC5DEC53-7E36-4A9A-8459-456EBAB5E58A", (1, RDMA)
        ),
    )
    assert [(peer.name, peer.is_host) for peer in display.peers] == [("Studio Display", False)]


def test_both_forms_of_a_real_report_say_the_same(capture):
    found, text = capture
    buses = [*found.buses][::-1]  # the text begins with the last bus
    uuids = [
        uuid
        for bus in buses
        for uuid in (bus.domain_uuid, *(p.domain_uuid for p in bus.peers if p.is_host))
    ]
    assert re.findall("Domain UUID: (.*)", text) == uuids
    assert re.findall("Receptacle: (.*)", text) == [bus.receptacle for bus in buses]
    protocols = [str(each) for bus in buses for peer in bus.peers for each in peer.protocols]
    assert re.findall("Protocol ID: (.*)", text) == protocols


# --- the command ------------------------------------------------------------------------


def test_a_ready_mac_is_told(mac_host, soon):
    found = read_thunderbolt(mac_host, soon)
    assert [(bus.receptacle, bus.connected) for bus in found.buses] == [("1", True), ("2", False)]


def test_a_report_that_fails_is_unsupported(mac_host, soon):
    name = command_name(("/usr/sbin/system_profiler", "SPThunderboltDataType", "-json"))
    mac_host.recording.commands[name] = Ran(1, b"{}", b"no such data type\n" * 100)
    found = read_thunderbolt(mac_host, soon)
    assert found.why is Why.UNSUPPORTED
    assert found.detail.startswith("system_profiler: exit 1: no such data type")
    assert len(found.detail) < 250


def test_a_report_that_is_late_is_missing(mac_host, soon):
    late = Missing(Why.TIMEOUT, "/usr/sbin/system_profiler: no end before the deadline")
    mac_host.recording.refuse("run", command_name(thunderbolt.ARGV), late)
    assert read_thunderbolt(mac_host, soon) == late


def test_the_report_has_eight_seconds_at_most(mac_host, commands):
    read_thunderbolt(mac_host, time.monotonic() + 20)
    read_thunderbolt(mac_host, time.monotonic() + 1)
    (_, first), (_, second) = commands
    assert first <= 8
    assert second <= 1


def test_a_receptacle_status_that_nobody_knows_is_neither_connected_nor_free():
    raw = json.dumps(
        {"SPThunderboltDataType": [{"receptacle_1_tag": {"receptacle_status_key": "receptacle_x"}}]}
    )
    (bus,) = parse_thunderbolt(raw.encode()).buses
    assert bus.connected.why is Why.MALFORMED


def test_what_makes_no_sense_is_told_with_the_command(mac_host, soon):
    name = command_name(("/usr/sbin/system_profiler", "SPThunderboltDataType", "-json"))
    mac_host.recording.commands[name] = Ran(0, b"{}", b"")
    found = read_thunderbolt(mac_host, soon)
    assert (found.why, found.detail) == (
        Why.MALFORMED,
        "system_profiler: no list SPThunderboltDataType",
    )
