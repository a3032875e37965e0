"""What ports have sent and received, sampled now and then while something is watched."""

import math
import time
from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.job import PortTraffic
from rdmadiag.host import Host
from rdmadiag.host.isolation import SideBySide
from rdmadiag.sources.port_traffic import read_port_traffic
from rdmadiag.sources.sysfs import CLASS
from rdmadiag.watch.event import NOTHING, Action, Happened, Kind, Source, Value

WITHIN: Final = 1.0
"""Seconds for one sample. A driver that takes longer is not queried again."""


class Sampled:
    """Two counters a port, each `interval` seconds, read in a child."""

    def __init__(self, host: Host, interval: float) -> None:
        self._host, self._interval = host, interval
        self.due = time.monotonic()

    def take(self) -> tuple[Happened, ...]:
        """One event a port; one that says why there is none."""
        self.due = max(self.due + self._interval, time.monotonic())
        child = SideBySide()
        child.start("counters", lambda: traffic(self._host))
        found = child.collect(time.monotonic() + WITHIN)["counters"]
        if isinstance(found, Missing):
            self.due = math.inf
            why: dict[str, Value] = {"why": f"{found}; they are not sampled any more"}
            return (
                Happened(Source.COUNTERS, Kind.TRAFFIC, Action.FAILED, "counters", why, NOTHING),
            )
        return tuple(map(_event, found))


def traffic(host: Host) -> tuple[PortTraffic, ...]:
    """Of every port of this host."""
    return tuple(read_port_traffic(host, name, number) for name, number in _ports(host))


def _ports(host: Host) -> Iterator[tuple[str, int]]:
    names = host.list(CLASS)
    for name in () if isinstance(names, Missing) else names:
        ports = host.list(f"{CLASS}/{name}/ports")
        for port in () if isinstance(ports, Missing) else ports:
            if port.isascii() and port.isdigit():
                yield name, int(port)


def _event(port: PortTraffic) -> Happened:
    details: dict[str, Value] = {
        "unit": str(port.unit),
        "sent": None if isinstance(port.sent, Missing) else port.sent,
        "received": None if isinstance(port.received, Missing) else port.received,
    }
    subject = f"{port.device}/{port.port}"
    return Happened(Source.COUNTERS, Kind.TRAFFIC, Action.SAMPLED, subject, details, NOTHING)
