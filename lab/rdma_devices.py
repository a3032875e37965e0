"""RDMA devices of a described host, as sysfs has them."""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lab import counted
from lab.hardware import Answers
from rdmadiag.facts import Missing
from rdmadiag.facts.gid import Family, Gid
from rdmadiag.facts.ib import DriverId, LinkLayer, PhysState, PortState
from rdmadiag.host import netlink

EMPTY_ROW = "0000:0000:0000:0000:0000:0000:0000:0000\n"


V1, V2 = "IB/RoCE v1", "RoCE v2"


_STATE_WORD = {
    PortState.DOWN: "DOWN",
    PortState.INIT: "INIT",
    PortState.ARMED: "ARMED",
    PortState.ACTIVE: "ACTIVE",
}


_PHYS_WORD = {
    PhysState.SLEEP: "Sleep",
    PhysState.POLLING: "Polling",
    PhysState.DISABLED: "Disabled",
    PhysState.TRAINING: "PortConfigurationTraining",
    PhysState.LINK_UP: "LinkUp",
}


_LAYER_WORD = {LinkLayer.INFINIBAND: "InfiniBand", LinkLayer.ETHERNET: "Ethernet"}


@dataclass(frozen=True)
class GidRow:
    """A row that is not empty."""

    gid: str
    kind: str = V2
    netdev: str | None = None


@dataclass(frozen=True)
class Port:
    """A port; without a netdev it has no nldev NDEV attributes."""

    state: PortState = PortState.ACTIVE
    phys: PhysState = PhysState.LINK_UP
    layer: LinkLayer | None = LinkLayer.ETHERNET
    rate: str = "100 Gb/sec (4X EDR)"
    lid: int = 0
    sm_lid: int = 0
    gids: Mapping[int, GidRow] = field(default_factory=dict)
    gid_table_length: int = 16
    netdev: str | None = None
    nldev_state: PortState | None = None  # where nldev says something else
    pkeys: tuple[int, ...] = (0xFFFF,)
    active_mtu: int = 4096
    counters: Mapping[str, int] | None = None  # counters/; None: no such folder
    hw_counters: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Vf:
    """A virtual function, as rtnl_fill_vfinfo of net/core/rtnetlink.c says it; linux/if_link.h."""

    address: str = "0000:08:00.2"
    guid: int | None = 0x0C42A10300000099  # of node and port; None: the driver has none
    link: int = 0  # auto
    trust: int = 0xFFFFFFFF  # -1: the driver does not say
    vlan: int = 0

    def info(self, number: int) -> bytes:
        """IFLA_VF_INFO."""
        mac = bytes.fromhex("0200000000") + bytes([number & 0xFF])
        rows = [
            (1, struct.pack("=I32s", number, mac)),
            (2, struct.pack("=3I", number, self.vlan, 0)),
        ]
        rows += [(4, struct.pack("=2I", number, 1)), (5, struct.pack("=2I", number, self.link))]
        rows.append((9, struct.pack("=2I", number, self.trust)))
        for kind in (10, 11) if self.guid is not None else ():
            rows.append((kind, struct.pack("=I4xQ", number, self.guid or 0)))
        return netlink.attribute(1, b"".join(netlink.attribute(*row) for row in rows))


def vf_reply(netdev: str, vfs: Iterable[Vf]) -> bytes:
    """RTM_NEWLINK of one netdev with IFLA_VFINFO_LIST."""
    rows = b"".join(each.info(number) for number, each in enumerate(vfs))
    named = netlink.attribute(3, f"{netdev}\0".encode())
    return netlink.request(16, 0, bytes(16) + named + netlink.attribute(22, rows))


@dataclass(frozen=True)
class Device:
    """An RDMA device behind a PCI function."""

    name: str
    ports: tuple[Port, ...]
    driver: DriverId = DriverId.MLX5
    pci_driver: str = "mlx5_core"
    pci_address: str = "0000:08:00.0"
    pci_ids: tuple[str, str, str] = ("0x15b3", "0x101d", "0x020000")
    node_type: str = "1: CA"
    node_guid: str = "0c42:a103:0000:0001"
    firmware: str = "22.31.1014"
    hca_type: str = "MT4125"
    board_id: str = "MT_0000000359"
    numa_node: int = 0
    link: tuple[str, str] = ("16.0 GT/s PCIe", "16")
    slot: tuple[str, str] = ("16.0 GT/s PCIe", "16")  # what the bridge above it can do
    root: str = "pci0000:00"
    bridge: str = "0000:00:01.0"
    switch: tuple[str, ...] = ()  # between that bridge and the function
    sys_image_guid: str | None = None  # None: the node GUID
    local_cpus: str = "0-15"
    iommu_domain: str | None = "identity"
    protocol: str = "roce"
    uverbs: int | None = 0  # the N of uverbsN
    abi_version: int = 1
    parent: str | None = None  # the netdev of a software device, which has no PCI function
    held: tuple[counted.Held, ...] | None = None  # tracked objects; None: nobody asked
    index: int | None = None  # DEV_INDEX; None: its place in the list
    vfs: tuple[Vf, ...] | Missing = ()  # of a physical function; Missing: what it answers
    physfn: str | None = None  # the physical function of a virtual one
    smi_of: str | None = None  # the device of which it is a plane, for subnet management
    answers: Answers | None = None  # of the verbs library; None: those of its hca_type


def device_files(device: Device) -> dict[str, str]:
    """Every attribute of it and of its PCI function: path → content."""
    folder = f"/sys/class/infiniband/{device.name}"
    files = {
        f"{folder}/node_type": f"{device.node_type}\n",
        f"{folder}/node_guid": f"{device.node_guid}\n",
        f"{folder}/sys_image_guid": f"{device.sys_image_guid or device.node_guid}\n",
        f"{folder}/fw_ver": f"{device.firmware}\n",
        f"{folder}/hca_type": f"{device.hca_type}\n",
        f"{folder}/board_id": f"{device.board_id}\n",
        f"{folder}/hw_rev": "0\n",
        f"{folder}/node_desc": f"{device.name} HCA\n",
    }
    if device.parent:
        files[f"{folder}/parent"] = f"{device.parent}\n"
        return files | _verbs_files(device) | _ports_files(device)
    vendor, ids, pci_class = device.pci_ids
    for path in (f"{folder}/device", f"/sys/bus/pci/devices/{device.pci_address}"):
        files |= {
            f"{path}/vendor": f"{vendor}\n",
            f"{path}/device": f"{ids}\n",
            f"{path}/class": f"{pci_class}\n",
            f"{path}/numa_node": f"{device.numa_node}\n",
            f"{path}/current_link_speed": f"{device.link[0]}\n",
            f"{path}/current_link_width": f"{device.link[1]}\n",
            f"{path}/max_link_speed": "16.0 GT/s PCIe\n",
            f"{path}/max_link_width": "16\n",
            f"{path}/uevent": f"DRIVER={device.pci_driver}\nPCI_SLOT_NAME={device.pci_address}\n",
        }
    function = f"/sys/bus/pci/devices/{device.pci_address}"
    files[f"{function}/local_cpulist"] = f"{device.local_cpus}\n"
    if device.iommu_domain:
        files[f"{function}/iommu_group/type"] = f"{device.iommu_domain}\n"
    bridge = f"/sys/bus/pci/devices/{device.bridge}"
    files[f"{bridge}/max_link_speed"] = f"{device.slot[0]}\n"
    files[f"{bridge}/max_link_width"] = f"{device.slot[1]}\n"
    return files | _verbs_files(device) | _ports_files(device)


def _verbs_files(device: Device) -> dict[str, str]:
    if device.uverbs is None:
        return {}
    verbs = f"/sys/class/infiniband_verbs/uverbs{device.uverbs}"
    files = {
        f"{verbs}/ibdev": f"{device.name}\n",
        f"{verbs}/dev": f"231:{192 + device.uverbs}\n",
        f"{verbs}/abi_version": f"{device.abi_version}\n",
    }
    if not device.parent:
        vendor, ids, pci_class = (each.removeprefix("0x").upper() for each in device.pci_ids)
        alias = f"pci:v0000{vendor}d0000{ids}sv0000{vendor}sd00000000bc{pci_class[:2]}"
        files[f"{verbs}/device/modalias"] = f"{alias}sc{pci_class[2:4]}i{pci_class[4:]}\n"
    return files


def _ports_files(device: Device) -> dict[str, str]:
    files: dict[str, str] = {}
    for number, port in enumerate(device.ports, 1):
        files |= _port_files(f"/sys/class/infiniband/{device.name}/ports/{number}", port)
    return files


def _port_files(folder: str, port: Port) -> dict[str, str]:
    files = {
        f"{folder}/state": f"{port.state.number}: {_STATE_WORD[port.state]}\n",
        f"{folder}/phys_state": f"{port.phys.number}: {_PHYS_WORD[port.phys]}\n",
        f"{folder}/rate": f"{port.rate}\n",
        f"{folder}/lid": f"{port.lid:#x}\n",
        f"{folder}/lid_mask_count": "0\n",
        f"{folder}/sm_lid": f"{port.sm_lid:#x}\n",
        f"{folder}/sm_sl": "0\n",
        f"{folder}/cap_mask": "0x04010000\n",
        f"{folder}/has_smi": f"{int(port.layer is LinkLayer.INFINIBAND)}\n",
    }
    files |= {f"{folder}/pkeys/{at}": f"{key:#06x}\n" for at, key in enumerate(port.pkeys)}
    if port.layer is not None:
        files[f"{folder}/link_layer"] = f"{_LAYER_WORD[port.layer]}\n"
    files |= counted.counter_files(folder, port.counters, "counters")
    files |= counted.counter_files(folder, port.hw_counters, "hw_counters")
    for index in range(port.gid_table_length):
        row = port.gids.get(index)
        files[f"{folder}/gids/{index}"] = f"{Gid.parse(row.gid).groups}\n" if row else EMPTY_ROW
        if row:
            files[f"{folder}/gid_attrs/types/{index}"] = f"{row.kind}\n"
            if row.netdev:
                files[f"{folder}/gid_attrs/ndevs/{index}"] = f"{row.netdev}\n"
    return files


def roce_rows(netdev: str, mac: str, *addresses: str) -> dict[int, GidRow]:
    """The table that mlx5 shows: the default GID and each address, as v1 and v2 twins."""
    octets = [int(each, 16) for each in mac.split(":")]
    tail = bytes([octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]])
    gids = [str(Gid(b"\xfe\x80" + bytes(6) + tail))]
    gids += [f"::ffff:{each}" if ":" not in each else each for each in addresses]
    rows = [GidRow(gid, kind, netdev) for gid in gids for kind in (V1, V2)]
    assert all(Gid.parse(row.gid).family in Family for row in rows)
    return dict(enumerate(rows))
