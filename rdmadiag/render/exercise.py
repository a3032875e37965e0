"""The matrix of `exercise`: a row an operation, a column a kind of queue pair."""

from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from rdmadiag.facts.exercise import Cell, CellState, Operation, RunOutcome, Via
from rdmadiag.preflight.safety import REASON_TEXT, Reason
from rdmadiag.render.async_events import event_lines
from rdmadiag.render.console import STYLE, Text, console, say
from rdmadiag.render.grid import Grid
from rdmadiag.render.plain import printable
from rdmadiag.verbs.matrix import MATRIX

if TYPE_CHECKING:
    from rdmadiag.verbs.exercise import Ran

_STYLES: Final = {
    CellState.VERIFIED: STYLE["ok"],
    CellState.REFUSED: STYLE["critical"],
    CellState.FAILED: STYLE["critical"],
}
_ENDED_BADLY: Final = (RunOutcome.CALL_FAILED, RunOutcome.DIED, RunOutcome.WATCHDOG)


def show(ran: "Ran", to: Console | None = None) -> None:
    """Print it: the answer, the matrix, and a line for each cell that is not verified."""
    out, run = to or console(), ran.exercise
    bad = any(each.state in (CellState.REFUSED, CellState.FAILED) for each in run.cells)
    done = run.outcome is RunOutcome.DONE
    word = "VERIFIED" if done and not bad else "FAILED"
    if not run.touched and run.outcome not in _ENDED_BADLY:
        word = "NOT ATTEMPTED"
    style = {"VERIFIED": "ok", "FAILED": "critical"}.get(word, "unknown")
    ends = f"{run.device}/{run.port}" if run.device else ""
    if run.role and run.peer_device:
        way = "to" if run.role == "connect" else "for"
        ends += f" {way} {printable(run.peer_device)} at {run.peer}"
    elif run.peer_device and run.peer_device != run.device:
        ends += f" to {run.peer_device}"
    say(
        out,
        Text(word, style=STYLE[style]).append(
            f"  {ends}{'  ' if ends else ''}{run.summary}".rstrip()
        ),
    )
    if not run.touched:
        for line in _next(ran):
            out.print(line, soft_wrap=True)
        return
    out.print()
    out.print(_table(run.cells))
    target = "the peer compared it" if run.role == "listen" else "verified at the target"
    say(out, f"yes: {target}   -: not claimed   ?: not tried")
    notes = [each for each in run.cells if each.cause]
    if notes:
        out.print()
    for (state, cause), group in _by_cause(notes).items():
        names = ", ".join(f"{each.operation} {each.qp_type} {each.via}" for each in group[:_NAMED])
        more = f" and {len(group) - _NAMED} more" if len(group) > _NAMED else ""
        say(out, f"{names}{more}: {state.replace('_', ' ')}: {printable(cause)}")
    for line in event_lines(run.events):
        say(out, line)
    say(out, f"teardown {run.teardown}, {run.seconds:.1f} s")


_NAMED: Final = 4


def _by_cause(cells: list[Cell]) -> dict[tuple[str, str], list[Cell]]:
    found: dict[tuple[str, str], list[Cell]] = {}
    for each in cells:
        found.setdefault((each.state, each.cause or ""), []).append(each)
    return found


def _next(ran: "Ran") -> list[str]:
    """What to do about it."""
    outcome = ran.exercise.outcome
    command = f"rdmadiag exercise{' --cm' if ran.exercise.by_cm else ''} --allow-rtr"
    if outcome is RunOutcome.NOT_ALLOWED:
        return [f"    {command}{ran.asked}"]
    if any(Reason.IWARP_NEEDS_RDMA_CM in each.blocking for each in ran.chosen):
        text = REASON_TEXT[Reason.IWARP_NEEDS_RDMA_CM]
        return [f"    rdmadiag exercise --cm --allow-rtr   # {text}"]
    if outcome is RunOutcome.BUSY:
        return [
            f"    {'rdmadiag resources':{len(command) + 15}}   # who holds them",
            f"    {command} --even-if-busy   # beside them",
        ]
    if outcome is RunOutcome.NO_PEER:
        return [f"    {command} --listen ADDRESS   # first, on the other host"]
    if outcome in _SAID:
        return [f"    {printable(each.text)}" for each in ran.exercise.problems[1:]]
    reasons = [f"    {reason}" for each in ran.chosen for reason in each.blocking]
    return [*dict.fromkeys(reasons), "    rdmadiag preflight"]


_SAID: Final = (RunOutcome.MISMATCH, RunOutcome.PEER_REFUSED, RunOutcome.PEER_LOST)
"""What the summary says already."""


def _table(cells: tuple[Cell, ...]) -> Grid:
    table = Grid()
    table.add_column("OPERATION", no_wrap=True)
    found = {(each.operation, each.qp_type, each.via): each for each in cells}
    # Of a column of which nothing was tried, the reason stands below: 80 columns are few.
    tried = [each for each in cells if each.state not in _LEFT_OUT] or cells
    places = {(each.qp_type, each.via) for each in tried}
    columns = [place for place in MATRIX if place in places]
    for kind, via in columns:
        table.add_column(_SHORT_TYPE.get(kind, kind.upper()) + _SHORT_VIA[via], no_wrap=True)
    for operation in Operation:
        row = [found.get((operation, kind, via)) for kind, via in columns]
        if any(row):
            table.add_row(operation, *(_text(each) for each in row))
    return table


def _text(cell: Cell | None) -> Text:
    if cell is None:
        return Text("")
    return Text(_SHORT[cell.state], style=_STYLES.get(cell.state, "dim"))


_LEFT_OUT: Final = (CellState.NOT_CLAIMED, CellState.NOT_TRIED)
_SHORT_TYPE: Final = {"raw_packet": "RAW"}
_SHORT_VIA: Final = {Via.POLL: "", Via.CHANNEL: " event", Via.SRQ: " SRQ"}
_SHORT: Final = {
    CellState.VERIFIED: "yes",
    CellState.NOT_CLAIMED: "-",
    CellState.REFUSED: "REFUSED",
    CellState.FAILED: "FAILED",
    CellState.NOT_TRIED: "?",
}


def document(ran: "Ran") -> dict[str, Any]:
    """The JSON document, without its head."""
    run = ran.exercise
    found = {name: getattr(run, name) for name in run.__dataclass_fields__}
    found["reasons"] = [
        {"device": each.end.device, "port": each.end.port, "reason": reason}
        for each in (ran.chosen if not run.touched else ())
        for reason in each.blocking
    ]
    found["accepted_risks"] = list(ran.accepted)
    return found
