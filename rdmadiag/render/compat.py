"""Two ends as text: can they talk, then what stands at both, then what stacks would do."""

from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console

from rdmadiag.facts import Identity, Missing
from rdmadiag.gid.pick import Pick
from rdmadiag.preflight.judge_ends import EndFinding, EndsVerdict
from rdmadiag.quoting import shell_word
from rdmadiag.render.console import STYLE, Text, console, in_view, say, steps
from rdmadiag.render.grid import Grid, Indented
from rdmadiag.render.peer_picks import stack_lines
from rdmadiag.render.plain import printable, shown
from rdmadiag.view.compat import Compat, PortsBeside
from rdmadiag.view.compat_rows import Agreement, CompatRow
from rdmadiag.view.peer_picks import Talks

_WORD: Final = {
    Talks.YES: ("CAN TALK", "ok"),
    Talks.ROUTED: ("BY A ROUTER", "warn"),
    Talks.UNKNOWN: ("NOT KNOWN", "unknown"),
    Talks.NO: ("CANNOT TALK", "critical"),
}
_NAMED: Final = 3
_STYLE: Final = {
    Agreement.SAME: "",
    Agreement.DIFFERS: STYLE["warn"],
    Agreement.STOPS: STYLE["critical"],
    Agreement.UNKNOWN: STYLE["unknown"],
}


def show(
    found: Compat,
    ends: EndsVerdict,
    here: Identity,
    there: Identity,
    to: Console | None = None,
    *,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Print it: the answer alone if `quiet`; rows that are the same too if `verbose`."""
    out = to or console()
    word, style = _WORD[found.talks]
    line = Text(word, STYLE[style]).append(f"  {here.hostname} and {there.hostname}: ", style="")
    line.append(found.why, style="")
    if quiet:
        say(out, line)
        return
    with in_view(out, line):
        say(out, line)
        _table(out, "hosts", here.hostname, there.hostname, found.rows, verbose=verbose)
        first, *others = _alike(found.ports, verbose=verbose) or [()]
        if first:
            _ports(out, first, verbose=verbose)
        for group in others:
            if verbose:
                _ports(out, group, verbose=True)
            else:
                out.print()
                _heading(out, group)
        if others and not verbose:
            out.print(Text("  --verbose has the rows and stacks of each pair of ports", "dim"))
        _ways(out, ends, verbose=verbose)
        out.print()
        out.print(Text("from both records alone: no packet was sent", "dim"))


# --- pairs of ports -----------------------------------------------------------------------


def _alike(every: Sequence[PortsBeside], *, verbose: bool) -> list[tuple[PortsBeside, ...]]:
    """Pairs of ports of which the same is to be shown, in their order; each alone if `verbose`."""
    groups: dict[object, list[PortsBeside]] = {}
    for at, pair in enumerate(every):
        groups.setdefault(at if verbose else _shown_of(pair), []).append(pair)
    return [tuple(group) for group in groups.values()]


def _shown_of(pair: PortsBeside) -> object:
    """What text shows of it, but for names and addresses."""
    rows = tuple(
        (each.subject, each.agreement, None if each.subject in _OWN else (each.here, each.there))
        for each in pair.rows
        if each.agreement is not Agreement.SAME
    )
    same = frozenset(each.subject for each in pair.rows if each.agreement is Agreement.SAME)
    stacks = tuple(
        (each.stack, each.version, each.talks, *(_pick(end) for end in (each.local, each.remote)))
        for each in pair.stacks
    )
    return pair.talks, pair.reason, rows, same, stacks


def _pick(pick: Pick) -> object:
    return pick.outcome, pick.index


_OWN: Final = frozenset({"subnets", "subnet_prefix", "cable"})
"""Rows whose values are each port's own."""


def _heading(out: Console, group: Sequence[PortsBeside]) -> None:
    """The first is the one that is described."""
    first = group[0]
    word, style = _WORD[first.talks]
    names = ", ".join(each.ends for each in group[:_NAMED])
    more = f" and {len(group) - _NAMED} more" if len(group) > _NAMED else ""
    line = Text(f"{names}{more}  ", "bold").append(word.lower(), STYLE[style])
    say(out, line.append(f"  {first.why}", style=""))


def _ports(out: Console, group: Sequence[PortsBeside], *, verbose: bool) -> None:
    out.print()
    _heading(out, group)
    pair = group[0]
    here, there = (f"{end.device}/{end.port}" for end in (pair.here, pair.there))
    _table(out, "", here, there, pair.rows, verbose=verbose, said=pair.why)
    stack_lines(out, pair.stacks, pair.why)


# --- findings -----------------------------------------------------------------------------


def _ways(out: Console, ends: EndsVerdict, *, verbose: bool) -> None:
    """What both ends' reports show of their ways to each other, each with what mends it."""
    groups: dict[object, list[EndFinding]] = {}
    for each in ends.findings:
        key = each.hosts, each.finding.rule, each.finding.severity
        groups.setdefault(key, []).append(each)
    for group in groups.values():
        out.print()
        _found(out, group, verbose=verbose)
    if ends.unknown:
        out.print()
    for one in ends.unknown:
        say(out, Text(f"not looked at: {printable(one)}", STYLE["unknown"]))


def _found(out: Console, group: Sequence[EndFinding], *, verbose: bool) -> None:
    """Of one rule and host: of several ports, or of an IPv4 and an IPv6 way."""
    most = len(group) if verbose else _NAMED
    first = group[0]
    said = dict.fromkeys(each.finding.summary for each in group)
    severity, rule = first.finding.severity, first.finding.rule
    summary, *others = said
    line = Text(severity, STYLE[severity]).append(f"  {summary}", style="")
    say(out, line.append(f"  [{rule}]", style="dim"))
    for each in others[:most]:
        out.print(Indented(each, 4))
    if len(others) > most:
        out.print(Indented(f"and {len(others) - most} more", 4))
    remedies = list(dict.fromkeys(each.finding.remedy for each in group))
    # What concerns both names them.
    where = () if first.hosts[1:] else (f"# on {shell_word(first.hosts[0])}",)
    steps(out, where)
    for lines in remedies if verbose else remedies[:1]:
        steps(out, lines)
    if remedies[1:] and not verbose:
        out.print(Text("    # the others need lines of their own: --verbose", "dim"))


def _table(
    out: Console,
    title: str,
    here: str,
    there: str,
    rows: Iterable[CompatRow],
    *,
    verbose: bool,
    said: str = "",
) -> None:
    """`said`: what stands above it already."""
    held = [each for each in rows if verbose or each.agreement is not Agreement.SAME]
    same = [each.subject for each in rows if each.agreement is Agreement.SAME]
    if held:
        if title:
            out.print()
        table = Grid()
        table.add_column(f"  {title}".upper() if title else "  PORT", no_wrap=True)
        for name in (here, there, ""):
            table.add_column(Text(name), overflow="fold")
        for each in held:
            word = Text(each.agreement, _STYLE[each.agreement])
            table.add_row(f"  {each.subject}", _cell(each.here), _cell(each.there), word)
        out.print(table)
        for each in held:
            if each.why and each.why != said:
                out.print(Indented(f"{each.subject}: {each.why}", 4))
    if same and not verbose:
        if title and not held:
            out.print()
        out.print(Indented(f"the same: {', '.join(same)}", 2, "dim"))


def _cell(value: str | Missing) -> str:
    return shown(value)
