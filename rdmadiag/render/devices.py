"""Devices and ports as a table, and a sentence for everything that is not seen everywhere."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rdmadiag.facts import Missing, PciFunction, Why
from rdmadiag.ib import LinkLayer
from rdmadiag.preflight.evidence import Evidence
from rdmadiag.preflight.inventory import DeviceRow, PortRow, SeenBy
from rdmadiag.render.console import console, counted, shown


def show(devices: Sequence[DeviceRow], evidence: Evidence, to: Console | None = None) -> None:
    """Print them."""
    out = to or console()
    if not devices:
        sysfs = evidence.sysfs
        out.print(f"cannot tell: sysfs {sysfs}" if isinstance(sysfs, Missing) else "no RDMA device")
        out.print("    rdmadiag preflight   # which step is missing")
        return
    out.print(_answer(devices), soft_wrap=True)
    for row in devices:
        for sentence in row.why_not:
            out.print(f"{row.name}: {sentence}", soft_wrap=True)
    out.print()
    out.print(_grid(devices))


def _answer(devices: Sequence[DeviceRow]) -> str:
    ports = [port for row in devices for port in row.ports]
    active = sum(port.state == "active" for port in ports)
    text = f"{counted(len(devices), 'RDMA device')}, {counted(len(ports), 'port')}, {active} active"
    hidden = [row.name for row in devices if row.why_not]
    return f"{text}; not seen everywhere: {', '.join(hidden)}" if hidden else text


def _grid(devices: Sequence[DeviceRow]) -> Table:
    """One line a port; a column in which no device has anything is left out."""
    names = ("PORT", "STATE", "LINK", "RATE", "NETDEV", "DRIVER", "FIRMWARE", "NUMA", "PCI")
    lines = [(row, _cells(row, port)) for row in devices for port in row.ports or (None,)]
    used = [at for at in range(len(names)) if any(cells[at] != "-" for _, cells in lines)]
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for at in used:
        grid.add_column(names[at], overflow="fold")
    grid.add_column("SEEN BY", overflow="fold")
    for row, cells in lines:
        grid.add_row(*(cells[at] for at in used), _seen(row.seen_by))
    return grid


_LINK = {LinkLayer.INFINIBAND: "IB", LinkLayer.ETHERNET: "Eth", LinkLayer.THUNDERBOLT: "TB"}


def _cells(row: DeviceRow, port: PortRow | None) -> list[str]:
    layer = port.link_layer if port else Missing(Why.ABSENT)
    return [
        f"{row.name}/{port.port}" if port else row.name,
        shown(port.state, "?") if port else "?",
        shown(layer if isinstance(layer, Missing) else _LINK.get(layer, layer), "?"),
        _rate(port),
        shown(port.netdev) if port else "-",
        shown(row.driver),
        shown(row.firmware),
        shown(row.numa_node),
        _pci(row.pci),
    ]


def _rate(port: PortRow | None) -> str:
    if port is None or isinstance(port.rate_gbps, Missing):
        return "-"
    return f"{port.rate_gbps:g}G"


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
    return f"{speed.partition(' ')[0]}GT/s x{width}"


def _seen(seen: SeenBy) -> Text:
    """The witnesses that show the device; one that looked in vain is struck out in words."""
    text = Text()
    for name, sighting in (
        ("sysfs", seen.sysfs),
        ("nldev", seen.nldev),
        ("verbs", seen.verbs),
        ("node", seen.uverbs_node),
    ):
        if sighting is True:
            text.append(f"{name} ")
        elif sighting is False:
            text.append(f"NOT-{name} ", style="bold red")
    text.rstrip()
    return text
