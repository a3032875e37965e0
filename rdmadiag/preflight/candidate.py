"""Which port an attempt would use, the reasons against it, and what its peer must know of it."""

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final

from rdmadiag.facts import Missing, or_else
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GID_BYTES, DataOp, LinkLayer, PortState, QpType
from rdmadiag.frozen import dataclass
from rdmadiag.gid.route import Route
from rdmadiag.preflight.safety import (
    Reason,
    assess,
)
from rdmadiag.verbs.protocol import End
from rdmadiag.view.reconcile import PortView, Protocol, devices
from rdmadiag.view.select import Selector, select

LEAST_MTU: Final = 1024
"""Bytes; used where the library does not give the port's: every RDMA netdev has it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user wants of an attempt."""

    payload_bytes: int
    iterations: int
    gid_index: int | None = None
    qp_type: QpType | None = None  # None: UC on Thunderbolt, RC elsewhere
    mtu: int | None = None
    pkey_index: int = 0
    accepted: frozenset[Reason] = frozenset()
    op: DataOp = DataOp.SEND
    bandwidth_seconds: float = 0.0
    by_cm: bool = False  # the connection manager connects
    group: str | None = None  # the IP address of a multicast group, which UD joins by it


@dataclass(frozen=True, slots=True)
class Candidate:
    """One port, as an end of the path."""

    end: End
    protocol: Protocol
    reasons: tuple[Reason, ...]  # against it
    blocking: tuple[Reason, ...]  # of these, the ones that nobody accepted
    route_reason: str
    pkey_index: int  # of the partition key that its queue pair uses
    pkey: int | Missing  # what stands there; InfiniBand alone
    link_gbps: float | None = None  # by the port's rate; None: not known
    addresses: tuple[str, ...] = ()  # IP, of its netdevs: the best for rdma_cm first


def candidates(
    evidence: Evidence,
    wanted: Wanted,
    selectors: Sequence[Selector] = (),
    *,
    near: str | None = None,
    against: Iterable[Reason] = (),
) -> tuple[Candidate, ...]:
    """The selected ports, the best first: permitted, then one that has the address `near`.

    `against` holds for Thunderbolt ports. Raises NoSuchDevice as `select` does.
    """
    chosen = select(devices(evidence, wanted.gid_index, wanted.pkey_index), selectors)
    safety = assess(chosen, evidence, by_cm=wanted.by_cm)
    ports = [port for port, _ in safety.ports]
    every = [
        _candidate(port, evidence, wanted, reasons, tuple(against))
        for port, reasons in safety.ports
    ]
    order = {id(each): at for at, each in enumerate(every)}
    is_near = {
        id(each): near is not None and (_has(port, near) or near in each.addresses)
        for each, port in zip(every, ports, strict=True)
    }
    return tuple(
        sorted(
            every,
            key=lambda each: (
                bool(each.blocking),
                not is_near[id(each)],
                len(each.blocking),
                order[id(each)],
            ),
        )
    )


def _candidate(
    port: PortView,
    evidence: Evidence,
    wanted: Wanted,
    reasons: Iterable[Reason],
    on_thunderbolt: Sequence[Reason],
) -> Candidate:
    found = list(reasons)
    routed = isinstance(port.route, Route)
    if port.protocol is Protocol.INFINIBAND and wanted.gid_index is not None and not routed:
        found.append(Reason.NO_ROUTE_GID)  # InfiniBand needs none, unless one is asked for
    if port.protocol is Protocol.THUNDERBOLT:
        found += on_thunderbolt
    addresses = _addresses(port, evidence)
    if wanted.by_cm and not addresses and not isinstance(evidence.netdev, Missing):
        found.append(Reason.NO_IP_ADDRESS)
    every = tuple(dict.fromkeys(found))
    return Candidate(
        end=_end(port, evidence, wanted),
        protocol=port.protocol,
        reasons=every,
        blocking=tuple(each for each in every if each not in wanted.accepted),
        route_reason=port.route.reason,
        pkey_index=port.pkey_index,
        pkey=port.pkey,
        link_gbps=None if isinstance(port.rate_gbps, Missing) else port.rate_gbps,
        addresses=addresses,
    )


def _addresses(port: PortView, evidence: Evidence) -> tuple[str, ...]:
    """IP addresses that lead to this port: the route GID's, then IPv4, global, link-local."""
    if isinstance(evidence.netdev, Missing):
        return ()
    names = set(port.netdevs_here)
    if isinstance(port.netdev, str):
        names.add(port.netdev)
    if port.protocol is Protocol.INFINIBAND:
        # IPoIB, RFC 4391, 9.1.1: the last 16 of its 20 bytes are the port's GID.
        gids = {entry.gid.raw.hex(":") for entry in port.entries}
        names |= {each.name for each in evidence.netdev.netdevs if str(each.mac)[-47:] in gids}
    route = port.route.gid if isinstance(port.route, Route) else None
    found: dict[str, tuple[bool, bool, bool]] = {}
    for name in sorted(names):
        netdev = evidence.netdev.netdev(name)
        for each in netdev.addresses if netdev else ():
            address = ipaddress.ip_address(each.address)
            own = route is not None and each.address == (route.ipv4 or str(route))
            scoped = address.is_link_local and address.version == 6
            text = f"{each.address}%{name}" if scoped else each.address
            found[text] = (not own, address.is_link_local, address.version != 4)
    return tuple(sorted(found, key=found.__getitem__))


def _end(port: PortView, evidence: Evidence, wanted: Wanted) -> End:
    thunderbolt = port.protocol is Protocol.THUNDERBOLT
    active = port.verbs.active_mtu if port.verbs else None
    active_mtu = active if isinstance(active, int) else None
    entry = port.route_entry
    index, gid = _address(port, wanted)
    kind = None if entry is None or isinstance(entry.type, Missing) else entry.type
    return End(
        device=port.device,
        port=port.number,
        link_layer=or_else(port.link_layer, LinkLayer.UNSPECIFIED),
        state=or_else(port.state, PortState.NOP),
        active_mtu=active_mtu,
        mtu=wanted.mtu or active_mtu or LEAST_MTU,
        gid_index=index,
        gid=gid,
        gid_type=kind if index is not None else None,
        prefix_length=_prefix_length(port, gid, evidence),
        lid=or_else(port.lid, 0),
        qp_type=wanted.qp_type or (QpType.UC if thunderbolt else QpType.RC),
        payload_bytes=wanted.payload_bytes,
        iterations=wanted.iterations,
        permitted=True,
        op=wanted.op,
        bandwidth_seconds=wanted.bandwidth_seconds,
    )


def _address(port: PortView, wanted: Wanted) -> tuple[int | None, Gid | None]:
    """The GID that the address vector uses; InfiniBand has none unless one is asked for."""
    if port.protocol is Protocol.INFINIBAND and wanted.gid_index is None:
        return None, None
    if isinstance(port.route, Route):
        return port.route.index, port.route.gid
    if wanted.gid_index is not None:
        return wanted.gid_index, Gid(bytes(GID_BYTES))
    return None, None


def _prefix_length(port: PortView, gid: Gid | None, evidence: Evidence) -> int | None:
    entry = port.route_entry
    if gid is None or entry is None or isinstance(entry.netdev, Missing):
        return None
    if isinstance(evidence.netdev, Missing):
        return None
    netdev = evidence.netdev.netdev(entry.netdev)
    text = gid.ipv4 or str(gid)
    for address in netdev.addresses if netdev else ():
        if address.address == text:
            return address.prefix_length
    return None


def _has(port: PortView, address: str) -> bool:
    try:
        wanted = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    bare = f"::ffff:{wanted}" if wanted.version == 4 else str(wanted)
    return any(entry.gid == Gid.parse(bare) for entry in port.entries)


def are_one_thunderbolt_port(chosen: Sequence[Candidate]) -> bool:
    """RTR takes the other end of its cable as its destination: no port is a peer of its own."""
    names = {(each.end.device, each.end.port) for each in chosen}
    return len(names) == 1 and chosen[0].protocol is Protocol.THUNDERBOLT
