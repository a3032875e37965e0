"""The samples that come with the package: `python -m lab.samples [RECORDED]`.

Most are built from descriptions. RECORDED is the snapshot of a healthy soft RoCE host that
`python -m lab guest` leaves in lab/out/guest/recorded/rxe-healthy; it becomes roce-healthy.
"""

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from lab import counted
from lab.gpus import Card
from lab.mac import Mac, macs
from lab.machine import Machine, with_counters
from lab.netdevs import NetDev
from lab.rdma_devices import Device, GidRow, Port, roce_rows
from lab.routing import Way
from rdmadiag.facts.ib import LinkLayer, PhysState, PortState
from rdmadiag.host.recording import KEPT_WORDS, pared, write_folder

FOLDER = Path(__file__).parent.parent / "rdmadiag" / "samples"

MACS = ("mac-ready", "mac-no-ipv4-gid", "mac-bridged", "mac-wedged")
"""Of the Macs that are fixtures, the ones that ship."""

BUILT = "Built from the documented formats of sysfs, procfs and netlink; not recorded."


def infiniband_host() -> Machine:
    """Two HCAs, both active."""
    port = Port(
        layer=LinkLayer.INFINIBAND,
        rate="200 Gb/sec (4X HDR)",
        lid=0x11,
        sm_lid=1,
        gids={0: GidRow("fe80::c42:a103:0:1", "IB/RoCE v1")},
        gid_table_length=8,
    )
    first = Device(
        "mlx5_0",
        (port,),
        hca_type="MT4123",
        firmware="20.35.2000",
        board_id="MT_0000000223",
        pci_ids=("0x15b3", "0x101b", "0x020700"),
        pci_address="0000:3b:00.0",
        protocol="ib",
    )
    second_port = replace(port, lid=0x12, gids={0: GidRow("fe80::c42:a103:0:2", "IB/RoCE v1")})
    second = replace(
        first,
        name="mlx5_1",
        ports=(second_port,),
        pci_address="0000:af:00.0",
        numa_node=1,
        local_cpus="16-31",
        node_guid="0c42:a103:0000:0002",
        uverbs=1,
    )
    return Machine("ib-two-hca", (first, second))


def at_work(machine: Machine) -> Machine:
    """With a job of a rank for each device, and counters that have counted."""
    counters = counted.PORT_COUNTERS | {
        "link_downed": 1,
        "symbol_error": 3,
        "port_xmit_data": 0x2F4A_8C11_9D04,
        "port_rcv_data": 0x2F4A_7D93_0122,
        "port_xmit_packets": 50_817_442_191,
        "port_rcv_packets": 50_801_200_873,
        "unicast_xmit_packets": 50_817_431_002,
        "unicast_rcv_packets": 50_801_188_140,
        "port_xmit_wait": 90_371,
    }
    host = with_counters(machine)
    for at, pid in enumerate((20411, 20412)):
        held = (*counted.KERNEL_OWN, *counted.job(pid, pairs=64))
        host = host.with_device(at, held=held).with_port(at, counters=counters)
    return host.change(commands={20411: "python3", 20412: "python3"})


def roce_host(address: str = "192.0.2.10") -> Machine:
    """One RoCE port with one address, healthy."""
    mac = "0c:42:a1:00:00:01"
    link_local = "fe80::e42:a1ff:fe00:1"
    netdev = NetDev("ens1f0np0", mac=mac, mtu=9000, addresses=(f"{address}/24", f"{link_local}/64"))
    rows = roce_rows(netdev.name, mac, address)
    port = Port(gids=rows, gid_table_length=256, netdev=netdev.name)
    return Machine("roce", (Device("mlx5_0", (port,)),), (netdev,))


_RAILS = ((0x16, 0), (0x40, 0), (0x94, 1), (0xBA, 1))
"""Buses of host bridges with a switch each, and their NUMA nodes."""


def gpu_host() -> Machine:
    """Four GPUs, each below a switch with an adapter, and one more adapter for management."""
    devices, netdevs, cards = [], [], []
    for at, (bus, node) in enumerate(_RAILS):
        root = f"pci0000:{bus:02x}"
        port, upstream = f"0000:{bus:02x}:01.0", f"0000:{bus + 1:02x}:00.0"
        mac, address = f"0c:42:a1:00:01:{at:02x}", f"198.18.{at}.10"
        netdev = NetDev(f"rail{at}", mac=mac, mtu=9000, addresses=(f"{address}/24",))
        netdevs.append(netdev)
        rows = roce_rows(netdev.name, mac, address)
        devices.append(
            Device(
                f"mlx5_{at}",
                (Port(rate="400 Gb/sec (4X NDR)", gids=rows, netdev=netdev.name),),
                pci_address=f"0000:{bus + 3:02x}:00.0",
                pci_ids=("0x15b3", "0x1021", "0x020000"),
                hca_type="MT4129",
                board_id="MT_0000000838",
                firmware="28.43.1014",
                node_guid=f"0c42:a103:0001:{at:04x}",
                numa_node=node,
                local_cpus="16-31" if node else "0-15",
                root=root,
                bridge=port,
                switch=(upstream, f"0000:{bus + 2:02x}:00.0"),
                uverbs=at,
            )
        )
        cards.append(
            Card(
                f"0000:{bus + 5:02x}:00.0",
                numa_node=node,
                root=root,
                bridges=(port, upstream, f"0000:{bus + 2:02x}:01.0"),
            )
        )
    uplink = NetDev("eno1np0", mac="0c:42:a1:00:02:00", mtu=9000, addresses=("192.0.2.10/24",))
    rows = roce_rows(uplink.name, uplink.mac, "192.0.2.10")
    own = Port(rate="25 Gb/sec (1X EDR)", gids=rows, netdev=uplink.name)
    management = Device("mlx5_4", (own,), node_guid="0c42:a103:0002:0000", uverbs=4)
    return Machine(
        "gpu-four-rails",
        (*devices, management),
        (*netdevs, uplink),
        cards=tuple(cards),
        ways=(Way("0.0.0.0/0", uplink.name, "192.0.2.1"),),
        arp_ignore=2,
    )


def spark_host() -> Machine:
    """One cable, which an adapter on two host bridges shows as two devices."""
    machine = roce_host("198.18.0.10")
    first = machine.devices[0]
    (netdev,) = machine.netdevs
    second = replace(netdev, name="enP2p1s0f0np0", mac="0c:42:a1:00:00:02")
    second = replace(second, addresses=("198.18.1.10/24",))
    rows = roce_rows(second.name, second.mac, "198.18.1.10")
    twin = replace(
        first,
        name="roceP2p1s0f0",
        ports=(replace(first.ports[0], netdev=second.name, gids=rows),),
        pci_address="0002:01:00.0",
        root="pci0002:00",
        bridge="0002:00:00.0",
        node_guid="0c42:a103:0000:0002",
        sys_image_guid=first.node_guid,
        uverbs=1,
    )
    return machine.change(
        hostname="spark", devices=(first, twin), netdevs=(netdev, second), arp_ignore=2
    )


def samples() -> dict[str, tuple[Machine, str]]:
    """Name → machine and ABOUT."""
    infiniband = infiniband_host()
    working = at_work(infiniband)
    no_manager = (
        infiniband.with_port(0, 0, state=PortState.INIT, lid=0, sm_lid=0)
        .with_port(1, 0, state=PortState.DOWN, phys=PhysState.POLLING, lid=0, sm_lid=0)
        .change(hostname="ib-no-subnet-manager")
    )
    container = roce_host().change(
        hostname="pod-7c9", nodes={}, container="/.dockerenv", uid=1000, capabilities=0
    )
    empty = (
        roce_host()
        .with_port(gids={})
        .change(
            hostname="roce-empty-table",
            netdevs=(NetDev("ens1f0np0", mac="0c:42:a1:00:00:01", mtu=9000),),
        )
    )
    return {
        "infiniband-two-hca": (
            working,
            f"Two InfiniBand HCAs, both active; on each a job has a rank.\n\n{BUILT}",
        ),
        "gpu-four-rails": (
            gpu_host(),
            f"Four GPUs, each with an adapter below one switch; one for management.\n\n{BUILT}",
        ),
        "infiniband-no-subnet-manager": (
            no_manager,
            f"An InfiniBand host without a subnet manager; one port has no cable.\n\n{BUILT}",
        ),
        "container-without-uverbs": (
            container,
            f"A container that sees a RoCE device and has no /dev/infiniband.\n\n{BUILT}",
        ),
        "roce-empty-gid-table": (
            empty,
            f"A RoCE port that is ACTIVE and has no GID: its netdev has no address.\n\n{BUILT}",
        ),
    }


RECORDED = """\
Soft RoCE on both ends of a veth cable, Linux 7.2: two devices, healthy.

Recorded in the lab (lab/README.md). Library folders beyond the distribution's were left out.
"""

_FOREIGN = re.compile(r"cuda|fakeroot|/usr/local|\.dockerenv")
_STARTED = re.compile(rb"command line|virtme|mconsole", re.IGNORECASE)


def trim(folder: Path) -> dict[str, bytes]:
    """A recorded snapshot's files without what only the machine below the guest has."""
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not _FOREIGN.search(str(path.relative_to(folder)))
    }
    meta = json.loads(files["meta.json"])
    for part in ("listings", "links", "nodes", "openable"):
        meta[part] = {
            path: value for path, value in meta[part].items() if not _FOREIGN.search(path)
        }
    for question, refused in meta["refused"].items():
        meta["refused"][question] = {
            path: value for path, value in refused.items() if not _FOREIGN.search(path)
        }
    for sign in ("/.dockerenv", "/run/.containerenv"):
        meta["refused"]["stat"][sign] = {"why": "absent", "detail": f"{sign}: ENOENT"}
    folders = "/etc/ld.so.conf.d"
    meta["listings"][folders] = ["x86_64-linux-gnu.conf"]
    files = {
        name: content
        for name, content in files.items()
        if not name.startswith(f"root{folders}") or name.endswith("/x86_64-linux-gnu.conf")
    }
    files[f"root{folders}/x86_64-linux-gnu.conf"] = (
        b"/lib/x86_64-linux-gnu\n/usr/lib/x86_64-linux-gnu\n"
    )
    if log := files.get("log/kernel.txt"):  # of how the guest was started
        files["log/kernel.txt"] = b"".join(
            row for row in log.splitlines(keepends=True) if not _STARTED.search(row)
        )
    for path, wanted in KEPT_WORDS.items():
        if f"root{path}" in files:
            files[f"root{path}"] = pared(files[f"root{path}"], wanted)
    return files | {
        "meta.json": json.dumps(meta, indent=1).encode() + b"\n",
        "ABOUT": RECORDED.encode(),
    }


def main() -> None:
    """Write them anew."""
    described: dict[str, tuple[Machine | Mac, str]] = {**samples()}
    described |= {name: mac for name, mac in macs().items() if name in MACS}
    for name, (machine, about) in described.items():
        shutil.rmtree(FOLDER / name, ignore_errors=True)
        machine.write(str(FOLDER / name), about)
        print(name)
    if len(sys.argv) > 1:
        recorded = trim(Path(sys.argv[1]))
        shutil.rmtree(FOLDER / "roce-healthy", ignore_errors=True)
        write_folder(recorded, str(FOLDER / "roce-healthy"))
        print("roce-healthy")


if __name__ == "__main__":
    main()
