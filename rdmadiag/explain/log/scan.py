"""Candidates of a log → an account of it."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, Protocol

from rdmadiag.explain.log.collector import Collector
from rdmadiag.explain.log.crash import CRASHES, RAISES, crash_of, raised_in
from rdmadiag.explain.log.dumped_cqe import DUMPS, dumped
from rdmadiag.explain.log.fields import cleaned, fields
from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.links import is_of_a_link
from rdmadiag.explain.log.meaning import Meaning
from rdmadiag.explain.log.printed import is_cut_off, is_output
from rdmadiag.explain.log.recognise import (
    PASSED_ABOVE,
    TEXT_LIMIT,
    beside_rdma,
    of_completion,
    recognise,
)
from rdmadiag.explain.log.signs.listings import HEADER
from rdmadiag.explain.log.trouble import names_rdma
from rdmadiag.explain.log.vocabulary import is_near_candidate
from rdmadiag.facts.attempt import Stage
from rdmadiag.late import late


class Candidate(Protocol):
    """A line that has the words of explain.log.vocabulary."""

    @property
    def number(self) -> int:
        """Its place in the log, from 1."""

    @property
    def line(self) -> bytes:
        """The line, or the part of a long one that matters."""

    @property
    def after(self) -> bytes:
        """The beginning of what follows it."""

    @property
    def further(self) -> bytes:
        """More of what follows it; may be empty."""

    @property
    def above(self) -> bytes:
        """The end of what stands before it."""


REMEMBERED: Final = 2048  # lines; a storm has few kinds of them
NEIGHBOURS: Final = 2048  # lines of trouble that may be looked around, where nothing is explained
KINDS: Final = 256  # different ones
ALIKE: Final = 2  # of one kind
_DIGITS: Final = late(rb"\d+")
_VARIES: Final = late(
    rb"0x[0-9a-fA-F]+|\d{1,2}:\d\d:\d\d(?:[.,]\d+)?|<\d+>|\b(?:wr_id|wqe|len|seq)[ =:\[]*\d+|\d{4,}"
)
"""What changes from one line of a storm to the next, and has nothing to do with its cause."""
_SAYS_MORE_BELOW: Final = late(
    rb"(?:[^\n]*\n)?[ \t]*(?:[Ll]ocal |errno|ERRNO|Requested |Error: |scnt=)|[^\n]{0,256}\bdgid "
)
_ENDS_ABOVE: Final = late(rb"(?:local|remote) address: ")
"""Both ends, as perftest and the pingpongs of rdma-core print them before they connect."""
_LISTS: Final = late(rb"\s*State: ")
"""A port of ibstat: its device stands above it."""
_ASSERTS: Final = late(rb"assert", re.IGNORECASE)
_ANSWERS: Final = late(
    rb"\s*error: (?:Operation not supported|Invalid argument|No such device|File exists"
    rb"|Operation not permitted)\s*$"
)
"""rdma(8), and nothing else of it: what was asked stands above."""
_LINK_ADDED: Final = late(rb"\brdma link add \S+ type \w+ [^\n]*\n?$")
_REGISTERS: Final = late(rb"\bMR\b|regist", re.IGNORECASE)
_GPU_ABOVE: Final = late(rb"CUDA|GPU")
_RETRIES: Final = late(rb"\b12\b|retry", re.IGNORECASE)
_KILLED_ABOVE: Final = late(
    rb"oom[-_ ]?kill|out of memory|sigkill|killed by|exited on signal|segmentation fault"
    rb"|node failure",
    re.IGNORECASE,
)
"""A process of the job ended before: what does not answer is no longer there."""


def collect(candidates: Iterable[Candidate], narrow: Callable[[], None] | None = None) -> Collector:
    """What they all mean; `Collector.account` then sums it up.

    `narrow` is called once when lines need not be looked at any more for what stands around them.
    """
    collector = Collector()
    reader = _Reader()
    tries = NEIGHBOURS
    looked: Counter[bytes] = Counter()
    for each in candidates:
        if _ANSWERS.match(each.line) and not _LINK_ADDED.search(each.above):
            continue
        meaning = reader.meaning(each)
        if meaning is not None:
            _take(collector, each, meaning)
        elif (
            not collector.talk.take(each.line, each.number, each.after, each.above)
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


def _take(collector: Collector, candidate: Candidate, meaning: Meaning) -> None:
    if is_of_a_link(meaning.word):  # with its own numbers: each time of each link counts
        meaning = replace(meaning, fields=fields(candidate.line.decode("utf-8", "replace")))
    if meaning.kind is not Kind.NOTE and meaning.setting is None:
        collector.look_around(b"\n".join((candidate.above, candidate.line, candidate.after)))
    if meaning.is_other or (meaning.is_beside and not stands_in_a_job(candidate)):
        collector.note_apart(candidate.number, meaning)
    else:
        collector.add(candidate.number, meaning)


def stands_in_a_job(candidate: Candidate) -> bool:
    """Whether the line, or those around it, are of RDMA or of a job that uses it."""
    around = b"\n".join((candidate.above, candidate.line, candidate.after))
    return is_of_a_job(around.decode("utf-8", "replace"))


def is_of_a_job(text: str) -> bool:
    """Whether some of the lines are of RDMA, or of a job that uses it."""
    return _OF_A_JOB.search(text) is not None or any(map(names_rdma, text.splitlines()))


_OF_A_JOB: Final = late(
    r"\b(?:nccl|rccl|mpirun|mpiexec|orted|prted|hydra|pmix|srun|slurmstepd|torchrun|torch\.distributed"
    r"|horovod|gloo|megatron|deepspeed|nvidia|fabric ?manager|gdrdrv"
    r"|gdrcopy|c10d|processgroup\w+|vllm|sglang)",
    re.IGNORECASE,
)
"""Beside the names that RDMA has: launchers, libraries of collectives, and GPUs."""


class _Reader:
    """What lines mean, each kind of them once."""

    def __init__(self) -> None:
        self._same = _Memory()
        self._alike = _Memory()

    def meaning(self, each: Candidate) -> Meaning | None:
        """Of a line, with as much of what stands around it as counts."""
        more = (
            _SAYS_MORE_BELOW.match(each.after) or is_cut_off(each.line) or HEADER.match(each.line)
        )
        below = each.after if more else b""
        above = each.above if _counts_above(each) else b""
        line = each.line + below + above
        seen = self._same.get(line)
        if seen is None:
            key = _VARIES.sub(b"#", line)
            seen = self._alike.get(key)
            if seen is None:
                meaning = recognise(each.line, below, above)
                seen = meaning, _more_of(each.line, meaning)
                self._alike.keep(key, seen)
            self._same.keep(line, seen)
        meaning, look = seen
        return (look(each) if look else None) or meaning


def _counts_above(each: Candidate) -> bool:
    """Whether what stands above the line says more of it."""
    return bool(
        _LISTS.match(each.line)
        or _ANSWERS.match(each.line)
        or _ENDS_ABOVE.search(each.above)
        or (_REGISTERS.search(each.line) and _GPU_ABOVE.search(each.above))
        or (
            _RETRIES.search(each.line)
            and (_KILLED_ABOVE.search(each.above) or PASSED_ABOVE.search(each.above))
        )
    )


Look = Callable[[Candidate], Meaning | None]


def _more_of(line: bytes, meaning: Meaning | None) -> Look | None:
    """How to look at its neighbours, where they say what crashed."""
    is_known = meaning is not None and meaning.kind is Kind.FAILURE
    if CRASHES.search(line):
        return None if is_known and _ASSERTS.search(line) else _crash
    if DUMPS.search(line):
        return _dumped
    return _raised if not is_known and RAISES.search(line) else None


def _crash(each: Candidate) -> Meaning | None:
    lines = (each.line[:TEXT_LIMIT], *(each.further or each.after).splitlines())
    text, *below = (cleaned(line.decode("utf-8", "replace")) for line in lines)
    above = each.above.decode("utf-8", "replace")
    return crash_of(text, below, above) if is_output(text) else None


def _dumped(each: Candidate) -> Meaning | None:
    below = (each.further or each.after).decode("utf-8", "replace").splitlines()
    found = dumped(map(cleaned, below))
    if found is None:
        return None
    of = fields(each.line[:TEXT_LIMIT].decode("utf-8", "replace"))
    return of_completion(replace(of, stage=Stage.DATA, errno=None, **found._asdict()))


def _raised(each: Candidate) -> Meaning | None:
    text = cleaned(each.line[:TEXT_LIMIT].decode("utf-8", "replace"))
    return raised_in(text, each.above.decode("utf-8", "replace").splitlines())


Seen = tuple[Meaning | None, Look | None]


class _Memory(dict[bytes, Seen]):
    """What lines meant, forgotten all at once when there are too many."""

    def keep(self, key: bytes, seen: Seen) -> None:
        if len(self) >= REMEMBERED:
            self.clear()
        self[key] = seen
