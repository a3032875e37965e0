"""Why a port or a device is not shown, where it is not known that there is none."""

from collections.abc import Iterable, Mapping
from typing import Final

from rdmadiag.facts import NOT_IN_RECORD, Missing, Why
from rdmadiag.facts.evidence import LINUX_ONLY, MACOS_ONLY, NOT_COLLECTED, Evidence
from rdmadiag.view.reconcile import DeviceView


def why_unknown(evidence: Evidence) -> str | None:
    """Why it is not known whether there is a port; None where it is known that there is none."""
    missing = evidence.missing
    name = "verbs" if evidence.is_mac else "sysfs"
    listed = missing.get(name)
    if listed and not (listed.why is Why.ABSENT and not isinstance(evidence.sysfs, Missing)):
        return f"{name} {listed}"
    if not isinstance(evidence.verbs, Missing) and (stopped := evidence.verbs.unanswered):
        return f"{stopped.call} did not return ({stopped.end})"
    return None


def unread_sources(evidence: Evidence) -> dict[str, Missing]:
    """The sources of this system that gave nothing, or not all: what is missing may be theirs.

    Not those that the command does not read.
    """
    foreign = (LINUX_ONLY, MACOS_ONLY, NOT_COLLECTED, NOT_IN_RECORD)
    found = {name: why for name, why in evidence.missing.items() if why not in foreign}
    if not isinstance(evidence.verbs, Missing) and (stopped := evidence.verbs.unanswered):
        why = Why.TIMEOUT if stopped.was_killed else Why.MALFORMED
        found["verbs"] = Missing(why, f"{stopped.call}: {stopped.end}")
    return found


def is_without_devices(missing: Mapping[str, Missing]) -> bool:
    """Whether, by the sources that gave nothing, the kernel has no class of RDMA devices."""
    sysfs = missing.get("sysfs")
    return sysfs is not None and sysfs.why is Why.ABSENT


FAILED: Final = (Why.TIMEOUT, Why.DENIED, Why.MALFORMED, Why.EXHAUSTED)
"""Why something could not be read that may be there; the others are how a host is (absent,
unsupported), or what was chosen (not collected).
"""


def without_ports(devices: Iterable[DeviceView], evidence: Evidence) -> dict[str, str]:
    """The devices of which no port can be shown, and one phrase each that says why."""
    return {
        device.name: (
            f"no port can be read: {device.sysfs.ports or 'the folder is empty'}"
            if device.sysfs
            else _unanswered(device, evidence)
        )
        for device in devices
        if not device.ports
    }


def _unanswered(device: DeviceView, evidence: Evidence) -> str:
    stopped = None if isinstance(evidence.verbs, Missing) else evidence.verbs.unanswered
    if stopped:
        whose = f" of {stopped.device}" if stopped.device else ""
        return f"no port can be read: {stopped.call}{whose} did not return"
    if device.verbs is None:
        return "no port can be read: the verbs library does not list the device"
    return f"no port can be read: {device.verbs.ports or 'it shows none'}"
