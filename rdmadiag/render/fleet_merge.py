"""Many hosts as text: the answer, each reason with its nodes, what differs, what was not used."""

from collections.abc import Iterable, Iterator
from typing import Final

from rich.console import Console

from rdmadiag.fleet.merged import Compatibility, Drift, Gap, Group, HardwareClass, Merged, Unused
from rdmadiag.fleet.nodes import NotNodes, fold, shown, spread
from rdmadiag.fleet.odd_stacks import unlike
from rdmadiag.preflight.verdict import Severity, Status
from rdmadiag.render.alike import alike
from rdmadiag.render.console import STYLE, Text, console, in_view, say, steps, verbatim, word
from rdmadiag.render.fleet_answer import WORDS, answer, reason
from rdmadiag.render.grid import Indented
from rdmadiag.render.plain import counted, printable

_MOST: Final = 20
"""Of one kind that are said; --verbose says all."""

_FEW: Final = 3
_LONG: Final = 400  # letters of a set of nodes that is wanted
_SHORT: Final = 48  # of one that tells which are meant
_VALUE: Final = 60  # letters


def show(
    merged: Merged, to: Console | None = None, *, quiet: bool = False, verbose: bool = False
) -> None:
    """Print it: the answer alone if `quiet`, everything if `verbose`."""
    out = to or console()
    line = word(merged.status).append(f" {answer(merged)}", style="")
    if quiet:
        say(out, line)
        return
    with in_view(out, line):
        say(out, line)
        for group in merged.groups:
            if verbose or group.severity is not Severity.INFO:
                _group(out, group, verbose=verbose)
        notes = [each for each in merged.groups if each.severity is Severity.INFO]
        if notes and not verbose:
            out.print()
            names = ", ".join(f"{reason(each.reason)} ({each.count})" for each in notes)
            say(out, f"Notes, with --verbose in full: {names}.")
        out.print()
        say(out, _counts(merged))
        _classes(out, merged, verbose=verbose)
        _drift(out, merged.drift, verbose=verbose)
        _compatibility(out, merged, verbose=verbose)
        _unused(out, merged.unused, verbose=verbose)


def _counts(merged: Merged) -> str:
    hosts = merged.hosts
    expected = "" if hosts.expected is None else f"{hosts.expected} expected, "
    return f"Hosts: {expected}{hosts.reported} reported, {hosts.fit} fit."


def _group(out: Console, group: Group, *, verbose: bool) -> None:
    out.print()
    head = Text(f"{group.severity:<8}  ", style=STYLE[group.severity])
    head.append(reason(group.reason), style="bold")
    nodes = _cut(group.nodes, _LONG, whole=verbose)
    head.append(f"  {counted(group.count, 'host')}: {nodes}", style="")
    say(out, head)
    out.print(Indented(group.summary, 4))
    for proof in group.evidence if verbose else ():
        verbatim(out, Text(f"    {proof.subject}: {proof.value}", style="dim"))
    steps(out, group.remedy)


def _classes(out: Console, merged: Merged, *, verbose: bool) -> None:
    if len(merged.classes) < 2 and all(each.compared for each in merged.classes):
        return
    out.print()
    say(out, "Kinds of hosts, each compared among its like:")
    for each in merged.classes if verbose else merged.classes[:_MOST]:
        nodes = _cut(each.nodes, _SHORT, whole=verbose)
        say(out, Text(f"  {each.name}  {counted(each.count, 'host')}: {nodes}"))
        for line in _unlike(each):
            out.print(Indented(line, 5))
    if not verbose:
        _rest(out, len(merged.classes))


def _cut(nodes: str, most: int, *, whole: bool) -> str:
    """A set of nodes that is read; --verbose and --json have all of one that is pasted."""
    return nodes if whole or len(nodes) <= most else f"{nodes[:most]}…"


def _unlike(one: HardwareClass) -> Iterator[str]:
    """Of a kind that is hardly one: a host that lost an adapter is alone in its own."""
    if not one.compared:
        own = "one host has" if one.count == 1 else "two hosts have"
        yield f"{own} no majority to differ from"
        differ = [f"{name} {value}" for name, value in one.unlike.items()]
        if one.like and differ:
            more = f", and {len(differ) - _FEW} more" if len(differ) > _FEW else ""
            yield f"as {one.like}, but: {', '.join(differ[:_FEW])}{more}"


def _drift(out: Console, drift: tuple[Drift, ...], *, verbose: bool) -> None:
    if not drift:
        return
    out.print()
    say(out, "Differs among hosts of one kind:")
    several = len({each.hardware_class for each in drift}) > 1
    groups = [[each] for each in drift] if verbose else alike(drift, _of_the_same)
    for group in groups if verbose else groups[:_MOST]:
        kind = f"{group[0].hardware_class} " if several else ""
        first = group if len(group) < _FEW + 2 else group[:_FEW]
        for each in first:
            _fact(out, each, kind, verbose=verbose)
        if more := [each.fact for each in group[len(first) :]]:
            say(out, Text(f"  {kind}and {len(more)} more facts of the same hosts (--verbose):"))
            out.print(Indented(_few(more), 4))
    if not verbose:
        _rest(out, len(groups))


def _of_the_same(each: Drift) -> tuple[str, frozenset[str], str]:
    """The hosts that differ; where there is no majority all, in their parts."""
    return each.hardware_class, frozenset(odd.nodes for odd in each.odd), each.unread


def _fact(out: Console, one: Drift, kind: str, *, verbose: bool) -> None:
    most = "no majority"
    if one.majority is not None:
        most = f"{_value(one.majority)} on {one.count}"
    say(out, Text(f"  {kind}{one.fact}: {most}"))
    for odd in one.odd:
        nodes = _cut(odd.nodes, _LONG, whole=verbose)
        say(out, Text(f"    {_value(odd.value)} on {odd.count}: {nodes}"))
    if one.unread:
        say(out, Text(f"    not read: {_cut(one.unread, _SHORT, whole=verbose)}"))


def _value(text: str) -> str:
    return printable(text if len(text) <= _VALUE else f"{text[:_VALUE]}…")


def _compatibility(out: Console, merged: Merged, *, verbose: bool) -> None:
    """What is alike in stacks, result and reason stands once, with the pairs that it is of."""
    if merged.unjudged:
        out.print()
        left = _cut(merged.unjudged, _LONG, whole=verbose)
        say(out, f"Too many kinds of hosts to hold each against each; left out: {left}")
    rows = merged.compatibility if verbose else unlike(merged.compatibility)
    critical = {} if verbose else _critical(merged, rows)
    found: dict[tuple[str, bool | None, str], list[str]] = {}
    for each in rows:
        if each.one in critical or each.other in critical:
            continue
        key = each.stack, each.works, each.why
        ends = (_cut(end, _SHORT, whole=verbose) for end in (each.one, each.other))
        found.setdefault(key, []).append(" with ".join(ends))
    if not found and not critical:
        return
    out.print()
    heading = "What stacks would do between hosts, by what they pick:"
    say(out, heading if verbose else "Stacks that work elsewhere, but not between these hosts:")
    for (stack, works, why), between in list(found.items())[: None if verbose else _MOST]:
        result = {True: "works", False: "fails", None: "not known"}[works]
        names = stack if verbose else _few(stack.split(", "))
        say(out, Text(f"  {result}: {names}: {why}"))
        for pair in between if verbose else between[:_FEW]:
            say(out, Text(f"    {pair}"))
        if len(between) > _FEW and not verbose:
            say(out, f"    and {counted(len(between) - _FEW, 'more pair')} of groups")
    if not verbose:
        _rest(out, len(found))
    if critical:
        nodes = _cut(fold(frozenset().union(*critical.values())), _LONG, whole=False)
        say(out, Text(f"  with hosts that are critical, see above (--verbose): {nodes}"))


def _critical(merged: Merged, rows: Iterable[Compatibility]) -> dict[str, frozenset[str]]:
    """Of the sets of hosts in `rows` those of critical hosts alone, and which hosts these are."""
    hosts = frozenset(row.node for row in merged.rows if row.status is Status.CRITICAL)
    sets = dict.fromkeys(end for each in rows for end in (each.one, each.other))
    found = {text: _nodes(text) for text in sets if hosts}
    return {text: nodes for text, nodes in found.items() if nodes <= hosts}


def _nodes(text: str) -> frozenset[str]:
    """Of a set; of one with a name that is none, the text: it is no host's name."""
    try:
        return frozenset(spread(text))
    except NotNodes:
        return frozenset((text,))


def _few(names: list[str]) -> str:
    more = len(names) - _FEW
    return ", ".join(names) if more < 2 else f"{', '.join(names[:_FEW])} and {more} more"


def _unused(out: Console, unused: tuple[Unused, ...], *, verbose: bool) -> None:
    read = [each for each in unused if each.gap is not Gap.NEVER_REPORTED]
    if not read:
        return
    out.print()
    say(out, "Read, and not used:")
    for each in read if verbose else read[:_MOST]:
        whose = f"{shown(each.node)} " if each.node else ""
        where = f"{each.where}: " if each.where else ""
        said = f"{whose}{WORDS[each.gap]}: " if each.node else f"{each.gap}: "
        say(out, Text(f"  {said}{where}{each.detail}"))
    if not verbose:
        _rest(out, len(read))


def _rest(out: Console, number: int) -> None:
    if number > _MOST:
        say(out, f"  and {number - _MOST} more (--verbose)")
