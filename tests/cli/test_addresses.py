"""ADDRESS[:PORT] as people type it."""

import socket

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rdmadiag.cli.addresses import host_and_port, is_unspecified, source_towards
from rdmadiag.cli.exits import Refused


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("192.0.2.1", "192.0.2.1", 18519),
        ("192.0.2.1:4711", "192.0.2.1", 4711),
        ("2001:db8::1", "2001:db8::1", 18519),
        ("[2001:db8::1]", "2001:db8::1", 18519),
        ("[2001:db8::1]:4711", "2001:db8::1", 4711),
        ("fe80::1%en5", "fe80::1%en5", 18519),
        ("[fe80::1%en5]:4711", "fe80::1%en5", 4711),
        ("::1", "::1", 18519),
        ("mac-mini.local", "mac-mini.local", 18519),
        ("mac-mini.local:1", "mac-mini.local", 1),
        ("node7:65535", "node7", 65535),
    ],
)
def test_an_address_and_a_port(text: str, host: str, port: int) -> None:
    assert host_and_port(text, 18519) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":4711",
        "[]",
        "[]:4711",
        "node7:0",
        "node7:65536",
        "node7:-1",
        "node7:x",
        "node7:\u00b2",
        "node7:" + "1" * 5000,
        "[::1]4711",
        "[::1]x",
        "[::1]:x",
        "[::1",
        "[::1]:4711:1",
    ],
    ids=lambda text: text[:16] or "nothing",
)
def test_what_is_no_address_and_no_port_is_refused_by_name(text: str) -> None:
    with pytest.raises(Refused, match=" is not "):
        host_and_port(text, 18519)


@given(st.text(max_size=20) | st.text("[]:%.0123456789abcdef", max_size=20))
@example("[")
def test_any_text_is_a_place_or_refused(text: str) -> None:
    try:
        host, port = host_and_port(text, 18519)
    except Refused:
        return
    assert host
    assert host in text
    assert 0 < port < 1 << 16


@given(st.ip_addresses(), st.integers(1, 65535))
def test_every_address_survives_being_written_as_a_place(address: object, port: int) -> None:
    text = f"[{address}]" if ":" in str(address) else str(address)
    assert host_and_port(f"{text}:{port}", 18519) == (str(address), port)


# --- the address of this host ------------------------------------------------------------


def test_the_address_towards_this_host_is_its_own() -> None:
    assert source_towards("127.0.0.1") == "127.0.0.1"


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
def test_the_address_towards_a_peer_of_ipv6() -> None:
    assert source_towards("::1") in ("::1", None)


@pytest.mark.parametrize("host", ["node7", "", "300.1.1.1", "255.255.255.255", "x\0"])
def test_of_a_name_or_an_unreachable_place_none_is_known(host: str) -> None:
    assert source_towards(host) is None


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("0.0.0.0", True),
        ("::", True),
        ("0:0:0:0:0:0:0:0", True),
        ("127.0.0.1", False),
        ("::1", False),
        ("node7", False),
        ("", False),
    ],
)
def test_which_address_stands_for_all(host: str, expected: bool) -> None:
    assert is_unspecified(host) is expected
