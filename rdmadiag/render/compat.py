"""Two ends as text: can they talk, then what stands at both, then what stacks would do."""

from collections.abc import Iterable
from typing import Final

from rich.console import Console

from rdmadiag.facts import Identity, Missing
from rdmadiag.preflight.judge_ends import EndFinding, EndsVerdict
from rdmadiag.preflight.verdict import Finding
from rdmadiag.render.console import STYLE, Text, console, in_view, say, steps
from rdmadiag.render.grid import Grid, Indented
from rdmadiag.render.peer_picks import stack_lines
from rdmadiag.render.plain import printable, shown
from rdmadiag.view.compat import Agreement, Compat, CompatRow, PortsBeside
from rdmadiag.view.peer_picks import Talks

_WORD: Final = {
    Talks.YES: ("CAN TALK", "ok"),
    Talks.ROUTED: ("BY A ROUTER", "warn"),
    Talks.UNKNOWN: ("NOT KNOWN", "unknown"),
    Talks.NO: ("CANNOT TALK", "critical"),
}
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
        for pair in found.ports:
            _ports(out, pair, verbose=verbose)
        _ways(out, ends)
        out.print()
        out.print(Text("from both records alone: no packet was sent", "dim"))


def _said(finding: Finding) -> tuple[str, str, str, tuple[str, ...]]:
    return finding.rule, finding.severity, finding.summary, finding.remedy


def _ways(out: Console, ends: EndsVerdict) -> None:
    """What both ends' reports show of their ways to each other, each with what mends it."""
    # An IPv4 and an IPv6 way of one port have much in common.
    once: dict[object, EndFinding] = {}
    for each in ends.findings:
        once.setdefault((each.hosts, _said(each.finding)), each)
    for each in once.values():
        out.print()
        line = Text(each.finding.severity, STYLE[each.finding.severity])
        line.append(f"  at {' and '.join(each.hosts)}: {each.finding.summary}", style="")
        say(out, line.append(f"  [{each.finding.rule}]", style="dim"))
        steps(out, each.finding.remedy)
    if ends.unknown:
        out.print()
    for one in ends.unknown:
        say(out, Text(f"not looked at: {printable(one)}", STYLE["unknown"]))


def _ports(out: Console, pair: PortsBeside, *, verbose: bool) -> None:
    here, there = (f"{end.device}/{end.port}" for end in (pair.here, pair.there))
    word, style = _WORD[pair.talks]
    out.print()
    line = Text(f"{here} - {there}  ", "bold").append(word.lower(), STYLE[style])
    say(out, line.append(f"  {pair.why}", style=""))
    _table(out, "", here, there, pair.rows, verbose=verbose)
    stack_lines(out, pair.stacks)


def _table(
    out: Console, title: str, here: str, there: str, rows: Iterable[CompatRow], *, verbose: bool
) -> None:
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
            if each.why:
                out.print(Indented(f"{each.subject}: {each.why}", 4))
    if same and not verbose:
        if title and not held:
            out.print()
        out.print(Indented(f"the same: {', '.join(same)}", 2, "dim"))


def _cell(value: str | Missing) -> str:
    return shown(value)
