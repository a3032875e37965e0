"""What the reports of a fleet add up to: the parts of `fleet merge --json`."""

from dataclasses import field
from enum import StrEnum

from rdmadiag.frozen import dataclass
from rdmadiag.preflight.verdict import Proof, Severity, Status


class Gap(StrEnum):
    """Why there is no report of a node, or why something that was read is not used as one."""

    NEVER_REPORTED = "never_reported"  # expected, and nothing of it was read
    TORN = "torn"  # a document that ends in its middle
    FOREIGN = "foreign"  # text that is no document of rdmadiag
    OTHER_SCHEMA = "other_schema"  # of a version that this one does not read
    SECOND = "second"  # there is a newer report of the same node
    UNREADABLE = "unreadable"  # a file that could not be opened or unpacked
    FAILED = "failed"  # the command's error document, or its worker's exit code
    UNEXPECTED = "unexpected"  # a report of a node that is none of those expected; it counts, too


@dataclass(frozen=True, slots=True)
class Unused:
    """Input that is no report, or a node without one."""

    gap: Gap
    node: str | None  # None: not known whose
    where: str | None  # as HostReport.where; None: nothing was read
    detail: str  # one line; a piece of the raw text where there is one


@dataclass(frozen=True, slots=True)
class HostCounts:
    """Of how many hosts."""

    expected: int | None  # None: nobody said which
    reported: int  # distinct nodes with a report
    fit: int  # with the status ok or warn


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that have one reason in common; the worst and the largest come first."""

    reason: str  # the code of a rule, or a Gap
    severity: Severity
    nodes: str  # folded: "node[017,203]"
    count: int
    summary: str  # of one of its nodes
    remedy: tuple[str, ...]
    evidence: tuple[Proof, ...] = ()  # of the node whose summary it is


@dataclass(frozen=True, slots=True)
class HardwareClass:
    """Nodes of one kind: drift is looked for among these alone."""

    name: str  # "A", "B", … from the largest
    nodes: str
    count: int
    hardware: dict[str, str]  # what they have in common, by name of a fact
    compared: bool = True  # False: of one host or two, among which nobody is the odd one
    like: str | None = None  # the larger class that it has the most in common with
    unlike: dict[str, str] = field(
        default_factory=dict
    )  # where it differs from that, as it is here


@dataclass(frozen=True, slots=True)
class Odd:
    """Nodes whose value is not the majority's."""

    value: str
    nodes: str
    count: int


@dataclass(frozen=True, slots=True)
class Drift:
    """One fact that ought to be equal within a class and is not."""

    fact: str
    hardware_class: str
    majority: str | None  # None: no value is that of more than half of those that were read
    count: int  # of nodes with it
    odd: tuple[Odd, ...]
    unread: str  # nodes whose value could not be read; "" where there is none


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Whether one stack can talk between two groups of nodes, without any traffic."""

    stack: str
    one: str  # nodes that are alike in all that this depends on
    other: str
    works: bool | None  # None: not known
    why: str


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One host as the page's table shows it."""

    node: str
    status: Status | None  # None: no report
    hardware_class: str | None
    reasons: tuple[str, ...]  # codes of rules, and Gap
    generated_at: str | None
    version: str | None


@dataclass(frozen=True, slots=True)
class Merged:
    """The whole of it."""

    status: Status
    hosts: HostCounts
    groups: tuple[Group, ...]
    unused: tuple[Unused, ...]
    classes: tuple[HardwareClass, ...]
    drift: tuple[Drift, ...]
    compatibility: tuple[Compatibility, ...]
    rows: tuple[NodeRow, ...]
    unjudged: str = ""  # nodes that compatibility leaves out: of groups beyond the most
