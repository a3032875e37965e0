"""rtnetlink: the netdevs of a namespace, their addresses, and damaged replies."""

import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.netdevs import NetDev as LabNetDev
from rdmadiag.facts import Address, Missing, NetDev, NetDevFacts, Why
from rdmadiag.host import netlink
from rdmadiag.host.live import LiveHost
from rdmadiag.sources.netdev import (
    parse_addresses,
    parse_arp_filter,
    parse_arp_ignore,
    parse_hop_limit,
    parse_netdevs,
    parse_xdp,
    read_netdevs,
)
from tests.sources.any_bytes import damaged, well_typed


@pytest.fixture(scope="module")
def replies(roce):
    """What the kernel of the healthy machine answers, by the name of the request."""
    return roce.recording().netlink


def attribute(number, value):
    """An attribute as the kernel lays it out."""
    return struct.pack("=HH", 4 + len(value), number) + value + bytes(-len(value) % 4)


def u32(value):
    return struct.pack("=I", value)


IFNAME = (3, b"eth7\0")


def link(*attributes, index=7, flags=0x1043, kind=1, message_flags=netlink.NLM_F_MULTI):
    """RTM_NEWLINK; numbers from linux/if_link.h."""
    body = struct.pack("=BxHiII", 0, kind, index, flags, 0)
    body += b"".join(attribute(number, value) for number, value in attributes)
    return struct.pack("=IHHII", 16 + len(body), 16, message_flags, 0, 0) + body


def address(*attributes, family=2, prefix=24, scope=0, index=7, flags=0):
    """RTM_NEWADDR; numbers from linux/if_addr.h."""
    body = struct.pack("=BBBBI", family, prefix, flags, scope, index)
    body += b"".join(attribute(number, value) for number, value in attributes)
    return struct.pack("=IHHII", 16 + len(body), 20, netlink.NLM_F_MULTI, 0, 0) + body


VLAN = link(
    IFNAME,
    (
        18,
        attribute(1, b"vlan\0")
        + attribute(2, attribute(1, struct.pack("=H", 100)) + attribute(5, b"\x88\xa8")),
    ),
    (5, u32(2)),
    (1, bytes(6)),
    (16, bytes([6])),
)


@given(data=st.data())
def test_any_bytes_are_netdevs_of_the_promised_types_or_missing(replies, data):
    real = st.sampled_from([replies["route-getlink"], VLAN])
    found = parse_netdevs(data.draw(real.flatmap(damaged) | st.binary(max_size=120)), {})
    assert isinstance(found, tuple | Missing)
    if not isinstance(found, Missing):
        assert all(well_typed(netdev, NetDev) for netdev in found)


@given(data=st.data())
def test_any_bytes_are_addresses_of_the_promised_types_or_missing(replies, data):
    found = parse_addresses(data.draw(damaged(replies["route-getaddr"]) | st.binary(max_size=120)))
    assert isinstance(found, dict | Missing)
    if not isinstance(found, Missing):
        assert all(well_typed(each, Address) for row in found.values() for each in row)


# --- links -------------------------------------------------------------------------------


def test_an_ethernet_link_is_told_whole():
    addresses = {7: (Address("192.0.2.1", 24, "global"),)}
    (found,) = parse_netdevs(
        link(
            IFNAME,
            (1, bytes.fromhex("0c42a1000001")),
            (4, u32(9000)),
            (16, bytes([6])),
            (33, bytes([1])),
            (35, u32(4)),
        ),
        addresses,
    )
    assert found == NetDev(
        name="eth7",
        ifindex=7,
        admin_up=True,
        operstate="up",
        carrier=True,
        carrier_changes=4,
        mtu=9000,
        mac="0c:42:a1:00:00:01",
        kind=Missing(Why.ABSENT, "IFLA_INFO_KIND"),
        master=Missing(Why.ABSENT, "IFLA_MASTER"),
        vlan_id=Missing(Why.ABSENT, "IFLA_VLAN_ID"),
        lower=Missing(Why.ABSENT, "IFLA_LINK"),
        addresses=addresses[7],
        arp_ignore=Missing(Why.ABSENT, "IFLA_INET_CONF"),
        rp_filter=Missing(Why.ABSENT, "IFLA_INET_CONF"),
        arp_filter=Missing(Why.ABSENT, "IFLA_INET_CONF"),
        hop_limit=Missing(Why.ABSENT, "IFLA_INET6_CONF"),
        xdp=Missing(Why.ABSENT, "IFLA_XDP"),
        vlan_protocol=Missing(Why.ABSENT, "IFLA_VLAN_PROTOCOL"),
    )


def test_a_bare_link_is_told_with_what_is_missing():
    (found,) = parse_netdevs(link(IFNAME, flags=0x1002), {})
    assert found.admin_up is False
    for name in ("operstate", "carrier", "carrier_changes", "mtu", "mac"):
        assert getattr(found, name).why is Why.ABSENT
    assert found.addresses == ()


def test_the_twenty_bytes_of_an_infiniband_address_are_told_without_a_word_on_stderr(capfd):
    hardware = bytes.fromhex("80000a48fe800000000000000c42a10300000001")
    (found,) = parse_netdevs(link(IFNAME, (1, hardware), kind=32), {})
    assert found.mac == "80:00:0a:48:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:00:00:01"
    assert capfd.readouterr() == ("", "")


def test_an_empty_address_is_absent():
    (found,) = parse_netdevs(link(IFNAME, (1, b"")), {})
    assert found.mac == Missing(Why.ABSENT, "IFLA_ADDRESS: empty")


def test_a_vlan_is_told_with_its_number_and_what_is_below():
    vlan, lower = parse_netdevs(VLAN + link((3, b"eth2\0"), index=2), {})
    assert (vlan.kind, vlan.vlan_id, vlan.lower) == ("vlan", 100, "eth2")
    assert vlan.vlan_protocol == 0x88A8  # ETH_P_8021AD, in network byte order
    assert lower.vlan_id == Missing(Why.ABSENT, "IFLA_VLAN_ID")


def test_a_bond_s_member_is_told_with_its_master():
    member, bond = parse_netdevs(
        link(IFNAME, (10, u32(9))) + link((3, b"bond0\0"), (18, attribute(1, b"bond\0")), index=9),
        {},
    )
    assert (member.master, bond.kind) == ("bond0", "bond")


def test_a_lower_link_of_another_namespace_is_named_by_its_index():
    (found,) = parse_netdevs(link(IFNAME, (5, u32(44))), {})
    assert found.lower == Missing(Why.ABSENT, "IFLA_LINK 44 is not in this namespace")


def test_a_lower_link_of_another_namespace_is_none_of_that_index_here():
    elsewhere = link(IFNAME, (5, u32(3)), (37, struct.pack("=i", 2)))
    here = link((3, b"eth3\0"), index=3)
    found, _ = parse_netdevs(elsewhere + here, {})
    assert found.lower == Missing(Why.ABSENT, "IFLA_LINK is in network namespace 2")


def test_a_link_without_a_name_is_passed_over():
    assert parse_netdevs(link((4, u32(1500))), {}) == ()


def test_a_name_that_is_not_utf8_can_be_printed():
    (found,) = parse_netdevs(link((3, b"eth\xff\0")), {})
    assert found.name == r"eth\xff"


OPERSTATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")


@pytest.mark.parametrize(("number", "name"), list(enumerate(OPERSTATES)), ids=OPERSTATES)
def test_operational_states_have_the_names_that_sysfs_documents(number, name):
    (found,) = parse_netdevs(link(IFNAME, (16, bytes([number]))), {})
    assert found.operstate == name


def test_a_link_that_is_cut_short_is_malformed():
    assert parse_netdevs(link(IFNAME)[:-5], {}).why is Why.MALFORMED


def test_an_attribute_that_is_cut_short_is_malformed_and_the_others_stay():
    cut = link(IFNAME, (18, b""))[:-4] + struct.pack("=HH", 400, 4)
    (found,) = parse_netdevs(cut, {})
    assert (found.name, found.mtu.why) == ("eth7", Why.MALFORMED)


# --- addresses ---------------------------------------------------------------------------

V4, PEER = bytes([192, 0, 2, 1]), bytes([192, 0, 2, 9])
V6 = bytes.fromhex("fe80000000000000505400fffe000001")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (address((1, V4), (2, V4)), Address("192.0.2.1", 24, "global", False, False, None, False)),
        (
            address((1, PEER), (2, V4), prefix=32),
            Address("192.0.2.1", 32, "global", False, False, "192.0.2.9", False),
        ),
        (
            address((1, V6), family=10, prefix=64, scope=253),
            Address("fe80::5054:ff:fe00:1", 64, "link", False, False, None, False),
        ),
        (address((2, V4), scope=254), Address("192.0.2.1", 24, "host", False, False, None, False)),
        (address((2, V4), scope=17), Address("192.0.2.1", 24, "17", False, False, None, False)),
    ],
    ids=["IPv4", "ours of a point-to-point link", "IPv6", "the host's scope", "another scope"],
)
def test_an_address_is_told_with_its_prefix_and_scope(message, expected):
    assert parse_addresses(message) == {7: (expected,)}


def test_an_address_whose_preferred_lifetime_is_over_is_deprecated():
    over = parse_addresses(address((2, V4), flags=0x20))  # IFA_F_DEPRECATED
    assert over == {7: (Address("192.0.2.1", 24, "global", False, False, None, True),)}


@pytest.mark.parametrize(
    ("flags", "tentative", "duplicate"),
    [
        (0x80, False, False),
        (0x40, True, False),
        (0xC8, True, True),
        (0x44, False, False),
        (0x20C0, True, False),
    ],
    ids=[
        "permanent",
        "tentative",
        "detection failed",
        "optimistic: in use while tentative",
        "flags beyond the 8 bits of ifa_flags",
    ],
)
@pytest.mark.parametrize("old", [False, True], ids=["IFA_FLAGS", "ifa_flags alone"])
def test_the_state_of_duplicate_detection_is_in_the_flags(flags, tentative, duplicate, old):
    given = () if old else ((8, struct.pack("=I", flags)),)
    message = address((1, V6), *given, family=10, prefix=64, scope=253, flags=flags & 0xFF * old)
    (found,) = parse_addresses(message)[7]
    assert (found.tentative, found.duplicate) == (tentative, duplicate)


def test_addresses_are_grouped_by_link_in_their_order():
    found = parse_addresses(address((2, V4)) + address((2, PEER)) + address((2, V4), index=8))
    assert [each.address for each in found[7]] == ["192.0.2.1", "192.0.2.9"]
    assert list(found) == [7, 8]


def test_an_address_message_without_an_address_is_passed_over():
    assert parse_addresses(address()) == {}


def test_addresses_that_are_cut_short_are_malformed():
    assert parse_addresses(address((2, V4))[:-1]).why is Why.MALFORMED


# --- whole machines ----------------------------------------------------------------------


def test_a_healthy_machine_is_told_whole(memory_host, soon):
    found = read_netdevs(memory_host, soon)
    eth0 = found.netdev("eth0")
    assert (eth0.mtu, eth0.mac, eth0.carrier, eth0.operstate) == (
        1500,
        "0c:42:a1:00:00:01",
        True,
        "up",
    )
    assert eth0.addresses == (
        Address("192.0.2.1", 24, "global", False, False, None, False),
        Address("2001:db8::1", 64, "global", False, False, None, False),
        Address("fe80::1", 64, "link", False, False, None, False),
    )
    assert found.netdev("eth1") is None


def test_a_link_that_is_down_is_told_as_down(roce, host_in_memory, soon):
    machine = roce.change(netdevs=(LabNetDev("eth0", up=False),))
    eth0 = read_netdevs(host_in_memory(machine.recording()), soon).netdev("eth0")
    assert (eth0.admin_up, eth0.carrier, eth0.operstate) == (False, False, "down")


@pytest.mark.parametrize("name", ["route-getlink", "route-getaddr"])
def test_a_refused_dump_is_the_reason_for_everything(memory_host, soon, name):
    refused = Missing(Why.DENIED, f"netlink {name}: EPERM")
    memory_host.recording.refuse("netlink", name, refused)
    assert read_netdevs(memory_host, soon) == refused


@pytest.mark.parametrize("name", ["route-getlink", "route-getaddr"])
@pytest.mark.parametrize("damage", [b"abc", b"\x14\0\0\0" + bytes(16)], ids=["cut", "no payload"])
def test_a_damaged_dump_is_malformed(memory_host, soon, name, damage):
    memory_host.recording.netlink[name] += damage
    assert read_netdevs(memory_host, soon).why is Why.MALFORMED


@pytest.mark.parametrize("name", ["route-getlink", "route-getaddr"])
def test_an_interrupted_dump_is_asked_for_once_more(memory_host, replies, soon, name):
    whole = replies[name]
    length, kind, flags = struct.unpack_from("=IHH", whole)
    torn = struct.pack("=IHH", length, kind, flags | 0x10) + whole[8:length]  # NLM_F_DUMP_INTR
    memory_host.recording.netlink |= {name: torn, f"{name}-again": whole}
    assert read_netdevs(memory_host, soon).netdev("eth0").mtu == 1500
    assert ("netlink", f"{name}-again") in memory_host.asked


def test_a_dump_that_is_whole_is_asked_for_once(memory_host, soon):
    read_netdevs(memory_host, soon)
    asked = [name for question, name in memory_host.asked if question == "netlink"]
    assert asked == ["route-getaddr", "route-getlink"]


def test_an_empty_namespace_has_no_netdevs(memory_host, soon):
    memory_host.recording.netlink |= {"route-getlink": b"", "route-getaddr": b""}
    assert read_netdevs(memory_host, soon) == NetDevFacts((), 0, 0, bonds=())


def inet_conf(*values, family=2, kind=1):
    """IFLA_AF_SPEC with an IPv4 configuration of its own, as inet_fill_link_af writes it."""
    conf = attribute(kind, b"".join(struct.pack("=i", value) for value in values))
    return attribute(10, b"") + attribute(family, conf)


@pytest.mark.parametrize(
    ("af_spec", "expected"),
    [
        pytest.param(inet_conf(*range(33)), 18, id="the nineteenth value of the array"),
        pytest.param(inet_conf(*range(19)), 18, id="an array that ends there"),
        pytest.param(inet_conf(*range(18)), Why.ABSENT, id="an older, shorter array"),
        pytest.param(inet_conf(*range(33), family=7), Why.ABSENT, id="another family's"),
        pytest.param(inet_conf(*range(33), kind=2), Why.ABSENT, id="another attribute"),
        pytest.param(b"", Why.ABSENT, id="nothing"),
    ],
)
def test_arp_ignore_stands_in_the_ipv4_configuration(af_spec, expected):
    found = parse_arp_ignore(af_spec)
    assert (found.why if isinstance(found, Missing) else found) == expected


def test_arp_filter_and_the_hop_limit_stand_in_the_configuration_of_their_version():
    both = inet_conf(*range(33)) + inet_conf(*range(100, 110), family=10, kind=2)
    assert (parse_arp_filter(both), parse_hop_limit(both)) == (12, 101)
    assert isinstance(parse_hop_limit(inet_conf(*range(33))), Missing)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (netlink.attribute(2, b"\0"), "none"),
        (netlink.attribute(2, b"\2") + netlink.attribute(4, bytes(4)), "generic"),
        (netlink.attribute(2, b"\x09"), "9"),
        (b"", Why.ABSENT),
    ],
    ids=["none", "of the kernel", "of a later kernel", "an empty nest, or an older kernel"],
)
def test_a_link_says_where_its_program_of_xdp_is(content, expected):
    found = parse_xdp(content)
    assert (found.why if isinstance(found, Missing) else found) == expected


@given(st.binary(max_size=300))
def test_any_bytes_of_a_configuration_are_a_number_or_missing(raw):
    for parse in (parse_arp_ignore, parse_arp_filter, parse_hop_limit):
        assert isinstance(parse(raw), int | Missing)
    assert isinstance(parse_xdp(raw), str | Missing)


def test_this_machine_is_told_as_sysfs_tells_it(soon):
    found = read_netdevs(LiveHost(), soon)
    for netdev in found.netdevs:
        with open(f"/proc/sys/net/ipv4/conf/{netdev.name}/arp_ignore") as file:
            assert netdev.arp_ignore == int(file.read())
        with open(f"/proc/sys/net/ipv4/conf/{netdev.name}/rp_filter") as file:
            assert netdev.rp_filter == int(file.read())
        with open(f"/proc/sys/net/ipv4/conf/{netdev.name}/arp_filter") as file:
            assert netdev.arp_filter == int(file.read())
        assert netdev.xdp == "none"
    assert {netdev.name for netdev in found.netdevs} == set(os.listdir("/sys/class/net"))
    loopback = found.netdev("lo")
    with open("/sys/class/net/lo/address") as file:
        assert loopback.mac == file.read().strip()
