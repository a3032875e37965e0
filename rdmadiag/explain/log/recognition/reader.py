"""What a candidate line means, with as much of its neighbours as counts; each kind once."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.line.fields import cleaned, fields
from rdmadiag.explain.log.line.printed import is_cut_off, is_head, is_output
from rdmadiag.explain.log.meaning import Meaning
from rdmadiag.explain.log.recognition.crash import CRASHES, RAISES, crash_of, raised_in
from rdmadiag.explain.log.recognition.dumped_cqe import DUMPS, dumped
from rdmadiag.explain.log.recognition.recognise import (
    PASSED_ABOVE,
    TEXT_LIMIT,
    of_completion,
    recognise,
)
from rdmadiag.explain.log.recognition.signs.listings import HEADER
from rdmadiag.facts.attempt import Stage
from rdmadiag.late import late


class Candidate(Protocol):
    """A line that has the words of explain.log.recognition.vocabulary."""

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


@dataclass(frozen=True, slots=True)
class Lines:
    """A candidate without its launcher's label, and those around it that have the same one."""

    number: int
    line: bytes
    after: bytes
    further: bytes
    above: bytes


REMEMBERED: Final = 2048  # lines; a storm has few kinds of them
VARIES: Final = late(
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


class Meanings:
    """What lines mean, each kind of them once."""

    def __init__(self) -> None:
        self._same = _Memory()
        self._alike = _Memory()

    def of(self, each: Candidate) -> Meaning | None:
        """Of a line; of those that differ in numbers alone, the first one's."""
        below, above = around(each)
        text = each.line + below + above
        seen = self._same.get(text)
        if seen is None:
            key = VARIES.sub(b"#", text)
            seen = self._alike.get(key)
            if seen is None:
                seen = _seen(each.line, below, above)
                self._alike.keep(key, seen)
            self._same.keep(text, seen)
        return seen.meaning_of(each)

    def own(self, each: Candidate) -> Meaning | None:
        """Of a line, with its own numbers."""
        below, above = around(each)
        text = each.line + below + above
        seen = self._same.get(text)
        if seen is None or seen.text != text:
            seen = _seen(each.line, below, above)
        return seen.meaning_of(each)


def around(each: Candidate) -> tuple[bytes, bytes]:
    """What stands below a line and above it, as far as it says more of the line."""
    more = _SAYS_MORE_BELOW.match(each.after) or is_cut_off(each.line) or HEADER.match(each.line)
    return each.after if more else b"", each.above if _counts_above(each) else b""


def says_nothing(each: Candidate) -> bool:
    """Whether it is the head of a table, or rdma(8) said that something is not supported, and not
    of which link.
    """
    line, below = (part[:TEXT_LIMIT].decode("utf-8", "replace") for part in (each.line, each.after))
    if is_head(line, below):
        return True
    return bool(_ANSWERS.match(each.line) and not _LINK_ADDED.search(each.above))


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


class _Seen(NamedTuple):
    text: bytes  # the line, with what counts of its neighbours
    meaning: Meaning | None
    look: Look | None

    def meaning_of(self, each: Candidate) -> Meaning | None:
        return (self.look(each) if self.look else None) or self.meaning


def _seen(line: bytes, below: bytes, above: bytes) -> _Seen:
    meaning = recognise(line, below, above)
    return _Seen(line + below + above, meaning, _more_of(line, meaning))


class _Memory(dict[bytes, _Seen]):
    """What lines meant, forgotten all at once when there are too many."""

    def keep(self, key: bytes, seen: _Seen) -> None:
        if len(self) >= REMEMBERED:
            self.clear()
        self[key] = seen
