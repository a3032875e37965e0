"""The exported names of github.com/tmc/apple/x/rdma v0.6.10, here on plain data.

docs/x_rdma.md has them one by one, with what differs. Nothing is decided in this file: the
route is chosen by `gid.route`, the decision on safety is `preflight.safety`'s.

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
rdmadiag.preflight.x_rdma.RtrUnsafe: an attempt changes state on the device, ...
"""

from collections.abc import Sequence
from typing import Final

from rdmadiag.facts import GidEntry, Missing
from rdmadiag.facts.errnos import errno_name, errno_text
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import LinkLayer, PortState
from rdmadiag.facts.macos import PEER_INTERFACE, XDOMAIN_SERVICE, failed_rtr_log_line
from rdmadiag.frozen import dataclass
from rdmadiag.gid.route import NoRoute, Route, select_route_gid, select_route_gid_info
from rdmadiag.gid.scan import MAX_ROUTE_GID_SCAN, preflight_gid_scan_limit, route_gid_scan_limit
from rdmadiag.preflight.safety import REASON_TEXT, Reason, host_reasons, surroundings

__all__ = [
    "MAX_ROUTE_GID_SCAN",
    "PEER_INTERFACE",
    "REASON_TEXT",
    "RTR_ATTEMPT_WARNING",
    "XDOMAIN_SERVICE",
    "Gid",
    "GidEntry",
    "LinkLayer",
    "NoRoute",
    "PortState",
    "PreflightDevice",
    "PreflightReport",
    "Reason",
    "Route",
    "RtrUnsafe",
    "derive_preflight_safety",
    "errno_name",
    "errno_text",
    "failed_rtr_log_line",
    "preflight_gid_scan_limit",
    "require_rtr_attempt_allowed",
    "route_gid_scan_limit",
    "select_route_gid",
    "select_route_gid_info",
]


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

    As x/rdma decides, but that each reason is given once, and that what could not be looked
    at has reasons of its own. True is necessary, not sufficient.
    """
    active = (
        device.route_gid_index
        for device in report.devices
        if device.state is PortState.ACTIVE and device.link_layer is LinkLayer.THUNDERBOLT
    )
    around = surroundings(report.peer_interfaces, report.xdomain_services, report.recent_log)
    reasons = host_reasons(active, around)
    return (False, reasons) if reasons else (True, (Reason.READ_ONLY_PREFLIGHT,))


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
