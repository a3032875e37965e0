"""Findings as text: what a rule says, its evidence, and lines to paste."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Console

from rdmadiag.facts import Identity
from rdmadiag.preflight.verdict import Finding
from rdmadiag.ranges import folded
from rdmadiag.render.alike import alike, form
from rdmadiag.render.console import STYLE, Text, say, steps, verbatim, word
from rdmadiag.render.plain import printable
from rdmadiag.render.see import seen_at


def show_findings(out: Console, findings: Iterable[Finding], *, notes: bool = False) -> None:
    """Print them below the answer, grouped by rule; all of notes and of each group if `notes`."""
    every = tuple(findings)
    serious = [each for each in every if each.severity != "info"]
    answered = serious[0] if len(serious) == 1 else None  # the answer has said it in full
    for first, others in _by_rule(every):
        _finding(out, first, others, named=first is answered, notes=notes)


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
    """The host's name, and whether it was recorded; a sample's own name."""
    name = f"{host.hostname}{', recorded' if host.recorded else ''}"
    return Text(f"  [{printable(f'sample {host.sample}' if host.sample else name)}]", style="dim")


def record(host: Identity | None) -> Text:
    """Behind the first line of what needs no name on a live host: of which record it is."""
    return whose(host) if host and host.recorded else Text()


def preflight(host: Identity | None, why: str) -> str:
    """The line to paste that judges the same host, and why; where a record lies is not known."""
    of = f" --sample {host.sample}" if host and host.sample else ""
    if host and host.recorded and not of:
        of = " --from RECORD"
    return f"rdmadiag preflight{of}   # {why}"


def _by_rule(findings: Iterable[Finding]) -> Iterator[tuple[Finding, tuple[Finding, ...]]]:
    """Each rule's first finding of a severity, with the others that say the same elsewhere."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule, finding.severity), []).append(finding)
    for first, *others in groups.values():
        yield first, tuple(others)


_FEW: Final = 3
"""So many others of a rule are said in full; --verbose says all."""

_PLACES: Final = 20
"""So many of one list."""


def _finding(
    out: Console, finding: Finding, others: Sequence[Finding], *, named: bool, notes: bool
) -> None:
    out.print()
    head = Text(f"{finding.severity:<8}  ", style=STYLE[finding.severity])
    head.append(finding.rule, style="bold")
    head.append("" if named else f"  {printable(finding.summary)}", style="")
    say(out, head)
    _others(out, finding, others, notes=notes)
    if finding.severity == "info" and not notes:
        return  # a note; --verbose and --json have its evidence and remedy
    if finding.evidence:
        say(out, Text("  evidence:", "dim"))
    for proof in finding.evidence:
        value = proof.value.replace(f"{proof.subject}: ", "")  # a Missing names its file too
        verbatim(out, Text(f"    {printable(f'{proof.subject}: {value}')}", style="dim"))
    _remedy(out, finding, others, whole=notes)
    _see(out, finding)


def _others(out: Console, first: Finding, others: Sequence[Finding], *, notes: bool) -> None:
    """What differs in names alone is a list of places; of the rest some sentences."""
    same = [each for each in others if form(each.summary) == form(first.summary)]
    if same:
        say(out, f"  also: {_places(same, whole=notes)}")
    for number, group in enumerate(alike((o for o in others if o not in same), _form)):
        if number == _FEW and not notes:
            say(out, "  and others: --verbose has all of them")
            return
        more = f" (and {_places(group[1:], whole=notes)})" if group[1:] else ""
        say(out, f"  also: {printable(group[0].summary)}{more}")


def _places(several: Iterable[Finding], *, whole: bool) -> str:
    """The ports, devices or sentences: mlx5_[1-63]/1."""
    places = list(dict.fromkeys(map(_place, several)))
    if not whole:
        places = folded(places)
    more = len(places) - _PLACES
    if more > 0 and not whole:
        places[_PLACES:] = [f"and {more} more"]
    return printable(", ".join(places))


def _form(finding: Finding) -> str:
    return form(finding.summary)


def _place(finding: Finding) -> str:
    if finding.device is None:
        return finding.summary
    return finding.device if finding.port is None else f"{finding.device}/{finding.port}"


def _see(out: Console, finding: Finding) -> None:
    """The rule's page where this host knows of the site; else the command that says the same."""
    if where := seen_at(finding.see or ""):
        verbatim(out, Text(f"  see {where}", "dim"))
    else:
        verbatim(out, Text(f"  see rdmadiag explain {printable(finding.rule)}", "dim"))


def _remedy(out: Console, finding: Finding, others: Sequence[Finding], *, whole: bool) -> None:
    """Lines to paste, each once, of the first few findings alone unless `whole`."""
    shown = (finding, *others) if whole else (finding, *others[:_FEW])
    lines = dict.fromkeys(line for each in shown for line in each.remedy)
    left_out = any(set(each.remedy) - lines.keys() for each in others)
    if lines:
        say(out, Text("  remedy:", "dim"))
    steps(out, lines)
    if left_out:
        rest = len(others) + 1 - len(shown)
        verbatim(out, f"    # the same for the other {rest}: --verbose has their lines")
