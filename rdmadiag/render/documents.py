"""Every document that rdmadiag prints, as models: what stands in each, and of which type.

The parts are the classes that hold them; here stands only what a document puts around them.
"""

from dataclasses import replace
from typing import Annotated, Any, Final, Literal, get_type_hints

from pydantic import AfterValidator, BaseModel, Field, create_model

from rdmadiag.explain.answers import Answer
from rdmadiag.explain.job.story import Story
from rdmadiag.explain.log.account import Account, Failure
from rdmadiag.facts import Identity, Missing
from rdmadiag.facts.attempt import Attempt, BadCompletion, Latency
from rdmadiag.facts.counters import CounterFacts
from rdmadiag.facts.exercise import Exercise
from rdmadiag.facts.ib import DriverId
from rdmadiag.facts.job import JobFacts
from rdmadiag.fleet.changed import Differences
from rdmadiag.fleet.merged import Merged
from rdmadiag.fleet.node_answer import Ending
from rdmadiag.fleet.pair_results import Tournament
from rdmadiag.fleet.trend import NodeHistory
from rdmadiag.preflight.judge_counters import CounterVerdict
from rdmadiag.preflight.judge_ends import EndFinding
from rdmadiag.preflight.judge_job import Because, JobVerdict
from rdmadiag.preflight.judge_lossless import LosslessVerdict
from rdmadiag.preflight.judge_resources import ResourceVerdict
from rdmadiag.preflight.judge_route import RouteVerdict
from rdmadiag.preflight.judge_topology import TopologyVerdict
from rdmadiag.preflight.verdict import Status
from rdmadiag.render.gid_documents import Table
from rdmadiag.render.judged import PreflightDocument
from rdmadiag.render.peer_documents import PortPair, PortsBeside
from rdmadiag.report import Document, HostDocument, Report
from rdmadiag.view.capabilities import DeviceCapabilities, Difference
from rdmadiag.view.compat_rows import CompatRow
from rdmadiag.view.counter_changes import Change
from rdmadiag.view.discovery_path import FunctionPath
from rdmadiag.view.inventory import DeviceRow
from rdmadiag.view.job import JobView
from rdmadiag.view.job_peer import JobPeer
from rdmadiag.view.lossless import EndsDiffer, LosslessPort
from rdmadiag.view.peer_picks import Talks
from rdmadiag.view.peer_route import PeerRoute
from rdmadiag.view.peer_stacks import StackWay
from rdmadiag.view.resource_usage import Usage
from rdmadiag.view.topology import Export, GpuView, Nic
from rdmadiag.watch.event import Action, Kind, Source

_MISSING: Final = "Sources that could not be read, or not whole: what they show is not here."


class GidsDocument(HostDocument):
    """`rdmadiag gids --json`."""

    ports: tuple[Table, ...]
    unread: dict[str, str] = Field(description="Devices that show no port, and why.")
    missing: dict[str, Missing] = Field(description=_MISSING)


class GidPairsDocument(HostDocument):
    """`rdmadiag gids --peer HOST --json`."""

    peer: Identity
    pairs: tuple[PortPair, ...]


class CountersDocument(HostDocument):
    """`rdmadiag counters --json`: one sample, and how it differs from the one before it."""

    seconds: float | Missing = Field(description="Between the two samples.")
    since: str | None = Field(description="When the earlier one was made, of a saved one; UTC.")
    verdict: CounterVerdict
    changes: tuple[Change, ...] | Missing = Field(description="Of the counters that moved.")
    sample: CounterFacts


class ResourcesDocument(HostDocument):
    """`rdmadiag resources --json`."""

    verdict: ResourceVerdict
    devices: tuple[Usage, ...]


class AskedPeer(BaseModel):
    """Which peer was asked for, and what it was taken for."""

    asked: str
    address: str
    port: int | None
    scope: str | None = Field(description="The netdev of a link-local address.")


class RouteDocument(HostDocument):
    """`rdmadiag route PEER --json`."""

    peer: AskedPeer
    verdict: RouteVerdict
    route: PeerRoute
    stacks: tuple[StackWay, ...]


class LosslessPeer(BaseModel):
    """The other end."""

    host: Identity
    verdict: LosslessVerdict
    ports: tuple[LosslessPort, ...]
    differences: tuple[EndsDiffer, ...]


class LosslessDocument(HostDocument):
    """`rdmadiag lossless --json`."""

    stacks: tuple[str, ...] = Field(description="That were looked at.")
    verdict: LosslessVerdict
    ports: tuple[LosslessPort, ...]
    peer: LosslessPeer | None
    missing: dict[str, Missing] = Field(description=_MISSING)


class TopologyDocument(HostDocument):
    """`rdmadiag topology --json`."""

    verdict: TopologyVerdict
    gpus: tuple[GpuView, ...]
    nics: tuple[Nic, ...]
    exports: tuple[Export, ...]
    missing: dict[str, Missing] = Field(description=_MISSING)


def _with_driver(row: DeviceRow) -> DeviceRow:
    """Of a word that is one of DriverId's, pydantic would make the text that it is as well."""
    return replace(row, driver=next((each for each in DriverId if each == row.driver), row.driver))


class DevicesDocument(HostDocument):
    """`rdmadiag devices --json`."""

    devices: tuple[Annotated[DeviceRow, AfterValidator(_with_driver)], ...]
    functions_without_device: tuple[FunctionPath, ...]
    missing: dict[str, Missing] = Field(description=_MISSING)


class CapabilitiesDocument(HostDocument):
    """`rdmadiag capabilities --json`."""

    devices: tuple[DeviceCapabilities, ...]
    unanswered: dict[str, Missing] = Field(description="Devices that did not answer, and why.")


class CapabilityPairsDocument(HostDocument):
    """`rdmadiag capabilities --peer HOST --json`."""

    peer: Identity
    differences: tuple[Difference, ...]


Written = bool | int | str | list[str]


class JobAtPeer(BaseModel):
    """A job's part on another host, as `job --json` printed it there, and both parts."""

    host: Identity
    verdict: JobVerdict
    both: JobPeer


class _JobHead(HostDocument):
    """`rdmadiag job PID --json`: one interval; with --watch, one document a line."""

    job: JobFacts
    verdict: JobVerdict
    because: tuple[Because, ...] = Field(description="What keeps it from RDMA, or would.")
    peer: JobAtPeer | None = Field(None, description="With --peer: its part on another host.")


class ExpectationTables(BaseModel):
    """What an expectations file has, as JSON."""

    host: dict[str, Written]
    device: dict[str, dict[str, Written]]


class ExpectDocument(HostDocument):
    """`rdmadiag expect --json`."""

    status: Status
    expectations: ExpectationTables


class Sample(BaseModel):
    """A recorded machine that comes with rdmadiag."""

    name: str
    about: str


class SamplesDocument(Document):
    """`rdmadiag samples --json`."""

    samples: tuple[Sample, ...]


Details = dict[str, str | int | bool | None]


class WatchedEvent(BaseModel):
    """What a notification of the kernel says."""

    number: int = Field(description="Counts from 1 in each run of watch.")
    time: str = Field(description="When it was read; UTC.")
    source: Source
    kind: Kind
    action: Action
    subject: str = Field(description="A device, a netdev, an address, a prefix, a handle.")
    details: Details = Field(description="Of something that changed, what it is now.")
    before: Details = Field(description="The same of what changed, where that is known.")


class WatchDocument(HostDocument):
    """A line of `rdmadiag watch --json`, and what --on-change is given: one event."""

    event: WatchedEvent


class CauseOfRing(BaseModel):
    """A cause that an event before a failure points to; it need not have caused it."""

    label: str
    text: str
    subject: str = Field(description="A device, a netdev, an address, a prefix.")
    number: int = Field(description="Of the first event that points to it.")
    time: str = Field(description="Of the same; UTC.")
    count: int = Field(description="Events that say the same.")
    mended: bool = Field(description="A later event says that it is as it was.")
    next: tuple[str, ...] = Field(description="Shell lines to paste; advice stands behind #.")


class RingDocument(Document):
    """`rdmadiag explain --ring DIR --json`: what happened before a moment."""

    ring: str
    begin: str = Field(description="UTC.")
    end: str
    unknown: tuple[str, ...] = Field(description="Why something may have happened unseen.")
    unheard: tuple[str, ...] = Field(description="Sources that were not listened to, and why.")
    causes: tuple[CauseOfRing, ...] = Field(description="The likeliest first.")
    events: tuple[WatchedEvent, ...]


class ExplainDocument(Document):
    """`rdmadiag explain WHAT --json`."""

    asked: str
    answers: tuple[Answer, ...]


class Log(BaseModel):
    """What was read."""

    name: str
    lines: int
    bytes: int


def _fields(kind: type, *without: str) -> dict[str, Any]:
    """A class's own fields, for a document that spreads them out."""
    hints = get_type_hints(kind)
    return {
        name: (hint, ...)
        for name, hint in hints.items()
        if name not in without and name in kind.__annotations__
    }


class _LogHead(Document):
    """`rdmadiag explain --log FILE --json`."""

    host: Identity | None
    log: Log
    first: Failure | None


class _JobLogsHead(Document):
    """`rdmadiag explain --log 'logs/*' --json`: several logs, or one with --job."""

    answer: str


class Errno(BaseModel):
    """An errno, and whose."""

    number: int
    name: str
    platform: Literal["linux", "darwin"]


class Refusal(BaseModel):
    """A reason against the attempt, and on which port."""

    device: str
    port: int
    reason: str


class _PingpongTail(BaseModel):
    causes: tuple[str, ...]
    next: tuple[str, ...]
    reasons: tuple[Refusal, ...]
    host_reasons: tuple[str, ...]
    accepted_risks: tuple[str, ...]


Completion = create_model(
    "Completion",
    __doc__="A work request that completed with an error.",
    name=(str | None, ...),
    **_fields(BadCompletion),
)

ExplainLogDocument: type[Document] = create_model(
    "ExplainLogDocument",
    __base__=_LogHead,
    __doc__=_LogHead.__doc__,
    **_fields(Account, "lines", "bytes"),
)

ExplainJobDocument: type[Document] = create_model(
    "ExplainJobDocument",
    __base__=_JobLogsHead,
    __doc__=_JobLogsHead.__doc__,
    **_fields(Story),
)

PingpongDocument: type[Document] = create_model(
    "PingpongDocument",
    __base__=HostDocument,
    __doc__="`rdmadiag pingpong --json`.",
    **_fields(Attempt, "platform", "latency", "completion") | {"errno": (Errno | None, ...)},
    completion=(Completion | None, ...),
    latency_us=(Latency | None, ...),
    **_fields(_PingpongTail),
)


JobDocument: type[Document] = create_model(
    "JobDocument", __base__=_JobHead, __doc__=_JobHead.__doc__, **_fields(JobView)
)


class _ExerciseTail(BaseModel):
    reasons: tuple[Refusal, ...]
    accepted_risks: tuple[str, ...]


ExerciseDocument: type[Document] = create_model(
    "ExerciseDocument",
    __base__=HostDocument,
    __doc__="`rdmadiag exercise --json`.",
    **_fields(Exercise),
    **_fields(_ExerciseTail),
)


class NodeAnswerDocument(Document):
    """A line of `rdmadiag fleet run --json`, but for preflight: what one node answered."""

    node: str
    ending: Ending
    exit_code: int | None = Field(description="Of the command, or of what launched it there.")
    why: str | None = Field(description="Why there is no answer.")
    document: dict[str, Any] | None = Field(description="What the command printed on stdout.")
    text: str | None = Field(description="The same where it is no JSON.")
    stderr: str


class Failed(BaseModel):
    """Why there is no document."""

    message: str
    exit_code: Annotated[int, Field(ge=0, le=255)]


class ErrorDocument(Document):
    """Instead of any other, where a command could not be followed."""

    error: Failed


FleetMergeDocument: type[Document] = create_model(
    "FleetMergeDocument",
    __base__=Document,
    __doc__="`rdmadiag fleet merge --json`.",
    **_fields(Merged),
    tournament=(Tournament | None, ...),
)


class _PairsHead(Document):
    """`rdmadiag fleet pairs --json`."""

    status: Status


FleetPairsDocument: type[Document] = create_model(
    "FleetPairsDocument",
    __base__=_PairsHead,
    __doc__=_PairsHead.__doc__,
    **_fields(Tournament),
)


class FleetHistoryDocument(Document):
    """`rdmadiag fleet history --json`."""

    status: Status = Field(description="The worst of the nodes' newest; one not known is unknown.")
    nodes: tuple[NodeHistory, ...]
    unknown: tuple[str, ...] = Field(description="Nodes that no merge had.")


class RecordOf(BaseModel):
    """A record that was compared."""

    host: Identity


class _DiffHead(Document):
    """`rdmadiag diff A B --json`."""

    before: RecordOf = Field(description="A.")
    after: RecordOf = Field(description="B.")


DiffDocument: type[Document] = create_model(
    "DiffDocument",
    __base__=_DiffHead,
    __doc__=_DiffHead.__doc__,
    **_fields(Differences),
)

ChangedSince = create_model(
    "ChangedSince",
    __doc__="What changed since a record.",
    before=(RecordOf, ...),
    **_fields(Differences),
)


class PreflightSinceDocument(PreflightDocument):
    """`rdmadiag preflight --since RECORD --json`."""

    changed_since: ChangedSince


class CompatDocument(Document):
    """`rdmadiag compat A B --json`."""

    here: RecordOf = Field(description="A.")
    there: RecordOf = Field(description="B.")
    talks: Talks = Field(
        description="Of the two ports that do best, or of the stacks that were asked for."
    )
    why: str
    rows: tuple[CompatRow, ...] = Field(description="Of the hosts.")
    beside: tuple[PortsBeside, ...] = Field(description="Those that do best first.")
    findings: tuple[EndFinding, ...] = Field(
        description="What each host has of its own (critical), then of the ways between them."
    )
    not_looked_at: tuple[str, ...] = Field(description="Of those ways, and why; one line each.")


DOCUMENTS: Final[dict[str, type[Document]]] = {
    "preflight": PreflightDocument,
    "gids": GidsDocument,
    "gid-pairs": GidPairsDocument,
    "devices": DevicesDocument,
    "capabilities": CapabilitiesDocument,
    "capability-pairs": CapabilityPairsDocument,
    "counters": CountersDocument,
    "resources": ResourcesDocument,
    "route": RouteDocument,
    "lossless": LosslessDocument,
    "topology": TopologyDocument,
    "job": JobDocument,
    "expect": ExpectDocument,
    "explain": ExplainDocument,
    "explain-log": ExplainLogDocument,
    "explain-job": ExplainJobDocument,
    "pingpong": PingpongDocument,
    "exercise": ExerciseDocument,
    "preflight-since": PreflightSinceDocument,
    "diff": DiffDocument,
    "compat": CompatDocument,
    "fleet-merge": FleetMergeDocument,
    "fleet-pairs": FleetPairsDocument,
    "fleet-history": FleetHistoryDocument,
    "samples": SamplesDocument,
    "watch": WatchDocument,
    "explain-ring": RingDocument,
    "node-answer": NodeAnswerDocument,
    "report": Report,
    "error": ErrorDocument,
}
"""By the name that `rdmadiag schema` knows it by."""
