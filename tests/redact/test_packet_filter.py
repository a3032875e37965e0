"""Rules of nftables with pseudonyms in them: the same chains and verdicts, with other names."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdmadiag.facts import Missing
from rdmadiag.facts.address import printed
from rdmadiag.facts.packet_filter import PacketFilter
from rdmadiag.host import netlink
from rdmadiag.redact.addresses import Addresses
from rdmadiag.redact.netlink import Messages
from rdmadiag.redact.pseudonyms import Pseudonyms
from rdmadiag.sources.packet_filter import parse_packet_filter
from tests.sources.test_packet_filter import (
    chain,
    compare,
    expression,
    masked,
    meta,
    payload,
    rule,
    verdict,
)

KEY = Pseudonyms(b"k" * 32)
ADDRESSES = Addresses(KEY)
MESSAGES = Messages(ADDRESSES, str, lambda name: name.replace("acme-prod", "chain-x"))
DROP, JUMP = 0, -3
HOST = bytes([141, 12, 7, 9])
IP6 = bytes.fromhex("2a02123456780000000000000000abcd")


def redacted(name: str, reply: bytes) -> bytes:
    return MESSAGES(name, reply)


def only(rules: bytes, family: int = 1) -> PacketFilter:
    found = parse_packet_filter(chain("INPUT", 1, family=family), rules)
    assert not isinstance(found, Missing)
    assert found.chains
    return found


PIECES = {
    "a port": (payload(1, 2, 2), compare((4791).to_bytes(2))),
    "ports below": (payload(1, 2, 2), compare((4791).to_bytes(2), 2)),
    "udp": (meta(16), compare(b"\x11")),
    "a source": (payload(2, 12, 4), compare(HOST)),
    "a network of whole bytes": (payload(2, 12, 2), compare(HOST[:2])),
    "a masked network": (
        payload(2, 16, 4), masked(b"\xff\xff\xf0\0"), compare(bytes([141, 12, 0, 0])),
    ),
    "a mask of no prefix": (payload(2, 16, 4), masked(b"\xff\0\xff\0"), compare(HOST)),
    "an address of IPv6": (payload(2, 24, 16), compare(IP6)),
    "not an address": (payload(2, 12, 4), compare(HOST, 1)),
    "a link": (meta(6), compare(b"eth0\0".ljust(16, b"\0"))),
    "links by a prefix": (meta(6), compare(b"eth")),
    "a MAC": (payload(0, 6, 6), compare(b"\x0c\x42\xa1\x24\x3f\x0e")),
    "a counter": (expression("counter", netlink.attribute(1, HOST)),),
    "what is not known": (expression("fib", netlink.attribute(1, HOST)),),
    "a set": (payload(2, 12, 4), expression("lookup", netlink.attribute(1, b"mine\0"))),
}  # fmt: skip


def with_pseudonyms(before: str) -> str:
    """What is expected of the text of the original's rows."""
    for address in (HOST, bytes([141, 12, 0, 0])):
        for length in (16, 20, 32):
            new = ADDRESSES.network4(address, length)
            old = f"{'.'.join(map(str, address))}/{length}'"
            before = before.replace(old, f"{'.'.join(map(str, new))}/{length}'")
    return before.replace(printed(IP6), printed(ADDRESSES.ipv6(IP6)))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from(sorted(PIECES)), max_size=4), min_size=1, max_size=3),
    st.sampled_from((1, 2, 10)),
)
def test_what_is_read_of_the_redacted_rules_is_what_was_read_with_pseudonyms(
    names: list[list[str]], family: int
) -> None:
    rules = b"".join(
        rule(
            "INPUT", *(each for name in one for each in PIECES[name]), verdict(DROP), family=family
        )
        for one in names
    )
    made = redacted("nft-getrule", rules)
    after = parse_packet_filter(redacted("nft-getchain", chain("INPUT", 1, family=family)), made)
    assert repr(after) == with_pseudonyms(repr(only(rules, family)))
    for secret in (HOST, HOST[::-1], IP6, IP6[::-1], b"\x0c\x42\xa1\x24\x3f\x0e", b"mine"):
        assert secret not in made


def test_a_chain_with_a_name_of_its_own_is_the_same_where_it_is_jumped_to() -> None:
    rules = rule("INPUT", verdict(JUMP, "acme-prod")) + rule(
        "acme-prod", *PIECES["a port"], verdict(DROP)
    )
    made = redacted("nft-getrule", rules)
    after = parse_packet_filter(redacted("nft-getchain", chain("INPUT", 1)), made)
    assert after == only(rules)
    assert len(only(rules).chains[0].rules) == 1
    assert b"acme" not in made


def test_an_error_among_the_rules_is_not_passed_on() -> None:
    with pytest.raises(ValueError, match="an error"):
        redacted("nft-getrule", netlink.request(netlink.NLMSG_ERROR, 0, bytes(8)))


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=80))
def test_any_expression_is_made_anew(raw: bytes) -> None:
    for name in ("cmp", "range", "bitwise", "match", "immediate", "payload", "target", "reject"):
        redacted("nft-getrule", rule("INPUT", *PIECES["a source"], expression(name, raw)))
