"""Which stacks can talk between which nodes, from what each would pick, without any traffic.

Nodes are grouped by all that this depends on, and a pair of groups is judged on one node of each:
that is groups², however many nodes there are. Their reports are asked for one by one, whole.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.evidence import LINUX_ONLY, Evidence
from rdmadiag.fleet.drift import PICK
from rdmadiag.fleet.fact_names import place_of
from rdmadiag.fleet.fact_table import NONE, VARIABLE, VARIABLES, Value, named_values
from rdmadiag.fleet.host_report import HostReport
from rdmadiag.fleet.merged import Compatibility
from rdmadiag.fleet.nodes import fold
from rdmadiag.frozen import dataclass
from rdmadiag.gid.registry import Chosen, stacks
from rdmadiag.view.peer_picks import BEST_FIRST, End, PortPair, Side, Talks, pairs
from rdmadiag.view.reconcile import devices, ports
from rdmadiag.view.stack_picks import made_for, picks, variables

EvidenceOf = Callable[[HostReport], Evidence | Missing]
"""The evidence of a whole report, read again from where it was: a Missing where that failed."""

MOST_GROUPS: Final = 16
"""Of which every pair is judged: 136 pairs, each a hundredth of a second."""

MOST_INPUTS: Final = 64
"""Kinds of nodes whose stacks' picks are worked out."""


@dataclass(frozen=True, slots=True)
class Compatible:
    """What was judged, and which nodes were in none of the groups for it."""

    rows: tuple[Compatibility, ...]
    unjudged: str  # "" where there is none


def compatibility(
    reports: Sequence[HostReport], evidence_of: EvidenceOf, chosen: Sequence[Chosen]
) -> Compatible:
    """Each group with each, and with itself where it has two nodes; the largest groups first.

    Where subnets alone make more groups than can be judged, they are left out of the grouping:
    then each pair is judged on the subnets of its two nodes.
    """
    groups = _grouped(reports, with_networks=True)
    if len(groups) > MOST_GROUPS:
        groups = _grouped(reports, with_networks=False)
    judged = groups[:MOST_GROUPS]
    names = [fold(each.node for each in group) for group in judged]
    sides = [_sides(group, evidence_of) for group in judged]
    rows: list[Compatibility] = []
    for at, (one, _) in enumerate(sides):
        for other_at in range(at, len(sides)):
            other, second = sides[other_at]
            against = second if other_at == at else other
            if against is not None:
                said = _between(one, against, chosen)
                rows.extend(
                    Compatibility(stack, names[at], names[other_at], works, why)
                    for stack, works, why in said
                )
    left = [each.node for group in groups[MOST_GROUPS:] for each in group]
    return Compatible(tuple(rows), fold(left) if left else "")


def stack_picks(
    reports: Sequence[HostReport], evidence_of: EvidenceOf, chosen: Sequence[Chosen]
) -> dict[str, Mapping[str, Value]]:
    """By node: what each stack picks on each port, "adapter[0].port[1].pick.nccl 2.27" → "3".

    Worked out once for all nodes that are alike in what it depends on: they share the mapping.
    It is empty of those that could not be read, and beyond the most kinds.
    """
    found: dict[str, Mapping[str, Value]] = {}
    for number, group in enumerate(_grouped(reports, with_networks=False)):
        made: Mapping[str, Value] = {}
        if number < MOST_INPUTS:
            made = _picks(group[0], evidence_of(group[0]), chosen)
        found.update((each.node, made) for each in group)
    return found


# --- groups -----------------------------------------------------------------------------

_HOST: Final = frozenset({"platform", VARIABLES})
_ADAPTER: Final = frozenset({"name", "driver", "protocol", "node_type"})
_PORT: Final = frozenset(
    {
        *("link_layer", "state", "gid_table", "gid_table_length", "gid_index", "pkeys"),
        *("netdev.name", "netdev.operstate", "netdev.admin_up", "netdev.vlan_id", "netdev.kind"),
    }
)
_NETWORKS: Final = "networks"
_BY_ADDRESS: Final = "_ADDR_RANGE"
"""Variables that choose a row by its address: NCCL_IB_ADDR_RANGE."""


def _grouped(reports: Iterable[HostReport], *, with_networks: bool) -> list[tuple[HostReport, ...]]:
    groups: dict[object, list[HostReport]] = {}
    for report in reports:
        key = inputs_of(report.facts, with_networks=with_networks)
        groups.setdefault(key, []).append(report)
    by_name = (sorted(group, key=lambda each: each.node) for group in groups.values())
    ranked = sorted(by_name, key=lambda group: (-len(group), group[0].node))
    return [tuple(group) for group in ranked]


def inputs_of(facts: Mapping[str, Value], *, with_networks: bool) -> Hashable:
    """All that a stack's choice depends on: equal for nodes of one group."""
    names, values = named_values(facts)
    wanted, networks, by_address = _places(names)
    key = [values[at] for at in wanted]
    if with_networks or by_address:
        key += [values[at] for at in networks]
    return wanted, tuple(key)


@lru_cache(maxsize=4096)
def _places(names: tuple[str, ...]) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Of what picks depend on, of the networks, and whether an address chooses a row."""
    wanted, networks = [], []
    for at, name in enumerate(names):
        number, port, rest = place_of(name)
        own = _HOST if number is None else _ADAPTER if port is None else _PORT
        if rest in own or name.startswith(VARIABLE):
            wanted.append(at)
        elif port is not None and rest == _NETWORKS:
            networks.append(at)
    by_address = any(name.startswith(VARIABLE) and _BY_ADDRESS in name for name in names)
    return tuple(wanted), tuple(networks), by_address


# --- judged on one node of each -----------------------------------------------------------


def _side(report: HostReport, evidence_of: EvidenceOf) -> Side | Missing:
    evidence = evidence_of(report)
    return evidence if isinstance(evidence, Missing) else _side_of(evidence)


def _side_of(evidence: Evidence) -> Side:
    environment = variables(evidence)
    if environment == LINUX_ONLY:  # no stack of a Mac reads a variable for its GID
        environment = {}
    return Side(tuple(ports(devices(evidence))), evidence, environment)


def _sides(
    group: Sequence[HostReport], evidence_of: EvidenceOf
) -> tuple[Side | Missing, Side | Missing | None]:
    """Of its first node, and of its last, which it is judged against; None of one alone."""
    first = _side(group[0], evidence_of)
    return first, _side(group[-1], evidence_of) if len(group) > 1 else None


_WORKS: Final = {Talks.YES: True, Talks.ROUTED: True, Talks.UNKNOWN: None, Talks.NO: False}


def _between(
    here: Side | Missing, there: Side | Missing, chosen: Sequence[Chosen]
) -> Iterator[tuple[str, bool | None, str]]:
    """Stacks that stand alike, in one line each."""
    for side in (here, there):
        if isinstance(side, Missing):
            yield _names(chosen), None, f"a report could not be read again: {side}"
            return
    assert isinstance(here, Side)
    assert isinstance(there, Side)
    found = pairs(here, there, chosen)
    if not found:
        known = all(map(_is_known, (here, there)))
        yield (
            _names(chosen),
            False if known else None,
            "no active ports of one protocol at both ends",
        )
        return
    alike: dict[tuple[bool | None, str], list[tuple[str, str]]] = {}
    for stack, (talks, why) in _by_stack(found).items():
        alike.setdefault((_WORKS[talks], why), []).append(stack)
    by_name = {(stack.name, version.name): (stack, version) for stack, version in chosen}
    for (works, why), held in alike.items():
        yield _names([by_name[each] for each in held]), works, why


def _is_known(side: Side) -> bool:
    """Whether no port of it may be active without being shown so."""
    seen = side.evidence
    if all(isinstance(each, Missing) for each in (seen.sysfs, seen.nldev, seen.verbs)):
        return False
    return not any(isinstance(port.state, Missing) for port in side.ports)


def _by_stack(found: Sequence[PortPair]) -> dict[tuple[str, str], tuple[Talks, str]]:
    """The worst of all ports, each by the best that it has at the other end."""
    best: dict[tuple[tuple[str, str], bool, End], tuple[Talks, str]] = {}
    for pair in found:
        for each in pair.stacks:
            for is_local, end in ((True, pair.local), (False, pair.remote)):
                key = ((each.stack, each.version), is_local, end)
                why = each.why
                if each.talks is Talks.NO:
                    why = f"{pair.local.device}/{pair.local.port}: {why}"
                held = best.get(key)
                if held is None or BEST_FIRST.index(each.talks) < BEST_FIRST.index(held[0]):
                    best[key] = each.talks, why
    worst: dict[tuple[str, str], tuple[Talks, str]] = {}
    for (stack, _, _), said in best.items():
        if stack not in worst or BEST_FIRST.index(said[0]) > BEST_FIRST.index(worst[stack][0]):
            worst[stack] = said
    return worst


def _names(chosen: Sequence[Chosen]) -> str:
    """ "nccl ≥2.27, ucx": a name alone for all of its versions."""
    held: dict[str, list[str]] = {}
    for stack, version in chosen:
        held.setdefault(stack.name, []).append(version.name)
    every = stacks()
    return ", ".join(
        name if len(each) == len(every[name].versions) else f"{name} {' and '.join(each)}"
        for name, each in held.items()
    )


# --- picks ------------------------------------------------------------------------------


def _picks(
    report: HostReport, evidence: Evidence | Missing, chosen: Sequence[Chosen]
) -> Mapping[str, Value]:
    if isinstance(evidence, Missing):
        return {}
    side = _side_of(evidence)
    prefixes = _prefixes(report)
    found: dict[str, Value] = {}
    for port in side.ports:
        prefix = prefixes.get(port.device)
        if prefix is None:
            continue
        for pick in picks(port, made_for(chosen, port), side.environment):
            text = NONE if pick.index is None else str(pick.index)
            text = text if pick.problem is None else f"{text} ({pick.outcome})"
            found[f"{prefix}port[{port.number}]{PICK}{pick.stack} {pick.version}"] = text
    return found


def _prefixes(report: HostReport) -> dict[str, str]:
    """ "mlx5_0" → "adapter[0]."."""
    return {
        value: name.removesuffix("name")
        for name, value in report.facts.items()
        if isinstance(value, str) and place_of(name)[1:] == (None, "name")
    }
