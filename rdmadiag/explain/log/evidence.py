"""What decides between the causes of a failure: settings, the words around it, similar cases."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rdmadiag.explain.causes import remedy, stated
from rdmadiag.explain.log.groups import MOST_CAUSES, Group
from rdmadiag.explain.log.kind import CRASH, EXACT, IN_WORDS, MESSAGE, Kind
from rdmadiag.facts.attempt import Stage

if TYPE_CHECKING:
    from rdmadiag.explain.log.learned.cases import Cases
    from rdmadiag.explain.log.meaning import Meaning
    from rdmadiag.explain.log.settings import Setting


def weigh(groups: Iterable[Group], settings: Iterable["Setting"]) -> None:
    """What was set decides between the causes that are possible."""
    for row in settings:
        for group in groups:
            meaning = group.meaning
            stage, of_linux = meaning.fields.stage, meaning.fields.platform == "linux"
            if (
                meaning.kind is Kind.FAILURE
                and of_linux
                and stage in row.stages
                and _fits(row.label, meaning)
            ):
                first = stated(row.label)
                rest = [each for each in meaning.causes if each.label != row.label]
                group.meaning = replace(meaning, causes=(first, *rest)[:MOST_CAUSES])


def _fits(label: str, meaning: "Meaning") -> bool:
    """It is one of those named already; a device that does not open has too many to name."""
    return meaning.fields.stage is Stage.OPEN or label in _labels(meaning)


def hear(groups: Iterable[Group], unknown: Sequence[str]) -> None:
    """What the words of all lines of trouble say, where a line by itself says little."""
    from rdmadiag.explain.log.in_words import likeliest, of_a_mac, weights

    lines = [(each.text, each.meaning.fields.stage) for each in groups]
    lines += [(each, None) for each in unknown]
    everywhere = weights("\n".join(text for text, _ in lines)) if lines else Counter()
    for group in groups:
        meaning = group.meaning
        if meaning.kind not in (Kind.FAILURE, Kind.CONSEQUENCE):
            continue
        own = weights(group.text, meaning.fields.stage)
        own += own if meaning.what == IN_WORDS else Counter()
        own += everywhere
        if meaning.fields.platform == "darwin":
            own = of_a_mac(own, meaning.fields.stage)
        if meaning.what == IN_WORDS:
            group.meaning = replace(meaning, causes=likeliest(own, MOST_CAUSES))
            continue
        if meaning.what in EXACT:
            continue
        group.has_one_cause = len(meaning.causes) == 1
        given = {each.label for each in meaning.causes}
        rest = [each for each in likeliest(own, 3 * MOST_CAUSES) if each.label not in given]
        group.meaning = replace(meaning, causes=(*meaning.causes, *rest)[:MOST_CAUSES])


def recall(groups: Iterable[Group], unknown: Sequence[str], cases: "Cases | None") -> None:
    """What similar cases of other logs had, and what similar messages tell."""
    lines = [*(each.text for each in groups), *unknown]
    if not lines:
        return
    from rdmadiag.explain.log.catalogue.alike import votes_alike
    from rdmadiag.explain.log.learned.cases import shipped
    from rdmadiag.explain.log.learned.chances import chance
    from rdmadiag.explain.log.meaning import used
    from rdmadiag.explain.log.recall import ALIKE, basis, recalled, voted

    cases = shipped() if cases is None else cases
    said = "\n".join(dict.fromkeys(lines))
    near = cases.near(said)
    of_cases = cases.votes(near)
    of_messages, close = votes_alike(said)
    alike = any(each.likeness >= ALIKE and cases.cases[each.case].labels for each in near)
    for group in groups:
        meaning = group.meaning
        if meaning.kind not in (Kind.FAILURE, Kind.CONSEQUENCE) or meaning.what in EXACT:
            continue
        given = meaning.causes
        if not given and not alike and not close:
            continue
        rule = meaning.what != IN_WORDS and bool(given)
        at, facts = meaning.fields.platform, used(meaning.fields)
        learned = voted(of_cases, at, facts)
        printed = voted(of_messages, at, facts)
        several = recalled(given, learned, printed, MOST_CAUSES, _weight(group))
        look = meaning.next
        if several[:1] != given[:1]:
            look = tuple(dict.fromkeys((*remedy(several[0].label, at), *look)))
        group.meaning = replace(meaning, causes=several, next=look)
        group.rests_on = basis(several, given, learned, by_rule=rule)
        group.probability = chance(group.rests_on) if group.rests_on else None


def suspect(groups: Sequence[Group]) -> None:
    """Where code of RDMA crashed in the same log, what failed beside may be its fault, too."""
    if not any(each.meaning.what == CRASH for each in groups):
        return
    fault = stated("program-fault")
    for group in groups:
        meaning = group.meaning
        if meaning.kind is Kind.FAILURE and meaning.causes and fault.label not in _labels(meaning):
            first, *rest = meaning.causes
            group.meaning = replace(meaning, causes=(first, fault, *rest)[:MOST_CAUSES])


def _labels(meaning: "Meaning") -> set[str]:
    return {each.label for each in meaning.causes}


def _weight(group: Group) -> float:
    """Of the first cause that is given."""
    from rdmadiag.explain.log.recall import OF_RULE, OF_SURE, OF_WORDS

    what, found = group.meaning.what, group.meaning.fields
    if what == IN_WORDS or not group.meaning.causes:
        return OF_WORDS
    has_number = found.errno is not None or found.status is not None
    return OF_SURE if what != MESSAGE and (has_number or group.has_one_cause) else OF_RULE
