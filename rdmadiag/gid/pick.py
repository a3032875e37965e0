"""The answer of one stack's rule for one port."""

from enum import StrEnum

from rdmadiag.facts import GidEntry
from rdmadiag.frozen import dataclass


class Outcome(StrEnum):
    """What a stack does on a port."""

    ENTRY = "entry"  # uses a row that is not empty
    EMPTY = "empty"  # uses a row that is empty: RTR fails
    OUTSIDE = "outside"  # uses an index that the table does not have
    LID = "lid"  # InfiniBand: addresses the peer by LID
    ADDRESS = "address"  # iWARP: by IP address through rdma_cm, no index is chosen
    FAILS = "fails"  # ends with an error of its own
    DROPS_PORT = "drops_port"  # leaves the port out, often without a message
    NOT_USED = "not_used"  # the port is not among those that a variable chooses
    UNSUPPORTED = "unsupported"  # it is not made for this link layer


@dataclass(frozen=True, slots=True)
class Pick:
    """Which index a stack would use for a port, and what is wrong with it."""

    stack: str  # "x-rdma"
    version: str  # the range of versions that the rule holds for
    index: int | None  # None: the stack picks none
    why: str  # the step of the rule that decided
    problem: str | None  # what will go wrong with it, if anything
    outcome: Outcome = Outcome.ENTRY
    entry: GidEntry | None = None  # the row that is used; None where it is empty, or there is none
    agrees: bool | None = None  # with the route GID; None where there is none to agree with
    advertised_index: int | None = None  # of the GID that the peer gets, where it is another
    pinned_by: str | None = None  # the variable that named the index
    ended_at: int | None = None  # the empty row that ended its scan before it found one
    assumed: tuple[str, ...] = ()  # what the rule depends on and was not looked at
    source: str = ""  # "owner/repository@commit path": where the rule was read
