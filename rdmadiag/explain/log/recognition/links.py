"""Links that drivers say are down: which of them were lost, and which came up or had none to lose.

    [    4.123456] mlx5_core 0000:08:00.0 ens1f0np0: renamed from eth0
    [    9.123456] mlx5_core 0000:08:00.0 ens1f0np0: Link down      a driver that starts
    [   12.123456] mlx5_core 0000:08:00.0 ens1f0np0: Link up
    [   13.123456] mlx5_core 0000:08:00.1 ens1f1np1: Link down      a port without a cable
    [ 8123.123456] mlx5_core 0000:08:00.0 ens1f0np0: Link down      lost

A link that came up again counts where something else failed soon after it had gone.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from rdmadiag.explain.kernel_messages import STARTING, Kind, kind_of
from rdmadiag.explain.log.line.fields import Fields
from rdmadiag.late import late

LINK_DOWN: Final = "link-down"
"""The sign."""
LINK_UP: Final = "link-up"
"""What a log says of a link that is there: it decides what LINK_DOWN means."""
DRIVER_STARTED: Final = "driver-started"
"""What a log says of an adapter whose driver begins: before that no link of it was up."""
CAME_BACK: Final = "link-came-back"
NEVER_UP: Final = "link-never-up"
"""What LINK_DOWN is where it is no failure."""

FOLLOWS: Final = 120.0
"""Seconds after a link went in which what fails may have failed by that: retries of a queue pair
take up to a minute (timeout 20, 7 retries), those of a connection another."""
NEAR: Final = 3600.0
"""Seconds between two losses of a link that flaps."""
_MOST: Final = 1024  # links
_KEPT: Final = 64  # times that each went down

Clock = tuple[str, float]
"""Kind and seconds: only the same kind compares."""
Other = tuple[int, Clock | None]
"""Line and clock of what else failed."""


@dataclass(frozen=True, slots=True)
class Down:
    """A line that says that a link went."""

    number: int
    text: str
    clock: Clock | None
    is_first: bool  # since its driver started, or the kernel did; it was not up in between


@dataclass(slots=True)
class _Link:
    has_started: bool = False
    was_up: bool = False
    flaps: list[Down] = field(default_factory=list)  # it came up again
    open: Down | None = None  # it did not


MANY: Final = 4
"""Of a driver that is loaded anew, or a switch that starts, a link goes once or twice."""


class Links:
    """All links of a log, in the order of its lines."""

    def __init__(self) -> None:
        self._links: dict[tuple[str, str], _Link] = {}

    def take(self, number: int, found: Fields, of: str = "") -> None:
        """A line that says that a link is down or up, or its driver starts; `of` is whose log."""
        if renamed := _STARTS.search(found.text):
            for name in {link_of(found), renamed["netdev"] or ""} - {""}:
                link = self._link(of, name)
                if link is not None:
                    link.has_started, link.was_up, link.open = True, False, None
            return
        kind = kind_of(found.text)
        link = self._link(of, link_of(found)) if kind in (Kind.LINK_DOWN, Kind.LINK_UP) else None
        if link is None:
            return
        if kind is Kind.LINK_UP:
            # What a driver says as it starts is no loss.
            if link.open and not link.open.is_first:
                link.flaps = [*link.flaps, link.open][-_KEPT:]
            link.open, link.was_up = None, True
        elif link.open is None:
            clock = found.clock
            early = clock is not None and clock[0] == "uptime" and clock[1] <= STARTING
            is_first = not link.was_up and (link.has_started or early)
            link.open = Down(number, found.text, clock, is_first)

    def _link(self, of: str, name: str) -> _Link | None:
        key = (of, name)
        if key not in self._links and len(self._links) >= _MOST:
            return None
        return self._links.setdefault(key, _Link())

    def lost(self, found: Fields, of: str = "") -> Down | None:
        """The line from which on the link that this one names is down; None where it is up, or
        has had none since the start while others have.
        """
        link = self._links.get((of, link_of(found)))
        if link is None or link.open is None:
            return None
        if link.open.is_first and (self._has_another(link) or _VIRTUAL.search(link.open.text)):
            return None
        return link.open

    def flaps(self, found: Fields, of: str = "") -> tuple[Down, ...]:
        """Where the link that the line names went down and came up again."""
        link = self._links.get((of, link_of(found)))
        return tuple(link.flaps) if link else ()

    def is_up(self, found: Fields, of: str = "") -> bool:
        """Whether the last that was said of it is that it is up."""
        link = self._links.get((of, link_of(found)))
        return link is not None and link.was_up and link.open is None

    def _has_another(self, one: _Link) -> bool:
        return any(each.was_up for each in self._links.values() if each is not one)


def first_followed(flaps: Iterable[Down], others: Iterable[Other]) -> Down | None:
    """The first of them after which something else failed soon."""
    several = tuple(others)
    return next((each for each in flaps if any(_follows(each, other) for other in several)), None)


def again_and_again(flaps: Sequence[Down]) -> Down | None:
    """The first of MANY that are near each other: whatever goes over the link suffers by each."""
    for at in range(len(flaps) - MANY + 1):
        several = flaps[at : at + MANY]
        if is_often((several[0], several[-1])):
            return several[0]
    return None


def is_often(flaps: Sequence[Down]) -> bool:
    """Whether two of them are near each other, or no clock says that they are not."""
    return any(
        one.clock is None
        or other.clock is None
        or one.clock[0] != other.clock[0]
        or other.clock[1] - one.clock[1] <= NEAR
        for one, other in pairwise(flaps)
    )


def _follows(down: Down, other: Other) -> bool:
    number, clock = other
    if down.clock and clock and down.clock[0] == clock[0]:
        return 0 <= clock[1] - down.clock[1] <= FOLLOWS
    return number > down.number


def is_of_a_link(what: str) -> bool:
    """Whether a line of this word is to be followed."""
    return what in (LINK_DOWN, LINK_UP, DRIVER_STARTED)


def says_down(text: str) -> bool:
    """Whether the line is of a link that went, and not of a module that reports an error."""
    return kind_of(text) is Kind.LINK_DOWN


def is_of_links(text: str) -> bool:
    """Whether a line says of a link that it is down or up, and nothing else."""
    return kind_of(text) in (Kind.LINK_DOWN, Kind.LINK_UP)


def link_of(found: Fields) -> str:
    """The PCI function that the line names; of one that names none the netdev."""
    if found.device:
        return found.device
    named = _NAMED.search(found.text)
    return named[1] if named else ""


_NAMED: Final = late(r"([\w.@-]+): +(?:NIC +)?link ", re.IGNORECASE)

_VIRTUAL: Final = late(r" \w*\d(?:s\d+)?(?:f\d+)?v\d+: [Ll]ink ")
"""The netdev of a virtual function: it begins without a link, whatever the port has."""
_STARTS: Final = late(r" (?P<netdev>[\w.@-]+): renamed from \w|: enabling device \(")
