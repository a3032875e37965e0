"""Groups of links that went down: which of them count, and from which line on."""

from collections.abc import Iterable
from dataclasses import replace

from rdmadiag.explain.log.groups import NAMES_KEPT, TEXT_KEPT, Group, in_time, others_of
from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.ranking.evidence import flapping
from rdmadiag.explain.log.recognition.links import (
    CAME_BACK,
    LINK_DOWN,
    NEVER_UP,
    Down,
    Links,
    Other,
    again_and_again,
    first_followed,
    is_often,
    says_down,
)


def with_links(groups: list[Group], links: Links) -> list[Group]:
    """Links that came up again, and ports that had none since the start, are no failures."""
    others = others_of(groups)
    moved = False
    for each in groups:
        if not _is_followed(each):
            continue
        down = _down(each, others, links)
        if down is None:
            what = CAME_BACK if _came_back(each, links) else NEVER_UP
            each.meaning = replace(each.meaning, kind=Kind.NOTE, what=what, causes=())
            continue
        if _flaps(each, links):
            each.meaning = replace(each.meaning, causes=flapping(each.meaning.causes))
            each.is_decided = True
        if down.number != each.number:
            each.number, each.text, each.clock = down.number, down.text[:TEXT_KEPT], down.clock
            moved = True
            later = [number for number in each.numbers if number > down.number]
            each.count -= sum(number < down.number for number in each.numbers)
            each.numbers = [down.number, *later]
    return in_time(groups) if moved else groups


def is_lost(group: Group, others: Iterable[Other], links: Links) -> bool:
    """Whether a link is, or counts for another reason."""
    if group.meaning.what != LINK_DOWN:
        return False
    return not _is_followed(group) or _down(group, others, links) is not None


def _is_followed(group: Group) -> bool:
    """Whether it is of a link of which all is known that was said."""
    if group.meaning.what != LINK_DOWN or len(group.speakers) >= NAMES_KEPT:
        return False
    return says_down(group.meaning.fields.text)


def _down(group: Group, others: Iterable[Other], links: Links) -> Down | None:
    """What counts of a link that went down; None: nothing does."""
    found, several = group.meaning.fields, tuple(others)
    downs = [
        links.lost(found, of)
        or first_followed(links.flaps(found, of), several)
        or again_and_again(links.flaps(found, of))
        for of in group.speakers or ("",)
    ]
    return min((each for each in downs if each), key=lambda each: each.number, default=None)


def _flaps(group: Group, links: Links) -> bool:
    """Whether its links came up again, and one of them several times within an hour."""
    found, owners = group.meaning.fields, (*group.speakers,) or ("",)
    if any(links.lost(found, of) for of in owners):
        return False
    return any(is_often(links.flaps(found, of)) for of in owners)


def _came_back(group: Group, links: Links) -> bool:
    return any(links.is_up(group.meaning.fields, of) for of in group.speakers or ("",))
