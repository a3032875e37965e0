"""How far each port gets: from a device that is seen to a path that was proven, rung by rung."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from rdmadiag.facts import Missing, NetDev
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import NO_LID
from rdmadiag.gid.netdev import DORMANT, OPERATIONAL, NetDevState
from rdmadiag.gid.route import Route
from rdmadiag.preflight.safety import FOR_LACK_OF_EVIDENCE, INSTEAD_OF_RTR, REASON_TEXT, Reason
from rdmadiag.preflight.verdict import (
    Finding,
    Footing,
    LadderStep,
    PortVerdict,
    Rung,
    Severity,
    Verdict,
)
from rdmadiag.quoting import shell_word
from rdmadiag.view.access import Provider, provider
from rdmadiag.view.lossless import LosslessPort, lossless_ports
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol

_FIRM: Final = (Footing.REACHED, Footing.NOT_NEEDED)


def reached(steps: Sequence[LadderStep]) -> Rung:
    """The highest rung below which none is open."""
    return steps[_firm(steps) - 1].rung if _firm(steps) else Rung.SEEN


def next_step(steps: Sequence[LadderStep]) -> LadderStep | None:
    """The first that is not reached; None at the top."""
    return steps[_firm(steps)] if _firm(steps) < len(steps) else None


def _firm(steps: Sequence[LadderStep]) -> int:
    return next((at for at, step in enumerate(steps) if step.footing not in _FIRM), len(steps))


_REASONS: Final[dict[Rung, frozenset[Reason]]] = {
    Rung.OPENED: frozenset(
        {
            Reason.DEVICE_IN_OTHER_NETNS,
            Reason.UVERBS_NODE_MISSING,
            Reason.UVERBS_NODE_NOT_OPENABLE,
            Reason.VERBS_LIBRARY_MISSING,
            Reason.PROVIDER_LIBRARY_MISSING,
            Reason.VERBS_DEVICE_MISSING,
            Reason.VERBS_OPEN_FAILED,
            Reason.PROVIDER_WEDGED,
            Reason.PROVIDER_DIED,
            Reason.PROVIDER_LATE,
            Reason.RDMA_DISABLED,
            Reason.HARDWARE_CANNOT,
        }
    ),
    Rung.LINK: frozenset(
        {
            Reason.PORT_NOT_ACTIVE,
            Reason.STATE_UNKNOWN,
            Reason.WITNESSES_DISAGREE,
            Reason.LINK_LAYER_UNKNOWN,
        }
    ),
    Rung.ADDRESSED: frozenset(
        {
            Reason.NO_ROUTE_GID,
            Reason.ROUTE_GID_INDEX_ZERO,
            Reason.GID_TABLE_UNKNOWN,
            Reason.ROUTE_ADDRESS_UNASSIGNED,
            Reason.ROUTE_ADDRESS_DUPLICATE,
            Reason.ROUTE_ADDRESS_TENTATIVE,
            Reason.NO_LID,
            Reason.LID_UNKNOWN,
            Reason.NO_PKEY,
        }
    ),
    Rung.ROUTABLE: frozenset(
        {
            Reason.ROUTE_NETDEV_DOWN,
            Reason.ROUTE_NETDEV_ABSENT,
            Reason.ROUTE_NETDEV_UNKNOWN,
            Reason.NO_PEER_INTERFACE,
            Reason.NO_XDOMAIN_SERVICE,
            Reason.REGISTRY_UNKNOWN,
            Reason.SURROUNDINGS_UNKNOWN,
        }
    ),
}
"""What is against RTR, by the rung that it is about; everything else is about `permitted`."""
_RUNG_OF: Final = {reason: rung for rung, reasons in _REASONS.items() for reason in reasons}

_RULES: Final[dict[Rung, frozenset[str]]] = {
    Rung.OPENED: frozenset(
        {
            "uverbs-node-missing",
            "uverbs-node-stale",
            "uverbs-node-not-openable",
            "verbs-library-missing",
            "provider-library-missing",
            "provider-not-named",
            "driver-abi-mismatch",
            "device-not-in-verbs",
            "device-open-failed",
            "provider-wedged",
            "provider-died",
            "provider-late",
            "rdma-disabled",
            "thunderbolt-4",
            "macos-too-old",
        }
    ),
    Rung.LINK: frozenset(
        {
            "link-not-up",
            "no-subnet-manager",
            "port-not-active",
            "port-state-unknown",
            "peer-rdma-off",
            "thunderbolt-port-down",
        }
    ),
    Rung.ADDRESSED: frozenset(
        {
            "no-usable-gid",
            "no-usable-pkey",
            "gid-table-unreadable",
            "lid-unreadable",
            "no-ipv4-gid",
            "thunderbolt-gids-unread",
            "address-duplicate",
            "address-tentative",
        }
    ),
    Rung.ROUTABLE: frozenset(
        {
            "route-netdev-down",
            "route-netdev-absent",
            "reverse-path-filter",
            "no-rule-for-this-nic",
            "thunderbolt-interface-down",
            "port-in-bridge",
            "shared-subnet",
        }
    ),
    Rung.LOSSLESS: frozenset({"traffic-class-not-lossless"}),
    Rung.PERMITTED: frozenset(
        {
            "memlock-too-low",
            "recent-rtr-failure",
            "no-recent-log",
            "log-incomplete",
            "resources-unknown",
            "protection-domains-exhausted",
            "queue-pairs-exhausted",
        }
    ),
}
"""Rules whose remedy leads to a rung, where RTR is forbidden for it or the finding is grave."""
_GRAVE: Final = (Severity.CRITICAL, Severity.UNKNOWN)
_ALONE: Final = frozenset(
    {"reverse-path-filter", "no-rule-for-this-nic", "shared-subnet", "traffic-class-not-lossless"}
)
"""Warnings that keep a port from its rung all the same."""


def with_ladders(
    verdict: Verdict,
    devices: Sequence[DeviceView],
    evidence: Evidence,
    proven: Collection[tuple[str, int]] = (),
) -> Verdict:
    """The verdict, and of each port its rungs; `proven`: ports that a pingpong has verified."""
    views = {
        (port.device, port.number): (device, port) for device in devices for port in device.ports
    }
    over: dict[tuple[str, int], list[LosslessPort]] = {}
    for each in lossless_ports(devices, evidence, {}, ()):
        over.setdefault((each.device, each.port), []).append(each)

    def with_ladder(judged: PortVerdict) -> PortVerdict:
        key = judged.device, judged.port
        device, port = views[key]
        steps = _steps(judged, verdict, device, port, evidence, over.get(key, ()), key in proven)
        return replace(judged, ladder=tuple(steps))

    return replace(verdict, ports=tuple(map(with_ladder, verdict.ports)))


def _steps(
    judged: PortVerdict,
    verdict: Verdict,
    device: DeviceView,
    port: PortView,
    evidence: Evidence,
    over: Sequence[LosslessPort],
    is_proven: bool,
) -> Iterator[LadderStep]:
    found = [
        each
        for each in verdict.findings
        if each.device in (None, judged.device) and each.port in (None, judged.port)
    ]
    yield LadderStep(Rung.SEEN, Footing.REACHED)
    for rung in _SEEN:
        yield _judged(rung, judged.reasons, found) or _stands(rung, device, port, evidence)
    yield _lossless(port, over, found)
    if judged.safe_to_attempt_rtr:
        yield LadderStep(Rung.PERMITTED, Footing.REACHED)
    else:
        yield _judged(Rung.PERMITTED, judged.reasons, found) or _forbidden(judged.reasons)
    if is_proven:
        yield LadderStep(Rung.PROVEN, Footing.REACHED)
    else:
        yield _unproven(judged)


def _judged(rung: Rung, reasons: Iterable[Reason], found: Iterable[Finding]) -> LadderStep | None:
    """What is against it: a finding, which has a remedy, else a reason against RTR."""
    own = [each for each in reasons if _RUNG_OF.get(each, Rung.PERMITTED) is rung]
    findings = [
        each
        for each in found
        if each.rule in _RULES[rung] and (own or each.rule in _ALONE or each.severity in _GRAVE)
    ]
    if rung is Rung.PERMITTED and not own:
        return None
    if findings:
        finding = findings[0]
        step = LadderStep(rung, Footing.STOPPED, finding.rule, finding.summary, finding.remedy)
        unknown = finding.severity is Severity.UNKNOWN
    elif own:
        remedy = (INSTEAD_OF_RTR.get(own[0], f"rdmadiag explain {own[0]}"),)
        step = LadderStep(rung, Footing.STOPPED, own[0], REASON_TEXT[own[0]], remedy)
        unknown = own[0] in FOR_LACK_OF_EVIDENCE
    else:
        return None
    return replace(step, footing=Footing.UNKNOWN) if unknown else step


def _stands(rung: Rung, device: DeviceView, port: PortView, evidence: Evidence) -> LadderStep:
    """Nothing is against it: reached where it was seen to be, which less evidence does not show."""
    seen = _SEEN[rung](device, port, evidence)
    if seen is None:
        return LadderStep(rung, Footing.NOT_NEEDED)
    if seen:
        return LadderStep(rung, Footing.REACHED)
    text = f"nothing is against it, and nothing that was read shows {_WHAT[rung]}"
    return LadderStep(
        rung, Footing.UNKNOWN, None, text, (f"rdmadiag devices --device {port.device}",)
    )


def _is_opened(device: DeviceView, _: PortView, evidence: Evidence) -> bool:
    return provider(device, evidence) is Provider.ANSWERS


def _is_active(_: DeviceView, port: PortView, __: Evidence) -> bool:
    return port.is_active


def _has_address(_: DeviceView, port: PortView, evidence: Evidence) -> bool:
    if port.protocol is Protocol.INFINIBAND:
        return not isinstance(port.lid, Missing) and port.lid not in NO_LID
    if port.protocol is Protocol.IWARP:  # rdma_cm finds the device by an address of its netdev
        found = _netdev(port, evidence)
        return found is not None and bool(found.addresses)
    return isinstance(port.route, Route) or (port.protocol in _BY_HANDLE and bool(port.entries))


def _is_routable(_: DeviceView, port: PortView, evidence: Evidence) -> bool | None:
    if port.protocol in (Protocol.INFINIBAND, *_BY_HANDLE):
        return None  # the subnet manager, or the provider's network, routes
    if port.protocol is Protocol.IWARP:
        found = _netdev(port, evidence)
        if found is not None and found.operstate == DORMANT:
            return None
        return found is not None and found.admin_up and found.operstate in OPERATIONAL
    if port.protocol is Protocol.THUNDERBOLT:
        return True  # what is against it is a reason of the registry's or the cabling's
    return port.route_netdev_state in (NetDevState.UP, NetDevState.ELSEWHERE)


def _netdev(port: PortView, evidence: Evidence) -> NetDev | None:
    facts, name = evidence.netdev, port.netdev
    return None if isinstance(facts, Missing) or isinstance(name, Missing) else facts.netdev(name)


_BY_HANDLE: Final = (Protocol.EFA, Protocol.USNIC)
_SEEN: Final[dict[Rung, Callable[[DeviceView, PortView, Evidence], bool | None]]] = {
    Rung.OPENED: _is_opened,
    Rung.LINK: _is_active,
    Rung.ADDRESSED: _has_address,
    Rung.ROUTABLE: _is_routable,
}
"""None: of no concern to the port's protocol."""
_WHAT: Final = {
    Rung.OPENED: "the verbs library opening it",
    Rung.LINK: "an active link",
    Rung.ADDRESSED: "an address of its own",
    Rung.ROUTABLE: "its netdev up",
}


def _forbidden(reasons: Sequence[Reason]) -> LadderStep:
    """By what keeps the port from a lower rung, where its remedy stands."""
    unknown = all(each in FOR_LACK_OF_EVIDENCE for each in reasons)
    footing = Footing.UNKNOWN if unknown else Footing.STOPPED
    return LadderStep(Rung.PERMITTED, footing, reasons[0], REASON_TEXT[reasons[0]])


def _lossless(port: PortView, over: Sequence[LosslessPort], found: Iterable[Finding]) -> LadderStep:
    rung = Rung.LOSSLESS
    # InfiniBand has credits, iWARP TCP, a Thunderbolt cable one sender; rxe gives its packets
    # to the IP stack.
    if port.protocol is not Protocol.ROCE or port.is_software:
        return LadderStep(rung, Footing.NOT_NEEDED)
    if stopped := _judged(rung, (), found):
        return stopped
    place = shell_word(f"{port.device}:{port.number}")
    look = (f"rdmadiag lossless --device {place}",)
    for each in over:
        if isinstance(each.pfc, Missing):
            text = f"PFC of {each.netdev} is not known: {each.pfc}"
            return LadderStep(rung, Footing.UNKNOWN, None, text, look)
        if not each.pfc:
            text = f"no priority of {each.netdev} has PFC: congestion drops RoCE's packets"
            return LadderStep(rung, Footing.STOPPED, None, text, look)
    if not over:
        return LadderStep(rung, Footing.UNKNOWN, None, "the port is not ACTIVE", look)
    return LadderStep(rung, Footing.REACHED)


def _unproven(judged: PortVerdict) -> LadderStep:
    """What proves it; nothing is tried by a command that reads."""
    instead = next((INSTEAD_OF_RTR[each] for each in judged.reasons if each in INSTEAD_OF_RTR), "")
    place = shell_word(f"{judged.device}:{judged.port}")
    line = instead or f"rdmadiag pingpong --allow-rtr --device {place} PEER   # there: --listen"
    text = "no pingpong has verified data on it"
    return LadderStep(Rung.PROVEN, Footing.NOT_TRIED, None, text, (line,))
