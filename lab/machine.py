"""A machine written down from a description, in the formats that kernels document.

For samples of hardware that cannot be had here, for tests that change one thing of a
healthy base, and for benchmarks of large hosts. Formats: Documentation/ABI/stable/
sysfs-class-infiniband, rdma/rdma_netlink.h, linux/rtnetlink.h, proc(5).
"""

import re
import stat
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from errno import EACCES
from typing import Any, Self

from lab import counted
from lab.gpus import Card, Gpu, card_files, record_gpus
from lab.hardware import ANSWERS
from lab.limits import Limits
from lab.linked import Devlink, Ethtool
from lab.netdevs import Dcb, NetDev, address_rows, link_message
from lab.nldev_replies import nldev_replies
from lab.pci import Space, bridge, contents, gpu
from lab.rdma_devices import V1, V2, Device, Port, device_files, roce_rows, vf_reply
from lab.routing import (
    DEFAULT_LABELS,
    DEFAULT_RULES,
    Rule,
    Way,
    encoded_label,
    encoded_neighbour,
    encoded_rule,
    encoded_way,
    own_ways,
)
from lab.transceivers import Fitted
from lab.transcript import Gids, Stop, TranscribedDevice, TranscribedPort, transcript
from rdmadiag.facts import Identity, Missing, Why
from rdmadiag.facts.environment import kept
from rdmadiag.facts.evidence import LINUX_SOURCES, Evidence
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import MTU_BYTES, GidType, LinkLayer, NodeType
from rdmadiag.facts.rdma_drivers import PROVIDER_FOLDER
from rdmadiag.gid.variables import REPORTED
from rdmadiag.host.answers import NodeStat
from rdmadiag.host.layout import KERNEL, TRANSCRIPT
from rdmadiag.host.recorded import SnapshotHost
from rdmadiag.host.recording import Recording, documents, write_folder
from rdmadiag.host.tree import Kind
from rdmadiag.sources.run import read

_PROVIDERS = ("bnxt_re", "mlx4", "mlx5", "irdma", "rxe", "siw", "efa", "hfi1verbs")
UNSUPPORTED = Missing(Why.UNSUPPORTED, "EOPNOTSUPP")

_MTU = {size: number for number, size in MTU_BYTES.items()}
_GID_TYPE = {V1: GidType.ROCE_V1, V2: GidType.ROCE_V2}


@dataclass(frozen=True)
class Machine:
    """A whole host."""

    hostname: str
    devices: tuple[Device, ...] = ()
    netdevs: tuple[NetDev, ...] = ()
    memlock: str = "unlimited"
    uid: int = 0
    capabilities: int = 0x1FFFFFFFFFF
    container: str | None = None
    modules: tuple[str, ...] = ("ib_core", "ib_uverbs", "mlx5_ib", "rdma_cm", "rdma_ucm")
    nodes: Mapping[str, int] | None = None  # name → mode; None: one 0666 node a uverbs entry
    openable: bool = True
    libraries: bool = True
    configured: tuple[str, ...] | None = None  # of /etc/libibverbs.d; None: each that is there
    environ: Mapping[str, str] = field(default_factory=dict)
    ancestors: tuple[tuple[str, str], ...] = (("bash", "unlimited"), ("systemd", "8388608"))
    cpus_allowed: str = "0-31"
    mems_allowed: str = "0-1"
    cpus_online: str = "0-31"
    command_line: str = "BOOT_IMAGE=/boot/vmlinuz root=/dev/vda1 ro quiet"
    kernel: str = "6.1.0"
    gpu: Gpu | None = None
    cards: tuple[Card, ...] = ()
    arp_ignore: int = 0  # of conf/all
    rp_filter: int = 0  # of conf/all
    arp_filter: int | None = None  # of conf/all; None: a record from before
    default_ttl: int | None = None  # the same
    ways: tuple[Way, ...] = ()  # beside those of the addresses
    rules: tuple[Rule, ...] | None = DEFAULT_RULES  # None: nobody asked for rules and routes
    # replies to RTM_GETQDISC and RTM_GETTFILTER, and other ones, by their name in a record
    traffic: Mapping[str, bytes] = field(default_factory=dict)
    # netdev, address → state, or state and MAC
    neighbours: Mapping[tuple[str, str], int | tuple[int, str] | tuple[int, str, float]] = field(
        default_factory=dict
    )
    address_labels: tuple[tuple[str, int], ...] = DEFAULT_LABELS
    roce_modes: Mapping[str, str] = field(default_factory=dict)  # "mlx5_0/1": "RoCE v2"
    roce_tos: Mapping[str, int] = field(default_factory=dict)  # "mlx5_0/1": 104
    dcb: Mapping[str, Dcb | Missing] | None = None  # by netdev; None: nobody asked
    ethtool: Mapping[str, Ethtool | Missing] | None = None  # the same
    fitted: Mapping[str, Fitted] | None = None  # the transceivers: the same
    devlink: Mapping[str, Devlink | Missing] | None = None  # by PCI address
    pci: Mapping[str, Space | bytes] | None = None  # by address; None: that of `with_pci`
    groups: Mapping[str, str] = field(default_factory=dict)  # IOMMU groups; of others the address
    cpu: str = "cpu:type:x86,ven0000fam0006mod008F:feature:,0000"  # Sapphire Rapids
    port_mapper: bool = False
    netns_mode: int | None = 1  # None: a kernel that does not tell it
    kernel_log: tuple[str, ...] | Missing = ()  # messages; a second apart
    verbs_stderr: str = ""
    rejected: tuple[str, ...] = ()  # devices that libibverbs does not list
    boot_id: str | None = None  # None: nobody asked for counters
    uptime: float = 1000.0
    limits: Limits | None = None  # None: nobody read them
    commands: Mapping[int, str] = field(default_factory=dict)  # /proc/PID/comm
    files: Mapping[str, str] = field(default_factory=dict)  # more of them, by their path

    def change(self, **changes: Any) -> Self:
        """The same machine but for `changes`."""
        return replace(self, **changes)

    def with_port(self, device: int = 0, port: int = 0, **changes: Any) -> Self:
        """The same machine, one port changed."""
        devices = list(self.devices)
        ports = list(devices[device].ports)
        ports[port] = replace(ports[port], **changes)
        devices[device] = replace(devices[device], ports=tuple(ports))
        return replace(self, devices=tuple(devices))

    def with_pci(self, **changes: Space | bytes) -> Self:
        """The same machine, all of whose functions and bridges have configuration space.

        `changes` are by "adapter", "gpu", "bridge", or by address with "_" for ":" and ".".
        """
        kinds: dict[str, Space | bytes] = {"adapter": Space(), "gpu": gpu(), "bridge": bridge()}
        kinds |= changes
        found: dict[str, Space | bytes] = {}
        for device in self.devices:
            if device.parent:
                continue
            above = (device.bridge, *device.switch)
            found |= dict.fromkeys(above, kinds["bridge"]) | {device.pci_address: kinds["adapter"]}
        for card in self.cards:
            found |= dict.fromkeys(card.bridges, kinds["bridge"]) | {card.address: kinds["gpu"]}
        for address in found:
            found[address] = kinds.get("_" + re.sub("[:.]", "_", address), found[address])
        return replace(self, pci=found)

    def with_device(self, device: int = 0, **changes: Any) -> Self:
        """The same machine, one device changed."""
        devices = list(self.devices)
        devices[device] = replace(devices[device], **changes)
        return replace(self, devices=tuple(devices))

    def identity(self) -> Identity:
        """uname of the machine."""
        return Identity(hostname=self.hostname, platform="linux", kernel="6.1.0", machine="x86_64")

    def write(self, folder: str, about: str) -> None:
        """The machine as a snapshot folder."""
        files = self.snapshot() | {"ABOUT": f"{about.strip()}\n".encode()}
        write_folder(files, folder)

    def snapshot(self) -> dict[str, bytes]:
        """The machine as the files of a snapshot."""
        return documents(self.recording(), self.identity(), {}, recorded_at="never: built")

    def write_sysfs(self, folder: str) -> None:
        """sysfs alone, as a bare folder: every file in its place, nothing folded."""
        write_folder(
            {path[1:]: content.encode() for path, content in self.sysfs_files().items()}, folder
        )

    def host(self) -> SnapshotHost:
        """The machine as a Host, without a file being written."""
        return SnapshotHost(MemoryTree(self.snapshot()), self.hostname)

    def evidence(self) -> Evidence:
        """What every source finds on the machine, read in this process."""
        host, deadline = self.host(), time.monotonic() + 10
        names = LINUX_SOURCES if self.fitted is None else (*LINUX_SOURCES, "modules")
        return Evidence(**{name: read(name, host, deadline) for name in names})

    # --- what each source reads --------------------------------------------------------

    def recording(self) -> Recording:
        """Every answer that the machine's Host would give."""
        recording = Recording()
        recording.files |= {path: content.encode() for path, content in self.sysfs_files().items()}
        recording.files |= {path: content.encode() for path, content in self._proc().items()}
        recording.files |= {
            f"{PROVIDER_FOLDER}/{name}.driver": f"driver {name}\n".encode()
            for name in self._configured()
        }
        self._links(recording)
        self._lists(recording)
        self._nodes(recording)
        recording.environ |= kept(self.environ, REPORTED)
        index = {each.name: self._ifindex(each.name) for each in self.netdevs}
        recording.netlink |= nldev_replies(self.devices, self.netns_mode, index)
        recording.netlink |= self._route()
        self._routing(recording)
        self._dcb(recording)
        self._vfs(recording)
        self._ethtool(recording)
        self._devlink(recording)
        for netdev in self.netdevs if self.fitted else ():
            if fitted := (self.fitted or {}).get(netdev.name):
                recording.netlink["genl-families"] = counted.families()
                fitted.recorded(self._ifindex(netdev.name), recording)
        self._log(recording)
        record_gpus(self.gpu, recording)
        self._pci(recording)
        self._counted(recording)
        if self.devices:
            unloadable = "libibverbs.so.1: cannot open shared object file"
            recording.verbs[TRANSCRIPT] = transcript(
                "linux",
                "libibverbs.so.1",
                self.transcribed(),
                () if self.openable else (Stop("ibv_open_device", errno=EACCES),),
                table=True,
                unloadable=None if self.libraries else unloadable,
                stderr=self.verbs_stderr,
            )
        return recording

    def transcribed(self) -> Iterator[TranscribedDevice]:
        """The devices as libibverbs lists them."""
        for device in self.devices:
            if self._is_listed(device):
                ports = tuple(map(self._transcribed_port, device.ports))
                kind = NodeType.from_number(int(device.node_type.partition(":")[0]))
                assert kind
                known = device.answers or ANSWERS.get(device.hca_type)
                yield TranscribedDevice(
                    device.name,
                    ports,
                    device.node_guid,
                    device.firmware,
                    kind,
                    limits=known.attributes if known else {},
                    extended=known.extended if known else None,
                    unread=known is None,
                )

    def _is_listed(self, device: Device) -> bool:
        """libibverbs lists what has a node, whether or not it may be opened."""
        if device.uverbs is None or device.name in self.rejected:
            return False
        return self.nodes is None or f"uverbs{device.uverbs}" in self.nodes

    def _transcribed_port(self, port: Port) -> TranscribedPort:
        names = [netdev.name for netdev in self.netdevs]
        gids = {
            index: Gids(
                row.gid,
                _GID_TYPE[row.kind] if port.layer is LinkLayer.ETHERNET else GidType.IB,
                2 + names.index(row.netdev) if row.netdev in names else 0,
            )
            for index, row in port.gids.items()
        }
        return TranscribedPort(
            state=port.state,
            layer=port.layer or LinkLayer.UNSPECIFIED,
            phys=port.phys,
            lid=port.lid,
            sm_lid=port.sm_lid,
            gids=gids,
            gid_table_length=port.gid_table_length,
            active_mtu=_MTU[port.active_mtu],
        )

    def sysfs_files(self) -> dict[str, str]:
        """Every attribute: path → content."""
        files: dict[str, str] = {}
        for device in self.devices:
            files |= device_files(device)
        if any(device.uverbs is not None for device in self.devices):
            files["/sys/class/infiniband_verbs/abi_version"] = "6\n"
        for card in self.cards:
            files |= card_files(card)
        for netdev in self.netdevs:
            folder = f"/sys/class/net/{netdev.name}"
            files |= {
                f"{folder}/ifindex": f"{self._ifindex(netdev.name)}\n",
                f"{folder}/operstate": "down\n"
                if netdev.carrier is False or not netdev.up
                else f"{'dormant' if netdev.dormant else 'up'}\n",
                f"{folder}/mtu": f"{netdev.mtu}\n",
                f"{folder}/address": f"{netdev.mac}\n",
            }
        files["/sys/devices/system/cpu/online"] = f"{self.cpus_online}\n"
        return files

    def _ifindex(self, name: str) -> int:
        return 2 + [netdev.name for netdev in self.netdevs].index(name)

    def _proc(self) -> dict[str, str]:
        dev = "".join(f"{each.name:>8}: 0 0\n" for each in self.netdevs)
        inet6 = "".join(
            f"{Gid.parse(address.partition('/')[0]).raw.hex()} {self._ifindex(each.name):02x} "
            f"{int(address.partition('/')[2]):02x} 00 "
            f"{each.flags.get(address.partition('/')[0], 0x80) & 0xFF:02x} {each.name}\n"
            for each in self.netdevs
            for address in each.addresses
            if ":" in address
        )
        limit = f"{self.memlock:<21}"
        more = {} if self.limits is None else self.limits.files_of()
        files = (self.limits or Limits()).files_row()
        return {
            "/proc/self/status": f"Name:\tpython3\nPPid:\t{_PARENT}\n"
            f"Uid:\t{self.uid}\t{self.uid}\t{self.uid}\t"
            f"{self.uid}\nCapEff:\t{self.capabilities:016x}\n"
            f"Cpus_allowed_list:\t{self.cpus_allowed}\nMems_allowed_list:\t{self.mems_allowed}\n",
            "/proc/self/limits": f"{files}Max locked memory         {limit}{limit}bytes     \n",
            "/proc/cmdline": f"{self.command_line}\n",
            "/proc/sys/kernel/osrelease": f"{self.kernel}\n",
            "/proc/sys/net/ipv4/conf/all/arp_ignore": f"{self.arp_ignore}\n",
            "/proc/sys/net/ipv4/conf/all/rp_filter": f"{self.rp_filter}\n",
            **_since("/proc/sys/net/ipv4/conf/all/arp_filter", self.arp_filter),
            **_since("/proc/sys/net/ipv4/ip_default_ttl", self.default_ttl),
            "/proc/self/uid_map": "         0          0 4294967295\n",
            "/proc/modules": "".join(f"{name} 16384 0 - Live 0x0\n" for name in self.modules),
            "/proc/self/net/dev": "Inter-|   Receive  |  Transmit\n face |bytes    |bytes\n" + dev,
            "/proc/self/net/if_inet6": inet6,
            "/etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n",
            "/etc/ld.so.conf.d/x86_64-linux-gnu.conf": "/usr/lib/x86_64-linux-gnu\n",
        } | (self._ancestors() | more | dict(self.files))

    def _ancestors(self) -> dict[str, str]:
        """The parent has pid 1200, its parent 1199, and so on; the last one is init."""
        files = {}
        for at, (name, memlock) in enumerate(self.ancestors):
            last = at == len(self.ancestors) - 1
            above = 0 if last else 1 if at == len(self.ancestors) - 2 else _PARENT - at - 1
            folder = f"/proc/{1 if last else _PARENT - at}"
            limit = f"{memlock:<21}{memlock:<21}"
            files[f"{folder}/status"] = f"Name:\t{name}\nPPid:\t{above}\n"
            opened = (self.limits or Limits()).files_row()
            files[f"{folder}/limits"] = f"{opened}Max locked memory         {limit}bytes     \n"
        return files

    def _log(self, recording: Recording) -> None:
        if isinstance(self.kernel_log, Missing):
            recording.refuse("log", KERNEL, self.kernel_log)
            return
        recording.logs[KERNEL] = b"".join(
            f"6,{at},{(1000 + at) * 1_000_000},-;{message}\n".encode()
            for at, message in enumerate(self.kernel_log)
        )

    def _counted_by_ethtool(self, recording: Recording) -> None:
        for netdev in self.netdevs:
            index = self._ifindex(netdev.name)
            if (netdev.pause, netdev.fec, netdev.symbol_errors) != (None, None, None):
                recording.netlink["genl-families"] = counted.families()
            if netdev.pause is not None:
                recording.netlink[f"ethtool-pause-get-{index}"] = counted.pause(
                    index, *netdev.pause
                )
            if netdev.fec is not None:
                recording.netlink[f"ethtool-fec-stats-{index}"] = counted.fec(index, **netdev.fec)
            if netdev.symbol_errors is not None:
                recording.netlink[f"ethtool-phy-{index}"] = counted.phy(index, netdev.symbol_errors)

    def _counted(self, recording: Recording) -> None:
        """What `counters` and `resources` read beside the files of ports and devices."""
        if self.boot_id is not None:
            recording.files["/proc/sys/kernel/random/boot_id"] = f"{self.boot_id}\n".encode()
            recording.files["/proc/uptime"] = f"{self.uptime:.2f} 1.00\n".encode()
        recording.links["/proc/self/ns/pid"] = "pid:[4026531836]"
        for pid, command in self.commands.items():
            recording.files[f"/proc/{pid}/comm"] = f"{command}\n".encode()
        self._counted_by_ethtool(recording)
        for at, device in enumerate(self.devices):
            index = at if device.index is None else device.index
            if device.held is not None:
                recording.netlink |= counted.dumps(index, device.held)
            for number, port in enumerate(device.ports, 1):
                if port.hw_counters is not None:
                    recording.netlink[f"nldev-stat-get-{index}-{number}"] = counted.statistics(
                        index, number, port.hw_counters
                    )

    def _pci(self, recording: Recording) -> None:
        recording.files["/sys/devices/system/cpu/modalias"] = f"{self.cpu}\n".encode()
        spaces = self.with_pci().pci if self.pci is None else self.pci
        recording.files |= contents(spaces or {})
        for address, space in (spaces or {}).items():
            folder = f"/sys/bus/pci/devices/{address}"
            self._group(recording, address)
            path = f"{folder}/power/runtime_status"
            recording.files.setdefault(path, b"active\n")
            for name, content in _ids(space):
                recording.files.setdefault(f"{folder}/{name}", f"{content}\n".encode())

    def _group(self, recording: Recording, address: str) -> None:
        group = self.groups.get(address, address)
        path = f"/sys/bus/pci/devices/{address}/iommu_group"
        recording.links[path] = f"../../../kernel/iommu_groups/{group}"

    def _links(self, recording: Recording) -> None:
        recording.links["/proc/self/ns/net"] = "net:[4026531840]"
        recording.links["/proc/1/ns/net"] = "net:[4026531840]"
        for device in self.devices:
            if device.parent:
                continue
            folder = f"/sys/class/infiniband/{device.name}/device"
            recording.links[folder] = f"../../../{device.pci_address}"
            recording.links[f"/sys/bus/pci/devices/{device.pci_address}"] = "/".join(
                (
                    f"../../../devices/{device.root}",
                    device.bridge,
                    *device.switch,
                    device.pci_address,
                )
            )
            if device.iommu_domain:
                self._group(recording, device.pci_address)
            for path in (folder, f"/sys/bus/pci/devices/{device.pci_address}"):
                recording.links[f"{path}/driver"] = f"../../../bus/pci/drivers/{device.pci_driver}"
        for card in self.cards:
            folder = f"/sys/bus/pci/devices/{card.address}"
            above = "".join(f"{each}/" for each in card.bridges)
            recording.links[folder] = f"../../../devices/{card.root}/{above}{card.address}"
            recording.links[f"{folder}/driver"] = "../../../bus/pci/drivers/nvidia"
            if card.physical:
                recording.links[f"{folder}/physfn"] = f"../{card.physical}"

    def _lists(self, recording: Recording) -> None:
        lists = recording.listings
        refuse = recording.refuse
        if self.devices:
            lists["/sys/class/infiniband"] = tuple(device.name for device in self.devices)
        else:
            refuse("list", "/sys/class/infiniband", Missing(Why.ABSENT, "ENOENT"))
        uverbs = [d for d in self.devices if d.uverbs is not None]
        if uverbs:
            names = (f"uverbs{device.uverbs}" for device in uverbs)
            lists["/sys/class/infiniband_verbs"] = ("abi_version", *names)
        for path in recording.files:
            folder, _, name = path.rpartition("/")
            if folder.endswith(("/gids", "/pkeys", "/counters", "/hw_counters")):
                lists[folder] = (*lists.get(folder, ()), name)
        for device in self.devices:
            ports = tuple(str(number) for number in range(1, len(device.ports) + 1))
            lists[f"/sys/class/infiniband/{device.name}/ports"] = ports
        functions = {d.pci_address for d in self.devices if not d.parent}
        functions |= {card.address for card in self.cards}
        lists["/sys/bus/pci/devices"] = tuple(sorted(functions))
        lists["/sys/module/ib_core"] = ()
        lists["/etc/ld.so.conf.d"] = ("x86_64-linux-gnu.conf",)
        folder = "/usr/lib/x86_64-linux-gnu"
        if self.libraries:
            lists[f"{folder}/libibverbs"] = tuple(f"lib{name}-rdmav34.so" for name in _PROVIDERS)
            lists[PROVIDER_FOLDER] = tuple(f"{name}.driver" for name in self._configured())
            recording.nodes[f"{folder}/libibverbs.so.1"] = NodeStat(
                stat.S_IFREG | 0o644, 0, 0, None
            )

    def _configured(self) -> tuple[str, ...]:
        if self.configured is not None:
            return self.configured
        return _PROVIDERS if self.libraries else ()

    def _nodes(self, recording: Recording) -> None:
        nodes = self.nodes
        if nodes is None:
            nodes = {f"uverbs{d.uverbs}": 0o666 for d in self.devices if d.uverbs is not None}
        if not nodes:
            recording.refuse(
                "list", "/dev/infiniband", Missing(Why.ABSENT, "/dev/infiniband: ENOENT")
            )
        else:
            recording.listings["/dev/infiniband"] = tuple(sorted(nodes))
        for name, mode in nodes.items():
            path = f"/dev/infiniband/{name}"
            number = int("0" + "".join(letter for letter in name if letter.isdigit()))
            recording.nodes[path] = NodeStat(stat.S_IFCHR | mode, 0, 0, f"231:{192 + number}")
            recording.openable[path] = self.openable
        for path in ("/.dockerenv", "/run/.containerenv"):
            if path == self.container:
                recording.nodes[path] = NodeStat(stat.S_IFREG | 0o644, 0, 0, None)
            else:
                recording.refuse("stat", path, Missing(Why.ABSENT, f"{path}: ENOENT"))

    def _route(self) -> dict[str, bytes]:
        links = b"".join(link_message(each, self._ifindex) for each in self.netdevs)
        addresses = b"".join(address_rows(each, self._ifindex(each.name)) for each in self.netdevs)
        return {"route-getlink": links, "route-getaddr": addresses}

    def _routing(self, recording: Recording) -> None:
        """Rules, routes of addresses and others, neighbours, and what rdma_cm was set to."""
        if self.rules is None:
            return
        rows = [*self.ways, *own_ways(self.netdevs)]
        for version in (4, 6):
            of_version = [each for each in rows if (":" in each.destination) == (version == 6)]
            recording.netlink[f"route-getroute-{version}"] = b"".join(
                encoded_way(each, self._ifindex) for each in of_version
            )
        rules = [*self.rules, *(replace(each, version=6) for each in DEFAULT_RULES[:2])]
        recording.netlink["route-getrule"] = b"".join(map(encoded_rule, rules))
        recording.netlink |= {"route-getqdisc": b"", "route-getneightbl": b"", **self.traffic}
        recording.netlink["route-getaddrlabel"] = b"".join(
            encoded_label(*each) for each in self.address_labels
        )
        if "nft-getchain" in self.traffic:
            recording.listings["/sys/module/nf_tables"] = ()
        recording.netlink["route-getneigh"] = b"".join(
            encoded_neighbour(self._ifindex(netdev), address, known)
            for (netdev, address), known in self.neighbours.items()
        )
        folder = "/sys/kernel/config/rdma_cm"
        for port, mode in self.roce_modes.items():
            device, _, number = port.partition("/")
            path = f"{folder}/{device}/ports/{number}"
            recording.files[f"{path}/default_roce_mode"] = f"{mode}\n".encode()
            if port in self.roce_tos:
                recording.files[f"{path}/default_roce_tos"] = f"{self.roce_tos[port]}\n".encode()
            recording.listings[folder] = (*recording.listings.get(folder, ()), device)
            recording.listings[f"{folder}/{device}/ports"] = (number,)
        if not self.roce_modes:
            recording.refuse("list", folder, Missing(Why.ABSENT, f"{folder}: ENOENT"))
        row = "   1: 00000000:0F5F 00000000:0000 07\n" if self.port_mapper else ""
        recording.files["/proc/self/net/udp"] = f"  sl  local_address rem_address\n{row}".encode()
        recording.files.setdefault("/proc/sys/net/ipv4/ip_local_port_range", b"32768\t60999\n")

    def _dcb(self, recording: Recording) -> None:
        """Each netdev's answer, or its refusal."""
        for netdev in self.netdevs if self.dcb is not None else ():
            name = f"dcb-ieee-get-{self._ifindex(netdev.name)}"
            answer = (self.dcb or {}).get(netdev.name, UNSUPPORTED)
            if isinstance(answer, Missing):
                recording.refuse("netlink", name, answer)
            else:
                recording.netlink[name] = answer.reply(netdev.name)

    def _vfs(self, recording: Recording) -> None:
        """The physical functions' answers, and the links between them and the virtual ones."""
        for device in self.devices:
            folder = f"/sys/class/infiniband/{device.name}/device"
            if device.physfn:
                recording.links[f"{folder}/physfn"] = f"../{device.physfn}"
            if device.vfs == ():
                continue
            netdev = device.ports[0].netdev or ""
            recording.listings[f"{folder}/net"] = (netdev,)
            name = f"route-getlink-vf-{self._ifindex(netdev)}"
            recording.files[f"{folder}/sriov_numvfs"] = b"1\n"
            if isinstance(device.vfs, Missing):
                recording.refuse("netlink", name, device.vfs)
                continue
            recording.netlink[name] = vf_reply(netdev, device.vfs)
            for number, each in enumerate(device.vfs):
                recording.links[f"{folder}/virtfn{number}"] = f"../{each.address}"

    def _ethtool(self, recording: Recording) -> None:
        """Each netdev's answers, or its driver's refusals."""
        if self.ethtool is None:
            return
        recording.netlink["genl-families"] = counted.families()
        for netdev in self.netdevs:
            answer = self.ethtool.get(netdev.name, UNSUPPORTED)
            refused = answer if isinstance(answer, Missing) else UNSUPPORTED
            described = Ethtool() if isinstance(answer, Missing) else answer
            for name, reply in described.replies(self._ifindex(netdev.name)):
                if isinstance(answer, Missing) or reply is None:
                    recording.refuse("netlink", name, refused)
                else:
                    recording.netlink[name] = reply

    def _devlink(self, recording: Recording) -> None:
        """Each PCI function's answers, or its driver's refusals."""
        if self.devlink is None:
            return
        recording.netlink["genl-families"] = counted.families()
        reporters = b""
        for address in dict.fromkeys(each.pci_address for each in self.devices if not each.parent):
            answer = self.devlink.get(address, UNSUPPORTED)
            refused = answer if isinstance(answer, Missing) else UNSUPPORTED
            described = Devlink() if isinstance(answer, Missing) else answer
            if not isinstance(answer, Missing):
                reporters += answer.listed(address)
            for name, reply in described.replies(address):
                if isinstance(answer, Missing) or reply is None:
                    recording.refuse("netlink", name, refused)
                else:
                    recording.netlink[name] = reply
        recording.netlink["devlink-health-reporters"] = reporters


_PARENT = 1200  # the process above the one that looks


def _ids(space: Space | bytes) -> Iterator[tuple[str, str]]:
    """Files of a bridge; functions have theirs."""
    raw = space if isinstance(space, bytes) else space.content()
    vendor, number = struct.unpack_from("<HH", raw.ljust(4, b"\0"))
    yield from (("vendor", f"{vendor:#06x}"), ("device", f"{number:#06x}"))


def _since(path: str, number: int | None) -> dict[str, str]:
    """A file that records from before have not."""
    return {} if number is None else {path: f"{number}\n"}


class MemoryTree:
    """A snapshot's files as a Tree."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files
        self._folders: dict[str, set[str]] = {"": set()}
        for name in files:
            at = name
            while at:
                folder, _, last = at.rpartition("/")
                self._folders.setdefault(folder, set()).add(last)
                at = folder

    def kind(self, name: str) -> Kind | None:
        if name in self._files:
            return "file"
        return "folder" if name in self._folders else None

    def target(self, name: str) -> str:
        return ""

    def names(self, name: str) -> tuple[str, ...] | Missing:
        if name not in self._folders:
            return Missing(Why.ABSENT, f"/{name}: ENOENT")
        return tuple(sorted(self._folders[name]))

    def kinds(self, name: str) -> dict[str, Kind]:
        top = f"{name}/" if name else ""
        held = self._folders.get(name, ())
        return {each: "file" if top + each in self._files else "folder" for each in held}

    def read(self, name: str, limit: int) -> bytes | Missing:
        content = self._files.get(name)
        return Missing(Why.ABSENT, f"/{name}: ENOENT") if content is None else content[:limit]


"""What was encoded before: machines differ in one thing, and encoding took a fifth of the tests."""


def with_counters(machine: Machine) -> Machine:
    """The same machine as `counters` and `resources` find it, at rest."""
    return replace(
        machine,
        boot_id=counted.BOOT_ID,
        netdevs=tuple(replace(each, stats={}, pause=(0, 0)) for each in machine.netdevs),
        devices=tuple(
            replace(
                device,
                held=counted.KERNEL_OWN,
                ports=tuple(
                    replace(
                        port,
                        counters=counted.PORT_COUNTERS,
                        hw_counters=counted.MLX5_COUNTERS,
                    )
                    for port in device.ports
                ),
            )
            for device in machine.devices
        ),
    )


def big_host(
    hcas: int, ports: int = 2, gids: int = 256, filled: int = 8, prefix: int = 24
) -> Machine:
    """A RoCE host of `hcas` devices with `filled` of `gids` rows in use on each port.

    Below 10.0.0.0/8: with a prefix of 24 each netdev has a subnet of its own.
    """
    devices, netdevs = [], []
    for number in range(hcas):
        made = []
        for port in range(ports):
            name = f"eth{number * ports + port}"
            mac = f"0c:42:a1:00:{number:02x}:{port:02x}"
            addresses = [f"10.{number}.{port}.{host}" for host in range(1, (filled - 2) // 2 + 1)]
            netdevs.append(
                NetDev(name, mac=mac, addresses=tuple(f"{a}/{prefix}" for a in addresses))
            )
            rows = roce_rows(name, mac, *addresses)
            made.append(Port(gids=rows, gid_table_length=gids, netdev=name))
        devices.append(
            Device(
                f"mlx5_{number}",
                tuple(made),
                pci_address=f"0000:{number:02x}:00.0",
                node_guid=f"0c42:a103:0000:{number:04x}",
                uverbs=number,
            )
        )
    return Machine("big", tuple(devices), tuple(netdevs))
