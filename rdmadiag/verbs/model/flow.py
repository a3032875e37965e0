"""Flow rules: which packets a raw packet queue pair receives.

The selectors are those of InfinibandVerbs.jl's create_flow; numbers are in the order of this
host. A rule without a selector, and every type but "normal", can take the host's own traffic.
"""

import ctypes
from collections.abc import Sequence
from ctypes import POINTER
from ipaddress import IPv4Address
from socket import htonl, htons
from typing import TYPE_CHECKING, Any, Final, Literal

from rdmadiag.verbs.abi import (
    IbvFlowAttr,
    IbvFlowSpecEth,
    IbvFlowSpecIpv4,
    IbvFlowSpecIpv4Ext,
    IbvFlowSpecTcpUdp,
)
from rdmadiag.verbs.model.lifetime import Held
from rdmadiag.verbs.model.numbers import within
from rdmadiag.verbs.objects import FlowRule

if TYPE_CHECKING:
    from rdmadiag.verbs.model.context import Context
    from rdmadiag.verbs.model.queue_pair import QP

_TYPES: Final = {"normal": 0, "all": 1, "mc": 2, "sniffer": 3}
"""enum ibv_flow_attr_type."""

_ETH, _IPV4, _IPV4_EXT, _TCP, _UDP = 0x20, 0x30, 0x32, 0x40, 0x41
"""enum ibv_flow_spec_type."""

FlowType = Literal["normal", "all", "mc", "sniffer"]
Mac = bytes | str | Sequence[int]
Address = int | str | IPv4Address


class Flow(Held[FlowRule]):
    """ibv_create_flow; closing it is ibv_destroy_flow."""

    kind = "flow rule"


class Selection:
    """struct ibv_flow_attr and its specs, in one piece of memory."""

    def __init__(self, attributes: IbvFlowAttr, specs: Sequence[Any]) -> None:
        attributes.num_of_specs = len(specs)
        attributes.size = ctypes.sizeof(IbvFlowAttr) + sum(each.size for each in specs)
        whole = b"".join(bytes(each) for each in (attributes, *specs))
        self._memory = ctypes.create_string_buffer(whole, len(whole))
        self.attributes = ctypes.cast(self._memory, POINTER(IbvFlowAttr))


def create_flow(
    target: "QP | Context",
    port_num: int | None = None,
    *,
    flow_type: FlowType = "normal",
    priority: int = 0,
    flow_flags: int = 0,
    dmac: Mac | None = None,
    smac: Mac | None = None,
    ethtype: int = 0,
    vlan: int = 0,
    sip: Address = 0,
    dip: Address = 0,
    proto: int = 0,
    tos: int = 0,
    ttl: int = 0,
    flags: int = 0,
    sport: int = 0,
    dport: int = 0,
    tcpudp: Literal["udp", "tcp"] = "udp",
) -> Flow:
    """A rule for a queue pair and its port; what is 0 or not given is not matched.

    `flow_flags` is enum ibv_flow_flags, `flags` the flags of an IPv4 header. A MAC address is
    6 bytes or "02:00:…". Raises CallFailed (EOPNOTSUPP where the provider has no flows) and
    ValueError.
    """
    qp, port = _ends(target, port_num)
    specs: list[Any] = []
    if dmac or smac or ethtype or vlan:
        specs.append(_ethernet(dmac, smac, ethtype, vlan))
    if sip or dip or proto or tos or ttl or flags:
        specs.append(_ipv4(sip, dip, (proto, tos, ttl, flags)))
    if sport or dport:
        specs.append(_ports(sport, dport, _TCP if tcpudp == "tcp" else _UDP))
    if flow_type not in _TYPES:
        raise ValueError(f"a flow rule of type {flow_type}: one of {', '.join(_TYPES)}")
    attributes = IbvFlowAttr(
        type=_TYPES[flow_type],
        priority=within(priority, 16, "priority"),
        port=within(port, 8, "port"),
        flags=flow_flags,
    )
    with qp.session.lock:
        made = FlowRule(qp.session.call, qp.made, Selection(attributes, specs))
        return Flow(qp.session, made, qp)


def destroy_flow(flow: Flow) -> None:
    """ibv_destroy_flow: as `flow.close()`."""
    flow.close()


def _ends(target: "QP | Context", port: int | None) -> "tuple[QP, int]":
    from rdmadiag.verbs.model.queue_pair import QP

    if isinstance(target, QP):
        if port is None:
            raise ValueError("a queue pair's rule needs port_num")
        return target, port
    return target.qp, target.port_num if port is None else port


def _mac(given: Mac | None) -> bytes:
    if given is None:
        return bytes(6)
    found = bytes.fromhex(given.replace(":", "")) if isinstance(given, str) else bytes(given)
    if len(found) != 6:
        raise ValueError(f"a MAC address has 6 bytes, not {len(found)}")
    return found


def _put(spec: Any, field: str, value: int, full: int) -> None:
    """A selector: the value, and a mask of ones where it is not 0."""
    setattr(spec.val, field, value)
    setattr(spec.mask, field, full if value else 0)


def _ethernet(dmac: Mac | None, smac: Mac | None, ethtype: int, vlan: int) -> IbvFlowSpecEth:
    spec = IbvFlowSpecEth(type=_ETH, size=ctypes.sizeof(IbvFlowSpecEth))
    for field, given in (("dst_mac", dmac), ("src_mac", smac)):
        getattr(spec.val, field)[:] = list(_mac(given))
        getattr(spec.mask, field)[:] = [0xFF if given is not None else 0] * 6
    _put(spec, "ether_type", htons(within(ethtype, 16, "ethtype")), 0xFFFF)
    _put(spec, "vlan_tag", htons(within(vlan, 16, "vlan")), 0xFFFF)
    return spec


def _ipv4(
    sip: Address, dip: Address, rest: tuple[int, int, int, int]
) -> IbvFlowSpecIpv4 | IbvFlowSpecIpv4Ext:
    """The longer specification only where it is needed: fewer providers have it."""
    kind = IbvFlowSpecIpv4Ext if any(rest) else IbvFlowSpecIpv4
    spec = kind(type=_IPV4_EXT if any(rest) else _IPV4, size=ctypes.sizeof(kind))
    for field, address in (("src_ip", sip), ("dst_ip", dip)):
        _put(spec, field, htonl(int(IPv4Address(address))), 0xFFFFFFFF)
    for field, number in zip(("proto", "tos", "ttl", "flags"), rest, strict=True):
        if any(rest):
            _put(spec, field, within(number, 8, field), 0xFF)
    return spec


def _ports(sport: int, dport: int, kind: int) -> IbvFlowSpecTcpUdp:
    spec = IbvFlowSpecTcpUdp(type=kind, size=ctypes.sizeof(IbvFlowSpecTcpUdp))
    _put(spec, "src_port", htons(within(sport, 16, "sport")), 0xFFFF)
    _put(spec, "dst_port", htons(within(dport, 16, "dport")), 0xFFFF)
    return spec
