"""safe_to_attempt_rtr: whether one bounded INIT→RTR→RTS attempt on a port is permitted.

True is necessary, not sufficient: it proves neither the path nor its speed. Any reason
makes it false; missing evidence has reasons of its own, apart from evidence of harm.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.gid.route import NetDevState, Route
from rdmadiag.ib import NO_LID, LinkLayer, PortState
from rdmadiag.preflight.access import (
    Library,
    Memlock,
    ignores_memlock,
    in_other_netns,
    library,
    memlock,
    node_access,
)
from rdmadiag.preflight.evidence import Evidence
from rdmadiag.preflight.reconcile import DeviceView, PortView, Protocol

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
    WITNESSES_DISAGREE = "witnesses_disagree"
    STATE_UNKNOWN = "state_unknown"
    LINK_LAYER_UNKNOWN = "link_layer_unknown"
    GID_TABLE_UNKNOWN = "gid_table_unknown"
    LID_UNKNOWN = "lid_unknown"


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
    Reason.WITNESSES_DISAGREE: "sysfs and nldev disagree about the port's state",
    Reason.STATE_UNKNOWN: "the port's state could not be read",
    Reason.LINK_LAYER_UNKNOWN: "the port's link layer could not be read",
    Reason.GID_TABLE_UNKNOWN: "the port's GID table could not be read",
    Reason.LID_UNKNOWN: "the port's LID could not be read",
}
"""One sentence a reason."""

FOR_LACK_OF_EVIDENCE: Final = frozenset(
    {
        Reason.WITNESSES_DISAGREE,
        Reason.STATE_UNKNOWN,
        Reason.LINK_LAYER_UNKNOWN,
        Reason.GID_TABLE_UNKNOWN,
        Reason.LID_UNKNOWN,
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
    return (*_link(port), *_route(port), *_access(device, evidence))


def _link(port: PortView) -> Iterator[Reason]:
    states = set(port.states.values())
    if not states:
        yield Reason.STATE_UNKNOWN
    elif PortState.ACTIVE not in states:
        yield Reason.PORT_NOT_ACTIVE
    elif len(states) > 1:
        yield Reason.WITNESSES_DISAGREE
    if isinstance(port.link_layer, Missing) or port.link_layer is LinkLayer.UNSPECIFIED:
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
        yield Reason.GID_TABLE_UNKNOWN if port.gids.unreadable else Reason.NO_ROUTE_GID
        return
    if port.protocol is Protocol.THUNDERBOLT and port.route.index == 0:
        yield Reason.ROUTE_GID_INDEX_ZERO
    state = port.route_netdev_state
    if state is NetDevState.DOWN:
        yield Reason.ROUTE_NETDEV_DOWN
    elif state is NetDevState.ABSENT:
        yield Reason.ROUTE_NETDEV_ABSENT
    elif port.routes_by_unassigned_address:
        yield Reason.ROUTE_ADDRESS_UNASSIGNED


def _access(device: DeviceView, evidence: Evidence) -> Iterator[Reason]:
    """Known obstacles alone: what was not looked at fails before RTR, and harms nothing."""
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
