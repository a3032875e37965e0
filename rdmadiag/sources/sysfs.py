"""sysfs: /sys/class/infiniband, infiniband_verbs, net, and PCI.

    mlx5_0/ports/1/state            4: ACTIVE
    mlx5_0/ports/1/gids/3           0000:0000:0000:0000:0000:ffff:c0a8:0105
    mlx5_0/ports/1/gid_attrs/types/3    RoCE v2

Counters are not read: on some hardware a read runs a firmware command and floods the
kernel log (prometheus/node_exporter#3434).
"""

import re
import sys
from collections.abc import Iterable
from typing import Final, TypeVar

from rdmadiag.facts import (
    GidEntry,
    GidTable,
    Missing,
    PciFunction,
    SysfsDevice,
    SysfsFacts,
    SysfsNetDev,
    SysfsPort,
    UverbsEntry,
    Why,
    present,
)
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer, NodeType, PhysState, PortState
from rdmadiag.facts.rdma_drivers import ALWAYS_RDMA_VENDORS, RDMA_MODULE_OF_PCI_DRIVER
from rdmadiag.host import Host
from rdmadiag.late import late
from rdmadiag.sources.text import (
    PCI_ADDRESS,
    attribute,
    malformed,
    parse_number,
    parse_numbered,
    parse_text,
)

CLASS: Final = "/sys/class/infiniband"
VERBS_CLASS: Final = "/sys/class/infiniband_verbs"
NET_CLASS: Final = "/sys/class/net"
PCI_DEVICES: Final = "/sys/bus/pci/devices"

_EMPTY_SLOT: Final = b"0000:0000:0000:0000:0000:0000:0000:0000"
_MOST_SETTINGS: Final = 256
_MOST_GIDS: Final = 4096
"""Rows: InfiniBand's PortInfo has room for 255 blocks of eight, rxe has 1024."""

_GUID: Final = late(r"(0x)?[0-9a-fA-F]{4}(:?[0-9a-fA-F]{4}){3}")
_RATE: Final = late(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)\s*Gb/sec")
_SLOT_NAME: Final = late(r"^PCI_SLOT_NAME=(\S+)$", re.MULTILINE)
_INDEX: Final = late(r"0|[1-9][0-9]{0,8}")
_NETWORK_CLASSES: Final = ("0x02", "0x0c06")  # network controllers; InfiniBand (PCI code and ID)

E = TypeVar("E", PortState, PhysState, NodeType)


def _member(raw: bytes, table: type[E]) -> E | Missing:
    number = parse_numbered(raw)
    if isinstance(number, Missing):
        return number
    member = table.from_number(number)
    return malformed(raw, f"a known {table.__name__}") if member is None else member


def parse_state(raw: bytes) -> PortState | Missing:
    """ports/N/state: "4: ACTIVE"."""
    return _member(raw, PortState)


def parse_phys_state(raw: bytes) -> PhysState | Missing:
    """ports/N/phys_state: "5: LinkUp"."""
    return _member(raw, PhysState)


def parse_node_type(raw: bytes) -> NodeType | Missing:
    """node_type: "1: CA"."""
    return _member(raw, NodeType)


def parse_link_layer(raw: bytes) -> LinkLayer | Missing:
    """ports/N/link_layer: "InfiniBand", "Ethernet"; what else it says is unspecified."""
    text = parse_text(raw)
    if isinstance(text, Missing):
        return text
    words = {"InfiniBand": LinkLayer.INFINIBAND, "Ethernet": LinkLayer.ETHERNET}
    if text in words:
        return words[text]
    if text in ("Unspecified", "Unknown"):  # drivers/infiniband/core/sysfs.c, link_layer_show
        return LinkLayer.UNSPECIFIED
    return malformed(raw, "a link layer")


def parse_rate(raw: bytes) -> float | Missing:
    """ports/N/rate in Gb/s: "2.5 Gb/sec (1X)" → 2.5."""
    match = _RATE.match(raw.decode("latin-1").strip())
    return float(match[1]) if match else malformed(raw, "a rate in Gb/sec")


def parse_guid(raw: bytes) -> str | Missing:
    """node_guid in sysfs's groups: "0002:c903:00e0:1234"."""
    text = raw.decode("latin-1").strip()
    if not _GUID.fullmatch(text):
        return malformed(raw, "a GUID")
    digits = text.lower().removeprefix("0x").replace(":", "")
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


def parse_gid(raw: bytes) -> Gid | Missing:
    """ports/N/gids/I."""
    try:
        return Gid.parse(raw.decode("ascii").strip())
    except (ValueError, UnicodeDecodeError):
        return malformed(raw, "a GID")


def parse_gid_type(raw: bytes, link_layer: LinkLayer | Missing) -> GidType | Missing:
    """gid_attrs/types/I. The kernel prints "IB/RoCE v1" for both; the link layer decides."""
    text = raw.strip()
    if text == b"RoCE v2":
        return GidType.ROCE_V2
    if text == b"IB/RoCE v1":
        if isinstance(link_layer, Missing):
            return Missing(link_layer.why, "IB or RoCE v1: the link layer is not known")
        return GidType.ROCE_V1 if link_layer is LinkLayer.ETHERNET else GidType.IB
    return malformed(raw, "a GID type")


def parse_boolean(raw: bytes) -> bool | Missing:
    """has_smi: "1"."""
    number = parse_number(raw)
    return number if isinstance(number, Missing) else bool(number)


def parse_settings(raw: bytes) -> tuple[str, ...] | Missing:
    """tc/N/traffic_class of NVIDIA's mlx5: "Global tclass=106", then a line for each filter.

    No line: nothing is set.
    """
    text = raw.decode("utf-8", "replace")
    lines = tuple(line.strip() for line in text.split("\n") if line.strip())
    if len(lines) > _MOST_SETTINGS or not all(map(str.isprintable, lines)):
        return malformed(raw, "a few lines of settings")
    return lines


def parse_pci_address(raw: bytes) -> str | Missing:
    """The address in a PCI function's uevent: "PCI_SLOT_NAME=0000:43:00.0"."""
    match = _SLOT_NAME.search(raw.decode("latin-1"))
    if not match or not PCI_ADDRESS.fullmatch(match[1]):
        return malformed(raw, "the uevent of a PCI function")
    return match[1].lower()


def read_sysfs(host: Host) -> SysfsFacts:
    """Everything above. Opens no device node and reads no counter."""
    devices = _devices(host)
    return SysfsFacts(
        devices=devices,
        uverbs=_uverbs(host),
        uverbs_abi=attribute(host, f"{VERBS_CLASS}/abi_version", parse_number),
        netdevs=_netdevs(host, present(devices)),
        candidates=_candidates(host),
    )


def _devices(host: Host) -> tuple[SysfsDevice, ...] | Missing:
    names = host.list(CLASS)
    if isinstance(names, Missing):
        return names
    return tuple(_device(host, name) for name in names if not name.startswith("."))


def _device(host: Host, name: str) -> SysfsDevice:
    folder = f"{CLASS}/{name}"
    return SysfsDevice(
        name=name,
        node_type=attribute(host, f"{folder}/node_type", parse_node_type),
        node_guid=attribute(host, f"{folder}/node_guid", parse_guid),
        sys_image_guid=attribute(host, f"{folder}/sys_image_guid", parse_guid),
        firmware=attribute(host, f"{folder}/fw_ver", parse_text),
        hca_type=attribute(host, f"{folder}/hca_type", parse_text),
        board_id=attribute(host, f"{folder}/board_id", parse_text),
        hw_rev=attribute(host, f"{folder}/hw_rev", parse_text),
        node_desc=attribute(host, f"{folder}/node_desc", parse_text),
        parent=attribute(host, f"{folder}/parent", parse_text),
        pci=_pci_behind(host, f"{folder}/device"),
        ports=_ports(host, folder),
    )


def _numbers(names: Iterable[str]) -> list[int]:
    return sorted(int(name) for name in names if _INDEX.fullmatch(name))


def _ports(host: Host, folder: str) -> tuple[SysfsPort, ...] | Missing:
    names = host.list(f"{folder}/ports")
    if isinstance(names, Missing):
        return names
    return tuple(_port(host, folder, number) for number in _numbers(names))


def _port(host: Host, device: str, number: int) -> SysfsPort:
    folder = f"{device}/ports/{number}"
    link_layer = attribute(host, f"{folder}/link_layer", parse_link_layer)
    rate = attribute(host, f"{folder}/rate", parse_text)
    return SysfsPort(
        number=number,
        state=attribute(host, f"{folder}/state", parse_state),
        phys_state=attribute(host, f"{folder}/phys_state", parse_phys_state),
        rate=rate,
        rate_gbps=rate if isinstance(rate, Missing) else parse_rate(rate.encode()),
        link_layer=link_layer,
        lid=attribute(host, f"{folder}/lid", parse_number),
        lid_mask_count=attribute(host, f"{folder}/lid_mask_count", parse_number),
        sm_lid=attribute(host, f"{folder}/sm_lid", parse_number),
        sm_sl=attribute(host, f"{folder}/sm_sl", parse_number),
        cap_mask=attribute(host, f"{folder}/cap_mask", parse_number),
        has_smi=attribute(host, f"{folder}/has_smi", parse_boolean),
        pkeys=_pkeys(host, f"{folder}/pkeys"),
        gids=_gids(host, folder, link_layer),
        traffic_class=attribute(host, f"{device}/tc/{number}/traffic_class", parse_settings),
        ttl=attribute(host, f"{device}/ttl/{number}/ttl", parse_settings),
    )


def _pkeys(host: Host, folder: str) -> dict[int, int] | Missing:
    names = host.list(folder)
    if isinstance(names, Missing):
        return names
    read = {index: attribute(host, f"{folder}/{index}", parse_number) for index in _numbers(names)}
    found = {i: value for i, value in read.items() if not isinstance(value, Missing)}
    if len(found) < len(read):  # the index that was refused may be the one that counts
        return next(value for value in read.values() if isinstance(value, Missing))
    return {index: value for index, value in found.items() if value != 0}


def _gids(host: Host, folder: str, link_layer: LinkLayer | Missing) -> GidTable | Missing:
    names = host.list(f"{folder}/gids")
    if isinstance(names, Missing):
        return names
    indexes = _numbers(names)
    length = indexes[-1] + 1 if indexes else 0
    if length > _MOST_GIDS:
        problem = f"{folder}/gids: {length} rows, more than any port has"
        return Missing(Why.MALFORMED, problem)
    entries = []
    unreadable = {}
    for index in indexes:
        path = f"{folder}/gids/{index}"
        raw = host.read(path)
        if isinstance(raw, Missing):
            unreadable[index] = raw
            continue
        if raw.rstrip() == _EMPTY_SLOT:
            continue
        gid = parse_gid(raw)
        if isinstance(gid, Missing):
            unreadable[index] = Missing(gid.why, f"{path}: {gid.detail}")
        elif not gid.is_zero:
            entries.append(_gid_entry(host, folder, index, gid, link_layer))
    return GidTable(length=length, entries=tuple(entries), unreadable=unreadable)


def _gid_entry(
    host: Host, folder: str, index: int, gid: Gid, link_layer: LinkLayer | Missing
) -> GidEntry:
    netdev = attribute(host, f"{folder}/gid_attrs/ndevs/{index}", parse_text)
    return GidEntry(
        index=index,
        gid=gid,
        type=attribute(
            host,
            f"{folder}/gid_attrs/types/{index}",
            lambda raw: parse_gid_type(raw, link_layer),
        ),
        netdev=netdev if isinstance(netdev, Missing) else sys.intern(netdev),
    )


def _uverbs(host: Host) -> tuple[UverbsEntry, ...] | Missing:
    names = host.list(VERBS_CLASS)
    if isinstance(names, Missing):
        return names
    return tuple(
        UverbsEntry(
            name=name,
            device=attribute(host, f"{VERBS_CLASS}/{name}/ibdev", parse_text),
            dev=attribute(host, f"{VERBS_CLASS}/{name}/dev", parse_text),
            abi_version=attribute(host, f"{VERBS_CLASS}/{name}/abi_version", parse_number),
            modalias=attribute(host, f"{VERBS_CLASS}/{name}/device/modalias", parse_text),
        )
        for name in names
        if name.startswith("uverbs")
    )


def _netdevs(host: Host, devices: Iterable[SysfsDevice]) -> tuple[SysfsNetDev, ...]:
    names = {
        entry.netdev
        for device in devices
        for port in present(device.ports)
        if not isinstance(port.gids, Missing)
        for entry in port.gids.entries
        if not isinstance(entry.netdev, Missing)
    }
    return tuple(
        SysfsNetDev(
            name=name,
            ifindex=attribute(host, f"{NET_CLASS}/{name}/ifindex", parse_number),
            operstate=attribute(host, f"{NET_CLASS}/{name}/operstate", parse_text),
            mtu=attribute(host, f"{NET_CLASS}/{name}/mtu", parse_number),
            mac=attribute(host, f"{NET_CLASS}/{name}/address", parse_text),
        )
        for name in sorted(names)
        if "/" not in name
    )


def _pci_behind(host: Host, folder: str) -> PciFunction | Missing:
    """The function that the `device` link of an RDMA device leads to."""
    target = host.readlink(folder)
    if not isinstance(target, Missing):
        name = target.rstrip("/").rpartition("/")[2]
        if not PCI_ADDRESS.fullmatch(name):
            return Missing(Why.UNSUPPORTED, f"{folder}: {name} is not a PCI function")
        return _pci_function(host, folder, name.lower())
    # A copied tree may hold a folder where the host has a link.
    address = attribute(host, f"{folder}/uevent", parse_pci_address)
    if isinstance(address, Missing):
        return target if target.why is not Why.UNSUPPORTED else address
    return _pci_function(host, folder, address)


def _pci_function(host: Host, folder: str, address: str) -> PciFunction:
    driver = host.readlink(f"{folder}/driver")
    return PciFunction(
        address=address,
        driver=driver if isinstance(driver, Missing) else driver.rstrip("/").rpartition("/")[2],
        vendor=attribute(host, f"{folder}/vendor", parse_text),
        device=attribute(host, f"{folder}/device", parse_text),
        pci_class=attribute(host, f"{folder}/class", parse_text),
        numa_node=attribute(host, f"{folder}/numa_node", parse_number),
        current_link_speed=attribute(host, f"{folder}/current_link_speed", parse_text),
        current_link_width=attribute(host, f"{folder}/current_link_width", parse_number),
        max_link_speed=attribute(host, f"{folder}/max_link_speed", parse_text),
        max_link_width=attribute(host, f"{folder}/max_link_width", parse_number),
    )


def _candidates(host: Host) -> tuple[PciFunction, ...] | Missing:
    """PCI functions that carry RDMA, or whose driver has an RDMA half."""
    names = host.list(PCI_DEVICES)
    if isinstance(names, Missing):
        return names
    found = []
    for name in names:
        folder = f"{PCI_DEVICES}/{name}"
        pci_class = attribute(host, f"{folder}/class", parse_text)
        if isinstance(pci_class, Missing) or not pci_class.startswith(_NETWORK_CLASSES):
            continue
        function = _pci_function(host, folder, name.lower())
        if (
            pci_class.startswith(("0x0207", "0x0c06"))
            or function.driver in RDMA_MODULE_OF_PCI_DRIVER
            or function.vendor in ALWAYS_RDMA_VENDORS
        ):
            found.append(function)
    return tuple(found)
