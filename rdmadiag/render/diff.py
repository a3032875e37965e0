"""Two records as text: new problems, fixed ones, what else changed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console

from rdmadiag.facts import Identity
from rdmadiag.fleet.changed import Change, ChangeKind, Differences, NotCompared, Part, Which
from rdmadiag.fleet.fact_names import place_of
from rdmadiag.fleet.fact_table import NONE
from rdmadiag.render.console import STYLE, Text, console, in_view, say, steps
from rdmadiag.render.grid import Indented
from rdmadiag.render.plain import counted, printable

_FEW: Final = 3
_VALUE: Final = 100  # letters
_SHORT: Final = 60  # letters, of one part of a value
_BEFORE: Final = 20  # letters of it before what differs
_OF_ONE: Final = {
    ChangeKind.WORSE: "New problems:",
    ChangeKind.BETTER: "Fixed:",
    ChangeKind.CHANGED: "Other changes:",
}
_OF_TWO: Final = {
    ChangeKind.WORSE: "Problems of B alone:",
    ChangeKind.BETTER: "Problems of A alone:",
    ChangeKind.CHANGED: "Other differences:",
}
"""Of two hosts: nothing was fixed from one to the other."""
_STYLE: Final = {
    "worse": "bold red",
    "better": "bold green",
    "changed": "bold yellow",
    "same": "bold green",
}


def show(
    found: Differences,
    before: Identity,
    after: Identity,
    to: Console | None = None,
    *,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Print it: the answer alone if `quiet`."""
    out = to or console()
    word, text = answer(found)
    style = _STYLE.get(word, STYLE["unknown"])
    line = Text(word.upper(), style).append(f"  {text}", style="")
    if quiet:
        say(out, line)
        return
    with in_view(out, line):
        say(out, line)
        say(out, Text(_hosts(found, before, after), "dim"))
        body(found, out, verbose=verbose)


def show_since(
    found: Differences,
    record: str,
    before: Identity,
    after: Identity,
    to: Console,
    *,
    verbose: bool,
) -> None:
    """A section behind a verdict: what changed since that record."""
    word, text = answer(found)
    style = _STYLE.get(word, STYLE["unknown"])
    to.print()
    line = Text(f"Since {record}: ", "bold").append(word.upper(), style)
    say(to, line.append(f"  {text}", style=""))
    say(to, Text(_hosts(found, before, after), "dim"))
    body(found, to, verbose=verbose, remedies=False)  # they stand in the verdict


def answer(found: Differences) -> tuple[str, str]:
    """The word that the first line begins with, and what follows it: the worst of it in words."""
    worse, better = (_findings(found, kind) for kind in (ChangeKind.WORSE, ChangeKind.BETTER))
    changed = _count_changed(found)
    lacking = sum(each.counts for each in found.not_compared)
    noun = "change" if found.hosts.is_same else "difference"
    rest = [counted(changed, f"other {noun}")] if changed else []
    if lacking:
        rest.append(f"{counted(lacking, 'thing')} could not be compared")
    new, fixed = ("new", "fixed") if found.hosts.is_same else ("only in B", "only in A")
    if worse:
        word = new if worse[0].severity_before is None else "more severe"
        said = _first(word, worse, worse[0].after or worse[0].before)
        return "worse", "; ".join([said, *([f"{len(better)} {fixed}"] if better else []), *rest])
    if better:
        word = fixed if better[0].severity_after is None else "less severe"
        return "better", "; ".join([_first(word, better, better[0].before), *rest])
    if changed:
        said = f"{counted(changed, noun)}, and no problem is {new} or {fixed}"
        return "changed", "; ".join([said, *rest[1:]])
    if lacking:
        return "unknown", "; ".join(["what both records have is the same", *rest])
    return "same", f"{counted(found.equal, 'fact')} and all findings are the same"


def _first(word: str, every: Sequence[Change], summary: str | None) -> str:
    more = f" (and {len(every) - 1} more)" if every[1:] else ""
    return f"{word}: {printable(summary or str(every[0].rule))}{more}"


def _findings(found: Differences, kind: ChangeKind) -> list[Change]:
    return [each for each in found.of_kind(kind) if each.fact is None]


def _count_changed(found: Differences) -> int:
    """Notes, and lines of facts, that are neither a new problem nor a fixed one."""
    every = found.of_kind(ChangeKind.CHANGED)
    facts = [each for each in every if each.fact]
    return len(every) - len(facts) + len(_facts(facts, verbose=False))


def _hosts(found: Differences, before: Identity, after: Identity) -> str:
    how = found.hosts.by if found.hosts.by.startswith("as ") else f"by {found.hosts.by}"
    if found.hosts.is_same:
        return f"{after.hostname} at two times, {how}"
    return f"two hosts, {before.hostname} and {after.hostname}, {how}"


def body(found: Differences, out: Console, *, verbose: bool, remedies: bool = True) -> None:
    """All but the answer."""
    heads = _OF_ONE if found.hosts.is_same else _OF_TWO
    for kind in ChangeKind:
        every = found.of_kind(kind)
        if not every:
            continue
        out.print()
        say(out, Text(heads[kind], "bold"))
        for finding, facts in _by_finding(every):
            if finding is not None:
                _finding(out, finding)
            for line in _facts(facts, verbose=verbose):
                out.print(Indented(line, 2 if finding is None else 6))
            if finding is not None and remedies:
                steps(out, finding.remedy)
    if found.not_compared:
        _not_compared(out, found.not_compared, verbose=verbose)
    folded = found.folded
    parts = [
        (folded.identity, "names, GUIDs and addresses of their own"),
        (folded.may_differ, "that may differ"),
        (folded.noise, "that differ at each look"),
    ]
    said = [f"{number} {what}" for number, what in parts if number]
    if said:
        out.print()
        say(out, Text(f"Not shown: {', '.join(said)}.", "dim"))


def _by_finding(every: Sequence[Change]) -> list[tuple[Change | None, list[Change]]]:
    """Each finding with the facts that follow it; facts of none by themselves."""
    found: list[tuple[Change | None, list[Change]]] = []
    alone: list[Change] = []
    for each in every:
        if each.fact is None:
            found.append((each, []))
        elif each.kind is ChangeKind.CHANGED or not found:
            alone.append(each)
        else:
            found[-1][1].append(each)
    return [*found, (None, alone)] if alone else found


def _finding(out: Console, change: Change) -> None:
    severity = change.severity_after or change.severity_before
    if change.kind is ChangeKind.BETTER or change.severity_after is None:
        style = STYLE["ok" if change.kind is ChangeKind.BETTER else "info"]
        line = Text(f"  was {change.severity_before:<8}  ", style)
        summary = change.before
    else:
        line = Text(f"  {severity:<8}  ", STYLE[str(severity)])
        summary = change.after or change.before
    line.append(str(change.rule), style="bold").append(f"  {summary}", style="")
    say(out, line)
    if change.before and change.after and change.before != change.after:
        other = change.before if change.kind is not ChangeKind.BETTER else change.after
        word = "before" if change.kind is not ChangeKind.BETTER else "now"
        out.print(Indented(f"{word}: {other}", 6))


def _facts(facts: Sequence[Change], *, verbose: bool) -> list[str]:
    """A line for each, in few lines what is alike; of an adapter of another kind one, if short."""
    others = {} if verbose else _other_kinds(facts)
    lines = []
    if others:
        held = Counter(each.device for each in facts if each.device in others)
        lines = [
            f"{device} is another kind of adapter ({what}): {counted(held[device], 'fact')} that "
            "changed (--verbose lists them)"
            for device, what in others.items()
        ]
    rest = [each for each in facts if each.device not in others]
    if verbose:
        return [*lines, *_folded(rest, verbose=True), *_listed(rest, verbose=True)]
    named = [each for each in rest if _came_or_went(each)]
    rest = [each for each in rest if not _came_or_went(each)]
    return [
        *lines,
        *_folded(rest, verbose=False),
        *_items(named),
        *_listed(rest, verbose=False),
    ]


def _came_or_went(change: Change) -> bool:
    """Whether it is an item of a list, by its name, that one side has not."""
    fact = str(change.fact)
    return fact.endswith("]") and not _is_item(change) and NONE in (change.before, change.after)


def _items(facts: Iterable[Change]) -> list[str]:
    """A line for each list: the names of its items that came or went."""
    by_list: dict[tuple[str, str], list[Change]] = {}
    for each in facts:
        name, place = _name(each)
        by_list.setdefault((name[: name.rindex("[")], place), []).append(each)
    lines = []
    for (name, place), held in by_list.items():
        every = [
            Part(
                str(each.fact)[str(each.fact).rindex("[") + 1 : -1],
                None if each.before == NONE else each.before,
                None if each.after == NONE else each.after,
            )
            for each in held
        ]
        lines += _parts(f"{place}  {name}" if place else name, every, verbose=False)
    return lines


_KINDS: Final = ("driver", "hca_type", "device", "vendor")
"""Facts by which two adapters are of different kinds; the one that says most first."""


def _other_kinds(facts: Sequence[Change]) -> dict[str, str]:
    """Adapters that are not of the kind that they are compared with, and what they are."""
    found: dict[str, str] = {}
    for name in _KINDS:
        for each in facts:
            fact = place_of(str(each.fact))[2]
            if each.device and each.port is None and fact == name and each.after != NONE:
                before, after = _where_they_differ(each.before or NONE, each.after or NONE)
                found.setdefault(each.device, f"{name}: {before} → {after}")
    return found


def _folded(facts: Iterable[Change], *, verbose: bool) -> list[str]:
    """One line for what changed alike at several places; the parts of a list or object below."""
    alike: dict[tuple[str, str, str], list[tuple[str, Change]]] = {}
    for each in facts:
        if _is_item(each):
            continue
        name, place = _name(each)
        alike.setdefault((name, each.before or "", each.after or ""), []).append((place, each))
    lines = []
    for (name, before, after), held in alike.items():
        places = [place for place, _ in held]
        more = f" and {len(places) - _FEW} more" if len(places) > _FEW else ""
        where = ", ".join(places[:_FEW]) + more
        head = f"{where}  {name}" if where else name
        if held[0][1].parts:
            lines += _parts(head, held[0][1].parts, verbose=verbose)
        else:
            lines.append(f"{head}: {' → '.join(_where_they_differ(before, after))}")
    return lines


def _parts(head: str, parts: Sequence[Part], *, verbose: bool) -> list[str]:
    """What changed, went and came, and how many of each; all of it if `verbose`."""
    words = (
        ("changed", [each for each in parts if None not in (each.before, each.after)]),
        ("gone", [each for each in parts if each.after is None]),
        ("new", [each for each in parts if each.before is None]),
    )
    said = [(word, held) for word, held in words if held]
    if verbose:
        rows = [f"  {word}: {_part(each, whole=True)}" for word, held in said for each in held]
        return [f"{head}:", *rows]
    shown = []
    for word, held in said:
        few = ", ".join(_part(each) for each in held[:_FEW])
        more = f" and {len(held) - _FEW} more" if len(held) > _FEW else ""
        shown.append(f"{word}: {few}{more}")
    return [f"{head}: {'; '.join(shown)}"]


def _part(part: Part, *, whole: bool = False) -> str:
    """ "max_qp 11 → 1048576"; what came or went by its name, with its value if `whole`."""
    if part.before is not None and part.after is not None:
        return f"{part.name} {' → '.join(_where_they_differ(part.before, part.after, _SHORT))}"
    value = part.after if part.before is None else part.before
    if whole or not part.name:
        return _cut(f"{part.name} {value}".strip())
    return _cut(part.name)


def _listed(facts: Iterable[Change], *, verbose: bool) -> list[str]:
    """Of items that have no names, such as routes, how many; each if `verbose`."""
    by_name: dict[str, list[Change]] = {}
    for each in filter(_is_item, facts):
        by_name.setdefault(" ".join(reversed(_name(each))).strip(), []).append(each)
    lines = []
    for name, held in by_name.items():
        gone = sum(each.after == NONE for each in held)
        new = sum(each.before == NONE for each in held)
        counts = ((gone, "gone"), (new, "new"), (len(held) - gone - new, "other"))
        lines.append(f"{name}: {', '.join(f'{n} {word}' for n, word in counts if n)}")
        lines += [f"  {each.before} → {each.after}" for each in held if verbose]
    return lines


def _is_item(change: Change) -> bool:
    return "[]" in str(change.fact)


def _name(change: Change) -> tuple[str, str]:
    """A fact without the number of its adapter, and the place that it is of."""
    fact = str(change.fact)
    if change.device is None:
        return fact, ""
    place = change.device if change.port is None else f"{change.device}/{change.port}"
    return place_of(fact)[2], place


def _where_they_differ(before: str, after: str, most: int = _VALUE) -> tuple[str, str]:
    """Of two long values the part around what differs first."""
    start = 0
    if max(len(before), len(after)) > most:
        pairs = enumerate(zip(before, after, strict=False))
        first = next((at for at, (one, other) in pairs if one != other), 0)
        start = max(0, first - _BEFORE)
    sign = "…" if start else ""
    return sign + _cut(before[start:], most), sign + _cut(after[start:], most)


def _cut(text: str, most: int = _VALUE) -> str:
    return printable(text if len(text) <= most else f"{text[:most]}…")


_WHERE: Final = {Which.BEFORE: "the first record", Which.AFTER: "the second record"}


def _not_compared(out: Console, every: Sequence[NotCompared], *, verbose: bool) -> None:
    out.print()
    say(out, Text("Not known on one side, so that nothing is said of a change:", "bold"))
    by_why: dict[tuple[Which, str], list[NotCompared]] = {}
    for each in every:
        by_why.setdefault((each.unknown_in, each.why), []).append(each)
    for (which, why), held in by_why.items():
        rules = sorted({str(each.rule) for each in held if each.fact is None})
        facts = sum(each.fact is not None for each in held)
        parts = [*rules[:_FEW], *([counted(facts, "fact")] if facts else [])]
        if len(rules) > _FEW:
            parts.insert(_FEW, f"{len(rules) - _FEW} more rules")
        out.print(Indented(f"in {_WHERE[which]}: {', '.join(parts)}: {why}", 2))
        if verbose:
            for each in held:
                place = "" if each.device is None else f"{each.device} "
                what = each.fact or each.rule
                out.print(Indented(f"{place}{what}: {_cut(each.known)}", 6))
