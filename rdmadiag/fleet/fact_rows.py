"""The one table of facts: where each stands in a `preflight` document, and what a difference means.

A path names fields by dots; "[]" is each item of a list, "{}" each value of an object. A row
covers what is below its path as well, unless a longer path does. Rows with a name are read for
every host of a fleet (rdmadiag.fleet.fact_table); the others say what a difference means where
two records are compared.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from rdmadiag.frozen import dataclass


class Kind(StrEnum):
    """What a difference between two hosts means."""

    EQUAL = "equal"  # hosts of one kind ought to have the same
    HARDWARE = "hardware"  # another kind of host
    IDENTITY = "identity"  # which host, adapter or address it is: each has its own
    MAY_DIFFER = "may_differ"  # by how it was started, or follows from another fact
    NOISE = "noise"  # another value every time that one looks


class Of(StrEnum):
    """What a fact is of; the word that the names of such facts begin with."""

    HOST = "host"
    ADAPTER = "adapter"
    PORT = "port"
    GPU = "gpu"


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that records are compared by: where it stands, and what a difference means."""

    kind: Kind
    paths: tuple[str, ...]  # the first that has a value is taken
    name: str | None = None  # "kernel"; of an adapter without what is of all: "firmware"
    of: Of = Of.HOST


def _named(kind: Kind, of: Of, rows: str) -> Iterator[Fact]:
    """Lines "name path path …"; "@" stands for the place that the line before it began with."""
    place = ""
    for line in rows.strip().splitlines():
        name, *paths = line.split()
        if name == "@":
            place = paths[0]
            continue
        yield Fact(
            kind, tuple(place + path[1:] if path[0] == "@" else path for path in paths), name, of
        )


def _covered(kind: Kind, rows: str) -> Iterator[Fact]:
    """Paths alone."""
    yield from (Fact(kind, (path,)) for path in rows.split())


_DEVICE: Final = "evidence.sysfs.devices[]"
_NLDEV: Final = "evidence.nldev.devices[]"
_VERBS: Final = "evidence.verbs.devices[]"

FACTS: Final = (
    *_named(
        Kind.HARDWARE,
        Of.HOST,
        """
        platform host.platform
        machine host.machine
        cpu evidence.pci.cpu
        """,
    ),
    *_named(
        Kind.HARDWARE,
        Of.ADAPTER,
        f"""
        vendor {_DEVICE}.pci.vendor
        device {_DEVICE}.pci.device
        driver {_DEVICE}.pci.driver {_NLDEV}.chardev.driver
        node_type {_DEVICE}.node_type {_NLDEV}.node_type {_VERBS}.node_type
        """,
    ),
    *_named(
        Kind.HARDWARE,
        Of.PORT,
        f"link_layer {_DEVICE}.ports[].link_layer {_VERBS}.ports[].link_layer",
    ),
    *_named(
        Kind.HARDWARE,
        Of.GPU,
        """
        vendor evidence.topology.gpus[].vendor
        device evidence.topology.gpus[].device
        """,
    ),
    *_named(
        Kind.EQUAL,
        Of.HOST,
        """
        kernel host.kernel evidence.system.kernel
        modules evidence.process.modules
        memlock.soft evidence.process.memlock.soft
        memlock.hard evidence.process.memlock.hard
        open_files evidence.system.limits.open_files
        local_ports evidence.system.limits.local_ports
        neighbours.ipv4 evidence.system.limits.ipv4_neighbours.most
        neighbours.ipv6 evidence.system.limits.ipv6_neighbours.most
        container evidence.process.container
        namespaces.user evidence.process.initial_userns
        namespaces.network evidence.process.initial_netns
        rdma_namespaces evidence.nldev.netns_mode
        verbs.loaded evidence.verbs.library
        verbs.libraries evidence.process.library.libibverbs
        verbs.providers evidence.process.library.providers
        verbs.configured evidence.process.library.configured
        verbs.abi evidence.sysfs.uverbs_abi
        cpus_online evidence.system.cpus_online
        iommu_options evidence.system.iommu_options
        arp_ignore evidence.netdev.arp_ignore
        rp_filter evidence.netdev.rp_filter
        arp_filter evidence.netdev.arp_filter
        default_ttl evidence.netdev.default_ttl
        port_mapper evidence.routing.port_mapper
        roce_modes evidence.routing.roce_modes
        gpu_memory.peermem evidence.system.gpus.peermem
        gpu_memory.clients evidence.system.gpus.memory_peers
        gpu_memory.open_driver evidence.system.gpus.open_driver
        gpu_memory.parameters evidence.system.gpus.parameters
        gpu_memory.gdrdrv evidence.system.gpus.gdrdrv
        expectations.compared verdict.expectations.compared
        expectations.met verdict.expectations.met
        expectations.unknown verdict.expectations.unknown
        macos.version evidence.macos.version
        macos.build evidence.macos.build
        macos.rdma_enabled evidence.macos.rdma_enabled
        macos.sleep_minutes evidence.macos.sleep_minutes
        """,
    ),
    *_named(
        Kind.EQUAL,
        Of.ADAPTER,
        f"""
        @ {_DEVICE}
        name @.name {_NLDEV}.name {_VERBS}.name
        firmware @.firmware {_NLDEV}.firmware {_VERBS}.firmware
        hca_type @.hca_type
        board_id @.board_id
        hw_rev @.hw_rev
        parent @.parent
        protocol {_NLDEV}.protocol
        abi evidence.sysfs.uverbs[].abi_version {_NLDEV}.chardev.abi_version
        limits {_VERBS}.limits
        @ {_DEVICE}.pci
        pci.address @.address
        pci.class @.pci_class
        pci.numa_node @.numa_node
        pci.speed @.current_link_speed
        pci.width @.current_link_width
        pci.max_speed @.max_link_speed
        pci.max_width @.max_link_width
        @ evidence.system.paths[]
        pci.slot_speed @.slot_max_link_speed
        pci.slot_width @.slot_max_link_width
        pci.local_cpus @.local_cpus
        pci.iommu_domain @.iommu_domain
        pci.place evidence.topology.adapters[].place
        @ evidence.pci.functions[]
        pci.express @.express
        pci.acs @.acs.enabled
        pci.ats @.ats
        @ evidence.devlink.devices[]
        devlink.fixed @.info.fixed
        devlink.running @.info.running
        devlink.stored @.info.stored
        devlink.enable_roce @.enable_roce
        devlink.enable_iwarp @.enable_iwarp
        devlink.eswitch @.eswitch
        @ evidence.process.nodes[]
        node.mode @.mode
        node.uid @.uid
        node.gid @.gid
        node.openable @.openable
        """,
    ),
    *_named(
        Kind.EQUAL,
        Of.PORT,
        f"""
        gid_index verdict.ports[].route_gid_index
        @ {_DEVICE}.ports[]
        state @.state {_NLDEV}.ports[].state {_VERBS}.ports[].state
        phys_state @.phys_state {_NLDEV}.ports[].phys_state {_VERBS}.ports[].phys_state
        rate @.rate
        pkeys @.pkeys
        sm_lid @.sm_lid
        sm_sl @.sm_sl
        lid_mask_count @.lid_mask_count
        gid_table @.gids.entries {_VERBS}.ports[].gids
        gid_table_length @.gids.length
        traffic_class @.traffic_class
        ttl @.ttl
        @ {_VERBS}.ports[]
        max_mtu @.max_mtu
        active_mtu @.active_mtu
        @ evidence.netdev.netdevs[]
        netdev.name {_NLDEV}.ports[].netdev verdict.ports[].netdev
        netdev.mtu @.mtu evidence.sysfs.netdevs[].mtu evidence.mac_network.interfaces[].mtu
        netdev.operstate @.operstate evidence.sysfs.netdevs[].operstate
        netdev.admin_up @.admin_up evidence.mac_network.interfaces[].up
        netdev.carrier @.carrier
        netdev.kind @.kind
        netdev.master @.master
        netdev.vlan_id @.vlan_id
        netdev.vlan_protocol @.vlan_protocol
        netdev.arp_ignore @.arp_ignore
        netdev.rp_filter @.rp_filter
        netdev.arp_filter @.arp_filter
        netdev.hop_limit @.hop_limit
        netdev.xdp @.xdp
        @ evidence.dcb.netdevs[]
        lossless.pfc @.ieee.pfc.enabled
        lossless.classes @.ieee.ets.class_of
        lossless.shares @.ieee.ets.bandwidth_percent
        lossless.transmission @.ieee.ets.transmission
        lossless.apps @.ieee.apps
        lossless.buffers @.ieee.buffers
        lossless.dcbx @.ieee.dcbx
        lossless.trust @.trust
        lossless.app_trust @.ieee.trust
        lossless.peer_pfc @.ieee.peer_pfc.enabled
        lossless.peer_classes @.ieee.peer_ets.class_of
        lossless.peer_apps @.ieee.peer_apps
        @ evidence.ethtool.netdevs[]
        link.autoneg @.modes.autoneg
        link.speed_mbps @.modes.speed_mbps
        link.lanes @.modes.lanes
        link.duplex @.modes.duplex
        link.supported @.modes.supported
        link.advertised @.modes.advertised
        link.peer @.modes.peer
        link.fec @.fec.active
        link.fec_modes @.fec.modes
        link.pause.rx @.pause.rx
        link.pause.tx @.pause.tx
        link.rings.rx @.rings.rx
        link.rings.tx @.rings.tx
        """,
    ),
    *_named(
        Kind.EQUAL,
        Of.GPU,
        """
        @ evidence.topology.gpus[]
        address @.address
        driver @.driver
        numa_node @.numa_node
        place @.place
        width @.current_link_width
        max_width @.max_link_width
        max_speed @.max_link_speed
        """,
    ),
    *_named(Kind.IDENTITY, Of.HOST, "hostname host.hostname"),
    *_named(
        Kind.IDENTITY,
        Of.ADAPTER,
        f"""
        node_guid {_DEVICE}.node_guid {_NLDEV}.node_guid {_VERBS}.node_guid
        system_guid {_DEVICE}.sys_image_guid {_NLDEV}.sys_image_guid {_VERBS}.sys_image_guid
        """,
    ),
    *_named(
        Kind.IDENTITY,
        Of.PORT,
        f"""
        lid {_DEVICE}.ports[].lid {_NLDEV}.ports[].lid {_VERBS}.ports[].lid
        route_gid verdict.ports[].route_gid
        netdev.mac evidence.netdev.netdevs[].mac evidence.sysfs.netdevs[].mac
        """,
    ),
    *_named(Kind.MAY_DIFFER, Of.HOST, "version tool.version"),
    *_named(
        Kind.MAY_DIFFER,
        Of.PORT,
        "networks evidence.netdev.netdevs[].addresses evidence.mac_network.interfaces[].addresses",
    ),
    *_covered(
        Kind.EQUAL,
        """
        evidence.process.environment evidence.pci.functions[] evidence.topology.gpus[]
        evidence.topology.adapters[].physical_function evidence.vfs evidence.dcb.netdevs[]
        evidence.netdev.bonds evidence.ethtool.netdevs[] evidence.sysfs.candidates
        evidence.sysfs.uverbs[] evidence.devlink.devices[] evidence.process.nodes[]
        evidence.system.paths[] evidence.thunderbolt.buses[]
        evidence.mac_network.interfaces[] evidence.mac_network.hardware_ports
        evidence.routing.rules evidence.routing.links[].no_arp
        evidence.system.limits.rdma_cgroups evidence.modules.netdevs[].module
        evidence.system.limits.cgroups
        """,
    ),
    *_covered(
        Kind.IDENTITY,
        """
        host.sample host.recorded evidence.sysfs.devices[].node_desc evidence.naming
        evidence.sysfs.devices[].ports[].gids.entries[].gid
        evidence.verbs.devices[].ports[].gids[].gid
        evidence.netdev.netdevs[].addresses evidence.routing.routes
        evidence.netdev.bonds[].partner_mac evidence.netdev.bonds[].legs[].partner_mac
        evidence.mac_network.interfaces[].mac evidence.mac_network.interfaces[].addresses
        evidence.ioreg.interfaces[].node_guid evidence.thunderbolt.buses[].domain_uuid
        evidence.thunderbolt.buses[].peers evidence.vfs.physical[].functions[].mac
        evidence.vfs.physical[].functions[].node_guid evidence.vfs.physical[].functions[].port_guid
        """,
    ),
    *_covered(
        Kind.MAY_DIFFER,
        """
        schema_version tool verdict evidence.sysfs.devices[] evidence.nldev.devices[]
        evidence.nldev.unreadable evidence.verbs evidence.sysfs.netdevs evidence.netdev.netdevs[]
        evidence.routing
        evidence.process evidence.system evidence.libraries evidence.modules evidence.ioreg
        evidence.macos evidence.topology.adapters[] evidence.devlink.devices[].devices
        """,
    ),
    *_covered(
        Kind.NOISE,
        """
        generated_at evidence.kernel_log evidence.mac_log evidence.macos.boot_seconds
        evidence.programs
        evidence.macos.panics evidence.sysfs.netdevs[].ifindex evidence.sysfs.uverbs[].dev
        evidence.sysfs.uverbs[].name evidence.nldev.devices[].index
        evidence.nldev.devices[].resources evidence.nldev.devices[].ports[].netdev_index
        evidence.nldev.devices[].chardev evidence.netdev.netdevs[].ifindex
        evidence.netdev.netdevs[].carrier_changes evidence.netdev.bonds[].legs[].failures
        evidence.netdev.bonds[].aggregator evidence.netdev.bonds[].legs[].aggregator
        evidence.process.netns evidence.process.nodes[].name evidence.process.nodes[].dev
        evidence.system.limits.ipv4_neighbours evidence.system.limits.ipv6_neighbours
        evidence.system.limits.rdma_cgroups[].folder evidence.system.limits.rdma_cgroups[].handles
        evidence.system.limits.rdma_cgroups[].objects
        evidence.system.limits.rdma_cgroups[].refused_handles
        evidence.system.limits.rdma_cgroups[].refused_objects
        evidence.system.limits.cgroups[].folder evidence.system.limits.cgroups[].processes
        evidence.system.limits.committed.promised evidence.system.limits.connections.entries
        evidence.system.ancestors evidence.system.asked_pid
        evidence.verbs.pid evidence.verbs.unanswered evidence.libraries.pid
        evidence.routing.links[].ifindex evidence.ethtool.netdevs[].link
        evidence.devlink.devices[].reporters evidence.modules.netdevs[].module.temperature_c
        evidence.modules.netdevs[].module.voltage_v evidence.modules.netdevs[].module.lanes
        evidence.modules.netdevs[].uncorrectable_blocks evidence.ioreg.interfaces[]
        evidence.ioreg.ip_ports evidence.ioreg.protection_domains evidence.ioreg.queue_pairs
        evidence.pci.functions[].iommu_group evidence.topology.gpus[].current_link_speed
        """,
    ),
)


def kind_of(path: str) -> Kind | None:
    """Of a field by its path, by the row with the longest path that covers it."""
    row = _covering(path)
    return None if row is None else _BY_PATH[row]


def is_named(path: str) -> bool:
    """Whether a row with a name reads the field: rdmadiag.fleet.fact_table has its value."""
    return _covering(path) in _NAMED


def _covering(path: str) -> str | None:
    while path:
        if path in _BY_PATH:
            return path
        cut = max(path.rfind("."), path.rfind("[]"), path.rfind("{}"))
        path = path[: max(cut, 0)]
    return None


def source_of(of: Of, name: str) -> str | None:
    """The source whose word a fact is in the first place: "sysfs"; None of what is no evidence."""
    return _SOURCES.get((of, name))


_BY_PATH: Final = {
    path: fact.kind
    for named in (True, False)
    for fact in FACTS
    for path in fact.paths
    if (fact.name is not None) is named
}
"""A row without a name before one with it, which may read a part alone: networks of addresses."""

_NAMED: Final = frozenset(path for fact in FACTS if fact.name for path in fact.paths) - frozenset(
    path for fact in FACTS if not fact.name for path in fact.paths
)

_EVIDENCE: Final = "evidence."
_SOURCES: Final = {
    (fact.of, fact.name): next(
        (
            path.removeprefix(_EVIDENCE).partition(".")[0]
            for path in fact.paths
            if path.startswith(_EVIDENCE)
        ),
        None,
    )
    for fact in FACTS
    if fact.name
}
