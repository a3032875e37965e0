"""The verdict as text: the answer first, then each finding with its remedy, then the ports."""

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rdmadiag.facts import Identity
from rdmadiag.preflight.safety import CAVEAT, REASON_TEXT, Reason
from rdmadiag.preflight.verdict import ExpectationCount, PortVerdict, Verdict
from rdmadiag.render.answer import answer
from rdmadiag.render.console import console, say, word
from rdmadiag.render.findings import show_findings, whose
from rdmadiag.render.plain import counted, printable, shown


def show(
    verdict: Verdict,
    host: Identity,
    to: Console | None = None,
    *,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Print it: the answer alone if `quiet`, evidence and remedy of notes too if `verbose`."""
    out = to or console()
    say(out, _answer(verdict, host))
    if quiet:
        return
    show_findings(out, verdict.findings, notes=verbose)
    if verdict.expectations:
        out.print()
        say(out, _expectations(verdict.expectations))
    if verdict.ports:
        out.print()
        out.print(_ports(verdict.ports))
        _reasons(out, verdict)
        safe = sum(port.safe_to_attempt_rtr for port in verdict.ports)
        say(
            out,
            f"RTR: one bounded attempt is permitted on {safe} of "
            f"{counted(len(verdict.ports), 'port')} ({CAVEAT}).",
        )
    elif verdict.reasons:
        out.print()
        say(out, f"RTR: no attempt is permitted: {', '.join(verdict.reasons)}.")


def _answer(verdict: Verdict, host: Identity) -> Text:
    line = word(verdict.status)
    line.append(f"  {answer(verdict)}", style="")
    return line.append_text(whose(host))


def _expectations(count: ExpectationCount) -> str:
    unknown = f", {count.unknown} could not be looked at" if count.unknown else ""
    return f"Expectations: {count.met} of {count.compared} met{unknown}."


def _ports(ports: tuple[PortVerdict, ...]) -> Padding:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("PORT", "LINK", "STATE", "ROUTE GID", "RTR"):
        table.add_column(name, overflow="fold", no_wrap=name != "ROUTE GID")
    for port in ports:
        route = "-" if port.route_gid_index is None else f"{port.route_gid_index}  {port.route_gid}"
        verdict = Text("permitted", "green") if port.safe_to_attempt_rtr else Text("no", "red")
        table.add_row(
            printable(f"{port.device}/{port.port}"),
            shown(port.link_layer, "?"),
            shown(port.state, "?"),
            route,
            verdict,
        )
    return Padding(table, 0)


def _reasons(out: Console, verdict: Verdict) -> None:
    """Each reason once: those of the host alone, then the others with their ports."""
    held: dict[Reason, list[str]] = {}
    for port in verdict.ports:
        for reason in port.reasons:
            held.setdefault(reason, []).append(f"{port.device}/{port.port}")
    if not verdict.safe_to_attempt_rtr:
        for reason in verdict.reasons:
            if reason not in held:
                say(out, f"no RTR on this host: {REASON_TEXT[reason]} ({reason})")
    for reason, names in held.items():
        say(out, f"no RTR on {printable(', '.join(names))}: {REASON_TEXT[reason]} ({reason})")
