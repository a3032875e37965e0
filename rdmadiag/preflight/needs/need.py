"""One thing that rules need to have been read, and how to say where and why it was not."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import LINUX_ONLY, MACOS_ONLY, NOT_ON_MACOS, Evidence
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.case import Case, Lack
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol
from rdmadiag.view.unshown import FAILED

Where = tuple[Missing, str | None, int | None]  # why, and of which device and port


@dataclass(frozen=True, slots=True)
class Need:
    """Something that rules need to have been read."""

    name: str
    unmet: Callable[[Case], Iterable[Where]]
    said_by: tuple[str, ...] = ()  # rules, but source-failed, with a finding where it is not met
    in_part: bool = False  # what was read of it is judged all the same
    for_root: bool = False  # refused to an ordinary user: how the host is meant to be
    source: str | None = None

    def lacks(self, case: Case) -> Iterator[Lack]:
        """Where it is not met, and why."""
        for missing, device, port in self.unmet(case):
            if missing in (LINUX_ONLY, MACOS_ONLY, NOT_ON_MACOS):
                continue  # no system needs what another one has
            if missing.why in (Why.ABSENT, Why.UNSUPPORTED) and _has_no_device(case):
                continue  # nor does a host without devices need what would show them
            yield Lack(self.name, missing, device, port)

    def failed(self, missing: Missing) -> bool:
        """Whether it could have been read, and was not: the verdict is unknown for it."""
        return missing.why in FAILED and not (self.for_root and missing.why is Why.DENIED)


def part(path: str, answers: Collection[Why] = ()) -> Callable[[Case], Iterator[Where]]:
    """The value at `path` of the evidence; `answers` are reasons that are an answer."""

    def unmet(case: Case) -> Iterator[Where]:
        value: Any = case.evidence
        *way, last = path.split(".")
        for name in way:
            value = getattr(value, name)
            if isinstance(value, Missing):
                yield value, None, None
                return
        value = getattr(value, last)
        if isinstance(value, Missing) and value.why not in answers:
            yield value, None, None

    return unmet


def of_ports(
    value: Callable[[PortView], Any], *protocols: Protocol
) -> Callable[[Case], Iterator[Where]]:
    """A value of each port, of those of `protocols` alone where some are named."""

    def unmet(case: Case) -> Iterator[Where]:
        for _, port in case.ports:
            if not protocols or port.protocol in protocols:
                found = value(port)
                if isinstance(found, Missing):
                    yield found, port.device, port.number

    return unmet


def of_devices(value: Callable[[DeviceView], Any]) -> Callable[[Case], Iterator[Where]]:
    """A value of each device."""

    def unmet(case: Case) -> Iterator[Where]:
        for device in case.devices:
            found = value(device)
            if isinstance(found, Missing):
                yield found, device.name, None

    return unmet


def host_wide(*found: object) -> Iterator[Where]:
    """Those of the values that are there, perhaps, and could not be read."""
    for value in found:
        if isinstance(value, Missing) and value.why in FAILED:
            yield value, None, None


def list_of_devices(evidence: Evidence) -> Missing | None:
    """Why it is not known which devices there are."""
    if evidence.is_mac:
        verbs = evidence.verbs
        if isinstance(verbs, Missing):
            return verbs
        stopped = verbs.unanswered
        if stopped is None:
            return None
        why = Why.TIMEOUT if stopped.was_killed else Why.MALFORMED
        return Missing(why, f"{stopped.call}: {stopped.end}")
    if isinstance(evidence.sysfs, Missing):
        return evidence.sysfs
    listed = evidence.sysfs.devices
    return listed if isinstance(listed, Missing) and listed.why is not Why.ABSENT else None


def _has_no_device(case: Case) -> bool:
    """On Linux, where no other rule than no-rdma-device is about such a host."""
    if case.devices or case.evidence.is_mac:
        return False
    return list_of_devices(case.evidence) is None


def unread_ports(device: DeviceView) -> list[Missing]:
    """Why its witnesses do not list its ports, of those that do not."""
    witnesses = (device.sysfs, device.nldev, device.verbs)
    return [each.ports for each in witnesses if each and isinstance(each.ports, Missing)]
