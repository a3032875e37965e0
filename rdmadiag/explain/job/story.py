"""What the story of a job is made of."""

from enum import StrEnum

from rdmadiag.explain.job.alignment import Setting
from rdmadiag.explain.job.progress import Behind
from rdmadiag.explain.log.account import Failure, KnownMessage, LikelyCause, Named, Standing
from rdmadiag.explain.log.kind import UNSURE, Kind
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.judge_ends import EndFinding
from rdmadiag.preflight.verdict import Finding, Severity


@dataclass(frozen=True, slots=True)
class JobEnd:
    """One end of what failed."""

    rank: int | None
    host: str | None
    device: str | None
    port: int | None
    gid_index: int | None
    gid: str | None
    address: str | None  # as the line gives it, of the other end


@dataclass(frozen=True, slots=True)
class FirstFailure:
    """What failed first, who said so of whom, and when."""

    who: JobEnd
    whom: JobEnd | None  # None: it says nothing of a peer
    at: str | None  # UTC, or the line's own clock where no clock has a date; None: no clock
    where: str  # the file
    line: int
    is_ordered: bool  # by clocks that compare; else by place in one file, or not at all
    failure: Failure


@dataclass(frozen=True, slots=True)
class CommonEnd:
    """A host that most of the first failing pairs have as one of their ends."""

    host: str
    devices: tuple[str, ...]
    pairs: int  # of those that failed in the first minute, those with this host
    of: int
    because: tuple[str, ...]
    findings: tuple[Finding, ...]  # what its report says of it


@dataclass(frozen=True, slots=True)
class Step:
    """How many spoke of failure for the first time within a span after the first failure."""

    after_s: float | None  # None: their clocks cannot be compared
    until_s: float | None
    ranks: int
    hosts: int
    names: tuple[str, ...]  # the first of the hosts
    what: str  # what most of them said


@dataclass(frozen=True, slots=True)
class JobGroup:
    """Lines of many ranks that say the same."""

    kind: Kind
    what: str
    stage: str | None
    errno: Named | None
    completion: Named | None
    count: int  # lines
    ranks: int
    hosts: int
    names: tuple[str, ...]  # the first of the hosts
    after_s: float | None
    text: str
    where: str
    line: int
    label: str | None  # of the likeliest cause
    cause: str | None


@dataclass(frozen=True, slots=True)
class PrintedEnd:
    """What a test printed of its own end."""

    host: str
    where: str  # the file
    device: str | None
    gid: str | None
    tried: str | None  # the address or name that it could not connect to
    name: str | None = None  # that name, where `tried` is what /etc/hosts of the host has for it
    # Who is asked for the name, where no file of the host has it: "dns 192.0.2.53".
    asked: tuple[str, ...] = ()
    gid_index: int | None = None  # the row of its GID table, of perftest's header
    listens_at: str | None = None  # the address at which `rdmadiag pingpong` waits
    waits: bool = False  # for its client, and nothing else is said of it


class Silence(StrEnum):
    """Why a rank or a host is called silent."""

    NO_LOG = "no-log"  # named by others, and none of the files is of it
    SAYS_NOTHING = "says-nothing"  # in a file of many, no line of trouble is of it
    ENDED_EARLY = "ended-early"  # its log ends before anything failed
    EMPTY = "empty"
    DEAD = "dead"  # RAS
    UNRESPONSIVE = "unresponsive"  # RAS
    NO_DUMP = "no-dump"  # of the flight recorder


@dataclass(frozen=True, slots=True)
class Silent:
    """Ranks of one host, or of one that is not known."""

    host: str | None
    ranks: tuple[int, ...]
    why: Silence
    detail: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A process or a GPU that ended or failed by something else than RDMA."""

    host: str | None
    rank: int | None
    at: str | None
    is_before: bool | None  # before the first failure; None: not known
    text: str
    where: str
    line: int
    causes: tuple[LikelyCause, ...] = ()  # where its own words name them
    message: KnownMessage | None = None


@dataclass(frozen=True, slots=True)
class JobSource:
    """One file."""

    name: str
    kind: str  # "log", "ras", "flight-recorder", "inspector"
    lines: int
    bytes: int
    rank: int | None
    host: str | None
    problem: str | None  # why nothing of it, or not all of it, was read


@dataclass(frozen=True, slots=True)
class JobReport:
    """One host's report."""

    host: str
    where: str
    status: str


@dataclass(frozen=True, slots=True)
class OfReports:
    """What reports of two hosts show, held against each other."""

    pairs: tuple[tuple[str, str], ...]
    findings: tuple[EndFinding, ...]  # the worst first
    is_clear: bool  # all was read, and nothing keeps them apart
    unknown: tuple[str, ...]  # what of which host was not read
    cause: LikelyCause | None  # what they prove, or point at
    hosts: tuple[str, ...]  # where it is
    object: str  # "neighbour entry of 192.0.2.2 on eth0"; "" without a cause
    next: tuple[str, ...]
    is_proven: bool = False  # the cause is, and not only pointed at


class PlaceKind(StrEnum):
    """Where something is to be mended."""

    HOST = "host"
    BOTH = "both"  # the ends do not fit each other
    BETWEEN = "between"  # on the way, or at no host that is known


@dataclass(frozen=True, slots=True)
class Place:
    """Where it is, as far as logs and reports show."""

    kind: PlaceKind
    names: tuple[str, ...]  # hosts; a file's or an address, where its host is not known
    why: str
    is_certain: bool  # a report shows it; else it is where to look first


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """A line of RDMA and of trouble."""

    where: str
    line: int
    text: str
    count: int


@dataclass(frozen=True, slots=True)
class Story:
    """What became of a job: the first failure with its causes, and what followed."""

    ranks: int  # that said anything
    world_size: int | None
    hosts: tuple[str, ...]
    first: FirstFailure | None
    failed_after: int  # ranks, or where none is named processes or files
    common_end: CommonEnd | None
    wavefront: tuple[Step, ...]
    failures: tuple[JobGroup, ...]
    consequences: tuple[JobGroup, ...]
    aftermath: int
    silent: tuple[Silent, ...]
    behind: tuple[Behind, ...]
    ended: tuple[Ended, ...]
    clocks: tuple[Setting, ...]
    not_understood: tuple[NotUnderstood, ...]
    next: tuple[str, ...]
    reports: tuple[JobReport, ...]
    unused_reports: tuple[str, ...]  # files of --from that are no report, and why
    sources: tuple[JobSource, ...]
    dropped: int
    of_reports: OfReports | None = None  # None: no two hosts of it have a report
    # What other processes failed at where no clock says who was first: few logs, one each.
    also_first: tuple[FirstFailure, ...] = ()
    printed: tuple[PrintedEnd, ...] = ()
    # How a program ended that failed, where no line says that RDMA did.
    other: Ended | None = None
    at: Place | None = None  # None: nothing failed, or nothing says where

    @property
    def is_proven(self) -> bool:
        """Whether the reports show that two of its hosts cannot reach each other, or that what a
        program had used is gone.
        """
        found = self.of_reports
        return found is not None and (
            found.is_proven
            or any(each.finding.severity is Severity.CRITICAL for each in found.findings)
        )

    @property
    def has_failed(self) -> bool:
        """A failure that is known; where a test has only stopped, one that both logs show."""
        if self.first is None:
            return False
        failure = self.first.failure
        shown = any(each.standing == Standing.CONFIRMED for each in failure.causes[:1])
        return failure.what not in UNSURE or shown

    @property
    def is_other(self) -> bool:
        """A program failed, and nothing says that RDMA did, or may have."""
        unsure = self.first or self.not_understood or self.is_stuck or self.silent or self.unread
        return self.other is not None and not (unsure or self.is_proven)

    @property
    def unread(self) -> tuple[JobSource, ...]:
        """Logs that could not be read, or not to their end: what failed may stand there."""
        return tuple(each for each in self.sources if each.kind == "log" and each.problem)

    @property
    def is_stuck(self) -> bool:
        """Something is wrong, of which no line says what."""
        grave = (Silence.DEAD, Silence.UNRESPONSIVE)
        return bool(self.behind) or any(each.why in grave for each in self.silent)
