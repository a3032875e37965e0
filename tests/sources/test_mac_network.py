"""Interfaces of a Mac: ifconfig and networksetup as macOS prints them, and as others do."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from lab.mac import ready_mac
from rdmadiag.facts import Address, Missing, Why
from rdmadiag.facts.macos import HardwarePort, MacInterface, MacNetworkFacts
from rdmadiag.host.answers import Ran
from rdmadiag.host.layout import command_name
from rdmadiag.sources.mac_network import parse_hardware_ports, parse_ifconfig, read_mac_network

FACTS = TypeAdapter(MacNetworkFacts)

IFCONFIG = b"""\
lo0: flags=8049<UP,LOOPBACK,RUNNING,MULTICAST> mtu 16384
\toptions=1203<RXCSUM,TXCSUM,TXSTATUS,SW_TIMESTAMP>
\tinet 127.0.0.1 netmask 0xff000000
\tinet6 ::1 prefixlen 128
\tinet6 fe80::1%lo0 prefixlen 64 scopeid 0x1
\tnd6 options=201<PERFORMNUD,DAD>
stf0: flags=0<> mtu 1280
en1: flags=8863<UP,BROADCAST,SMART,RUNNING,SIMPLEX,MULTICAST> mtu 1500
\toptions=460<TSO4,TSO6,CHANNEL_IO>
\tether 36:4d:04:ea:4e:40
\tinet6 fe80::1021:1bac:fe1:b5e3%en1 prefixlen 64 secured scopeid 0xb
\tinet 169.254.205.255 netmask 0xffff0000 broadcast 169.254.255.255
\tnd6 options=201<PERFORMNUD,DAD>
\tmedia: autoselect <full-duplex>
\tstatus: active
en2: flags=8822<BROADCAST,SMART,SIMPLEX,MULTICAST> mtu 1500
\toptions=460<TSO4,TSO6,CHANNEL_IO>
\tether 36:4d:04:ea:4e:44
\tmedia: autoselect <full-duplex>
\tstatus: inactive
bridge0: flags=8863<UP,BROADCAST,SMART,RUNNING,SIMPLEX,MULTICAST> mtu 1500
\toptions=63<RXCSUM,TXCSUM,TSO4,TSO6>
\tether 36:4d:04:ea:4e:40
\tConfiguration:
\t\tid 0:0:0:0:0:0 priority 0 hellotime 0 fwddelay 0
\t\tmaxage 0 holdcnt 0 proto stp maxaddr 100 timeout 1200
\t\troot id 0:0:0:0:0:0 priority 0 ifcost 0 port 0
\t\tipfilter disabled flags 0x0
\tmember: en2 flags=3<LEARNING,DISCOVER>
\t        ifmaxaddr 0 port 8 priority 0 path cost 0
\tmember: en3 flags=3<LEARNING,DISCOVER>
\t        ifmaxaddr 0 port 9 priority 0 path cost 0
\tnd6 options=201<PERFORMNUD,DAD>
\tmedia: <unknown type>
\tstatus: inactive
utun0: flags=8051<UP,POINTOPOINT,RUNNING,MULTICAST> mtu 1380
\tinet 10.8.0.2 --> 10.8.0.1 netmask 0xffffffff
\tinet6 fd00:8::2 prefixlen 64
"""

NET_TOOLS = b"""\
eth0: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 1500
        inet 192.0.2.1  netmask 255.255.255.0  broadcast 192.0.2.255
        inet6 fe80::1  prefixlen 64  scopeid 0x20<link>
        ether 0c:42:a1:00:00:01  txqueuelen 1000  (Ethernet)
        RX packets 12  bytes 1204 (1.1 KiB)

"""
BUSYBOX = b"""\
eth0      Link encap:Ethernet  HWaddr 0C:42:A1:00:00:01
          inet addr:192.0.2.1  Bcast:192.0.2.255  Mask:255.255.255.0
          UP BROADCAST RUNNING MULTICAST  MTU:1500  Metric:1

"""

HARDWARE_PORTS = b"""
Hardware Port: Ethernet
Device: en0
Ethernet Address: 0c:00:00:00:00:01

Hardware Port: Thunderbolt 1
Device: en1
Ethernet Address: 36:4d:04:ea:4e:40

Hardware Port: Thunderbolt Bridge
Device: bridge0
Ethernet Address: 36:4d:04:ea:4e:40

VLAN Configurations
===================
"""


@pytest.fixture
def mac_host(host_in_memory):
    """TN3205's Mac: en1 with an address, en2 without."""
    return host_in_memory(ready_mac().recording(), "darwin")


def interfaces():
    """What the whole report says, by name."""
    return {each.name: each for each in parse_ifconfig(IFCONFIG)}


def parse_rows(*rows):
    """en1 with these rows alone."""
    head = "en1: flags=8863<UP,RUNNING> mtu 1500"
    (found,) = parse_ifconfig("\n\t".join([head, *rows]).encode())
    return found


# --- any content ------------------------------------------------------------------------


@st.composite
def damaged(draw, raw):
    """`raw` with some bytes replaced, and perhaps cut."""
    changed = bytearray(raw)
    for _ in range(draw(st.integers(1, 6))):
        changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
    return bytes(changed[: draw(st.integers(0, len(changed)) | st.just(len(changed)))])


ROWS = st.lists(
    st.sampled_from(
        [*IFCONFIG.splitlines(), *NET_TOOLS.splitlines(), b"\t", b" ", b"\tinet", b"\tmember:"]
    )
    | st.binary(max_size=30).map(lambda row: b"\t" + row),
    max_size=8,
).map(b"\n".join)


@given(ROWS | damaged(IFCONFIG) | st.binary(max_size=80))
def test_any_bytes_are_interfaces_that_a_document_can_carry_or_missing(raw):
    found = MacNetworkFacts(parse_ifconfig(raw), ())
    assert FACTS.validate_json(FACTS.dump_json(found)) == found


@given(damaged(HARDWARE_PORTS) | st.binary(max_size=80))
def test_any_bytes_are_hardware_ports_that_a_document_can_carry_or_missing(raw):
    found = MacNetworkFacts((), parse_hardware_ports(raw))
    assert FACTS.validate_json(FACTS.dump_json(found)) == found


# --- ifconfig ---------------------------------------------------------------------------


def test_every_interface_is_told():
    assert list(interfaces()) == ["lo0", "stf0", "en1", "en2", "bridge0", "utun0"]


def test_an_interface_with_addresses_is_told_whole():
    assert interfaces()["en1"] == MacInterface(
        name="en1",
        up=True,
        status="active",
        mtu=1500,
        mac="36:4d:04:ea:4e:40",
        addresses=(
            Address("fe80::1021:1bac:fe1:b5e3", 64, "link", False, False),
            Address("169.254.205.255", 16, "link", False, False),
        ),
        members=(),
    )


@pytest.mark.parametrize(
    ("words", "tentative", "duplicate"),
    [("secured", False, False), ("tentative", True, False), ("duplicated", False, True)],
)
def test_the_state_of_duplicate_detection_is_a_word(words, tentative, duplicate):
    text = f"en1: flags=8863<UP> mtu 1500\n\tinet6 fe80::1%en1 prefixlen 64 {words} scopeid 0xb\n"
    (found,) = parse_ifconfig(text.encode())
    assert found.addresses == (Address("fe80::1", 64, "link", tentative, duplicate),)


def test_an_interface_that_is_down_says_so():
    found = interfaces()["en2"]
    assert (found.up, found.status, found.addresses) == (False, "inactive", ())
    (other,) = parse_ifconfig(b"en1: flags=8863<BACKUP,RUNNING> mtu 1500\n")
    assert not other.up


def test_the_members_of_a_bridge_are_told():
    found = interfaces()["bridge0"]
    assert (found.members, found.status) == (("en2", "en3"), "inactive")
    assert found.addresses == ()


def test_addresses_of_other_kinds_of_interface_are_told():
    assert interfaces()["lo0"].addresses == (
        Address("127.0.0.1", 8, "host", False, False),
        Address("::1", 128, "host", False, False),
        Address("fe80::1", 64, "link", False, False),
    )
    assert interfaces()["utun0"].addresses == (
        Address("10.8.0.2", 32, "global", False, False),
        Address("fd00:8::2", 64, "global", False, False),
    )


def test_what_an_interface_does_not_say_is_absent():
    found = interfaces()["stf0"]
    assert found.status.why is found.mac.why is Why.ABSENT
    assert (found.up, found.mtu) == (False, 1280)
    (without_mtu,) = parse_ifconfig(b"en1: flags=8863<UP>\n")
    assert without_mtu.mtu == Missing(Why.ABSENT, "no mtu")


@pytest.mark.parametrize(
    ("mask", "length"),
    [("0x00000000", 0), ("0xffff0000", 16), ("0xfffffffc", 30), ("0xffffffff", 32)],
)
def test_a_netmask_is_a_length(mask, length):
    assert parse_rows(f"inet 192.0.2.1 netmask {mask}").addresses == (
        Address("192.0.2.1", length, "global", False, False),
    )


@pytest.mark.parametrize(
    "row",
    [
        "inet",
        "inet 192.0.2.1",
        "inet 192.0.2.1 netmask",
        "inet 192.0.2.1 netmask 255.255.255.0",
        "inet 192.0.2.1 netmask 0xff00ff00",
        "inet 192.0.2.256 netmask 0xffffff00",
        "inet 192.0.2.1/24",
        "inet6 fe80::1%en1",
        "inet6 fe80::1%en1 prefixlen many",
        "inet6 fe80::1%en1 prefixlen 129",
        f"inet6 fe80::1%en1 prefixlen {'9' * 5000}",
        "inet6 fe80:::1%en1 prefixlen 64",
        "inet7 fe80::1 prefixlen 64",
    ],
    ids=lambda row: row[:40],
)
def test_an_address_that_makes_no_sense_is_left_out(row):
    found = parse_rows(row, "inet 192.0.2.9 netmask 0xffffff00", "status: active")
    assert [each.address for each in found.addresses] == ["192.0.2.9"]
    assert found.status == "active"


@pytest.mark.parametrize("blank", ["", " ", "\t"], ids=["empty", "a blank", "a tab"])
def test_empty_lines_are_passed_over(blank):
    assert parse_rows("status: active", blank, "ether 36:4d:04:ea:4e:40") == parse_rows(
        "status: active", "ether 36:4d:04:ea:4e:40"
    )


@pytest.mark.parametrize(
    "raw",
    [
        NET_TOOLS,
        BUSYBOX,
        b"",
        b"\tinet 192.0.2.1 netmask 0xffffff00\n",
        b"ifconfig: interface en9 does not exist\n",
        IFCONFIG + b"en9 flags=8863<UP> mtu 1500\n",
    ],
    ids=[
        "of net-tools",
        "of busybox",
        "nothing",
        "rows of no interface",
        "an error message",
        "a last line that is none",
    ],
)
def test_what_is_no_ifconfig_of_a_mac_is_malformed(raw):
    found = parse_ifconfig(raw)
    assert found.why is Why.MALFORMED
    assert len(found.detail) < 200


def test_a_report_that_is_cut_anywhere_is_interfaces_or_malformed():
    for length in range(len(IFCONFIG)):
        found = parse_ifconfig(IFCONFIG[:length])
        assert isinstance(found, tuple) or found.why is Why.MALFORMED


# --- networksetup -----------------------------------------------------------------------


def test_hardware_ports_are_the_blocks():
    assert parse_hardware_ports(HARDWARE_PORTS) == (
        HardwarePort("Ethernet", "en0"),
        HardwarePort("Thunderbolt 1", "en1"),
        HardwarePort("Thunderbolt Bridge", "bridge0"),
    )


def test_a_block_without_a_device_is_left_out():
    raw = HARDWARE_PORTS.replace(b"Device: en1\n", b"")
    assert [port.device for port in parse_hardware_ports(raw)] == ["en0", "bridge0"]


def test_a_mac_without_ports_has_none():
    assert parse_hardware_ports(b"\n") == ()


@pytest.mark.parametrize(
    "raw",
    [b"** Error: Unable to list\n", b"Hardware Port: Ethernet\n", b"Device: en0\n"],
    ids=["an error", "half a block", "the other half"],
)
def test_what_is_no_list_of_ports_is_malformed(raw):
    assert parse_hardware_ports(raw).why is Why.MALFORMED


# --- both commands ----------------------------------------------------------------------


def prints(host, argv, returncode, stdout=b""):
    """Lets a command end like this."""
    host.recording.commands[command_name(argv)] = Ran(returncode, stdout, b"")


def test_a_ready_mac_is_told(mac_host, soon):
    found = read_mac_network(mac_host, soon)
    assert found.interface("en1").addresses == (
        Address("169.254.205.255", 16, "link", False, False),
    )
    assert (found.interface("en2").addresses, found.interface("en9")) == ((), None)
    assert HardwarePort("Thunderbolt 2", "en2") in found.hardware_ports


LATE = Missing(Why.TIMEOUT, "no end before the deadline")


@pytest.mark.parametrize("raw", [NET_TOOLS, BUSYBOX], ids=["net-tools", "busybox"])
def test_an_ifconfig_of_linux_costs_the_interfaces_alone(mac_host, soon, raw):
    healthy = read_mac_network(mac_host, soon)
    prints(mac_host, ("/sbin/ifconfig", "-a"), 0, raw)
    found = read_mac_network(mac_host, soon)
    assert found.interfaces.why is Why.MALFORMED
    assert found.interfaces.detail.startswith("ifconfig: ")
    assert found.hardware_ports == healthy.hardware_ports


COMMANDS = {
    "interfaces": ("/sbin/ifconfig", "-a"),
    "hardware_ports": ("/usr/sbin/networksetup", "-listallhardwareports"),
}


@pytest.mark.parametrize("field", COMMANDS)
def test_a_command_that_is_late_costs_itself_alone(mac_host, soon, field):
    healthy = read_mac_network(mac_host, soon)
    mac_host.recording.refuse("run", command_name(COMMANDS[field]), LATE)
    found = read_mac_network(mac_host, soon)
    for name in COMMANDS:
        assert getattr(found, name) == (LATE if name == field else getattr(healthy, name))


@pytest.mark.parametrize("field", COMMANDS)
def test_a_command_that_fails_costs_itself_alone(mac_host, soon, field):
    prints(mac_host, COMMANDS[field], 1, IFCONFIG)
    found = read_mac_network(mac_host, soon)
    program = COMMANDS[field][0].rpartition("/")[2]
    assert getattr(found, field) == Missing(Why.UNSUPPORTED, f"{program}: exit 1")
    assert sum(isinstance(getattr(found, name), Missing) for name in COMMANDS) == 1


def test_a_mac_that_tells_nothing_is_missing(mac_host, soon):
    for argv in COMMANDS.values():
        mac_host.recording.refuse("run", command_name(argv), LATE)
    assert read_mac_network(mac_host, soon) == LATE


def test_both_commands_have_three_seconds_at_most(mac_host, commands):
    read_mac_network(mac_host, time.monotonic() + 20)
    read_mac_network(mac_host, time.monotonic() + 1)
    assert [argv for argv, _ in commands] == [*COMMANDS.values()] * 2
    assert all(left <= limit for (_, left), limit in zip(commands, (3, 3, 1, 1), strict=True))
