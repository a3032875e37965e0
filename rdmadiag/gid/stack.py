"""What a stack is: a rule for each range of its versions, and the variables they read."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from rdmadiag.facts import GidEntry
from rdmadiag.facts.gid import Scope
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.frozen import dataclass
from rdmadiag.gid.c_number import to_int
from rdmadiag.gid.netdev import NetDevState, Unusable
from rdmadiag.gid.pick import Outcome, Pick
from rdmadiag.gid.port_table import PortTable

Environment = Mapping[str, str]

LINUX: Final = frozenset({LinkLayer.INFINIBAND, LinkLayer.ETHERNET})
THUNDERBOLT: Final = frozenset({LinkLayer.THUNDERBOLT})

_SGID_INDEXES: Final = 256  # ibv_global_route.sgid_index is a uint8_t (infiniband/verbs.h)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a rule says; the rest of a Pick follows from it and the table."""

    index: int | None
    why: str
    outcome: Outcome | None = None  # None: whatever the row at `index` makes it
    problem: str | None = None  # of the stack itself; those of the row are found
    advertised: int | None = None
    pinned_by: str | None = None
    ended_at: int | None = None
    assumed: tuple[str, ...] = ()


Rule = Callable[[PortTable, Environment], Answer]
"""A pure function from a table and the variables that are set to an answer."""


def pinned(index: int, variable: str, environment: Environment) -> Answer:
    """The row that a variable names, unchecked."""
    return Answer(index, f"{variable}={environment[variable]}", pinned_by=variable)


def fails(why: str, pinned_by: str | None = None) -> Answer:
    """The stack ends with an error."""
    return Answer(None, why, Outcome.FAILS, pinned_by=pinned_by)


def by_lid(why: str, index: int | None = None, pinned_by: str | None = None) -> Answer:
    """InfiniBand, by LID; `index` is that of a GRH, where one is used."""
    return Answer(index, why, Outcome.LID, pinned_by=pinned_by)


@dataclass(frozen=True, slots=True)
class Version:
    """A range of versions that one rule holds for."""

    name: str  # "≥2.26.2", "2.22.3-2.26.1", "hybrid-ep"
    rule: Rule
    since: tuple[int, ...] = ()  # first version of the range
    until: tuple[int, ...] | None = None  # first version after it; None: no such version yet
    source: str | None = None  # where it is not the stack's

    def holds_for(self, version: str) -> bool:
        """Whether "2.21.5", or the range's own name, is meant."""
        if version == self.name:
            return True
        numbers = tuple(int(each) for each in re.findall(r"[0-9]{1,9}", version)[:6])
        if not numbers or not re.match(r"v?[0-9]", version) or (not self.since and not self.until):
            return False
        return self.since <= numbers and (self.until is None or numbers < self.until)


@dataclass(frozen=True, slots=True)
class Pin:
    """The variable that sets the index: a row of rdmadiag.gid.variables."""

    variable: str
    automatic: bool = False  # without it the stack chooses
    family: str | None = None  # the variable that says AF_INET or AF_INET6


@dataclass(frozen=True, slots=True)
class Stack:
    """A program or library that chooses a GID."""

    name: str  # as `--stack` takes it
    title: str  # as people write it
    source: str  # "owner/repository@commit path"
    versions: tuple[Version, ...]  # the newest first
    link_layers: frozenset[LinkLayer] = LINUX
    pin: Pin | None = None
    option: str | None = None  # without a variable: what sets the index, "ib_send_lat -x INDEX"
    variables: tuple[str, ...] = ()  # that its rules read, by name; the pin among them
    by_rdma_cm: bool = False  # rdma_cm connects its RC queue pairs: iWARP serves it too

    def option_with(self, index: int) -> str:
        """`option` with the index in the place of the word INDEX."""
        return re.sub(r"\bINDEX\b", str(index), self.option or "")

    def supports(self, layer: LinkLayer) -> bool:
        """Whether it runs on this link layer."""
        return layer in self.link_layers


def pick(stack: Stack, version: Version, table: PortTable, environment: Environment) -> Pick:
    """What the stack would use on the port, and what is wrong with it."""
    if stack.supports(table.link_layer):
        answer = version.rule(table, environment)
    else:
        answer = Answer(None, f"not made for {table.link_layer} ports", Outcome.UNSUPPORTED)
    return complete(answer, stack, version, table)


def complete(answer: Answer, stack: Stack, version: Version, table: PortTable) -> Pick:
    """The answer with what the row at its index is."""
    index = answer.index
    outcome = answer.outcome or _outcome(index, table)
    shown = outcome in (Outcome.ENTRY, Outcome.LID) and index is not None
    entry = table.at(index) if shown and index is not None else None
    problem = answer.problem
    if problem is None and outcome is not Outcome.LID:
        problem = _problem(outcome, index, entry, table)
    assumed = answer.assumed
    if table.unread:
        assumed = (*assumed, f"{_rows(table.unread)} not read, taken for empty")
    return Pick(
        stack=stack.name,
        version=version.name,
        index=index,
        why=answer.why,
        problem=problem,
        outcome=outcome,
        entry=None if entry is None or entry.is_empty else entry,
        agrees=_agrees(outcome, index, entry, table),
        advertised_index=answer.advertised,
        pinned_by=answer.pinned_by,
        ended_at=answer.ended_at,
        assumed=assumed,
        source=version.source or stack.source,
    )


def _outcome(index: int | None, table: PortTable) -> Outcome:
    if index is None:
        return Outcome.FAILS
    if not table.is_inside(index):
        return Outcome.OUTSIDE
    return Outcome.EMPTY if table.at(index).is_empty else Outcome.ENTRY


def _agrees(
    outcome: Outcome, index: int | None, entry: GidEntry | None, table: PortTable
) -> bool | None:
    """By what the row is, and not by its number: type and address."""
    route = table.route
    if outcome in (Outcome.NOT_USED, Outcome.UNSUPPORTED) or route is None:
        return None
    if outcome is Outcome.LID:
        return index in (None, 0)
    if outcome is not Outcome.ENTRY or entry is None:
        return False
    return index == route.index or (entry.gid, entry.known_type) == (route.gid, route.known_type)


def _problem(
    outcome: Outcome, index: int | None, entry: GidEntry | None, table: PortTable
) -> str | None:
    if outcome is Outcome.EMPTY:
        return f"row {index} is empty: RTR fails"
    if outcome is Outcome.OUTSIDE:
        cut = to_int(index or 0) % _SGID_INDEXES
        beyond = f"; sgid_index has 8 bits and becomes {cut}" if index != cut else ""
        return f"the table has no row {index}{beyond}"
    if outcome is Outcome.FAILS:
        return "ends with an error on this port"
    if outcome is Outcome.DROPS_PORT:
        return "the port is left out; other ports, or TCP, take its place"
    if entry is None or outcome is not Outcome.ENTRY:
        return None
    if entry.index >= _SGID_INDEXES:
        cut = entry.index % _SGID_INDEXES
        return f"sgid_index has 8 bits: row {cut} is used instead of {entry.index}"
    return _of_entry(entry, table)


def _of_entry(entry: GidEntry, table: PortTable) -> str | None:
    route = table.route
    better = None if route is None or _same(entry, route) else route
    state = table.netdev_state(entry)
    if state is NetDevState.ABSENT:
        return f"its netdev {entry.netdev} is not in this network namespace"
    if state is NetDevState.DOWN:
        return f"its netdev {entry.netdev} is down"
    if found := table.unusable.get(entry.index):
        return _UNUSABLE[found]
    if entry.is_v1 and (better is None or better.is_v2):
        return "RoCE v1: not routable, and a peer that uses RoCE v2 does not receive it"
    if better is None:
        return None
    if entry.scope is Scope.LINK_LOCAL and better.scope is not Scope.LINK_LOCAL:
        return "link-local: no farther than this link"
    if entry.family_or_multicast is not better.family_or_multicast:
        own, other = (_FAMILY[each.is_ipv4] for each in (entry, better))
        return f"{own}: a peer that uses {other} does not receive it"
    return None


def _same(one: GidEntry, other: GidEntry) -> bool:
    """Whether the two rows hold the same, wherever they stand."""
    return (one.gid, one.known_type, one.netdev_name) == (
        other.gid,
        other.known_type,
        other.netdev_name,
    )


_UNUSABLE: Final = {
    Unusable.DUPLICATE: "its address is on another host too: duplicate address detection failed",
    Unusable.TENTATIVE: "its address is tentative: duplicate address detection has not ended",
}
_FAMILY: Final = {True: "IPv4", False: "IPv6"}


def _rows(numbers: tuple[int, ...]) -> str:
    if len(numbers) == 1:
        return f"row {numbers[0]}"
    if numbers[-1] - numbers[0] + 1 == len(numbers):
        return f"rows {numbers[0]}-{numbers[-1]}"
    return f"{len(numbers)} rows"
