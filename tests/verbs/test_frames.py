"""Frames and their rules: nothing of them can be the host's own traffic."""

import ctypes
import ipaddress
import random
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts.exercise import Operation
from rdmadiag.verbs import frames
from rdmadiag.verbs.abi import IbvFlowAttr, IbvFlowSpecEth, IbvFlowSpecIpv4, IbvFlowSpecTcpUdp
from rdmadiag.verbs.frames import Frame, Rule, content, drawn

KINDS = [
    Operation.FRAME_ETH,
    Operation.FRAME_IPV4,
    Operation.FRAME_TCP,
    Operation.FRAME_UDP,
]
DOCUMENTATION = ipaddress.IPv4Network("192.0.2.0/24")  # RFC 5737


def specs(frame: Frame) -> tuple[IbvFlowAttr, list[ctypes.Structure]]:
    """What stands behind struct ibv_flow_attr, read as the library does: by type and size."""
    rule = Rule(frame, 1)
    attributes = rule.attributes.contents
    whole = ctypes.string_at(rule.attributes, attributes.size)
    at, found = ctypes.sizeof(IbvFlowAttr), []
    classes = {
        0x20: IbvFlowSpecEth,
        0x30: IbvFlowSpecIpv4,
        0x40: IbvFlowSpecTcpUdp,
        0x41: IbvFlowSpecTcpUdp,
    }
    for _ in range(attributes.num_of_specs):
        kind, size = struct.unpack_from("=iH", whole, at)
        assert size == ctypes.sizeof(classes[kind])
        found.append(classes[kind].from_buffer_copy(whole, at))
        at += size
    assert at == attributes.size
    return attributes, found


@given(st.sampled_from(KINDS), st.randoms(use_true_random=False))
def test_no_address_of_a_frame_can_be_somebodys(kind: Operation, source: random.Random) -> None:
    frame = drawn(kind, source)
    for mac in (frame.target, frame.source):
        assert len(mac) == 6
        assert mac[0] & 2  # locally administered, IEEE 802
        assert not mac[0] & 1  # of one station
    for address in frame.addresses or ():
        assert ipaddress.IPv4Address(address) in DOCUMENTATION
        assert ipaddress.IPv4Address(address) not in (DOCUMENTATION[0], DOCUMENTATION[-1])
    assert (frame.protocol is None) == (frame.ports == (0, 0))
    assert all(not port or port >= 49152 for port in frame.ports)  # RFC 6335: dynamic


@given(st.sampled_from(KINDS), st.randoms(use_true_random=False))
def test_a_rule_is_of_one_mac_address_and_never_of_all_traffic(
    kind: Operation, source: random.Random
) -> None:
    frame = drawn(kind, source)
    attributes, found = specs(frame)
    assert attributes.type == 0  # IBV_FLOW_ATTR_NORMAL: no default, no sniffer
    assert (attributes.flags, attributes.comp_mask, attributes.port) == (0, 0, 1)
    ethernet = found[0]
    assert isinstance(ethernet, IbvFlowSpecEth)
    assert bytes(ethernet.val.dst_mac) == frame.target
    assert bytes(ethernet.mask.dst_mac) == b"\xff" * 6
    assert ethernet.mask.ether_type == 0xFFFF
    wanted = 0x88B5 if kind is Operation.FRAME_ETH else 0x0800
    assert socket.ntohs(ethernet.val.ether_type) == wanted
    assert (
        len(found)
        == {
            Operation.FRAME_ETH: 1,
            Operation.FRAME_IPV4: 2,
            Operation.FRAME_TCP: 3,
            Operation.FRAME_UDP: 3,
        }[kind]
    )


@pytest.mark.parametrize(
    ("protocol", "spec"), [(frames.TCP, 0x40), (frames.UDP, 0x41)], ids=["TCP", "UDP"]
)
def test_addresses_and_ports_of_a_rule_are_those_of_its_frame(protocol: int, spec: int) -> None:
    one, other = 0xC0000207, 0xC0000263  # 192.0.2.7, 192.0.2.99
    frame = Frame(b"\x02local", b"\x02other", (one, other), protocol, (50000, 60000))
    _, (_, addresses, ports) = specs(frame)
    assert isinstance(addresses, IbvFlowSpecIpv4)
    assert isinstance(ports, IbvFlowSpecTcpUdp)
    assert (socket.ntohl(addresses.val.src_ip), socket.ntohl(addresses.val.dst_ip)) == (one, other)
    assert (addresses.mask.src_ip, addresses.mask.dst_ip) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert ports.type == spec
    assert (socket.ntohs(ports.val.src_port), socket.ntohs(ports.val.dst_port)) == (50000, 60000)
    assert (ports.mask.src_port, ports.mask.dst_port) == (0xFFFF, 0xFFFF)


def test_an_experimental_frame_is_its_payload_behind_14_bytes() -> None:
    frame = Frame(b"\x02local", b"\x02other")
    assert content(frame, b"payload") == b"\x02local\x02other\x88\xb5payload"


@pytest.mark.parametrize(
    ("protocol", "head"), [(None, 0), (frames.TCP, 20), (frames.UDP, 8)], ids=["IPv4", "TCP", "UDP"]
)
def test_an_ipv4_packet_has_a_checksum_its_length_and_one_hop(
    protocol: int | None, head: int
) -> None:
    one, other = 0xC0000207, 0xC0000263
    frame = Frame(b"\x02local", b"\x02other", (one, other), protocol, (50000, 60000))
    found = content(frame, b"x" * 100)
    assert found[12:14] == b"\x08\x00"
    packet = found[14:]
    words = sum(struct.unpack(">10H", packet[:20]))
    assert (words & 0xFFFF) + (words >> 16) == 0xFFFF  # RFC 1071
    assert packet[0] == 0x45
    assert struct.unpack_from(">H", packet, 2) == (20 + head + 100,)
    assert packet[8] == 1  # no router passes it on
    assert packet[9] == (protocol or 59)  # 59: nothing next, IANA protocol numbers
    assert packet[12:20] == bytes.fromhex("c0000207c0000263")
    assert packet[20 + head :] == b"x" * 100
    if protocol:
        assert struct.unpack_from(">HH", packet, 20) == (50000, 60000)
    if protocol == frames.UDP:
        assert struct.unpack_from(">H", packet, 24) == (108,)
    if protocol == frames.TCP:
        assert packet[33] == 0  # no flag: neither opens nor ends anything
