"""What a looked-up word means, by its subject."""

from rdmadiag.explain.causes import Known
from rdmadiag.facts.errnos import Platform
from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class AtStage:
    """What a number has been traced to at one stage."""

    stage: str
    causes: tuple[Known, ...]
    next: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ErrnoAnswer:
    """A number on one platform."""

    subject: str
    number: int
    name: str
    text: str
    platform: Platform
    elsewhere: str | None  # the same number on the other platform
    stages: tuple[AtStage, ...]
    see: str | None = None  # its page, by its place on the documentation's site


@dataclass(frozen=True, slots=True)
class CompletionAnswer:
    """A row of enum ibv_wc_status."""

    subject: str
    number: int
    name: str
    text: str
    meaning: str
    is_consequence: bool
    vendor_error: int | None
    vendor: str | None  # what the vendor's number adds
    causes: tuple[Known, ...]
    next: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConstantAnswer:
    """A constant of a header: an event, a path MTU, a firmware command."""

    subject: str
    name: str
    of: str  # "enum ibv_event_type"
    number: int | None  # None: not on record here
    meaning: str
    effect: str | None  # of an event: on the queue pair, the port or what else it is of
    causes: tuple[Known, ...]
    next: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StateAnswer:
    """A state of a port or of a queue pair."""

    subject: str
    kind: str  # port, physical or queue pair
    state: str
    number: int
    meaning: str
    next: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VariableAnswer:
    """An environment variable."""

    subject: str
    name: str
    stack: str
    meaning: str
    value: str | None
    value_means: str | None
    pitfalls: tuple[str, ...]
    next: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RuleAnswer:
    """What docs/rules.md says: a rule, or a reason against RTR."""

    subject: str
    code: str
    severity: str
    title: str
    meaning: str
    remedy: tuple[str, ...]  # words in capitals stand for names of a host
    references: tuple[str, ...]
    see: str | None = None  # a rule's page, by its place on the documentation's site


@dataclass(frozen=True, slots=True)
class CauseAnswer:
    """A label, and where it comes from."""

    subject: str
    label: str
    texts: tuple[str, ...]
    known_from: tuple[str, ...]  # "linux: errno 110 at rtr", "wc 12"
    next: tuple[str, ...] = ()


Answer = (
    ErrnoAnswer
    | CompletionAnswer
    | ConstantAnswer
    | StateAnswer
    | VariableAnswer
    | RuleAnswer
    | CauseAnswer
)
