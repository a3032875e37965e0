"""The way to a peer as text: the answer, how it comes about, and what other stacks would take."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from rich.console import Console

from rdmadiag.facts import Identity, Missing
from rdmadiag.facts.ib import GidType
from rdmadiag.facts.routing import Neighbour
from rdmadiag.gid.pick import Outcome
from rdmadiag.preflight.judge_route import RouteVerdict
from rdmadiag.preflight.verdict import Status
from rdmadiag.render.console import Text, console, in_view, say, word
from rdmadiag.render.findings import answer, show_findings, whose
from rdmadiag.render.grid import Grid, Indented
from rdmadiag.render.plain import shown
from rdmadiag.render.stacks import folded_names
from rdmadiag.view.cm_device import Taken
from rdmadiag.view.peer_route import PeerRoute, Witness
from rdmadiag.view.peer_stacks import StackWay

_TYPE: Final = {GidType.IB: "IB", GidType.ROCE_V1: "RoCE v1", GidType.ROCE_V2: "RoCE v2"}
_WITHOUT_ROW: Final = {
    Outcome.LID: "by LID",
    Outcome.ADDRESS: "by address, through rdma_cm",
    Outcome.FAILS: "ends with an error",
    Outcome.DROPS_PORT: "leaves the port out",
    Outcome.NOT_USED: "not this port, by a variable",
    Outcome.UNSUPPORTED: "cannot use this port",
}


def show(
    route: PeerRoute,
    stacks: Sequence[StackWay],
    verdict: RouteVerdict,
    host: Identity,
    to: Console | None = None,
    *,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Print it: the answer alone if `quiet`, evidence and remedy of notes too if `verbose`."""
    out = to or console()
    line = answer(verdict.status, verdict.findings, _answer(route), host)
    if verdict.status == Status.WARN:  # it has a device all the same
        said = f"  {_answer(route)}; {verdict.findings[0].summary}"
        line = word(verdict.status).append(said).append_text(whose(host))
    if quiet:
        say(out, line)
        return
    with in_view(out, line):
        say(out, line)
        table = Grid(show_header=False)
        table.add_column("", no_wrap=True)
        table.add_column("", overflow="fold")
        for name, value in _rows(route):
            table.add_row(Text(name, "dim"), Text(value))
        if table.row_count:
            out.print(table)
        show_findings(out, verdict.findings, notes=verbose)
        if stacks:
            out.print()
            out.print(Text("what each stack would take on this port", "dim"))
        for head, names in _picks(stacks):
            out.print(Indented(f"{head}: {', '.join(names)}", 2))


def _answer(route: PeerRoute) -> str:
    taken = route.taken
    if taken is None:
        return f"no device towards {route.destination}"
    row = f", GID {_row(taken)}" if taken.gid_index is not None else ""
    return (
        f"{taken.device}/{taken.port}{row} on {route.netdev or 'no netdev'} towards "
        f"{route.destination}"
    )


def _row(taken: Taken) -> str:
    kind = f", {_TYPE[taken.gid_type]}" if taken.gid_type else ""
    return f"{taken.gid_index} ({taken.gid}{kind})"


def _rows(route: PeerRoute) -> Iterator[tuple[str, str]]:
    if taken := route.taken:
        yield "device", f"{taken.device}/{taken.port}  {taken.protocol}"
        if taken.gid_index is not None:
            yield "GID", _row(taken)
    if route.source:
        yield "source", f"{route.source}{', as asked' if route.asked_source else ''}"
    if route.netdev:
        vlan = f", VLAN {route.vlan_id}" if route.vlan_id is not None else ""
        mtu = f", MTU {route.mtu}" if route.mtu is not None else ""
        yield "netdev", f"{route.netdev}{vlan}{mtu}"
    if route.path_mtu is not None:
        yield "path MTU", f"{route.path_mtu}, at most: the peer's may be smaller"
    yield from _way(route)
    if taken and taken.protocol == "roce":
        mode = route.roce_mode
        if isinstance(mode, Missing):
            kind = _TYPE[taken.gid_type] if taken.gid_type else "the default"
            yield "RoCE mode", f"{kind} is assumed; default_roce_mode: {mode.why}"
        else:
            yield "RoCE mode", _TYPE[mode]
    if route.stop:
        yield "a program sees", f"{route.stop.call}: {route.stop.name}"


def _way(route: PeerRoute) -> Iterator[tuple[str, str]]:
    if route.witness is Witness.KERNEL:
        table = f", table {route.table}" if route.table else ""
        rule = f", rule {route.rule}" if route.rule is not None else ""
        yield "way", f"as the kernel answers{table}{rule}"
    elif route.witness is Witness.TABLES and route.prefix:
        how = "assumed on the link" if route.assumed_on_link else f"{route.prefix} of table"
        table = "" if route.assumed_on_link else f" {route.table}"
        rule = "" if route.rule is None else f", rule {route.rule}"
        yield "way", f"{how}{table}{rule}, by the tables as they were read"
    if route.loopback:
        yield "peer", "this host itself"
    if hop := route.next_hop:
        entry = hop.entry
        known = (
            f"{shown(entry.state)}{f', {entry.mac}' if entry.mac else ''}"
            if isinstance(entry, Neighbour)
            else entry.detail or str(entry)
        )
        yield "next hop", f"{hop.address}{', a gateway' if hop.is_gateway else ''}: {known}"
    for each in route.choices:
        yield "one of", f"{each.netdev}{f' via {each.gateway}' if each.gateway else ''}"


def _picks(stacks: Sequence[StackWay]) -> Iterator[tuple[str, list[str]]]:
    """Those that take the same, together; rdma_cm's own first."""

    def head(way: StackWay) -> tuple[int, str]:
        if way.same and way.index is None:
            return 0, "as rdma_cm"
        if way.same:
            return 0, f"the same, index {way.index}"
        if way.outcome in _WITHOUT_ROW:
            return 2, _WITHOUT_ROW[way.outcome]
        kind = f", {_TYPE[way.type]}" if way.type else ""
        what = f" ({way.gid}{kind})" if way.gid else f", {way.outcome}"
        return 1, f"index {way.index}{what}"

    for (_, text), group in groupby(sorted(stacks, key=head), key=head):
        yield text, folded_names(_named(group))


def _named(ways: Iterable[StackWay]) -> Iterator[tuple[str, str]]:
    return ((each.stack, each.version) for each in ways)
