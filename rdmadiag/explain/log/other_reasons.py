"""What ended a program that is none of RDMA's, as far as its log says."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rdmadiag.explain.causes import stated
from rdmadiag.explain.log.account import Failure, OtherFailure
from rdmadiag.explain.log.groups import TEXT_KEPT, Group, known_message, likely, next_of
from rdmadiag.explain.log.kind import (
    DISK_FAILED,
    NOT_STARTED,
    PROGRAM_ERROR,
    STARTS_NOTHING,
    Kind,
)
from rdmadiag.explain.log.text.endings import Ending, ending_of
from rdmadiag.explain.log.text.short_text import MOST_LINES
from rdmadiag.late import late

if TYPE_CHECKING:
    from rdmadiag.explain.log.meaning import Meaning
    from rdmadiag.explain.log.text.benchmark import Benchmark

_BARE: Final = frozenset({PROGRAM_ERROR, NOT_STARTED})
"""Causes that say that a program ended, or was not started, and not why."""
_CANCELLED: Final = late(r"\bCANCELLED AT \S+ \*\*\*")
"""By Slurm, with no reason beside it: often since a task had failed."""


class OtherReasons:
    """Takes them in the order of their lines."""

    def __init__(self) -> None:
        self.end: OtherFailure | None = None
        """How a program ended."""
        self.apart: OtherFailure | None = None
        """It names its cause, with nothing of RDMA around it."""
        self.fault: OtherFailure | None = None
        """A program ended by itself, in a log in which RDMA failed, too."""
        self.of_hosts: set[str] = set()
        """What a batch system says of a host of the job."""
        self._end_says_why = False
        self._apart_since = 0

    def note_end(
        self, number: int, text: str, *, says_why: bool = False, is_end: bool = True
    ) -> None:
        """How a program ended; `says_why`: with an exception, or a fault.

        Without `is_end`, a line of trouble that may be none of its end.
        """
        causes = likely((stated(PROGRAM_ERROR),)) if says_why else ()
        self.end = OtherFailure(number, text[:TEXT_KEPT], 1, causes, is_end=is_end)
        self._end_says_why = says_why

    @property
    def first(self) -> OtherFailure | None:
        """What names its cause, whether RDMA failed or not."""
        return self.apart or self.fault

    def forget(self) -> None:
        """All but what is of hosts."""
        self.apart = self.end = self.fault = None

    def note_apart(self, number: int, meaning: "Meaning", *, is_state: bool = False) -> None:
        """A message that names its cause, where nothing says that it is of RDMA.

        The first is kept, and of one that says no more than that a program failed any other.
        What is a state, shown by a listing, was there before all that failed.
        """
        if meaning.kind is not Kind.FAILURE or not meaning.causes:
            return
        kept, bare = self.apart, _is_bare(meaning.causes[0].label, meaning.fields.text)
        if kept and (_is_bare(kept.causes[0].label, kept.text), kept.line) <= (bare, number):
            return
        text, causes = meaning.fields.text[:TEXT_KEPT], likely(meaning.causes)
        known = known_message(text)
        self.apart = OtherFailure(number, text, 1, causes, next_of(meaning), known)
        self._apart_since = 0 if is_state else number

    def note_fault(
        self, number: int, text: str, meaning: "Meaning | None", *, says_why: bool = False
    ) -> None:
        """That a program ended by itself, in a log in which RDMA failed, too."""
        causes, look = (likely(meaning.causes), next_of(meaning)) if meaning else ((), ())
        if says_why and not causes:
            causes = likely((stated(PROGRAM_ERROR),))
        known = known_message(text)
        self.fault = OtherFailure(number, text[:TEXT_KEPT], 1, causes, look, known)

    def fault_before(self, failures: Iterable[Failure]) -> OtherFailure | None:
        """What ended a program before anything of RDMA is said to have failed."""
        failed = [each.lines[0] for each in failures]
        fault = self.fault
        return fault if fault and fault.line < min(failed, default=fault.line + 1) else None

    def said(self, lines: int, went_on: int) -> OtherFailure | None:
        """What names its cause, of a log that ended in trouble or is short; else how it ended.

        `lines` is how many the log has, `went_on` that of its last result.
        """
        apart, end = self.apart, self.end
        if apart is not None and apart.line < went_on:
            apart = None
        if apart is None or (end is None and lines > MOST_LINES):
            return end
        is_bare = _is_bare(apart.causes[0].label, apart.text)
        says_more = end is not None and self._end_says_why and end.line != apart.line
        return end if is_bare and says_more else apart

    def without_what_followed(self, groups: list[Group]) -> list[Group]:
        """Without consequences of a failure that is none of RDMA: of a GPU without memory."""
        apart = self.apart or (self.fault if self.fault and self.fault.causes else None)
        if apart is None or any(each.meaning.kind is Kind.FAILURE for each in groups):
            return groups
        if apart.causes[0].label == DISK_FAILED:  # the job may not be on it
            return groups
        since = self._apart_since if apart is self.apart else apart.line
        return [e for e in groups if e.meaning.kind is not Kind.CONSEQUENCE or e.number < since]

    def has_ended(self, group: Group) -> bool:
        """Whether a line says what ended the program of the group, and that is none of RDMA."""
        if self.fault and self.fault.causes:
            return True
        apart = self.apart
        if apart is None or ending_of(apart.text) is Ending.STATUS:
            return False
        return apart.line > group.number or apart.causes[0].label in STARTS_NOTHING

    def has_kept_from_starting(self, benchmark: "Benchmark") -> bool:
        """Whether the test did not begin. The end of its job may be since it hung."""
        apart = self.apart
        if apart is None or apart.line < benchmark.line or benchmark.has_met:
            return False
        return apart.causes[0].label in STARTS_NOTHING


def _is_bare(label: str, text: str) -> bool:
    """Whether the line says that a program or a job ended, and not why."""
    return any((label in _BARE, *(each.search(text) for each in (_CANCELLED, _ABORTED, _GUESSES))))


_GUESSES: Final = late(r"\b[Tt]his might be caused by\b")
"""Of PyTorch's loader: of any bus error."""
_ABORTED: Final = late(r"\bsrun: error: .{0,80}: Aborted\b|\bexited on signal 6 \(Aborted\)")
"""What a launcher says of a program that has ended itself."""
