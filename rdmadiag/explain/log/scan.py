"""Candidates of a log → an account of it."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from rdmadiag.explain.log.collector import Collector
from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.line.fields import fields
from rdmadiag.explain.log.meaning import Meaning
from rdmadiag.explain.log.recognition.job_words import stands_in_a_job
from rdmadiag.explain.log.recognition.links import is_of_a_link
from rdmadiag.explain.log.recognition.reader import Candidate, Meanings, says_nothing
from rdmadiag.explain.log.recognition.recognise import beside_rdma
from rdmadiag.explain.log.recognition.vocabulary import is_near_candidate
from rdmadiag.late import late

NEIGHBOURS: Final = 2048  # lines of trouble that may be looked around, where nothing is explained
KINDS: Final = 256  # different ones
ALIKE: Final = 2  # of one kind
_DIGITS: Final = late(rb"\d+")


def collect(candidates: Iterable[Candidate], narrow: Callable[[], None] | None = None) -> Collector:
    """What they all mean; `Collector.account` then sums it up.

    `narrow` is called once when lines need not be looked at any more for what stands around them.
    """
    collector = Collector()
    meanings = Meanings()
    tries = NEIGHBOURS
    looked: Counter[bytes] = Counter()
    for each in candidates:
        if says_nothing(each):
            continue
        meaning = meanings.of(each)
        if meaning is not None:
            take(collector, each, meaning)
        elif (
            not collector.benchmark.take(each.line, each.number, each.after, each.above)
            and tries
            and is_near_candidate(each.line)
        ):
            tries -= 1
            kind = _DIGITS.sub(b"0", each.line)
            looked[kind] += 1
            if looked[kind] > ALIKE:
                continue
            if len(looked) > KINDS:
                tries = 0
            if near := beside_rdma(each.line, each.after, each.above):
                collector.add(each.number, near)
        if narrow and (not tries or collector.is_explained):
            tries = 0
            narrow()
            narrow = None
    return collector


def take(collector: Collector, candidate: Candidate, meaning: Meaning) -> None:
    """A line that means something, for the account of its log."""
    if is_of_a_link(meaning.word):  # with its own numbers: each time of each link counts
        meaning = replace(meaning, fields=fields(candidate.line.decode("utf-8", "replace")))
    if meaning.kind is not Kind.NOTE and meaning.setting is None:
        collector.look_around(b"\n".join((candidate.above, candidate.line, candidate.after)))
    if meaning.is_other or (meaning.is_beside and not stands_in_a_job(candidate)):
        collector.reasons.note_apart(candidate.number, meaning)
    else:
        collector.add(candidate.number, meaning)
