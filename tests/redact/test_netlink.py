"""Netlink replies made anew: what each kind of attribute becomes, and what is left out."""

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
    return Messages(ADDRESSES, lambda text: text.replace("secret", "public"))


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
    bond = netlink.attribute(1, b"bond\0") + netlink.attribute(2, netlink.attribute(1, MAC))
    for info, kept in ((vlan, True), (bond, False)):
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
