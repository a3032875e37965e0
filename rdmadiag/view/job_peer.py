"""A job's part on this host beside its part on another: which queue pairs lead to each other."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.job import JobFacts, JobProcess
from rdmadiag.frozen import dataclass
from rdmadiag.view.job import ConnectedPair, JobView


@dataclass(frozen=True, slots=True)
class BothEnds:
    """A queue pair here, and the one there that leads to it."""

    here: ConnectedPair
    there: ConnectedPair


@dataclass(frozen=True, slots=True)
class Differs:
    """A variable or a library of which the two parts have other values."""

    name: str  # "NCCL_IB_HCA", "nccl"
    here: tuple[str, ...]  # of its processes, each once; () where none has it
    there: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobPeer:
    """All of it."""

    joined: int | Missing  # queue pairs that lead to one of the peer's, which leads back
    halves: tuple[BothEnds, ...]  # those of them of which one end alone is in an error state
    connected: int | Missing  # here, to whichever host
    variables: tuple[Differs, ...] | Missing
    libraries: tuple[Differs, ...] | Missing


MOST_HALVES: Final = 64
BROKEN: Final = frozenset({"err", "sqe"})


def beside(here: JobFacts, view: JobView, there: JobFacts, other: JobView) -> JobPeer:
    """Both parts; a QPN is of its device alone, so that a queue pair is known by both its ends."""
    own, theirs = view.connected, other.connected
    joined: int | Missing
    halves: tuple[BothEnds, ...] = ()
    if isinstance(own, Missing):
        joined = own
    elif isinstance(theirs, Missing):
        joined = Missing(theirs.why, f"at the peer: {theirs.detail or theirs.why}")
    else:
        found = list(_joined(own, theirs))
        joined = len(found)
        broken = (
            each for each in found if (each.here.state in BROKEN) != (each.there.state in BROKEN)
        )
        halves = tuple(broken)[:MOST_HALVES]
    return JobPeer(
        joined=joined,
        halves=halves,
        connected=own if isinstance(own, Missing) else len(own),
        variables=_differing(here, there, _variables),
        libraries=_differing(here, there, _libraries),
    )


def _joined(own: Iterable[ConnectedPair], theirs: Iterable[ConnectedPair]) -> Iterator[BothEnds]:
    """Each once; of devices that use the same two numbers the first are taken."""
    by_ends: dict[tuple[int, int], list[ConnectedPair]] = {}
    for each in theirs:
        by_ends.setdefault((each.peer, each.number), []).append(each)
    for each in own:
        if other := by_ends.get((each.number, each.peer)):
            yield BothEnds(each, other.pop(0))


Named = Iterator[tuple[str, str]]
_OF_EACH_PROCESS: Final = "RANK"
"""How names of variables end that each process has a value of its own of."""


def _differing(
    here: JobFacts, there: JobFacts, of: Callable[[JobProcess], Named | Missing]
) -> tuple[Differs, ...] | Missing:
    """Names that both parts have with other values, or one of them alone."""
    values = []
    for facts in (here, there):
        found: dict[str, set[str]] = {}
        for process in facts.processes:
            named = of(process)
            if isinstance(named, Missing):
                return named
            for name, value in named:
                found.setdefault(name, set()).add(value)
        values.append({name: tuple(sorted(every)) for name, every in found.items()})
    first, second = values
    return tuple(
        Differs(name, first.get(name, ()), second.get(name, ()))
        for name in sorted(first | second)
        if first.get(name) != second.get(name)
    )


def _variables(process: JobProcess) -> Named | Missing:
    found = process.environment
    if isinstance(found, Missing):
        return found
    return (row for row in found.items() if not row[0].endswith(_OF_EACH_PROCESS))


_NO_VERSION: Final = "version not in its name"


def _libraries(process: JobProcess) -> Named | Missing:
    found = process.libraries
    if isinstance(found, Missing):
        return found
    return (
        (each.name, each.version if isinstance(each.version, str) else _NO_VERSION)
        for each in found
    )
