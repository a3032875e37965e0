"""What a log came to: what failed first, what followed, what was not understood."""

from enum import StrEnum
from typing import Final

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.ranking.learned.threads import Similar
from rdmadiag.facts.errnos import Platform
from rdmadiag.frozen import dataclass

LIKELY: Final = 0.6
"""A first cause of this probability is not put in question."""


@dataclass(frozen=True, slots=True)
class Named:
    """A number with the name that its platform, or its enum, gives it."""

    number: int
    name: str | None
    text: str
    platform: Platform | None = None
    vendor_error: int | None = None


class Standing(StrEnum):
    """What a host's report says of a cause."""

    CONFIRMED = "confirmed"
    POSSIBLE = "possible"
    CONTRADICTED = "contradicted"


@dataclass(frozen=True, slots=True)
class LikelyCause:
    """One of several that compete."""

    label: str
    text: str
    standing: str = Standing.POSSIBLE
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownMessage:
    """That a stack prints the line, and when, by its source."""

    stack: str
    about: str


@dataclass(frozen=True, slots=True)
class Failure:
    """One group of lines."""

    kind: Kind
    what: str  # errno, completion, call, or the word of an event
    tool: str
    stage: str | None
    call: str | None
    errno: Named | None
    completion: Named | None
    platform: Platform
    device: str | None
    port: int | None
    gid_index: int | None
    local_gid: str | None
    remote_gid: str | None
    peers: tuple[str, ...]
    speakers: tuple[str, ...]  # ranks and hosts
    count: int  # lines
    lines: tuple[int, ...]  # the first of their numbers
    last_line: int
    text: str  # the first of them
    causes: tuple[LikelyCause, ...]
    next: tuple[str, ...]
    device_in_report: bool | None = None  # None: no report, or the line names no device
    rests_on: str | None = None  # the first cause: both, rule or words; None without one
    probability: float | None = None  # that it is right; None: not known
    tells_apart: str | None = None  # what to run where the log does not decide between the causes
    message: KnownMessage | None = None  # None: no such row, or it says no more than the causes


@dataclass(frozen=True, slots=True)
class Unknown:
    """A line of RDMA and of trouble that nothing is known of."""

    line: int
    text: str
    count: int  # of lines that differ in digits alone


@dataclass(frozen=True, slots=True)
class OtherFailure:
    """A failure of something else than RDMA."""

    line: int
    text: str
    count: int
    causes: tuple[LikelyCause, ...] = ()  # where its own words name them
    next: tuple[str, ...] = ()
    message: KnownMessage | None = None
    is_end: bool = True  # False: it names trouble of whatever, and not that a program failed


@dataclass(frozen=True, slots=True)
class Account:
    """What a log came to."""

    failures: tuple[Failure, ...]  # what failed first is first
    consequences: tuple[Failure, ...]  # of RDMA
    notes: tuple[Failure, ...]
    unknown: tuple[Unknown, ...]
    unknown_next: tuple[str, ...]  # what to look at where lines are not understood
    aftermath: int  # lines of watchdogs, aborts and the like
    aftermath_lines: tuple[int, ...]
    dropped: int  # lines that were recognised and not kept
    lines: int
    bytes: int
    other: OtherFailure | None = None  # how a program ended, in words that are not of RDMA
    similar: tuple[Similar, ...] | None = None  # None: not looked for

    @property
    def first(self) -> Failure | None:
        """What to look at."""
        return next(iter((*self.failures, *self.consequences)), None)

    @property
    def said(self) -> str:
        """The lines that it is made of, as they are kept."""
        groups = (*self.failures, *self.consequences, *self.notes)
        return "\n".join([each.text for each in groups] + [each.text for each in self.unknown])

    @property
    def unknown_before(self) -> tuple[Unknown, ...]:
        """What was said before the first failure, and perhaps is what failed first."""
        first = self.first
        return tuple(each for each in self.unknown if first and each.line < min(first.lines))
