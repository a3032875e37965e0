"""What a host is, key by key, in the terms of an expectations file."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.evidence import NOT_ON_MACOS, Evidence
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.frozen import dataclass
from rdmadiag.gid.route import Route
from rdmadiag.preflight.expectations.keys import version
from rdmadiag.preflight.proofs import port_attribute, seen, verbs_answer
from rdmadiag.preflight.verdict import Proof
from rdmadiag.view.reconcile import DeviceView, PortView
from rdmadiag.view.unshown import why_unknown


@dataclass(frozen=True, slots=True)
class Actual:
    """A value that was seen."""

    value: Any  # of the kind that `Key.read` makes; Missing: could not be looked at
    text: str
    proof: Proof


def _actual(value: Any, proof: Proof, text: str | None = None) -> Actual:
    return Actual(value, text if text is not None else str(value), proof)


# --- the host ---------------------------------------------------------------------------------


def _devices(every: Sequence[DeviceView], evidence: Evidence) -> Actual:
    names = " ".join(device.name for device in every)
    proof = list_of_devices(evidence, names or "empty")
    return _actual(_unless_unknown(len(every), evidence), proof)


def _active_ports(every: Sequence[DeviceView], evidence: Evidence) -> Actual:
    ports = [port for device in every for port in device.ports]
    active = [port.name for port in ports if port.is_active]
    others = [f"{port.name} {seen(port.state)}" for port in ports if not port.is_active]
    value: int | Missing = len(active)
    unread = [port for port in ports if not port.states]
    if unread:
        value = Missing(Why.NOT_COLLECTED, f"the state of {unread[0].name} could not be read")
    shown = ", ".join([f"{' '.join(active) or 'no port'} active", *others])
    value = unknown_ports(every) or value
    proof = Proof("sysfs", "/sys/class/infiniband/*/ports/*/state", shown)
    if evidence.is_mac:
        proof = Proof("verbs", "ibv_query_port of each: state", shown)
    return _actual(_unless_unknown(value, evidence), proof, str(len(active)))


def _unless_unknown(value: int | Missing, evidence: Evidence) -> int | Missing:
    unknown = unknown_devices(evidence)
    return unknown if unknown and not isinstance(value, Missing) else value


def unknown_ports(devices: Iterable[DeviceView]) -> Missing | None:
    """Why it is not known which ports there are, of the first device of which it is not."""
    for device in devices:
        witnesses = (device.sysfs, device.nldev, device.verbs)
        unread = [each.ports for each in witnesses if each and isinstance(each.ports, Missing)]
        if unread and not device.ports:
            return unread[0]
    return None


def list_of_devices(evidence: Evidence, value: str) -> Proof:
    """Where devices are listed: sysfs, or on a Mac verbs."""
    if evidence.is_mac:
        return Proof("verbs", "ibv_get_device_list", value)
    return Proof("sysfs", "/sys/class/infiniband", value)


def unknown_devices(evidence: Evidence) -> Missing | None:
    """Why it is not known which devices there are; None where sysfs, or on a Mac verbs, lists them.

    A provider that hangs on Linux takes nothing from what sysfs lists.
    """
    if isinstance(evidence.sysfs, Missing):
        why = why_unknown(evidence)
        return Missing(Why.NOT_COLLECTED, why) if why else None
    devices = evidence.sysfs.devices
    if isinstance(devices, Missing) and devices.why is not Why.ABSENT:
        return devices
    return None


def _memlock(every: Sequence[DeviceView], evidence: Evidence) -> Actual:
    system, process = evidence.system, evidence.process
    if not isinstance(system, Missing) and system.asked_pid is not None:
        first = next(present(system.ancestors), None)
        limit = first.memlock if first else Missing(Why.ABSENT, f"no process {system.asked_pid}")
        subject = f"/proc/{system.asked_pid}/limits: Max locked memory"
        source = "system"
    else:
        limit = process if isinstance(process, Missing) else process.memlock
        subject, source = "/proc/self/limits: Max locked memory", "process"
    if isinstance(limit, Missing):
        return _actual(limit, Proof(source, subject, str(limit)))
    soft = limit.soft
    value = float("inf") if soft == "unlimited" else soft
    return _actual(value, Proof(source, subject, f"soft {soft}, hard {limit.hard}"), str(soft))


def _modules(every: Sequence[DeviceView], evidence: Evidence) -> Actual:
    process = evidence.process
    modules = process if isinstance(process, Missing) else process.modules
    text = str(modules) if isinstance(modules, Missing) else " ".join(modules)
    return _actual(modules, Proof("process", "/proc/modules", text or "no RDMA module"), text)


def _netns_mode(every: Sequence[DeviceView], evidence: Evidence) -> Actual:
    nldev = evidence.nldev
    mode = nldev if isinstance(nldev, Missing) else nldev.netns_mode
    return _actual(mode, Proof("nldev", "RDMA_NLDEV_SYS_ATTR_NETNS_MODE", seen(mode)))


# --- a device ---------------------------------------------------------------------------------

_NO_SYSFS: Final = Missing(Why.ABSENT, "sysfs does not show it")


def _of_sysfs(name: str, file: str) -> Callable[[DeviceView, Evidence], Actual]:
    def read(device: DeviceView, evidence: Evidence) -> Actual:
        witness: Any = device.sysfs or (device.verbs if name == "firmware" else None)
        nothing = NOT_ON_MACOS if evidence.is_mac else _NO_SYSFS
        value = getattr(witness, name) if witness else nothing
        return _actual(value, _of_file(device, file, value, evidence))

    return read


def _of_file(device: DeviceView, file: str, value: Any, evidence: Evidence) -> Proof:
    """A file of the device; on a Mac, which has none, the query that stands for it."""
    if evidence.is_mac:
        return Proof("verbs", f"ibv_query_device {device.name}: {file}", str(value))
    return Proof("sysfs", f"/sys/class/infiniband/{device.name}/{file}", str(value))


def _of_pci(name: str, file: str, kind: Callable[[Any], Any]) -> Callable[..., Actual]:
    def read(device: DeviceView, evidence: Evidence) -> Actual:
        value = device.pci if isinstance(device.pci, Missing) else getattr(device.pci, name)
        proof = _of_file(device, f"device/{file}", value, evidence)
        return _actual(value if isinstance(value, Missing) else kind(value), proof, str(value))

    return read


def _ports(device: DeviceView, evidence: Evidence) -> Actual:
    numbers = " ".join(str(port.number) for port in device.ports)
    value = unknown_ports([device]) or len(device.ports)
    proof = Proof("sysfs", f"/sys/class/infiniband/{device.name}/ports", numbers or str(value))
    if evidence.is_mac:
        proof = Proof("verbs", f"ibv_query_port {device.name}", numbers or str(value))
    return _actual(value, proof)


def _driver(device: DeviceView, evidence: Evidence) -> Actual:
    value = device.driver if isinstance(device.driver, Missing) else str(device.driver)
    return _actual(value, _of_file(device, "device/driver", value, evidence))


def _speed(text: str) -> float | Missing:
    match = re.match(r"([0-9]{1,3}(?:\.[0-9])?) GT/s", text)
    return float(match[1]) if match else Missing(Why.ABSENT, f"the link's speed is {text!r}")


# --- a port -----------------------------------------------------------------------------------


def _state(port: PortView, evidence: Evidence) -> Actual:
    """What all witnesses agree on; of those that differ, one that is not active."""
    states = sorted(port.states.values(), key=lambda each: each == "active")
    value = states[0] if states else port.state
    return _actual(value, port_attribute(port, "state", value))


def _link_layer(port: PortView, evidence: Evidence) -> Actual:
    value = port.link_layer
    if value is LinkLayer.UNSPECIFIED:
        value = Missing(Why.ABSENT, "the port names none")
    return _actual(value, port_attribute(port, "link_layer", value))


def _rate(port: PortView, evidence: Evidence) -> Actual:
    return _actual(port.rate_gbps, port_attribute(port, "rate", port.rate), str(port.rate))


def _width(port: PortView, evidence: Evidence) -> Actual:
    value = port.width
    text = str(value) if isinstance(value, Missing) else f"{value}X"
    return _actual(value, port_attribute(port, "rate", port.rate), text)


def _mtu(port: PortView, evidence: Evidence) -> Actual:
    verbs = evidence.verbs
    if port.verbs:
        value = port.verbs.active_mtu
    else:
        value = (
            verbs if isinstance(verbs, Missing) else Missing(Why.ABSENT, "verbs does not show it")
        )
    return _actual(value, verbs_answer(port, "active_mtu", value))


def _netdev(port: PortView, evidence: Evidence) -> Actual:
    value = port.netdev
    return _actual(value, Proof("nldev", f"{port.name} NDEV_NAME", str(value)))


def _netdev_mtu(port: PortView, evidence: Evidence) -> Actual:
    name = port.netdev
    value: Any = name
    if not isinstance(name, Missing):
        value = _mtu_of(name, evidence)
    return _actual(value, Proof("netdev", f"{name} IFLA_MTU", str(value)))


def _mtu_of(name: str, evidence: Evidence) -> int | Missing:
    source, mac = evidence.netdev, evidence.mac_network
    if not isinstance(source, Missing):
        found = source.netdev(name)
        return found.mtu if found else Missing(Why.ABSENT, f"no netdev {name} here")
    if not isinstance(mac, Missing):
        rows = {each.name: each.mtu for each in present(mac.interfaces)}
        return rows.get(name, Missing(Why.ABSENT, f"no interface {name}"))
    return source


def _gid(port: PortView, name: str) -> Actual:
    """A field of the route's row; None where the table was read and has no route."""
    value: Any = None
    if isinstance(port.gids, Missing):
        value = port.gids
    elif isinstance(port.route, Route):
        entry = port.route_entry
        of = {"index": port.route.index, "family": port.route.gid.family}
        value = of.get(name, entry and entry.type)
    text = f"none: {port.route.reason}" if value is None else str(value)
    return _actual(value, Proof("sysfs", f"{port.name} route GID: {name}", text), text)


def _of_gid(name: str) -> Callable[[PortView, Evidence], Actual]:
    return lambda port, evidence: _gid(port, name)


HOST: Final[dict[str, Callable[[Sequence[DeviceView], Evidence], Actual]]] = {
    "devices": _devices,
    "active_ports": _active_ports,
    "memlock": _memlock,
    "modules": _modules,
    "netns_mode": _netns_mode,
}
DEVICE: Final[dict[str, Callable[[DeviceView, Evidence], Actual]]] = {
    "ports": _ports,
    "driver": _driver,
    "firmware": _of_sysfs("firmware", "fw_ver"),
    "board_id": _of_sysfs("board_id", "board_id"),
    "pci_address": _of_pci("address", "", str),
    "pci_speed": _of_pci("current_link_speed", "current_link_speed", _speed),
    "pci_width": _of_pci("current_link_width", "current_link_width", int),
    "numa_node": _of_pci("numa_node", "numa_node", int),
}
PORT: Final[dict[str, Callable[[PortView, Evidence], Actual]]] = {
    "state": _state,
    "link_layer": _link_layer,
    "rate": _rate,
    "width": _width,
    "mtu": _mtu,
    "netdev": _netdev,
    "netdev_mtu": _netdev_mtu,
    "gid_index": _of_gid("index"),
    "gid_type": _of_gid("type"),
    "gid_family": _of_gid("family"),
}
"""Key → how its value is read, for each scope; `count` is the pattern's own."""


def comparable(key: str, actual: Any, wanted: Any) -> Any:
    """`actual` as `wanted` is compared with it: a version beside a version."""
    if key == "firmware" and isinstance(wanted, tuple) and isinstance(actual, str):
        return version(actual) or Missing(Why.MALFORMED, f"{actual!r} is no version to compare")
    return actual
