"""Transceivers below a port: what they measure, held against their own thresholds."""

import math
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from rdmadiag.facts import Missing
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.modules import (
    Cable,
    Lane,
    Module,
    ModuleState,
    NetdevModule,
    PowerMode,
    Range,
)
from rdmadiag.view.bonds import found_below
from rdmadiag.view.reconcile import DeviceView, PortView


def modules_below(
    device: DeviceView, port: PortView, evidence: Evidence
) -> Iterator[NetdevModule | Missing]:
    """Those of a RoCE or iWARP port; of a bond that is one device, each leg's."""
    return found_below(device, port, evidence, evidence.modules)


def selected_modules(devices: Iterable[DeviceView], evidence: Evidence) -> tuple[NetdevModule, ...]:
    """Those of the ports of `devices`, each netdev once."""
    found: dict[str, NetdevModule] = {}
    for device in devices:
        for port in device.ports:
            for each in modules_below(device, port, evidence):
                if not isinstance(each, Missing):
                    found.setdefault(each.netdev, each)
    return tuple(found.values())


class Crossed(NamedTuple):
    """A value beyond a threshold of its module."""

    what: str  # the field of facts.modules.Ranges
    lane: int | None  # from 1; None: of the module
    value: float
    threshold: float
    is_alarm: bool  # the outer threshold
    is_low: bool  # below it


OF_SENDERS: Final = ("tx_power_mw", "bias_ma")
_OF_LANES: Final = ("rx_power_mw", *OF_SENDERS)
OF_MODULES: Final = ("temperature_c", "voltage_v")


def crossed(module: Module, lanes: int | None = None) -> tuple[Crossed, ...]:
    """The gravest first. `lanes` are those that the link uses, from the first on; None: all."""
    found = [
        beyond
        for what, lane, value in _values(module, lanes)
        if (range_ := _range(module, what)) and (beyond := _beyond(what, lane, value, range_))
    ]
    return tuple(sorted(found, key=lambda each: not each.is_alarm))


def without_range(module: Module, lanes: int | None = None) -> tuple[str, ...]:
    """What the module measures and gives no thresholds for."""
    return tuple(
        dict.fromkeys(what for what, _, _ in _values(module, lanes) if _range(module, what) is None)
    )


def _range(module: Module, what: str) -> Range | None:
    found = None if isinstance(module.ranges, Missing) else getattr(module.ranges, what)
    return None if isinstance(found, Missing) else found


def _values(module: Module, lanes: int | None) -> Iterator[tuple[str, int | None, float]]:
    for what in OF_MODULES:
        value = getattr(module, what)
        if not isinstance(value, Missing):
            yield what, None, value
    for each in () if isinstance(module.lanes, Missing) else module.lanes[:lanes]:
        for what in _OF_LANES:
            value = getattr(each, what)
            if not isinstance(value, Missing) and not (what in OF_SENDERS and _is_off(each)):
                yield what, each.number, value


def _is_off(lane: Lane) -> bool:
    """A transmitter that was switched off sends nothing, as it should."""
    return lane.transmits is False


def _beyond(what: str, lane: int | None, value: float, limits: Range) -> Crossed | None:
    for is_alarm, low, high in (
        (True, limits.low_alarm, limits.high_alarm),
        (False, limits.low_warning, limits.high_warning),
    ):
        if value < low:
            return Crossed(what, lane, value, low, is_alarm, is_low=True)
        if value > high:
            return Crossed(what, lane, value, high, is_alarm, is_low=False)
    return None


def in_words(what: str, value: float) -> str:
    """With its unit; light as ethtool has it, in dBm: the least that is measured is -40."""
    if what == "temperature_c":
        return f"{value:.1f} C"
    if what == "voltage_v":
        return f"{value:.2f} V"
    if what == "bias_ma":
        return f"{value:.1f} mA"
    return f"{10 * math.log10(value):.1f} dBm" if value > 0 else "no light"


def is_in_low_power(found: NetdevModule) -> bool:
    """As the driver says, or the module."""
    if not isinstance(found.power, Missing) and not isinstance(found.power.mode, Missing):
        return found.power.mode is PowerMode.LOW
    return not isinstance(found.module, Missing) and found.module.low_power is True


def has_failed(found: NetdevModule) -> bool:
    """Whether the module says that it has."""
    return not isinstance(found.module, Missing) and found.module.state is ModuleState.FAULT


def is_passive(found: NetdevModule) -> bool:
    """A cable without electronics: it has neither monitors nor a power mode that matters."""
    return not isinstance(found.module, Missing) and found.module.cable is Cable.PASSIVE_COPPER
