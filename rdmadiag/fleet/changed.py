"""What differs between two records: the parts of `rdmadiag diff --json`."""

from enum import StrEnum

from rdmadiag.frozen import dataclass
from rdmadiag.preflight.verdict import Severity, Status


class ChangeKind(StrEnum):
    """What a change means."""

    WORSE = "worse"  # a new problem: a rule finds in the second record what it did not in the first
    BETTER = "better"  # fixed
    CHANGED = "changed"  # other than it was, and no rule says that it is wrong


class Which(StrEnum):
    """Of two records."""

    BEFORE = "before"  # the first that was named
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Part:
    """A key of an object, or an item of a list, that one value has and the other has not."""

    name: str  # "max_qp", "ipv4.most"; of an item of a list, what the list is called: "", "paths"
    before: str | None  # None: it is new
    after: str | None  # None: it is gone


@dataclass(frozen=True, slots=True)
class Change:
    """A finding or a fact that one record has and the other has not, or has otherwise."""

    kind: ChangeKind
    rule: str | None  # whose finding it is; of a fact, the one whose finding it goes with
    fact: str | None  # as `fleet merge` names it, else its place in the report; None: the finding
    device: str | None  # as the second record names it; a device that has gone, as the first
    port: int | None
    before: str | None  # a value, or the summary of a finding; None: no such finding
    after: str | None
    severity_before: Severity | None = None  # of a finding
    severity_after: Severity | None = None
    remedy: tuple[str, ...] = ()  # of what is newly wrong: shell lines to paste
    parts: tuple[Part, ...] = ()  # in which an object or a list differs


@dataclass(frozen=True, slots=True)
class NotCompared:
    """What one record says, and the other could not look at."""

    unknown_in: Which
    rule: str | None
    fact: str | None
    device: str | None
    port: int | None
    known: str  # what the other record has
    why: str  # it could not be looked at
    counts: bool  # it could have been read: with such a one, two records are not called the same


@dataclass(frozen=True, slots=True)
class Sameness:
    """Whether both records are of one host, and what shows that."""

    is_same: bool
    by: str  # "node GUID 0c42:a103:0000:0001"


@dataclass(frozen=True, slots=True)
class Folded:
    """How many differences are not shown one by one, by why they are none."""

    noise: int = 0  # another value at each look: counters, times, process ids
    may_differ: int = 0  # by how rdmadiag was started, or follows from another fact
    identity: int = 0  # of two hosts: names, GUIDs, addresses, of which each has its own


@dataclass(frozen=True, slots=True)
class Statuses:
    """Of the verdicts, both by this version's rules."""

    before: Status
    after: Status


@dataclass(frozen=True, slots=True)
class Differences:
    """All of it; changes with the worst first."""

    hosts: Sameness
    status: Statuses
    changes: tuple[Change, ...]
    not_compared: tuple[NotCompared, ...]
    folded: Folded
    equal: int  # facts that both have alike

    def of_kind(self, kind: ChangeKind) -> tuple[Change, ...]:
        """The changes of one kind."""
        return tuple(each for each in self.changes if each.kind is kind)

    @property
    def is_whole(self) -> bool:
        """Whether nothing that could have been read is missing on one side."""
        return not any(each.counts for each in self.not_compared)
