"""safe_to_attempt_rtr: whether one bounded INIT→RTR→RTS attempt on a port is permitted.

True is necessary, not sufficient: it proves neither the path nor its speed. Any reason
makes it false; missing evidence has reasons of its own, apart from evidence of harm.

The judgement on Thunderbolt hosts is that of x/rdma, and can be had on plain data:

>>> report = PreflightReport(
...     devices=[PreflightDevice("rdma_en1", PortState.ACTIVE, LinkLayer.THUNDERBOLT, 1)],
...     peer_interfaces=1,
...     xdomain_services=1,
...     recent_log=["AppleThunderboltRDMA context allocation/query/free"],
... )
>>> derive_preflight_safety(report)
(True, (<Reason.READ_ONLY_PREFLIGHT: 'read_only_preflight'>,))
>>> require_rtr_attempt_allowed(False)  # doctest: +ELLIPSIS
Traceback (most recent call last):
    ...
rdmadiag.preflight.safety.RtrUnsafe: an attempt changes state on the device, ...
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import NO_LID, LinkLayer, PortState
from rdmadiag.facts.macos import LogFacts, failed_rtr_log_line
from rdmadiag.gid.netdev import NetDevState
from rdmadiag.gid.route import Route
from rdmadiag.view.access import (
    Library,
    Memlock,
    Provider,
    ignores_memlock,
    in_other_netns,
    library,
    memlock,
    node_access,
    provider,
)
from rdmadiag.view.cabling import Generation, generation
from rdmadiag.view.mac_resources import is_exhausted
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol, is_asked_enough

CAVEAT: Final = "necessary, not sufficient"


class Reason(StrEnum):
    """Why an attempt is not permitted. The sentence for people is in REASON_TEXT."""

    PORT_NOT_ACTIVE = "port_not_active"
    NO_ROUTE_GID = "no_route_gid"
    ROUTE_GID_INDEX_ZERO = "route_gid_index_zero"
    ROUTE_NETDEV_DOWN = "route_netdev_down"
    ROUTE_NETDEV_ABSENT = "route_netdev_absent"
    ROUTE_ADDRESS_UNASSIGNED = "route_address_unassigned"
    NO_LID = "no_lid"
    IWARP_NEEDS_RDMA_CM = "iwarp_needs_rdma_cm"
    EFA_HAS_NO_RC = "efa_has_no_rc"
    USNIC_HAS_NO_RC = "usnic_has_no_rc"
    DEVICE_IN_OTHER_NETNS = "device_in_other_netns"
    UVERBS_NODE_MISSING = "uverbs_node_missing"
    UVERBS_NODE_NOT_OPENABLE = "uverbs_node_not_openable"
    VERBS_LIBRARY_MISSING = "verbs_library_missing"
    PROVIDER_LIBRARY_MISSING = "provider_library_missing"
    MEMLOCK_TOO_LOW = "memlock_too_low"
    VERBS_DEVICE_MISSING = "verbs_device_missing"
    VERBS_OPEN_FAILED = "verbs_open_failed"
    PROVIDER_WEDGED = "provider_wedged"
    PROVIDER_DIED = "provider_died"
    NO_ACTIVE_THUNDERBOLT_DEVICE = "no_active_thunderbolt_device"
    NO_PEER_INTERFACE = "no_peer_interface"
    NO_XDOMAIN_SERVICE = "no_xdomain_service"
    NO_RECENT_LOG = "no_recent_log"
    RECENT_RTR_FAILURE = "recent_rtr_failure"
    PRIOR_RTR_FAILURE = "prior_rtr_failure"
    RESOURCES_EXHAUSTED = "resources_exhausted"
    RDMA_DISABLED = "rdma_disabled"
    HARDWARE_CANNOT = "hardware_cannot"
    READ_ONLY_PREFLIGHT = "read_only_preflight"
    WITNESSES_DISAGREE = "witnesses_disagree"
    STATE_UNKNOWN = "state_unknown"
    LINK_LAYER_UNKNOWN = "link_layer_unknown"
    GID_TABLE_UNKNOWN = "gid_table_unknown"
    LID_UNKNOWN = "lid_unknown"
    PROVIDER_LATE = "provider_late"
    REGISTRY_UNKNOWN = "registry_unknown"
    LOG_UNKNOWN = "log_unknown"
    RESOURCES_UNKNOWN = "resources_unknown"
    SURROUNDINGS_UNKNOWN = "surroundings_unknown"


REASON_TEXT: Final[dict[Reason, str]] = {
    Reason.PORT_NOT_ACTIVE: "the port is not ACTIVE",
    Reason.NO_ROUTE_GID: "the port has no GID to route with",
    Reason.ROUTE_GID_INDEX_ZERO: "the route GID is index 0, which Thunderbolt RDMA refuses",
    Reason.ROUTE_NETDEV_DOWN: "the route GID's netdev is down",
    Reason.ROUTE_NETDEV_ABSENT: "the route GID's netdev is not in this network namespace",
    Reason.ROUTE_ADDRESS_UNASSIGNED: "the route GID's address is not on its netdev",
    Reason.NO_LID: "the port has no LID",
    Reason.IWARP_NEEDS_RDMA_CM: "iWARP connects by rdma_cm, never by a manual RTR",
    Reason.EFA_HAS_NO_RC: "EFA connects by address handle (SRD, UD): no RC, no UC",
    Reason.USNIC_HAS_NO_RC: "usNIC has UD queue pairs only",
    Reason.DEVICE_IN_OTHER_NETNS: "netns mode is exclusive, and another namespace has the device",
    Reason.UVERBS_NODE_MISSING: "the device has no node in /dev/infiniband",
    Reason.UVERBS_NODE_NOT_OPENABLE: "this user may not open the device's node",
    Reason.VERBS_LIBRARY_MISSING: "libibverbs is not where the dynamic linker looks",
    Reason.PROVIDER_LIBRARY_MISSING: "the provider library for this device is not installed",
    Reason.MEMLOCK_TOO_LOW: "the limit on locked memory is too low for a queue pair",
    Reason.VERBS_DEVICE_MISSING: "the verbs library does not list the device",
    Reason.VERBS_OPEN_FAILED: "the verbs library cannot open the device",
    Reason.PROVIDER_WEDGED: "a call of the verbs library never returned",
    Reason.PROVIDER_DIED: "the verbs library ended the process that asked it",
    Reason.NO_ACTIVE_THUNDERBOLT_DEVICE: "no Thunderbolt RDMA device is ACTIVE",
    Reason.NO_PEER_INTERFACE: "the registry has no AppleThunderboltRDMAPeerInterface",
    Reason.NO_XDOMAIN_SERVICE: "the registry has no IOThunderboltXDomainService",
    Reason.NO_RECENT_LOG: "the log can be read and has no recent line of the RDMA driver",
    Reason.RECENT_RTR_FAILURE: "the recent log has a failed INIT→RTR",
    Reason.PRIOR_RTR_FAILURE: "an attempt of ours failed at RTR since this host started",
    Reason.RESOURCES_EXHAUSTED: "the device has no protection domain or queue pair left",
    Reason.RDMA_DISABLED: "RDMA is switched off on this Mac",
    Reason.HARDWARE_CANNOT: "this Mac's hardware cannot do RDMA",
    Reason.READ_ONLY_PREFLIGHT: "nothing that can be read speaks against one bounded attempt",
    Reason.WITNESSES_DISAGREE: "sources disagree about the port's state",
    Reason.STATE_UNKNOWN: "the port's state could not be read",
    Reason.LINK_LAYER_UNKNOWN: "the port's link layer could not be read",
    Reason.GID_TABLE_UNKNOWN: "the port's GID table could not be read",
    Reason.LID_UNKNOWN: "the port's LID could not be read",
    Reason.PROVIDER_LATE: "the verbs library had not answered everything at the deadline",
    Reason.REGISTRY_UNKNOWN: "the registry could not be read",
    Reason.LOG_UNKNOWN: "the log could not be read, or not all of it",
    Reason.RESOURCES_UNKNOWN: "how many of the device's resources are in use is not known",
    Reason.SURROUNDINGS_UNKNOWN: "the switch, the cabling or the addresses could not be read",
}
"""One sentence a reason."""

FOR_LACK_OF_EVIDENCE: Final = frozenset(
    {
        Reason.WITNESSES_DISAGREE,
        Reason.STATE_UNKNOWN,
        Reason.LINK_LAYER_UNKNOWN,
        Reason.GID_TABLE_UNKNOWN,
        Reason.LID_UNKNOWN,
        Reason.PROVIDER_LATE,
        Reason.REGISTRY_UNKNOWN,
        Reason.LOG_UNKNOWN,
        Reason.NO_RECENT_LOG,
        Reason.RESOURCES_UNKNOWN,
        Reason.SURROUNDINGS_UNKNOWN,
    }
)
"""Reasons that say "cannot tell" rather than "will fail"."""

_NO_MANUAL_RTR: Final = {
    Protocol.IWARP: Reason.IWARP_NEEDS_RDMA_CM,
    Protocol.EFA: Reason.EFA_HAS_NO_RC,
    Protocol.USNIC: Reason.USNIC_HAS_NO_RC,
}


def reasons_against_rtr(
    port: PortView, device: DeviceView, evidence: Evidence
) -> tuple[Reason, ...]:
    """Every reason against an attempt on `port`; none means that it is permitted."""
    if port.protocol in _NO_MANUAL_RTR:
        return (_NO_MANUAL_RTR[port.protocol],)
    if port.protocol is not Protocol.THUNDERBOLT:
        return (*_link(port), *_route(port), *_access(device, evidence))
    # A port without a link has no GIDs to speak of: one cause, one reason.
    route = _route(port) if port.is_active else ()
    return (
        *_link(port),
        *route,
        *_access(device, evidence),
        *_mac(device, evidence),
        *_around_thunderbolt(thunderbolt_report((), evidence)),
    )


def _mac(device: DeviceView, evidence: Evidence) -> Iterator[Reason]:
    """What keeps a Mac from RDMA as such, and what of it could not be looked at."""
    if generation(evidence) is Generation.OLDER:
        yield Reason.HARDWARE_CANNOT
    if not isinstance(evidence.macos, Missing) and evidence.macos.rdma_enabled is False:
        yield Reason.RDMA_DISABLED
    spent = is_exhausted(device, evidence)
    if isinstance(spent, Missing):
        yield Reason.RESOURCES_UNKNOWN
    elif spent:
        yield Reason.RESOURCES_EXHAUSTED
    around = (evidence.macos, evidence.thunderbolt, evidence.mac_network)
    if any(isinstance(source, Missing) for source in around):
        yield Reason.SURROUNDINGS_UNKNOWN


def _link(port: PortView) -> Iterator[Reason]:
    states = set(port.states.values())
    if not states:
        yield Reason.STATE_UNKNOWN
    elif PortState.ACTIVE not in states:
        yield Reason.PORT_NOT_ACTIVE
    elif len(states) > 1:
        yield Reason.WITNESSES_DISAGREE
    if (
        isinstance(port.link_layer, Missing)
        or port.link_layer is LinkLayer.UNSPECIFIED
        or port.is_foreign_on_mac
    ):
        yield Reason.LINK_LAYER_UNKNOWN


def _route(port: PortView) -> Iterator[Reason]:
    if port.protocol is Protocol.INFINIBAND:
        if isinstance(port.lid, Missing):
            yield Reason.LID_UNKNOWN
        elif port.lid in NO_LID:
            yield Reason.NO_LID
        return
    if isinstance(port.gids, Missing):
        yield Reason.GID_TABLE_UNKNOWN
        return
    if not isinstance(port.route, Route):
        whole = not port.gids.unreadable and is_asked_enough(port.gids)
        yield Reason.NO_ROUTE_GID if whole else Reason.GID_TABLE_UNKNOWN
        return
    if port.protocol is Protocol.THUNDERBOLT:
        yield from _route_index(port.route.index)
    state = port.route_netdev_state
    if state is NetDevState.DOWN:
        yield Reason.ROUTE_NETDEV_DOWN
    elif state is NetDevState.ABSENT:
        yield Reason.ROUTE_NETDEV_ABSENT
    elif port.routes_by_unassigned_address:
        yield Reason.ROUTE_ADDRESS_UNASSIGNED


def _access(device: DeviceView, evidence: Evidence) -> tuple[Reason, ...]:
    """Known obstacles alone: what was not looked at fails before RTR, and harms nothing."""
    obstacles = tuple(_obstacles(device, evidence))
    answered = provider(device, evidence)
    # What keeps the library from a device is said; that it then fails is no reason more.
    if answered not in _OF_PROVIDER or (obstacles and answered in _FOLLOWS):
        return obstacles
    return (*obstacles, _OF_PROVIDER[answered])


def _obstacles(device: DeviceView, evidence: Evidence) -> Iterator[Reason]:
    if in_other_netns(device, evidence):
        yield Reason.DEVICE_IN_OTHER_NETNS
    access = node_access(device, evidence)
    if access and access.node is None:
        yield Reason.UVERBS_NODE_MISSING
    elif access and access.node and access.node.openable is False:
        yield Reason.UVERBS_NODE_NOT_OPENABLE
    found = library(device, evidence)
    if found is Library.NO_LIBIBVERBS:
        yield Reason.VERBS_LIBRARY_MISSING
    elif found is Library.NO_PROVIDER:
        yield Reason.PROVIDER_LIBRARY_MISSING
    if memlock(evidence.process) is Memlock.NONE and not ignores_memlock(evidence.process):
        yield Reason.MEMLOCK_TOO_LOW


_FOLLOWS: Final = frozenset({Provider.NOT_LISTED, Provider.REFUSED})

_OF_PROVIDER: Final = {
    Provider.NOT_LISTED: Reason.VERBS_DEVICE_MISSING,
    Provider.REFUSED: Reason.VERBS_OPEN_FAILED,
    Provider.WEDGED: Reason.PROVIDER_WEDGED,
    Provider.DIED: Reason.PROVIDER_DIED,
    Provider.LATE: Reason.PROVIDER_LATE,
}


# --- the policy of x/rdma, DerivePreflightSafety ----------------------------------------------


@dataclass(frozen=True, slots=True)
class PreflightDevice:
    """One device, as far as the decision needs it."""

    name: str
    state: PortState | Missing
    link_layer: LinkLayer | Missing
    route_gid_index: int | None  # None: no entry may be used


@dataclass(frozen=True, slots=True)
class PreflightReport:
    """The evidence that decides on a Thunderbolt host; what was not seen is a Missing."""

    devices: Sequence[PreflightDevice]
    peer_interfaces: int | Missing  # AppleThunderboltRDMAPeerInterface in the registry
    xdomain_services: int | Missing  # IOThunderboltXDomainService in the registry
    recent_log: Sequence[str] | Missing  # lines of the RDMA driver


def derive_preflight_safety(report: PreflightReport) -> tuple[bool, tuple[Reason, ...]]:
    """Whether one bounded RTR attempt is permitted on this host, and why, or why not.

    As x/rdma decides, but that each reason is given once, and that what could not be
    looked at is told apart from what is not there. True is necessary, not sufficient.
    """
    active = [
        device
        for device in report.devices
        if device.state is PortState.ACTIVE and device.link_layer is LinkLayer.THUNDERBOLT
    ]
    found = [reason for device in active for reason in _route_index(device.route_gid_index)]
    if not active:
        found.append(Reason.NO_ACTIVE_THUNDERBOLT_DEVICE)
    found += _around_thunderbolt(report)
    reasons = tuple(dict.fromkeys(found))
    return (False, reasons) if reasons else (True, (Reason.READ_ONLY_PREFLIGHT,))


def _route_index(index: int | None) -> Iterator[Reason]:
    if index is None:
        yield Reason.NO_ROUTE_GID
    elif index == 0:
        yield Reason.ROUTE_GID_INDEX_ZERO


def _around_thunderbolt(report: PreflightReport) -> Iterator[Reason]:
    """What the registry and the log say against every port of the host."""
    if isinstance(report.peer_interfaces, Missing) or isinstance(report.xdomain_services, Missing):
        yield Reason.REGISTRY_UNKNOWN
    if report.peer_interfaces == 0:
        yield Reason.NO_PEER_INTERFACE
    if report.xdomain_services == 0:
        yield Reason.NO_XDOMAIN_SERVICE
    if isinstance(report.recent_log, Missing):
        yield Reason.LOG_UNKNOWN
        return
    if not report.recent_log:
        yield Reason.NO_RECENT_LOG
    if any(map(failed_rtr_log_line, report.recent_log)):
        yield Reason.RECENT_RTR_FAILURE


def thunderbolt_report(ports: Iterable[PortView], evidence: Evidence) -> PreflightReport:
    """The evidence on `ports` and around them, as derive_preflight_safety takes it."""
    registry, log = evidence.ioreg, evidence.mac_log
    return PreflightReport(
        devices=[
            PreflightDevice(
                port.device,
                PortState.ACTIVE if port.is_active else port.state,
                port.link_layer,
                port.route.index if isinstance(port.route, Route) else None,
            )
            for port in ports
        ],
        peer_interfaces=registry if isinstance(registry, Missing) else registry.peer_interfaces,
        xdomain_services=registry if isinstance(registry, Missing) else registry.xdomain_services,
        recent_log=_complete(log),
    )


def _complete(log: LogFacts | Missing) -> Sequence[str] | Missing:
    """The lines, unless some could not be read: a failed RTR may have been among those."""
    if isinstance(log, Missing):
        return log
    if log.unreadable:
        return Missing(Why.MALFORMED, f"{log.unreadable} lines of the log make no sense")
    return tuple(line.message for line in log.lines)


RTR_ATTEMPT_WARNING: Final = (
    "an attempt changes state on the device, and can wedge a Thunderbolt port until a reboot: "
    "run rdmadiag preflight first, then pass --allow-rtr for one bounded attempt"
)


class RtrUnsafe(Exception):
    """An RTR attempt that nobody allowed."""

    def __init__(self) -> None:
        super().__init__(RTR_ATTEMPT_WARNING)


def require_rtr_attempt_allowed(allow: bool) -> None:
    """Raises RtrUnsafe unless `allow` is true."""
    if not allow:
        raise RtrUnsafe
