"""Stacks whose library a job has mapped, and the rows of the GID table that they take."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rdmadiag.facts import Missing, present
from rdmadiag.facts.job import JobFacts, JobProcess
from rdmadiag.facts.libraries import MappedLibrary
from rdmadiag.frozen import dataclass
from rdmadiag.gid.registry import Chosen, stacks
from rdmadiag.view.reconcile import PortView
from rdmadiag.view.stack_picks import made_for, picks


@dataclass(frozen=True, slots=True)
class GidPick:
    """Which row of the GID table a stack that the job has mapped takes on a port."""

    stack: str
    version: str  # the range of versions that the rule holds for
    index: int | None
    why: str
    problem: str | None


STACK_LIBRARIES: Final = {
    "nccl": "NCCL",
    "nccl-net": "NCCL",
    "rccl": "RCCL",
    "ucp": "UCX",
    "uct": "UCX",
    "uct_ib": "UCX",
    "fabric": "libfabric",
    "transfer_engine": "Mooncake",
    "nvshmem_host": "NVSHMEM",
    "mpi": "Open MPI",
    "nixl": "NIXL",
}
"""A library as facts.libraries names it → the stack as gid.variables does."""

_RULES: Final = {"NCCL": "nccl", "RCCL": "rccl", "UCX": "ucx"}


def mapped_stacks(processes: Iterable[JobProcess]) -> frozenset[str]:
    """The stacks whose library one of them has mapped; one that is linked in is not seen."""
    return frozenset(STACK_LIBRARIES[each.name] for each in _libraries(processes))


def _libraries(processes: Iterable[JobProcess]) -> Iterator[MappedLibrary]:
    for process in processes:
        for each in present(process.libraries):
            if each.name in STACK_LIBRARIES:
                yield each


def mapped_rules(facts: JobFacts) -> tuple[Chosen, ...]:
    """The rules of those, of the version that is mapped where its name has one."""
    versions: dict[str, set[str]] = {}
    for each in _libraries(facts.processes):
        if name := _RULES.get(STACK_LIBRARIES[each.name]):
            known = () if isinstance(each.version, Missing) else (each.version,)
            versions.setdefault(name, set()).update(known)
    return tuple(
        (stack, version)
        for name, mapped in sorted(versions.items())
        for stack in (stacks()[name],)
        for version in stack.versions
        if not mapped or any(map(version.holds_for, mapped))
    )


def gid_picks(
    view: PortView, rules: Sequence[Chosen], environment: Mapping[str, str] | Missing
) -> Iterator[GidPick]:
    """What those of `mapped_rules` take on a port."""
    for each in picks(view, made_for(rules, view), environment):
        yield GidPick(each.stack, each.version, each.index, each.why, each.problem)
