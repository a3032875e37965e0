"""How evidence names where a value stood, and prints the value."""

from typing import Any

from rdmadiag.facts import Missing, NetDev
from rdmadiag.preflight.verdict import Proof
from rdmadiag.view.reconcile import PortView


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
    """A file below the port's folder in sysfs."""
    folder = f"/sys/class/infiniband/{port.device}/ports/{port.number}"
    return Proof("sysfs", f"{folder}/{name}", seen(value))


def verbs_answer(port: PortView, name: str, value: Any) -> Proof:
    """A field of what ibv_query_port or ibv_query_gid gave for the port."""
    call = "ibv_query_gid" if name.startswith("gid") else "ibv_query_port"
    return Proof("verbs", f"{call} {port.name}: {name}", seen(value))


def port_state(port: PortView, name: str, value: Any) -> Proof:
    """The file of a port that sysfs shows, else the field of verbs."""
    return (port_attribute if port.sysfs else verbs_answer)(port, name, value)
