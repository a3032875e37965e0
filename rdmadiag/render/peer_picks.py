"""Two hosts as text: which stacks can talk over which ports, and which cannot."""

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console

from rdmadiag.facts import Identity
from rdmadiag.render.console import Text, console, say
from rdmadiag.render.grid import Indented
from rdmadiag.render.plain import counted
from rdmadiag.render.stacks import folded_names
from rdmadiag.view.peer_picks import PortPair, StackPair, Talks

_NAMED: Final = 4
_STYLE: Final = {
    Talks.NO: "red",
    Talks.UNKNOWN: "magenta",
    Talks.ROUTED: "yellow",
    Talks.YES: "green",
}
_WORD: Final = {
    Talks.NO: "cannot",
    Talks.UNKNOWN: "not known",
    Talks.ROUTED: "by a router",
    Talks.YES: "can talk",
}


def show_pairs(
    pairs: Sequence[PortPair], here: Identity, there: Any, to: Console | None = None
) -> None:
    """Print them, and that no packet was sent."""
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
    routed = sum(each.talks is Talks.ROUTED for each in every)
    if not every:
        return Text(f"{hosts}: no stack that was asked for uses these ports", "magenta")
    line = Text(f"{hosts}: ")
    where = counted(len(pairs), "pair") + " of ports"
    if bad:
        names = folded_names(dict.fromkeys((each.stack, each.version) for each in bad))
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        line.append(f"{len(bad)} of {len(every)} cannot talk, on {where}: ", "red")
        line.append(f"{', '.join(names[:_NAMED])}{more}", "red")
    elif all(each.talks is Talks.YES for each in every):
        line.append(f"all can talk, on {where}", "bold green")
    else:
        line.append(f"no obstacle is known for any, on {where}", "yellow")
    return line.append(f"; {routed} by a router alone" if routed else "", "yellow")


def _pair(out: Console, pair: PortPair) -> None:
    ends = (f"{end.device}/{end.port}" for end in (pair.local, pair.remote))
    out.print()
    say(out, Text(" - ".join(ends), "bold"))
    stack_lines(out, pair.stacks)


def stack_lines(out: Console, stacks: Sequence[StackPair], of_ports: str = "") -> None:
    """Stacks that stand alike in one line each, those that cannot talk first.

    `of_ports`: what has been said of their ports, and is not repeated of a stack.
    """
    for talks in _WORD:
        groups: dict[str, list[StackPair]] = {}
        for each in stacks:
            if each.talks is talks:
                said = f"{_indexes(each)}  {each.why}"
                groups.setdefault("as the ports" if each.why == of_ports else said, []).append(each)
        for said, group in groups.items():
            names = ", ".join(folded_names((each.stack, each.version) for each in group))
            line = Text("  ")
            line.append(_WORD[talks], _STYLE[talks])
            line.append(f"  {said}")
            say(out, line)
            out.print(Indented(names, 6))


def _indexes(pair: StackPair) -> str:
    here, there = (
        "-" if pick.index is None else str(pick.index) for pick in (pair.local, pair.remote)
    )
    return f"{here} → {there}"
