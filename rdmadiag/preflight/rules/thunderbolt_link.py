"""Thunderbolt RDMA ports: cable, peer and link."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing, present
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.macos import RegistryFacts, ThunderboltPeer
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen, verbs_answer
from rdmadiag.preflight.remedy import Verbatim
from rdmadiag.preflight.rules.rule import Rule, idle_or_broken, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.quoting import printable, shell_word
from rdmadiag.view.cabling import (
    RDMA_GBPS,
    SHOW_SPEED,
    TN3205,
    Cabling,
    Generation,
    generation,
    offers_rdma,
    thunderbolt_ports,
)
from rdmadiag.view.reconcile import PortView


def _down(case: Case) -> Iterator[tuple[PortView, Cabling]]:
    """Ports that are known not to be ACTIVE, on hardware that could."""
    if generation(case.evidence) is Generation.OLDER:
        return
    for _, port, cable in thunderbolt_ports(case.ports, case.evidence):
        if port.states and not port.is_active:
            yield port, cable


def _profile(cable: Cabling) -> Proof:
    bus = cable.bus
    if bus is None:
        return Proof("thunderbolt", "system_profiler SPThunderboltDataType", "not known")
    words = {True: "connected", False: "nothing connected"}
    connected = seen(bus.connected) if isinstance(bus.connected, Missing) else words[bus.connected]
    peers = ", ".join(f"{peer.name} with protocols {_protocols(peer)}" for peer in bus.peers)
    where = f"system_profiler SPThunderboltDataType: receptacle {bus.receptacle}"
    return Proof("thunderbolt", where, f"{connected}{f': {peers}' if peers else ''}")


def _protocols(peer: ThunderboltPeer) -> str:
    if isinstance(peer.protocols, Missing):
        return seen(peer.protocols)
    return " ".join(map(str, peer.protocols)) or "none"


@rule(
    "peer-rdma-off",
    Severity.CRITICAL,
    "RDMA is switched off at the other end",
    "A Mac is connected and does not offer Thunderbolt protocol 64087 (RDMA): it is switched off "
    "there, or its hardware cannot. This side's port stays DOWN with the cable in. A warning "
    "where another port is active.",
    (TN3205, "https://github.com/exo-explore/exo/pull/1437"),
    remedy=(
        "rdma_ctl status   # on {peer:the other Mac}",
        f"{SHOW_SPEED}   # there too: {RDMA_GBPS} Gb/s or more? Thunderbolt 4 cannot",
        "# disabled on Thunderbolt 5: it is switched on in Recovery, at that machine",
    ),
    needs=("ports", "port state", "thunderbolt", "receptacles", "hardware generation", "peers"),
)
def peer_rdma_off(this: Rule, case: Case) -> Iterator[Finding]:
    """By the protocols that the other Mac offers over the cable."""
    for port, cable in _down(case):
        silent = [peer for peer in cable.hosts if offers_rdma(peer) is False]
        if len(silent) < len(cable.hosts) or not silent:
            continue
        peer = silent[0]
        yield this.finding(
            f"{port.device}: {peer.name} at the other end does not offer RDMA, so the port stays "
            f"{str(port.state).upper()}",
            device=port.device,
            port=port.number,
            severity=idle_or_broken(case),
            evidence=(_profile(cable), verbs_answer(port, "state", port.state)),
            fill={"peer": peer.name},
        )


@rule(
    "thunderbolt-port-down",
    Severity.CRITICAL,
    "Thunderbolt RDMA port down",
    "The port is not ACTIVE: nothing is connected, what is connected is no computer, or two Macs "
    "with RDMA on do not find each other, for which different macOS builds are one known cause. "
    "Allocating a protection domain on such a port gives NULL. A note for an empty receptacle "
    "where another has a Mac on it, a warning for one with a Mac beside an active port.",
    (TN3205, "https://github.com/ml-explore/mlx/pull/4530"),
    remedy={
        "where a Mac is connected": (
            "sw_vers -buildVersion   # must be the same on both Macs; here {build}",
            "# unplug the cable at {place:its receptacle}, wait ten seconds, plug it in",
        ),
        "where something else is": (
            "# connect the two Macs directly, not through a display, dock or hub",
        ),
        "where no Mac answers": (
            "# is the other Mac awake? then unplug the cable, wait ten seconds, plug it in",
        ),
        "where nothing is connected": (
            "# plug the Thunderbolt 5 cable into {place:its receptacle}",
        ),
        "where that is not known": ("system_profiler SPThunderboltDataType",),
    },
    needs=("ports", "port state", "thunderbolt", "receptacles", "hardware generation"),
)
def thunderbolt_port_down(this: Rule, case: Case) -> Iterator[Finding]:
    """What neither the switch of this Mac nor that of the peer explains."""
    for port, cable in _down(case):
        if cable.hosts and all(offers_rdma(peer) is False for peer in cable.hosts):
            continue
        severity = idle_or_broken(case)
        if not cable.hosts and not case.selected and _is_cabled(case.evidence):
            severity = Severity.INFO
        cause, when = _down_cause(cable)
        yield this.finding(
            f"{port.device} is {str(port.state).upper()}: {cause}",
            device=port.device,
            port=port.number,
            severity=severity,
            evidence=(verbs_answer(port, "state", port.state), _profile(cable)),
            when=when,
            fill={"place": _place(cable), "build": _build(case.evidence)},
        )


def _is_cabled(evidence: Evidence) -> bool:
    """Whether some receptacle has a Mac on it: the empty ones are then no news."""
    profile = evidence.thunderbolt
    if isinstance(profile, Missing):
        return False
    return any(peer.is_host for bus in profile.buses for peer in bus.peers)


def _down_cause(cable: Cabling) -> tuple[str, str]:
    """Why the port is down, and which of the rule's remedies helps."""
    if cable.hosts:
        offers = "and offers RDMA" if any(map(offers_rdma, cable.hosts)) else "(RDMA there: ?)"
        text = f"{cable.hosts[0].name} is connected {offers}, and the link is not up"
        return text, "where a Mac is connected"
    if cable.bus is None:
        return "what hangs on it is not known", "where that is not known"
    if cable.bus.peers:
        text = f"{cable.bus.peers[0].name} on {cable.place} is no computer"
        return text, "where something else is"
    if cable.bus.connected is not False:
        return f"no Mac answers on {cable.place}", "where no Mac answers"
    return f"nothing is connected to {cable.place}", "where nothing is connected"


def _build(evidence: Evidence) -> str:
    build = evidence.macos if isinstance(evidence.macos, Missing) else evidence.macos.build
    return Verbatim(printable(str(build))) if isinstance(build, Missing) else build


def _place(cable: Cabling) -> Verbatim:
    number = cable.receptacle
    return Verbatim(f"receptacle {shell_word(number)}" if number else cable.place)


@rule(
    "thunderbolt-link-slow",
    Severity.WARN,
    "Thunderbolt link below 80 Gb/s",
    "A link to another Mac runs at 40 Gb/s or less: the cable or the peer is not Thunderbolt 5, "
    "or this Mac is not. RDMA is specified for Thunderbolt 5.",
    (TN3205,),
    remedy=(
        "# try a cable that is marked Thunderbolt 5 (80 Gb/s)",
        f"{SHOW_SPEED}   # on both, cable out: 'Up to 80' or more is Thunderbolt 5",
    ),
    needs=("ports", "thunderbolt", "receptacles", "hardware generation", "link speeds"),
)
def thunderbolt_link_slow(this: Rule, case: Case) -> Iterator[Finding]:
    """Which of the three it is cannot be seen from here."""
    if generation(case.evidence) is Generation.OLDER:
        return
    for device, port, cable in thunderbolt_ports(case.ports, case.evidence):
        if cable.bus is None or not cable.hosts or isinstance(cable.bus.speed_gbps, Missing):
            continue
        if cable.bus.speed_gbps >= RDMA_GBPS:
            continue
        yield this.finding(
            f"{device.name}: the link to {cable.hosts[0].name} runs at "
            f"{cable.bus.speed_gbps} Gb/s; Thunderbolt 5 has {RDMA_GBPS}",
            device=device.name,
            port=port.number,
            evidence=[
                Proof(
                    "thunderbolt",
                    f"system_profiler: receptacle {cable.receptacle} current_speed_key",
                    f"{cable.bus.speed_gbps} Gb/s",
                )
            ],
        )


@rule(
    "active-port-contradicted",
    Severity.UNKNOWN,
    "Active port, and the registry says otherwise",
    "A port says ACTIVE, and the registry has no peer for it, shows its link down, or its "
    "interface without power: something changed between the two reads, or one of the two is "
    "not true.",
    ("https://pkg.go.dev/github.com/tmc/apple/x/rdma",),
    remedy=("rdmadiag preflight   # did the cable just change?",),
    needs=("ports", "port state", "ioreg"),
)
def active_port_contradicted(this: Rule, case: Case) -> Iterator[Finding]:
    """The registry is of another moment than verbs, or one of the two is wrong."""
    registry = case.evidence.ioreg
    if isinstance(registry, Missing):
        return
    for device, port, cable in thunderbolt_ports(case.ports, case.evidence):
        against = dict(_against(registry, device.name, cable)) if port.is_active else {}
        if against:
            yield this.finding(
                f"{device.name} is ACTIVE, and the registry says otherwise: "
                f"{', '.join(f'{name} {value}' for name, value in against.items())}",
                device=device.name,
                port=port.number,
                evidence=[Proof("ioreg", f"ioreg: {name}", v) for name, v in against.items()],
            )


def _against(registry: RegistryFacts, device: str, cable: Cabling) -> Iterator[tuple[str, str]]:
    if registry.xdomain_services == 0:
        yield "IOThunderboltXDomainService", "0 objects"
    if registry.peer_interfaces == 0:
        yield "AppleThunderboltRDMAPeerInterface", "0 objects"
    links = {each.netdev: each.link_up for each in present(registry.ip_ports)}
    if links.get(cable.netdev or "") is False:
        yield f"IOLinkStatus of {cable.netdev}", "down"
    interface = registry.interface(device)
    power = interface.power_state if interface else _ON
    if not isinstance(power, Missing) and power != _ON:
        yield f"CurrentPowerState of {device}", str(power)


_ON: Final = 2  # of IOPowerManagement.CurrentPowerState


@rule(
    "link-was-lost",
    Severity.INFO,
    "The link has been lost before",
    "The link of a Thunderbolt interface came up more than once since boot: unplugged, or lost. "
    "A warning from the fifth time on (the threshold is ours). A link that drops in the middle "
    "of a collective has crashed programs in tbt_post_recv.",
    (
        "https://github.com/ml-explore/mlx/issues/4192",
        "https://github.com/ml-explore/mlx/issues/4319",
    ),
    remedy=("# reseat the cable at {place:its receptacle}, or try another one",),
    needs=("ports", "ioreg", "links of the registry"),
)
def link_was_lost(this: Rule, case: Case) -> Iterator[Finding]:
    """IOLinkActiveCount counts the times that it came up."""
    registry = case.evidence.ioreg
    counts = (
        {}
        if isinstance(registry, Missing)
        else {each.netdev: each.link_active_count for each in present(registry.ip_ports)}
    )
    for device, port, cable in thunderbolt_ports(case.ports, case.evidence):
        count = counts.get(cable.netdev or "")
        if count is None or isinstance(count, Missing) or count < 2:
            continue
        yield this.finding(
            f"{device.name}: the link came up {count} times since boot",
            device=device.name,
            port=port.number,
            severity=Severity.WARN if count >= _MANY else None,
            evidence=[Proof("ioreg", f"IOLinkActiveCount of {cable.netdev}", str(count))],
            fill={"place": _place(cable)},
        )


_MANY: Final = 5


@rule(
    "not-a-thunderbolt-port",
    Severity.UNKNOWN,
    "A port of a Mac that is no Thunderbolt port",
    "librdma shows a port whose link layer and transport are not Thunderbolt's: nothing here is "
    "known of such a port, and none of the rules on Macs looked at it.",
    remedy=("ibv_devinfo -v -d {device}",),
    needs=("ports",),
)
def not_a_thunderbolt_port(this: Rule, case: Case) -> Iterator[Finding]:
    for _, port in case.ports:
        if port.is_foreign_on_mac:
            yield this.finding(
                f"{port.name}: link layer {seen(port.link_layer)} is not known on Macs",
                device=port.device,
                port=port.number,
                evidence=[verbs_answer(port, "link_layer", port.link_layer)],
            )


RULES: Final[tuple[Rule, ...]] = (
    peer_rdma_off,
    thunderbolt_port_down,
    active_port_contradicted,
    not_a_thunderbolt_port,
    thunderbolt_link_slow,
    link_was_lost,
)
