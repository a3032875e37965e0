"""Needs of what is around devices: GPUs, the PCI fabric, limits, and a Mac's ports."""

from collections.abc import Iterator

from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.pci import Role
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.needs.need import Where, host_wide, part
from rdmadiag.view.cabling import Generation, generation, thunderbolt_ports
from rdmadiag.view.mac_resources import in_use
from rdmadiag.view.pci import function_of
from rdmadiag.view.reconcile import Protocol
from rdmadiag.view.unshown import FAILED


def listed_gpus(case: Case) -> Iterator[Where]:
    """GPUs, and of a host that has one whether its driver's half for RDMA is there."""
    yield from part("system")(case)
    system = case.evidence.system
    if isinstance(system, Missing):
        return
    unread = system.gpus.peermem
    answers = (Why.ABSENT, Why.NOT_COLLECTED)
    if isinstance(unread, Missing) and unread.why not in answers:
        yield unread, None, None


def gpu_memory(case: Case) -> Iterator[Where]:
    """Which clients ib_core has for peer memory, and what DMA-BUF needs."""
    system = case.evidence.system
    if isinstance(system, Missing) or not system.gpus.functions:
        return
    gpus = system.gpus
    if isinstance(gpus.memory_peers, Missing) and gpus.memory_peers.why is not Why.ABSENT:
        yield gpus.memory_peers, None, None
    yield from host_wide(gpus.open_driver, system.kernel)


def gpu_parameters(case: Case) -> Iterator[Where]:
    """What NVIDIA's driver was loaded with, and whether GDRCopy's is."""
    yield from listed_gpus(case)
    system = case.evidence.system
    if isinstance(system, Missing) or not system.gpus.functions:
        return
    for value in (system.gpus.parameters, system.gpus.gdrdrv):
        if isinstance(value, Missing):
            yield value, None, None
            return
    if not isinstance(system.gpus.parameters, Missing):
        yield from host_wide(system.gpus.parameters.peer_mapping)


def host_limits(case: Case) -> Iterator[Where]:
    """Of neighbours, ports, files and the rdma cgroup; a table is not in every namespace."""
    yield from part("system.limits")(case)
    system = case.evidence.system
    limits = system if isinstance(system, Missing) else system.limits
    if not isinstance(limits, Missing):
        tables = (limits.ipv4_neighbours, limits.ipv6_neighbours)
        rest = (limits.local_ports, limits.open_files, limits.rdma_cgroups)
        yield from host_wide(*(each.most for each in tables), *rest)
        if isinstance(limits.committed, Missing):
            yield from host_wide(limits.committed)
        else:
            yield from host_wide(limits.committed.most, limits.committed.promised)
        if not isinstance(limits.connections, Missing):
            yield from host_wide(limits.connections.most, limits.connections.entries)


def cgroup_limits(case: Case) -> Iterator[Where]:
    """Those of each device, and what is in use of them."""
    yield from part("system.limits")(case)
    system = case.evidence.system
    limits = system if isinstance(system, Missing) else system.limits
    if isinstance(limits, Missing):
        return
    yield from host_wide(limits.rdma_cgroups)
    names = {device.name for device in case.devices}
    for row in present(limits.rdma_cgroups):
        for most, used in ((row.most_handles, row.handles), (row.most_objects, row.objects)):
            if row.device in names and most is not None and isinstance(used, Missing):
                yield used, row.device, None
        if row.device in names:
            yield from host_wide(row.refused_handles, row.refused_objects)


def room_of_cgroups(case: Case) -> Iterator[Where]:
    """Processes, processors and memory of this process's cgroup and of those above it."""
    yield from part("system.limits")(case)
    system = case.evidence.system
    limits = system if isinstance(system, Missing) else system.limits
    if not isinstance(limits, Missing):
        yield from host_wide(limits.cgroups)
        for each in present(limits.cgroups):
            yield from host_wide(each.most_processes, each.processes, each.cpus, each.memory)


def open_files(case: Case) -> Iterator[Where]:
    """Of this process, or that of --pid."""
    yield from part("system.limits")(case)
    system = case.evidence.system
    limits = system if isinstance(system, Missing) else system.limits
    if not isinstance(limits, Missing):
        yield from host_wide(limits.open_files)


def pci_config(case: Case) -> Iterator[Where]:
    """Configuration space of each device's function."""
    for device in case.devices:
        function = function_of(device, case.evidence)
        if isinstance(function, Missing):
            yield function, device.name, None
        elif function is not None and (missing := _unread_config(function.express)):
            yield missing, device.name, None


def access_control(case: Case) -> Iterator[Where]:
    """Of the bridges above GPUs and adapters."""
    yield from part("pci.functions", (Why.ABSENT,))(case)
    facts = case.evidence.pci
    functions = () if isinstance(facts, Missing) else tuple(present(facts.functions))
    if not any(each.role is Role.GPU for each in functions):
        return
    for each in functions:
        if each.role is Role.BRIDGE and (missing := _unread_config(each.acs)):
            yield missing, None, None
            return


def _unread_config(capability: object) -> Missing | None:
    """Why it is not known what `capability` is; that a function has none is known."""
    if isinstance(capability, Missing) and capability.why is not Why.ABSENT:
        return capability
    return None


def link_speeds(case: Case) -> Iterator[Where]:
    """Of each Thunderbolt bus."""
    profile = case.evidence.thunderbolt
    for bus in () if isinstance(profile, Missing) else profile.buses:
        yield from host_wide(bus.speed_gbps)


def topology(case: Case) -> Iterator[Where]:
    """Where GPUs and adapters stand; a host without PCI has no GPU."""
    yield from part("topology")(case)
    facts = case.evidence.topology
    if isinstance(facts, Missing):
        return
    for value in (facts.gpus, facts.adapters):
        if isinstance(value, Missing) and value.why is not Why.ABSENT:
            yield value, None, None
        for each in () if isinstance(value, Missing) else value:
            if isinstance(each.place, Missing) and each.place.why in FAILED:
                yield each.place, None, None  # an adapter that is not seen may be the nearest


def receptacles(case: Case) -> Iterator[Where]:
    """Which interface and which bus each one has."""
    yield from part("mac_network.hardware_ports")(case)
    profile = case.evidence.thunderbolt
    for bus in () if isinstance(profile, Missing) else profile.buses:
        yield from host_wide(bus.receptacle)


def registry_links(case: Case) -> Iterator[Where]:
    """How often the link of each interface came up."""
    yield from part("ioreg.ip_ports")(case)
    registry = case.evidence.ioreg
    ports = registry if isinstance(registry, Missing) else registry.ip_ports
    for each in () if isinstance(ports, Missing) else ports:
        yield from host_wide(each.netdev, each.link_active_count)


def hardware_generation(case: Case) -> Iterator[Where]:
    """Whether this Mac's hardware can do RDMA."""
    if generation(case.evidence) is Generation.UNKNOWN:
        yield from link_speeds(case)
        yield from part("thunderbolt")(case)
        yield from part("mac_log")(case)


def peers(case: Case) -> Iterator[Where]:
    """What the Macs at the other ends offer."""
    for _, port, cable in thunderbolt_ports(case.ports, case.evidence):
        for peer in cable.hosts:
            if isinstance(peer.protocols, Missing):
                yield peer.protocols, port.device, port.number


def mac_resources(case: Case) -> Iterator[Where]:
    """What is in use of a Thunderbolt device, and how much there may be."""
    for device in case.devices:
        if any(port.protocol is Protocol.THUNDERBOLT for port in device.ports):
            uses = in_use(device, case.evidence)
            if isinstance(uses, Missing):
                yield uses, device.name, None
