"""What happened on a host → the causes that it points to, the earliest first.

Of `watch`'s events, but for most of loopback: a link that loses its carrier, a device that goes,
an address or a route that is removed, a line of the kernel's log. What came before a failure need
not have caused it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from rdmadiag.explain.causes import remedy, stated
from rdmadiag.explain.kernel_messages import Kind as Message
from rdmadiag.explain.kernel_messages import kind_of
from rdmadiag.explain.log.kind import Kind as Meant
from rdmadiag.explain.log.line.fields import fields
from rdmadiag.explain.log.recognition.recognise import recognise
from rdmadiag.explain.lookup import PLACES
from rdmadiag.explain.remedies import Lines, fill
from rdmadiag.frozen import dataclass
from rdmadiag.quoting import shell_word
from rdmadiag.watch.event import Action, Event, Happened, Kind

MOST: Final = 20
_LINES: Final = 4  # to paste

_FATAL: Final = {
    "IBV_EVENT_PORT_ERR": "port-went-down",
    "IBV_EVENT_DEVICE_FATAL": "firmware-failed",
    "IBV_EVENT_GID_CHANGE": "gid-changed",
}
_GONE: Final = {
    (Kind.DEVICE, Action.REMOVED): "device-removed",
    (Kind.DEVICE, Action.RENAMED): "device-renamed",
    (Kind.NETDEV, Action.DETACHED): "gid-without-netdev",
    (Kind.LINK, Action.REMOVED): "gid-row-removed",
    (Kind.ADDRESS, Action.REMOVED): "gid-row-removed",
    (Kind.ADDRESS, Action.ADDED): "gid-changed",
    (Kind.ROUTE, Action.REMOVED): "no-route",
    (Kind.FLASH, Action.BEGAN): "device-resetting",
}
_BLOCKS: Final = ("unreachable", "blackhole", "prohibit")
"""RTN_* of routes that refuse."""

_TYPES: Final = {Action.ADDED: ("unicast",), Action.REMOVED: _BLOCKS}
"""What a route is of that, where it comes or goes, mends something."""

_MENDS: Final = {
    (Kind.DEVICE, Action.ADDED): ("device-removed",),
    (Kind.OBJECT, Action.ADDED): ("device-removed", "driver-going"),
    (Kind.LINK, Action.ADDED): ("gid-row-removed",),
    (Kind.ADDRESS, Action.ADDED): ("gid-row-removed",),
    (Kind.ROUTE, Action.ADDED): ("no-route",),
    (Kind.ROUTE, Action.REMOVED): ("route-unreachable",),
    (Kind.NETDEV, Action.ATTACHED): ("gid-without-netdev",),
    (Kind.FLASH, Action.ENDED): ("device-resetting",),
}
_WELL: Final = (
    (Kind.LINK, "admin_up", True, "interface-down"),
    (Kind.LINK, "carrier", True, "link-lost"),
    (Kind.NEIGHBOUR, "state", "reachable", "peer-unreachable"),
    (Kind.NEIGHBOUR, "state", "permanent", "peer-unreachable"),
    (Kind.HEALTH, "state", "healthy", "firmware-failed"),
    (Kind.ASYNC_EVENT, "event", "IBV_EVENT_PORT_ACTIVE", "port-went-down"),
)
"""A detail of an event that says that a cause of the same place is over."""

_PATH: Final = frozenset(
    {"gid-row-removed", "no-route", "route-unreachable", "peer-unreachable", "gid-without-netdev"}
)
"""They follow from a link or a device that goes, and come by themselves too."""

_MAYBE: Final = frozenset(
    {"gid-changed", "mtu-mismatch", "device-renamed", "register-refused", "slot-power"}
)
"""They often end nothing."""

_VIRTUAL: Final = frozenset({"veth", "bridge", "dummy", "tun", "ifb", "vxlan"})
"""IFLA_INFO_KIND of links that come and go with containers."""

_LOOPBACK: Final = "lo"

_WITH_LINK: Final = ("fe80:", "ff00:")
"""Addresses and routes that come and go with their link."""


@dataclass(frozen=True, slots=True)
class WatchedCause:
    """One cause at one place, and the first event that points to it."""

    label: str
    text: str
    subject: str  # a netdev, a device, an address or a route, as the event names it
    number: int  # of that event
    time: float  # seconds since 1970
    count: int  # of events that say the same
    mended: bool  # the last of what is known of it says that it is as it was
    next: Lines  # shell lines to paste


def causes_of(events: Iterable[Event]) -> tuple[WatchedCause, ...]:
    """Of what is on the events' host, in their order of time.

    What lasts is before what was mended, links and devices are before addresses and routes, which
    follow from them; of one rank what went first is first.
    """
    links: dict[str, str] = {}
    found: dict[tuple[str, str], WatchedCause] = {}
    for event in events:
        what = event.happened
        if _is_of_loopback(what):
            continue
        if what.kind is Kind.LINK:
            links[what.subject] = str(what.details.get("kind"))
        for over in _undone(what):
            if over in found:
                found[over] = replace(found[over], mended=True)
        label, place = _label(what), what.subject
        if what.kind is Kind.LINE:
            label, place = _of_line(what)
        if label is None:
            continue
        known = found.get((label, place))
        found[label, place] = (
            WatchedCause(
                label=label,
                text=stated(label).text,
                subject=place,
                number=event.number,
                time=event.time,
                count=1,
                mended=False,
                next=_next(label, what),
            )
            if known is None
            else replace(known, mended=False, count=known.count + 1)
        )
    ranked = sorted(found.values(), key=lambda each: (*_rank(each, links), each.time, each.number))
    return tuple(ranked[:MOST])


def _rank(cause: WatchedCause, links: Mapping[str, str]) -> tuple[bool, int]:
    kind = 2 if cause.label in _MAYBE else 1 if cause.label in _PATH else 0
    return cause.mended or links.get(cause.subject) in _VIRTUAL, kind


def _is_of_loopback(what: Happened) -> bool:
    """No GID of an adapter comes from there. Routes of IPv6 that refuse are said to be on it."""
    if what.kind is Kind.ROUTE and what.details.get("type") in _BLOCKS:
        return False
    return _LOOPBACK in (
        what.subject if what.kind is Kind.LINK else None,
        what.details.get("netdev"),
    )


def _label(what: Happened) -> str | None:
    details, before = what.details, what.before
    if what.kind is Kind.LINK and what.action in (Action.CHANGED, Action.RENAMED):
        if before.get("admin_up") and details.get("admin_up") is False:
            return "interface-down"
        if before.get("carrier") and details.get("carrier") is False:
            return "link-lost"
        return "mtu-mismatch" if before.get("mtu") else None
    if what.kind is Kind.OBJECT:
        return _of_object(what)
    if what.kind is Kind.NEIGHBOUR:
        return "peer-unreachable" if details.get("state") == "failed" else None
    if what.kind is Kind.HEALTH:
        return "firmware-failed" if details.get("state") == "error" else None
    if what.kind is Kind.ASYNC_EVENT:
        return _FATAL.get(str(details.get("event")))
    if what.kind is Kind.ROUTE and details.get("type") != "unicast":
        blocks = what.action is Action.ADDED and details.get("type") in _BLOCKS
        return "route-unreachable" if blocks else None
    if what.kind in (Kind.ADDRESS, Kind.ROUTE) and what.subject.startswith(_WITH_LINK):
        return None
    return _GONE.get((what.kind, what.action))


def _of_object(what: Happened) -> str | None:
    subsystem, action = what.details.get("subsystem"), what.details.get("action")
    if subsystem == "infiniband" and what.action is Action.REMOVED:
        return "device-removed"
    if subsystem == "module" and what.action is Action.REMOVED:
        return "driver-going"
    return "device-removed" if subsystem == "pci" and action in ("unbind", "remove") else None


def _of_line(what: Happened) -> tuple[str | None, str]:
    """And what the line names: a device, or the PCI function of one."""
    meaning = recognise(str(what.details.get("line")).encode("utf-8", "replace"))
    if meaning is None or not meaning.causes or meaning.is_beside:
        return None, what.subject
    if meaning.kind not in (Meant.FAILURE, Meant.CONSEQUENCE, Meant.NOTE):
        return None, what.subject
    return meaning.causes[0].label, meaning.fields.device or what.subject


def _undone(what: Happened) -> Iterator[tuple[str, str]]:
    """Causes that this event ends, and where."""
    if what.kind is Kind.LINE:
        line = str(what.details.get("line"))
        if kind_of(line) is Message.LINK_UP:
            yield "link-lost", fields(line).device or what.subject
        return
    if what.kind is not Kind.ROUTE or what.details.get("type") in _TYPES.get(what.action, ()):
        for label in _MENDS.get((what.kind, what.action), ()):
            yield label, what.subject
    for kind, name, value, label in _WELL:
        if what.kind is kind and what.details.get(name) == value:
            yield label, what.subject


def _next(label: str, what: Happened) -> Lines:
    facts = dict(PLACES)
    if what.kind is Kind.LINK:
        facts["netdev"] = shell_word(what.subject)
    netdev = what.details.get("netdev")
    if isinstance(netdev, str) and netdev:
        facts["netdev"] = shell_word(netdev)
    if what.kind in (Kind.DEVICE, Kind.ASYNC_EVENT):
        facts["device"] = shell_word(what.subject.partition("/")[0])
    lines = fill(remedy(label, "linux"), facts)[:_LINES]
    return tuple(line.replace(PLACES["netdev"], facts["netdev"]) for line in lines)
