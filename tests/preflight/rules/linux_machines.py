"""Linux hosts with one thing wrong, and what is found on them."""

from dataclasses import replace
from typing import Any

from lab.gpus import Gpu
from lab.machine import Machine
from lab.netdevs import BondData, BridgePort, LegData, NetDev
from lab.rdma_devices import V1, V2, Device, GidRow, Port, roce_rows
from lab.routing import Way
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Missing
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import DriverId, NetnsMode, PhysState, PortState
from rdmadiag.facts.libraries import LibrariesFacts, MappedLibrary
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.verdict import Finding
from rdmadiag.view.select import Selector

MAC = "0c:42:a1:00:00:01"
NETDEV = "ens1f0np0"
LEARNING, FORWARDING = 2, 3
V6 = "2001:db8::10"
NO_GUID = "0000:0000:0000:0000"
PCI = "mlx5_core 0000:08:00.0"
IBGDA = {"NVSHMEM_IB_ENABLE_IBGDA": "1"}
PEER_MAPPING = 'EnableStreamMemOPs: 1\nRegistryDwords: "PeerMappingOverride=1;"\n'


def findings(subject: Machine | Evidence, *names: str) -> list[Finding]:
    evidence = subject.evidence() if isinstance(subject, Machine) else subject
    return list(judge(evidence, tuple(Selector(name) for name in names)).findings)


def bonded(*legs: NetDev, **device: Any) -> Machine:
    """The RoCE host's netdev and `legs` under bond7, which has the address."""
    (own,) = roce_host().netdevs
    bond = replace(own, name="bond7", kind="bond")
    members = [replace(each, master="bond7", addresses=()) for each in (own, *legs)]
    rows = roce_rows("bond7", MAC, "192.0.2.10")
    return roce_host().with_device(**device).with_port(gids=rows).change(netdevs=(bond, *members))


def by_a_gateway(ttl: int) -> Machine:
    """The RoCE host with a default route, and this ip_default_ttl."""
    (own,) = roce_host().netdevs
    return roce_host().change(
        default_ttl=ttl, ways=(Way("0.0.0.0/0", own.name, gateway="192.0.2.254"),)
    )


def with_xdp(place: int) -> Machine:
    """rxe on a netdev whose program of XDP is there (XDP_ATTACHED_*)."""
    return soft(replace(VETHS[0], xdp=place))


def above_soft(kind: str) -> Machine:
    """rxe on eth0, and its address on a netdev of this kind above that."""
    machine = soft(VETHS[0])
    (own,) = machine.netdevs
    upper = replace(own, name="upper0", kind=kind, lower=own.name)
    (address,) = own.addresses
    rows = roce_rows("upper0", MAC, address.partition("/")[0])
    return machine.with_port(gids=rows).change(netdevs=(upper, replace(own, addresses=())))


def bridge_port(kind: str) -> Machine:
    """The RoCE host's netdev, with its address, below a netdev of this kind."""
    (own,) = roce_host().netdevs
    return roce_host().change(
        netdevs=(replace(own, master="above0"), NetDev("above0", mac=MAC, kind=kind))
    )


def on_a_bridge(state: int) -> Machine:
    """The RoCE host's address on a bridge, of which eth9 is a port in this state (BR_STATE_*)."""
    (own,) = roce_host().netdevs
    bridge = replace(own, name="br0", kind="bridge")
    rows = roce_rows("br0", MAC, "192.0.2.10")
    port = NetDev("eth9", master="br0", port=BridgePort(state))
    return roce_host().with_port(gids=rows, netdev="br0").change(netdevs=(bridge, port))


def with_siw(netdev: str | None) -> Machine:
    """rxe on a netdev, and siw on this one."""
    machine = soft(VETHS[0])
    port = Port(gids={0: GidRow("9e16:713b:9bf1::", V1, None)}, netdev=netdev)
    siw = Device("siw0", (port,), node_type="4: RNIC", protocol="iw", driver=DriverId.SIW, uverbs=9)
    return machine.change(devices=(*machine.devices, siw))


def with_inline(count: int) -> Machine:
    return roce_host().change(files={"/etc/rdma/rsocket/inline_default": f"{count}\n"})


def driven(data: BondData, *legs: LegData) -> Machine:
    """The same with what the bonding driver says; no finding but those on it."""
    machine = bonded(*(NetDev(f"eth{number}") for number in range(9, 8 + len(legs))))
    bond, *members = machine.netdevs
    rows = zip(members, legs, strict=True)
    return machine.change(
        netdevs=(replace(bond, bond=data), *(replace(each, leg=leg) for each, leg in rows))
    )


def bond_findings(machine: Machine) -> list[tuple[str, str]]:
    return [each for each in said(machine) if each[0] != "bonded-ports"]


def beside(machine: Machine, netdev: str) -> Machine:
    """The same with a second device, on that netdev."""
    (first,) = machine.devices
    port = replace(first.ports[0], netdev=netdev, gids=roce_rows(netdev, "02:00:00:00:00:09"))
    second = replace(first, name="mlx5_9", ports=(port,), uverbs=9, pci_address="0000:09:00.0")
    there = machine.netdevs
    if netdev not in {each.name for each in there}:
        there = (*there, NetDev(netdev, mac="02:00:00:00:00:09"))
    return machine.change(devices=(first, second), netdevs=there)


def said(subject: Machine | Evidence, *names: str) -> list[tuple[str, str]]:
    return [(each.rule, each.severity.value) for each in findings(subject, *names)]


def only(subject: Machine | Evidence, rule: str) -> Finding:
    (found,) = [each for each in findings(subject) if each.rule == rule]
    return found


def with_table(*addresses: str, kinds_of: tuple[str, ...] = (V1, V2)) -> Machine:
    """The RoCE host with these addresses, and no other."""
    rows = roce_rows(NETDEV, MAC, *addresses)
    kept = [row for row in rows.values() if row.kind in kinds_of]
    return roce_host().with_port(gids=dict(enumerate(kept)))


def with_address(*addresses: str) -> Machine:
    """The RoCE host with these addresses on its netdev and no others, one GID row each."""
    (netdev,) = roce_host().netdevs
    lengths = (f"{each}/{64 if ':' in each else 24}" for each in addresses)
    rows = (f"::ffff:{each}" if "." in each else each for each in addresses)
    return (
        roce_host()
        .with_port(gids={index: GidRow(each, V2, NETDEV) for index, each in enumerate(rows)})
        .change(netdevs=(replace(netdev, addresses=tuple(lengths)),))
    )


def flagged(flags: int, *addresses: str) -> Machine:
    """The same, the first address with these IFA_FLAGS."""
    machine = with_address(*addresses)
    (netdev,) = machine.netdevs
    return machine.change(netdevs=(replace(netdev, flags={addresses[0]: flags}),))


def two_roce(second: str = "192.0.2.11", mtu: int = 9000, **changes: Any) -> Machine:
    """Two RoCE adapters, each with a netdev of its own."""
    base = roce_host()
    other = NetDev("ens2f0np0", mac="0c:42:a1:00:00:02", mtu=mtu, addresses=(f"{second}/24",))
    port = Port(
        gids=roce_rows(other.name, other.mac, second), gid_table_length=256, netdev=other.name
    )
    device = Device(
        "mlx5_1",
        (port,),
        pci_address="0000:af:00.0",
        bridge="0000:ae:00.0",
        node_guid="0c42:a103:0000:0002",
        uverbs=1,
        **changes,
    )
    return base.change(
        devices=(*base.devices, device), netdevs=(*base.netdevs, other), arp_ignore=2
    )


def spare_port() -> Machine:
    """The RoCE host, whose card has a second function that never had a link."""
    base = roce_host()
    netdev = NetDev("ens1f1np1", mac="0c:42:a1:00:00:02", carrier=False, carrier_changes=1)
    port = Port(
        PortState.DOWN,
        PhysState.DISABLED,
        gids=roce_rows(netdev.name, netdev.mac),
        netdev=netdev.name,
    )
    second = replace(
        base.devices[0],
        name="mlx5_1",
        ports=(port,),
        pci_address="0000:08:00.1",
        node_guid="0c42:a103:0000:0002",
        uverbs=1,
    )
    return base.change(devices=(*base.devices, second), netdevs=(*base.netdevs, netdev))


def soft(*netdevs: NetDev, **changes: Any) -> Machine:
    """Soft RoCE over each netdev."""
    devices = []
    for number, netdev in enumerate(netdevs):
        (address,) = (each.partition("/")[0] for each in netdev.addresses)
        port = Port(
            gids={0: GidRow(f"::ffff:{address}", V2, netdev.name)},
            gid_table_length=16,
            netdev=netdev.name,
            active_mtu=1024,
        )
        devices.append(
            Device(
                f"rxe{number}",
                (port,),
                driver=DriverId.RXE,
                parent=netdev.name,
                uverbs=number,
                firmware="",
            )
        )
    return Machine("soft", tuple(devices), netdevs, **changes)


VETHS = (
    NetDev("veth0", addresses=("192.0.2.1/24",)),
    NetDev("veth1", addresses=("192.0.2.2/24",)),
)


def logged(*messages: str, **changes: Any) -> Machine:
    return roce_host().change(kernel_log=messages, **changes)


def bound(cpus: str, machine: Machine | None = None) -> Machine:
    return (machine or roce_host()).change(cpus_allowed=cpus)


def on_two_nodes() -> Machine:
    return two_roce("198.51.100.11", numa_node=1, local_cpus="16-31")


def with_env(machine: Machine | None = None, **variables: str) -> Machine:
    return (machine or roce_host()).change(environ=variables)


def exclusive(machine: Machine) -> Machine:
    return machine.change(netns_mode=NetnsMode.EXCLUSIVE.number)


def with_pkeys(*keys: int) -> Machine:
    return infiniband_host().with_port(0, 0, pkeys=keys)


def under(**parents: str) -> Machine:
    return roce_host().change(ancestors=(*parents.items(), ("systemd", "8388608")))


def with_gpu(machine: Machine | None = None, **changes: Any) -> Machine:
    return (machine or roce_host()).change(gpu=replace(Gpu(), **changes))


NO_FOLDER: dict[str, Any] = {"memory_peers": None, "open_driver": False}
"""nvidia_peermem of a kernel without /sys/kernel/mm/memory_peers, under the closed driver."""


def mapping(version: str | Missing, machine: Machine) -> Evidence:
    """The machine, and a process that has mapped an NCCL."""
    library = MappedLibrary("nccl", "/usr/lib/libnccl.so.2", version)
    return replace(machine.evidence(), libraries=LibrariesFacts(4711, (library,)))


def lost_function(evidence: Evidence) -> Evidence:
    sysfs = evidence.sysfs
    assert not isinstance(sysfs, Missing)
    (own,) = sysfs.candidates  # type: ignore[misc]
    more = (own, replace(own, address="0000:09:00.0"))
    return replace(evidence, sysfs=replace(sysfs, candidates=more))


def stale(evidence: Evidence) -> Evidence:
    process = evidence.process
    assert not isinstance(process, Missing)
    nodes = tuple(replace(node, dev="231:199") for node in process.nodes)  # type: ignore[union-attr]
    return replace(evidence, process=replace(process, nodes=nodes))
