"""From a host that is known to be good, what to expect of it and of its like."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from rdmadiag.facts import Missing
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.rdma_drivers import RDMA_MODULE_OF_PCI_DRIVER, SOFTWARE_MODULES
from rdmadiag.preflight.expectations import actual as read
from rdmadiag.preflight.expectations.actual import Actual
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol

Table = dict[str, Any]
"""Key → value as an expectations file has it."""

_DEVICE_KEYS: Final = (
    "ports",
    "driver",
    "firmware",
    "board_id",
    "pci_address",
    "pci_speed",
    "pci_width",
    "numa_node",
)
_LINK_KEYS: Final = ("state", "link_layer", "rate", "width", "mtu", "netdev", "netdev_mtu")
_GID_KEYS: Final = ("gid_index", "gid_type", "gid_family")
_WORTH: Final = frozenset(RDMA_MODULE_OF_PCI_DRIVER.values()) | SOFTWARE_MODULES | {"ib_uverbs"}
"""Modules that a device needs; others come and go as programs use them."""


def derived(devices: Sequence[DeviceView], evidence: Evidence) -> dict[str, Any]:
    """The tables `host` and `device`. What could not be looked at is left out.

    The limit on locked memory is left out too: that of a daemon differs from a shell's.
    """
    tables: dict[str, Table] = {}
    for device in devices:
        table = _values(_DEVICE_KEYS, (read.DEVICE[key](device, evidence) for key in _DEVICE_KEYS))
        tables[_escaped(device.name)] = table
        for port in device.ports:
            own = table if len(device.ports) == 1 else {}
            own |= _port(port, evidence)
            if own and own is not table:
                tables[_escaped(port.name)] = own
    return {"host": _host(devices, evidence), "device": tables}


def _host(devices: Sequence[DeviceView], evidence: Evidence) -> Table:
    keys = ("devices", "active_ports", "modules", "netns_mode")
    table = _values(keys, (read.HOST[key](devices, evidence) for key in keys))
    if modules := [name for name in table.pop("modules", ()) if name in _WORTH]:
        table["modules"] = modules
    return table


def _port(port: PortView, evidence: Evidence) -> Table:
    """Of a port that is not active nothing but its kind is known to be good."""
    if not port.is_active:
        return _values(("link_layer",), [read.PORT["link_layer"](port, evidence)])
    keys = (*_LINK_KEYS, *(_GID_KEYS if _routes_by_gid(port) else ()))
    return _values(keys, (read.PORT[key](port, evidence) for key in keys))


def _routes_by_gid(port: PortView) -> bool:
    return port.protocol in (Protocol.ROCE, Protocol.THUNDERBOLT)


def _values(keys: Iterable[str], found: Iterable[Actual]) -> Table:
    return {
        key: _written(key, actual)
        for key, actual in zip(keys, found, strict=True)
        if actual.value is not None and not isinstance(actual.value, Missing)
    }


def _written(key: str, actual: Actual) -> Any:
    value = actual.value
    if key == "rate":
        return f"{value:g} Gb/sec"
    if key == "width":
        return f"{value}X"
    if key == "pci_speed":
        return f">={value:.1f} GT/s"  # a link saves power by a lower speed, never by a higher
    if isinstance(value, tuple):
        return list(value)
    return value if isinstance(value, int) else _literally(key, str(value))


def _literally(key: str, text: str) -> str:
    return _escaped(text) if key in _PATTERNS else text


def _escaped(text: str) -> str:
    """A name in which no letter is a pattern's."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in text)


_PATTERNS: Final = ("driver", "board_id", "pci_address", "netdev")
