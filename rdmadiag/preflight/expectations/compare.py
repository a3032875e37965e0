"""What is expected beside what is there."""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import PortState
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.expectations import Expectations, Expected
from rdmadiag.preflight.expectations import actual as read
from rdmadiag.preflight.expectations.actual import Actual
from rdmadiag.preflight.expectations.keys import KEYS, Relation, Scope, Want
from rdmadiag.view.reconcile import DeviceView, PortView


@dataclass(frozen=True, slots=True)
class Compared:
    """One expectation at one place."""

    expected: Expected
    key: str  # that was compared: "state" for a rate that is expected of a port without a link
    want: Want
    device: str | None
    port: int | None
    actual: Actual
    met: bool | Missing  # Missing: it could not be looked at


def compare(
    expectations: Expectations,
    every: Sequence[DeviceView],
    chosen: Sequence[DeviceView],
    evidence: Evidence,
) -> tuple[Compared, ...]:
    """Each expectation at each host, device or port that it is about, in their order.

    The host's are compared with all devices, those of patterns with the chosen ones.
    """
    found = [
        each
        for expected in expectations.expected
        for each in _compared(expected, every, chosen, evidence)
    ]
    return tuple(_without_link(found))


def _compared(
    expected: Expected,
    every: Sequence[DeviceView],
    chosen: Sequence[DeviceView],
    evidence: Evidence,
) -> Iterator[Compared]:
    key = expected.key
    if key == "count":
        if matching(expected.pattern, chosen) or not matching(expected.pattern, every):
            yield _one(expected, _count(expected, every, evidence))
    elif expected.scope is Scope.HOST:
        yield _one(expected, read.HOST[key](every, evidence))
    elif expected.scope is Scope.DEVICE:
        for device, _ in matching(expected.pattern, chosen):
            yield _one(expected, read.DEVICE[key](device, evidence), device.name)
    elif expected.pattern is None:
        yield from _of_active_ports(expected, chosen, evidence)
    else:
        for device, ports in matching(expected.pattern, chosen):
            if read.unknown_ports([device]):
                yield _one(expected, read.DEVICE["ports"](device, evidence), device.name)
            for port in ports:
                yield from _of_port(expected, port, evidence)


def _of_active_ports(
    expected: Expected, chosen: Sequence[DeviceView], evidence: Evidence
) -> Iterator[Compared]:
    """Where no port is active, none has what is expected of all."""
    active = [port for device in chosen for port in device.ports if port.is_active]
    for port in active:
        found = read.PORT[expected.key](port, evidence)
        yield _one(expected, found, port.device, port.number)
    if not active:
        value = read.unknown_devices(evidence) or read.unknown_ports(chosen)
        text = "that of no port, as none is active"
        yield _one(expected, Actual(value, text, read.list_of_devices(evidence, text)))


def matching(
    pattern: str | None, devices: Iterable[DeviceView]
) -> list[tuple[DeviceView, tuple[PortView, ...]]]:
    """The devices that a pattern names, and of each the ports; None names all."""
    if pattern is None:
        return [(device, device.ports) for device in devices]
    name, _, number = pattern.partition("/")
    found = []
    for device in devices:
        ports = tuple(port for port in device.ports if not number or port.number == int(number))
        if fnmatchcase(device.name, name) and (ports or not number):
            found.append((device, ports))
    return found


def _count(expected: Expected, every: Sequence[DeviceView], evidence: Evidence) -> Actual:
    pattern, want = expected.pattern, expected.want
    names = " ".join(device.name for device, _ in matching(pattern, every))
    value: int | Missing = len(names.split())
    # What is seen is there, whatever else there may be.
    unknown = read.unknown_devices(evidence)
    if pattern and "/" in pattern:
        named = matching(pattern.partition("/")[0], every)
        unknown = unknown or read.unknown_ports(device for device, _ in named)
    if unknown and not (value and want.relation is Relation.AT_LEAST):
        value = unknown
    there = " ".join(device.name for device in every)
    return Actual(
        value,
        f"{len(names.split())} ({names})" if names else "none",
        read.list_of_devices(evidence, there or "empty"),
    )


def _of_port(expected: Expected, port: PortView, evidence: Evidence) -> Iterator[Compared]:
    """A port without a link has no rate to compare: that it has none is the finding."""
    state = read.PORT["state"](port, evidence)
    if KEYS[expected.key].needs_link and state.value is not PortState.ACTIVE:
        active = Want(Relation.EQUAL, str(PortState.ACTIVE), str(PortState.ACTIVE))
        yield _one(expected, state, port.device, port.number, "state", active)
    else:
        found = read.PORT[expected.key](port, evidence)
        yield _one(expected, found, port.device, port.number)


def _one(
    expected: Expected,
    actual: Actual,
    device: str | None = None,
    port: int | None = None,
    key: str | None = None,
    want: Want | None = None,
) -> Compared:
    want = want or expected.want
    value = read.comparable(expected.key, actual.value, want.value)
    met = value if isinstance(value, Missing) else value is not None and want.is_met_by(value)
    return Compared(expected, key or expected.key, want, device, port, actual, met)


def _without_link(found: Iterable[Compared]) -> Iterator[Compared]:
    """A port's state once, however many keys need it."""
    seen: set[tuple[str | None, int | None, str]] = set()
    for each in found:
        place = (each.device, each.port, each.want.text)
        if each.key == _STATE:
            if place in seen:
                continue
            seen.add(place)
        yield each


_STATE: Final = "state"
