"""Findings as text: what a rule says, its evidence, and lines to paste."""

from collections.abc import Iterable, Iterator

from rich.console import Console

from rdmadiag.facts import Identity
from rdmadiag.preflight.verdict import Finding
from rdmadiag.render.console import STYLE, Text, say, verbatim, word
from rdmadiag.render.plain import printable


def show_findings(out: Console, findings: Iterable[Finding], *, notes: bool = False) -> None:
    """Print them, grouped by rule; evidence and remedy of notes too if `notes`."""
    for first, others in _by_rule(findings):
        _finding(out, first, others, notes=notes)


def answer(status: str, findings: tuple[Finding, ...], otherwise: str, host: Identity) -> Text:
    """The first line: the status and the worst finding, or `otherwise` where nothing is wrong."""
    line = word(status)
    if findings and status != "ok":
        line.append(f"  {printable(findings[0].summary)}")
        more = sum(each.severity != "info" for each in findings) - 1
        if more:
            line.append(f" (and {more} more)")
    else:
        line.append(f"  {printable(otherwise)}")
    return line.append_text(whose(host))


def whose(host: Identity) -> Text:
    """The host's name, and whether it was recorded."""
    return Text(
        f"  [{printable(host.hostname)}{', recorded' if host.recorded else ''}]", style="dim"
    )


def _by_rule(findings: Iterable[Finding]) -> Iterator[tuple[Finding, tuple[Finding, ...]]]:
    """Each rule's first finding of a severity, with the others that say the same elsewhere."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule, finding.severity), []).append(finding)
    for first, *others in groups.values():
        yield first, tuple(others)


def _finding(out: Console, finding: Finding, others: tuple[Finding, ...], *, notes: bool) -> None:
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
