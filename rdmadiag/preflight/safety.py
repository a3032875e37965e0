"""safe_to_attempt_rtr: whether one bounded INIT→RTR→RTS attempt on a port is permitted.

True is necessary, not sufficient: it proves neither the path nor its speed. Any reason
makes it false; missing evidence has reasons of its own, apart from evidence of harm.

On Thunderbolt it is the policy of x/rdma, which `preflight.x_rdma` gives on plain data.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

from rdmadiag.facts import NOT_IN_RECORD, Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import NO_LID, PKEY_BASE, LinkLayer, PortState
from rdmadiag.facts.macos import LogFacts, failed_rtr_log_line
from rdmadiag.frozen import dataclass
from rdmadiag.gid.netdev import NetDevState, Unusable
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
from rdmadiag.view.unshown import why_unknown

CAVEAT: Final = "necessary, not sufficient"


class Reason(StrEnum):
    """Why an attempt is not permitted, or is. The sentence for people is in REASON_TEXT."""

    PORT_NOT_ACTIVE = "port_not_active"
    NO_ROUTE_GID = "no_route_gid"
    ROUTE_GID_INDEX_ZERO = "route_gid_index_zero"
    ROUTE_NETDEV_DOWN = "route_netdev_down"
    ROUTE_NETDEV_ABSENT = "route_netdev_absent"
    ROUTE_ADDRESS_UNASSIGNED = "route_address_unassigned"
    ROUTE_ADDRESS_DUPLICATE = "route_address_duplicate"
    ROUTE_ADDRESS_TENTATIVE = "route_address_tentative"
    NO_LID = "no_lid"
    NO_PKEY = "no_pkey"
    IWARP_NEEDS_RDMA_CM = "iwarp_needs_rdma_cm"
    NO_IP_ADDRESS = "no_ip_address"
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
    ANOTHER_PORT_HAS_NO_ROUTE = "another_port_has_no_route"
    NO_RDMA_PORT = "no_rdma_port"
    READ_ONLY_PREFLIGHT = "read_only_preflight"
    WITNESSES_DISAGREE = "witnesses_disagree"
    PORTS_UNKNOWN = "ports_unknown"
    STATE_UNKNOWN = "state_unknown"
    LINK_LAYER_UNKNOWN = "link_layer_unknown"
    GID_TABLE_UNKNOWN = "gid_table_unknown"
    LID_UNKNOWN = "lid_unknown"
    ROUTE_NETDEV_UNKNOWN = "route_netdev_unknown"
    PROVIDER_LATE = "provider_late"
    REGISTRY_UNKNOWN = "registry_unknown"
    LOG_UNKNOWN = "log_unknown"
    RESOURCES_UNKNOWN = "resources_unknown"
    SURROUNDINGS_UNKNOWN = "surroundings_unknown"


WITHOUT_RTR: Final = frozenset(
    {Reason.IWARP_NEEDS_RDMA_CM, Reason.EFA_HAS_NO_RC, Reason.USNIC_HAS_NO_RC}
)
"""Of ports that connect by other means."""

REASON_TEXT: Final[dict[Reason, str]] = {
    Reason.PORT_NOT_ACTIVE: "the port is not ACTIVE",
    Reason.NO_ROUTE_GID: "the port has no GID to route with",
    Reason.ROUTE_GID_INDEX_ZERO: "the route GID is index 0, which Thunderbolt RDMA refuses",
    Reason.ROUTE_NETDEV_DOWN: "the route GID's netdev is down",
    Reason.ROUTE_NETDEV_ABSENT: "the route GID's netdev is not in this network namespace",
    Reason.ROUTE_ADDRESS_UNASSIGNED: "the route GID's address is not on its netdev",
    Reason.ROUTE_ADDRESS_DUPLICATE: "the route GID's address is on another host too (DAD failed)",
    Reason.ROUTE_ADDRESS_TENTATIVE: "the route GID's address is tentative (DAD has not ended)",
    Reason.NO_LID: "the port has no LID",
    Reason.NO_PKEY: "the port has no partition key at the index that is used",
    Reason.IWARP_NEEDS_RDMA_CM: "iWARP connects by rdma_cm, never by a manual RTR",
    Reason.NO_IP_ADDRESS: "the port's netdev has no IP address, by which rdma_cm finds a device",
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
    Reason.PROVIDER_DIED: "the verbs library ended the process that called it",
    Reason.NO_ACTIVE_THUNDERBOLT_DEVICE: "no Thunderbolt RDMA device is ACTIVE",
    Reason.NO_PEER_INTERFACE: "the registry has no AppleThunderboltRDMAPeerInterface",
    Reason.NO_XDOMAIN_SERVICE: "the registry has no IOThunderboltXDomainService",
    Reason.NO_RECENT_LOG: "the log can be read and has no recent line of the RDMA driver",
    Reason.RECENT_RTR_FAILURE: "the recent log has a failed INIT→RTR",
    Reason.PRIOR_RTR_FAILURE: "an attempt of ours failed at RTR since this host started, or "
    "the record of attempts cannot be read",
    Reason.RESOURCES_EXHAUSTED: "the device has no protection domain or queue pair left",
    Reason.RDMA_DISABLED: "RDMA is switched off on this Mac",
    Reason.HARDWARE_CANNOT: "this Mac's hardware cannot do RDMA",
    Reason.ANOTHER_PORT_HAS_NO_ROUTE: "another ACTIVE Thunderbolt port has no GID to route "
    "with: name this one by --device",
    Reason.NO_RDMA_PORT: "this host has no RDMA port",
    Reason.READ_ONLY_PREFLIGHT: "nothing that can be read is against one bounded attempt",
    Reason.WITNESSES_DISAGREE: "sources disagree about the port's state",
    Reason.PORTS_UNKNOWN: "whether there is a port could not be read",
    Reason.STATE_UNKNOWN: "the port's state could not be read",
    Reason.LINK_LAYER_UNKNOWN: "the port's link layer could not be read",
    Reason.GID_TABLE_UNKNOWN: "the port's GID table could not be read",
    Reason.LID_UNKNOWN: "the port's LID could not be read",
    Reason.ROUTE_NETDEV_UNKNOWN: "whether the kernel routes by a netdev of another network "
    "namespace could not be read",
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
        Reason.PORTS_UNKNOWN,
        Reason.STATE_UNKNOWN,
        Reason.LINK_LAYER_UNKNOWN,
        Reason.GID_TABLE_UNKNOWN,
        Reason.LID_UNKNOWN,
        Reason.ROUTE_NETDEV_UNKNOWN,
        Reason.PROVIDER_LATE,
        Reason.REGISTRY_UNKNOWN,
        Reason.LOG_UNKNOWN,
        Reason.NO_RECENT_LOG,
        Reason.RESOURCES_UNKNOWN,
        Reason.SURROUNDINGS_UNKNOWN,
    }
)
"""Reasons that say "cannot tell" rather than "will fail"."""

_UNSEEN: Final = frozenset({Reason.PORTS_UNKNOWN, Reason.STATE_UNKNOWN})
"""Beside these it is not known that no port is ACTIVE."""

_OF_OTHERS: Final = (Reason.ANOTHER_PORT_HAS_NO_ROUTE,)
_NO_ACTIVE: Final = (Reason.NO_ACTIVE_THUNDERBOLT_DEVICE,)
INSTEAD_OF_RTR: Final = {
    Reason.IWARP_NEEDS_RDMA_CM: "rdmadiag pingpong --cm --allow-rtr",
    Reason.EFA_HAS_NO_RC: "fi_pingpong -p efa   # here; at the peer: fi_pingpong -p efa ADDRESS",
    Reason.USNIC_HAS_NO_RC: "fi_pingpong -p usnic   # at the peer with this host's address",
}
"""What proves a path where RTR can only fail, whoever takes on the risk."""

_NO_MANUAL_RTR: Final = {
    Protocol.IWARP: Reason.IWARP_NEEDS_RDMA_CM,
    Protocol.EFA: Reason.EFA_HAS_NO_RC,
    Protocol.USNIC: Reason.USNIC_HAS_NO_RC,
}


@dataclass(frozen=True, slots=True)
class Safety:
    """What is against one bounded attempt, from one evaluation of one selection of devices."""

    ports: tuple[tuple[PortView, tuple[Reason, ...]], ...]  # no reason: it is permitted
    host: tuple[Reason, ...]  # READ_ONLY_PREFLIGHT where a port is permitted, else why none is


def assess(devices: Iterable[DeviceView], evidence: Evidence, *, by_cm: bool = False) -> Safety:
    """The reasons against an attempt on each port of `devices`, and those of the host.

    With `by_cm` it is one by the connection manager, which is iWARP's only way.
    """
    chosen = tuple(devices)
    pairs = [(device, port) for device in chosen for port in device.ports]
    own = [port for _, port in pairs if port.protocol is Protocol.THUNDERBOLT]
    around = tuple(_around_thunderbolt(evidence)) if own or evidence.is_mac else ()
    indexes = [_route_index_of(port) for port in own if _counts_as_active(port)]
    # As in x/rdma one ACTIVE port that cannot route forbids those that are judged with it.
    forbidden = any(reason for index in indexes for reason in _route_index(index))
    ports = tuple(
        (port, _reasons(port, device, evidence, around, by_cm) or _of_others(port, forbidden))
        for device, port in pairs
    )
    if any(not reasons for _, reasons in ports):
        return Safety(ports, (Reason.READ_ONLY_PREFLIGHT,))
    found = [reason for _, reasons in ports for reason in reasons]
    found += _without_port(chosen, evidence)
    if own or evidence.is_mac:
        unseen = not _UNSEEN.isdisjoint(found)
        every = host_reasons(indexes, around)
        found[:0] = [each for each in every if each not in _NO_ACTIVE or not unseen]
    return Safety(ports, tuple(dict.fromkeys(each for each in found if each not in _OF_OTHERS)))


def _of_others(port: PortView, forbidden: bool) -> tuple[Reason, ...]:
    return _OF_OTHERS if forbidden and port.protocol is Protocol.THUNDERBOLT else ()


def _without_port(devices: Sequence[DeviceView], evidence: Evidence) -> Iterator[Reason]:
    """Why devices show no port, or why there is no device."""
    portless = [device for device in devices if not device.ports]
    for device in portless:
        yield from _access(device, evidence)
    if devices and not portless:
        return
    if evidence.is_mac:
        yield from _mac_host(evidence)
    if not devices and (answered := provider(None, evidence)) in _OF_PROVIDER:
        yield _OF_PROVIDER[answered]
    if portless or why_unknown(evidence):
        yield Reason.PORTS_UNKNOWN
    elif not evidence.is_mac:
        yield Reason.NO_RDMA_PORT


def _reasons(
    port: PortView,
    device: DeviceView,
    evidence: Evidence,
    around: tuple[Reason, ...],
    by_cm: bool,
) -> tuple[Reason, ...]:
    if by_cm and port.protocol is Protocol.IWARP:
        return (*_link(port), *_access(device, evidence))
    if port.protocol in _NO_MANUAL_RTR:
        return (_NO_MANUAL_RTR[port.protocol],)
    if port.protocol is not Protocol.THUNDERBOLT:
        if in_other_netns(device, evidence):  # where its netdev is follows
            return (*_link(port), *_access(device, evidence))
        return (*_link(port), *_route(port), *_access(device, evidence))
    # A port without a link has no GIDs: one cause, one reason.
    route = _route(port) if port.is_active else ()
    return (*_link(port), *route, *_access(device, evidence), *_mac(device, evidence), *around)


def _mac(device: DeviceView, evidence: Evidence) -> Iterator[Reason]:
    yield from _mac_host(evidence)
    spent = is_exhausted(device, evidence)
    if isinstance(spent, Missing):
        yield Reason.RESOURCES_UNKNOWN
    elif spent:
        yield Reason.RESOURCES_EXHAUSTED


def _mac_host(evidence: Evidence) -> Iterator[Reason]:
    """What keeps a Mac from RDMA as such, and what of it could not be looked at."""
    if generation(evidence) is Generation.OLDER:
        yield Reason.HARDWARE_CANNOT
    if not isinstance(evidence.macos, Missing):
        if evidence.macos.rdma_enabled is False:
            yield Reason.RDMA_DISABLED
        # A record that cannot be read may be of a failure, as in an attempt.
        if evidence.macos.rtr_failed not in (False, NOT_IN_RECORD):
            yield Reason.PRIOR_RTR_FAILURE
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
        or (port.protocol is Protocol.THUNDERBOLT) != (port.link_layer is LinkLayer.THUNDERBOLT)
    ):
        yield Reason.LINK_LAYER_UNKNOWN


def _route(port: PortView) -> Iterator[Reason]:
    if port.protocol is Protocol.INFINIBAND:
        if isinstance(port.lid, Missing):
            yield Reason.LID_UNKNOWN
        elif port.lid in NO_LID:
            yield Reason.NO_LID
        if not isinstance(port.pkey, Missing) and not port.pkey & PKEY_BASE:
            yield Reason.NO_PKEY
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
    yield from _route_address(port, port.route)


def _route_address(port: PortView, route: Route) -> Iterator[Reason]:
    if found := port.unusable.get(route.index):
        yield _UNUSABLE[found]
    state = port.route_netdev_state
    if state is NetDevState.DOWN:
        yield Reason.ROUTE_NETDEV_DOWN
    elif state is NetDevState.ABSENT:
        known = port.nldev is not None
        yield Reason.ROUTE_NETDEV_ABSENT if known else Reason.ROUTE_NETDEV_UNKNOWN
    elif port.routes_by_unassigned_address:
        yield Reason.ROUTE_ADDRESS_UNASSIGNED


_UNUSABLE: Final = {
    Unusable.DUPLICATE: Reason.ROUTE_ADDRESS_DUPLICATE,
    Unusable.TENTATIVE: Reason.ROUTE_ADDRESS_TENTATIVE,
}


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
    if isinstance(access, Missing):
        pass
    elif access.node is None:
        yield Reason.UVERBS_NODE_MISSING
    elif access.node.openable is False:
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


# --- Thunderbolt: the policy of x/rdma ---------------------------------------------------------


def host_reasons(
    route_indexes: Iterable[int | None], around: Iterable[Reason]
) -> tuple[Reason, ...]:
    """Each reason against the host once: of the active devices' route GIDs, and `around` them.

    An index of None: no entry of that device's table may be used.
    """
    indexes = list(route_indexes)
    found = [reason for index in indexes for reason in _route_index(index)]
    if not indexes:
        found.append(Reason.NO_ACTIVE_THUNDERBOLT_DEVICE)
    return tuple(dict.fromkeys((*found, *around)))


def _route_index(index: int | None) -> Iterator[Reason]:
    if index is None:
        yield Reason.NO_ROUTE_GID
    elif index == 0:
        yield Reason.ROUTE_GID_INDEX_ZERO


def surroundings(
    peer_interfaces: int | Missing,
    xdomain_services: int | Missing,
    recent_log: Sequence[str] | Missing,
) -> Iterator[Reason]:
    """What the registry and the driver's lines in the log are against every port of the host."""
    if isinstance(peer_interfaces, Missing) or isinstance(xdomain_services, Missing):
        yield Reason.REGISTRY_UNKNOWN
    if peer_interfaces == 0:
        yield Reason.NO_PEER_INTERFACE
    if xdomain_services == 0:
        yield Reason.NO_XDOMAIN_SERVICE
    if isinstance(recent_log, Missing):
        yield Reason.LOG_UNKNOWN
        return
    if not recent_log:
        yield Reason.NO_RECENT_LOG
    if any(map(failed_rtr_log_line, recent_log)):
        yield Reason.RECENT_RTR_FAILURE


def _around_thunderbolt(evidence: Evidence) -> Iterator[Reason]:
    registry, log = evidence.ioreg, evidence.mac_log
    return surroundings(
        registry if isinstance(registry, Missing) else registry.peer_interfaces,
        registry if isinstance(registry, Missing) else registry.xdomain_services,
        _complete(log),
    )


def _complete(log: LogFacts | Missing) -> Sequence[str] | Missing:
    """The lines, unless some could not be read: a failed RTR may have been among those."""
    if isinstance(log, Missing):
        return log
    if log.unreadable:
        return Missing(Why.MALFORMED, f"{log.unreadable} lines of the log make no sense")
    return tuple(line.message for line in log.lines)


def _counts_as_active(port: PortView) -> bool:
    active = port.is_active or port.state is PortState.ACTIVE
    return active and port.link_layer is LinkLayer.THUNDERBOLT


def _route_index_of(port: PortView) -> int | None:
    return port.route.index if isinstance(port.route, Route) else None
