"""The verdict as text: the answer first, then each finding with its remedy, then the ports."""

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rdmadiag.facts import Identity
from rdmadiag.preflight.safety import CAVEAT, REASON_TEXT
from rdmadiag.preflight.verdict import ExpectationCount, Finding, PortVerdict, Verdict
from rdmadiag.render.answer import answer
from rdmadiag.render.console import STYLE, console, counted, printable, say, shown, verbatim, word


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
    for first, others in _by_rule(verdict.findings):
        _finding(out, first, others, notes=verbose)
    if verdict.expectations:
        out.print()
        say(out, _expectations(verdict.expectations))
    if verdict.ports:
        out.print()
        out.print(_ports(verdict.ports))
        _reasons(out, verdict.ports)
        safe = sum(port.safe_to_attempt_rtr for port in verdict.ports)
        say(
            out,
            f"RTR: one bounded attempt is permitted on {safe} of "
            f"{counted(len(verdict.ports), 'port')} ({CAVEAT}).",
        )


def _answer(verdict: Verdict, host: Identity) -> Text:
    line = word(verdict.status)
    line.append(f"  {answer(verdict)}", style="")
    line.append(
        f"  [{printable(host.hostname)}{', recorded' if host.recorded else ''}]", style="dim"
    )
    return line


def _by_rule(findings: Iterable[Finding]) -> Iterator[tuple[Finding, tuple[Finding, ...]]]:
    """Each rule's first finding of a severity, with the others that say the same elsewhere."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule, finding.severity), []).append(finding)
    for first, *others in groups.values():
        yield first, tuple(others)


def _expectations(count: ExpectationCount) -> str:
    unknown = f", {count.unknown} could not be looked at" if count.unknown else ""
    return f"Expectations: {count.met} of {count.compared} met{unknown}."


def _finding(
    out: Console, finding: Finding, others: tuple[Finding, ...], *, notes: bool = False
) -> None:
    out.print()
    head = Text(f"{finding.severity:<8}  ", style=STYLE[finding.severity])
    head.append(finding.rule, style="bold")
    head.append(f"  {printable(finding.summary)}", style="")
    say(out, head)
    if finding.severity == "info" and not notes:
        return  # a note; --verbose and --json have its evidence and remedy
    for proof in finding.evidence:
        value = proof.value.replace(f"{proof.subject}: ", "")  # a Missing names its file too
        verbatim(out, Text(f"    {printable(f'{proof.subject}: {value}')}", style="dim"))
    for line in finding.remedy:
        verbatim(out, f"    {printable(line)}")
    given = set(finding.remedy)
    for other in others:
        say(out, f"    also: {printable(other.summary)}")
        for line in other.remedy:
            if line not in given:
                verbatim(out, f"    {printable(line)}")
        given |= set(other.remedy)


def _ports(ports: tuple[PortVerdict, ...]) -> Padding:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("PORT", "LINK", "STATE", "ROUTE GID", "RTR"):
        table.add_column(name, overflow="fold", no_wrap=name != "ROUTE GID")
    for port in ports:
        route = "-" if port.route_gid_index is None else f"{port.route_gid_index}  {port.route_gid}"
        verdict = Text("permitted", "green") if port.safe_to_attempt_rtr else Text("no", "red")
        table.add_row(
            f"{port.device}/{port.port}",
            shown(port.link_layer, "?"),
            shown(port.state, "?"),
            route,
            verdict,
        )
    return Padding(table, 0)


def _reasons(out: Console, ports: tuple[PortVerdict, ...]) -> None:
    """Each reason once, with the ports that it holds for."""
    held: dict[str, list[str]] = {}
    for port in ports:
        for reason in port.reasons:
            held.setdefault(f"{REASON_TEXT[reason]} ({reason})", []).append(
                f"{port.device}/{port.port}"
            )
    for text, names in held.items():
        say(out, f"no RTR on {', '.join(names)}: {text}")
