"""Results of pairs, and what a tournament of them says: the parts of `fleet pairs --json`."""

from enum import StrEnum

from rdmadiag.facts.attempt import Outcome
from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class End:
    """One end of a pair."""

    node: str
    rail: int  # from 0, in the order of the node's devices
    device: str


@dataclass(frozen=True, slots=True)
class PairResult:
    """What one end said of one pair; a pair has two of them, or the other end is missing."""

    round: int
    sender: End
    receiver: End
    outcome: Outcome | None  # None: this end never reported
    latency_us: float | None  # median half round trip
    gbps: float | None
    by_sender: bool = True  # which of the two said it


class OddKind(StrEnum):
    """What is odd."""

    NODE = "node"
    NIC = "nic"  # one rail of one node
    PATH = "path"  # between two ends alone: a cable, or a hash of the network's
    BOUNDARY = "boundary"  # between two groups, such as leaves
    FLEET = "fleet"  # as a whole, against what is expected of it
    UNDECIDED = "undecided"  # one of those that are named; too few partners to say which


@dataclass(frozen=True, slots=True)
class OddPart:
    """One part of a fleet that is slower than the rest, or fails."""

    kind: OddKind
    names: tuple[str, ...]  # "node017", "node017:mlx5_3", of a path both ends
    slower: float | None  # 1.2: by a fifth more time, or that much less bandwidth; None: it fails
    partners: int  # distinct, that this stands on
    repeated: bool  # seen again, with partners that passed
    evidence: tuple[str, ...]  # lines


@dataclass(frozen=True, slots=True)
class Cell:
    """One pair of ends in the matrix, of all its rounds."""

    sender: str
    receiver: str
    outcome: Outcome | None  # the worst
    latency_us: float | None
    gbps: float | None


@dataclass(frozen=True, slots=True)
class Matrix:
    """Every pair that was tried, ordered so that what is odd stands together."""

    ends: tuple[str, ...]  # rows and columns
    cells: tuple[Cell, ...]  # those that were tried
    groups: tuple[str, ...] = ()  # of each of `ends`, such as its leaf; (): none was given


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An end that takes no part from some round on."""

    end: str  # "node311:mlx5_0", or a node with all its rails
    round: int  # after which it does not; that of which it says so where it is busy; 0: in none
    why: str  # one line


@dataclass(frozen=True, slots=True)
class Tournament:
    """What all rounds say."""

    rounds: int
    nodes: int
    matrix: Matrix
    odd: tuple[OddPart, ...]
    unreported: tuple[str, ...]  # ends that never reported: "node311:mlx5_0 in round 2"
    left_out: tuple[LeftOut, ...] = ()
    unplayed: int = 0  # rounds that the deadline, or the end of the job, came before
