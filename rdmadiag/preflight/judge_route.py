"""From a way to a peer to a verdict: pure, so that a record can be judged as well."""

from collections.abc import Sequence

from rdmadiag.frozen import dataclass
from rdmadiag.preflight.rules.peer_route import RULES, PeerCase
from rdmadiag.preflight.verdict import Finding, Status, weighed
from rdmadiag.view.peer_route import PeerRoute
from rdmadiag.view.reconcile import DeviceView


@dataclass(frozen=True, slots=True)
class RouteVerdict:
    """What this host's side of the way adds up to: no packet was sent."""

    status: Status
    findings: tuple[Finding, ...]  # the worst first


def judge(
    route: PeerRoute, devices: Sequence[DeviceView], expected: tuple[str, ...] = ()
) -> RouteVerdict:
    """What the rules say; `expected` are the ports, DEVICE/PORT, that it should lead over."""
    case = PeerCase(route, expected, bool(devices))
    return RouteVerdict(*weighed(each for rule in RULES for each in rule.check(case)))
