"""What each stack of the advisor takes towards a peer, beside what rdma_cm takes."""

from collections.abc import Iterator, Mapping, Sequence

from rdmadiag.facts import Missing
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.ib import GidType
from rdmadiag.frozen import dataclass
from rdmadiag.gid.pick import Outcome
from rdmadiag.gid.registry import Chosen
from rdmadiag.view.cm_device import Taken
from rdmadiag.view.reconcile import PortView
from rdmadiag.view.stack_picks import made_for, picks


@dataclass(frozen=True, slots=True)
class StackWay(WithNumbers):
    """One stack on the port that the way leads over."""

    stack: str
    version: str
    by_rdma_cm: bool  # it asks rdma_cm, and takes what that takes
    outcome: Outcome
    index: int | None
    gid: str | None
    type: GidType | None
    netdev: str | None
    same: bool | None  # as rdma_cm's row; None where it uses none
    why: str


def ways(
    port: PortView, taken: Taken, stacks: Sequence[Chosen], environment: Mapping[str, str] | Missing
) -> Iterator[StackWay]:
    """One a stack and range of versions that runs on the port."""
    fitting = made_for(stacks, port)
    for (stack, version), pick in zip(fitting, picks(port, fitting, environment), strict=False):
        entry = pick.entry
        if stack.by_rdma_cm and not stack.pin:
            yield StackWay(
                stack.name,
                version.name,
                True,
                Outcome.ADDRESS if taken.gid_index is None else Outcome.ENTRY,
                taken.gid_index,
                taken.gid,
                taken.gid_type,
                None,
                True,
                "by rdma_cm",
            )
            continue
        yield StackWay(
            pick.stack,
            pick.version,
            False,
            pick.outcome,
            pick.index,
            str(entry.gid) if entry else None,
            entry.known_type if entry else None,
            entry.netdev_name if entry else None,
            (str(entry.gid), entry.known_type) == (taken.gid, taken.gid_type) if entry else None,
            pick.why,
        )
