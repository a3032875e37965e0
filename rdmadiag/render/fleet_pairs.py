"""Pairs of a fleet as text: the answer, each odd part with its evidence, and a small heat map."""

from typing import Any, Final

from rich.console import Console

from rdmadiag.fleet.matrix import status
from rdmadiag.fleet.pair_results import OddKind, OddPart, Tournament
from rdmadiag.preflight.verdict import Status
from rdmadiag.render.console import STYLE, Text, console, in_view, say, word
from rdmadiag.render.grid import Indented
from rdmadiag.render.heat_map import HeatMap, Tally, heat_map
from rdmadiag.render.json import members
from rdmadiag.render.plain import counted, printable

_MOST: Final = 20
"""Of one kind that are said; --verbose says all."""
_SQUARES: Final = 30
"""Rows and columns of the heat map: with their names so many fit into 80 columns."""
_LABEL: Final = 17
_NAMES: Final = 4
_SLOW: Final = 1.1
_VERY_SLOW: Final = 1.5

_WHAT: Final = {
    OddKind.NODE: "node",
    OddKind.NIC: "adapter",
    OddKind.PATH: "path",
    OddKind.BOUNDARY: "boundary",
    OddKind.FLEET: "the whole fleet",
    OddKind.UNDECIDED: "one of",
}


def document(found: Tournament) -> dict[str, Any]:
    """The parts of `fleet pairs --json`."""
    return {"status": status(found), **members(found)}


def show(
    found: Tournament, to: Console | None = None, *, quiet: bool = False, verbose: bool = False
) -> None:
    """Print it: the answer alone if `quiet`, all of every list if `verbose`."""
    out = to or console()
    line = word(status(found)).append(f"  {printable(answer(found))}", style="")
    if quiet:
        say(out, line)
        return
    with in_view(out, line):
        say(out, line)
        for part in found.odd if verbose else found.odd[:_MOST]:
            _part(out, part)
        _rest(out, len(found.odd), "odd parts", verbose=verbose)
        _silent(out, found, verbose=verbose)
        _left_out(out, found, verbose=verbose)
        if found.matrix.cells:
            _map(out, heat_map(found.matrix))


def answer(found: Tournament) -> str:
    """The first line without the status."""
    number = len(found.matrix.cells)
    where = f"{counted(number, 'pair')} of {counted(found.nodes, 'node')}"
    tried = f"{where}, {counted(found.rounds, 'round')}"
    said = [f"{name(part)} {_how(part)}" for part in found.odd[:1]]
    if len(found.odd) > 1:
        said.append(f"and {len(found.odd) - 1} more")
    if found.unreported:
        said.append(f"{counted(len(found.unreported), 'end')} never reported")
    if found.left_out and not found.unreported:
        said.append(f"{counted(len(found.left_out), 'end')} left out")
    if found.unplayed:
        said.append(f"{counted(found.unplayed, 'more round')} not played")
    if not number:
        return "no pair was tried"
    return f"{', '.join(said)} ({tried})" if said else f"{tried}: none is odd"


def name(part: OddPart) -> str:
    """ "node n017", "path n001:mlx5_0 - n002:mlx5_0"."""
    if part.kind is OddKind.FLEET:
        return _WHAT[part.kind]
    names = list(part.names[:_NAMES])
    if len(part.names) > _NAMES:
        names.append(f"{len(part.names) - _NAMES} more")
    by = " - " if part.kind in (OddKind.PATH, OddKind.BOUNDARY) else ", "
    return f"{_WHAT[part.kind]} {by.join(names)}"


def _how(part: OddPart) -> str:
    return "fails" if part.slower is None else f"is {part.slower:.2f} times slower"


def _part(out: Console, part: OddPart) -> None:
    severity = Status.CRITICAL if part.slower is None else Status.WARN
    out.print()
    head = Text(f"{severity:<8}  ", style=STYLE[severity])
    head.append(part.kind, style="bold").append(f"  {name(part)} {_how(part)}", style="")
    say(out, head)
    for line in (*part.evidence, _seen(part)):
        out.print(Indented(line, 4))


def _seen(part: OddPart) -> str:
    again = "seen in more than one round" if part.repeated else "seen in one round"
    if part.kind is OddKind.FLEET:
        return f"of {counted(part.partners, 'node')}; nothing in it is its own measure"
    partners = counted(part.partners, "partner")
    if part.kind is OddKind.UNDECIDED:
        return f"cannot tell which of them: {partners}, {again}"
    return f"with {partners}, {again}"


def _rest(out: Console, number: int, what: str, *, verbose: bool) -> None:
    if number > _MOST and not verbose:
        say(out, f"  and {number - _MOST} more {what}: --verbose has all of them")


def _silent(out: Console, found: Tournament, *, verbose: bool) -> None:
    if not found.unreported:
        return
    out.print()
    say(out, Text("Never reported:", style=STYLE[Status.UNKNOWN]))
    for each in found.unreported if verbose else found.unreported[:_MOST]:
        out.print(Indented(each, 2))
    _rest(out, len(found.unreported), "ends", verbose=verbose)


def _left_out(out: Console, found: Tournament, *, verbose: bool) -> None:
    if found.left_out:
        out.print()
        say(out, Text("Took no part in later rounds:", style=STYLE[Status.UNKNOWN]))
        for each in found.left_out if verbose else found.left_out[:_MOST]:
            since = f"after round {each.round}" if each.round else "in any round"
            out.print(Indented(f"{each.end} {since}: {each.why}", 2))
        _rest(out, len(found.left_out), "ends", verbose=verbose)
    if found.unplayed:
        out.print()
        more = counted(found.unplayed, "more round")
        say(out, f"The deadline, or the end of the Slurm job, came before {more}.")


def _map(out: Console, whole: HeatMap) -> None:
    """What stands out comes first: the order is the matrix's."""
    size = -(-len(whole.labels) // _SQUARES)
    held: dict[tuple[int, int], list[Tally]] = {}
    for (sender, receiver), tally in whole.squares.items():
        held.setdefault((sender // size, receiver // size), []).append(tally)
    number = -(-len(whole.labels) // size)
    out.print()
    say(out, f"Rows send, columns receive, in one order{_each(size)}; of each square the worst:")
    for row in range(number):
        line = Text(f"  {_label(whole, row, size):<{_LABEL}} ")
        for column in range(number):
            sign, style = _sign(held.get((row, column), ()))
            line.append(f" {sign}", style=style)
        line.rstrip()
        out.print(line, soft_wrap=True)
    say(out, f"  . in order   + {_SLOW:g} times slower   # {_VERY_SLOW:g} times   X failed")


def _each(size: int) -> str:
    return f", {size} to each" if size > 1 else ""


def _label(whole: HeatMap, row: int, size: int) -> str:
    text = printable(whole.labels[row * size])
    more = "…" if size > 1 else ""
    return text[: _LABEL - len(more)] + more


def _sign(tallies: "tuple[Tally, ...] | list[Tally]") -> tuple[str, str]:
    if not tallies:
        return " ", ""
    if any(each.failed for each in tallies):
        return "X", STYLE[Status.CRITICAL]
    slower = max((each.worst or 1.0 for each in tallies), default=1.0)
    if slower >= _VERY_SLOW:
        return "#", STYLE[Status.CRITICAL]
    return ("+", STYLE[Status.WARN]) if slower >= _SLOW else (".", "")
