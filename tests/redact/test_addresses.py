"""Properties of the pseudonyms of addresses, and their derivations one by one."""

import ipaddress
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdmadiag.redact.addresses import Addresses, Seen
from rdmadiag.redact.pseudonyms import Pseudonyms

KEYS: Final = st.binary(min_size=32, max_size=32)
IPV4: Final = st.one_of(
    st.binary(min_size=4, max_size=4),
    # near each other, and in ranges of their own
    st.integers(0, 255).map(lambda last: bytes([10, 20, 3, last])),
    st.integers(0, 65535).map(lambda last: b"\xc0\xa8" + last.to_bytes(2, "big")),
    st.sampled_from(
        [
            ipaddress.IPv4Address(each).packed
            for each in ("169.254.3.4", "172.16.9.9", "172.32.0.1", "100.64.0.9", "203.0.113.7")
        ]
    ),
)
IPV6: Final = st.one_of(
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=8, max_size=8).map(lambda last: b"\xfe\x80" + bytes(6) + last),
    st.binary(min_size=14, max_size=14).map(lambda last: b"\x20\x01" + last),
    st.binary(min_size=10, max_size=10).map(lambda last: bytes.fromhex("fd1234567890") + last),
)
MACS: Final = st.binary(min_size=6, max_size=6)
GUIDS: Final = st.binary(min_size=8, max_size=8)
FEW: Final = settings(max_examples=40, deadline=None)
A, B = b"a" * 32, b"b" * 32


def of(key: bytes = A) -> Addresses:
    return Addresses(Pseudonyms(key))


def common(one: bytes, other: bytes) -> int:
    """Leading bits that they have in common."""
    bits = 8 * len(one)
    return bits - (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).bit_length()


def class_of(raw: bytes) -> tuple[bool, ...]:
    address = ipaddress.ip_address(raw)
    shared = raw[0] == 100 and raw[1] & 0xC0 == 64 if len(raw) == 4 else raw[:12] == bytes(12)
    return (
        *(address.is_loopback, address.is_link_local, address.is_multicast, address.is_private),
        *(address.is_unspecified, address.is_reserved, address.is_global, shared),
    )


@given(IPV4, IPV4, KEYS)
@FEW
def test_ipv4_addresses_have_as_many_leading_bits_in_common_as_before(
    one: bytes, other: bytes, key: bytes
) -> None:
    made = of(key)
    assert common(made.ipv4(one), made.ipv4(other)) == common(one, other)


@given(IPV4, KEYS)
@FEW
def test_an_ipv4_address_stays_in_its_class(raw: bytes, key: bytes) -> None:
    assert class_of(of(key).ipv4(raw)) == class_of(raw)


@given(IPV6, IPV6, KEYS)
@FEW
def test_so_do_the_networks_of_ipv6(one: bytes, other: bytes, key: bytes) -> None:
    made = of(key)
    before = common(one[:8], other[:8])
    if one[0] == 0xFF or other[0] == 0xFF or not any(one[:8]) or not any(other[:8]):
        return  # groups and addresses without a network
    assert common(made.ipv6(one)[:8], made.ipv6(other)[:8]) == before


@given(IPV6, KEYS)
@FEW
def test_an_ipv6_address_stays_in_its_class(raw: bytes, key: bytes) -> None:
    made = of(key).ipv6(raw)
    one, other = ipaddress.IPv6Address(raw), ipaddress.IPv6Address(made)
    assert (one.is_link_local, one.is_multicast, one.is_site_local, one.is_loopback) == (
        *(other.is_link_local, other.is_multicast, other.is_site_local, other.is_loopback),
    )
    assert (one.ipv4_mapped is None) == (other.ipv4_mapped is None)
    assert (raw[0] >> 5 == 1) == (made[0] >> 5 == 1), "2000::/3 is what is routed"


@given(MACS, KEYS)
@FEW
def test_a_mac_keeps_its_flags_and_what_derives_from_it_still_does(raw: bytes, key: bytes) -> None:
    made = of(key)
    mac = made.mac(raw)
    assert mac[0] & 3 == raw[0] & 3
    if raw[0] & 1 or not any(raw):
        return  # a group's
    for between in (b"\xff\xfe", b"\x03\x00"):
        assert made.guid(raw[:3] + between + raw[3:]) == mac[:3] + between + mac[3:]
    modified = bytes([raw[0] ^ 2]) + raw[1:3] + b"\xff\xfe" + raw[3:]
    expected = bytes([mac[0] ^ 2]) + mac[1:3] + b"\xff\xfe" + mac[3:]
    assert made.ipv6(b"\xfe\x80" + bytes(6) + modified)[8:] == expected
    assert made.ipv6(b"\x20\x01\x0d\xb8" + bytes(4) + modified)[8:] == expected


@given(GUIDS, KEYS)
@FEW
def test_a_gid_ends_in_the_guid_of_its_port(raw: bytes, key: bytes) -> None:
    made = of(key)
    if raw[:4] in (b"\0\0\x5e\xfe", b"\x02\0\x5e\xfe") or raw == bytes.fromhex("fe80000000000000"):
        return
    assert made.ipv6(b"\xfe\x80" + bytes(6) + raw)[8:] == made.guid(raw)
    assert made.hardware(b"\x80\0\x02\x0a\xfe\x80" + bytes(6) + raw)[12:] == made.guid(raw)


@given(st.sets(MACS, max_size=40), st.sets(GUIDS, max_size=40), st.sets(IPV4, max_size=40))
@FEW
def test_no_two_become_one(macs: set[bytes], guids: set[bytes], ipv4: set[bytes]) -> None:
    made = of()
    assert len({made.mac(each) for each in macs}) == len(macs)
    assert len({made.guid(each) for each in guids}) == len(guids)
    assert len({made.ipv4(each) for each in ipv4}) == len(ipv4)


def test_the_key_alone_decides() -> None:
    guid, address = bytes.fromhex("0c42a10300123456"), bytes([10, 20, 30, 40])
    assert of(A).guid(guid) == of(A).guid(guid) != of(B).guid(guid) != guid
    assert of(A).ipv4(address) == of(A).ipv4(address) != of(B).ipv4(address) != address
    assert Pseudonyms(A).word("host", "node7") == Pseudonyms(A).word("host", "NODE7")
    assert Pseudonyms(A).word("host", "node7") != Pseudonyms(B).word("host", "node7")
    with pytest.raises(ValueError, match="32 bytes"):
        Pseudonyms(b"short")


def test_ports_of_a_card_follow_each_other() -> None:
    first, second = bytes.fromhex("0c42a10300123458"), bytes.fromhex("0c42a10300123459")
    made = of()
    assert int.from_bytes(made.guid(second), "big") - int.from_bytes(made.guid(first), "big") == 1


@given(st.integers(9, 30), st.integers(0, 2**24 - 1), KEYS)
@FEW
def test_a_network_keeps_its_first_and_its_last_address(length: int, low: int, key: bytes) -> None:
    hosts = (1 << (32 - length)) - 1
    first = (10 << 24 | low) & ~hosts
    seen = Seen()
    seen.networks.add((first, length))
    made = Addresses(Pseudonyms(key), seen)
    network = int.from_bytes(made.network4(first.to_bytes(4, "big"), length), "big")
    assert network & hosts == 0
    assert made.ipv4(first.to_bytes(4, "big")) == network.to_bytes(4, "big")
    assert made.ipv4((first | hosts).to_bytes(4, "big")) == (network | hosts).to_bytes(4, "big")
    if hosts < 256:
        all_of_it = {made.ipv4((first | each).to_bytes(4, "big")) for each in range(hosts + 1)}
        assert len(all_of_it) == hosts + 1
        assert {int.from_bytes(each, "big") & ~hosts for each in all_of_it} == {network}


@pytest.mark.parametrize(
    "text",
    [
        *("::", "::1", "fe80::", "ff02::1", "ff02::2", "ff12:401b:ffff::1"),
        *("127.0.0.1", "0.0.0.0", "255.255.255.255", "255.255.255.0", "224.0.0.1"),
    ],
)
def test_what_is_everybodys_stays(text: str) -> None:
    raw = ipaddress.ip_address(text).packed
    assert (of().ipv4 if len(raw) == 4 else of().ipv6)(raw) == raw


def test_groups_of_an_address_follow_it() -> None:
    address = ipaddress.IPv6Address("2001:db8::a1b2:c3d4:e5f6").packed
    seen = Seen()
    seen.ipv6.add(address)
    made = Addresses(Pseudonyms(A), seen)
    end = made.ipv6(address)[13:]
    solicited = ipaddress.IPv6Address("ff02::1:ffd4:e5f6").packed
    assert made.ipv6(solicited) == solicited[:13] + end
    assert made.mac(bytes.fromhex("3333ffd4e5f6")) == bytes.fromhex("3333ff") + end
    assert of().ipv6(solicited)[:13] == solicited[:13]


def test_an_iwarp_gid_is_its_mac() -> None:
    mac = bytes.fromhex("0242ac110002")
    seen = Seen()
    seen.macs.add(mac)
    made = Addresses(Pseudonyms(A), seen)
    assert made.ipv6(mac + bytes(10)) == made.mac(mac) + bytes(10)


def test_ipv4_in_ipv6_is_that_of_ipv4() -> None:
    made = of()
    inner = bytes([10, 1, 2, 3])
    for head in ("00000000000000000000ffff", "0064ff9b0000000000000000"):
        assert made.ipv6(bytes.fromhex(head) + inner) == bytes.fromhex(head) + made.ipv4(inner)
    isatap = bytes.fromhex("fe8000000000000000005efe") + inner
    assert made.ipv6(isatap) == isatap[:12] + made.ipv4(inner)
    assert made.hardware(inner) == made.ipv4(inner)
    assert made.hardware(b"12345") == bytes(5)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("0.0.0.0", 0),
        ("127.0.0.0", 8),
        ("224.0.0.0", 4),
        ("fe80::", 10),
        ("fe80::", 64),
        ("ff00::", 8),
    ],
)
def test_networks_that_are_everybodys_stay(text: str, length: int) -> None:
    raw = ipaddress.ip_address(text).packed
    made = of()
    assert (made.network4 if len(raw) == 4 else made.network6)(raw, length) == raw


def test_a_network_of_ipv6_has_no_host_in_it() -> None:
    made = of()
    for text, length in (("2001:db8:1:2::", 64), ("fd12:3456::", 48), ("2001:db8::ff00", 120)):
        raw = ipaddress.IPv6Address(text).packed
        number = int.from_bytes(made.network6(raw, length), "big")
        assert number & ((1 << (128 - length)) - 1) == 0
        assert made.network6(raw, length) != raw


@pytest.mark.parametrize(
    ("before", "stays"),
    [
        ("01005e000001", True),  # 224.0.0.1
        ("01005e7f0a0b", False),
        ("333300000001", True),
        ("0180c200000e", True),  # LLDP
        ("ffffffffffff", True),
        ("000000000000", True),
        ("0c42a1243f0e", False),
    ],
)
def test_macs_of_groups_keep_their_kind(before: str, stays: bool) -> None:
    raw = bytes.fromhex(before)
    made = of().mac(raw)
    assert (made == raw) == stays
    assert made[0] & 3 == raw[0] & 3
    assert raw[0] & 1 == 0 or made[:3] == raw[:3]


def test_groups_of_a_site_and_odd_guids_change_as_well() -> None:
    made = of()
    group = ipaddress.IPv6Address("ff35:40:2001:db8:1:2:1234:5678").packed
    assert made.ipv6(group)[:2] == group[:2]
    assert made.ipv6(group) != group
    mac_first = bytes.fromhex("0c42a1243f0e0000")
    assert made.guid(mac_first) == made.mac(mac_first[:6]) + bytes(2)
    assert made.guid(bytes(8)) == bytes(8)
    subnet = bytes.fromhex("fec0000000001234")
    seen = Seen()
    first = Addresses(Pseudonyms(A), collecting=seen)
    gid = first.ipv6(subnet + bytes.fromhex("0c42a10300243f0e"))
    assert Addresses(Pseudonyms(A), seen).guid(subnet) == gid[:8] != subnet
