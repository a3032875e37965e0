"""Ethernet frames that a raw packet queue pair sends, and the rules that steer them to one.

Nothing of them can be the host's own: the MAC addresses are random and locally administered,
the EtherType is IEEE's for local experiments, the IPv4 addresses are of the block that RFC 5737
keeps for documentation. A rule always has the MAC address.
"""

import ctypes
import random
import struct
from ctypes import POINTER
from socket import htonl, htons
from typing import Any, Final

from rdmadiag.facts.exercise import Operation
from rdmadiag.frozen import dataclass
from rdmadiag.verbs.abi import (
    IbvFlowAttr,
    IbvFlowEthFilter,
    IbvFlowIpv4Filter,
    IbvFlowSpecEth,
    IbvFlowSpecIpv4,
    IbvFlowSpecTcpUdp,
    IbvFlowTcpUdpFilter,
)

EXPERIMENT: Final = 0x88B5  # IEEE 802, local experimental EtherType 1
IPV4: Final = 0x0800
DOCUMENTATION: Final = 0xC0000200  # 192.0.2.0/24
TCP, UDP = 6, 17
_PORTS: Final = (49152, 65535)  # RFC 6335: dynamic

ETH_SPEC, IPV4_SPEC, TCP_SPEC, UDP_SPEC = 0x20, 0x30, 0x40, 0x41
"""enum ibv_flow_spec_type."""
NORMAL: Final = 0  # enum ibv_flow_attr_type: by its specs, and no other


@dataclass(frozen=True, slots=True)
class Frame:
    """What a frame and the rule that matches it have in common."""

    target: bytes  # MAC address
    source: bytes
    addresses: tuple[int, int] | None = None  # IPv4: source and target
    protocol: int | None = None  # TCP or UDP
    ports: tuple[int, int] = (0, 0)  # source and target


_PROTOCOLS: Final = {
    Operation.FRAME_ETH: None,
    Operation.FRAME_IPV4: None,
    Operation.FRAME_TCP: TCP,
    Operation.FRAME_UDP: UDP,
}


def drawn(operation: Operation, source: random.Random) -> Frame:
    """A frame of this kind that nobody else sends."""
    macs = [bytes([source.randrange(256) & 0xFC | 0x02, *source.randbytes(5)]) for _ in range(2)]
    if operation is Operation.FRAME_ETH:
        return Frame(macs[0], macs[1])
    one, other = source.sample(range(DOCUMENTATION + 1, DOCUMENTATION + 255), 2)
    ports = source.randint(*_PORTS), source.randint(*_PORTS)
    protocol = _PROTOCOLS[operation]
    return Frame(macs[0], macs[1], (one, other), protocol, ports if protocol else (0, 0))


def content(frame: Frame, payload: bytes) -> bytes:
    """The bytes of it, without the checksum of Ethernet."""
    head = frame.target + frame.source
    if frame.addresses is None:
        return head + struct.pack(">H", EXPERIMENT) + payload
    if frame.protocol == UDP:
        payload = struct.pack(">HHHH", *frame.ports, 8 + len(payload), 0) + payload
    elif frame.protocol == TCP:
        # A segment without flags: no stack would answer it even if it got there.
        payload = struct.pack(">HHIIBBHHH", *frame.ports, 0, 0, 5 << 4, 0, 0, 0, 0) + payload
    return head + struct.pack(">H", IPV4) + _ipv4(frame, len(payload)) + payload


_NOTHING_NEXT: Final = 59  # IPPROTO_NONE


def _ipv4(frame: Frame, length: int) -> bytes:
    assert frame.addresses
    protocol = frame.protocol or _NOTHING_NEXT
    head = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + length, 0, 0, 1, protocol, 0, *frame.addresses)
    total = sum(struct.unpack(">10H", head))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return head[:10] + struct.pack(">H", total ^ 0xFFFF) + head[12:]


class Rule:
    """struct ibv_flow_attr and its specs, in one piece of memory."""

    def __init__(self, frame: Frame, port: int) -> None:
        specs: list[Any] = [_of_ethernet(frame)]
        if frame.addresses:
            specs.append(_of_ipv4(frame.addresses))
        if frame.protocol:
            specs.append(_of_ports(frame.protocol, frame.ports))
        whole = ctypes.sizeof(IbvFlowAttr) + sum(each.size for each in specs)
        attributes = IbvFlowAttr(type=NORMAL, size=whole, num_of_specs=len(specs), port=port)
        together = b"".join(bytes(each) for each in [attributes, *specs])
        self._memory = ctypes.create_string_buffer(together, len(together))
        self.attributes = ctypes.cast(self._memory, POINTER(IbvFlowAttr))


def _of_ethernet(frame: Frame) -> IbvFlowSpecEth:
    kind = EXPERIMENT if frame.addresses is None else IPV4
    value, mask = IbvFlowEthFilter(), IbvFlowEthFilter()
    value.dst_mac[:], mask.dst_mac[:] = list(frame.target), [0xFF] * 6
    value.ether_type, mask.ether_type = htons(kind), 0xFFFF
    return IbvFlowSpecEth(ETH_SPEC, ctypes.sizeof(IbvFlowSpecEth), value, mask)


def _of_ipv4(addresses: tuple[int, int]) -> IbvFlowSpecIpv4:
    value = IbvFlowIpv4Filter(*map(htonl, addresses))
    mask = IbvFlowIpv4Filter(0xFFFFFFFF, 0xFFFFFFFF)
    return IbvFlowSpecIpv4(IPV4_SPEC, ctypes.sizeof(IbvFlowSpecIpv4), value, mask)


def _of_ports(protocol: int, ports: tuple[int, int]) -> IbvFlowSpecTcpUdp:
    source, target = ports
    kind = TCP_SPEC if protocol == TCP else UDP_SPEC
    value = IbvFlowTcpUdpFilter(dst_port=htons(target), src_port=htons(source))
    mask = IbvFlowTcpUdpFilter(dst_port=0xFFFF, src_port=0xFFFF)
    return IbvFlowSpecTcpUdp(kind, ctypes.sizeof(IbvFlowSpecTcpUdp), value, mask)
