"""Netlink replies made anew: what each kind of attribute becomes, and what is left out."""

import socket
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdmadiag.host import netlink
from rdmadiag.redact.addresses import Addresses
from rdmadiag.redact.netlink import Messages
from rdmadiag.redact.pseudonyms import Pseudonyms

ADDRESSES = Addresses(Pseudonyms(b"k" * 32))
MAC = bytes.fromhex("0c42a1243f0e")


def messages() -> Messages:
    return Messages(ADDRESSES, lambda text: text.replace("secret", "public"), str)


def reply(kind: int, content: bytes) -> bytes:
    made = netlink.request(kind, 0, content)
    return made + bytes(-len(made) % 4)


def attributes(name: str, head: bytes, content: bytes) -> dict[int, bytes]:
    """Of the first message of what is made."""
    made = messages()(name, reply(16, head + content))
    message = next(netlink.messages(made))
    assert netlink.body(made, message)[: len(head)] == head
    return dict(netlink.attributes(netlink.body(made, message, len(head))))


def test_a_link_keeps_what_is_read_of_it() -> None:
    vlan = netlink.attribute(1, b"vlan\0") + netlink.attribute(2, netlink.attribute(1, b"\x64\0"))
    other = netlink.attribute(1, b"team\0") + netlink.attribute(2, netlink.attribute(1, MAC))
    for info, kept in ((vlan, True), (other, False)):
        found = attributes(
            "route-getlink",
            bytes(16),
            netlink.attribute(3, b"secret0\0")
            + netlink.attribute(1, MAC)
            + netlink.attribute(20, b"alias")
            + netlink.attribute(18, info),
        )
        assert found[3] == b"public0\0"
        assert found[1] == ADDRESSES.mac(MAC)
        assert 20 not in found
        assert (2 in dict(netlink.attributes(found[18]))) == kept


def test_of_a_set_of_a_packet_filter_only_that_there_is_none_is_taken() -> None:
    end = struct.pack("=IHHII", 20, netlink.NLMSG_DONE, 2, 1, 0) + bytes(4)
    for nothing in (b"", end):
        assert messages()("nft-getset", nothing) == nothing
    with pytest.raises(ValueError, match="any form"):
        messages()("nft-getset", netlink.request(2569, 0, bytes(4)) + end)


def filter_of(kind: bytes, *options: bytes) -> dict[int, bytes]:
    """TCA_OPTIONS of a filter as they are made anew."""
    content = netlink.attribute(1, kind + b"\0") + netlink.attribute(2, b"".join(options))
    found = attributes("route-gettfilter-2-in", bytes(20), content)
    return dict(netlink.attributes(found.get(2, b"")))


def word(at: int, mask: int, value: int) -> bytes:
    return struct.pack(">II", mask, value) + struct.pack("=ii", at, 0)


def test_of_words_of_a_filter_those_of_addresses_are_others_and_unknown_ones_blank() -> None:
    head, own = struct.pack("=BBB13x", 1, 0, 4), 0x0A140307
    words = (
        word(8, 0x00FF0000, 0x00110000),
        word(12, 0xFFFFFFFF, own),
        word(20, 0xFFFF, 4791),
        word(28, 0xFFFFFFFF, own),
    )
    found = filter_of(b"u32", netlink.attribute(5, head + b"".join(words)))[5]
    assert found[:16] == head
    assert (found[16:32], found[48:64]) == (words[0], words[2])
    assert found[36:40] == ADDRESSES.ipv4(own.to_bytes(4))
    assert found[52 + 16 : 56 + 16] == bytes(4)


def test_of_actions_those_are_kept_that_hold_no_address() -> None:
    def action(kind: bytes, parms: int) -> bytes:
        own = netlink.attribute(1, kind + b"\0")
        own += netlink.attribute(2, netlink.attribute(parms, b"\x0a\x14\x03\x07"))
        return netlink.attribute(1, own)

    for kind, parms, kept in ((b"gact", 2, True), (b"mirred", 2, True), (b"pedit", 2, False)):
        found = filter_of(b"flower", netlink.attribute(3, action(kind, parms)))[3]
        assert (b"\x0a\x14\x03\x07" in found) is kept
        assert kind in found
    assert filter_of(b"cgroup", netlink.attribute(5, MAC)) == {5: bytes(6)}
    assert filter_of(b"u32", netlink.attribute(4, b"\1\0\0\0")) == {4: b"\1\0\0\0"}


def test_neighbour_tables_keep_how_often_is_asked_and_no_more() -> None:
    own = b"".join(netlink.attribute(each, bytes(4)) for each in (1, 5, 9, 10, 11))
    found = attributes("route-getneightbl", bytes(4), netlink.attribute(6, own))
    assert set(dict(netlink.attributes(found[6]))) == {1, 9, 10, 11}


def test_labels_of_addresses_keep_their_length_and_no_address() -> None:
    prefix = bytes.fromhex("fd000017") + bytes(12)
    own = netlink.attribute(1, prefix) + netlink.attribute(2, bytes(4))
    found = attributes("route-getaddrlabel", b"\x0a\0\x40" + bytes(9), own)
    assert found[2] == bytes(4)
    assert found[1][8:] == bytes(8)
    assert found[1][:8] != prefix[:8]


def test_labels_that_every_host_has_stay_as_they_are() -> None:
    for address, length in (("fec0::", 10), ("2001::", 32), ("::ffff:0:0", 96)):
        raw = socket.inet_pton(socket.AF_INET6, address)
        head = bytes((10, 0, length)) + bytes(9)
        assert attributes("route-getaddrlabel", head, netlink.attribute(1, raw)) == {1: raw}


def of_info(*info: bytes) -> dict[int, bytes]:
    """IFLA_LINKINFO as it is made anew."""
    found = attributes("route-getlink", bytes(16), netlink.attribute(18, b"".join(info)))
    return dict(netlink.attributes(found[18]))


def test_a_bond_keeps_its_mode_and_how_it_is_with_its_partner() -> None:
    partner = netlink.attribute(1, b"\x02\0") + netlink.attribute(5, MAC)
    data = b"".join(
        (
            netlink.attribute(1, b"\x04"),  # IFLA_BOND_MODE
            netlink.attribute(2, b"\x07\0\0\0"),  # IFLA_BOND_ACTIVE_SLAVE: nobody reads it
            netlink.attribute(14, MAC),  # as long as no number is
            netlink.attribute(23, partner),
        )
    )
    made = of_info(netlink.attribute(1, b"bond\0"), netlink.attribute(2, data))
    bond = dict(netlink.attributes(made[2]))
    assert (bond[1], bond[14]) == (b"\x04", bytes(6))
    assert 2 not in bond
    assert dict(netlink.attributes(bond[23])) == {1: b"\x02\0", 5: ADDRESSES.mac(MAC)}


def test_so_does_a_leg_of_one_but_for_its_own_address() -> None:
    data = b"".join(
        (
            netlink.attribute(1, b"\0"),  # IFLA_BOND_SLAVE_STATE
            netlink.attribute(3, b"\x05\0\0\0"),  # failures
            netlink.attribute(4, MAC),  # IFLA_BOND_SLAVE_PERM_HWADDR: nobody reads it
        )
    )
    made = of_info(netlink.attribute(4, b"bond\0"), netlink.attribute(5, data))
    assert dict(netlink.attributes(made[5])) == {1: b"\0", 3: b"\x05\0\0\0"}
    bridged = of_info(netlink.attribute(4, b"bridge\0"), netlink.attribute(5, data))
    assert 5 not in bridged


@pytest.mark.parametrize(
    ("name", "head", "number", "content"),
    [
        ("nldev-get", 0, 6, b"1234"),  # a GUID of 4 bytes
        ("nldev-get", 0, 8, b"1234"),
        ("nldev-res-cm-id-get-0", 0, 33, b"\2\0"),
        ("route-getaddr", 8, 1, b"12345"),
        ("route-getroute-4", 12, 1, b"12345"),
        ("route-getlink", 16, 1, b"12345"),
    ],
)
def test_what_has_another_length_than_its_kind_is_blank(
    name: str, head: int, number: int, content: bytes
) -> None:
    found = attributes(name, bytes(head), netlink.attribute(number, content))
    assert set(found[number][2:]) <= {0}
    assert len(found[number]) == len(content)


def test_the_end_of_a_dump_and_its_flags_stay() -> None:
    done = (
        struct.pack("=IHHII", 20, netlink.NLMSG_DONE, netlink.NLM_F_DUMP_INTR, 7, 9) + b"\1\2\3\4"
    )
    made = messages()("route-getaddr", done)
    assert netlink.interrupted(made)
    assert made == done[:16] + bytes(4)


def test_prefixes_of_subnets_and_networks_keep_theirs() -> None:
    default = bytes.fromhex("fe80000000000000")[::-1]
    assert attributes("nldev-port-get", b"", netlink.attribute(8, default))[8] == default
    head = struct.pack("=BBBBBBBBI", 2, 24, 0, 0, 254, 0, 0, 1, 0)
    found = attributes("route-getroute-4", head, netlink.attribute(1, bytes([10, 9, 8, 0])))
    assert found[1][0] == 10
    assert found[1][3] == 0
    head = struct.pack("=BBBBBBBBI", 10, 64, 0, 0, 254, 0, 0, 1, 0)
    wide = bytes.fromhex("20010db8000100020000000000000000")
    found = attributes("route-getroute-6", head, netlink.attribute(1, wide))
    assert found[1][8:] == bytes(8)
    assert found[1] != wide


@given(
    st.sampled_from(["route-getlink", "route-getroute-4", "nldev-get", "devlink-x"]), st.binary()
)
@settings(max_examples=50, deadline=None)
def test_no_reply_is_too_odd(name: str, content: bytes) -> None:
    made = messages()(name, reply(16, bytes(16) + content))
    assert list(netlink.messages(made))
