"""What changed between two records, in the words of rules; pure, and of any two hosts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from rdmadiag.facts import NOT_IN_RECORD, Missing, Why
from rdmadiag.facts.evidence import LINUX_ONLY, MACOS_ONLY, NO_OPTION, NOT_ON_MACOS, Evidence
from rdmadiag.fleet.changed import (
    Change,
    ChangeKind,
    Differences,
    Folded,
    NotCompared,
    Part,
    Sameness,
    Statuses,
    Which,
)
from rdmadiag.fleet.fact_names import kind_of_name
from rdmadiag.fleet.fact_rows import FACTS, Kind, Of, kind_of, source_of
from rdmadiag.fleet.fact_table import MOST_LETTERS, NONE, VARIABLE, Value, plain, value_of
from rdmadiag.fleet.finding_changes import finding_changes
from rdmadiag.fleet.parts import parts
from rdmadiag.fleet.record_sides import (
    Pairing,
    Side,
    adapters,
    functions,
    gpus,
    is_listed,
    netdevs,
    renamed,
    sameness,
)
from rdmadiag.fleet.record_walk import seen
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.needs import NEEDS
from rdmadiag.preflight.verdict import Severity, Verdict

_THERE: Final = "there"
_GONE: Final = "not there"
_READ: Final = "read"
_NOT_ASKED_FOR: Final = (NOT_IN_RECORD, NO_OPTION, LINUX_ONLY, MACOS_ONLY, NOT_ON_MACOS)
_COULD_BE_READ: Final = (
    *(Why.TIMEOUT, Why.DENIED, Why.MALFORMED, Why.EXHAUSTED),
    Why.NOT_COLLECTED,
)
_FOLLOWS: Final = frozenset({"expectations.compared", "expectations.met", "expectations.unknown"})
_BADNESS: Final = {None: 0, Severity.INFO: 1, Severity.WARN: 2, Severity.CRITICAL: 3}
_RANK: Final = (ChangeKind.WORSE, ChangeKind.BETTER, ChangeKind.CHANGED)


@dataclass(frozen=True, slots=True)
class Judged:
    """A record: its document, and the verdict on it by this version's rules."""

    side: Side
    verdict: Verdict


def differences(before: Judged, after: Judged, *, same: bool | None = None) -> Differences:
    """`same`: whether both are of one host, where the caller knows it."""
    first, second = before.side, after.side
    hosts = sameness(first, second)
    if same is not None and same is not hosts.is_same:
        hosts = Sameness(same, "as was said")
    pairing = adapters(first, second, same=hosts.is_same)
    names = renamed(first, second, pairing)
    back = {own: other for other, own in names.names.items()}
    paired = tuple(_paired(first, second, pairing, same=hosts.is_same))
    found = [
        _Fact(
            each.place,
            each.kind,
            None if each.device is None else back.get(each.device, each.device),
            each.port,
            each.before,
            each.after,
            None if each.device else _source(each.place),
            each.parts,
        )
        for each in seen(
            first.document, second.document, names, netdevs(first), functions(first, second)
        )
    ]
    sorter = _Sorter(same=hosts.is_same)
    for fact in (*paired, *found):
        sorter.add(fact)
    devices = _names(first), frozenset(map(names.of, _names(second)))
    for source in _unread_alone(first, second):
        sorter.add_unread(source, first, second)
    every = list(finding_changes(before.verdict, after.verdict, names, devices))
    findings = [each for each in every if isinstance(each, Change)]
    unknown = [each for each in every if isinstance(each, NotCompared)]
    changes = sorted(
        (*findings, *_with_findings(sorter.changes, findings, _texts(before, after))),
        key=lambda each: (
            _RANK.index(each.kind),
            -_BADNESS.get(each.severity_after, 0) if each.fact is None else 0,
        ),
    )
    return Differences(
        hosts,
        Statuses(before.verdict.status, after.verdict.status),
        tuple(_grouped(changes)),
        (*unknown, *sorter.unknown),
        Folded(**sorter.folded),
        sorter.equal,
    )


def _names(side: Side) -> frozenset[str]:
    return frozenset(filter(None, (side.fact(each, "name") for each in side.adapters())))


def _unread_alone(first: Side, second: Side) -> Iterator[str]:
    """Sources of which one record could read nothing, and the other could."""
    for source in Evidence.__dataclass_fields__:
        missing = [_whole_source(each, source) for each in (first, second)]
        if sum(isinstance(each, Missing) for each in missing) == 1:
            yield source


def _source(place: str) -> str:
    return place.partition(".")[0].partition("[")[0]


# --- facts with names -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fact:
    """One fact of both records."""

    name: str
    kind: Kind
    device: str | None
    port: int | None
    before: Value
    after: Value
    source: str | None
    parts: tuple[Part, ...] = ()


def _paired(first: Side, second: Side, pairing: Pairing, *, same: bool) -> Iterator[_Fact]:
    skipped = set(_FOLLOWS)
    if is_listed(first) and is_listed(second):
        skipped.add("adapters")
    # Adapters are listed one by one where both have a list of them.
    for name in dict.fromkeys((*first.facts, *second.facts)):
        if name in skipped or name == "gpus" or name.startswith(("adapter[", "gpu[")):
            continue
        before, after = _of_host(first, name), _of_host(second, name)
        source = "process" if name.startswith(VARIABLE) else source_of(Of.HOST, name)
        own = _parts(first, name, second, name) if before != after else ()
        yield _Fact(name, kind_of_name(name), None, None, before, after, source, own)
    yield from _of_adapters(first, second, pairing)
    every = gpus(first, second, same=same)
    for one, other in every.pairs:
        rests = [name for name in _OF_GPU if f"gpu[{one}].{name}" in first.facts]
        ends = f"gpu[{one}].", f"gpu[{other}]."
        yield from _members(first, second, *ends, rests, None, None, Of.GPU)
    for number in every.gone:
        label = _address(first, number)
        yield _Fact(label, Kind.HARDWARE, None, None, _THERE, _listed_gpus(second), "topology")
    for number in every.new:
        label = _address(second, number)
        yield _Fact(label, Kind.HARDWARE, None, None, _listed_gpus(first), _THERE, "topology")


def _address(side: Side, gpu: int) -> str:
    text = side.facts.get(f"gpu[{gpu}].address")
    return f"gpu {text if isinstance(text, str) else gpu}"


def _listed_gpus(side: Side) -> Value:
    """What one that is not listed is."""
    listed = side.facts.get("gpus", NONE)
    return listed if isinstance(listed, Missing) else _GONE


_IDENTITY: Final = frozenset({"hostname", "kernel", "machine", "platform"})
_NOT_SAID: Final = Missing(Why.NOT_COLLECTED, "the record does not say whose it is")


def _of_host(side: Side, name: str) -> Value:
    if name in _IDENTITY and not side.is_named:
        return _NOT_SAID
    return value_of(side.facts, name)


def _of_adapters(first: Side, second: Side, pairing: Pairing) -> Iterator[_Fact]:
    for one, other in pairing.pairs:
        device = second.fact(other, "name") or first.fact(one, "name")
        prefix, same = f"adapter[{one}].", f"adapter[{other}]."
        rests = _rests(first, one, second, other, None)
        yield from _members(first, second, prefix, same, rests, device, None, Of.ADAPTER)
        here, there = first.ports(one), second.ports(other)
        for port in sorted({*here, *there}):
            below = f"port[{port}]"
            if port in here and port in there:
                one_port, other_port = f"{prefix}{below}.", f"{same}{below}."
                rests = _rests(first, one, second, other, port)
                ends = one_port, other_port
                yield from _members(first, second, *ends, rests, device, port, Of.PORT)
            else:
                before, after = (_listed_port(port, every) for every in (here, there))
                yield _Fact("port", Kind.HARDWARE, device, port, before, after, "sysfs")
    for number in pairing.gone:
        after = _GONE if is_listed(second) else second.facts["adapters"]
        yield _Fact("adapter", Kind.HARDWARE, _called(first, number), None, _THERE, after, "sysfs")
    for number in pairing.new:
        before = _GONE if is_listed(first) else first.facts["adapters"]
        device = _called(second, number)
        yield _Fact("adapter", Kind.HARDWARE, device, None, before, _THERE, "sysfs")


def _listed_port(port: int, every: tuple[int, ...]) -> Value:
    """Of an adapter that shows no port at all, it is not known which it has."""
    if port in every:
        return _THERE
    return _GONE if every else _NO_PORT


_NO_PORT: Final = Missing(Why.NOT_COLLECTED, "no port of the adapter is shown")


def _called(side: Side, number: int) -> str:
    return side.fact(number, "name") or f"adapter[{number}]"


_OF_GPU: Final = tuple(fact.name for fact in FACTS if fact.of is Of.GPU and fact.name)


def _rests(first: Side, one: int, second: Side, other: int, port: int | None) -> Iterable[str]:
    """What either says of an adapter, or of a port of it."""
    here, there = (
        side.places[number].get(port, []) for side, number in ((first, one), (second, other))
    )
    return dict.fromkeys((*here, *there))


def _members(
    first: Side,
    second: Side,
    prefix: str,
    other: str,
    rests: Iterable[str],
    device: str | None,
    port: int | None,
    of: Of,
) -> Iterator[_Fact]:
    for rest in rests:
        name = prefix + rest
        before, after = value_of(first.facts, name), value_of(second.facts, other + rest)
        source = source_of(of, rest)
        own: tuple[Part, ...] = ()
        if before != after:
            before, after = _by_one_witness(first, second, source, before, after)
            own = _parts(first, name, second, other + rest)
        yield _Fact(name, kind_of_name(name), device, port, before, after, source, own)


def _parts(first: Side, name: str, second: Side, other: str) -> tuple[Part, ...]:
    return parts(first.wholes.get(name), second.wholes.get(other))


def _by_one_witness(
    first: Side, second: Side, source: str | None, before: Value, after: Value
) -> tuple[Value, Value]:
    """Where one side lacks the source, another has answered, and perhaps in other words."""
    missing = [_whole_source(side, source) for side in (first, second)]
    unread = [each for each in missing if isinstance(each, Missing)]
    if len(unread) != 1:
        return before, after
    return (unread[0], after) if isinstance(missing[0], Missing) else (before, unread[0])


def _whole_source(side: Side, source: str | None) -> Value | None:
    """A Missing where nothing of it was read."""
    evidence = side.document.get("evidence")
    found = evidence.get(source) if isinstance(evidence, dict) else None
    return plain(found) if isinstance(found, dict) and found.keys() == {"why", "detail"} else None


# --- what a difference means -----------------------------------------------------------------


class _Sorter:
    """Facts that differ, are folded, are unknown on one side, or are equal."""

    def __init__(self, *, same: bool) -> None:
        self._same = same
        self.changes: list[tuple[Change, str | None]] = []  # with its source
        self.unknown: list[NotCompared] = []
        self.folded = {"noise": 0, "may_differ": 0, "identity": 0}
        self.equal = 0
        self._unread: set[str] = set()  # sources of what is unknown

    def add(self, fact: _Fact) -> None:
        before, after = fact.before, fact.after
        if isinstance(before, Missing) and isinstance(after, Missing):
            return
        if before == after and fact.kind is not Kind.NOISE:
            self.equal += 1
        elif fact.kind is Kind.NOISE:
            self.folded["noise"] += 1
        elif isinstance(before, Missing) or isinstance(after, Missing):
            self._one_side(fact)
        elif fact.kind is Kind.MAY_DIFFER:
            self.folded["may_differ"] += 1
        elif fact.kind is Kind.IDENTITY and not self._same:
            self.folded["identity"] += 1
        else:
            self.changes.append((_changed(fact), fact.source))

    def add_unread(self, source: str, first: Side, second: Side) -> None:
        """A source that one side could not read, where no fact of it has said so.

        The other has nothing of it, or nothing that is compared: that this one had nothing either
        is not known.
        """
        if kind_of(f"evidence.{source}") is Kind.NOISE or source in self._unread:
            return
        missing = _whole_source(first, source), _whole_source(second, source)
        before, after = (each if isinstance(each, Missing) else _READ for each in missing)
        if any(isinstance(each, Missing) and _counts(each) for each in missing):
            self._one_side(_Fact(source, Kind.EQUAL, None, None, before, after, source))

    def _one_side(self, fact: _Fact) -> None:
        which = Which.BEFORE if isinstance(fact.before, Missing) else Which.AFTER
        missing, known = (
            (fact.before, fact.after) if which is Which.BEFORE else (fact.after, fact.before)
        )
        assert isinstance(missing, Missing)
        if fact.kind in (Kind.MAY_DIFFER, Kind.NOISE) or known == NONE:
            return  # nothing that would be compared is lost
        if fact.kind is Kind.IDENTITY and not self._same:
            return
        if fact.source is not None:
            self._unread.add(fact.source)
        self.unknown.append(
            NotCompared(
                which,
                None,
                fact.name,
                fact.device,
                fact.port,
                str(known),
                str(missing)[:MOST_LETTERS],
                _counts(missing),
            )
        )


def _counts(missing: Missing) -> bool:
    """Whether it could have been read."""
    return missing.why in _COULD_BE_READ and missing not in _NOT_ASKED_FOR


def _changed(fact: _Fact) -> Change:
    return Change(
        ChangeKind.CHANGED,
        None,
        fact.name,
        fact.device,
        fact.port,
        str(fact.before),
        str(fact.after),
        parts=fact.parts,
    )


# --- facts beside findings ---------------------------------------------------------------


def _with_findings(
    facts: Iterable[tuple[Change, str | None]],
    findings: Iterable[Change],
    texts: Mapping[str, str],
) -> Iterator[Change]:
    """A fact that changed where a finding did goes with it: with a new problem first.

    At a port or device: all that changed there. Else what is of a source that the rule needs,
    and is named in what the finding says.
    """
    ranked = [each for each in findings if each.kind is not ChangeKind.CHANGED]
    ranked.sort(key=lambda each: (_RANK.index(each.kind), -_BADNESS.get(each.severity_after, 0)))
    sources = {each.rule: _sources(each.rule) for each in ranked}
    for fact, source in facts:
        with_it = next((each for each in ranked if _same_place(fact, each)), None)
        if with_it is None:
            named = (
                each
                for each in ranked
                if (each.device is None or fact.device is None)
                and source in sources[each.rule]
                and _is_in(fact, texts.get(str(each.rule), ""))
            )
            with_it = next(named, None)
        if with_it is None:
            yield fact
        else:
            yield replace(fact, kind=with_it.kind, rule=with_it.rule)


def _texts(before: Judged, after: Judged) -> dict[str, str]:
    """By rule: its code, and all that its findings say and show."""
    found: dict[str, list[str]] = {}
    for each in (*before.verdict.findings, *after.verdict.findings):
        subjects = (proof.subject for proof in each.evidence)
        found.setdefault(each.rule, [each.rule]).extend((each.summary, *subjects))
    return {rule: " ".join(parts).lower() for rule, parts in found.items()}


_SHORT: Final = 4  # letters of a word that may stand in any sentence


def _is_in(fact: Change, text: str) -> bool:
    if fact.device is not None and fact.device.lower() not in text:
        return False
    return any(len(part) > _SHORT and part.lower() in text for part in str(fact.fact).split("."))


def _same_place(fact: Change, finding: Change) -> bool:
    if finding.device is None or fact.device != finding.device:
        return False
    return finding.port is None or fact.port == finding.port


def _sources(code: str | None) -> frozenset[str]:
    from rdmadiag.preflight.rules import CATALOGUE

    rule = CATALOGUE.get(str(code))
    if rule is None:
        return frozenset()
    return frozenset(NEEDS[need].source or "" for need in rule.needs if need in NEEDS)


def _grouped(changes: Sequence[Change]) -> Iterator[Change]:
    """In their order, with the facts that go with a finding behind it."""
    facts: dict[tuple[ChangeKind, str | None], list[Change]] = {}
    for each in changes:
        if each.fact is not None and each.rule is not None:
            facts.setdefault((each.kind, each.rule), []).append(each)
    for each in changes:
        if each.fact is not None:
            if each.rule is None:
                yield each
            continue
        yield each
        held = facts.get((each.kind, each.rule), [])
        yield from (fact for fact in held if _goes_with(fact, each))
        facts[each.kind, each.rule] = [fact for fact in held if not _goes_with(fact, each)]


def _goes_with(fact: Change, finding: Change) -> bool:
    return None in (fact.device, finding.device) or _same_place(fact, finding)
