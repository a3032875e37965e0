"""Two hosts as text: which stacks can talk over which ports, and which cannot."""

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from rdmadiag.facts import Identity
from rdmadiag.preflight.peer_picks import PortPair, StackPair, Talks
from rdmadiag.render.console import console, counted, say
from rdmadiag.render.stacks import labelled

_STYLE: Final = {Talks.NO: "red", Talks.UNKNOWN: "magenta", Talks.ROUTED: "yellow"}
_WORD: Final = {
    Talks.NO: "cannot",
    Talks.UNKNOWN: "not known",
    Talks.ROUTED: "by a router",
    Talks.YES: "can talk",
}


def show_pairs(
    pairs: Sequence[PortPair], here: Identity, there: Any, to: Console | None = None
) -> None:
    """Print them; no traffic was sent, and that is said."""
    out = to or console()
    hosts = f"{here.hostname} and {there.hostname}"
    if not pairs:
        say(out, f"{hosts} have no active ports of one kind to pair")
        return
    say(out, _answer(pairs, hosts))
    for pair in pairs:
        _pair(out, pair)
    out.print(Text("  from both tables alone: no packet was sent", "dim"))


def _answer(pairs: Sequence[PortPair], hosts: str) -> Text:
    every = [each for pair in pairs for each in pair.stacks]
    bad = [each for each in every if each.talks is Talks.NO]
    if not every:
        return Text(f"{hosts}: no stack that was asked for uses these ports", "magenta")
    if not bad:
        style = "bold green" if all(e.talks is Talks.YES for e in every) else "yellow"
        sure = "can talk" if style == "bold green" else "are not known to fail"
        return Text(f"{hosts}: all rules {sure} on {counted(len(pairs), 'pair')} of ports", style)
    names = list(dict.fromkeys(labelled(each.stack, each.version) for each in bad))
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    line = Text(f"{hosts}: {len(every) - len(bad)} of {len(every)} can talk", "yellow")
    return line.append(f"; not {', '.join(names[:4])}{more}", "red")


def _pair(out: Console, pair: PortPair) -> None:
    ends = (f"{end.device}/{end.port}" for end in (pair.local, pair.remote))
    say(out, Text("\n" + " - ".join(ends), "bold"))
    for talks in (Talks.NO, Talks.UNKNOWN, Talks.ROUTED):
        found = [each for each in pair.stacks if each.talks is talks]
        if not found:
            continue
        say(out, Text(f"  {_WORD[talks]}", _STYLE[talks]))
        grid = Grid(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        grid.add_column("", no_wrap=True)
        grid.add_column("", no_wrap=True)
        grid.add_column("", overflow="fold")
        for each in found:
            grid.add_row(f"      {labelled(each.stack, each.version)}", _indexes(each), each.why)
        out.print(grid)
    well = [each for each in pair.stacks if each.talks is Talks.YES]
    if well:
        names = ", ".join(f"{labelled(e.stack, e.version)} ({_indexes(e)})" for e in well)
        out.print(Padding(Text(f"{_WORD[Talks.YES]}: {names}"), (0, 0, 0, 2)))


def _indexes(pair: StackPair) -> str:
    here, there = (
        "-" if pick.index is None else str(pick.index) for pick in (pair.local, pair.remote)
    )
    return f"{here} → {there}"
