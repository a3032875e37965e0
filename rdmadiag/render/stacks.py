"""What each stack would pick, as text: whether they agree, then those that do not."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from rich.console import Console

from rdmadiag.facts import GidEntry, Identity
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import GidType
from rdmadiag.gid.pick import Outcome, Pick
from rdmadiag.gid.registry import stacks
from rdmadiag.gid.route import Route
from rdmadiag.render.console import Text, console, say, steps, verbatim
from rdmadiag.render.findings import preflight, record
from rdmadiag.render.gids import TYPE_WORD, heading
from rdmadiag.render.grid import Grid, Indented
from rdmadiag.render.plain import counted
from rdmadiag.view.gid_tables import PortPicks
from rdmadiag.view.reconcile import Protocol
from rdmadiag.view.stack_picks import BY_GID
from rdmadiag.view.unshown import why_unknown

_NAMED: Final = 4  # in the first line
_APART: Final = (Outcome.NOT_USED, Outcome.UNSUPPORTED, Outcome.ADDRESS)


def show_stacks(
    tables: Sequence[PortPicks],
    unread: Mapping[str, str],
    evidence: Evidence,
    to: Console | None = None,
    *,
    host: Identity | None = None,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Print them, port by port; each port's answer alone if `quiet`.

    A port of which all is as on one above says so, unless `verbose`.
    """
    out = to or console()
    whole = record(host)
    for device, reason in unread.items():
        say(out, f"{device}  {reason}")
    if not tables and not unread:
        unknown = why_unknown(evidence)
        answer = f"no GID table: {unknown}" if unknown else "no RDMA device on this host"
        say(out, Text(answer).append_text(whole))
    if unread or not tables:
        steps(out, [preflight(host, "what that means")])
    above: dict[Hashable, str] = {}
    for number, table in enumerate(tables):
        if (number or unread) and not quiet:
            out.print()
        judged = [pick for pick in table.stacks if pick.outcome not in _APART]
        others = [pick for pick in judged if not _is_well(pick)]
        say(out, _answer(table, judged, others).append_text(Text() if number else whole))
        if quiet:
            continue
        like = above.setdefault(_choices(table), table.port.name)
        if like != table.port.name and table.stacks and not verbose:
            say(out, f"  each stack as on {like}; --verbose has all of it")
            continue
        _port(out, table, judged, others)


def _choices(table: PortPicks) -> Hashable:
    """What two ports have in common where the same is to be said of both."""
    picks = [(p.stack, p.version, p.outcome, p.index, _is_well(p)) for p in table.stacks]
    return table.port.protocol, table.route and table.route.index, tuple(picks)


def label(pick: Pick) -> str:
    """ "UCX ≥1.21", or the title alone where one rule holds for every version."""
    return labelled(pick.stack, pick.version)


def labelled(stack: str, version: str) -> str:
    """The stack's title with the version."""
    title = stacks()[stack].title
    return title if version == "any" else f"{title} {version}"


def _port(out: Console, table: PortPicks, judged: Sequence[Pick], others: Sequence[Pick]) -> None:
    well = [pick for pick in judged if _is_well(pick)]
    for _, group in groupby(sorted(others, key=_order), key=_group):
        _others(out, list(group))
    _remedy(out, others, table)
    if well:
        _folded(out, _agreement(table), _folded_names(well))
    apart = [pick for pick in table.stacks if pick.outcome in _APART]
    for why, same in groupby(sorted(apart, key=lambda each: each.why), key=lambda each: each.why):
        _folded(out, why, _folded_names(list(same)))
    for what, names in _assumed(judged).items():
        _folded(out, f"assumed: {what}", names, "dim")


def _is_well(pick: Pick) -> bool:
    return bool(pick.agrees) and pick.problem is None


def _answer(table: PortPicks, judged: Sequence[Pick], others: Sequence[Pick]) -> Text:
    line = heading(table.port)
    if table.missing:
        return line.append(f"GID table not read ({table.missing})", style="magenta")
    if table.port.protocol not in BY_GID:
        return line.append("unknown link layer" if table.route else table.port.route.reason)
    if not judged:
        return line.append("none of the stacks that were asked for uses this port")
    if table.route is None:
        return line.append(f"no route GID, {table.port.route.reason}", style="red")
    route = _route(table, table.route)
    if not others:
        how = f"all {len(judged)} agree on" if len(judged) > 1 else "it uses"
        return line.append(f"{how} {route}", style="bold green")
    well = len(judged) - len(others)
    line.append(f"not all agree on {route}", style="yellow" if well else "red")
    line.append(f": {well or 'none'} of {counted(len(judged), 'rule')} do")
    names = _folded_names(others)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return line.append(f"; not {', '.join(names[:_NAMED])}{more}")


def _route(table: PortPicks, route: Route) -> str:
    if table.port.protocol is Protocol.INFINIBAND:
        return "the LID, or GID 0"
    word = _type_word(route.entry, ", ")
    return f"the route GID, index {route.index} ({route.gid}{word})"


def _type_word(entry: GidEntry, before: str) -> str:
    kind = entry.known_type
    return "" if kind is None or kind is GidType.IB else f"{before}{TYPE_WORD[kind]}"


def _group(pick: Pick) -> tuple[int, int, str]:
    """What a group of picks has in common; the gravest first."""
    gravity = list(_HEADINGS).index(pick.outcome)
    return gravity, -1 if pick.index is None else pick.index, ""


def _order(pick: Pick) -> tuple[tuple[int, int, str], str]:
    return _group(pick), pick.stack


_HEADINGS: Final = {
    Outcome.EMPTY: "an empty row",
    Outcome.OUTSIDE: "beyond the table",
    Outcome.DROPS_PORT: "leave the port out",
    Outcome.FAILS: "fail",
    Outcome.ENTRY: "",
    Outcome.LID: "by LID",
}


def _others(out: Console, group: Sequence[Pick]) -> None:
    first = group[0]
    words = _HEADINGS[first.outcome]
    if first.outcome is Outcome.ENTRY and first.entry:
        words = f"{first.entry.gid}{_type_word(first.entry, ' ')}"
    index = "" if first.index is None else f"index {first.index}  "
    # What is wrong with the row is the same for most; the rest say what is their own.
    shared = Counter(pick.problem for pick in group).most_common(1)[0][0]
    if _is_plain(first):
        shared = None
    heading = Text(f"  {index}{words}", "bold")
    heading.append(f"  {shared}" if shared else "", "yellow")
    say(out, heading)
    grid = Grid(show_header=False, padding=(0, 2, 0, 0))
    grid.add_column("", no_wrap=True)
    grid.add_column("", overflow="fold")
    for pick in group:
        own = None if _is_plain(pick) or pick.problem == shared else pick.problem
        grid.add_row(f"      {label(pick)}", f"{pick.why}; {own}" if own else pick.why)
    out.print(grid)


def _is_plain(pick: Pick) -> bool:
    """Whether the heading holds its problem already."""
    return pick.outcome in (Outcome.DROPS_PORT, Outcome.FAILS)


def _remedy(out: Console, others: Sequence[Pick], table: PortPicks) -> None:
    if table.route is None or table.port.protocol is not Protocol.ROCE:
        return
    index = table.route.index
    lines: dict[str, list[str]] = {}
    for pick in others:
        stack = stacks()[pick.stack]
        if stack.pin:
            lines.setdefault(f"export {stack.pin.variable}={index}", []).append(label(pick))
        elif stack.option and "INDEX" in stack.option.split():
            lines.setdefault(stack.option_with(index), []).append(label(pick))
    for line, names in lines.items():
        verbatim(out, f"    {line}   # {', '.join(names)}")


def _agreement(table: PortPicks) -> str:
    if table.port.protocol is Protocol.INFINIBAND:
        return "by LID or GID 0"
    assert table.route is not None
    return f"index {table.route.index}"


def _folded_names(picks: Iterable[Pick]) -> list[str]:
    return folded_names((pick.stack, pick.version) for pick in picks)


def folded_names(named: Iterable[tuple[str, str]]) -> list[str]:
    """ "NCCL but ≤2.20", "UCX ≥1.21": a title once, with its versions or those that lack."""
    versions: dict[str, list[str]] = {}
    for name, version in named:
        versions.setdefault(name, []).append(version)
    found = []
    for name, held in versions.items():
        stack = stacks()[name]
        lacking = [each.name for each in stack.versions if each.name not in held]
        if not lacking:
            found.append(stack.title)
        elif len(lacking) < len(held):
            found.append(f"{stack.title} but {' and '.join(lacking)}")
        else:
            found.append(f"{stack.title} {' and '.join(held)}")
    return found


def _assumed(picks: Iterable[Pick]) -> dict[str, list[str]]:
    """Assumption → who makes it."""
    found: dict[str, list[Pick]] = {}
    for pick in picks:
        for what in pick.assumed:
            found.setdefault(what, []).append(pick)
    return {what: _folded_names(held) for what, held in found.items()}


def _folded(out: Console, head: str, names: Sequence[str], style: str = "") -> None:
    out.print(Indented(f"{head}: {', '.join(names)}", 2, style))
