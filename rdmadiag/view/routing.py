"""The kernel's choice of a way, repeated on its rules and tables: what fib_rules_lookup,
fib_table_lookup and fib6_table_lookup do for a flow of rdma_cm.

Such a flow has user 0, mark 0, no protocol and no ports (addr4_resolve and addr6_resolve of
drivers/infiniband/core/addr.c): rules with one of these conditions do not apply to it.
"""

import re
from bisect import insort
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import lru_cache
from typing import Final

from rdmadiag.facts import Missing, Why, known
from rdmadiag.facts.address import packed_ipv4, packed_ipv6, printed
from rdmadiag.facts.routing import (
    LOCAL_TABLE,
    MAIN_TABLE,
    Hop,
    Route,
    RouteKind,
    RoutingFacts,
    Rule,
    RuleAction,
)
from rdmadiag.frozen import dataclass


class NoWay(StrEnum):
    """Why there is none, and the errno that rdma_resolve_addr gives for it."""

    NO_ROUTE = "no_route"  # ENETUNREACH
    UNREACHABLE = "unreachable"  # EHOSTUNREACH
    PROHIBIT = "prohibit"  # EACCES
    BLACKHOLE = "blackhole"  # EINVAL


ERRNO: Final = {
    NoWay.NO_ROUTE: 101,
    NoWay.UNREACHABLE: 113,
    NoWay.PROHIBIT: 13,
    NoWay.BLACKHOLE: 22,
}


@dataclass(frozen=True, slots=True)
class Flow:
    """What a way is looked for."""

    destination: str
    source: str | None = None
    netdev: str | None = None  # that rdma_cm has bound the id to: of the source, or a scope


@dataclass(frozen=True, slots=True)
class Way:
    """By which row a flow leaves; several hops are chosen between by a hash."""

    kind: RouteKind
    hops: tuple[Hop, ...]
    source: str | None  # what the row prefers, else the flow's own
    prefix: str
    table: int
    rule: int | None  # the priority of the rule that led to the table; None: there are no rules
    assumed_on_link: bool = False  # no row: the netdev is given, and IPv4 takes that for enough
    is_redirected: bool = False  # by an ICMP message


@lru_cache(maxsize=1024)
def _packed(address: str) -> tuple[int, int]:
    """The address as a number, and its bits; 0 bits of what is no address, in an edited report."""
    try:
        raw = packed_ipv6(address) if ":" in address else packed_ipv4(address)
    except (OSError, ValueError):
        return 0, 0
    return int.from_bytes(raw), 8 * len(raw)


def holds(prefix: str, address: str) -> bool:
    """Whether "192.0.2.0/24" holds an address."""
    number, bits = _packed(address)
    own, own_bits = _packed(prefix.partition("/")[0])
    length = length_of(prefix)
    fits = bits == own_bits > 0 and 0 <= length <= bits
    return fits and (number ^ own) >> (bits - length) == 0


def in_common(one: str, other: str) -> int:
    """Leading bits that two addresses of one family share."""
    (first, bits), (second, _) = _packed(one), _packed(other)
    return bits - (first ^ second).bit_length()


def length_of(prefix: str) -> int:
    """24 of "192.0.2.0/24"; -1 of what is no prefix."""
    text = prefix.partition("/")[2]
    return int(text) if re.fullmatch("[0-9]{1,3}", text) else -1


class _Table:
    """The rows of a table, found by prefix: a host may have a row for each of its addresses."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], list[Route]] = {}  # by length and leading bits
        self._lengths: set[int] = set()
        self._learned: dict[str, tuple[Route, Route]] = {}  # by destination, with its parent

    def add(self, row: Route) -> None:
        own, bits = _packed(row.destination.partition("/")[0])
        length = length_of(row.destination)
        if 0 <= length <= bits and bits:  # else of an edited report: it holds nothing
            self._lengths.add(length)
            rows = self._rows.setdefault((length, own >> (bits - length)), [])
            insort(rows, row, key=lambda each: each.metric)

    def learn(self, row: Route, parent: Route) -> None:
        """What an ICMP message said of one destination; a dump has it behind the row it is of."""
        self._learned[row.destination.partition("/")[0]] = row, parent

    def learned(self, flow: Flow, parent: Route) -> Route | None:
        """Of the flow's destination, where this row leads there."""
        row, of = self._learned.get(flow.destination, (None, None))
        return row if of is parent else None

    def fitting(self, flow: Flow) -> Iterator[Route]:
        """The rows of the flow, the longest prefix first, then the lowest metric."""
        number, bits = _packed(flow.destination)
        for length in sorted(self._lengths, reverse=True):
            if length <= bits:
                rows = self._rows.get((length, number >> (bits - length)), ())
                yield from (row for row in rows if _fits(row, flow))


class RouteTables:
    """The rules and tables of a host, for as many flows as there are."""

    def __init__(self, facts: RoutingFacts) -> None:
        self._facts = facts
        self._rules = sorted(known(facts.rules) or (), key=lambda each: each.priority)
        self._tables: dict[tuple[int, int], _Table] = {}
        last: dict[tuple[int, int], Route] = {}
        for route in known(facts.routes) or ():
            key = _version(route.destination), route.table
            if not route.is_cached:
                self._tables.setdefault(key, _Table()).add(route)
                last[key] = route
            elif key in last:
                self._tables[key].learn(route, last[key])

    def lookup(self, flow: Flow) -> Way | NoWay | Missing:
        """By which row the flow leaves, why by none, or why the tables do not decide it."""
        for read in (self._facts.rules, self._facts.routes):
            if isinstance(read, Missing):
                return read
        version = _version(flow.destination)
        rules = [each for each in self._rules if each.version == version]
        found: Way | NoWay | Missing | None
        if version == 6 and not rules and (6, LOCAL_TABLE) not in self._tables:
            # Without CONFIG_IPV6_MULTIPLE_TABLES there is this table, local rows and all, and no
            # rule.
            found = _in_table(self._table(6, MAIN_TABLE), flow, None)
        else:
            found = self._by_rules(rules, flow)
        if found is not None:
            return found
        if version == 4 and flow.netdev is not None:
            # ip_route_output_key_hash_rcu: with a netdev the destination is taken to be on its
            # link.
            hop = (Hop(flow.netdev),)
            prefix = "0.0.0.0/0"
            return Way(RouteKind.UNICAST, hop, flow.source, prefix, 0, None, assumed_on_link=True)
        return NoWay.NO_ROUTE

    def _table(self, version: int, number: int) -> _Table:
        return self._tables.get((version, number)) or _Table()

    def _by_rules(self, rules: Iterable[Rule], flow: Flow) -> Way | NoWay | Missing | None:
        """fib_rules_lookup; None where no rule leads to a row."""
        skip_to = -1
        for rule in rules:
            if rule.priority < skip_to or not _applies(rule, flow):
                continue
            if isinstance(rule.action, Missing):
                return rule.action
            if rule.action in _BY_ACTION:
                return _BY_ACTION[rule.action]
            if rule.action is RuleAction.GOTO and rule.target is not None:
                skip_to = rule.target
            if rule.action is RuleAction.TO_TABLE:
                found: Way | NoWay | Missing | None = _unsure(rule, flow, self._facts)
                if found is None and "VRF" not in rule.other:
                    found = _in_table(
                        self._table(_version(flow.destination), rule.table), flow, rule
                    )
                if found is not None:
                    return found
        return None


def lookup(facts: RoutingFacts, flow: Flow) -> Way | NoWay | Missing:
    """Of one flow; see RouteTables."""
    return RouteTables(facts).lookup(flow)


def _version(address: str) -> int:
    return 6 if ":" in address else 4


_BY_ACTION: Final = {
    RuleAction.UNREACHABLE: NoWay.UNREACHABLE,
    RuleAction.PROHIBIT: NoWay.PROHIBIT,
    RuleAction.BLACKHOLE: NoWay.BLACKHOLE,
}


def _unsure(rule: Rule, flow: Flow, facts: RoutingFacts) -> Missing | None:
    """Of a rule that applies, what its table does not show."""
    if "VRF" in rule.other and flow.netdev:
        vrfs = {each.name for each in facts.links if each.vrf}
        masters = {each.name: each.master for each in facts.links}
        if masters.get(flow.netdev) in vrfs:
            why = f"{flow.netdev} is in a VRF: the kernel alone can tell"
            return Missing(Why.UNSUPPORTED, why)
    if "suppressed group" in rule.other:
        return Missing(Why.UNSUPPORTED, "a rule depends on netdev groups")
    return None


def _applies(rule: Rule, flow: Flow) -> bool:
    """fib_rule_match: what the rule asks of a packet."""
    return _matches(rule, flow) != rule.inverted


def _matches(rule: Rule, flow: Flow) -> bool:
    if rule.input not in (None, "lo") or rule.output not in (None, flow.netdev) or rule.tos:
        return False
    if rule.mark is not None and rule.mark[0] & rule.mark[1]:
        return False
    if rule.users is not None and rule.users[0] > 0:
        return False
    if set(rule.other) - {"suppressed group", "VRF"}:
        return False
    if rule.source is not None and not (flow.source and holds(rule.source, flow.source)):
        return False
    return rule.destination is None or holds(rule.destination, flow.destination)


def _in_table(table: _Table, flow: Flow, rule: Rule | None) -> Way | NoWay | Missing | None:
    """The longest prefix, then the lowest metric; None where the next rule is to be tried."""
    for row in table.fitting(flow):
        if isinstance(row.kind, Missing):
            return row.kind
        if row.kind is RouteKind.THROW:
            return None
        if row.kind in _REFUSED:
            return _REFUSED[row.kind]
        if row.has_nexthop_object and not row.hops:
            # With net.ipv4.nexthop_compat_mode 0 a row names the object, and no netdev.
            return Missing(Why.UNSUPPORTED, "a route by a nexthop object, which is not read")
        hops = tuple(_hops(row, table, flow))
        if not hops:
            continue
        # Of several hops it was learned by one, and which is not said.
        learned = table.learned(flow, row) if len(hops) == 1 else None
        hops = learned.hops if learned and learned.hops else hops
        least = rule.suppressed_length if rule else None
        if least is not None and length_of(row.destination) <= least:
            return None
        return Way(
            row.kind,
            hops,
            flow.source or row.source,
            row.destination,
            row.table,
            rule.priority if rule else None,
            is_redirected=learned is not None and learned.is_redirected,
        )
    return None


def _fits(row: Route, flow: Flow) -> bool:
    """Of one whose prefix holds the destination."""
    if row.tos:
        return False
    return row.from_prefix is None or bool(flow.source and holds(row.from_prefix, flow.source))


def _hops(row: Route, table: _Table, flow: Flow) -> Iterator[Hop]:
    """Those of the row that are in use; IPv6 shows siblings of one metric as rows of their own."""
    same = [row]
    if ":" in row.destination and row.hops and row.hops[0].gateway:
        key = (row.destination, row.metric, row.kind, row.from_prefix)
        same += [
            each
            for each in table.fitting(flow)
            if each is not row
            and (each.destination, each.metric, each.kind, each.from_prefix) == key
            and each.hops
            and each.hops[0].gateway
        ]
    for each in same:
        for hop in each.hops:
            if not hop.dead and flow.netdev in (None, hop.netdev):
                yield hop


_REFUSED: Final = {
    RouteKind.UNREACHABLE: NoWay.UNREACHABLE,
    RouteKind.PROHIBIT: NoWay.PROHIBIT,
    RouteKind.BLACKHOLE: NoWay.BLACKHOLE,
}


class Peers:
    """Of each IPv4 subnet an address that need not be anybody's, but is none of the host's own.

    A host may have thousands of addresses: each subnet is gone through once.
    """

    def __init__(self, own: Iterable[str]) -> None:
        self._own = {_packed(each)[0] for each in own if ":" not in each}
        self._found: dict[tuple[int, int], str | None] = {}

    def of(self, address: str, length: int) -> str | None:
        """In the subnet of one of its own; None if it is of two or less, or none is left."""
        if ":" in address or not 0 < length < 31:
            return None
        number, bits = _packed(address)
        if not bits:
            return None
        subnet = number >> (bits - length), length
        if subnet not in self._found:
            self._found[subnet] = self._first(subnet[0] << (bits - length), bits - length)
        return self._found[subnet]

    def _first(self, start: int, free: int) -> str | None:
        downwards = range(start + (1 << free) - 2, start, -1)
        found = next((each for each in downwards if each not in self._own), None)
        return None if found is None else printed(found.to_bytes(4))
