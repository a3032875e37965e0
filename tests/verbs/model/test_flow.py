"""Flow rules: the bytes that ibv_create_flow reads."""

import struct
from ctypes import addressof, sizeof, string_at
from ipaddress import IPv4Address
from typing import Any

import pytest

from rdmadiag.verbs.model import flow
from rdmadiag.verbs.model.queue_pair import QP

MAC, OTHER = bytes.fromhex("020000000001"), "02:00:00:00:00:02"


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`rule(…)`: what create_flow would hand to the library, as bytes."""

    class Lock:
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    class Pair:
        session = type("Session", (), {"lock": Lock(), "call": None})
        made = None

    seen: list[bytes] = []

    def made(call: object, qp: object, selection: flow.Selection) -> None:
        attributes = selection.attributes.contents
        seen.append(string_at(addressof(attributes), attributes.size))

    monkeypatch.setattr(flow, "FlowRule", made)
    monkeypatch.setattr(flow, "Flow", lambda *_: None)
    monkeypatch.setattr(flow, "_ends", lambda target, port: (Pair, port))

    def taken(port: int = 1, **named: Any) -> bytes:
        flow.create_flow(Pair, port, **named)  # type: ignore[arg-type]
        return seen.pop()

    return taken


def head(whole: bytes) -> dict[str, int]:
    """struct ibv_flow_attr, by its layout in infiniband/verbs.h."""
    names = ("comp_mask", "type", "size", "priority", "num_of_specs", "port", "flags")
    return dict(zip(names, struct.unpack_from("=IiHHBBxxI", whole), strict=True))


def specs(whole: bytes) -> list[tuple[int, bytes]]:
    """(type, the rest) of each."""
    found, at = [], 20
    while at < len(whole):
        kind, size = struct.unpack_from("=iH", whole, at)
        found.append((kind, whole[at + 6 : at + size]))
        at += size
    return found


def test_nothing_given_is_a_rule_without_a_selector(rule: Any) -> None:
    assert head(rule(7)) == {
        "comp_mask": 0,
        "type": 0,
        "size": 20,
        "priority": 0,
        "num_of_specs": 0,
        "port": 7,
        "flags": 0,
    }


@pytest.mark.parametrize(("word", "number"), [("normal", 0), ("all", 1), ("mc", 2), ("sniffer", 3)])
def test_type_priority_and_flags(word: str, number: int, rule: Any) -> None:
    found = head(rule(flow_type=word, priority=5, flow_flags=2))
    assert (found["type"], found["priority"], found["flags"]) == (number, 5, 2)


def test_ethernet(rule: Any) -> None:
    whole = rule(dmac=MAC, smac=OTHER, ethtype=0x88B5, vlan=5)
    ((kind, rest),) = specs(whole)
    assert kind == 0x20
    value = MAC + bytes.fromhex("020000000002") + b"\x88\xb5\x00\x05"
    assert rest[: 2 * len(value)] == value + b"\xff" * 16


def test_what_is_not_given_is_not_matched(rule: Any) -> None:
    ((_, rest),) = specs(rule(ethtype=0x0800))
    assert rest[:32] == bytes(12) + b"\x08\x00\x00\x00" + bytes(12) + b"\xff\xff\x00\x00"


@pytest.mark.parametrize("address", [0xC0000201, "192.0.2.1", IPv4Address("192.0.2.1")])
def test_ipv4_addresses(address: Any, rule: Any) -> None:
    ((kind, rest),) = specs(rule(sip=address))
    assert kind == 0x30
    assert rest[-16:] == bytes([192, 0, 2, 1]) + bytes(4) + b"\xff" * 4 + bytes(4)


def test_the_rest_of_ipv4_is_in_the_longer_specification(rule: Any) -> None:
    ((kind, rest),) = specs(rule(dip="192.0.2.9", proto=17, ttl=3, flags=2))
    assert kind == 0x32
    value = bytes(4) + bytes([192, 0, 2, 9]) + bytes([17, 0, 3, 2])
    assert rest[-24:] == value + bytes(4) + b"\xff" * 4 + b"\xff\x00\xff\xff"


@pytest.mark.parametrize(("word", "number"), [("tcp", 0x40), ("udp", 0x41)])
def test_ports(word: str, number: int, rule: Any) -> None:
    ((kind, rest),) = specs(rule(dport=4791, tcpudp=word))
    assert (kind, rest[:8]) == (number, b"\x12\xb7\x00\x00\xff\xff\x00\x00")


def test_layers_follow_each_other_and_the_size_is_of_all(rule: Any) -> None:
    whole = rule(dmac=MAC, sip="192.0.2.1", sport=1)
    assert [kind for kind, _ in specs(whole)] == [0x20, 0x30, 0x41]
    assert (head(whole)["num_of_specs"], head(whole)["size"]) == (3, len(whole))


@pytest.mark.parametrize(
    "named",
    [
        {"dmac": b"short"},
        {"ethtype": 0x10000},
        {"dport": -1},
        {"proto": 256},
        {"sip": "192.0.2"},
        {"priority": 65536},
        {"flow_type": "everything"},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(named: Any, rule: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        rule(**named)


def test_a_queue_pair_needs_its_port() -> None:
    with pytest.raises(ValueError, match="needs port_num"):
        flow.create_flow(object.__new__(QP))


def test_the_head_is_as_long_as_the_structure() -> None:
    assert sizeof(flow.IbvFlowAttr) == 20
