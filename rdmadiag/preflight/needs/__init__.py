"""What rules need to have been read: one row each, with where and why it could not be.

A rule whose need is not met is skipped, at the device or port where it is not, or on the whole
host: it can then neither find what is not there nor pass what it did not see. The functions of
the modules here each yield where one need is not met, and why.
"""

from dataclasses import replace
from typing import Final

from rdmadiag.facts import Why
from rdmadiag.preflight.needs import devices, network, process, surroundings
from rdmadiag.preflight.needs.need import Need, of_devices, of_ports, part
from rdmadiag.view.reconcile import Protocol

NO_ANSWER: Final = ("provider-wedged", "provider-died", "provider-late")
"""Of one call that did not return, whatever device it was about."""

_NO_GIDS: Final = ("gid-table-unreadable", "thunderbolt-gids-unread")
_CHOSEN: Final = (Why.ABSENT, Why.UNSUPPORTED, Why.NOT_COLLECTED)

_ROWS: Final[dict[str | None, tuple[Need, ...]]] = {
    None: (Need("witnesses", devices.witnesses, in_part=True),),
    "sysfs": (
        Need("sysfs", part("sysfs")),
        # What is not listed is not judged; what is, is.
        Need("devices", devices.devices, NO_ANSWER, in_part=True),
        Need("every device", devices.devices, NO_ANSWER),
        Need("ports", devices.ports, (*NO_ANSWER, "device-unreadable"), in_part=True),
        Need("every port", devices.ports, (*NO_ANSWER, "device-unreadable")),
        Need("port state", of_ports(lambda port: port.state), ("port-state-unknown",)),
        Need("physical state", of_ports(lambda port: port.phys_state)),
        Need("rate", devices.rates),
        Need("SM LID", of_ports(lambda port: port.sm_lid, Protocol.INFINIBAND)),
        Need("partition keys", devices.partition_keys),
        Need(
            "GID table", of_ports(devices.gid_table, Protocol.ROCE, Protocol.THUNDERBOLT), _NO_GIDS
        ),
        Need("software device", devices.software_devices),
        Need("board", of_devices(devices.board)),
        Need("node GUID", of_devices(devices.node_guid)),
        Need("PCI function", of_devices(devices.pci_function)),
        Need("driver of the PCI function", of_devices(devices.pci_driver)),
        Need("PCI link", of_devices(devices.pci_link)),
        Need("PCI functions", part("sysfs.candidates")),
    ),
    "nldev": (
        Need("nldev", part("nldev")),
        Need("netdev of software ports", of_ports(devices.own_netdev, Protocol.ROCE)),
        Need("netns mode", part("nldev.netns_mode")),
    ),
    "netdev": (
        Need("netdev", part("netdev")),
        Need("arp_ignore", part("netdev.arp_ignore")),
        Need("rp_filter", network.rp_filters),
        Need("hop limits", network.hop_limits),
        Need("programs of XDP", network.programs_of_xdp),
        Need("netdevs of GIDs", network.gid_netdevs),
        Need("bonds of netdevs", network.bonds_of_netdevs),
        Need("bonding driver", network.bonding),
        Need("MTU of netdevs", network.mtus_of_netdevs),
        Need("address flags", network.address_flags),
    ),
    "process": (
        Need("process", part("process")),
        Need("addresses of GIDs", network.gid_addresses),
        Need("nodes of /dev/infiniband", part("process.nodes", (Why.ABSENT,))),
        Need("device node", process.device_nodes),
        Need("device node's access", process.node_open),
        Need("device node's number", process.number_of_node),
        Need("libraries", process.libraries),
        Need("names of providers to load", part("process.library.configured", (Why.ABSENT,))),
        Need("settings of rsockets", part("process.rsocket_inline", (Why.ABSENT,))),
        Need("locked-memory limit", part("process.memlock"), ("memlock-too-low",)),
        Need("capabilities", process.process_capabilities),
        Need("environment", part("process.environment")),
        Need("environment, where it is recorded", part("process.environment", _CHOSEN)),
        Need("netdevs of this namespace", part("process.netdevs")),
        Need("CPUs of this process", part("process.cpus_allowed")),
    ),
    "system": (
        Need("CPUs", part("system.cpus_online")),
        Need("NUMA nodes", devices.numa_nodes),
        Need("way to the root complex", part("system.paths", (Why.ABSENT,))),
        Need("parent processes", part("system.ancestors")),
        Need("GPUs", surroundings.listed_gpus),
        Need("ways to GPU memory", surroundings.gpu_memory),
        Need("parameters of the GPUs' driver", surroundings.gpu_parameters),
        Need("limits of this host", surroundings.host_limits),
        Need("limits of the rdma cgroup", surroundings.cgroup_limits),
        Need("limit on open files", surroundings.open_files),
        Need("limits of the cgroup", surroundings.room_of_cgroups),
    ),
    "libraries": (
        Need(
            "libraries of the process of --pid",
            process.mapped_libraries,
            in_part=True,
            for_root=True,
        ),
        Need("versions of these libraries", process.versions_of_libraries, in_part=True),
    ),
    "verbs": (
        Need("verbs", part("verbs")),
        Need("provider", process.answers_of_provider, NO_ANSWER),
        Need("what devices can do", process.device_abilities, NO_ANSWER),
        Need("active MTU", devices.active_mtus, NO_ANSWER),
    ),
    "kernel_log": (
        Need("kernel log", part("kernel_log.lines"), ("kernel-log-unreadable",), for_root=True),
    ),
    "routing": (
        Need("routing", part("routing")),
        Need("routing tables", network.routing_tables),
        Need("port mapper", part("routing.port_mapper")),
        Need("traffic control", network.traffic_control),
        Need("packet filter", part("routing.packet_filter"), for_root=True),
        Need("how neighbours are asked for", part("routing.soliciting")),
    ),
    "naming": (Need("names of /etc/hosts", network.names_in_files),),
    "programs": (Need("programs with a device open", part("programs.holders"), for_root=True),),
    "dcb": (Need("DCB settings", network.dcb),),
    "vfs": (Need("virtual functions", devices.virtual_functions),),
    "topology": (Need("PCI topology", surroundings.topology),),
    "ethtool": (
        Need("link state", network.link_states),
        Need("link modes", network.link_modes),
        Need("pause settings", network.pause_settings),
    ),
    "modules": (Need("modules", devices.transceivers, in_part=True),),
    "devlink": (
        Need("health reporters", devices.health_reporters),
        Need("firmware versions", devices.firmware_versions),
    ),
    "pci": (
        Need("PCI configuration", surroundings.pci_config, for_root=True),
        Need("PCI access control", surroundings.access_control, in_part=True, for_root=True),
    ),
    "macos": (
        Need("macos", part("macos")),
        Need("RDMA switch", part("macos.rdma_enabled", (Why.ABSENT,)), ("rdma-switch-unreadable",)),
        Need("macOS release", part("macos.version")),
        Need("sleep setting", part("macos.sleep_minutes")),
        Need("time of boot", part("macos.boot_seconds")),
        Need("record of attempts", part("macos.rtr_failed")),
        Need("panic reports", part("macos.panics"), for_root=True),
    ),
    "ioreg": (
        Need("ioreg", part("ioreg")),
        Need("resources in use", surroundings.mac_resources, ("resources-unknown",)),
        Need("interfaces of the registry", part("ioreg.interfaces")),
        Need("links of the registry", surroundings.registry_links),
    ),
    "thunderbolt": (
        Need("thunderbolt", part("thunderbolt")),
        Need("hardware generation", surroundings.hardware_generation),
        Need("peers", surroundings.peers, ("thunderbolt-port-down",)),
        Need("link speeds", surroundings.link_speeds),
    ),
    "mac_network": (
        Need("interfaces", part("mac_network.interfaces")),
        Need("receptacles", surroundings.receptacles),
    ),
    "mac_log": (Need("mac_log", part("mac_log")),),
}
"""By the source that shows it, or mostly does."""

NEEDS: Final = {
    need.name: replace(need, source=source) for source, rows in _ROWS.items() for need in rows
}
"""By name, as `docs/rules.md` and documents have it."""

EVERY_PORT: Final = NEEDS["every port"]
