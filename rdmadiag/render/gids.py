"""GID tables as text: the index to use first, then the rows."""

from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console

from rdmadiag.facts import GidEntry, GidTable, Identity, Missing
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import GidType
from rdmadiag.gid.netdev import NOT_HERE, NetDevState, netdev_state
from rdmadiag.render.console import Text, console, say, steps
from rdmadiag.render.findings import preflight, record
from rdmadiag.render.grid import Grid
from rdmadiag.render.plain import shown
from rdmadiag.view.gid_tables import PortPicks
from rdmadiag.view.reconcile import PortView, Protocol
from rdmadiag.view.unshown import FAILED, unread_sources, why_unknown

_NOT_BY_GID: Final = (Protocol.IWARP, Protocol.EFA, Protocol.USNIC)

_REST: Final = "not read"

TYPE_WORD: Final = {GidType.IB: "IB", GidType.ROCE_V1: "v1", GidType.ROCE_V2: "v2"}


def show(
    tables: Sequence[PortPicks],
    unread: Mapping[str, str],
    evidence: Evidence,
    to: Console | None = None,
    *,
    host: Identity | None = None,
    quiet: bool = False,
) -> None:
    """Print them, or the answers alone; `unread` are the devices that show no port, and why."""
    out = to or console()
    whole = record(host)
    for device, reason in unread.items():
        say(out, f"{device}  {reason}")
    if unread:
        steps(out, [preflight(host, "what that means")])
    elif not tables:
        unknown = why_unknown(evidence)
        answer = f"no GID table: {unknown}" if unknown else "no RDMA device on this host"
        say(out, Text(answer).append_text(whole))
        steps(out, [preflight(host, "which step is missing")])
    for name, missing in unread_sources(evidence).items():
        if missing.why in FAILED and (tables or unread):
            say(out, f"{name} could not be read: {missing}")
    for number, table in enumerate(tables):
        if (number or unread) and not quiet:
            out.print()
        say(out, _answer(table).append_text(Text() if number else whole))
        if not quiet:
            _table(out, table)


def _table(out: Console, table: PortPicks) -> None:
    port = table.port
    if not isinstance(port.gids, Missing):
        if port.gids.entries:
            out.print(_grid(port, port.gids))
        for index, missing in port.gids.unreadable.items():
            say(out, f"  {index}: could not be read ({missing})")
    for pick in table.stacks if port.protocol is Protocol.THUNDERBOLT else ():
        choice = "none" if pick.index is None else f"index {pick.index}"
        problem = f"; {pick.problem}" if pick.problem else ""
        say(out, f"  {pick.stack} would pick {choice}: {pick.why}{problem}")


def heading(port: PortView) -> Text:
    """ "mlx5_0/1  ethernet active: "."""
    line = Text(port.name, style="bold")
    line.append(f"  {shown(port.link_layer, '?')} {shown(port.state, '?')}: ", style="")
    return line


def _answer(table: PortPicks) -> Text:
    port, route = table.port, table.route
    line = heading(port)
    if table.missing:
        line.append(f"GID table not read ({table.missing})", style="magenta")
    elif route is None and port.protocol in _NOT_BY_GID:
        line.append(port.route.reason)
    elif route is None:
        line.append(f"no route GID, {port.route.reason}", style="red")
    elif port.protocol is Protocol.INFINIBAND:
        line.append(route.reason)
    else:
        usable = port.state == "active" and not table.routes_by_dead_netdev
        verb, style = ("use", "bold green") if usable else ("would use", "yellow")
        line.append(f"{verb} index {route.index}", style=style)
        line.append(f" ({route.gid}), {route.reason}")
    return line


def _grid(port: PortView, gids: GidTable) -> Grid:
    grid = Grid()
    grid.add_column("", no_wrap=True)
    grid.add_column("INDEX", justify="right", no_wrap=True)
    grid.add_column("GID", overflow="fold")
    grid.add_column("TYPE", no_wrap=True)
    grid.add_column("NETDEV", overflow="fold")
    grid.add_column("SCOPE", no_wrap=True)
    before = -1
    for entry in gids.entries:
        hole = entry.index - before - 1
        if hole:
            gap = f"{before + 1}" if hole == 1 else f"{before + 1}-{entry.index - 1}"
            grid.add_row("", Text(gap, "dim"), Text("empty", "dim"))
        before = entry.index
        routed = entry is port.route_entry
        grid.add_row(
            Text("→", "bold green") if routed else "",
            str(entry.index),
            Text(str(entry.gid), "bold" if routed else ""),
            _type(entry, port),
            _netdev(entry, port),
            entry.scope.replace("_", "-"),
        )
    asked = gids.length if gids.asked is None else min(gids.asked, gids.length)
    rest = ((before + 1, asked, "empty"), (max(before + 1, asked), gids.length, _REST))
    for first, end, what in rest:
        if end > first:
            gap = f"{first}" if end == first + 1 else f"{first}-{end - 1}"
            grid.add_row("", Text(gap, "dim"), Text(what, "dim"))
    return grid


def _type(entry: GidEntry, port: PortView) -> str:
    if port.protocol is Protocol.THUNDERBOLT:
        return "-"
    return shown(entry.type if isinstance(entry.type, Missing) else TYPE_WORD[entry.type], "?")


def _netdev(entry: GidEntry, port: PortView) -> Text:
    text = Text(shown(entry.netdev))
    state = netdev_state(entry, port.netdevs)
    if state in (NetDevState.DOWN, *NOT_HERE):
        text.append(" down" if state is NetDevState.DOWN else " not here", style="red")
    if found := port.unusable.get(entry.index):
        text.append(f" {found}", style="red")
    return text
