"""Names in a host's own files: hosts(5), nsswitch.conf(5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.naming import NamedAddress, NamingFacts
from rdmadiag.sources.naming import (
    MOST,
    parse_hosts,
    parse_search,
    parse_servers,
    parse_services,
    read_naming,
)

HOSTS = """\
127.0.0.1 localhost
::1       localhost ip6-localhost   # as Debian has it
192.0.2.2 node2.example\tnode2

fe80::2%eth0 near
2001:DB8:0::3 node3
not-an-address node4
192.0.2.4
"""
NAMES = {
    "/proc/sys/kernel/hostname": "node1\n",
    "/etc/hosts": HOSTS,
    "/etc/nsswitch.conf": "passwd: files\nhosts:  files mdns4 [NOTFOUND=return] dns # all\n",
    "/etc/resolv.conf": "nameserver 192.0.2.53\nsearch example lan\n",
}


def test_a_row_is_an_address_and_its_names() -> None:
    assert parse_hosts(HOSTS.encode()) == (
        NamedAddress("127.0.0.1", ("localhost",)),
        NamedAddress("::1", ("localhost", "ip6-localhost")),
        NamedAddress("192.0.2.2", ("node2.example", "node2")),
        NamedAddress("fe80::2", ("near",)),
        NamedAddress("2001:db8::3", ("node3",)),
    )


def test_a_file_of_too_many_rows_is_not_read() -> None:
    found = parse_hosts(b"192.0.2.2 node2\n" * (MOST + 1))
    assert isinstance(found, Missing)
    assert found.why is Why.UNSUPPORTED


@pytest.mark.parametrize(
    ("text", "services"),
    [
        ("hosts: files dns", ("files", "dns")),
        ("hosts:dns", ("dns",)),
        ("hosts:\n", ()),
        ("# hosts: files\n\thosts: myhostname files", ("myhostname", "files")),
    ],
)
def test_services_are_in_the_order_of_the_row(text: str, services: tuple[str, ...]) -> None:
    assert parse_services(text.encode()) == services


@pytest.mark.parametrize(("text", "why"), [("", Why.ABSENT), ("hosts: a-b/c", Why.MALFORMED)])
def test_without_a_row_there_are_no_services(text: str, why: Why) -> None:
    found = parse_services(text.encode())
    assert isinstance(found, Missing)
    assert found.why is why


def test_a_host_has_its_name_its_file_and_who_is_asked() -> None:
    found = read_naming(roce_host().change(files=NAMES).host())
    assert (found.hostname, found.services) == ("node1", ("files", "mdns4", "dns"))
    assert (found.servers, found.search) == (("192.0.2.53",), ("example", "lan"))
    assert found.addresses_of("NODE2.") == ("192.0.2.2",)
    assert found.addresses_of("node9") == ()


@pytest.mark.parametrize(
    ("services", "addresses"),
    [
        (("files", "dns"), ("192.0.2.2",)),
        (("myhostname", "files"), ("192.0.2.2",)),
        (("dns", "files"), ()),  # DNS may know another one
        (("dns",), ()),
        (Missing(Why.ABSENT), ()),
    ],
)
def test_an_address_of_the_file_counts_where_nobody_is_asked_before(
    services: tuple[str, ...] | Missing, addresses: tuple[str, ...]
) -> None:
    facts = NamingFacts("node1", parse_hosts(HOSTS.encode()), services)
    assert facts.addresses_of("node2") == addresses


@pytest.mark.parametrize(
    ("text", "servers", "search"),
    [
        (
            "# by hand\nnameserver 192.0.2.53\nnameserver\t2001:DB8::53\n",
            *(("192.0.2.53", "2001:db8::53"), ()),
        ),
        ("search example lan\ndomain other\n", (), ("other",)),
        ("nameserver here\n;nameserver 192.0.2.1\noptions timeout:2\n", (), ()),
        ("nameserver 192.0.2.1\n" * 4, ("192.0.2.1",) * 3, ()),
    ],
    ids=["two servers", "the last row of search", "no server", "more than glibc asks"],
)
def test_who_is_asked_for_a_name_that_no_file_has(
    text: str, servers: tuple[str, ...], search: tuple[str, ...]
) -> None:
    assert (parse_servers(text.encode()), parse_search(text.encode())) == (servers, search)


@pytest.mark.parametrize(
    ("services", "name", "asks"),
    [
        (("files", "dns"), "node9", True),
        (("files", "dns"), "node2", False),
        (("dns",), "node2", False),  # that the file has it, and is not asked, is another matter
        (("files", "myhostname"), "node9", False),
        (Missing(Why.ABSENT), "node9", False),
    ],
)
def test_others_are_asked_for_what_the_file_has_not(
    services: tuple[str, ...] | Missing, name: str, asks: bool
) -> None:
    facts = NamingFacts("node1", parse_hosts(HOSTS.encode()), services)
    assert facts.asks_others_for(name) is asks


def test_a_record_from_before_has_none_of_it() -> None:
    found = read_naming(roce_host().host())
    parts = (found.hostname, found.hosts, found.services)
    assert [isinstance(each, Missing) for each in parts] == [True] * 3
    assert found.addresses_of("node2") == ()


@given(st.binary(max_size=300))
def test_any_bytes_are_rows_or_missing(raw: bytes) -> None:
    assert isinstance(parse_hosts(raw), tuple | Missing)
    assert isinstance(parse_services(raw), tuple | Missing)
    assert isinstance(parse_servers(raw), tuple)
    assert isinstance(parse_search(raw), tuple)
