"""nftables: replies of a kernel, replies built by hand, and what is asked of which host."""

import base64
import itertools
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.packet_filter import FilterChain, PacketFilter
from rdmadiag.facts.traffic_control import ANY, IN, IPV4, IPV6, OUT, TCP, UDP, TrafficFilter
from rdmadiag.host import netlink
from rdmadiag.host.live import LiveHost
from rdmadiag.host.netlink import NFT_GETCHAIN, NFT_GETRULE, attribute
from rdmadiag.host.recording import Recording
from rdmadiag.sources.packet_filter import is_there, parse_packet_filter, read_packet_filter

# Linux 6.18, of what these lines of iptables 1.8.9 (nf_tables) made:
# iptables -A INPUT -p udp --dport 4791 -j DROP
# iptables -A OUTPUT -p tcp --dport 18515:18520 -j REJECT
# iptables -A INPUT -s 192.0.2.0/24 -i eth0 -j ACCEPT; iptables -N DEEP
# iptables -A INPUT -p tcp -j DEEP; iptables -A DEEP -m conntrack --ctstate ESTABLISHED -j ACCEPT
# iptables -A DEEP -p tcp --dport 18515 -j DROP; iptables -P OUTPUT DROP
# ip6tables -A INPUT -s 2001:db8::/32 -p udp -j DROP
KERNEL_CHAINS = (
    "eNorYGBgYOZiYgCB1jQGBiCLi5uBkSEtM6cktQjIYWBm8PQLCA0ByvMwQNQBAaMIAwsDB1AdiM0BFedgYAXzuRnY"
    "4fo5gCZA1LCBaOYeAvZxA+3zDw0BW4hkHzOSfcxo9jEg2ycDFEXSB2QzwtlobmF0IOAWTqBbXFxdAxhQ/c4G80sB"
    "mn4u2oYdIwD+Px/q"
)
KERNEL_RULES = (
    "eNrNlb9PwkAUx9+1BUqpBg2DAwMDgwMDg4ODmzZBByUKCYPLpZQfkRbSnIN/gP+Nuw4Ojv4J/jMG3x1XuAhKaWjC"
    "JZd79713r+99epdrEICspZmA7bkHoAFYBSDQG46YF+IElcvrZruF6zboIJtWJAZU0S+P3fcY5WIJfU0eAaBooo6N"
    "1HDktutPoCLWZ7r0EzEzqB2gfYKjjX1Cn0Zj2sX4S/6YqC5HQ4xx4mdRO3wFqMn47vgx4MWV0cee+UtfbW7XUd/H"
    "PvR9rzukzEOtvIgPRbF3Me8k45ixMbuIael/ptmotrpS8wpGmJsuYnhsUId4XInkakuuehyuOdQ+cJ4iVwLJuOYU"
    "rpl32O5Z5ZE3qflsRc3HSs1875GcT6fT7zzaF47T5Gv3a+ovoHLTbgkASv1GlWy/5iT3k9duYQ9p0PcEt7/vaOOO"
    "28bM7mzGmOfGuTAa9j0GIjc+v3WunHNko34rojRZw1b9Dwpb8xTZfsm6fMrcAYqf6Lsvcg0CFlL3Aebf1F8We3eo"
    "cY7akprmXW4l451X7rJZ3JFzHffd4Wc6zXen8Yuptdvvd/TOmJKjESc+1ypk7y1Njj/QEaT4"
)
ROW = TrafficFilter(
    "", IN, "nft", 0, IPV4, drops=True, ends=True, in_hardware=False, understood=True
)


def of_kernel(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def test_what_iptables_wrote_is_read_from_a_kernels_replies() -> None:
    found = parse_packet_filter(of_kernel(KERNEL_CHAINS), of_kernel(KERNEL_RULES))
    assert not isinstance(found, Missing)
    rows = {f"{each.family} {each.table} {each.name}": each.rules for each in found.chains}
    accept = replace(ROW, drops=False)
    assert rows == {
        "ip filter INPUT": (
            replace(ROW, priority=2, protocol=UDP, destination_port=4791),
            replace(accept, priority=5, netdev="eth0", source="192.0.2.0/24"),
            replace(accept, priority=8, protocol=TCP, understood=False),
            replace(ROW, priority=9, protocol=TCP, destination_port=18515),
        ),
        "ip filter OUTPUT": (
            replace(
                ROW,
                direction=OUT,
                priority=4,
                protocol=TCP,
                destination_port=18515,
                destination_port_last=18520,
            ),
            replace(ROW, direction=OUT),
        ),
        "ip6 filter INPUT": (
            replace(ROW, priority=2, ether_type=IPV6, protocol=UDP, source="2001:db8::/32"),
        ),
    }


# --- built by hand: linux/netfilter/nf_tables.h -------------------------------------------------

INET, IP, ARP, NETDEV = 1, 2, 3, 5
DROP, ACCEPT, JUMP, GOTO, RETURN = 0, 1, -3, -4, -5


def be32(value: int) -> bytes:
    return struct.pack(">i", value)


def message(kind: int, family: int, *parts: bytes) -> bytes:
    return netlink.request(kind - 1, 0, struct.pack("=BBH", family, 0, 0) + b"".join(parts))


def chain(
    name: str, hook: int | None = None, *, family: int = INET, policy: int = ACCEPT, dev: str = ""
) -> bytes:
    parts = [attribute(1, b"t\0"), attribute(3, name.encode() + b"\0")]
    if hook is not None:
        place = attribute(1, be32(hook)) + attribute(2, be32(-150))
        place += attribute(3, dev.encode() + b"\0") if dev else b""
        parts += [attribute(4, place), attribute(5, be32(policy))]
    return message(NFT_GETCHAIN, family, *parts)


def expression(name: str, *data: bytes) -> bytes:
    content = attribute(1, name.encode() + b"\0") + attribute(2, b"".join(data))
    return attribute(1, content)


def rule(where: str, *expressions: bytes, handle: int = 7, family: int = INET) -> bytes:
    parts = (attribute(1, b"t\0"), attribute(2, where.encode() + b"\0"))
    number = attribute(3, struct.pack(">Q", handle))
    return message(NFT_GETRULE, family, *parts, number, attribute(4, b"".join(expressions)))


def meta(key: int) -> bytes:
    return expression("meta", attribute(1, be32(1)), attribute(2, be32(key)))


def payload(base: int, offset: int, length: int) -> bytes:
    place = (be32(1), be32(base), be32(offset), be32(length))
    return expression("payload", *(attribute(at, each) for at, each in enumerate(place, 1)))


def compare(value: bytes, operation: int = 0) -> bytes:
    data = attribute(3, attribute(1, value))
    return expression("cmp", attribute(1, be32(1)), attribute(2, be32(operation)), data)


def masked(mask: bytes, xor: bytes = b"") -> bytes:
    registers = attribute(1, be32(1)) + attribute(2, be32(1)) + attribute(3, be32(len(mask)))
    values = (attribute(at, attribute(1, each)) for at, each in ((4, mask), (5, xor)))
    return expression("bitwise", registers, *values)


def verdict(code: int, to: str = "") -> bytes:
    inner = attribute(1, be32(code)) + (attribute(2, to.encode() + b"\0") if to else b"")
    return expression("immediate", attribute(1, be32(0)), attribute(2, attribute(2, inner)))


def extension(name: str, revision: int, raw: bytes) -> bytes:
    data = (attribute(1, name.encode() + b"\0"), attribute(2, be32(revision)), attribute(3, raw))
    return expression("match", *data)


COUNTER, LIMIT = expression("counter"), expression("limit")
UDP_, TCP_ = (meta(16) + compare(b"\x11"), meta(16) + compare(b"\x06"))
ROCE = payload(2, 2, 2) + compare(b"\x12\xb7")
ESTABLISHED = expression("ct", attribute(1, be32(1)), attribute(2, be32(0)))
ESTABLISHED += masked(struct.pack("=I", 6), bytes(4)) + compare(bytes(4), 1)
NEW = expression("ct", attribute(1, be32(1)), attribute(2, be32(0)))
NEW += masked(struct.pack("=I", 8), bytes(4)) + compare(bytes(4), 1)


def rows(*rules: bytes, hook: int = 1, policy: int = ACCEPT) -> list[TrafficFilter]:
    chains = chain("in", hook, policy=policy) + chain("sub") + chain("deeper")
    found = parse_packet_filter(chains, b"".join(rules))
    assert not isinstance(found, Missing)
    (base,) = found.chains
    return [replace(each, direction=IN) for each in base.rules]


WHOLE = replace(ROW, ether_type=ANY, priority=7)
CASES = {
    "nothing": ((), []),
    "all": ((rule("in", COUNTER, verdict(DROP)),), [WHOLE]),
    "a rule that only counts": ((rule("in", COUNTER),), []),
    "UDP 4791": (
        (rule("in", UDP_, ROCE, verdict(DROP)),),
        [replace(WHOLE, protocol=UDP, destination_port=4791)],
    ),
    "a source port": (
        (rule("in", TCP_, payload(2, 0, 2), compare(b"\0\x16"), expression("reject")),),
        [replace(WHOLE, protocol=TCP, source_port=22)],
    ),
    "not this port": (
        (rule("in", payload(2, 2, 2), compare(b"\0\x16", 1), verdict(DROP)),),
        [replace(WHOLE, understood=False)],
    ),
    "a limit": ((rule("in", LIMIT, verdict(DROP)),), [replace(WHOLE, up_to_rate=True)]),
    "a limit of iptables": (
        (rule("in", extension("hashlimit", 3, bytes(64)), verdict(ACCEPT)),),
        [replace(WHOLE, drops=False, up_to_rate=True)],
    ),
    "a user": (
        (rule("in", meta(10), compare(struct.pack("=I", 1000)), verdict(ACCEPT)),),
        [replace(WHOLE, drops=False, of_owner=True)],
    ),
    "another group": (
        (rule("in", meta(11), compare(struct.pack("=I", 1000), 1), verdict(ACCEPT)),),
        [replace(WHOLE, drops=False, of_owner=True)],
    ),
    "an owner of iptables": (
        (rule("in", extension("owner", 1, bytes(16) + b"\1\0"), verdict(ACCEPT)),),
        [replace(WHOLE, drops=False, of_owner=True)],
    ),
    "not an owner of iptables": (
        (rule("in", extension("owner", 1, bytes(16) + b"\1\1"), verdict(ACCEPT)),),
        [replace(WHOLE, drops=False, understood=False)],
    ),
    "a limit in another chain": (
        (rule("in", LIMIT, verdict(JUMP, "sub")), rule("sub", ROCE, verdict(ACCEPT))),
        [replace(WHOLE, drops=False, destination_port=4791, up_to_rate=True)],
    ),
    "one family": (
        (rule("in", meta(15), compare(b"\x0a"), verdict(DROP)),),
        [replace(WHOLE, ether_type=IPV6)],
    ),
    "an ethertype": (
        (rule("in", meta(1), compare(b"\x08\0"), verdict(DROP)),),
        [replace(WHOLE, ether_type=IPV4)],
    ),
    "an address": (
        (rule("in", payload(1, 16, 4), compare(bytes((192, 0, 2, 9))), verdict(DROP)),),
        [replace(WHOLE, ether_type=IPV4, destination="192.0.2.9/32")],
    ),
    "a subnet of 20 bits": (
        (
            rule(
                *("in", payload(1, 12, 4), masked(b"\xff\xff\xf0\0", bytes(4))),
                *(compare(bytes((192, 0, 16, 0))), verdict(ACCEPT)),
            ),
        ),
        [replace(WHOLE, drops=False, ether_type=IPV4, source="192.0.16.0/20")],
    ),
    "a mask that is no subnet": (
        (
            rule(
                *("in", payload(1, 12, 4), masked(b"\xff\0\xff\0", bytes(4))),
                *(compare(bytes((192, 0, 16, 0))), verdict(DROP)),
            ),
        ),
        [replace(WHOLE, understood=False)],
    ),
    "IPv6": (
        (rule("in", payload(1, 8, 16), compare(b"\x20\1" + bytes(14)), verdict(DROP)),),
        [replace(WHOLE, ether_type=IPV6, source="2001::/128")],
    ),
    "established ones are no first packet": ((rule("in", ESTABLISHED, verdict(ACCEPT)),), []),
    "new ones": ((rule("in", NEW, verdict(DROP)),), [replace(WHOLE, understood=False)]),
    "an interface": (
        (rule("in", meta(6), compare(b"eth0".ljust(16, b"\0")), verdict(DROP)),),
        [replace(WHOLE, netdev="eth0")],
    ),
    "interfaces by a prefix": (
        (rule("in", meta(6), compare(b"eth"), verdict(DROP)),),
        [replace(WHOLE, understood=False)],
    ),
    "two protocols at once": (
        (rule("in", UDP_, TCP_, verdict(DROP)),),
        [replace(WHOLE, protocol=UDP, understood=False)],
    ),
    "another chain": (
        (rule("in", UDP_, verdict(JUMP, "sub")), rule("sub", ROCE, verdict(DROP), handle=9)),
        [replace(WHOLE, priority=9, protocol=UDP, destination_port=4791)],
    ),
    "another chain that nothing gets to": (
        (rule("in", UDP_, verdict(JUMP, "sub")), rule("sub", TCP_, verdict(DROP))),
        [],
    ),
    "what comes after a return": (
        (
            *(rule("in", verdict(JUMP, "sub")), rule("sub", ROCE, verdict(RETURN))),
            rule("sub", UDP_, verdict(DROP)),
        ),
        [replace(WHOLE, protocol=UDP, understood=False)],
    ),
    "what comes after a goto": (
        (rule("in", UDP_, verdict(GOTO, "sub")), rule("in", verdict(DROP))),
        [replace(WHOLE, understood=False)],
    ),
    "a subnet in another": (
        (
            rule(
                *("in", meta(15), compare(b"\2"), payload(1, 12, 2), compare(b"\xc0\0")),
                verdict(JUMP, "sub"),
            ),
            rule(
                *("sub", meta(15), compare(b"\2"), payload(1, 12, 3), compare(b"\xc0\0\2")),
                verdict(DROP),
            ),
        ),
        [replace(WHOLE, ether_type=IPV4, source="192.0.2.0/24", understood=False)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_rule_asks(name: str) -> None:
    rules, wanted = CASES[name]
    assert rows(*rules) == wanted


def test_the_policy_is_the_last_word() -> None:
    assert rows(rule("in", UDP_, verdict(ACCEPT)), policy=DROP) == [
        replace(WHOLE, drops=False, protocol=UDP),
        replace(WHOLE, priority=0),
    ]


@pytest.mark.parametrize(
    ("family", "hook", "direction"),
    [
        (IP, 0, IN),
        (IP, 1, IN),
        (IP, 2, None),
        (IP, 3, OUT),
        (IP, 4, OUT),
        (ARP, 0, None),
        (NETDEV, 0, IN),
        (NETDEV, 1, OUT),
    ],
)
def test_which_way_a_hook_is(family: int, hook: int, direction: str | None) -> None:
    found = parse_packet_filter(chain("in", hook, family=family, dev="eth0"), b"")
    assert not isinstance(found, Missing)
    assert [each.direction for each in found.chains] == ([direction] if direction else [])


def test_a_chain_of_one_interface_has_its_name() -> None:
    rules = rule("in", verdict(DROP), family=NETDEV)
    found = parse_packet_filter(chain("in", 0, family=NETDEV, dev="eth1"), rules)
    row = replace(WHOLE, netdev="eth1")
    assert found == PacketFilter((FilterChain("netdev", "t", "in", IN, -150, (row,)),))


def test_chains_that_jump_in_a_circle_are_malformed() -> None:
    chains = chain("in", 1) + chain("sub")
    found = parse_packet_filter(
        chains, rule("in", verdict(JUMP, "sub")) + rule("sub", verdict(JUMP, "in"))
    )
    assert found == Missing(Why.MALFORMED, "chain sub: more than 16 jumps")


def test_jumps_that_double_at_each_step_are_bounded() -> None:
    names = [f"c{at}" for at in range(15)]
    chains = chain("in", 1) + b"".join(map(chain, names))
    rules = rule("in", verdict(JUMP, "c0"))
    for one, other in itertools.pairwise(names):
        rules += 2 * rule(one, verdict(JUMP, other))
    found = parse_packet_filter(chains, rules)
    assert isinstance(found, Missing)
    assert "more than 4096 rules" in found.detail


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_give_facts_or_a_reason(chains: bytes, rules: bytes) -> None:
    assert isinstance(parse_packet_filter(chains, rules), PacketFilter | Missing)


@given(st.binary(max_size=120))
def test_any_expressions_give_facts_or_a_reason(raw: bytes) -> None:
    whole = message(
        NFT_GETRULE, INET, attribute(1, b"t\0"), attribute(2, b"in\0"), attribute(4, raw)
    )
    assert isinstance(parse_packet_filter(chain("in", 1), whole), PacketFilter | Missing)


# --- of which host it is asked ----------------------------------------------------------------


LOADED = Recording(files={"/proc/modules": b"rdma_rxe 1 0 - Live 0x0\n"})
BUILT_IN = "/lib/modules/6.1.0/modules.builtin"
Hosts = Callable[[Recording], LiveHost]


def files(**others: bytes) -> Recording:
    named = {"builtin": BUILT_IN, "disabled": "/proc/sys/kernel/modules_disabled"}
    return Recording(files={**LOADED.files, **{named[at]: each for at, each in others.items()}})


@pytest.mark.parametrize(
    ("recording", "there"),
    [
        (LOADED, Why.NOT_COLLECTED),
        (Recording(files=LOADED.files, listings={"/sys/module/nf_tables": ("refcnt",)}), True),
        (files(builtin=b"kernel/net/netfilter/nf_tables.ko\n"), True),
        (files(builtin=b"kernel/net/netfilter/nf_conntrack.ko\n"), False),
        (files(disabled=b"1\n"), True),
        (files(disabled=b"0\n"), Why.NOT_COLLECTED),
        (Recording(), True),
        (Recording(refused={"read": {"/proc/modules": Missing(Why.DENIED, "EACCES")}}), Why.DENIED),
    ],
    ids=[
        "perhaps built in, perhaps not loaded",
        "a module that is loaded",
        "built in",
        "neither built in nor loaded",
        "loading is switched off",
        "loading is not switched off",
        "a kernel without modules",
        "not to be known",
    ],
)
def test_it_is_asked_only_where_that_loads_nothing(
    recording: Recording, there: bool | Why, host_in_memory: Hosts, soon: float
) -> None:
    host = host_in_memory(recording)
    found = is_there(host)
    assert (found.why if isinstance(found, Missing) else found) == there
    read = read_packet_filter(host, soon)
    if there is False:
        assert read == PacketFilter(())
    assert any(kind == "netlink" for kind, _ in host.asked) is (there is True)


@pytest.mark.parametrize("lost", ["nft-getchain", "nft-getrule"])
def test_what_is_refused_is_missing(lost: str, host_in_memory: Hosts, soon: float) -> None:
    denied = Missing(Why.DENIED, "EPERM")
    recording = Recording(
        listings={"/sys/module/nf_tables": ()},
        netlink={"nft-getchain": chain("in", 1), "nft-getrule": b""},
    )
    found = read_packet_filter(host_in_memory(recording), soon)
    assert found == PacketFilter((FilterChain("inet", "t", "in", IN, -150, ()),))
    del recording.netlink[lost]
    recording.refuse("netlink", lost, denied)
    assert read_packet_filter(host_in_memory(recording), soon) == denied


@pytest.mark.parametrize(
    ("names", "tables"),
    [
        ({}, ()),
        ({"ip": b"nat\nfilter\n"}, ("ip filter", "ip nat")),
        ({"ip": b"filter\n", "ip6": b"raw\n"}, ("ip filter", "ip6 raw")),
        ({"ip": b""}, ()),
    ],
    ids=["no iptables", "two tables", "of both families", "none was made"],
)
def test_tables_of_iptables_legacy_are_named(
    names: dict[str, bytes], tables: tuple[str, ...], host_in_memory: Hosts, soon: float
) -> None:
    builtin = {BUILT_IN: b"kernel/net/netfilter/nf_conntrack.ko\n"}
    files = {f"/proc/self/net/{at}_tables_names": each for at, each in names.items()}
    host = host_in_memory(Recording(files=LOADED.files | builtin | files))
    assert read_packet_filter(host, soon) == PacketFilter((), tables)


def test_tables_that_may_not_be_listed_are_missing(host_in_memory: Hosts, soon: float) -> None:
    recording = Recording(files=LOADED.files | {BUILT_IN: b"kernel/x.ko\n"})
    denied = Missing(Why.DENIED, "EACCES")
    recording.refuse("read", "/proc/self/net/ip_tables_names", denied)
    assert read_packet_filter(host_in_memory(recording), soon) == PacketFilter((), denied)
