"""The rungs of each port as text: how far it gets, and the next one with what it takes."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console

from rdmadiag.preflight.ladder import next_step, reached
from rdmadiag.preflight.verdict import Footing, PortVerdict, Rung
from rdmadiag.render.console import Text, say, steps
from rdmadiag.render.plain import printable

_WORD: Final = {
    Footing.STOPPED: "stops at",
    Footing.UNKNOWN: "not known:",
    Footing.NOT_TRIED: "not tried:",
}


def show_ladders(out: Console, ports: Sequence[PortVerdict]) -> None:
    """A line a port, below it why it gets no further, and lines to paste."""
    out.print()
    say(out, Text(f"ladder: {', '.join(Rung)}", "dim"))
    for port in ports:
        step = next_step(port.ladder)
        line = Text(printable(f"{port.device}/{port.port}"), "bold")
        line.append(f"  {reached(port.ladder)}", "green")
        if step is None:
            say(out, line)
            continue
        line.append(f"; {_WORD[step.footing]} ", "")
        line.append(step.rung, "red" if step.footing is Footing.STOPPED else "yellow")
        say(out, line)
        why = f" ({step.why})" if step.why else ""
        say(out, f"  {printable(step.text)}{why}")
        steps(out, step.remedy)
