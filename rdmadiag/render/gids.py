"""GID tables as text: the index to use first, then the rows."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from rdmadiag.facts import Missing
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import GidType
from rdmadiag.gid.netdev import NetDevState
from rdmadiag.render.console import console, say
from rdmadiag.render.plain import shown
from rdmadiag.view.gid_tables import Row, Table
from rdmadiag.view.reconcile import Protocol
from rdmadiag.view.unshown import why_unknown

_NOT_BY_GID = (Protocol.IWARP, Protocol.EFA, Protocol.USNIC)

_REST = "not asked"

_TYPE = {GidType.IB: "IB", GidType.ROCE_V1: "v1", GidType.ROCE_V2: "v2"}


def show(
    tables: Sequence[Table],
    unread: Mapping[str, str],
    evidence: Evidence,
    to: Console | None = None,
    *,
    quiet: bool = False,
) -> None:
    """Print them, or the answers alone; `unread` are the devices that show no port, and why."""
    out = to or console()
    for device, reason in unread.items():
        say(out, f"{device}  {reason}")
    if unread:
        out.print("    rdmadiag preflight   # what that means")
    elif not tables:
        unknown = why_unknown(evidence)
        say(out, f"no GID table: {unknown}" if unknown else "no RDMA device on this host")
        out.print("    rdmadiag preflight   # which step is missing")
    for number, table in enumerate(tables):
        if quiet:
            say(out, _answer(table))
            continue
        if number or unread:
            out.print()
        _table(out, table)


def _table(out: Console, table: Table) -> None:
    say(out, _answer(table))
    if table.gids:
        out.print(_grid(table))
    for index, missing in table.unreadable.items():
        say(out, f"  {index}: could not be read ({missing})")
    for pick in table.stacks if table.protocol is Protocol.THUNDERBOLT else ():
        choice = "none" if pick.index is None else f"index {pick.index}"
        problem = f"; {pick.problem}" if pick.problem else ""
        say(out, f"  {pick.stack} would pick {choice}: {pick.why}{problem}")


def _answer(table: Table) -> Text:
    line = Text(f"{table.device}/{table.port}", style="bold")
    line.append(f"  {shown(table.link_layer, '?')} {shown(table.state, '?')}: ", style="")
    if table.missing:
        line.append(f"GID table not read ({table.missing})", style="magenta")
    elif table.route is None and table.protocol in _NOT_BY_GID:
        line.append(f"{table.no_route}")
    elif table.route is None:
        line.append(f"no route GID, {table.no_route}", style="red")
    elif table.protocol is Protocol.INFINIBAND:
        line.append(table.route.reason)
    else:
        usable = table.state == "active" and not _dead(table)
        verb, style = ("use", "bold green") if usable else ("would use", "yellow")
        line.append(f"{verb} index {table.route.index}", style=style)
        line.append(f" ({table.route.gid}), {table.route.reason}")
    return line


def _dead(table: Table) -> bool:
    """Whether the routed row's netdev is down or elsewhere."""
    assert table.route is not None
    states = {row.index: row.netdev_state for row in table.gids}
    return states.get(table.route.index) in (NetDevState.DOWN, NetDevState.ABSENT)


def _grid(table: Table) -> Grid:
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    grid.add_column("", no_wrap=True)
    grid.add_column("INDEX", justify="right", no_wrap=True)
    grid.add_column("GID", overflow="fold")
    grid.add_column("TYPE", no_wrap=True)
    grid.add_column("NETDEV", overflow="fold")
    grid.add_column("SCOPE", no_wrap=True)
    before = -1
    for row in table.gids:
        hole = row.index - before - 1
        if hole:
            gap = f"{before + 1}" if hole == 1 else f"{before + 1}-{row.index - 1}"
            grid.add_row("", Text(gap, "dim"), Text("empty", "dim"))
        before = row.index
        routed = table.route is not None and table.route.index == row.index
        grid.add_row(
            Text("→", "bold green") if routed else "",
            str(row.index),
            Text(row.gid, "bold" if routed else ""),
            _type(row, table),
            _netdev(row),
            row.scope.replace("_", "-"),
        )
    length = table.gid_table_length or 0
    asked = length if table.gids_asked is None else min(table.gids_asked, length)
    for first, end, what in ((before + 1, asked, "empty"), (max(before + 1, asked), length, _REST)):
        if end > first:
            gap = f"{first}" if end == first + 1 else f"{first}-{end - 1}"
            grid.add_row("", Text(gap, "dim"), Text(what, "dim"))
    return grid


def _type(row: Row, table: Table) -> str:
    if table.protocol is Protocol.THUNDERBOLT:
        return "-"
    return shown(row.type if isinstance(row.type, Missing) else _TYPE[row.type], "?")


def _netdev(row: Row) -> Text:
    text = Text(shown(row.netdev))
    if row.netdev_state in ("down", "absent"):
        text.append(" down" if row.netdev_state == "down" else " not here", style="red")
    return text
