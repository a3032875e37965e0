"""Why a port or a device is not shown, where it is not known that there is none."""

from collections.abc import Iterable

from rdmadiag.facts import Missing
from rdmadiag.facts.evidence import Evidence
from rdmadiag.view.reconcile import DeviceView


def why_unknown(evidence: Evidence) -> str | None:
    """Why it is not known whether there is a port; None where it is known that there is none."""
    source, name = evidence.sysfs, "sysfs"
    if evidence.is_mac:
        source, name = evidence.verbs, "verbs"  # type: ignore[assignment]
    if isinstance(source, Missing):
        return f"{name} {source}"
    if not isinstance(evidence.verbs, Missing) and (stopped := evidence.verbs.unanswered):
        return f"{stopped.call} did not return ({stopped.end})"
    return None


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
