"""A Mac written down from a description, in the shapes that TN3205 and public captures show.

No Mac was at hand: nothing here was recorded on one.
"""

import json
import plistlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from lab.machine import MemoryTree
from lab.transcript import APPLE_LIMITS, Gids, Stop, TranscribedDevice, TranscribedPort, transcript
from rdmadiag.facts import Identity, Missing, Why
from rdmadiag.facts.ib import THUNDERBOLT_TRANSPORT, LinkLayer, PhysState, PortState
from rdmadiag.host.answers import Ran
from rdmadiag.host.layout import TRANSCRIPT, command_name
from rdmadiag.host.recorded import SnapshotHost
from rdmadiag.host.recording import Recording, documents, write_folder
from rdmadiag.sources import ioreg, mac_log, mac_network, macos, rtr_record, thunderbolt

LIBRARY = "/usr/lib/librdma.dylib"
RDMA_PROTOCOL = 64087
IP_PROTOCOL = 1
BOOTED = 1_779_350_400  # 2026-05-21 08:00:00 UTC

QUIET_LOG = (
    "2026-05-21 10:15:02.101000-0700 AppleThunderboltRDMA context allocation",
    "2026-05-21 10:15:02.204000-0700 AppleThunderboltRDMA context free",
)


@dataclass(frozen=True)
class Peer:
    """A Mac, or an accessory, at the other end of a cable."""

    name: str = "MacBook Pro"
    model: str = "Mac17,6"
    rdma: bool = True
    is_host: bool = True


@dataclass(frozen=True)
class Cable:
    """One receptacle: its netdev, its RDMA device and what hangs on it."""

    receptacle: int
    netdev: str
    mac: str
    peer: Peer | None = None
    speed: str = "80 Gb/s"  # current_speed_key with a peer
    maximum: str = "Up to 120 Gb/s"  # current_speed_key without one
    state: PortState | None = None  # None: ACTIVE with a peer that has RDMA on, else DOWN
    gids: Mapping[int, str] = field(default_factory=dict)
    lid: int = 0
    ipv4: str | None = None  # "169.254.205.255/16"
    link_active_count: int = 1
    protection_domains: int = 0
    queue_pairs: int = 0
    inactive: int = 0
    holders: tuple[str, ...] = ()  # "pid 812, python3"
    has_rdma: bool = True

    @property
    def device(self) -> str:
        """The RDMA device above the netdev."""
        return f"rdma_{self.netdev}"

    @property
    def port_state(self) -> PortState:
        """What ibv_query_port says."""
        up = self.peer is not None and self.peer.rdma and self.peer.is_host
        return self.state or (PortState.ACTIVE if up else PortState.DOWN)


_HOME: Final = "/Users/user"


@dataclass(frozen=True)
class Mac:
    """A whole Mac."""

    hostname: str
    cables: tuple[Cable, ...]
    model: str = "Mac mini"
    version: str = "26.2"
    build: str = "25C56"
    rdma: bool | None = True  # None: no rdma_ctl
    listed: bool = True  # whether ibv_get_device_list shows the devices
    sleep: int = 0
    bridged: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = (("en0", "192.168.1.20/24"),)
    log: tuple[str, ...] | None = QUIET_LOG  # "TIMESTAMP MESSAGE"; None: not readable
    panics: Mapping[str, str] = field(default_factory=dict)  # file → content
    stops: tuple[Stop, ...] = ()
    unkillable: bool = False

    def change(self, **changes: Any) -> Self:
        """The same Mac but for `changes`."""
        return replace(self, **changes)

    def with_cable(self, cable: int = 0, **changes: Any) -> Self:
        """The same Mac, one cable changed."""
        cables = list(self.cables)
        cables[cable] = replace(cables[cable], **changes)
        return replace(self, cables=tuple(cables))

    def identity(self) -> Identity:
        """uname of the Mac."""
        return Identity(hostname=self.hostname, platform="darwin", kernel="25.2.0", machine="arm64")

    def write(self, folder: str, about: str) -> None:
        """The Mac as a snapshot folder."""
        write_folder(self.snapshot() | {"ABOUT": f"{about.strip()}\n".encode()}, folder)

    def snapshot(self) -> dict[str, bytes]:
        """The Mac as the files of a snapshot."""
        return documents(self.recording(), self.identity(), {}, recorded_at="never: built")

    def host(self) -> SnapshotHost:
        """The Mac as a Host, without a file being written."""
        return SnapshotHost(MemoryTree(self.snapshot()), self.hostname)

    def devices(self) -> tuple[TranscribedDevice, ...]:
        """The RDMA devices, as the verbs library lists them."""
        if not (self.listed and self.rdma):
            return ()
        return tuple(_device(cable) for cable in self.cables if cable.has_rdma)

    def recording(self) -> Recording:
        """Every answer that the Mac's Host would give."""
        recording = Recording()
        recording.verbs[TRANSCRIPT] = transcript(
            "darwin", LIBRARY, self.devices(), self.stops, unkillable=self.unkillable
        )
        for name in ioreg.CLASSES:
            self._ran(recording, ioreg.argv(name), _plist(self._objects(name)))
        self._ran(recording, thunderbolt.ARGV, json.dumps(self._profile(), indent=1))
        self._ran(recording, mac_network.IFCONFIG, self._ifconfig())
        self._ran(recording, mac_network.HARDWARE_PORTS, self._hardware_ports())
        if self.rdma is None:
            missing = Missing(Why.ABSENT, "rdma_ctl: ENOENT")
            recording.refuse("run", command_name(macos.RDMA_CTL), missing)
        else:
            self._ran(recording, macos.RDMA_CTL, "enabled\n" if self.rdma else "disabled\n")
        versions = f"ProductName:\t\tmacOS\nProductVersion:\t\t{self.version}\n"
        self._ran(recording, macos.SW_VERS, f"{versions}BuildVersion:\t\t{self.build}\n")
        settings = "System-wide power settings:\nCurrently in use:\n standby              0\n"
        self._ran(recording, macos.PMSET, f"{settings} sleep                {self.sleep}\n")
        self._ran(recording, macos.BOOT_TIME, f"{{ sec = {BOOTED}, usec = 0 }} Thu May 21\n")
        recording.environ["HOME"] = _HOME
        attempts = f"{_HOME}/.local/state/rdmadiag/{rtr_record.FILE}"
        recording.refuse("read", attempts, Missing(Why.ABSENT, f"{attempts}: ENOENT"))
        recording.listings[macos.PANICS] = tuple(sorted(self.panics))
        for name, content in self.panics.items():
            recording.files[f"{macos.PANICS}/{name}"] = content.encode()
        self._log(recording)
        return recording

    def _ran(self, recording: Recording, argv: tuple[str, ...], out: str) -> None:
        recording.commands[command_name(argv)] = Ran(0, out.encode(), b"")

    def _log(self, recording: Recording) -> None:
        argv = mac_log.argv(mac_log.LAST)
        if self.log is None:
            said = b"log: Could not open local log store: Operation not permitted\n"
            recording.commands[command_name(argv)] = Ran(64, b"", said)
            return
        rows: list[dict[str, Any]] = []
        for line in self.log:
            day, clock, message = line.split(" ", 2)
            rows.append(
                {
                    "timestamp": f"{day} {clock}",
                    "subsystem": mac_log.SUBSYSTEM,
                    "processImagePath": "/kernel",
                    "messageType": "Default",
                    "eventMessage": message,
                }
            )
        text = "".join(
            json.dumps(row) + "\n" for row in [*rows, {"count": len(rows), "finished": 1}]
        )
        self._ran(recording, argv, text)

    def _objects(self, name: str) -> list[dict[str, Any]]:
        linked = [each for each in self.cables if each.peer and each.peer.is_host]
        if name == ioreg.XDOMAIN:
            return [_object(name, name, each.receptacle) for each in linked]
        if name == ioreg.PEER:
            up = (each for each in linked if each.peer and each.peer.rdma and self.rdma)
            return [_object(name, name, 16 + each.receptacle) for each in up]
        if name == ioreg.IP_PORT:
            return [_ip_port(each) for each in self.cables]
        interfaces = [
            _interface(each)
            for each in self.cables
            if self.rdma and each.has_rdma and not _tb4(each)
        ]
        if name == ioreg.INTERFACE:
            return interfaces
        below = (child for each in interfaces for child in each["IORegistryEntryChildren"])
        return [child for child in below if child["IOObjectClass"] == name]

    def _profile(self) -> dict[str, Any]:
        return {"SPThunderboltDataType": [_bus(each, self.model) for each in self.cables]}

    def _hardware_ports(self) -> str:
        ports = [("Ethernet", "en0", "0c:00:00:00:00:01")]
        ports += [(f"Thunderbolt {e.receptacle}", e.netdev, e.mac) for e in self.cables]
        ports.append(("Thunderbolt Bridge", "bridge0", "36:4d:04:ea:4e:40"))
        return "".join(
            f"\nHardware Port: {name}\nDevice: {device}\nEthernet Address: {mac}\n"
            for name, device, mac in ports
        )

    def _ifconfig(self) -> str:
        flags = "flags=8863<UP,BROADCAST,SMART,RUNNING,SIMPLEX,MULTICAST>"
        blocks = ["lo0: flags=8049<UP,LOOPBACK,RUNNING,MULTICAST> mtu 16384\n"]
        blocks[0] += "\tinet 127.0.0.1 netmask 0xff000000\n"
        for name, address in self.others:
            blocks.append(f"{name}: {flags} mtu 1500\n{_inet(address)}\tstatus: active\n")
        for each in self.cables:
            status = "active" if each.peer else "inactive"
            inet = _inet(each.ipv4) if each.ipv4 else ""
            blocks.append(
                f"{each.netdev}: {flags} mtu 1500\n\tether {each.mac}\n{inet}\tstatus: {status}\n"
            )
        members = "".join(f"\tmember: {each} flags=3<LEARNING,DISCOVER>\n" for each in self.bridged)
        if members:
            blocks.append(f"bridge0: {flags} mtu 1500\n{members}\tstatus: active\n")
        return "".join(blocks)


def _tb4(cable: Cable) -> bool:
    return cable.maximum == "Up to 40 Gb/s"


def _device(cable: Cable) -> TranscribedDevice:
    state = cable.port_state
    up = state is PortState.ACTIVE
    port = TranscribedPort(
        state=state,
        layer=LinkLayer.THUNDERBOLT,
        phys=PhysState.LINK_UP if up else PhysState.POLLING,
        lid=cable.lid,
        sm_lid=1,
        gids={index: Gids(text) for index, text in cable.gids.items()},
    )
    return TranscribedDevice(
        cable.device, (port,), transport=THUNDERBOLT_TRANSPORT, limits=APPLE_LIMITS
    )


def _inet(address: str) -> str:
    host, _, length = address.partition("/")
    mask = (0xFFFFFFFF << (32 - int(length))) & 0xFFFFFFFF
    return f"\tinet {host} netmask 0x{mask:08x}\n"


def _object(kind: str, name: str, number: int, **more: Any) -> dict[str, Any]:
    return {
        "IOObjectClass": kind,
        "IORegistryEntryID": 4294970000 + number,
        "IORegistryEntryName": name,
        "IOServiceBusyState": 0,
        "IOServiceState": 30,
        **more,
    }


def _guid(mac: str) -> str:
    octets = mac.replace(":", "").rjust(16, "0")
    return ":".join(octets[at : at + 4] for at in range(0, 16, 4))


def _interface(cable: Cable) -> dict[str, Any]:
    base = 100 * cable.receptacle
    children = []
    kinds = [ioreg.PROTECTION_DOMAIN] * cable.protection_domains
    kinds += [ioreg.QUEUE_PAIR] * cable.queue_pairs
    for number, kind in enumerate(kinds):
        stuck = {"IOServiceState": 1, "IOServiceBusyState": 1} if number < cable.inactive else {}
        children.append(_object(kind, kind, base + 10 + number, **stuck))
    children += [
        _object("IOUserClient", "client", base + 60 + at, IOUserClientCreator=each)
        for at, each in enumerate(cable.holders)
    ]
    return _object(
        ioreg.INTERFACE,
        cable.device,
        base,
        node_guid=_guid(cable.mac),
        node_type=100,
        IOPowerManagement={"CurrentPowerState": 2},
        IORegistryEntryChildren=children,
    )


def _ip_port(cable: Cable) -> dict[str, Any]:
    interface = _object(
        "IOEthernetInterface",
        cable.netdev,
        50 + cable.receptacle,
        **{"BSD Name": cable.netdev, "IOLinkActiveCount": cable.link_active_count},
    )
    return _object(
        ioreg.IP_PORT,
        ioreg.IP_PORT,
        32 + cable.receptacle,
        IOLinkStatus=3 if cable.peer else 1,
        IORegistryEntryChildren=[interface],
    )


def _plist(objects: list[dict[str, Any]]) -> str:
    """ioreg -a prints nothing at all where there is no object."""
    return plistlib.dumps(objects).decode() if objects else ""


def _bus(cable: Cable, model: str) -> dict[str, Any]:
    bus: dict[str, Any] = {
        "_name": f"thunderboltusb4_bus_{cable.receptacle - 1}",
        "device_name_key": model,
        "domain_uuid_key": f"4FBE0A88-3F0B-46F4-9511-3713B23153{cable.receptacle:02X}",
        "receptacle_1_tag": {
            "current_speed_key": cable.speed if cable.peer else cable.maximum,
            "link_status_key": "0x2" if cable.peer else "0x7",
            "micro_version_key": "0.0.0",
            "receptacle_id_key": str(cable.receptacle),
            "receptacle_status_key": "receptacle_connected"
            if cable.peer
            else "receptacle_no_devices_connected",
        },
        "route_string_key": "0",
        "vendor_name_key": "Apple Inc.",
    }
    if cable.peer:
        bus = {"_items": [_item(cable.peer, cable.receptacle)]} | bus
    return bus


def _item(peer: Peer, number: int) -> dict[str, Any]:
    item: dict[str, Any] = {"_name": peer.name, "device_name_key": peer.model}
    if not peer.is_host:
        return item | {"mode_key": "thunderbolt_three"}
    protocols = [IP_PROTOCOL, RDMA_PROTOCOL] if peer.rdma else [IP_PROTOCOL]
    return item | {
        "domain_uuid_key": f"BC5DEC53-7E36-4A9A-8459-456EBAB5E5{number:02X}",
        "services_title": [
            {"_name": "service", "protocol_id_key": each, "protocol_version_key": 1}
            for each in protocols
        ],
        "vendor_id_key": "0x0A27",
    }


def ready_mac() -> Mac:
    """Two Thunderbolt 5 receptacles, one with a peer, TN3205's table on macOS 26."""
    first = Cable(
        1,
        "en1",
        "36:4d:04:ea:4e:40",
        peer=Peer(),
        lid=7,
        ipv4="169.254.205.255/16",
        gids={
            0: "fe80::344d:4ff:feea:4e40",
            1: "::ffff:169.254.205.255",
            2: "fe80::1021:1bac:fe1:b5e3",
        },
    )
    second = Cable(2, "en2", "36:4d:04:ea:4e:44", lid=8, gids={0: "fe80::344d:4ff:feea:4e44"})
    return Mac("mac-mini", (first, second))


FAILED_RTR = "2026-05-21 10:15:04.310000-0700 AppleThunderboltRDMA: Failed INIT{arrow}RTR qp 3"

BUILT = (
    "Built from the shapes of TN3205, Apple's headers and public captures; no Mac was at hand, "
    "so nothing here was recorded on one."
)


def macs() -> dict[str, tuple[Mac, str]]:
    """Name → a Mac with one thing wrong, and what it is."""
    ready = ready_mac()
    alone = ready.change(cables=ready.cables[:1])
    link_local = {0: "fe80::344d:4ff:feea:4e40"}
    at_two = {0: "fe80::344d:4ff:feea:4e40", 1: "fe80::1021:1bac:fe1:b5e3"}
    at_two[2] = "::ffff:169.254.205.255"
    macos_27 = {0: "4fbe:a88:3f0b:46f4:9511:3713:b231:5301", 1: "fe80::344d:4ff:feea:4e40"}
    macos_27[2] = "::ffff:169.254.205.255"
    old = {"maximum": "Up to 40 Gb/s", "speed": "40 Gb/s", "gids": {}}
    studio = ready.cables[1]
    found = {
        "ready": (ready, "One peer, RDMA on at both ends, one receptacle free."),
        "rdma-off": (
            alone.change(rdma=False).with_cable(state=PortState.DOWN),
            "RDMA is switched off on this Mac.",
        ),
        "peer-rdma-off": (
            ready.with_cable(peer=Peer(rdma=False), gids=link_local, ipv4=None),
            "A Mac is connected that has RDMA switched off: it offers protocol 1 alone.",
        ),
        "thunderbolt-4": (
            ready.change(listed=False).with_cable(0, **old).with_cable(1, **old),
            "A Mac with Thunderbolt 4: the switch says enabled, and there are no devices.",
        ),
        "no-ipv4-gid": (
            ready.with_cable(gids=link_local, ipv4=None),
            "The port is ACTIVE and en1 has no IPv4 address, so its only GID is fe80:: at 0.",
        ),
        "ipv4-gid-at-2": (
            ready.with_cable(gids=at_two),
            "The IPv4 GID stands at index 2: addresses came in another order.",
        ),
        "macos-27": (
            ready.change(version="27.0", build="26A100").with_cable(gids=macos_27),
            "The order of macOS 27: domain UUID, EUI-64 link-local, IPv4.",
        ),
        "bridged": (
            ready.change(bridged=("en1", "en2")).with_cable(gids=link_local, ipv4=None),
            "bridge0 holds en1: no address and no IPv4 GID of its own.",
        ),
        "wedged": (
            ready.change(stops=(Stop("ibv_query_port", "rdma_en1"),), unkillable=True),
            "ibv_query_port never returns, and the child cannot be killed.",
        ),
        "queue-pairs-exhausted": (
            ready.with_cable(
                queue_pairs=10, protection_domains=4, inactive=2, holders=("pid 812, python3",)
            ),
            "Ten queue pairs of the ten that can be made, some of a program that has ended.",
        ),
        "failed-rtr": (
            ready.change(log=(*QUIET_LOG, FAILED_RTR.format(arrow="->"))),
            "The log has a failed INIT->RTR of this boot.",
        ),
        "failed-rtr-arrow": (
            ready.change(log=(*QUIET_LOG, FAILED_RTR.format(arrow="\N{RIGHTWARDS ARROW}"))),
            "The same, written with the arrow that some releases use.",
        ),
        "log-unreadable": (ready.change(log=None), "A user who may not read the log."),
        "log-quiet": (ready.change(log=()), "The log can be read and says nothing of RDMA."),
        "studio-ethernet-port": (
            Mac(
                "mac-studio",
                (
                    replace(ready.cables[0], peer=None, gids=link_local, ipv4=None),
                    replace(studio, peer=Peer(), has_rdma=False),
                ),
                model="Mac Studio",
            ),
            "A Mac Studio whose cable is in the port beside Ethernet.",
        ),
    }
    return {
        f"mac-{name}": (mac.change(hostname=f"mac-{name}"), f"{about}\n\n{BUILT}")
        for name, (mac, about) in found.items()
    }
