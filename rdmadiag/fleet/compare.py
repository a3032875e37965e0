"""What comparing the facts of hosts with each other shows."""

from collections.abc import Mapping, Sequence
from dataclasses import field

from rdmadiag.fleet.classes import classes
from rdmadiag.fleet.compatibility import EvidenceOf, compatibility, stack_picks
from rdmadiag.fleet.drift import drifting, odd_of_nodes
from rdmadiag.fleet.host_report import HostReport
from rdmadiag.fleet.merged import Compatibility, Drift, HardwareClass
from rdmadiag.frozen import dataclass
from rdmadiag.gid.registry import every as all_stacks


@dataclass(frozen=True, slots=True)
class Compared:
    """Kinds of hosts, who differs from its like, and which stacks talk between whom."""

    classes: tuple[HardwareClass, ...] = ()
    class_of: Mapping[str, str] = field(default_factory=dict)  # node → name
    drift: tuple[Drift, ...] = ()
    compatibility: tuple[Compatibility, ...] = ()
    unjudged: str = ""  # nodes that compatibility leaves out
    odd: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # node → fact → its value


def compared(reports: Sequence[HostReport], evidence_of: EvidenceOf) -> Compared:
    """Of hosts whose facts were read; `evidence_of` reads the whole of a few of them again."""
    read = [each for each in reports if each.facts]
    every = classes(read)
    chosen = all_stacks()
    found = drifting(every, stack_picks(read, evidence_of, chosen))
    talks = compatibility(read, evidence_of, chosen)
    return Compared(
        tuple(each.named for each in every),
        {report.node: each.named.name for each in every for report in each.reports},
        tuple(each.row for each in found),
        talks.rows,
        talks.unjudged,
        odd_of_nodes(found),
    )
