"""Whether a line of a short text is of trouble of RDMA, by words that were learned.

What no vocabulary has is seldom without any sign: identifiers are taken apart
(`nixlBackendError` is backend and error), numbers and severities count, what the text is about,
and what the rules say of it as well. A weight above 0 is one of trouble; the table trouble.tsv is
written by `python -m tests.explain.learn_trouble` from threads and from logs without trouble.

>>> sorted(each for each in features("rnic_modifyQp() = -22", True, 1) if each.islower())[:3]
['modify', 'modify qp', 'qp']
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

from rdmadiag.explain.log.kind import Found
from rdmadiag.explain.log.line.printed import is_output
from rdmadiag.explain.log.ranking.learned.cases import lines_of
from rdmadiag.explain.log.recognition.catalogue import message_of
from rdmadiag.explain.log.recognition.of_the_job import is_of_the_job
from rdmadiag.explain.log.recognition.trouble import is_trouble, may_tell, names_rdma
from rdmadiag.explain.log.text.endings import ending_in_short
from rdmadiag.frozen import dataclass
from rdmadiag.late import late

LONGEST: Final = 1000
"""Characters of a line that are looked at."""
LEAST: Final = 0.0
"""A line of more weight is shown as one that is not understood; what no rule understood is
forgotten where all lines of the text have less.

Of rows whose rules nobody had tuned, as many failures then pass as others are shown: 16 % of 162
and 14 % of 97.
"""

_LEFT_OUT: Final = late(
    r"\d{4}-\d\d-\d\d[T ]?|\d\d:\d\d:\d\d[.,\d]*|^\W{0,3}\[ *\d+\.\d+\]|0x[0-9a-f]{5,}"
    r"|\d{1,3}(?:\.\d{1,3}){3}",
    re.IGNORECASE,
)
"""Times and addresses."""
_HUMP: Final = late(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD: Final = late(r"[a-z]+(?:'t)?|-?\d+")
_SMALL: Final = 200
"""Numbers below it may be an errno or a status."""

_MARKS: Final = {
    name: late(pattern)
    for name, pattern in (
        ("NEGATIVE", r"(?<![\w.])-[1-9]\d{0,2}\b(?!\.\d)"),
        ("ERRNO", r"\bE[A-Z]{3,14}\b"),
        ("HEX", r"\b0x[0-9a-f]{1,4}\b"),
        ("ERROR", r"\b(?:ERROR|ERR|FATAL|CRITICAL|E\d{4})\b|<error>|\bError:"),
        ("WARNING", r"\bWARN(?:ING)?\b|<warn>|^W\d{4}"),
        ("INFO", r"\b(?:INFO|DEBUG|TRACE|NOTICE)\b|<info>"),
        ("CLOCK", r"\d\d:\d\d:\d\d|^\W{0,3}\[ *\d+\.\d+\]"),
        ("ADDRESS", r"https?://"),
        ("QUESTION", r"\?\s*$"),
        ("SENTENCE", r"[a-z]\.\s*$"),
        ("BEGINS", r"^\s*[A-Z][a-z]+ [a-z]"),
        ("ASSIGNED", r"\w=\S"),
        ("OPTION", r"(?:^|\s)--\w"),
        ("CONSTANT", r"\b[A-Z]{2,}(?:_[A-Z0-9]+)+\b"),
        ("FUNCTION", r"\w\(\)"),
        ("SOURCE", r"\.(?:c|cc|cpp|h|py|go|rs|cu):\d+"),
        ("PROSE", r"\b(?:the|this|that|you|we|is used|should|can be|will be)\b"),
        ("CODE", r"[;{}]\s*$|^\s*(?://|#|/\*|\*)"),
        ("TABLE", r"\|.*\|"),
        ("QUOTED", r"`"),
        ("COLON", r": "),
        ("FORMAT", r"%[sdux]"),
    )
}
"""What a line looks like, whatever it says."""
_FAILS: Final = late(
    r"\b\w*(?:err|fail|fault|abort|invalid|refus|reject|timeout|timedout|unable|cannot|denied"
    r"|unsupport|unreach|exhaust|overflow|overrun|corrupt|mismatch|panic|crash|killed|assert)\w*",
    re.IGNORECASE,
)
_WITH: Final = (
    *("ERROR", "WARNING", "INFO", "PROSE", "CODE", "CLOCK", "NEGATIVE", "ERRNO", "QUESTION"),
    "SOURCE",
)
"""Marks that say another thing beside a word of trouble, or of RDMA, than alone."""


def features(line: str, of_rdma: bool, lines: int) -> frozenset[str]:
    """Its words, pairs of them, and marks; `of_rdma` and `lines` are of the whole text."""
    line = line[:LONGEST]
    marks = [name for name, pattern in _MARKS.items() if pattern.search(line)]
    found = set(marks)
    if of_rdma:
        found.add("TEXT OF RDMA")
    subjects = []
    if names_rdma(line):
        subjects.append("RDMA")
    if _FAILS.search(line):
        subjects.append("TROUBLE")
        if of_rdma:
            found.add("TROUBLE & TEXT OF RDMA")
        if "RDMA" in subjects:
            found.add("TROUBLE & RDMA")
    found.update(subjects)
    found.update(f"{mark} & {each}" for mark in marks if mark in _WITH for each in subjects)
    found.add(f"LENGTH {min(4, len(line) // 60)}")
    found.add(f"LINES {min(4, lines // 3)}")
    words = list(_words(line))
    found.update(words)
    found.update(f"{one} {next_}" for one, next_ in pairwise(words))
    return frozenset(found)


def features_of(lines: Sequence[str], found: Found) -> tuple[frozenset[str], ...]:
    """Of each line its own, what the rules say of it, and the words of the whole text."""
    of_rdma = any(names_rdma(each) for each in lines)
    own = [features(each, of_rdma, len(lines)) for each in lines]
    of_text = {f"ANY {each}" for each in frozenset().union(*own) if " " not in each}
    of_text.add(f"FOUND {found}")
    pairs = zip(own, lines, strict=True)
    return tuple(frozenset({*mine, *of_text, *_by_rules(line)}) for mine, line in pairs)


def _by_rules(line: str) -> Iterable[str]:
    if is_trouble(line):
        yield "SAYS TROUBLE"
    if is_of_the_job(line):
        yield "OF THE JOB"
    if end := ending_in_short(line):
        yield f"END {end.name}"
    if not is_output(line):
        yield "NOT PRINTED"
    if not may_tell(line):
        yield "OF OTHERS"
    if message := message_of(line):
        yield f"MESSAGE {message.kind or 'healthy'}"


def _words(line: str) -> Iterable[str]:
    plain = _HUMP.sub(" ", _LEFT_OUT.sub(" ", line).replace("_", " ")).lower()
    for word in _WORD.findall(plain):
        if word.lstrip("-").isdigit():
            number = int(word)
            yield "N0" if not number else "-N" if number < 0 else "N" if number < _SMALL else "NN"
        elif len(word) > 1:
            yield word


@dataclass(frozen=True, slots=True)
class Weights:
    """What each feature weighs, and what a line has without any."""

    alone: float
    of: Mapping[str, float]

    def weight(self, found: frozenset[str]) -> float:
        """Above 0: of trouble."""
        several = sorted(each for each in found if each in self.of)  # sums hang on no order
        return self.alone + sum(self.of[each] for each in several) / math.sqrt(len(several) + 1)

    def weights(self, lines: Sequence[str], found: Found) -> list[float]:
        """Of each line, in their order; `found` is what the rules found in all of them."""
        return [self.weight(each) for each in features_of(lines, found)]


@cache
def shipped() -> Weights:
    """Those of the package; the first line is that of no feature."""
    rows = [line.split("\t") for line in lines_of("trouble")]
    return Weights(float(rows[0][1]), {word: float(weight) for word, weight in rows[1:]})
