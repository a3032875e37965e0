"""What devices say that they can do, as a table; devices that say the same share one."""

from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console

from rdmadiag.facts import Identity, Missing
from rdmadiag.facts.evidence import Evidence
from rdmadiag.render.console import Text, console, say, steps
from rdmadiag.render.findings import preflight, record
from rdmadiag.render.grid import Grid
from rdmadiag.render.plain import NO_DEVICE, counted, printable, shown
from rdmadiag.view.capabilities import (
    Capability,
    Claim,
    DeviceCapabilities,
    Difference,
    Group,
    lacking,
    required,
)
from rdmadiag.view.unshown import why_unknown

_ANSWER: Final = {
    "atomic_cap": "atomics",
    "max_srq": "shared receive queues",
    "xrc": "XRC",
    "mem_mgt_extensions": "fast registration",
    "odp": "on-demand paging",
    "managed_flow_steering": "flow steering",
}
"""What the first line names."""


def show(
    devices: Sequence[DeviceCapabilities],
    silent: Mapping[str, Missing],
    evidence: Evidence,
    *,
    host: Identity | None = None,
    everything: bool = False,
    stack: str | None = None,
    quiet: bool = False,
    to: Console | None = None,
) -> None:
    """Print them, or the answer alone; `silent` are devices that did not answer."""
    out = to or console()
    if not devices and not silent:
        reason = why_unknown(evidence)
        answer = f"cannot tell: {reason}" if reason else NO_DEVICE
        say(out, Text(answer).append_text(record(host)))
        steps(out, [preflight(host, "which step is missing")])
        return
    alike = _alike(devices)
    for number, rows in enumerate(alike):
        line = Text(f"{_names(rows)}: {_answer(rows[0], stack)}")
        say(out, line.append_text(Text() if number else record(host)))
    for name, why in silent.items():
        say(out, f"{name}: not known: {printable(str(why))}")
    if silent:
        steps(out, [preflight(host, "why")])
    if quiet:
        return
    for rows in alike:
        out.print()
        if len(alike) > 1:
            say(out, _names(rows))
        out.print(_table(rows[0], everything=everything or stack is not None))
        _ports(out, rows[0])
    if not everything and stack is None and devices:
        out.print()
        steps(out, ["rdmadiag capabilities --all   # limits and single operations too"])


def _alike(devices: Sequence[DeviceCapabilities]) -> list[list[DeviceCapabilities]]:
    found: dict[object, list[DeviceCapabilities]] = {}
    for device in devices:
        found.setdefault((repr(device.capabilities), repr(device.ports)), []).append(device)
    return list(found.values())


def _names(devices: Sequence[DeviceCapabilities]) -> str:
    names = [printable(each.name) for each in devices]
    if len(names) > 4:
        return f"{names[0]} … {names[-1]} ({counted(len(names), 'device')} alike)"
    return ", ".join(names)


def _answer(device: DeviceCapabilities, stack: str | None) -> str:
    if stack is not None:
        absent = [row.name for row in lacking(device, stack)]
        unknown = [row.name for row in required(device, stack, there=None)]
        if absent:
            return f"lacks what {stack} cannot do without: {', '.join(absent)}"
        if unknown:
            return f"not known whether it has what {stack} cannot do without: {', '.join(unknown)}"
        return f"has what {stack} cannot do without"
    found = {row.name: row.is_there for row in device.capabilities}
    there, absent = (
        [text for name, text in _ANSWER.items() if found.get(name) is value]
        for value in (True, False)
    )
    parts = [", ".join(there), f"no {', no '.join(absent)}" if absent else ""]
    return "; ".join(filter(None, parts)) or "nothing known"


def _table(device: DeviceCapabilities, *, everything: bool) -> Grid:
    table = Grid()
    table.add_column("CAPABILITY", no_wrap=True)
    table.add_column("DEVICE SAYS", overflow="fold")
    table.add_column("NEEDED BY", overflow="fold")
    for row in device.capabilities:
        if everything or _matters(row):
            table.add_row(row.name, _claim(row.claimed) + _PROVEN[row.proven], _needed(row))
    return table


_PROVEN: Final = {True: ", proven", False: ", NOT PROVEN", None: ""}


def _matters(row: Capability) -> bool:
    """Limits and operations are for --all; of the rest what is there, or needed."""
    if row.needed_by:
        return True
    return row.group not in (Group.LIMIT, Group.OPERATION) and bool(row.is_there)


def _claim(claim: Claim | None) -> str:
    if claim is None:
        return "-"
    if isinstance(claim, bool):
        return "yes" if claim else "no"
    if isinstance(claim, tuple):
        return " ".join(claim) or "none"
    if isinstance(claim, Missing):
        return shown(claim, "not known")
    return str(claim)


def _needed(row: Capability) -> str:
    needed = [each.stack for each in row.needed_by if each.strength == "required"]
    used = [each.stack for each in row.needed_by if each.strength == "used"]
    return "; ".join(
        filter(None, [", ".join(needed), f"used by {', '.join(used)}" if used else ""])
    )


def _ports(out: Console, device: DeviceCapabilities) -> None:
    if isinstance(device.ports, Missing):
        return
    for port in device.ports:
        flags = [each for each in (port.flags, port.flags2) if isinstance(each, tuple)]
        say(
            out,
            f"port {port.port}: {' '.join(word for each in flags for word in each) or 'no flags'}; "
            f"virtual lanes {shown(port.virtual_lanes)}, "
            f"P_Key violations {shown(port.bad_pkey_count)}, "
            f"Q_Key violations {shown(port.bad_qkey_count)}",
        )


def show_differences(
    found: Sequence[Difference], host: Identity, peer: Identity, to: Console | None = None
) -> None:
    """Print the rows in which two hosts differ."""
    out = to or console()
    if not found:
        say(out, f"{printable(host.hostname)} and {printable(peer.hostname)}: the same")
        return
    differing = len({each.device for each in found})
    say(out, f"{counted(len(found), 'difference')} in {counted(differing, 'device')}")
    out.print()
    table = Grid()
    names = ("DEVICE", "CAPABILITY", printable(host.hostname), printable(peer.hostname))
    for name in names:
        table.add_column(name, overflow="fold")
    for each in found:
        cells = (printable(each.device), each.capability, _claim(each.here), _claim(each.there))
        table.add_row(*cells)
    out.print(table)
