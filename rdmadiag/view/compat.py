"""Two ends beside each other: can they talk, and what differs between them. No packet is sent."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

from rdmadiag.facts import Missing, Why, known, present
from rdmadiag.facts.evidence import LINUX_ONLY, MACOS_ONLY, NOT_ON_MACOS
from rdmadiag.facts.gid import Scope
from rdmadiag.frozen import dataclass
from rdmadiag.gid.reach import Address, mismatches, same_subnet
from rdmadiag.gid.registry import Chosen
from rdmadiag.view.cabling import cabling
from rdmadiag.view.peer_picks import (
    BEST_FIRST,
    Addresses,
    End,
    Side,
    StackPair,
    Talks,
    by_lid,
    opposite,
    pairs,
)
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol, devices
from rdmadiag.view.unshown import why_unknown


class Agreement(StrEnum):
    """How a row stands at both ends."""

    SAME = "same"
    DIFFERS = "differs"  # and the two can talk all the same
    STOPS = "stops"  # the two cannot talk for it
    UNKNOWN = "unknown"  # one end was not looked at


class NoTalk(StrEnum):
    """What of two ports, or of all of them, keeps them from talking."""

    GIDS = "gids"
    PARTITIONS = "partitions"
    CABLE = "cable"
    PROTOCOLS = "protocols"


@dataclass(frozen=True, slots=True)
class CompatRow:
    """One thing at both ends."""

    subject: str  # "active_mtu"
    here: str | Missing
    there: str | Missing
    agreement: Agreement
    why: str = ""  # what follows; "" where they are the same


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


MOST_ROWS: Final = 128
"""Of a GID table that are held against another's."""


def compat(here: Side, there: Side, stacks: Sequence[Chosen]) -> Compat:
    """Every active port of A with that of its name at B; without one, with each of its kind."""
    by_stack = {(each.local, each.remote): each.stacks for each in pairs(here, there, stacks)}
    theirs = [port for port in there.ports if port.is_active]
    beside = tuple(
        _beside(here, local, there, remote, by_stack)
        for local in here.ports
        if local.is_active
        for remote in _opposite(local, theirs)
    )
    talks, why, reason = _none(here, there)
    alone = Compat(talks, why, tuple(_hosts(here, there)), (), reason, _unseen(here, there))
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
            states = ", ".join(f"{port.name} {_text(port.state)}" for port in side.ports[:4])
            return Talks.NO, f"{name} has no active port: {states}", None
    kinds = [
        " and ".join(sorted({port.protocol for port in side.ports if port.is_active}))
        for side in (here, there)
    ]
    if any(Protocol.UNKNOWN in kind for kind in kinds):
        return Talks.UNKNOWN, "what protocol a port is of is not known", None
    why = f"no active ports of one protocol: A has {kinds[0]}, B {kinds[1]}"
    return Talks.NO, why, NoTalk.PROTOCOLS


# --- of hosts ---------------------------------------------------------------------------


def _hosts(here: Side, there: Side) -> Iterator[CompatRow]:
    for subject, value in _HOST:
        first, second = (value(side) for side in (here, there))
        if first in _FOREIGN or second in _FOREIGN:
            continue
        if isinstance(first, Missing) and isinstance(second, Missing):
            continue
        yield _row(subject, first, second, "")


_FOREIGN: Final = (LINUX_ONLY, MACOS_ONLY, NOT_ON_MACOS)


def _macos(name: str) -> Callable[[Side], str | Missing]:
    def value(side: Side) -> str | Missing:
        found = side.evidence.macos
        return _text(found if isinstance(found, Missing) else getattr(found, name))

    return value


def _kernel(side: Side) -> str | Missing:
    system = side.evidence.system
    return _text(system if isinstance(system, Missing) else system.kernel)


def _library(side: Side) -> str | Missing:
    verbs = side.evidence.verbs
    return _text(verbs if isinstance(verbs, Missing) else verbs.library)


_HOST: Final[tuple[tuple[str, Callable[[Side], str | Missing]], ...]] = (
    ("kernel", _kernel),
    ("macos_version", _macos("version")),
    ("macos_build", _macos("build")),
    ("macos_rdma", _macos("rdma_enabled")),
    ("verbs_library", _library),
)


# --- of ports ---------------------------------------------------------------------------


def _beside(
    here: Side,
    local: PortView,
    there: Side,
    remote: PortView,
    by_stack: dict[tuple[End, End], tuple[StackPair, ...]],
) -> PortsBeside:
    ends = End(local.device, local.number), End(remote.device, remote.number)
    talks, why = _by_address(here, local, there, remote)
    reason = NoTalk.GIDS if talks is Talks.NO else None
    rows = (
        *_of_devices(here, local, there, remote),
        *_of_ports(here, local, there, remote),
    )
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


def _by_address(here: Side, local: PortView, there: Side, remote: PortView) -> tuple[Talks, str]:
    """The best two rows of both tables; of InfiniBand by LID."""
    if local.protocol is Protocol.INFINIBAND:
        return by_lid(local, remote)
    if local.protocol not in (Protocol.ROCE, Protocol.THUNDERBOLT):
        return Talks.UNKNOWN, f"{local.protocol} connects by other means than GIDs"
    for port, name in ((local, "A"), (remote, "B")):
        if isinstance(port.gids, Missing):
            return Talks.UNKNOWN, f"the GID table of {name} is not known: {port.gids}"
    by_cable = local.protocol is Protocol.THUNDERBOLT  # whose ends are on one link
    first, second = _rows_of(here, local), _rows_of(there, remote)
    own = {each.gid for each in first if each.gid.scope is not Scope.LINK_LOCAL}
    twice = next((each.gid for each in second if each.gid in own), None)
    every = [
        _reached(one, other, by_cable=by_cable)
        for one in first
        for other in second
        if one.gid != other.gid or one.gid not in own
    ]
    nothing = Talks.NO, _no_gid(local, remote)
    best = min(every, key=lambda each: BEST_FIRST.index(each[0]), default=nothing)
    if twice is not None and best[0] in (Talks.UNKNOWN, Talks.NO):
        return Talks.UNKNOWN, f"both ends have {twice}: one host, or an address given twice"
    for port, name in ((local, "A"), (remote, "B")):
        if best[0] is Talks.NO and not isinstance(port.gids, Missing) and port.gids.unreadable:
            return Talks.UNKNOWN, f"rows of the GID table of {name} could not be read"
    return best


def _no_gid(local: PortView, remote: PortView) -> str:
    """ "the second has no GID"; "" where both have one, or a table was not read."""
    without = [
        name
        for port, name in ((local, "the first"), (remote, "the second"))
        if not isinstance(port.gids, Missing) and not port.gids.entries
    ]
    if without[1:]:
        return "neither has a GID"
    return f"{without[0]} has no GID" if without else ""


def _rows_of(side: Side, port: PortView) -> list[Address]:
    addresses = Addresses(side.evidence)
    found = (addresses.address(port, each) for each in port.entries[:MOST_ROWS])
    return [each for each in found if each is not None]


def _reached(here: Address, there: Address, *, by_cable: bool) -> tuple[Talks, str]:
    wrong = next(mismatches(here, there), None)
    if wrong is not None:
        return Talks.NO, wrong.text
    subnet, ends = same_subnet(here, there), f"{here.gid} and {there.gid}"
    if here.gid.scope is Scope.LINK_LOCAL and not by_cable:
        return Talks.UNKNOWN, f"{ends} are link-local: whether they are on one link is not known"
    if subnet is None:
        return Talks.UNKNOWN, f"{ends}: the prefix length is not known"
    if subnet:
        return Talks.YES, f"{ends} are in one subnet"
    return Talks.ROUTED, f"{ends} are in different subnets: a router must pass RoCE v2 (UDP 4791)"


def _of_devices(here: Side, local: PortView, there: Side, remote: PortView) -> Iterator[CompatRow]:
    first, second = _device(here, local), _device(there, remote)
    for subject in ("driver", "hca_type", "firmware"):
        one, other = _of_device(first, subject), _of_device(second, subject)
        if not (isinstance(one, Missing) and isinstance(other, Missing)):
            yield _row(subject, one, other, "")


def _device(side: Side, port: PortView) -> DeviceView | None:
    return next((each for each in devices(side.evidence) if each.name == port.device), None)


def _of_device(device: DeviceView | None, subject: str) -> str | Missing:
    if device is None:
        return _UNSEEN
    if subject == "driver":
        # nldev names the driver of verbs, by another name than the PCI function's.
        return _UNSEEN if device.sysfs is None else _text(device.driver)
    for witness in (device.sysfs, device.nldev, device.verbs):
        found = getattr(witness, subject, None)
        if found is not None and not isinstance(found, Missing):
            return _text(found)
    return _UNSEEN


_UNSEEN: Final = Missing(Why.NOT_COLLECTED, "no source shows it")


def _of_ports(here: Side, local: PortView, there: Side, remote: PortView) -> Iterator[CompatRow]:
    yield _row("link_layer", _text(local.link_layer), _text(remote.link_layer), "")
    yield _row("rate", *_rates(local, remote), "the slower one bounds both")
    yield _row(
        "active_mtu",
        _mtu(local),
        _mtu(remote),
        "a queue pair must take the smaller one: who takes more has its packets dropped",
    )
    if local.protocol is Protocol.INFINIBAND:
        yield _partitions(local, remote)
        yield _row(
            "subnet_prefix", _prefix(local), _prefix(remote), "an InfiniBand router is needed"
        )
        return
    yield _row(
        "netdev_mtu",
        _netdev_mtu(here, local),
        _netdev_mtu(there, remote),
        "packets above the smaller one are dropped where the way does not say so",
    )
    if not all(isinstance(port.gids, Missing) for port in (local, remote)):
        yield _kinds(local, remote)
        if not _no_gid(local, remote):
            yield _networks(_subnets(here, local), _subnets(there, remote))
    if local.protocol is Protocol.THUNDERBOLT:
        yield _cable(here, local, there, remote)


def _rates(local: PortView, remote: PortView) -> tuple[str | Missing, str | Missing]:
    """By one witness: the verbs library, which stands in for sysfs, shows another width."""
    both = local.sysfs is not None and remote.sysfs is not None
    neither = local.sysfs is None and remote.sysfs is None
    here, there = (
        _text(port.rate) if both or neither or port.sysfs is not None else _UNSEEN
        for port in (local, remote)
    )
    return here, there


def _partitions(local: PortView, remote: PortView) -> CompatRow:
    """Two ports exchange packets in a partition that both are in, one of them as a full member."""
    here, there = (port.sysfs.pkeys if port.sysfs else _MISSING_KEYS for port in (local, remote))
    first, second = _keys(here), _keys(there)
    if isinstance(here, Missing) or isinstance(there, Missing):
        return CompatRow(
            "pkeys", first, second, Agreement.UNKNOWN, "pkeys is not known at both ends"
        )
    fit = any(
        one & 0x7FFF == other & 0x7FFF and (one | other) & 0x8000 and one & 0x7FFF
        for one in here.values()
        for other in there.values()
    )
    if not fit:
        why = "no partition has both, one of them as a full member (bit 15)"
        return CompatRow("pkeys", first, second, Agreement.STOPS, why)
    return _row("pkeys", first, second, "they share one partition")


_MISSING_KEYS: Final = Missing(Why.NOT_COLLECTED, "sysfs does not show the port")


def _keys(keys: dict[int, int] | Missing) -> str | Missing:
    if isinstance(keys, Missing):
        return keys
    return ", ".join(f"{each:#06x}" for each in keys.values()) or "(none)"


def _prefix(port: PortView) -> str | Missing:
    first = next((each for each in port.entries if each.index == 0), None)
    return _NO_GID if first is None else first.gid.raw[:8].hex(":", 2)


_NO_GID: Final = Missing(Why.ABSENT, "no GID at index 0")


def _mtu(port: PortView) -> str | Missing:
    return _text(port.verbs.active_mtu if port.verbs else _NO_VERBS)


_NO_VERBS: Final = Missing(Why.NOT_COLLECTED, "the verbs library does not show the port")


def _netdev_mtu(side: Side, port: PortView) -> str | Missing:
    name = port.netdev
    if isinstance(name, Missing):
        return name
    for source, items in (("netdev", "netdevs"), ("mac_network", "interfaces")):
        found = getattr(side.evidence, source)
        for each in () if isinstance(found, Missing) else present(getattr(found, items)):
            if each.name == name:
                return _text(each.mtu)
    return _UNSEEN


def _kinds(local: PortView, remote: PortView) -> CompatRow:
    first, second = _families(local), _families(remote)
    without = _no_gid(local, remote)
    if without and not isinstance(first, Missing) and not isinstance(second, Missing):
        return CompatRow("gids", first, second, Agreement.STOPS, without)
    return _row("gids", first, second, "not every row has one to talk to")


def _families(port: PortView) -> str | Missing:
    """ "roce_v2 IPv4, roce_v2 IPv6 link-local": the kinds of rows, each once."""
    if isinstance(port.gids, Missing):
        return port.gids
    if not port.entries and port.gids.unreadable:
        return Missing(Why.MALFORMED, "rows of the table could not be read")
    found = dict.fromkeys(
        " ".join(
            filter(
                None,
                (
                    str(each.known_type or ""),
                    str(each.gid.family),
                    "link-local" if each.gid.scope is Scope.LINK_LOCAL else "",
                ),
            )
        )
        for each in port.entries[:MOST_ROWS]
    )
    return ", ".join(sorted(found)) or "(none)"


def _subnets(side: Side, port: PortView) -> str | Missing:
    """Of the addresses in its GIDs, but link-local ones."""
    from ipaddress import ip_interface

    addresses = Addresses(side.evidence)
    found: dict[str, None] = {}
    unknown = False
    for entry in port.entries[:MOST_ROWS]:
        address = addresses.address(port, entry)
        if address is None or entry.gid.scope is Scope.LINK_LOCAL:
            continue
        if address.prefix_length is None:
            unknown = True
            continue
        text = f"{entry.gid.ipv4 or entry.gid}/{address.prefix_length}"
        try:
            found[str(ip_interface(text).network)] = None
        except ValueError:  # a saved report that somebody has edited
            unknown = True
    if not found and unknown:
        return Missing(Why.NOT_COLLECTED, "no prefix length is known")
    return ", ".join(found) or _NO_SUBNET


_NO_SUBNET: Final = "(none)"


def _networks(here: str | Missing, there: str | Missing) -> CompatRow:
    if isinstance(here, Missing) or isinstance(there, Missing):
        return _row("subnets", here, there, "")
    if _NO_SUBNET in (here, there):
        why = "link-local GIDs alone at one end: a router passes none of them on"
    elif {*here.split(", ")}.isdisjoint(there.split(", ")):
        why = "none is common: a router is needed"
    else:
        why = "one is common"
    return _row("subnets", here, there, why)


def _cable(here: Side, local: PortView, there: Side, remote: PortView) -> CompatRow:
    """Whether the cable of one leads to the other, by the domains that both name."""
    ends = cabling(local.device, here.evidence), cabling(remote.device, there.evidence)
    seen = [{str(known(peer.domain_uuid)) for peer in each.hosts} - {"None"} for each in ends]
    own = [
        str(each.bus.domain_uuid) if each.bus and known(each.bus.domain_uuid) else None
        for each in ends
    ]
    texts = [
        f"{mine or '(not known)'} → {', '.join(sorted(others))}" if others else _NO_CABLE
        for mine, others in zip(own, seen, strict=True)
    ]
    if own[0] is not None and own[0] == own[1]:
        why = f"both ends are domain {own[0]}: one Mac, by two records"
        return CompatRow("cable", texts[0], texts[1], Agreement.UNKNOWN, why)
    if own[1] in seen[0] or own[0] in seen[1]:
        return CompatRow("cable", texts[0], texts[1], Agreement.SAME)
    if (seen[0] and own[1]) or (seen[1] and own[0]):
        why = f"the cable of {local.device} leads to another computer than the peer"
        return CompatRow("cable", texts[0], texts[1], Agreement.STOPS, why)
    return CompatRow(
        "cable", texts[0], texts[1], Agreement.UNKNOWN, "cable is not known at both ends"
    )


_NO_CABLE: Final = Missing(Why.ABSENT, "no computer is seen on it")


def _text(value: Any) -> str | Missing:
    if isinstance(value, Missing):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _row(subject: str, here: str | Missing, there: str | Missing, why: str) -> CompatRow:
    if isinstance(here, Missing) or isinstance(there, Missing):
        return CompatRow(subject, here, there, Agreement.UNKNOWN)
    if here == there:
        return CompatRow(subject, here, there, Agreement.SAME)
    return CompatRow(subject, here, there, Agreement.DIFFERS, why)
