"""Transceivers and cables, by their own thresholds; read with --modules alone."""

from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.modules import NetdevModule, PowerPolicy
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import port_attribute, seen
from rdmadiag.preflight.rules.ports import is_down
from rdmadiag.preflight.rules.rule import Rule, idle_or_broken, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.modules import (
    OF_SENDERS,
    Crossed,
    crossed,
    has_failed,
    in_words,
    is_in_low_power,
    is_passive,
    modules_below,
    without_range,
)
from rdmadiag.view.reconcile import PortView

_MODULE: Final = "sudo ethtool -m {netdev}"
_MOST: Final = 3  # in one summary
_IS: Final = {
    "temperature_c": "has a temperature of",
    "voltage_v": "has a voltage of",
    "rx_power_mw": "receives",
    "tx_power_mw": "sends",
    "bias_ma": "has a laser bias of",
}
_NAME: Final = {
    "temperature_c": "temperature",
    "voltage_v": "voltage",
    "rx_power_mw": "received power",
    "tx_power_mw": "sent power",
    "bias_ma": "laser bias",
}


@rule(
    "optic-out-of-range",
    Severity.WARN,
    "A transceiver beyond its own thresholds, or in low power",
    "With --modules alone. What the module measures (temperature, voltage, light received and "
    "sent, bias of its lasers) is beyond a warning or alarm threshold of its own pages, or, on a "
    "link that is down, the module is in low power or has failed. The flags that a module latches "
    "are not read, since reading clears them. Critical where an alarm threshold is crossed and "
    "the link is down, or its FEC has had blocks that it could not correct; a warning on a link "
    "that is down beside an active port. Unknown where the module measures and has no thresholds. "
    "A passive cable measures nothing: nothing is said of it.",
    (
        "https://docs.kernel.org/networking/ethtool-netlink.html#module-eeprom-get",
        "https://docs.kernel.org/networking/ethtool-netlink.html#module-get",
        "https://members.snia.org/document/dl/26418",  # SFF-8636
        "https://www.oiforum.com/wp-content/uploads/OIF-CMIS-05.0.pdf",
    ),
    remedy={
        "where too little light arrives": (
            _MODULE,
            "# clean and reseat both ends of the fibre; does the far end send? Too long a fibre?",
        ),
        "where it is too hot": (_MODULE, "# fans, airflow, blanks in empty slots"),
        "where it is in low power": (
            "ethtool --show-module {netdev}",
            "sudo ethtool --set-module {netdev} power-mode-policy high",
        ),
        "where it has no thresholds": (
            _MODULE,
            "# hold the values against the data sheet of the module",
        ),
        "elsewhere": (_MODULE, "# reseat the module, then try another one"),
    },
    needs=("ports", "port state", "netdev", "bonds of netdevs", "modules"),
)
def optic_out_of_range(this: Rule, case: Case) -> Iterator[Finding]:
    """At most two findings a netdev; one that two devices are on is said once."""
    done: set[str] = set()
    for device in case.devices:
        for port in device.ports:
            for found in modules_below(device, port, case.evidence):
                if isinstance(found, Missing) or found.netdev in done or is_passive(found):
                    continue
                done.add(found.netdev)
                yield from _of_module(this, case, port, found)


def _of_module(this: Rule, case: Case, port: PortView, found: NetdevModule) -> Iterator[Finding]:
    where = f"{port.name}: the module in {found.netdev}"
    idle = _idle(case, port, found)
    lanes = _lanes_in_use(case, found.netdev)
    beyond: Sequence[Crossed] = ()
    if not isinstance(found.module, Missing):
        beyond = crossed(found.module, lanes)
    if idle:
        beyond = [each for each in beyond if each.what not in OF_SENDERS]
    if idle or beyond:
        more = f"; {len(beyond) - _MOST} more" if len(beyond) > _MOST else ""
        said = [idle] if idle else []
        said += [_said(each) for each in beyond[: _MOST - len(said)]]
        yield this.finding(
            f"{where} {'; '.join(said)}{more}",
            device=port.device,
            port=port.number,
            severity=_severity(case, port, found, beyond) if beyond else idle_or_broken(case),
            evidence=(
                *_power(found, idle),
                *(_proof(found.netdev, each) for each in beyond),
                *_context(port, found, beyond),
            ),
            when=_when(found, idle, beyond),
            fill={"netdev": found.netdev},
        )
    if not isinstance(found.module, Missing) and (lost := without_range(found.module, lanes)):
        yield this.finding(
            f"{where} has no thresholds for {', '.join(map(_NAME.__getitem__, lost))}: what it "
            "measures is not judged",
            device=port.device,
            port=port.number,
            severity=Severity.UNKNOWN,
            evidence=(
                Proof(
                    "modules",
                    f"ETHTOOL_MSG_MODULE_EEPROM_GET of {found.netdev}: thresholds",
                    seen(_why(found, lost[0])),
                ),
            ),
            when="where it has no thresholds",
            fill={"netdev": found.netdev},
        )


def _why(found: NetdevModule, what: str) -> object:
    ranges = getattr(found.module, "ranges", None)
    return ranges if isinstance(ranges, Missing) else getattr(ranges, what, None)


def _idle(case: Case, port: PortView, found: NetdevModule) -> str:
    """Why a module does not work, of a link that is down; "" where it does, or should not."""
    if not is_down(port):
        return ""
    if has_failed(found):
        return "says that it has failed"
    if not is_in_low_power(found):
        return ""
    facts = case.evidence.netdev
    netdev = None if isinstance(facts, Missing) else facts.netdev(found.netdev)
    power = found.power
    is_auto = not isinstance(power, Missing) and power.policy is PowerPolicy.AUTO
    if is_auto and netdev and not netdev.admin_up:
        return ""  # as it should be: the driver waits for the netdev
    return "is in low power, and the link is down"


def _lanes_in_use(case: Case, netdev: str) -> int | None:
    """Those of a link that is up, as its driver says; of one that is down, all."""
    facts = case.evidence.ethtool
    link = None if isinstance(facts, Missing) else facts.netdev(netdev)
    modes = link.modes if link else None
    if modes is None or isinstance(modes, Missing) or isinstance(modes.lanes, Missing):
        return None
    return None if isinstance(modes.speed_mbps, Missing) else modes.lanes


def _said(each: Crossed) -> str:
    lane = f" on lane {each.lane}" if each.lane else ""
    side = "below" if each.is_low else "above"
    kind = "alarm" if each.is_alarm else "warning"
    value, threshold = (in_words(each.what, number) for number in (each.value, each.threshold))
    return f"{_IS[each.what]} {value}{lane}, {side} its {kind} threshold of {threshold}"


def _severity(
    case: Case, port: PortView, found: NetdevModule, beyond: Sequence[Crossed]
) -> Severity:
    if is_down(port):
        grave = idle_or_broken(case)
        return grave if any(each.is_alarm for each in beyond) else Severity.WARN
    if any(each.is_alarm for each in beyond) and _lost_blocks(found):
        return Severity.CRITICAL
    return Severity.WARN


def _lost_blocks(found: NetdevModule) -> bool:
    count = found.uncorrectable_blocks
    return not isinstance(count, Missing) and count > 0


def _when(found: NetdevModule, idle: str, beyond: Sequence[Crossed]) -> str:
    if idle:
        return "elsewhere" if has_failed(found) else "where it is in low power"
    first = beyond[0]
    if first.what == "rx_power_mw" and first.is_low:
        return "where too little light arrives"
    is_hot = first.what == "temperature_c" and not first.is_low
    return "where it is too hot" if is_hot else "elsewhere"


def _power(found: NetdevModule, idle: str) -> Iterator[Proof]:
    if not idle:
        return
    of = f"of {found.netdev}"
    if not isinstance(found.power, Missing):
        yield Proof("modules", f"ETHTOOL_A_MODULE_POWER_MODE {of}", seen(found.power.mode))
    if not isinstance(found.module, Missing):
        state = seen(found.module.state)
        yield Proof("modules", f"ETHTOOL_MSG_MODULE_EEPROM_GET {of}: state", state)


def _proof(netdev: str, each: Crossed) -> Proof:
    lane = f" of lane {each.lane}" if each.lane else ""
    kind = f"{'low' if each.is_low else 'high'} {'alarm' if each.is_alarm else 'warning'}"
    return Proof(
        "modules",
        f"ETHTOOL_MSG_MODULE_EEPROM_GET of {netdev}: {each.what}{lane}",
        f"{each.value:g}; {kind} threshold {each.threshold:g}",
    )


def _context(port: PortView, found: NetdevModule, beyond: Sequence[Crossed]) -> Iterator[Proof]:
    if any(each.is_alarm for each in beyond):
        yield port_attribute(port, "state", port.state)
        yield Proof(
            "modules",
            f"ETHTOOL_A_FEC_STAT_UNCORR of {found.netdev}",
            seen(found.uncorrectable_blocks),
        )


RULES: Final[tuple[Rule, ...]] = (optic_out_of_range,)
