"""How much an RDMA port has sent and received, of all that use it: two counters, no more.

mlx5_0/ports/1/counters/port_xmit_data      octets divided by 4 (IB spec, PortXmitData)
efa_0/ports/1/hw_counters/tx_bytes          octets
rxe0/ports/1/hw_counters/sent_pkts          packets, of which no size is counted
"""

from typing import Final, NamedTuple

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ib import roce_mtu
from rdmadiag.facts.job import PortTraffic, TrafficUnit
from rdmadiag.host import Host
from rdmadiag.sources.counters import parse_count
from rdmadiag.sources.sysfs import CLASS, NET_CLASS
from rdmadiag.sources.text import attribute, parse_number, parse_text


class _Pair(NamedTuple):
    sent: str
    received: str
    unit: TrafficUnit
    factor: int = 1


_PAIRS: Final = (
    _Pair("counters/port_xmit_data", "counters/port_rcv_data", TrafficUnit.BYTES, 4),
    _Pair("hw_counters/tx_bytes", "hw_counters/rx_bytes", TrafficUnit.BYTES),  # efa, bnxt_re
    _Pair("hw_counters/sent_pkts", "hw_counters/rcvd_pkts", TrafficUnit.PACKETS),  # rxe
)
_NONE: Final = Missing(Why.UNSUPPORTED, "the driver counts neither bytes nor packets")


def read_port_traffic(host: Host, device: str, port: int) -> PortTraffic:
    """One port's; a refusal is not tried by another counter."""
    folder = f"{CLASS}/{device}/ports/{port}"
    for pair in _PAIRS:
        sent = attribute(host, f"{folder}/{pair.sent}", parse_count)
        if isinstance(sent, Missing) and sent.why in (Why.ABSENT, Why.UNSUPPORTED):
            continue
        received = attribute(host, f"{folder}/{pair.received}", parse_count)
        size = _packet_bytes(host, device) if pair.unit is TrafficUnit.PACKETS else None
        return PortTraffic(
            device,
            port,
            pair.unit,
            sent if isinstance(sent, Missing) else sent * pair.factor,
            received if isinstance(received, Missing) else received * pair.factor,
            pair.sent,
            size,
        )
    return PortTraffic(device, port, TrafficUnit.BYTES, _NONE, _NONE, "")


def _packet_bytes(host: Host, device: str) -> int | Missing:
    """The RoCE MTU that fits the netdev below a software device."""
    parent = attribute(host, f"{CLASS}/{device}/parent", parse_text)
    if isinstance(parent, Missing):
        return parent
    if "/" in parent:
        return Missing(Why.MALFORMED, f"{CLASS}/{device}/parent: {parent!r} is no netdev")
    mtu = attribute(host, f"{NET_CLASS}/{parent}/mtu", parse_number)
    if isinstance(mtu, Missing):
        return mtu
    return roce_mtu(mtu) or Missing(Why.ABSENT, f"no RoCE MTU fits in {mtu} bytes")
