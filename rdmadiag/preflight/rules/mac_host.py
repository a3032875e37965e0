"""A Mac as a whole: hardware, release, the RDMA switch, sleep, panics."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing, Why, known
from rdmadiag.facts.evidence import Evidence
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.rule import Rule, idle_or_broken, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.cabling import (
    RDMA_GBPS,
    SHOW_SPEED,
    TN3205,
    Generation,
    cabling,
    generation,
    is_before_rdma,
    says_no_thunderbolt_5,
)

_WEEK: Final = 7 * 24 * 3600.0
_STUDIO_PORT: Final = "en2"


def _speeds(evidence: Evidence) -> list[Proof]:
    if isinstance(evidence.thunderbolt, Missing):
        return []
    return [
        Proof(
            "thunderbolt",
            f"system_profiler SPThunderboltDataType: receptacle {bus.receptacle} current_speed_key",
            f"{'up to ' if bus.speed_is_maximum else ''}{seen(bus.speed_gbps)} Gb/s",
        )
        for bus in evidence.thunderbolt.buses
    ]


@rule(
    "thunderbolt-4",
    Severity.CRITICAL,
    "This Mac's hardware cannot do RDMA",
    "RDMA needs Thunderbolt 5. On an older Mac the switch can be on, and devices may even be "
    "listed: programs then find no device, or crash when they register memory. Neither Recovery "
    "nor an update changes that.",
    (
        TN3205,
        "https://github.com/ml-explore/mlx/issues/3777",
        "https://github.com/exo-explore/exo/issues/2186",
    ),
    remedy=(
        "# use TCP: the ring backend of MLX, or exo without RDMA",
        f"{SHOW_SPEED}   # RDMA needs {RDMA_GBPS} Gb/s",
    ),
    needs=("hardware generation",),
)
def thunderbolt_4(this: Rule, case: Case) -> Iterator[Finding]:
    """By the receptacles' own maximum, else by a line of the driver's."""
    if generation(case.evidence) is not Generation.OLDER:
        return
    proofs = _speeds(case.evidence)
    if not isinstance(case.evidence.mac_log, Missing):
        proofs += [
            Proof("mac_log", "log show: eventMessage", line.message)
            for line in case.evidence.mac_log.lines
            if says_no_thunderbolt_5(line)
        ][:1]
    yield this.finding(
        "this Mac has no Thunderbolt 5: its hardware cannot do RDMA",
        evidence=proofs,
    )


@rule(
    "macos-too-old",
    Severity.CRITICAL,
    "macOS without RDMA",
    "RDMA over Thunderbolt came with macOS 26.2; before it there is neither rdma_ctl nor librdma.",
    (TN3205,),
    remedy=("softwareupdate --list   # the same release and build on every Mac of the cluster",),
    needs=("macOS release",),
)
def macos_too_old(this: Rule, case: Case) -> Iterator[Finding]:
    """By the release."""
    macos = known(case.evidence.macos)
    if macos is None or generation(case.evidence) is Generation.OLDER:
        return
    if not is_before_rdma(macos):
        return
    yield this.finding(
        f"macOS {macos.version} has no RDMA over Thunderbolt: it came with 26.2",
        evidence=(
            Proof("macos", "sw_vers: ProductVersion", seen(macos.version)),
            Proof("macos", "rdma_ctl status", seen(macos.rdma_enabled)),
        ),
    )


@rule(
    "rtr-failed-before",
    Severity.CRITICAL,
    "An RTR of ours failed since this Mac started",
    "pingpong and exercise write down each RTR on Thunderbolt before they try it, and take that "
    "back when it has succeeded. One that was not taken back failed, or was killed: the driver may "
    "be wedged by it, and a second one can wedge it for good. The log forgets sooner.",
    (
        "https://github.com/exo-explore/exo/issues/1711",
        "https://github.com/exo-explore/exo/issues/1847",
    ),
    remedy=("sudo shutdown -r now   # it counts until this Mac starts again",),
    needs=("record of attempts",),
)
def rtr_failed_before(this: Rule, case: Case) -> Iterator[Finding]:
    """By the record of the user who looks."""
    macos = known(case.evidence.macos)
    if macos is None or macos.rtr_failed is not True:
        return
    yield this.finding(
        "an attempt of ours failed at RTR since this Mac started",
        evidence=[Proof("macos", "rdmadiag/failed_rtr.json and kern.bootsessionuuid", "this boot")],
    )


@rule(
    "rdma-disabled",
    Severity.CRITICAL,
    "RDMA is switched off",
    "rdma_ctl says disabled. The switch is a global flag that only Recovery can set, with "
    "somebody at the machine; over the network it cannot be done.",
    (TN3205,),
    remedy={
        "on Thunderbolt 5": (
            (
                "# shut down, hold the power button until Recovery's options show, "
                "open Terminal from Utilities:"
            ),
            "rdma_ctl enable",
            "reboot",
        ),
        "where it may be older": (
            "# first: can this hardware do RDMA? With the cables out, 'Up to 80' or more says yes:",
            SHOW_SPEED,
        ),
    },
    needs=("RDMA switch",),
)
def rdma_disabled(this: Rule, case: Case) -> Iterator[Finding]:
    """Not on hardware that could not use it."""
    macos = known(case.evidence.macos)
    if macos is None or macos.rdma_enabled is not False:
        return
    kind = generation(case.evidence)
    if kind is Generation.OLDER:
        return  # the flag would change nothing
    yield this.finding(
        "RDMA is switched off on this Mac",
        evidence=[Proof("macos", "rdma_ctl status", "disabled"), *_speeds(case.evidence)],
        when="on Thunderbolt 5" if kind is Generation.THUNDERBOLT_5 else "where it may be older",
    )


@rule(
    "rdma-switch-unreadable",
    Severity.UNKNOWN,
    "Whether RDMA is switched on is not known",
    "rdma_ctl gave no answer on a macOS that should have it.",
    remedy=("rdma_ctl status",),
    needs=("macos",),
)
def rdma_switch_unreadable(this: Rule, case: Case) -> Iterator[Finding]:
    macos = known(case.evidence.macos)
    if macos is None or not isinstance(macos.rdma_enabled, Missing):
        return
    if is_before_rdma(macos) and macos.rdma_enabled.why is Why.ABSENT:
        return  # macos-too-old has said it
    yield this.finding(
        "rdma_ctl did not say whether RDMA is switched on",
        evidence=[Proof("macos", "rdma_ctl status", seen(macos.rdma_enabled))],
    )


@rule(
    "mac-studio-ethernet-port",
    Severity.CRITICAL,
    "The Mac Studio's port beside Ethernet",
    "On a Mac Studio the Thunderbolt port next to the Ethernet socket (en2) has no RDMA. A "
    "warning where another port is active.",
    ("https://github.com/exo-explore/exo/pull/1551",),
    remedy=("# move the cable to another Thunderbolt port",),
    needs=("thunderbolt", "interfaces", "receptacles", "ports", "port state"),
)
def mac_studio_ethernet_port(this: Rule, case: Case) -> Iterator[Finding]:
    """Where a Mac is connected there and the port is not active."""
    profile = case.evidence.thunderbolt
    if isinstance(profile, Missing):
        return
    models = [str(bus.model) for bus in profile.buses if str(bus.model).startswith("Mac Studio")]
    device = f"rdma_{_STUDIO_PORT}"
    cable = cabling(device, case.evidence)
    active = any(port.device == device and port.is_active for _, port in case.ports)
    if not models or not cable.hosts or active:
        return
    yield this.finding(
        f"{cable.hosts[0].name} is plugged into the Mac Studio's port beside Ethernet "
        f"({_STUDIO_PORT}), which has no RDMA",
        device=device if any(each.name == device for each in case.devices) else None,
        severity=idle_or_broken(case),
        evidence=(
            Proof("thunderbolt", "system_profiler: device_name_key", models[0]),
            Proof(
                "mac_network",
                "networksetup -listallhardwareports",
                f"{cable.place} is {_STUDIO_PORT}",
            ),
        ),
    )


@rule(
    "sleep-enabled",
    Severity.WARN,
    "The Mac may sleep",
    "Idle sleep is on. Thunderbolt has no wake on LAN, and providers have been found wedged after "
    "a night or a quiet half hour; Apple asks to disable sleep.",
    (TN3205, "https://github.com/exo-explore/exo/issues/1711"),
    remedy=("sudo pmset -a sleep 0",),
    needs=("sleep setting", "devices"),
)
def sleep_enabled(this: Rule, case: Case) -> Iterator[Finding]:
    """Only where there is an RDMA device."""
    macos = known(case.evidence.macos)
    if macos is None or not case.devices or isinstance(macos.sleep_minutes, Missing):
        return
    if macos.sleep_minutes:
        yield this.finding(
            f"this Mac sleeps after {macos.sleep_minutes} idle minutes; RDMA may not survive it",
            evidence=[Proof("macos", "pmset -g: sleep", str(macos.sleep_minutes))],
        )


@rule(
    "rdma-panic",
    Severity.WARN,
    "The RDMA driver was in a kernel panic",
    "A panic report of the week before this boot, or since it, names AppleThunderboltRDMA. Older "
    "ones are a note.",
    ("https://github.com/ml-explore/mlx/issues/3207",),
    remedy=(
        "less /Library/Logs/DiagnosticReports/{file}",
        "sw_vers -buildVersion   # report both to Apple; the same build on every Mac",
    ),
    needs=("panic reports", "time of boot"),
)
def rdma_panic(this: Rule, case: Case) -> Iterator[Finding]:
    """The newest report decides on the severity."""
    macos = known(case.evidence.macos)
    if macos is None or isinstance(macos.panics, Missing) or not macos.panics:
        return
    newest = macos.panics[-1]
    booted = macos.boot_seconds
    old = (
        not isinstance(newest.seconds, Missing)
        and not isinstance(booted, Missing)
        and newest.seconds < booted - _WEEK
    )
    count = len(macos.panics)
    yield this.finding(
        f"{count} panic report{'' if count == 1 else 's'} name the RDMA driver, "
        f"the newest is {newest.file}",
        severity=Severity.INFO if old else None,
        evidence=[Proof("macos", f"/Library/Logs/DiagnosticReports/{newest.file}", newest.line)],
        fill={"file": newest.file},
    )


RULES: Final[tuple[Rule, ...]] = (
    thunderbolt_4,
    macos_too_old,
    rdma_disabled,
    rtr_failed_before,
    rdma_switch_unreadable,
    mac_studio_ethernet_port,
    sleep_enabled,
    rdma_panic,
)
