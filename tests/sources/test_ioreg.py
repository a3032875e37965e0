"""The I/O registry of a Mac: one class's objects as a property list, damaged ones, and text."""

import plistlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from lab.mac import ready_mac
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.macos import Holder, RdmaInterface, RegistryFacts, ThunderboltIpPort
from rdmadiag.host.answers import Ran
from rdmadiag.host.layout import command_name
from rdmadiag.sources import ioreg
from rdmadiag.sources.ioreg import parse_registry, read_ioreg

FACTS = TypeAdapter(RegistryFacts | Missing)
ACTIVE = {"IOServiceState": 30, "IOServiceBusyState": 0}
LEAKED = {"IOServiceState": 1, "IOServiceBusyState": 1}  # "inactive, busy 1"
QUICK = 20  # seconds of CPU, for what takes less than one


@pytest.fixture
def mac_host(host_in_memory):
    """TN3205's Mac: en1 with a peer, en2 without."""
    return host_in_memory(ready_mac().recording(), "darwin")


def entry(kind, number, name="object", children=(), **properties):
    """An object as ioreg -a lays it out."""
    below = {"IORegistryEntryChildren": list(children)} if children else {}
    known = {
        "IOObjectClass": kind,
        "IORegistryEntryID": 0x100000000 + number,
        "IORegistryEntryName": name,
    }
    return known | ACTIVE | properties | below


def interface(*children, **properties):
    """rdma_en1, on, with what hangs below it."""
    known = {"node_guid": "f09c:1571:e751:ac05", "IOPowerManagement": {"CurrentPowerState": 2}}
    return entry(ioreg.INTERFACE, 1, "rdma_en1", children, **known | properties)


def prints(host, name, raw, returncode=0, stderr=b""):
    """Lets ioreg print `raw` for a class."""
    host.recording.commands[command_name(ioreg.argv(name))] = Ran(returncode, raw, stderr)


def answers(host, name, *objects):
    """Lets ioreg find these objects of a class."""
    prints(host, name, plistlib.dumps(list(objects)))


# --- any content ------------------------------------------------------------------------

HEALTHY = plistlib.dumps([interface(entry(ioreg.QUEUE_PAIR, 2))])
KEYS = (
    "IOObjectClass",
    "IORegistryEntryID",
    "IORegistryEntryName",
    "IORegistryEntryChildren",
    "IOServiceState",
    "IOServiceBusyState",
    "IOUserClientCreator",
    "IOPowerManagement",
    "CurrentPowerState",
    "IOLinkStatus",
    "IOLinkActiveCount",
    "BSD Name",
    "node_guid",
)
WORDS = st.sampled_from([*ioreg.CLASSES, "en1", "pid 812, python3", "pid 1, "])
NUMBERS = st.integers(-(2**63), 2**64 - 1)
LEAVES = WORDS | NUMBERS | st.booleans() | st.binary(max_size=9) | st.floats(allow_nan=False)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=30,
)


@st.composite
def damaged(draw, raw):
    """`raw` with some bytes replaced, and perhaps cut."""
    changed = bytearray(raw)
    for _ in range(draw(st.integers(1, 4))):
        changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
    return bytes(changed[: draw(st.integers(0, len(changed)) | st.just(len(changed)))])


@given(
    st.binary(max_size=200)
    | damaged(HEALTHY)
    | damaged(plistlib.dumps(plistlib.loads(HEALTHY), fmt=plistlib.FMT_BINARY))
)
def test_any_bytes_are_objects_or_missing(raw):
    found = parse_registry(raw, ioreg.INTERFACE)
    assert isinstance(found, Missing) or all(isinstance(each, dict) for each in found)


@given(
    objects=st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES), max_size=4),
    form=st.sampled_from([plistlib.FMT_XML, plistlib.FMT_BINARY]),
)
def test_any_properties_are_facts_that_a_document_can_carry(host_in_memory, objects, form):
    host = host_in_memory(ready_mac().recording(), "darwin")
    for name in ioreg.CLASSES:
        prints(host, name, plistlib.dumps(objects, fmt=form))
    found = read_ioreg(host, time.monotonic() + 20)
    assert FACTS.validate_json(FACTS.dump_json(found)) == found


@pytest.mark.parametrize(
    "raw",
    [
        plistlib.dumps(interface()),
        plistlib.dumps("AppleThunderboltRDMAInterface"),
        plistlib.dumps([interface(), "rdma_en2"]),
        HEALTHY[: len(HEALTHY) // 2],
        b"<plist><integer>0x" + b"f" * 5000 + b"</integer></plist>",
        b"<plist>" + b"<array>" * 10**4 + b"</array>" * 10**4 + b"</plist>",
        b"AppleThunderboltRDMAInterface: no such class\n",
    ],
    ids=[
        "one object outside of a list",
        "a string",
        "a string among the objects",
        "a list that is cut short",
        "a number of thousands of digits",
        "lists within lists within lists",
        "an error message",
    ],
)
def test_what_is_no_list_of_objects_is_malformed(raw):
    found = parse_registry(raw, ioreg.INTERFACE)
    assert found.why is Why.MALFORMED
    assert len(found.detail) < 300


@pytest.mark.parametrize("raw", [b"", b"\n"], ids=["nothing at all", "an empty line"])
def test_no_output_is_no_object(raw):
    assert parse_registry(raw, ioreg.PEER) == ()


# --- one class --------------------------------------------------------------------------


@pytest.mark.parametrize("form", [plistlib.FMT_XML, plistlib.FMT_BINARY], ids=["XML", "binary"])
def test_objects_are_those_of_the_list(form):
    objects = [interface(), entry(ioreg.INTERFACE, 2, "rdma_en2")]
    assert parse_registry(plistlib.dumps(objects, fmt=form), ioreg.INTERFACE) == tuple(objects)


def test_an_object_that_is_printed_twice_is_one():
    raw = plistlib.dumps([entry(ioreg.PEER, 1), entry(ioreg.PEER, 2), entry(ioreg.PEER, 1)])
    assert len(parse_registry(raw, ioreg.PEER)) == 2


@pytest.mark.parametrize("number", [0, 1, 2])
def test_objects_without_a_number_are_not_taken_for_those_with_one(number):
    raw = plistlib.dumps([{}, {"IORegistryEntryID": number}, {}, {"IORegistryEntryID": True}])
    assert len(parse_registry(raw, ioreg.PEER)) == 4


def test_objects_of_derived_classes_are_counted_as_ioreg_finds_them():
    raw = plistlib.dumps([entry(ioreg.INTERFACE, 1), entry("AppleThunderboltRDMAInterfaceG2", 2)])
    assert len(parse_registry(raw, ioreg.INTERFACE)) == 2


def test_objects_of_a_class_that_is_counted_for_itself_are_not_counted_twice():
    raw = plistlib.dumps([entry(ioreg.INTERFACE, 1), entry(ioreg.PEER, 2)])
    (only,) = parse_registry(raw, ioreg.INTERFACE)
    assert only["IORegistryEntryID"] == 0x100000001


def test_resources_of_derived_classes_are_counted_with_their_interface(mac_host, soon):
    domain, pair = (entry(f"{kind}G2", at) for at, kind in ((2, "PD"), (3, "QP")))
    answers(mac_host, ioreg.INTERFACE, interface(domain | {"IORegistryEntryChildren": [pair]}))
    answers(mac_host, ioreg.PROTECTION_DOMAIN, domain)
    answers(mac_host, ioreg.QUEUE_PAIR, pair)
    (found,) = read_ioreg(mac_host, soon).interfaces
    assert (found.protection_domains, found.queue_pairs) == (1, 1)


@pytest.mark.slow
def test_a_hundred_thousand_objects_are_counted_at_once():
    raw = plistlib.dumps([entry(ioreg.PEER, number) for number in range(10**5)])
    start = time.process_time()
    assert len(parse_registry(raw, ioreg.PEER)) == 10**5
    assert time.process_time() - start < QUICK


# --- the text form ----------------------------------------------------------------------

TEXT = b"""\
+-o rdma_en2  <class AppleThunderboltRDMAInterface, id 0x100000002, registered, matched, active, \
busy 3 (1 ms), retain 10>
  | {
  |   "IOClass" = "AppleThunderboltRDMAInterface"
  |   "IOPowerManagement" = {"DevicePowerState"=2,"CurrentPowerState"=2,"MaxPowerState"=2}
  | }
  +-o AppleThunderboltRDMAProtectionDomain  <class AppleThunderboltRDMAProtectionDomain, \
id 0x100000003, !registered, !matched, inactive, busy 1 (1 ms), retain 8>
  +-o AppleThunderboltRDMAProtectionDomain  <class AppleThunderboltRDMAProtectionDomain, \
id 0x100000004, registered, matched, active, busy 0 (0 ms), retain 6>
    +-o AppleThunderboltRDMAQueuePair@1  <class AppleThunderboltRDMAQueuePair, id 0x100000005, \
registered, matched, active, busy 0 (0 ms), retain 10>

+-o rdma_en3  <class AppleThunderboltRDMAInterface, id 0x100000006, registered, matched, active, \
busy 0 (0 ms), retain 7>
    {
      "IOPersonalityPublisher" = "com.apple.AppleThunderboltRDMAInterface"
    }
    +-o AppleThunderboltRDMAInterface  <class IOUserClient, id 0x100000007, !registered, !matched, \
active, busy 0, retain 5>
    +-o client  <class AppleThunderboltRDMAInterfaceUserClient, id 0x100000008, !registered, \
!matched, active, busy 0, retain 5>

"""


@pytest.mark.parametrize(
    ("name", "names"),
    [
        (ioreg.INTERFACE, ["rdma_en2", "rdma_en3"]),
        (ioreg.PROTECTION_DOMAIN, [ioreg.PROTECTION_DOMAIN] * 2),
        (ioreg.QUEUE_PAIR, [ioreg.QUEUE_PAIR]),
        (ioreg.PEER, []),
    ],
    ids=["at the root", "below another", "two below, with a place", "not there"],
)
def test_text_names_the_objects_of_the_class_alone(name, names):
    assert [each["IORegistryEntryName"] for each in parse_registry(TEXT, name)] == names


def test_text_names_the_objects_of_derived_classes_at_the_root():
    derived = TEXT.replace(b"<class AppleThunderboltRDMAInterface,", b"<class Derived,")
    found = parse_registry(derived, ioreg.INTERFACE)
    assert [each["IORegistryEntryName"] for each in found] == ["rdma_en2", "rdma_en3"]


def test_an_object_that_the_text_prints_twice_is_one():
    assert len(parse_registry(TEXT * 2, ioreg.INTERFACE)) == 2


@pytest.mark.parametrize("filler", [b"\n", b" ", b"| "], ids=["lines", "blanks", "branches"])
def test_text_is_read_in_one_pass(filler):
    start = time.process_time()
    assert parse_registry(b"+-o a" + filler * 10**6, ioreg.PEER) == ()
    assert time.process_time() - start < QUICK


# --- interfaces -------------------------------------------------------------------------


def read_interface(host, found):
    """What read_ioreg makes of the one interface there is."""
    answers(host, ioreg.INTERFACE, found)
    (only,) = read_ioreg(host, time.monotonic() + 20).interfaces
    return only


def test_an_interface_at_rest_is_told_whole(mac_host):
    assert read_interface(mac_host, interface()) == RdmaInterface(
        name="rdma_en1",
        node_guid="f09c:1571:e751:ac05",
        power_state=2,
        protection_domains=0,
        queue_pairs=0,
        inactive=0,
        holders=(),
    )


def test_resources_and_user_clients_are_found_at_any_depth(mac_host):
    pair = entry(ioreg.QUEUE_PAIR, 12)
    domains = [
        entry(ioreg.PROTECTION_DOMAIN, 10, children=[pair]),
        entry(ioreg.PROTECTION_DOMAIN, 11),
    ]
    client = entry("IORDMAFamilyUC", 20, children=domains, IOUserClientCreator="pid 812, python3")
    twin = entry("IORDMAFamilyUC", 21, IOUserClientCreator="pid 812, python3")
    other = entry("IORDMAFamilyUC", 22, IOUserClientCreator="pid 9, my, server")
    found = read_interface(mac_host, interface(client, twin, other))
    assert (found.protection_domains, found.queue_pairs, found.inactive) == (2, 1, 0)
    assert found.holders == (Holder(812, "python3"), Holder(9, "my, server"))


def test_a_resource_with_two_parents_is_one(mac_host):
    pair = entry(ioreg.QUEUE_PAIR, 12)
    found = read_interface(
        mac_host, interface(entry(ioreg.PROTECTION_DOMAIN, 10, children=[pair]), pair)
    )
    assert (found.protection_domains, found.queue_pairs) == (1, 1)


@pytest.mark.parametrize(
    ("state", "inactive"),
    [
        (LEAKED, 1),
        ({"IOServiceState": 1, "IOServiceBusyState": 0}, 0),
        ({"IOServiceState": 30, "IOServiceBusyState": 1}, 0),
        ({"IOServiceState": "inactive", "IOServiceBusyState": 1}, 0),
    ],
    ids=["inactive and busy", "inactive", "busy", "in a word"],
)
def test_a_resource_that_waits_to_be_freed_is(mac_host, state, inactive):
    leaked = entry(ioreg.PROTECTION_DOMAIN, 10, **state)
    assert read_interface(mac_host, interface(leaked)).inactive == inactive


def test_another_object_that_waits_to_be_freed_is_no_resource(mac_host):
    assert read_interface(mac_host, interface(entry("IOUserClient", 10, **LEAKED))).inactive == 0


def test_a_list_that_holds_an_object_many_times_over_is_walked_once(mac_host):
    made = entry(ioreg.QUEUE_PAIR, 0)
    for number in range(2, 60):
        made = entry("IOService", number, children=[made, made])
    objects = plistlib.dumps([interface(made)], fmt=plistlib.FMT_BINARY)
    prints(mac_host, ioreg.INTERFACE, objects)
    (found,) = read_ioreg(mac_host, time.monotonic() + 20).interfaces
    assert found.queue_pairs == 1


@pytest.mark.parametrize(
    ("guid", "text"),
    [
        ("f09c:1571:e751:ac05", "f09c:1571:e751:ac05"),
        (0x05AC51E771159CF0, "05ac:51e7:7115:9cf0"),
        (0, "0000:0000:0000:0000"),
        (0xF09C1571E751AC05 - 2**64, "f09c:1571:e751:ac05"),
        (bytes.fromhex("f09c1571e751ac05"), "f09c:1571:e751:ac05"),
    ],
    ids=["as a string", "as a number", "as zero", "as a signed number", "as data"],
)
def test_a_guid_is_printed_like_those_of_verbs(mac_host, guid, text):
    assert read_interface(mac_host, interface(node_guid=guid)).node_guid == text


@pytest.mark.parametrize("guid", [b"short", "rdma", "F09C:1571:E751:AC05", True, []], ids=repr)
def test_what_is_no_guid_is_malformed(mac_host, guid):
    assert read_interface(mac_host, interface(node_guid=guid)).node_guid.why is Why.MALFORMED


@pytest.mark.parametrize(
    ("missing", "field"),
    [("node_guid", "node_guid"), ("IOPowerManagement", "power_state")],
    ids=["no GUID", "no power management"],
)
def test_a_property_that_an_interface_lacks_is_absent(mac_host, missing, field):
    found = interface()
    del found[missing]
    assert getattr(read_interface(mac_host, found), field).why is Why.ABSENT


@pytest.mark.parametrize(
    "power", [{}, {"CurrentPowerState": "on"}, "on"], ids=["empty", "a word", "no dictionary"]
)
def test_power_management_without_a_state_tells_none(mac_host, power):
    found = read_interface(mac_host, interface(IOPowerManagement=power))
    assert isinstance(found.power_state, Missing)


@pytest.mark.parametrize(
    "creator", ["python3", "pid x, python3", 812, "pid 99999999999, x"], ids=repr
)
def test_what_does_not_name_a_process_holds_nothing(mac_host, creator):
    client = entry("IORDMAFamilyUC", 20, IOUserClientCreator=creator)
    assert read_interface(mac_host, interface(client)).holders == ()


# --- Thunderbolt IP ports ---------------------------------------------------------------


def read_ip_port(host, **properties):
    """The port above en1, as read_ioreg tells it."""
    netdev = entry("IOEthernetInterface", 51, "en1", **{"BSD Name": "en1", "IOLinkActiveCount": 4})
    answers(host, ioreg.IP_PORT, entry(ioreg.IP_PORT, 50, children=[netdev], **properties))
    (found,) = read_ioreg(host, time.monotonic() + 20).ip_ports
    return found


@pytest.mark.parametrize(
    ("status", "up"), [(3, True), (2, True), (1, False)], ids=["valid, up", "up", "valid, down"]
)
def test_a_port_is_told_with_the_netdev_below_it(mac_host, status, up):
    assert read_ip_port(mac_host, IOLinkStatus=status) == ThunderboltIpPort("en1", up, 4)


def test_a_port_without_a_status_is_neither_up_nor_down(mac_host):
    assert read_ip_port(mac_host).link_up == Missing(Why.ABSENT, "no IOLinkStatus")


# --- the whole registry -----------------------------------------------------------------


def test_a_ready_mac_is_told_whole(mac_host, soon):
    found = read_ioreg(mac_host, soon)
    assert [each.name for each in found.interfaces] == ["rdma_en1", "rdma_en2"]
    assert (found.peer_interfaces, found.xdomain_services) == (1, 1)
    assert (found.protection_domains, found.queue_pairs) == (0, 0)
    assert [(port.netdev, port.link_up) for port in found.ip_ports] == [
        ("en1", True),
        ("en2", False),
    ]


FIELDS = {
    ioreg.PEER: "peer_interfaces",
    ioreg.XDOMAIN: "xdomain_services",
    ioreg.INTERFACE: "interfaces",
    ioreg.IP_PORT: "ip_ports",
    ioreg.PROTECTION_DOMAIN: "protection_domains",
    ioreg.QUEUE_PAIR: "queue_pairs",
}
LATE = Missing(Why.TIMEOUT, "ioreg: no end before the deadline, pid 9 killed")


def without(found, field):
    """The facts but for one field."""
    return {name: getattr(found, name) for name in found.__slots__ if name != field}


@pytest.mark.parametrize("name", ioreg.CLASSES)
def test_a_class_that_is_late_costs_itself_alone(mac_host, soon, name):
    healthy = read_ioreg(mac_host, soon)
    mac_host.recording.refuse("run", command_name(ioreg.argv(name)), LATE)
    found = read_ioreg(mac_host, soon)
    assert getattr(found, FIELDS[name]) == LATE
    assert without(found, FIELDS[name]) == without(healthy, FIELDS[name])


@pytest.mark.parametrize("name", ioreg.CLASSES)
@pytest.mark.parametrize(
    ("raw", "returncode", "stderr", "why"),
    [
        (b"", 1, b"ioreg: error: can't obtain children.\n", Why.UNSUPPORTED),
        (b"", -9, b"", Why.UNSUPPORTED),
        (HEALTHY[:-30], 0, b"", Why.MALFORMED),
    ],
    ids=["an error", "a signal", "half a list"],
)
def test_a_class_that_fails_costs_itself_alone(mac_host, soon, name, raw, returncode, stderr, why):
    healthy = read_ioreg(mac_host, soon)
    prints(mac_host, name, raw, returncode, stderr)
    found = read_ioreg(mac_host, soon)
    failed = getattr(found, FIELDS[name])
    assert failed.why is why
    assert failed.detail.startswith(f"ioreg -c {name}: ")
    assert stderr.decode().strip() in failed.detail
    assert without(found, FIELDS[name]) == without(healthy, FIELDS[name])


def test_a_registry_that_says_nothing_is_missing(mac_host, soon):
    for name in ioreg.CLASSES:
        mac_host.recording.refuse("run", command_name(ioreg.argv(name)), LATE)
    assert read_ioreg(mac_host, soon) == LATE


def test_a_registry_without_objects_has_none(mac_host, soon):
    for name in ioreg.CLASSES:
        prints(mac_host, name, b"")
    assert read_ioreg(mac_host, soon) == RegistryFacts((), 0, 0, (), 0, 0)


def test_each_class_is_asked_for_once_and_for_three_seconds_at_most(mac_host, commands):
    read_ioreg(mac_host, time.monotonic() + 20)
    read_ioreg(mac_host, time.monotonic() + 1)
    classes = [("/usr/sbin/ioreg", "-a", "-l", "-r", "-c", name) for name in FIELDS]
    assert [argv for argv, _ in commands] == classes * 2
    assert all(seconds <= 3 for _, seconds in commands[: len(classes)])
    assert all(seconds <= 1 for _, seconds in commands[len(classes) :])
