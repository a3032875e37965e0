"""How evidence names where a value stood, and prints the value."""

from typing import Any, Final

from rdmadiag.facts import Missing, NetDev
from rdmadiag.preflight.verdict import Proof
from rdmadiag.view.reconcile import DeviceView, PortView


def seen(value: Any) -> str:
    """A value as evidence prints it: the number beside an enum's word, or why it is missing."""
    if isinstance(value, Missing):
        return str(value)
    number = getattr(value, "number", None)
    return str(value) if number is None else f"{number}: {value}"


def netdev_text(netdev: NetDev) -> str:
    """Whether a netdev is up, in every sense."""
    admin = "up" if netdev.admin_up else "down"
    return f"{seen(netdev.operstate)}, administratively {admin}, carrier {seen(netdev.carrier)}"


def port_attribute(port: PortView, name: str, value: Any) -> Proof:
    """A file below the port's folder in sysfs; where sysfs does not show it, verbs or nldev."""
    if port.sysfs is None:
        if port.verbs is None and port.nldev:
            attribute = _NLDEV.get(name, name.upper())
            return Proof("nldev", f"RDMA_NLDEV_ATTR_{attribute} of {port.name}", seen(value))
        return verbs_answer(port, name, value)
    folder = f"/sys/class/infiniband/{port.device}/ports/{port.number}"
    return Proof("sysfs", f"{folder}/{name}", seen(value))


def device_attribute(device: DeviceView, name: str, value: str) -> Proof:
    """A file of a device in sysfs, or the same of the witness that shows it."""
    if device.sysfs:
        folder = "/sys/class/infiniband"
        return Proof("sysfs", folder if name == "name" else f"{folder}/{device.name}/{name}", value)
    if device.nldev:
        return Proof("nldev", f"RDMA_NLDEV_CMD_GET of {device.name}: {name}", value)
    return Proof("verbs", f"ibv_query_device {device.name}: {name}", value)


_NLDEV: Final = {"state": "PORT_STATE", "phys_state": "PORT_PHYS_STATE"}


def verbs_answer(port: PortView, name: str, value: Any) -> Proof:
    """A field of what ibv_query_port or ibv_query_gid gave for the port."""
    call = "ibv_query_gid" if name.startswith("gid") else "ibv_query_port"
    return Proof("verbs", f"{call} {port.name}: {name}", seen(value))
