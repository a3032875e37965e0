"""Where GPUs and adapters stand as text: the answer, a tree, and the lines to export."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from rich.console import Console

from rdmadiag.facts import Identity, Missing
from rdmadiag.facts.topology import Place
from rdmadiag.preflight.judge_topology import TopologyVerdict
from rdmadiag.preflight.verdict import Status
from rdmadiag.quoting import shell_word
from rdmadiag.render.console import Text, console, in_view, say, steps, verbatim, word
from rdmadiag.render.findings import answer, preflight, show_findings, whose
from rdmadiag.render.grid import Grid
from rdmadiag.render.plain import NO_DEVICE, counted, printable, shown, speed
from rdmadiag.view.topology import Distance, Export, GpuView, Left, Nic, Topology
from rdmadiag.view.unshown import is_without_devices

_LEFT: Final = {
    Left.NOT_ACTIVE: "not active",
    Left.DEFAULT_ROUTE: "default route: not proposed",
    Left.BLUEFIELD: "BlueField: not proposed",
    Left.VIRTUAL_FUNCTION: "virtual function: not proposed",
}
_KINDS: Final = ("", "host bridge", "root port", "switch")
_COLUMNS: Final = 6
"""Adapters in one table of distances: so many fit into 80 columns."""


def show(
    found: Topology,
    verdict: TopologyVerdict,
    host: Identity,
    missing: Mapping[str, Missing] = MappingProxyType({}),
    to: Console | None = None,
    *,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Print it: the answer alone if `quiet`, evidence and remedy of notes too if `verbose`."""
    out = to or console()
    line = _line(found, verdict, host, missing)
    if quiet:
        say(out, line)
        return
    with in_view(out, line):
        say(out, line)
        if not found.nics:
            steps(out, [preflight(host, "what is missing")])
        _show_tree(out, found)
        _show_distances(out, found)
        _show_exports(out, found.exports)
        show_findings(out, verdict.findings, notes=verbose)


def _line(
    found: Topology, verdict: TopologyVerdict, host: Identity, missing: Mapping[str, Missing]
) -> Text:
    if not found.nics or "topology" in missing:
        lost = (f"{name} could not be read: {why}" for name, why in missing.items())
        why = NO_DEVICE if is_without_devices(missing) else printable(next(lost, NO_DEVICE))
        return word(Status.UNKNOWN).append(f"  {why}").append_text(whose(host))
    return answer(verdict.status, verdict.findings, _answer(found), host)


def _answer(found: Topology) -> str:
    ports = counted(len(found.proposed), "adapter port")
    nodes = {nic.numa_node for nic in found.proposed}
    if "gpus" in found.missing:
        return f"GPUs are not known ({found.missing['gpus']}); {ports} to use"
    if not found.gpus:
        if not found.proposed:
            return f"no GPU here, and no adapter to propose of {counted(len(found.nics), 'port')}"
        where = f" on {counted(len(nodes), 'NUMA node')}" if nodes != {None} else ""
        return f"no GPU here; {ports} to use{where}"
    gpus = counted(len(found.gpus), "GPU")
    if not found.proposed:
        return f"{gpus}, and no adapter to propose"
    near = sum(gpu.nearest.is_below_a_switch for gpu in found.gpus)
    if near == len(found.gpus):
        return f"{gpus}, {ports}: an adapter below the switch of each"
    if near:
        return f"{gpus}, {ports}: an adapter below the switch of {near}"
    farthest = max((gpu.nearest for gpu in found.gpus), key=lambda each: each.rank)
    return f"{gpus}, {ports}: the farthest GPU is at {farthest} from its nearest"


# --- the tree ------------------------------------------------------------------------------


@dataclass
class _Branch:
    """A bridge and what is below it."""

    name: str
    level: int = 0  # 1: a host bridge, 2: a root port, above: a port of a switch
    below: "dict[str, _Branch]" = field(default_factory=dict)
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def at(self, way: Sequence[str]) -> "_Branch":
        """The branch below, made where it is not there."""
        branch = self
        for name in way:
            branch = branch.below.setdefault(name, _Branch(name, branch.level + 1))
        return branch


def _show_tree(out: Console, found: Topology) -> None:
    nodes: dict[int | None, _Branch] = {}
    for gpu in found.gpus:
        _put(nodes, gpu.numa_node, gpu.function.place, _gpu_row(gpu))
    for nic in found.nics:
        if nic.left is not Left.NOT_ON_PCI:
            _put(nodes, nic.numa_node, nic.place, _nic_row(nic))
    software = [nic for nic in found.nics if nic.left is Left.NOT_ON_PCI]
    for number in sorted(nodes, key=lambda each: -1 if each is None else each):
        out.print()
        name = "NUMA node not known" if number is None else f"NUMA node {number}"
        say(out, Text(name, "bold"))
        _show_branch(out, nodes[number], 1)
    if software:
        out.print()
        say(out, Text("not on PCI", "bold"))
        _show_rows(out, [_nic_row(nic) for nic in software], 1)


def _put(
    nodes: dict[int | None, _Branch], node: int | None, place: Place | Missing, row: tuple[str, ...]
) -> None:
    top = nodes.setdefault(node, _Branch(""))
    way = () if isinstance(place, Missing) else (place.root, *place.bridges)
    top.at(way).rows.append(row)


def _show_branch(out: Console, branch: _Branch, depth: int) -> None:
    _show_rows(out, branch.rows, depth)
    alone: list[tuple[str, ...]] = []
    branches = []
    for child in branch.below.values():
        end = _joined(child)
        # What has a port to itself stands beside its like.
        if not end.below and len(end.rows) == 1 and branch.name:
            alone += end.rows
        else:
            branches.append(end)
    _show_rows(out, alone, depth)
    for end in branches:
        verbatim(
            out, Text(f"{'  ' * depth}{_KINDS[min(end.level, 3)]} {printable(end.name)}", "dim")
        )
        _show_branch(out, end, depth + 1)


def _joined(branch: _Branch) -> _Branch:
    """The last of bridges that lead to one more bridge alone."""
    while not branch.rows and len(branch.below) == 1:
        (child,) = branch.below.values()
        if branch.level == 1:
            break  # the host bridge stays: it distinguishes phb from node
        branch = child
    return branch


def _show_rows(out: Console, rows: Sequence[tuple[str, ...]], depth: int) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        verbatim(out, f"{'  ' * depth}{'  '.join(cells).rstrip()}")


def _gpu_row(gpu: GpuView) -> tuple[str, ...]:
    own = gpu.function
    model = own.device if not isinstance(own.device, Missing) else "?"
    ids = f"{own.vendor}:{model}".replace("0x", "")
    speed_of = own.current_link_speed
    link = "" if isinstance(speed_of, Missing) else speed_of.removesuffix(" PCIe")
    lanes = "" if isinstance(own.current_link_width, Missing) else f" x{own.current_link_width}"
    return tuple(map(printable, (gpu.name, own.address, ids, f"{link}{lanes}".strip())))


def _nic_row(nic: Nic) -> tuple[str, ...]:
    address = "-" if isinstance(nic.address, Missing) else nic.address
    said = [shown(nic.netdev)] if not isinstance(nic.netdev, Missing) else []
    said += [_LEFT[nic.left]] if nic.left in _LEFT else []
    return tuple(map(printable, (nic.name, address, speed(nic.rate_gbps), ", ".join(said))))


# --- distances and lines ---------------------------------------------------------------------


def _show_distances(out: Console, found: Topology) -> None:
    nics = found.proposed
    if not found.gpus or not nics:
        return
    for at in range(0, len(nics), _COLUMNS):
        out.print()
        table = Grid()
        table.add_column("")
        part = nics[at : at + _COLUMNS]
        for nic in part:
            table.add_column(printable(nic.name), overflow="fold")
        for gpu in found.gpus:
            by_port = {(near.device, near.port): near.distance for near in gpu.nics}
            row = (by_port.get((nic.device, nic.port), Distance.UNKNOWN) for nic in part)
            table.add_row(gpu.name, *(each.upper() for each in row))
        out.print(table)


def _show_exports(out: Console, exports: Sequence[Export]) -> None:
    for line in _lines(exports):
        verbatim(out, line)


def _lines(exports: Sequence[Export]) -> Iterator[str]:
    of = None
    for each in exports:
        if of is None:
            yield ""
        if each.of != of:
            yield f"# {each.of}"
        of = each.of
        yield f"export {each.variable}={shell_word(each.value)}"
