"""Events: what a notification says, when it was read, and their form in a ring and in JSON."""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from rdmadiag.frozen import dataclass

Value = str | int | bool | None


class Source(StrEnum):
    """Who said it."""

    RDMA = "rdma"  # RDMA netlink, RDMA_NL_GROUP_NOTIFY
    UEVENT = "uevent"  # NETLINK_KOBJECT_UEVENT, the kernel's group
    ROUTE = "route"  # rtnetlink
    DEVLINK = "devlink"  # generic netlink, devlink's group "config"
    KERNEL = "kernel"  # /dev/kmsg
    ASYNC = "async"  # ibv_get_async_event, of devices that were named
    COUNTERS = "counters"  # sysfs, sampled where that was asked for
    WATCH = "watch"  # rdmadiag itself: that it began, ended, or that something is not known


class Kind(StrEnum):
    """What an event is about."""

    DEVICE = "device"  # an RDMA device, or a devlink one
    NETDEV = "netdev"  # the netdev of an RDMA device's port
    LINK = "link"
    ADDRESS = "address"
    ROUTE = "route"
    NEIGHBOUR = "neighbour"
    RULE = "rule"
    OBJECT = "object"  # of sysfs: what a uevent is of
    HEALTH = "health"  # a devlink health reporter
    FLASH = "flash"  # firmware being written
    LINE = "line"  # of the kernel's log
    ASYNC_EVENT = "async_event"  # IBV_EVENT_*
    TRAFFIC = "traffic"  # what a port has sent and received
    WATCH = "watch"
    LOSS = "loss"
    COMMAND = "command"  # the one of --on-change
    UNREADABLE = "unreadable"  # a message that could not be understood


class Action(StrEnum):
    """What became of it."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    RENAMED = "renamed"
    ATTACHED = "attached"
    DETACHED = "detached"
    LOGGED = "logged"
    BEGAN = "began"
    ENDED = "ended"
    LOST = "lost"
    FAILED = "failed"
    SAMPLED = "sampled"
    NOTIFIED = "notified"  # and nothing in the message says what


@dataclass(frozen=True, slots=True)
class Happened:
    """One notification, understood."""

    source: Source
    kind: Kind
    action: Action
    subject: str  # "mlx5_0", "eth0", "192.0.2.1/24", "pci/0000:08:00.0"
    details: Mapping[str, Value]  # by name; of something that changed, what it is now
    before: Mapping[str, Value]  # the same of what changed, where that is known


@dataclass(frozen=True, slots=True)
class Event:
    """A notification in its place."""

    number: int  # counts from 1 in each run of watch
    time: float  # seconds since 1970, when it was read
    happened: Happened


LOCAL_TABLE: Final = 255
"""RT_TABLE_LOCAL of linux/rtnetlink.h: its routes come and go with addresses, by the kernel."""

NOTHING: Final[Mapping[str, Value]] = {}


def utc(seconds: float) -> str:
    """ "2026-11-23T14:02:03.123456Z"."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def members(event: Event) -> dict[str, Any]:
    """As it stands in JSON."""
    what = event.happened
    return {
        "number": event.number,
        "time": utc(event.time),
        "source": what.source,
        "kind": what.kind,
        "action": what.action,
        "subject": what.subject,
        "details": what.details,
        "before": what.before,
    }


def event_of(found: Any) -> Event:
    """The event in what JSON gave; raises ValueError for anything else."""
    if not isinstance(found, dict):
        raise ValueError("an event is an object")  # noqa: TRY004  # of what was read
    try:
        what = Happened(
            Source(found["source"]),
            Kind(found["kind"]),
            Action(found["action"]),
            _text(found["subject"]),
            _values(found["details"]),
            _values(found["before"]),
        )
        return Event(_number(found["number"]), seconds_of(found["time"]), what)
    except KeyError as error:
        raise ValueError(f"an event without {error}") from error


def seconds_of(text: Any) -> float:
    """Seconds since 1970 of "2026-11-23T14:02:03Z", of a time with its offset, or of a number.

    Without an offset it is UTC. Raises ValueError.
    """
    given = _text(text)
    try:
        seconds = float(given)
    except ValueError:
        seconds = _of_date(given)
    if not 0 <= seconds < _LAST:  # "nan" is not within it either
        raise ValueError(f"{given[:40]!r} is no time")
    return seconds


def _of_date(text: str) -> float:
    when = datetime.fromisoformat(text)
    try:
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except OverflowError as error:
        raise ValueError(f"{text!r} is out of range") from error


_LAST: Final = 253_402_300_800  # the year 10000, which datetime has not got


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{str(value)[:40]!r} is no text")  # noqa: TRY004  # of what was read
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{str(value)[:40]!r} is no number of an event")
    return value


def _values(found: Any) -> dict[str, Value]:
    if not isinstance(found, dict):
        raise ValueError("details are an object")  # noqa: TRY004  # of what was read
    for value in found.values():
        if value is not None and not isinstance(value, str | int | bool):
            raise ValueError("a detail is a text, a number, true, false or null")
    return found
