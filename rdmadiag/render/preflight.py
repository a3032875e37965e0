"""The verdict as text: the answer first, then each finding with its remedy, then the ports."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console

from rdmadiag.facts import Identity, Why
from rdmadiag.preflight.safety import CAVEAT, REASON_TEXT, Reason
from rdmadiag.preflight.verdict import ExpectationCount, PortVerdict, Verdict
from rdmadiag.render.answer import answer
from rdmadiag.render.console import Text, console, in_view, say, word
from rdmadiag.render.findings import show_findings, whose
from rdmadiag.render.grid import Grid
from rdmadiag.render.plain import counted, link, printable, shown, speed

if TYPE_CHECKING:  # loaded with --modules alone
    from rdmadiag.facts.modules import NetdevModule


def show(
    verdict: Verdict,
    host: Identity,
    to: Console | None = None,
    modules: "Sequence[NetdevModule]" = (),
    *,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Print it: the answer alone if `quiet`, evidence and remedy of notes too if `verbose`."""
    out = to or console()
    line = _answer(verdict, host)
    if quiet:
        say(out, line)
        return
    with in_view(out, line):
        say(out, line)
        _report(out, verdict, verbose=verbose)
        if modules:
            from rdmadiag.render.modules import show_modules

            show_modules(out, modules)


def _report(out: Console, verdict: Verdict, *, verbose: bool) -> None:
    show_findings(out, verdict.findings, notes=verbose)
    if verdict.expectations:
        out.print()
        say(out, _expectations(verdict.expectations))
    if verdict.skipped:
        out.print()
        say(out, _skipped(verdict))
        if verbose:
            for each in dict.fromkeys((each.need, each.rule) for each in verdict.skipped):
                say(out, printable(f"    {each[1]}: {each[0]}"))
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
        if any(port.ladder for port in verdict.ports):
            from rdmadiag.render.ladder import show_ladders

            show_ladders(out, verdict.ports)
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


def _skipped(verdict: Verdict) -> str:
    """How many, and for want of what: a source, or the file or call that gave nothing."""
    by_why: dict[Why, dict[str, None]] = {}
    for each in verdict.skipped:
        subject, colon, _ = each.detail.partition(": ")
        by_why.setdefault(each.why, {})[each.source or (subject if colon else each.need)] = None
    reasons = "; ".join(f"{_WORD[why]}: {_some(list(names))}" for why, names in by_why.items())
    count = len({each.rule for each in verdict.skipped})
    return (
        f"{count} of {len(verdict.rules_asked)} checks could not run, or not everywhere "
        f"({reasons})."
    )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{printable(', '.join(names[:_MOST]))}{more}"


_MOST: Final = 6
_WORD: Final = {
    Why.ABSENT: "not there",
    Why.DENIED: "denied",
    Why.UNSUPPORTED: "unsupported",
    Why.TIMEOUT: "timed out",
    Why.MALFORMED: "made no sense",
    Why.EXHAUSTED: "out of processes, descriptors or memory",
    Why.NOT_COLLECTED: "not looked at",
}


def _ports(ports: tuple[PortVerdict, ...]) -> Grid:
    table = Grid()
    for name in ("PORT", "LINK", "STATE", "RATE", "NETDEV", "ROUTE GID", "RTR"):
        table.add_column(name, overflow="fold", no_wrap=name != "ROUTE GID")
    for port in ports:
        route = "-" if port.route_gid_index is None else f"{port.route_gid_index}  {port.route_gid}"
        verdict = Text("permitted", "green") if port.safe_to_attempt_rtr else Text("no", "red")
        table.add_row(
            printable(f"{port.device}/{port.port}"),
            link(port.link_layer),
            shown(port.state, "?"),
            speed(port.rate_gbps),
            printable(shown(port.netdev)),
            route,
            verdict,
        )
    return table


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
        every = len(names) == len(verdict.ports) > 1
        where = f"any of {len(names)} ports" if every else ", ".join(names)
        say(out, f"no RTR on {printable(where)}: {REASON_TEXT[reason]} ({reason})")
