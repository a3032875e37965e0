"""Ethernet links below RoCE and iWARP, as their drivers describe them to ethtool."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.ethtool import ExtendedState
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import port_attribute, seen
from rdmadiag.preflight.rules.ports import has_no_link, is_down
from rdmadiag.preflight.rules.rule import UNUSED, Rule, rule, without_link
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.ethernet import Faster, could_be_faster, down_because, links_below

_TEXT: Final = {
    ExtendedState.AUTONEG: "autonegotiation does not come to an end",
    ExtendedState.LINK_TRAINING_FAILURE: "link training fails",
    ExtendedState.LINK_LOGICAL_MISMATCH: "the ends do not agree on coding or FEC",
    ExtendedState.BAD_SIGNAL_INTEGRITY: "the signal is bad",
    ExtendedState.NO_CABLE: "no cable",
    ExtendedState.CABLE_ISSUE: "the cable is not supported, or bad",
    ExtendedState.EEPROM_ISSUE: "the module's EEPROM cannot be read",
    ExtendedState.CALIBRATION_FAILURE: "calibration failed",
    ExtendedState.POWER_BUDGET_EXCEEDED: "the module needs more power than the port gives",
    ExtendedState.OVERHEAT: "overheated",
    ExtendedState.MODULE: "the module is not ready",
}
_BOTH_ENDS: Final = "ethtool {netdev}   # what this end and its partner advertise"
_MODULE: Final = "ethtool -m {netdev}   # the module: type, power, temperature"
_FEC: Final = "ethtool --show-fec {netdev}   # the switch port needs the same"


@rule(
    "link-down-because",
    Severity.CRITICAL,
    "Physical link not up, and the driver says why",
    "The port has no link, and its driver gives the cause as ethtool's extended link state: no "
    "cable, a bad signal, FEC that differs, a module that is too hot or needs too much power. "
    "Where the driver gives none, or the netdev is administratively down, link-not-up says what is "
    "known. A warning where another port of the host is active and this one was not asked for "
    "with --device: it may simply be unused; a note where link-not-up would be one.",
    (
        "https://docs.kernel.org/networking/ethtool-netlink.html#linkstate-get",
        "https://github.com/torvalds/linux/blob/v6.1/include/uapi/linux/ethtool.h",
    ),
    remedy={
        "autoneg": (
            _BOTH_ENDS,
            "# the same autonegotiation, speed and FEC on the far port, and that it is enabled",
        ),
        "link_training_failure": (_BOTH_ENDS, _FEC, "# reseat the cable, then try another one"),
        "link_logical_mismatch": (
            _FEC,
            "sudo ethtool --set-fec {netdev} encoding auto",
        ),
        "bad_signal_integrity": (
            _MODULE,
            "# clean the connectors, reseat the cable, then try another one",
        ),
        "no_cable": ("# plug in the cable or the module, at both ends",),
        "cable_issue": (_MODULE, "# use a cable that the adapter's vendor lists"),
        "eeprom_issue": (_MODULE, "# reseat the module, then try another one"),
        "calibration_failure": ("# reseat the module; if it stays, power the host off and on",),
        "power_budget_exceeded": (
            _MODULE,
            "# use a module of a lower power class, or the port that may give more",
        ),
        "overheat": (_MODULE, "# check fans and airflow; an optic may need more than copper"),
        "module": ("ethtool --show-module {netdev}", "# reseat the module, then try another one"),
    },
    needs=("ports", "port state", "physical state", "netdev", "bonds of netdevs", "link state"),
)
def link_down_because(this: Rule, case: Case) -> Iterator[Finding]:
    """Instead of link-not-up."""
    for device in case.devices:
        for port in device.ports:
            if not is_down(port) or not has_no_link(port):
                continue
            cause = down_because(device, port, case.evidence)
            if cause is None:
                continue
            known = not isinstance(cause.substate, Missing)
            detail = f" ({str(cause.substate).replace('_', ' ')})" if known else ""
            netdev = cause.netdev
            severity = without_link(case, device, port)
            unused = UNUSED if severity is Severity.INFO else ""
            yield this.finding(
                f"{port.name} has no link: {_TEXT[cause.state]}{detail} at {netdev}{unused}",
                device=port.device,
                port=port.number,
                severity=severity,
                evidence=(
                    Proof(
                        "ethtool", f"ETHTOOL_A_LINKSTATE_EXT_STATE of {netdev}", seen(cause.state)
                    ),
                    Proof(
                        "ethtool",
                        f"ETHTOOL_A_LINKSTATE_EXT_SUBSTATE of {netdev}",
                        seen(cause.substate),
                    ),
                    port_attribute(port, "phys_state", port.phys_state),
                ),
                when=str(cause.state),
                fill={"netdev": netdev},
            )


@rule(
    "below-what-both-can",
    Severity.WARN,
    "A link slower than both of its ends can do",
    "The link runs at a lower speed than a mode that this port supports and that its partner "
    "advertises: a speed that was set by hand, a mode that is not advertised here, or a cable "
    "that came up with fewer lanes or at a lower rate. Where the partner advertises nothing, as "
    "on many links without autonegotiation, nothing is said.",
    (
        "https://docs.kernel.org/networking/ethtool-netlink.html#linkmodes-get",
        "https://github.com/NVIDIA/nccl/issues/1412",
    ),
    remedy={
        "where it is not advertised here": (
            "sudo ethtool -s {netdev} autoneg on speed {best} duplex full   # the link goes down",
            "ethtool {netdev}",
        ),
        "where it does not autonegotiate": (
            "sudo ethtool -s {netdev} autoneg on   # the link goes down",
            "ethtool {netdev}",
        ),
        "elsewhere": (
            "ethtool {netdev}",
            _FEC,
            "# reseat the cable, then try another one; may the switch port run at {best} Mb/s?",
        ),
    },
    needs=("ports", "port state", "netdev", "bonds of netdevs", "link modes"),
)
def below_what_both_can(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a link; a link that two devices are on is said once."""
    done: set[str] = set()
    for device in case.devices:
        for port in device.ports:
            for link in links_below(device, port, case.evidence) if port.is_active else ():
                found = None if isinstance(link, Missing) else could_be_faster(link)
                if found is None or found.netdev in done:
                    continue
                done.add(found.netdev)
                yield this.finding(
                    f"{port.name}: {found.netdev} runs at {_gbps(found.speed_mbps)}; it and its "
                    f"link partner can do {_gbps(found.best_mbps)}",
                    device=port.device,
                    port=port.number,
                    evidence=_speeds(found),
                    when=_when(found),
                    fill={"netdev": found.netdev, "best": found.best_mbps},
                )


def _gbps(mbps: int) -> str:
    return f"{mbps / 1000:g} Gb/s"


def _when(found: Faster) -> str:
    if found.autoneg is False:
        return "where it does not autonegotiate"
    return "elsewhere" if found.is_advertised else "where it is not advertised here"


def _speeds(found: Faster) -> Iterator[Proof]:
    modes = " ".join(found.modes[:4])
    advertised = "advertised" if found.is_advertised else "supported, not advertised"
    of = f"of {found.netdev}"
    yield Proof("ethtool", f"ETHTOOL_A_LINKMODES_SPEED {of}", f"{found.speed_mbps} Mb/s")
    yield Proof("ethtool", f"ETHTOOL_A_LINKMODES_OURS {of}", f"{modes}: {advertised}")
    yield Proof("ethtool", f"ETHTOOL_A_LINKMODES_PEER {of}", f"{modes}: advertised")


RULES: Final[tuple[Rule, ...]] = (link_down_because, below_what_both_can)
