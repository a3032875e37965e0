"""The GID as a value, against the standard library's ipaddress as an independent witness."""

import copy
import ipaddress
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from rdmadiag.facts.gid import Family, Gid, Scope

RAW = st.one_of(
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=4, max_size=4).map(lambda ipv4: bytes(10) + b"\xff\xff" + ipv4),
    st.binary(min_size=8, max_size=8).map(lambda tail: b"\xfe\x80" + bytes(6) + tail),
    st.binary(min_size=4, max_size=4).map(lambda tail: bytes(12) + tail),
)
PRIVATE = [
    ipaddress.ip_network(each)
    for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
]
LINK_LOCAL = [ipaddress.ip_network(each) for each in ("169.254.0.0/16", "fe80::/10")]
LOOPBACK = ipaddress.ip_network("127.0.0.0/8")


def address(raw: bytes) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    whole = ipaddress.IPv6Address(raw)
    return whole.ipv4_mapped or whole


def scope(raw: bytes) -> str:
    if raw == bytes(16):
        return "zero"
    where = address(raw)
    if where.is_loopback:
        return "loopback"
    if any(where in network for network in LINK_LOCAL if network.version == where.version):
        return "link_local"
    if any(where in network for network in PRIVATE if network.version == where.version):
        return "private"
    return "global"


@given(RAW)
def test_its_text_is_the_same_address_to_the_standard_library(raw):
    assert ipaddress.IPv6Address(str(Gid(raw))).packed == raw


@given(RAW)
def test_its_text_and_its_groups_read_back_as_the_same_gid(raw):
    gid = Gid(raw)
    assert Gid.parse(str(gid)) == gid == Gid.parse(gid.groups)
    assert gid.groups == ipaddress.IPv6Address(raw).exploded


@given(st.binary(min_size=16, max_size=16).filter(lambda raw: any(raw[:10])))
def test_an_address_without_ipv4_in_it_is_written_as_the_standard_library_writes_it(raw):
    assert str(Gid(raw)) == str(ipaddress.IPv6Address(raw))


@given(RAW)
def test_family_scope_and_zero_are_those_of_the_address(raw):
    gid = Gid(raw)
    mapped = ipaddress.IPv6Address(raw).ipv4_mapped
    assert gid.is_ipv4_mapped == (mapped is not None)
    assert gid.family is (Family.IPV6 if mapped is None else Family.IPV4)
    assert gid.ipv4 == (None if mapped is None else str(mapped))
    assert gid.is_zero == (int(ipaddress.IPv6Address(raw)) == 0)
    assert gid.scope == scope(raw)


def raw_of(where):
    return where.packed if where.version == 6 else bytes(10) + b"\xff\xff" + where.packed


@pytest.mark.parametrize("network", [*PRIVATE, *LINK_LOCAL, LOOPBACK], ids=str)
def test_a_scope_ends_where_its_network_ends(network):
    first, last = network[0], network[-1]
    assert Gid(raw_of(first)).scope == Gid(raw_of(last)).scope == scope(raw_of(first)) != "global"
    assert Gid(raw_of(first - 1)).scope == scope(raw_of(first - 1)) == "global"
    assert Gid(raw_of(last + 1)).scope == scope(raw_of(last + 1)) == "global"


@given(st.text())
def test_any_text_is_a_gid_or_a_value_error(text):
    try:
        gid = Gid.parse(text)
    except ValueError:
        return
    assert ipaddress.IPv6Address(text).packed == gid.raw


@given(st.text(alphabet="0123456789abcdefABCDEF: .\t", min_size=30, max_size=45))
def test_text_that_looks_like_a_gid_is_read_as_the_standard_library_reads_it(text):
    try:
        expected = ipaddress.IPv6Address(text).packed
    except ValueError:
        with pytest.raises(ValueError, match="GID"):
            Gid.parse(text)
    else:
        assert Gid.parse(text).raw == expected


@pytest.mark.parametrize(
    ("text", "shown", "scope"),
    [
        ("fe80:0000:0000:0000:5054:00ff:fe00:0001", "fe80::5054:ff:fe00:1", Scope.LINK_LOCAL),
        ("0000:0000:0000:0000:0000:ffff:c0a8:0105", "::ffff:192.168.1.5", Scope.PRIVATE),
        ("0000:0000:0000:0000:0000:ffff:c000:0201", "::ffff:192.0.2.1", Scope.GLOBAL),
        ("0000:0000:0000:0000:0000:0000:0000:0000", "::", Scope.ZERO),
        ("FE80::1", "fe80::1", Scope.LINK_LOCAL),
        ("::ffff:169.254.3.4", "::ffff:169.254.3.4", Scope.LINK_LOCAL),
        ("::ffff:100.64.0.1", "::ffff:100.64.0.1", Scope.PRIVATE),
        ("fd00::1", "fd00::1", Scope.PRIVATE),
        ("2001:db8::1", "2001:db8::1", Scope.GLOBAL),
        ("::1", "::1", Scope.LOOPBACK),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", Scope.LOOPBACK),
    ],
    ids=[
        "sysfs's form of the default GID",
        "a RoCE address of a private network",
        "a RoCE address of a public network",
        "an empty slot",
        "capital letters",
        "a link-local IPv4 address",
        "an address of a carrier's network",
        "a unique local address",
        "a global IPv6 address",
        "the loopback of IPv6",
        "the loopback of IPv4",
    ],
)
def test_the_forms_that_sysfs_and_people_write(text, shown, scope):
    gid = Gid.parse(text)
    assert (str(gid), gid.scope) == (shown, scope)
    assert repr(gid) == f"Gid({shown!r})"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        ":::::::" + "0" * 32,
        "0000 0000 0000 0000 0000 ffff c0a8 0105",
        "0000:0000:0000:0000:0000:ffff:c0a8:010g",
        "0" * 32,
        "fe80::1%eth0",
        "fe80::1\0",
        "fe80::1" + " " * 60,
        "::ffff:192.168.1.256",
        "\ud800",
    ],
    ids=[
        "nothing",
        "a word",
        "digits and colons in the wrong places",
        "groups with spaces between",
        "a letter beyond f",
        "digits without groups",
        "an address with a zone",
        "a NUL behind it",
        "more text than an address has",
        "an octet above 255",
        "half of a surrogate pair",
    ],
)
def test_what_is_not_a_gid_is_a_value_error(text):
    with pytest.raises(ValueError, match="GID"):
        Gid.parse(text)


@pytest.mark.parametrize("length", [0, 4, 15, 17], ids=lambda length: f"{length} bytes")
def test_a_gid_has_sixteen_bytes(length):
    with pytest.raises(ValueError, match=f"16 bytes, not {length}"):
        Gid(bytes(length))


def test_a_gid_does_not_change():
    with pytest.raises(AttributeError):
        Gid(bytes(16)).raw = b""


@given(RAW, RAW)
def test_equality_hash_and_order_are_those_of_the_bytes(one, other):
    assert (Gid(one) == Gid(other)) == (one == other)
    assert (Gid(one) < Gid(other)) == (one < other)
    assert hash(Gid(one)) == hash(Gid(bytes(one)))
    assert Gid(one) != one


@given(RAW)
def test_a_gid_survives_pickling_and_copying(raw):
    gid = Gid(raw)
    assert pickle.loads(pickle.dumps(gid)) == gid == copy.deepcopy(gid)


def test_a_document_carries_a_gid_as_its_text():
    adapter = TypeAdapter(Gid)
    gid = Gid.parse("::ffff:192.0.2.1")
    assert adapter.dump_json(gid) == b'"::ffff:192.0.2.1"'
    assert adapter.validate_json(b'"::ffff:192.0.2.1"') == gid == adapter.validate_python(gid)
    assert adapter.json_schema()["type"] == "string"
    with pytest.raises(ValidationError, match="not a GID"):
        adapter.validate_json(b'"nonsense"')
