"""Transceivers as text: what each is, what it measures, and each lane's light."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rich.console import Console

from rdmadiag.facts import Missing
from rdmadiag.facts.modules import Connector, Identifier, Module, NetdevModule
from rdmadiag.render.console import Text, say
from rdmadiag.render.grid import Grid, Indented
from rdmadiag.render.plain import printable
from rdmadiag.view.modules import in_words

_ROWS = (("rx_power_mw", "RX dBm"), ("tx_power_mw", "TX dBm"), ("bias_ma", "BIAS mA"))


def show_modules(out: Console, modules: Sequence[NetdevModule]) -> None:
    """A block for each netdev."""
    for each in modules:
        out.print()
        say(out, Text(printable(f"module of {each.netdev}"), "bold"))
        if isinstance(each.module, Missing):
            out.print(Indented(printable(f"not known: {each.module}"), 2))
            continue
        for line in (_what(each.module), _state(each)):
            if words := ", ".join(line):
                out.print(Indented(printable(words), 2))
        _lanes(out, each.module)


def _what(module: Module) -> Iterator[str]:
    yield _IDENTIFIERS.get(module.identifier) or _capitals(module.identifier)
    if not isinstance(module.cable, Missing):
        yield module.cable.replace("_", " ")
    if not isinstance(module.length_m, Missing):
        yield f"{module.length_m:g} m"
    if module.reach_m:
        yield " or ".join(
            f"{metres} m of {name.upper()}" for name, metres in module.reach_m.items()
        )
    if not isinstance(module.connector, Missing):
        yield _CONNECTORS.get(module.connector) or _capitals(module.connector)
    names = (module.vendor, module.part, module.revision)
    if known := [name for name in names if not isinstance(name, Missing)]:
        yield " ".join(known)


def _capitals(word: str) -> str:
    """ "QSFP-DD", "MPO-1X12"."""
    return word.upper().replace("_", "-")


_IDENTIFIERS: Final = {
    Identifier.QSFP_PLUS: "QSFP+",
    Identifier.QSFP_CMIS: "QSFP with CMIS",
    Identifier.SFP_DD_CMIS: "SFP-DD with CMIS",
    Identifier.SFP_CMIS: "SFP with CMIS",
}
_CONNECTORS: Final = {
    Connector.PIGTAIL: "optical pigtail",
    Connector.COPPER_PIGTAIL: "copper pigtail",
    Connector.NONE: "no separable connector",
}


def _state(each: NetdevModule) -> Iterator[str]:
    module = each.module
    assert not isinstance(module, Missing)
    if not isinstance(module.temperature_c, Missing):
        yield in_words("temperature_c", module.temperature_c)
    if not isinstance(module.voltage_v, Missing):
        yield in_words("voltage_v", module.voltage_v)
    if not isinstance(module.state, Missing):
        yield module.state.replace("_", " ")
    if isinstance(each.power, Missing):
        return
    if not isinstance(each.power.mode, Missing):
        yield f"{each.power.mode} power"
    if not isinstance(each.power.policy, Missing):
        yield f"policy {each.power.policy}"


def _lanes(out: Console, module: Module) -> None:
    lanes = () if isinstance(module.lanes, Missing) else module.lanes
    shown = [
        (title, [getattr(lane, what) for lane in lanes], _figure(what))
        for what, title in _ROWS
        if any(not isinstance(getattr(lane, what), Missing) for lane in lanes)
    ]
    if not shown:
        return
    table = Grid(padding=(0, 1, 0, 1))
    table.add_column("  LANE")
    for lane in lanes:
        table.add_column(str(lane.number), justify="right", no_wrap=True)
    for title, values, figure in shown:
        cells = ("-" if isinstance(each, Missing) else figure(each) for each in values)
        table.add_row(f"  {title}", *cells)
    out.print(table)


def _figure(what: str) -> Callable[[float], str]:
    """Without the unit, which stands in the first column."""
    return lambda value: (
        "none" if not value and what != "bias_ma" else in_words(what, value).split()[0]
    )
