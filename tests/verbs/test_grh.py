"""Whom a datagram is from, by the 40 bytes before it."""

from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts.gid import Gid
from rdmadiag.verbs.grh import GRH_BYTES, source

IPV4 = bytes.fromhex("45000054abcd40004011") + b"\0\0" + bytes([192, 0, 2, 1, 192, 0, 2, 9])
"""RFC 791: the ninth word's place is the checksum's, which `checked` fills in."""

SIX = IPv6Address("2001:db8::1").packed, IPv6Address("2001:db8::2").packed


def checked(header: bytes) -> bytes:
    total = sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, 20, 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return header[:10] + (0xFFFF - total).to_bytes(2, "big") + header[12:]


@pytest.mark.parametrize("before", [bytes(20), b"\xa5" * 20, b"\x60" * 20])
def test_of_an_ipv4_header_the_address_is_mapped(before: bytes) -> None:
    """The 20 bytes before it mean nothing: InfiniBand specification, A17.9.2."""
    assert source(before + checked(IPV4)) == Gid.parse("::ffff:192.0.2.1")


def test_of_a_grh_and_of_ipv6_it_is_the_first_address() -> None:
    """Version, class and label, length, next header, hops: eight bytes (RFC 8200, 3)."""
    head = bytes.fromhex("6000000000401140")
    assert source(head + SIX[0] + SIX[1]) == Gid.parse("2001:db8::1")


def test_an_address_that_looks_like_ipv4_is_none_without_its_checksum() -> None:
    head = bytes.fromhex("6000000000401140")
    far = bytes.fromhex("0000000045") + SIX[1][5:]
    near = SIX[0][:12] + b"\x45\0\0\x20"
    assert source(head + near + far) == Gid(near)


@given(st.binary(min_size=GRH_BYTES, max_size=GRH_BYTES))
def test_any_forty_bytes_have_a_source(grh: bytes) -> None:
    found = source(grh).raw
    assert found == grh[8:24] or (found[10:12] == b"\xff\xff" and found[12:] == grh[32:36])


@given(st.binary(max_size=80).filter(lambda found: len(found) != GRH_BYTES))
def test_other_lengths_are_no_grh(grh: bytes) -> None:
    with pytest.raises(ValueError, match="bytes"):
        source(grh)
