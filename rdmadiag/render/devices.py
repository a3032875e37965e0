"""Devices and ports as a table, and a sentence for everything that is not seen everywhere."""

from collections.abc import Iterator, Sequence

from rich.console import Console

from rdmadiag.facts import Identity, Missing, NldevDevice, PciFunction, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.ranges import folded
from rdmadiag.render.alike import alike, form
from rdmadiag.render.console import Text, console, say, steps
from rdmadiag.render.findings import preflight, record
from rdmadiag.render.grid import Grid
from rdmadiag.render.plain import NO_DEVICE, counted, link, printable, shown, speed
from rdmadiag.view.discovery_path import FunctionPath, Step
from rdmadiag.view.inventory import DeviceRow, PortRow, SeenBy, Sighting
from rdmadiag.view.unshown import FAILED, unread_sources, why_unknown


def show(
    devices: Sequence[DeviceRow],
    evidence: Evidence,
    without: Sequence[FunctionPath] = (),
    to: Console | None = None,
    *,
    host: Identity | None = None,
    quiet: bool = False,
) -> None:
    """Print them, or the answer alone; `without` are PCI functions that should have a device."""
    out = to or console()
    if not devices:
        reason = why_unknown(evidence)
        answer = f"cannot tell: {reason}" if reason else NO_DEVICE
        say(out, Text(answer).append_text(record(host)))
        for name, missing in unread_sources(evidence).items():
            if missing.why in FAILED and f"{name} {missing}" != reason:
                say(out, f"{name} could not be read: {missing}")
        _functions(out, without)
        steps(out, [preflight(host, "which step is missing")])
        return
    say(out, Text(_answer(devices)).append_text(record(host)))
    if quiet:
        return
    for name, missing in _unread(devices).items():
        say(out, f"{name} could not be read: {missing}")
    sentences = [(row.name, sentence) for row in devices for sentence in _sentences(row)]
    for (name, sentence), *others in alike(sentences, lambda each: form(each[1])):
        say(out, f"{name}: {sentence}")
        if others:
            say(out, f"  also: {', '.join(folded(other for other, _ in others))}")
    for part in _for_management(evidence):
        of = "" if isinstance(part.parent, Missing) else f" of {printable(part.parent)}"
        say(out, f"{printable(part.name)}: subnet management{of} alone: no program opens it")
    _functions(out, without)
    out.print()
    out.print(_grid(devices, out.width))


def _for_management(evidence: Evidence) -> list[NldevDevice]:
    if isinstance(evidence.nldev, Missing):
        return []
    return [each for each in evidence.nldev.devices if each.is_for_management]


def _sentences(row: DeviceRow) -> Iterator[str]:
    """Why it is not seen everywhere."""
    yield from row.why_not
    if row.discovery and (step := row.discovery.failure):
        place = f"{row.discovery.failure_number} of {len(row.discovery.steps)}"
        yield f"verbs gets no further than step {place}, {_text(step)}"


def _functions(out: Console, without: Sequence[FunctionPath]) -> None:
    for function in without:
        if step := function.discovery.failure:
            say(out, f"PCI {function.address} has no RDMA device: fails at {_text(step)}")


def _text(step: Step) -> str:
    return printable(f"{step.stage.replace('_', ' ')}: {step.subject}: {step.value}")


def _answer(devices: Sequence[DeviceRow]) -> str:
    ports = [port for row in devices for port in row.ports]
    active = sum(port.state == "active" for port in ports)
    text = f"{counted(len(devices), 'RDMA device')}, {counted(len(ports), 'port')}, {active} active"
    if unread := _unread(devices):
        text = f"{text}; {', '.join(unread)} could not be read"
    hidden = [row.name for row in devices if row.why_not]
    if hidden:
        return f"{text}; not seen everywhere: {', '.join(hidden)}"
    return f"{text}; seen by {', '.join(_witnesses(devices[0].seen_by, answer=True))}"


def _unread(devices: Sequence[DeviceRow]) -> dict[str, Missing]:
    """The witnesses that could not be queried for a device, and why."""
    return {
        name: sighting
        for row in devices
        for name, sighting in _named(row.seen_by).items()
        if isinstance(sighting, Missing) and sighting.why in FAILED
    }


_NAMES = (
    "PORT", "STATE", "LINK", "RATE", "NETDEV",
    "DRIVER", "FIRMWARE", "NUMA", "PCI", "NOT IN",
)  # fmt: skip
_LEFT_OUT_FIRST = ("FIRMWARE", "NUMA", "DRIVER", "PCI")
_GAP = 2


def _grid(devices: Sequence[DeviceRow], width: int) -> Grid:
    """One line a port. A column in which no device has anything is left out, and so are
    some that do not fit `width`: a cell broken over two lines cannot be copied."""
    lines = [[*_cells(row, port), _unseen(row)] for row in devices for port in row.ports or (None,)]
    columns = {
        name: [cells[at] for cells in lines]
        for at, name in enumerate(_NAMES)
        if any(cells[at] != "-" for cells in lines)
    }
    for name in _LEFT_OUT_FIRST:
        widths = (max(map(len, (title, *cells))) + _GAP for title, cells in columns.items())
        if sum(widths) - _GAP <= width:
            break
        columns.pop(name, None)
    grid = Grid()
    for name in columns:
        grid.add_column(name, overflow="fold", style="bold red" if name == "NOT IN" else "")
    for cells in zip(*columns.values(), strict=True):
        grid.add_row(*cells)
    return grid


def _cells(row: DeviceRow, port: PortRow | None) -> list[str]:
    layer = port.link_layer if port else Missing(Why.ABSENT)
    return [
        f"{row.name}/{port.port}" if port else row.name,
        shown(port.state, "?") if port else "?",
        link(layer),
        speed(port.rate_gbps) if port else "-",
        shown(port.netdev) if port else "-",
        shown(row.driver),
        shown(row.firmware),
        shown(row.numa_node),
        _pci(row.pci),
    ]


def _pci(pci: PciFunction | Missing) -> str:
    """The address, and the link where it runs below what it could."""
    if isinstance(pci, Missing):
        return shown(pci)
    now, best = _link(pci, "current"), _link(pci, "max")
    return f"{pci.address} {now} of {best}" if now and best and now != best else pci.address


def _link(pci: PciFunction, which: str) -> str:
    speed = getattr(pci, f"{which}_link_speed")
    width = getattr(pci, f"{which}_link_width")
    if isinstance(speed, Missing) or isinstance(width, Missing):
        return ""
    if not width or not speed[:1].isdigit():  # of a virtual function: "Unknown", 0
        return ""
    return f"{speed.partition(' ')[0]}GT/s x{width}"


def _witnesses(seen: SeenBy, *, answer: bool) -> list[str]:
    """The witnesses that looked and gave this answer."""
    return [name for name, sighting in _named(seen).items() if sighting is answer]


def _named(seen: SeenBy) -> dict[str, Sighting]:
    return {
        "sysfs": seen.sysfs,
        "nldev": seen.nldev,
        "verbs": seen.verbs,
        "/dev": seen.uverbs_node,
    }


def _unseen(row: DeviceRow) -> str:
    return " ".join(_witnesses(row.seen_by, answer=False)) or "-"
