"""Two ends beside each other: can they talk, and what differs between them. No packet is sent."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.gid import Scope
from rdmadiag.frozen import dataclass
from rdmadiag.gid.reach import Address, are_apart, mismatches, same_subnet
from rdmadiag.gid.registry import Chosen
from rdmadiag.view.compat_rows import (
    Agreement,
    CompatRow,
    EndPort,
    active_ports,
    of_hosts,
    of_ports,
    without_gid,
)
from rdmadiag.view.peer_picks import (
    BEST_FIRST,
    End,
    Side,
    StackPair,
    Talks,
    by_lid,
    opposite,
    pairs,
)
from rdmadiag.view.reconcile import PortView, Protocol
from rdmadiag.view.unshown import why_unknown


class NoTalk(StrEnum):
    """What of two ports, or of all of them, keeps them from talking."""

    GIDS = "gids"
    PARTITIONS = "partitions"
    CABLE = "cable"
    PROTOCOLS = "protocols"


@dataclass(frozen=True, slots=True)
class PortsBeside:
    """A port of A and one of B, both active and of one protocol."""

    here: End
    there: End
    protocol: Protocol
    talks: Talks
    why: str
    rows: tuple[CompatRow, ...]
    stacks: tuple[StackPair, ...]
    reason: NoTalk | None = None  # where they cannot

    @property
    def ends(self) -> str:
        """ "mlx5_0/1 - mlx5_0/1"."""
        return " - ".join(f"{each.device}/{each.port}" for each in (self.here, self.there))


@dataclass(frozen=True, slots=True)
class Compat:
    """The answer, and what it comes from."""

    talks: Talks  # of the ports that do best
    why: str
    rows: tuple[CompatRow, ...]  # of the hosts
    ports: tuple[PortsBeside, ...]  # those that do best first
    reason: NoTalk | None = None  # where no two ports could be held against each other
    unseen: str | None = None  # a port that may do better, and is not known to be active


def compat(here: Side, there: Side, stacks: Sequence[Chosen]) -> Compat:
    """Every active port of A with that of its name at B; without one, with each of its kind."""
    by_stack = {(each.local, each.remote): each.stacks for each in pairs(here, there, stacks)}
    theirs = {each.view.name: each for each in active_ports(there)}
    views = [each.view for each in theirs.values()]
    beside = tuple(
        _beside(local, theirs[remote.name], by_stack)
        for local in active_ports(here)
        for remote in _opposite(local.view, views)
    )
    talks, why, reason = _none(here, there)
    alone = Compat(talks, why, tuple(of_hosts(here, there)), (), reason, _unseen(here, there))
    return with_ports(alone, beside)


def with_ports(found: Compat, beside: Iterable[PortsBeside]) -> Compat:
    """The same hosts with these ports, and the answer of those that do best."""
    every = tuple(sorted(beside, key=lambda each: BEST_FIRST.index(each.talks)))
    if found.unseen is not None and all(each.talks is Talks.NO for each in every):
        return replace(found, talks=Talks.UNKNOWN, why=found.unseen, ports=every, reason=None)
    if not every:
        return found
    why = f"{every[0].ends}: {every[0].why}{_but(every)}"
    return replace(found, talks=every[0].talks, why=why, ports=every, reason=None)


def _but(every: Sequence[PortsBeside]) -> str:
    """Ports beside those that do best which may have been meant; of Macs one has the cable."""
    best, *others = every
    for talks, word in ((Talks.NO, "not"), (Talks.UNKNOWN, "not known")):
        left = [
            each
            for each in others
            if each.talks is talks and each.protocol is not Protocol.THUNDERBOLT
        ]
        if left and talks is not best.talks and best.talks is not Talks.NO:
            more = f" and {len(left) - 1} more" if left[1:] else ""
            return f"; but {word} {left[0].ends}{more}: {left[0].why}"
    return ""


def limited(pair: PortsBeside, talks: Talks, why: str) -> PortsBeside:
    """The ports, of which no more is to be said than this; nor of a stack on them."""
    stacks = tuple(limited_stack(each, talks, why) for each in pair.stacks)
    if BEST_FIRST.index(pair.talks) >= BEST_FIRST.index(talks):
        return replace(pair, stacks=stacks)
    return replace(pair, talks=talks, why=why, stacks=stacks)


def limited_stack(stack: StackPair, talks: Talks, why: str) -> StackPair:
    """The same of one stack."""
    if BEST_FIRST.index(stack.talks) >= BEST_FIRST.index(talks):
        return stack
    return replace(stack, talks=talks, why=why)


def of_stacks(found: Compat, stacks: Sequence[Chosen]) -> Compat:
    """The answer for those stacks: of the one that does worst, each on the ports that suit it."""
    best: dict[tuple[str, str], StackPair] = {}
    for pair in found.ports:
        for each in pair.stacks:
            held = best.get((each.stack, each.version))
            if held is None or BEST_FIRST.index(each.talks) < BEST_FIRST.index(held.talks):
                best[each.stack, each.version] = each
    used = {name for name, _ in best}
    every: list[tuple[Talks, str]] = []
    for stack, version in stacks:
        held = best.get((stack.name, version.name))
        if held is not None:
            which = f" {version.name}" if stack.versions[1:] else ""
            every.append((held.talks, f"{stack.title}{which}: {held.why}"))
        elif stack.name not in used:
            why = f"{stack.title} uses none of these ports, as far as is known"
            every.append((Talks.UNKNOWN, why))
    if not every or not found.ports:
        return found
    talks, why = max(every, key=lambda each: BEST_FIRST.index(each[0]))
    if BEST_FIRST.index(talks) <= BEST_FIRST.index(found.talks):
        return found
    return replace(found, talks=talks, why=why)


def _opposite(local: PortView, theirs: Sequence[PortView]) -> Iterable[PortView]:
    """A cable between two Macs may be in receptacles of different numbers."""
    if local.protocol is Protocol.THUNDERBOLT:
        return [port for port in theirs if port.protocol is local.protocol]
    return opposite(local, theirs)


def _unseen(here: Side, there: Side) -> str | None:
    """A port that may be active, and that the other end may have one of its protocol for."""
    for side, other, name in ((here, there, "A"), (there, here, "B")):
        for port in side.ports:
            if isinstance(port.state, Missing) and any(
                (each.is_active or isinstance(each.state, Missing))
                and (
                    each.protocol is port.protocol
                    or Protocol.UNKNOWN in (each.protocol, port.protocol)
                )
                for each in other.ports
            ):
                return f"whether {port.name} of {name} is active is not known: {port.state}"
    return None


def _none(here: Side, there: Side) -> tuple[Talks, str, NoTalk | None]:
    """Why no two ports can be held against each other."""
    for side, name in ((here, "A"), (there, "B")):
        unread = why_unknown(side.evidence)
        if unread is not None:
            return Talks.UNKNOWN, f"the ports of {name} are not known: {unread}", None
        if not side.ports:
            return Talks.NO, f"{name} has no RDMA port", None
        if not any(port.is_active for port in side.ports):
            if any(isinstance(port.state, Missing) for port in side.ports):
                return Talks.UNKNOWN, f"whether a port of {name} is active is not known", None
            states = ", ".join(f"{port.name} {port.state}" for port in side.ports[:4])
            return Talks.NO, f"{name} has no active port: {states}", None
    kinds = [
        " and ".join(sorted({port.protocol for port in side.ports if port.is_active}))
        for side in (here, there)
    ]
    if any(Protocol.UNKNOWN in kind for kind in kinds):
        return Talks.UNKNOWN, "what protocol a port is of is not known", None
    why = f"no active ports of one protocol: A has {kinds[0]}, B {kinds[1]}"
    return Talks.NO, why, NoTalk.PROTOCOLS


# --- of ports ---------------------------------------------------------------------------


def _beside(
    here: EndPort, there: EndPort, by_stack: dict[tuple[End, End], tuple[StackPair, ...]]
) -> PortsBeside:
    local, remote = here.view, there.view
    ends = End(local.device, local.number), End(remote.device, remote.number)
    talks, why = _by_address(here, there)
    reason = NoTalk.GIDS if talks is Talks.NO else None
    if reason and local.is_omni_path is not remote.is_omni_path:
        reason = NoTalk.PROTOCOLS
    rows = tuple(of_ports(here, there))
    for row in rows:
        if row.agreement is Agreement.STOPS:
            talks, why, reason = Talks.NO, row.why, _STOPPED_BY[row.subject]
            break
        if row.agreement is Agreement.UNKNOWN and row.subject in _DECIDES and talks is not Talks.NO:
            talks, why = Talks.UNKNOWN, row.why
    stacks = by_stack.get(ends, ())
    if talks is not Talks.YES and local.protocol is Protocol.ROCE:
        stacks = tuple(map(_on_one_link, stacks))
    made = PortsBeside(*ends, local.protocol, talks, why, rows, stacks, reason)
    return limited(made, talks, why)


def _on_one_link(pair: StackPair) -> StackPair:
    """Link-local GIDs of ports that have no subnet in common: their stack would need one link."""
    entry = pair.local.entry
    if pair.talks is not Talks.YES or entry is None or entry.gid.scope is not Scope.LINK_LOCAL:
        return pair
    why = "link-local GIDs: whether they are on one link is not known"
    return replace(pair, talks=Talks.UNKNOWN, why=why)


_STOPPED_BY: Final = {
    "pkeys": NoTalk.PARTITIONS,
    "cable": NoTalk.CABLE,
    "gids": NoTalk.GIDS,
}


_DECIDES: Final = ("pkeys", "cable")
"""Without which it is not known whether two ports can talk."""


def _by_address(here: EndPort, there: EndPort) -> tuple[Talks, str]:
    """The best two rows of both tables; of InfiniBand by LID."""
    local, remote = here.view, there.view
    if local.protocol is Protocol.INFINIBAND:
        return by_lid(local, remote)
    if local.protocol not in (Protocol.ROCE, Protocol.THUNDERBOLT):
        return Talks.UNKNOWN, f"{local.protocol} connects by other means than GIDs"
    for port, name in ((local, "A"), (remote, "B")):
        if isinstance(port.gids, Missing):
            return Talks.UNKNOWN, f"the GID table of {name} is not known: {port.gids}"
    first, second = here.addresses, there.addresses
    own = {each.gid for each in first if each.gid.scope is not Scope.LINK_LOCAL}
    twice = next((each.gid for each in second if each.gid in own), None)
    rows = (
        (one, other)
        for one in first
        for other in second
        if one.gid != other.gid or one.gid not in own
    )
    # The ends of a Thunderbolt cable are on one link.
    talks, why = _best(rows, by_cable=local.protocol is Protocol.THUNDERBOLT) or (
        Talks.NO,
        without_gid(local, remote),
    )
    if twice is not None and talks in (Talks.UNKNOWN, Talks.NO):
        return Talks.UNKNOWN, f"both ends have {twice}: one host, or an address given twice"
    for port, name in ((local, "A"), (remote, "B")):
        if talks is Talks.NO and not isinstance(port.gids, Missing) and port.gids.unreadable:
            return Talks.UNKNOWN, f"rows of the GID table of {name} could not be read"
    return talks, why


def _best(pairs: Iterable[tuple[Address, Address]], *, by_cable: bool) -> tuple[Talks, str] | None:
    """Of the pair that does best; None without any. Each port is in many pairs: words come last."""
    best: tuple[Talks, Address, Address] | None = None
    for here, there in pairs:
        talks = _reached(here, there, by_cable=by_cable)
        if best is None or BEST_FIRST.index(talks) < BEST_FIRST.index(best[0]):
            best = talks, here, there
        if talks is BEST_FIRST[0]:
            break
    return None if best is None else (best[0], _why(*best, by_cable=by_cable))


def _reached(here: Address, there: Address, *, by_cable: bool) -> Talks:
    if are_apart(here, there):
        return Talks.NO
    if here.gid.scope is Scope.LINK_LOCAL and not by_cable:
        return Talks.UNKNOWN
    subnet = same_subnet(here, there)
    if subnet is None:
        return Talks.UNKNOWN
    return Talks.YES if subnet else Talks.ROUTED


def _why(talks: Talks, here: Address, there: Address, *, by_cable: bool) -> str:
    ends = f"{here.gid} and {there.gid}"
    if talks is Talks.NO:
        return next(mismatches(here, there)).text
    if talks is Talks.YES:
        return f"{ends} are in one subnet"
    if talks is Talks.ROUTED:
        return f"{ends} are in different subnets: a router must pass RoCE v2 (UDP 4791)"
    if here.gid.scope is Scope.LINK_LOCAL and not by_cable:
        return f"{ends} are link-local: whether they are on one link is not known"
    return f"{ends}: the prefix length is not known"
