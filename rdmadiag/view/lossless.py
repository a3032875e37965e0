"""From the traffic class that a stack sends with to whether a NIC keeps its packets from loss.

class → DSCP → priority (APP table, by what the NIC trusts) → PFC of that priority → buffer, and
the switch's PFC where it sent it by DCBX.
DSCP counts on RoCE v2 alone. Where a NIC trusts PCP, the service level of the address vector is
the priority (mlx5_set_path: eth_prio), but where the APP table names RoCE's own.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.dcb import (
    App,
    AppSelector,
    DcbFacts,
    Dcbx,
    Ieee,
    NetdevDcb,
    Transmission,
    Trust,
)
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import ROCE_V2_PORT
from rdmadiag.frozen import dataclass
from rdmadiag.gid.traffic_class import SENDERS, Sender, Sent, service_level, traffic_class
from rdmadiag.view.bonds import netdevs_below
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol

_ROCE_V1_ETHERTYPE: Final = 0x8915
_GLOBAL: Final = "Global tclass="


class Cell(StrEnum):
    """A link of the chain: the one that breaks it, or that is not known."""

    CLASS = "class"
    TRUST = "trust"
    PRIORITY = "priority"
    PFC = "pfc"
    BUFFER = "buffer"
    SWITCH = "switch"  # it says by DCBX that its port has no PFC for the priority


@dataclass(frozen=True, slots=True)
class Chain:
    """One stack on one netdev."""

    stack: str
    traffic_class: int | Missing
    class_from: str  # "NCCL_IB_TC=106", "its default", "Global tclass=96 of the driver"
    class_is_set: bool  # by a variable, the driver, or default_roce_tos
    class_by_driver: bool
    dscp: int | None  # None: RoCE v1, or the class is not known
    priority: int | Missing
    priority_from: str
    pfc: bool | Missing
    class_of_port: int | Missing  # the traffic class of ETS
    bandwidth_percent: int | Missing
    buffer: int | Missing
    buffer_bytes: int | Missing
    shares_buffer: bool | None  # with a priority without PFC; None: buffers are not known
    lossless: bool | None  # None: not known
    cell: Cell | None  # the first one that breaks it, or that is not known


@dataclass(frozen=True, slots=True)
class LosslessPort(WithNumbers):
    """A RoCE port over one netdev: what the NIC does, and the chain of each stack."""

    device: str
    port: int
    netdev: str | Missing
    roce_v2: bool
    trust: Trust | Missing
    trust_from: str
    pfc: tuple[int, ...] | Missing  # priorities that have it
    dcbx: tuple[Dcbx, ...] | Missing
    peer_pfc: tuple[int, ...] | Missing  # as the switch says by DCBX
    transmission: tuple[Transmission | Missing, ...] | Missing
    chains: tuple[Chain, ...]

    @property
    def name(self) -> str:
        """DEVICE/PORT."""
        return f"{self.device}/{self.port}"


def lossless_ports(
    devices: Sequence[DeviceView],
    evidence: Evidence,
    environment: Mapping[str, str] | Missing,
    stacks: Collection[str] | None = None,
) -> tuple[LosslessPort, ...]:
    """Each active RoCE port, once for every netdev below it; `stacks` by name, all without."""
    senders = [each for each in SENDERS if stacks is None or each.stack in stacks]
    return tuple(
        _port(port, name, _of(name, evidence.dcb), senders, evidence, environment)
        for device in devices
        for port in device.ports
        if port.protocol is Protocol.ROCE and port.is_active
        for name in netdevs_below(device, port, evidence)
    )


def _of(netdev: str | Missing, dcb: DcbFacts | Missing) -> NetdevDcb | Missing:
    if isinstance(netdev, Missing):
        return netdev
    if isinstance(dcb, Missing):
        return dcb
    return dcb.netdev(netdev) or Missing(Why.ABSENT, f"{netdev} is not in this network namespace")


def _port(
    port: PortView,
    netdev: str | Missing,
    dcb: NetdevDcb | Missing,
    senders: Sequence[Sender],
    evidence: Evidence,
    environment: Mapping[str, str] | Missing,
) -> LosslessPort:
    ieee = dcb if isinstance(dcb, Missing) else dcb.ieee
    v2 = port.route_entry is None or port.route_entry.is_v2
    trust, trust_from = _trust(dcb)
    made = _Nic(ieee, trust, v2=v2)
    pfc = made.pfc
    peer = ieee if isinstance(ieee, Missing) else ieee.peer_pfc
    ets = ieee if isinstance(ieee, Missing) else ieee.ets
    return LosslessPort(
        device=port.device,
        port=port.number,
        netdev=netdev,
        roce_v2=v2,
        trust=trust,
        trust_from=trust_from,
        pfc=pfc,
        dcbx=ieee if isinstance(ieee, Missing) else ieee.dcbx,
        peer_pfc=peer if isinstance(peer, Missing) else peer.enabled,
        transmission=ets if isinstance(ets, Missing) else ets.transmission,
        chains=tuple(
            made.chain(each, _sent(each, port, evidence, environment, v2=v2), environment)
            for each in senders
        ),
    )


def _trust(dcb: NetdevDcb | Missing) -> tuple[Trust | Missing, str]:
    """What the NIC looks at, and who says so.

    In-box drivers show it by the APP table: with an entry of a DSCP the DSCP is trusted, with
    none it is not (mlx5e_dcbnl_ieee_setapp, mlx5e_dcbnl_dscp_app).
    """
    if isinstance(dcb, Missing):
        return dcb, "nothing"
    if not isinstance(dcb.trust, Missing):
        return dcb.trust, "qos/trust"
    if isinstance(dcb.ieee, Missing):
        return dcb.ieee, "nothing"
    table = () if isinstance(dcb.ieee.trust, Missing) else dcb.ieee.trust
    for each in table:
        if each in (AppSelector.DSCP, AppSelector.PCP):
            return Trust.DSCP if each is AppSelector.DSCP else Trust.PCP, "trust table"
    if isinstance(dcb.ieee.apps, Missing):
        return dcb.ieee.apps, "nothing"
    if any(each.selector is AppSelector.DSCP for each in dcb.ieee.apps):
        return Trust.DSCP, "APP table, which has DSCPs"
    if isinstance(read := _entries(dcb.ieee.apps), Missing):
        return read, "nothing"
    return Trust.PCP, "APP table, which has no DSCP"


def _sent(
    sender: Sender,
    port: PortView,
    evidence: Evidence,
    environment: Mapping[str, str] | Missing,
    *,
    v2: bool,
) -> Sent:
    """The class; the driver's own is for every queue pair but those of DevX."""
    lines = port.sysfs.traffic_class if port.sysfs else ()
    for line in () if isinstance(lines, Missing) else lines:
        number = line.removeprefix(_GLOBAL)
        if line.startswith(_GLOBAL) and number.isascii() and number.isdigit() and len(number) < 4:
            return Sent(int(number) & 0xFF, f"{line} of the driver", is_set=True, by_driver=True)
    if not sender.by_rdma_cm:
        return traffic_class(sender, environment, v2=v2)
    routing = evidence.routing
    modes = () if isinstance(routing, Missing) else routing.roce_modes
    for each in () if isinstance(modes, Missing) else modes:
        if each.port == port.name and not isinstance(each.tos, Missing):
            return Sent(each.tos & 0xFF, f"default_roce_tos={each.tos}", is_set=bool(each.tos))
    return Sent(0, "rdma_cm's default, assumed", is_set=False)


class _Nic:
    """One netdev's settings, and what becomes of a class there."""

    def __init__(self, ieee: Ieee | Missing, trust: Trust | Missing, *, v2: bool) -> None:
        self._ieee = ieee
        self._trust = trust
        self._v2 = v2
        self.pfc: tuple[int, ...] | Missing
        if isinstance(ieee, Missing):
            self.pfc = ieee
        else:
            self.pfc = ieee.pfc if isinstance(ieee.pfc, Missing) else ieee.pfc.enabled

    def chain(self, sender: Sender, sent: Sent, environment: Mapping[str, str] | Missing) -> Chain:
        dscp = sent.value >> 2 if self._v2 and not isinstance(sent.value, Missing) else None
        priority, priority_from = self._priority(sender, sent, dscp, environment)
        pfc = self._pfc_of(priority)
        buffer, size, shares = self._buffer(priority)
        of_port, bandwidth = self._ets(priority)
        found = Chain(
            stack=sender.stack,
            traffic_class=sent.value,
            class_from=sent.why,
            class_is_set=sent.is_set,
            class_by_driver=sent.by_driver,
            dscp=dscp,
            priority=priority,
            priority_from=priority_from,
            pfc=pfc,
            class_of_port=of_port,
            bandwidth_percent=bandwidth,
            buffer=buffer,
            buffer_bytes=size,
            shares_buffer=shares,
            lossless=None,
            cell=None,
        )
        return self._judged(found, sent, dscp)

    def _priority(
        self,
        sender: Sender,
        sent: Sent,
        dscp: int | None,
        environment: Mapping[str, str] | Missing,
    ) -> tuple[int | Missing, str]:
        if isinstance(self._trust, Missing):
            return self._trust, "not known"
        apps = self._apps
        if self._v2 and self._trust is Trust.DSCP:
            if isinstance(sent.value, Missing) or dscp is None:
                return (sent.value if isinstance(sent.value, Missing) else 0), sent.why
            if isinstance(apps, Missing):
                return apps, "not known"
            mapped = _highest(apps, (AppSelector.DSCP,), dscp)
            if mapped is not None:
                return mapped, f"DSCP {dscp} in the APP table"
            return _default(apps), f"no entry for DSCP {dscp}"
        if isinstance(apps, Missing) and apps.why is not Why.UNSUPPORTED:
            return apps, "not known"  # it may have an entry of RoCE's own
        known = () if isinstance(apps, Missing) else apps
        own = (
            _highest(known, (AppSelector.DATAGRAM, AppSelector.ANY), ROCE_V2_PORT)
            if self._v2
            else _highest(known, (AppSelector.ETHERTYPE,), _ROCE_V1_ETHERTYPE)
        )
        if own is not None:
            return own, "RoCE's entry in the APP table"
        if sender.by_rdma_cm and sent.value != 0:
            unread = Missing(Why.UNSUPPORTED, "by the VLAN's egress-qos-map, which is not read")
            return unread, "rdma_cm's service level"
        level = service_level(sender, environment)
        if isinstance(level.value, Missing):
            return level.value, level.why
        return level.value & 7, f"service level, {level.why}"

    @property
    def _apps(self) -> tuple[App, ...] | Missing:
        return self._ieee if isinstance(self._ieee, Missing) else _entries(self._ieee.apps)

    def _pfc_of(self, priority: int | Missing) -> bool | Missing:
        if isinstance(self.pfc, Missing):
            return self.pfc
        if not self.pfc:
            return False
        return priority if isinstance(priority, Missing) else priority in self.pfc

    def _buffer(self, priority: int | Missing) -> tuple[int | Missing, int | Missing, bool | None]:
        buffers = self._ieee if isinstance(self._ieee, Missing) else self._ieee.buffers
        if isinstance(buffers, Missing):
            return buffers, buffers, None
        if isinstance(priority, Missing):
            return priority, priority, None
        number = buffers.buffer_of[priority]
        if number >= len(buffers.bytes):
            bad = Missing(Why.MALFORMED, f"buffer {number}")
            return bad, bad, None
        pfc = () if isinstance(self.pfc, Missing) else self.pfc
        beside = [each for each, of in enumerate(buffers.buffer_of) if of == number]
        return number, buffers.bytes[number], any(each not in pfc for each in beside)

    def _ets(self, priority: int | Missing) -> tuple[int | Missing, int | Missing]:
        ets = self._ieee if isinstance(self._ieee, Missing) else self._ieee.ets
        if isinstance(ets, Missing):
            return ets, ets
        if isinstance(priority, Missing):
            return priority, priority
        number = ets.class_of[priority]
        if number >= len(ets.bandwidth_percent):
            bad = Missing(Why.MALFORMED, f"traffic class {number}")
            return bad, bad
        return number, ets.bandwidth_percent[number]

    def _judged(self, chain: Chain, sent: Sent, dscp: int | None) -> Chain:
        lossless, cell = self._weighed(chain, sent, dscp)
        return replace(chain, lossless=lossless, cell=cell)

    def _weighed(
        self, chain: Chain, sent: Sent, dscp: int | None
    ) -> tuple[bool | None, Cell | None]:
        if isinstance(self.pfc, Missing):
            return None, Cell.PFC
        if not self.pfc:
            return False, Cell.PFC
        if isinstance(self._trust, Missing):
            return None, Cell.TRUST
        if isinstance(chain.priority, Missing):
            return None, Cell.CLASS if isinstance(sent.value, Missing) else Cell.PRIORITY
        if chain.pfc is not True:
            return False, self._lossy(chain, dscp)
        sizes = None if isinstance(self._ieee, Missing) else self._ieee.buffers
        has_sizes = sizes is not None and not isinstance(sizes, Missing) and any(sizes.bytes)
        if has_sizes and chain.buffer_bytes == 0:
            return False, Cell.BUFFER
        peer = self._ieee if isinstance(self._ieee, Missing) else self._ieee.peer_pfc
        if not isinstance(peer, Missing) and chain.priority not in peer.enabled:
            return False, Cell.SWITCH
        return True, None

    def _lossy(self, chain: Chain, dscp: int | None) -> Cell:
        """Which cell leads to a priority without PFC, where another one has it."""
        if self._trust is Trust.PCP and self._v2:
            return Cell.TRUST if dscp else Cell.CLASS
        return Cell.PRIORITY if dscp else Cell.CLASS


def _entries(apps: tuple[App, ...] | Missing) -> tuple[App, ...] | Missing:
    """The table, unless it is not known of an entry what it is for: it may be for any packet."""
    if isinstance(apps, Missing):
        return apps
    return next((each.selector for each in apps if isinstance(each.selector, Missing)), apps)


def _highest(apps: Sequence[App], selectors: Sequence[AppSelector], protocol: int) -> int | None:
    """Of several entries the highest, as dcb_ieee_getapp_dscp_prio_mask_map has it."""
    return max(
        (
            each.priority & 7
            for each in apps
            if each.selector in selectors and each.protocol == protocol
        ),
        default=None,
    )


def _default(apps: Sequence[App]) -> int:
    """Of what no entry fits: that of Ethertype 0, else 0 (dcb_ieee_getapp_default_prio_mask)."""
    return _highest(apps, (AppSelector.ETHERTYPE,), 0) or 0


def lossless_dscps(port: LosslessPort, dcb: DcbFacts | Missing) -> tuple[int, ...]:
    """The DSCPs that lead to a priority with PFC, where the NIC trusts DSCP."""
    found = None if isinstance(dcb, Missing) else dcb.netdev(str(port.netdev))
    ieee = found.ieee if found else None
    if ieee is None or isinstance(ieee, Missing) or isinstance(ieee.apps, Missing):
        return ()
    if isinstance(port.pfc, Missing) or port.trust is not Trust.DSCP:
        return ()
    mapped = {each.protocol for each in ieee.apps if each.selector is AppSelector.DSCP}
    return tuple(
        dscp
        for dscp in sorted(mapped)
        if dscp < 64 and _highest(ieee.apps, (AppSelector.DSCP,), dscp) in port.pfc
    )


@dataclass(frozen=True, slots=True)
class EndsDiffer:
    """What is not the same at both ends."""

    port: str  # DEVICE/PORT here
    peer_port: str
    what: str  # "pfc", "trust", "dscp of nccl", "priority of nccl"
    here: str
    there: str


def differences(
    here: Sequence[LosslessPort], there: Sequence[LosslessPort]
) -> Iterator[EndsDiffer]:
    """Ports of one name at both ends; where the peer has no such port, its first.

    What is not known at one end is no difference.
    """
    by_name = {each.name: each for each in reversed(there)}
    for mine in here:
        theirs = by_name.get(mine.name) or next(iter(there), None)
        if theirs is None:
            return
        own, other = dict(_compared(mine)), dict(_compared(theirs))
        for what, value in own.items():
            if what in other and other[what] != value:
                yield EndsDiffer(mine.name, theirs.name, what, value, other[what])


def _compared(port: LosslessPort) -> Iterator[tuple[str, str]]:
    if not isinstance(port.pfc, Missing):
        yield "pfc", " ".join(map(str, port.pfc)) or "off"
    if not isinstance(port.trust, Missing):
        yield "trust", str(port.trust)
    for each in port.chains:
        if each.dscp is not None:
            yield f"dscp of {each.stack}", str(each.dscp)
        if not isinstance(each.priority, Missing):
            yield f"priority of {each.stack}", str(each.priority)
