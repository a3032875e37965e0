"""Every document that rdmadiag prints, as models: what stands in each, and of which type.

The parts are the classes that hold them; here stands only what a document puts around them.
"""

from typing import Annotated, Any, Final, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from rdmadiag.explain.answers import Answer
from rdmadiag.explain.log.account import Account, Failure
from rdmadiag.facts import Identity, Missing, kernel_log, macos, system, verbs
from rdmadiag.facts.attempt import Attempt, BadCompletion, EndFacts, Latency
from rdmadiag.facts.counters import CounterFacts
from rdmadiag.facts.evidence import Evidence
from rdmadiag.preflight.judge_counters import CounterVerdict
from rdmadiag.preflight.judge_resources import ResourceVerdict
from rdmadiag.preflight.verdict import Status, Verdict
from rdmadiag.render.gid_documents import Table
from rdmadiag.render.peer_documents import PortPair
from rdmadiag.view.counter_changes import Change
from rdmadiag.view.discovery_path import FunctionPath
from rdmadiag.view.inventory import DeviceRow
from rdmadiag.view.resource_usage import Usage

_MODULES: Final = (macos, verbs, system, kernel_log)


class Tool(BaseModel):
    """What printed the document."""

    name: Literal["rdmadiag"]
    version: str


class Document(BaseModel):
    """What every document begins with. Readers pass over fields that they do not know."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    schema_version: str = Field(pattern=r"^1\.[0-9]+$")
    tool: Tool
    generated_at: str = Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", description="UTC")


class PreflightDocument(Document):
    """`rdmadiag preflight --json`: the evidence, and the verdict on it."""

    host: Identity
    verdict: Verdict
    evidence: Evidence


class GidsDocument(Document):
    """`rdmadiag gids --json`."""

    host: Identity
    ports: tuple[Table, ...]
    unread: dict[str, str] = Field(description="Devices that show no port, and why.")


class GidPairsDocument(Document):
    """`rdmadiag gids --peer HOST --json`."""

    host: Identity
    peer: Identity
    pairs: tuple[PortPair, ...]


class CountersDocument(Document):
    """`rdmadiag counters --json`: one sample, and how it differs from the one before it."""

    host: Identity
    seconds: float | Missing = Field(description="Between the two samples.")
    since: str | None = Field(description="When the earlier one was made, of a saved one; UTC.")
    verdict: CounterVerdict
    changes: tuple[Change, ...] | Missing = Field(description="Of the counters that moved.")
    sample: CounterFacts


class ResourcesDocument(Document):
    """`rdmadiag resources --json`."""

    host: Identity
    verdict: ResourceVerdict
    devices: tuple[Usage, ...]


class DevicesDocument(Document):
    """`rdmadiag devices --json`."""

    host: Identity
    devices: tuple[DeviceRow, ...]
    functions_without_device: tuple[FunctionPath, ...]


Written = bool | int | str | list[str]


class ExpectationTables(BaseModel):
    """What an expectations file has, as JSON."""

    host: dict[str, Written]
    device: dict[str, dict[str, Written]]


class ExpectDocument(Document):
    """`rdmadiag expect --json`."""

    host: Identity
    status: Status
    expectations: ExpectationTables


class Sample(BaseModel):
    """A recorded machine that comes with rdmadiag."""

    name: str
    about: str


class SamplesDocument(Document):
    """`rdmadiag samples --json`."""

    samples: tuple[Sample, ...]


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
    names = {name: each for module in _MODULES for name, each in vars(module).items()}
    hints = get_type_hints(kind, localns=names)
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
    errno: Errno | None
    local: EndFacts | None
    remote: EndFacts | None
    causes: tuple[str, ...]
    next: tuple[str, ...]
    reasons: tuple[Refusal, ...]
    accepted_risks: tuple[str, ...]


Completion = create_model(
    "Completion",
    __doc__="A work request that completed with an error.",
    name=(str | None, ...),
    **_fields(BadCompletion),
)

ExplainLogDocument: type[BaseModel] = create_model(
    "ExplainLogDocument",
    __base__=_LogHead,
    __doc__=_LogHead.__doc__,
    **_fields(Account, "lines", "bytes"),
)

PingpongDocument: type[BaseModel] = create_model(
    "PingpongDocument",
    __base__=Document,
    __doc__="`rdmadiag pingpong --json`.",
    host=(Identity, ...),
    **_fields(Attempt, "platform", "latency", "completion", "errno", "local", "remote"),
    completion=(Completion | None, ...),
    latency_us=(Latency | None, ...),
    **_fields(_PingpongTail),
)


class Failed(BaseModel):
    """Why there is no document."""

    message: str
    exit_code: Annotated[int, Field(ge=0, le=255)]


class ErrorDocument(Document):
    """Instead of any other, where a command could not be followed."""

    error: Failed


DOCUMENTS: Final[dict[str, type[BaseModel]]] = {
    "preflight": PreflightDocument,
    "gids": GidsDocument,
    "gid-pairs": GidPairsDocument,
    "devices": DevicesDocument,
    "counters": CountersDocument,
    "resources": ResourcesDocument,
    "expect": ExpectDocument,
    "explain": ExplainDocument,
    "explain-log": ExplainLogDocument,
    "pingpong": PingpongDocument,
    "samples": SamplesDocument,
    "error": ErrorDocument,
}
"""By the name that `rdmadiag schema` knows it by."""

NAMES: Final = {name: each for module in _MODULES for name, each in vars(module).items()} | {
    "Missing": Missing
}
"""What annotations of the evidence name without importing it."""

for _model in DOCUMENTS.values():
    _model.model_rebuild(_types_namespace=NAMES)
