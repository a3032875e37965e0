"""What rules need to have been read: one row each, with where and why it could not be.

A rule whose need is not met is skipped, at the device or port where it is not, or on the whole
host: it can then neither find what is not there nor pass what it did not see.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.dcb import Ieee
from rdmadiag.facts.devlink import DevlinkDevice
from rdmadiag.facts.ethtool import NetdevEthtool
from rdmadiag.facts.evidence import LINUX_ONLY, MACOS_ONLY, NOT_ON_MACOS, Evidence
from rdmadiag.facts.gid import Family, Scope
from rdmadiag.facts.pci import Role
from rdmadiag.frozen import dataclass
from rdmadiag.gid.netdev import NetDevState
from rdmadiag.preflight.case import Case, Lack
from rdmadiag.view.access import Provider, library_need, node_access, node_number, provider
from rdmadiag.view.cabling import Generation, generation, thunderbolt_ports
from rdmadiag.view.ethernet import links_below
from rdmadiag.view.lossless import lossless_ports
from rdmadiag.view.mac_resources import in_use
from rdmadiag.view.modules import modules_below
from rdmadiag.view.pci import function_of
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol, unshown
from rdmadiag.view.unshown import FAILED

Where = tuple[Missing, str | None, int | None]  # why, and of which device and port


@dataclass(frozen=True, slots=True)
class Need:
    """Something that rules need to have been read."""

    name: str
    unmet: Callable[[Case], Iterable[Where]]
    said_by: tuple[str, ...] = ()  # rules, but source-failed, with a finding where it is not met
    in_part: bool = False  # what was read of it is judged all the same
    for_root: bool = False  # refused to an ordinary user: how the host is meant to be
    source: str | None = None

    def lacks(self, case: Case) -> Iterator[Lack]:
        """Where it is not met, and why."""
        for missing, device, port in self.unmet(case):
            if missing in (LINUX_ONLY, MACOS_ONLY, NOT_ON_MACOS):
                continue  # no system needs what another one has
            if missing.why in (Why.ABSENT, Why.UNSUPPORTED) and _has_no_device(case):
                continue  # nor does a host without devices need what would show them
            yield Lack(self.name, missing, device, port)

    def failed(self, missing: Missing) -> bool:
        """Whether it could have been read, and was not: the verdict is unknown for it."""
        return missing.why in FAILED and not (self.for_root and missing.why is Why.DENIED)


# --- sources, and parts of them ---------------------------------------------------------------


def _part(path: str, answers: Collection[Why] = ()) -> Callable[[Case], Iterator[Where]]:
    """The value at `path` of the evidence; `answers` are reasons that are an answer."""

    def unmet(case: Case) -> Iterator[Where]:
        value: Any = case.evidence
        *way, last = path.split(".")
        for name in way:
            value = getattr(value, name)
            if isinstance(value, Missing):
                yield value, None, None
                return
        value = getattr(value, last)
        if isinstance(value, Missing) and value.why not in answers:
            yield value, None, None

    return unmet


# --- devices and ports ------------------------------------------------------------------------


def _list_of_devices(evidence: Evidence) -> Missing | None:
    """Why it is not known which devices there are."""
    if evidence.is_mac:
        verbs = evidence.verbs
        if isinstance(verbs, Missing):
            return verbs
        stopped = verbs.unanswered
        if stopped is None:
            return None
        why = Why.TIMEOUT if stopped.was_killed else Why.MALFORMED
        return Missing(why, f"{stopped.call}: {stopped.end}")
    if isinstance(evidence.sysfs, Missing):
        return evidence.sysfs
    listed = evidence.sysfs.devices
    return listed if isinstance(listed, Missing) and listed.why is not Why.ABSENT else None


def _has_no_device(case: Case) -> bool:
    """On Linux, where no other rule than no-rdma-device is about such a host."""
    if case.devices or case.evidence.is_mac:
        return False
    return _list_of_devices(case.evidence) is None


def _devices(case: Case) -> Iterator[Where]:
    unread = _list_of_devices(case.evidence)
    if unread:
        yield unread, None, None


def _ports(case: Case) -> Iterator[Where]:
    """The list of devices, each one's ports, and what kind of port each is."""
    yield from _devices(case)
    for device in case.devices:
        for missing in _unread_ports(device)[:1] if not device.ports else ():
            yield missing, device.name, None
        for port in device.ports:
            if port.protocol is Protocol.UNKNOWN and isinstance(port.link_layer, Missing):
                yield port.link_layer, device.name, port.number


def _unread_ports(device: DeviceView) -> list[Missing]:
    witnesses = (device.sysfs, device.nldev, device.verbs)
    return [each.ports for each in witnesses if each and isinstance(each.ports, Missing)]


def _of_ports(
    value: Callable[[PortView], Any], *protocols: Protocol
) -> Callable[[Case], Iterator[Where]]:
    """A value of each port, of those of `protocols` alone where some are named."""

    def unmet(case: Case) -> Iterator[Where]:
        for _, port in case.ports:
            if not protocols or port.protocol in protocols:
                found = value(port)
                if isinstance(found, Missing):
                    yield found, port.device, port.number

    return unmet


def _partition_keys(case: Case) -> Iterator[Where]:
    """sysfs alone has them."""
    for _, port in case.ports:
        if port.protocol is Protocol.INFINIBAND:
            keys = port.sysfs.pkeys if port.sysfs else unshown(case.evidence, "port")
            if isinstance(keys, Missing):
                yield keys, port.device, port.number


def _gids(port: PortView) -> Missing | None:
    """Why not the whole table is known."""
    if isinstance(port.gids, Missing):
        return port.gids
    types = (entry.type for entry in port.gids.entries)
    unread = (each for each in types if isinstance(each, Missing) and each.why in FAILED)
    return next(iter(port.gids.unreadable.values()), next(unread, None))


def _gid_netdevs(case: Case) -> Iterator[Where]:
    """The netdevs that GIDs name, and whether they are here, and up."""
    for device, port in case.ports:
        if port.protocol is not Protocol.ROCE:
            continue
        named = [each.netdev for each in port.entries]
        table = port.sysfs.gids if port.sysfs else unshown(case.evidence, "port")
        if isinstance(table, Missing) and any(isinstance(each, Missing) for each in named):
            # verbs gives indexes: of a netdev that is not in this namespace there is no name.
            yield table, port.device, port.number
            continue
        unread = [each for each in named if isinstance(each, Missing) and each.why in FAILED]
        if unread:
            yield unread[0], port.device, port.number
        elif NetDevState.UNKNOWN in port.netdevs.values():
            own = device.nldev.ports if device.nldev else None
            for source in (case.evidence.netdev, case.evidence.process, case.evidence.nldev, own):
                if isinstance(source, Missing):
                    yield source, port.device, port.number
                    break


def _mtus_of_netdevs(case: Case) -> Iterator[Where]:
    netdev = case.evidence.netdev
    for each in () if isinstance(netdev, Missing) else netdev.netdevs:
        yield from _host_wide(each.mtu)


def _rp_filters(case: Case) -> Iterator[Where]:
    """That of every netdev, and of each one's own."""
    yield from _part("netdev.rp_filter")(case)
    netdev = case.evidence.netdev
    for each in () if isinstance(netdev, Missing) else netdev.netdevs:
        yield from _host_wide(each.rp_filter)


def _tables(case: Case) -> Iterator[Where]:
    """Rules and routes."""
    yield from _part("routing.rules")(case)
    if not isinstance(case.evidence.routing, Missing):
        yield from _part("routing.routes")(case)


def _traffic_control(case: Case) -> Iterator[Where]:
    """Qdiscs, and the filters of netdevs that have a place for them."""
    yield from _part("routing.traffic_control")(case)
    routing = case.evidence.routing
    if not isinstance(routing, Missing) and not isinstance(routing.traffic_control, Missing):
        yield from _host_wide(routing.traffic_control.filters)


def _dcb(case: Case) -> Iterator[Where]:
    """PFC and what the priorities go by, of the netdev of each active RoCE port.

    The rest of the chain says what it lacks.
    """
    facts = case.evidence.dcb
    for port in lossless_ports(case.devices, case.evidence, {}, ()):
        if isinstance(port.pfc, Missing):
            yield port.pfc, port.device, port.port
        if isinstance(facts, Missing) or isinstance(port.netdev, Missing):
            continue
        settings = facts.netdev(port.netdev)
        ieee = settings.ieee if settings else None
        for app in present(ieee.apps) if isinstance(ieee, Ieee) else ():
            if isinstance(app.selector, Missing):
                yield app.selector, port.device, port.port


def _virtual_functions(case: Case) -> Iterator[Where]:
    """What each physical function's driver has of its virtual ones; some give nothing."""
    yield from _part("vfs")(case)
    vfs = case.evidence.vfs
    for each in () if isinstance(vfs, Missing) else vfs.physical:
        yield from _host_wide(each.functions)


def _link_states(case: Case) -> Iterator[Where]:
    """That of the netdevs of each port that is down."""
    return _of_links(case, lambda link: link.link, active=False)


def _link_modes(case: Case) -> Iterator[Where]:
    """Those of the netdevs of each active port."""
    return _of_links(case, lambda link: link.modes, active=True)


def _pause_settings(case: Case) -> Iterator[Where]:
    """Those of the netdevs of each active port."""
    return _of_links(case, lambda link: link.pause, active=True)


def _of_links(
    case: Case, part: Callable[[NetdevEthtool], object], *, active: bool
) -> Iterator[Where]:
    for device in case.devices:
        for port in device.ports:
            if port.is_active is not active:
                continue
            for link in links_below(device, port, case.evidence):
                found = link if isinstance(link, Missing) else part(link)
                if isinstance(found, Missing):
                    yield found, port.device, port.number


def _modules(case: Case) -> Iterator[Where]:
    """What the module of each port says of itself; that a port has none is an answer.

    Drivers have no errno of their own for that: where the link is down, EIO may be one.
    """
    for device in case.devices:
        for port in device.ports:
            for each in modules_below(device, port, case.evidence):
                found = each if isinstance(each, Missing) else each.module
                if not isinstance(found, Missing) or found.why is Why.ABSENT:
                    continue
                empty = found.why is Why.MALFORMED and not port.is_active
                why = Why.ABSENT if empty else found.why
                yield replace(found, why=why), port.device, port.number


def _reporters(case: Case) -> Iterator[Where]:
    """Those of what each device stands on."""
    return _of_devlink(case, lambda below: below.reporters)


def _firmware_versions(case: Case) -> Iterator[Where]:
    """Running and stored."""
    return _of_devlink(case, lambda below: below.info)


def _of_devlink(case: Case, part: Callable[[DevlinkDevice], object]) -> Iterator[Where]:
    facts = case.evidence.devlink
    if isinstance(facts, Missing):
        yield facts, None, None
        return
    for device in case.devices:
        below = facts.below(device.name)
        found = part(below) if below else None
        if isinstance(found, Missing):
            yield found, device.name, None


def _bonds_of_netdevs(case: Case) -> Iterator[Where]:
    """What says that a netdev is a bond, and which are its legs."""
    netdev = case.evidence.netdev
    for each in () if isinstance(netdev, Missing) else netdev.netdevs:
        yield from _host_wide(each.kind, each.master, each.lower)


def _bonding(case: Case) -> Iterator[Where]:
    """Mode of each bond, and whether it uses each leg."""
    yield from _part("netdev.bonds")(case)
    netdev = case.evidence.netdev
    for bond in () if isinstance(netdev, Missing) else present(netdev.bonds):
        legs = (value for leg in bond.legs for value in (leg.state, leg.mii, leg.aggregator))
        yield from _host_wide(bond.mode, bond.hash_policy, bond.aggregator, *legs)


def _host_wide(*found: object) -> Iterator[Where]:
    """Those of the values that are there, perhaps, and could not be read."""
    for value in found:
        if isinstance(value, Missing) and value.why in FAILED:
            yield value, None, None


def _active_mtus(case: Case) -> Iterator[Where]:
    """As verbs alone shows them."""
    yield from _provider(case)
    for device in case.devices:
        if device.verbs and isinstance(device.verbs.ports, Missing):
            yield device.verbs.ports, device.name, None
        for port in device.ports if device.verbs else ():
            for value in (port.verbs.active_mtu, port.verbs.max_mtu) if port.verbs else ():
                if isinstance(value, Missing):
                    yield value, device.name, port.number


def _gid_addresses(case: Case) -> Iterator[Where]:
    """Whether a netdev has the link-local address that a software device would send from."""
    process = case.evidence.process
    unread = process if isinstance(process, Missing) else process.ipv6
    if not isinstance(unread, Missing):
        return
    for _, port in case.ports:
        entry = port.route_entry if port.is_software else None
        if entry and entry.gid.scope is Scope.LINK_LOCAL and entry.gid.family is Family.IPV6:
            yield unread, port.device, port.number


def _address_flags(case: Case) -> Iterator[Where]:
    """Whether duplicate address detection has failed, or goes on: rtnetlink, or if_inet6."""
    netdev, process = case.evidence.netdev, case.evidence.process
    if not isinstance(netdev, Missing):
        for each in netdev.netdevs:
            for address in each.addresses:
                yield from _host_wide(address.duplicate, address.tentative)
        return
    if isinstance(process, Missing) or isinstance(process.ipv6_addresses, Missing):
        for _, port in case.ports:
            if port.protocol is Protocol.ROCE:
                yield netdev, port.device, port.number


def _software(case: Case) -> Iterator[Where]:
    """Whether a device is made of a netdev: sysfs's `parent`, or nldev's driver."""
    for device in case.devices:
        if device.sysfs is None and isinstance(device.driver, Missing):
            yield unshown(case.evidence, "device"), device.name, None


def _of_devices(value: Callable[[DeviceView], Any]) -> Callable[[Case], Iterator[Where]]:
    def unmet(case: Case) -> Iterator[Where]:
        for device in case.devices:
            found = value(device)
            if isinstance(found, Missing):
                yield found, device.name, None

    return unmet


def _rates(case: Case) -> Iterator[Where]:
    """How fast each port is, and whether and as what it is active, by sysfs, which rules read."""
    for device, port in case.ports:
        known = port.sysfs
        if known is None:
            unread = device.sysfs.ports if device.sysfs else None
            missing = unread if isinstance(unread, Missing) else unshown(case.evidence, "port")
            yield missing, device.name, port.number
            continue
        if isinstance(known.rate, Missing):
            yield known.rate, device.name, port.number
            continue
        for value in (known.rate_gbps, known.state, known.link_layer):
            if isinstance(value, Missing) and value.why in FAILED:
                yield value, device.name, port.number
                break


def _numa(case: Case) -> Iterator[Where]:
    """The NUMA node of each adapter, and the CPUs that are near it."""
    for device in case.devices:
        missing = _pci(device)
        if missing is None and not isinstance(device.pci, Missing):
            node = device.pci.numa_node
            missing = node if isinstance(node, Missing) and node.why in FAILED else None
        if missing:
            yield missing, device.name, None
    system = case.evidence.system
    paths = system if isinstance(system, Missing) else system.paths
    for path in () if isinstance(paths, Missing) else paths:
        for each, _, _ in _host_wide(path.local_cpus):
            yield each, path.device, None


def _board(device: DeviceView) -> Missing | None:
    known = device.sysfs
    values = (known.hca_type, known.board_id, known.firmware) if known else ()
    return next((each for each in values if isinstance(each, Missing) and each.why in FAILED), None)


def _node_guid(device: DeviceView) -> Missing | None:
    """As any witness shows it."""
    values = [each.node_guid for each in (device.sysfs, device.nldev, device.verbs) if each]
    known = [each for each in values if not isinstance(each, Missing)]
    return None if known else next((each for each in values if isinstance(each, Missing)), None)


def _pci(device: DeviceView) -> Missing | None:
    """Why its PCI function is not known; a software device has none."""
    missing = device.pci if isinstance(device.pci, Missing) else None
    has_none = missing and missing.why in (Why.ABSENT, Why.UNSUPPORTED)
    return None if has_none else missing


def _pci_driver(device: DeviceView) -> Missing | None:
    """Why the driver of its PCI function is not known; one without a driver has none."""
    if isinstance(device.pci, Missing):
        return _pci(device)
    driver = device.pci.driver
    return driver if isinstance(driver, Missing) and driver.why is not Why.ABSENT else None


def _pci_link(device: DeviceView) -> Missing | None:
    if isinstance(device.pci, Missing):
        return _pci(device)
    pci = device.pci
    values = (
        pci.current_link_speed,
        pci.current_link_width,
        pci.max_link_speed,
        pci.max_link_width,
    )
    return next((each for each in values if isinstance(each, Missing)), None)


# --- what stands between a process and a device -----------------------------------------------


def _node(case: Case) -> Iterator[Where]:
    for device in case.devices:
        access = node_access(device, case.evidence)
        if isinstance(access, Missing):
            yield access, device.name, None


def _node_open(case: Case) -> Iterator[Where]:
    for device in case.devices:
        access = node_access(device, case.evidence)
        node = None if isinstance(access, Missing) else access.node
        if node and isinstance(node.openable, Missing):
            yield node.openable, device.name, None


def _node_number(case: Case) -> Iterator[Where]:
    for device in case.devices:
        access = node_access(device, case.evidence)
        if isinstance(access, Missing) or access.node is None:
            continue
        for value in (access.node.dev, node_number(device, case.evidence)):
            if isinstance(value, Missing):
                yield value, device.name, None
                break


def _capabilities(case: Case) -> Iterator[Where]:
    """Those of this process, and whether they count for the kernel."""
    yield from _part("process.capabilities")(case)
    process = case.evidence.process
    if not isinstance(process, Missing):
        yield from _host_wide(process.initial_userns)


def _library(case: Case) -> Iterator[Where]:
    for device in case.devices:
        unread = library_need(device, case.evidence)
        if unread:
            yield unread, device.name, None


def _provider(case: Case) -> Iterator[Where]:
    """What the verbs library answers of each device, up to the call that did not return."""
    verbs = case.evidence.verbs
    if isinstance(verbs, Missing):
        yield verbs, None, None
        return
    stopped = verbs.unanswered
    if stopped is None:
        return
    missing = Missing(
        Why.TIMEOUT if stopped.was_killed else Why.MALFORMED, f"{stopped.call}: {stopped.end}"
    )
    if not case.devices:
        yield missing, None, None
    for device in case.devices:
        if provider(device, case.evidence) in _WITHOUT_ANSWER:
            yield missing, device.name, None


_WITHOUT_ANSWER: Final = (Provider.UNKNOWN, Provider.LATE, Provider.WEDGED, Provider.DIED)


def _capabilities_of_devices(case: Case) -> Iterator[Where]:
    """What the stacks that were asked for cannot do without, of each device."""
    if not case.stacks:
        return
    from rdmadiag.view.capabilities import device_capabilities, required, unanswered

    for device in case.devices:
        if missing := unanswered(case.evidence.verbs, device.name):
            yield missing, device.name, None
            continue
        found = device_capabilities(case.evidence.verbs, device.name)
        for name in {stack.name for stack, _ in case.stacks}:
            for row in required(found, name, there=None):
                if isinstance(row.claimed, Missing):
                    yield row.claimed, device.name, None


def _witnesses(case: Case) -> Iterator[Where]:
    for name in ("sysfs", "nldev", "verbs"):
        value = getattr(case.evidence, name)
        if isinstance(value, Missing):
            yield value, None, None
    for device in case.devices:
        for missing in _unread_ports(device):
            yield missing, device.name, None
        for port in device.ports:
            for witness in (port.sysfs, port.nldev, port.verbs):
                if witness and isinstance(witness.state, Missing):
                    yield witness.state, device.name, port.number


# --- what is around devices -------------------------------------------------------------------


def _gpus(case: Case) -> Iterator[Where]:
    """GPUs, and of a host that has one whether its driver's half for RDMA is there."""
    yield from _part("system")(case)
    system = case.evidence.system
    if isinstance(system, Missing):
        return
    unread = system.gpus.peermem
    answers = (Why.ABSENT, Why.NOT_COLLECTED)
    if isinstance(unread, Missing) and unread.why not in answers:
        yield unread, None, None


def _gpu_memory(case: Case) -> Iterator[Where]:
    """Which clients ib_core has for peer memory, and what DMA-BUF needs."""
    system = case.evidence.system
    if isinstance(system, Missing) or not system.gpus.functions:
        return
    gpus = system.gpus
    if isinstance(gpus.memory_peers, Missing) and gpus.memory_peers.why is not Why.ABSENT:
        yield gpus.memory_peers, None, None
    yield from _host_wide(gpus.open_driver, system.kernel)


def _gpu_parameters(case: Case) -> Iterator[Where]:
    """What NVIDIA's driver was loaded with, and whether GDRCopy's is."""
    yield from _gpus(case)
    system = case.evidence.system
    if isinstance(system, Missing) or not system.gpus.functions:
        return
    for value in (system.gpus.parameters, system.gpus.gdrdrv):
        if isinstance(value, Missing):
            yield value, None, None
            return


def _mapped(case: Case) -> Iterator[Where]:
    """Those of the process that was asked for."""
    found = case.evidence.libraries
    if isinstance(found, Missing) and found.why is not Why.NOT_COLLECTED:
        yield found, None, None


def _versions(case: Case) -> Iterator[Where]:
    """Those of the libraries that the process has mapped: files, which not root alone may read."""
    found = case.evidence.libraries
    for each in () if isinstance(found, Missing) else found.mapped:
        if isinstance(each.version, Missing):
            yield each.version, None, None


def _limits(case: Case) -> Iterator[Where]:
    """Of neighbours, ports, files and the rdma cgroup; a table is not in every namespace."""
    yield from _part("system.limits")(case)
    system = case.evidence.system
    limits = system if isinstance(system, Missing) else system.limits
    if not isinstance(limits, Missing):
        tables = (limits.ipv4_neighbours, limits.ipv6_neighbours)
        rest = (limits.local_ports, limits.open_files, limits.rdma_cgroups)
        yield from _host_wide(*(each.most for each in tables), *rest)


def _pci_config(case: Case) -> Iterator[Where]:
    """Configuration space of each device's function."""
    for device in case.devices:
        function = function_of(device, case.evidence)
        if isinstance(function, Missing):
            yield function, device.name, None
        elif function is not None and (missing := _unread_config(function.express)):
            yield missing, device.name, None


def _access_control(case: Case) -> Iterator[Where]:
    """Of the bridges above GPUs and adapters."""
    yield from _part("pci.functions", (Why.ABSENT,))(case)
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


def _link_speeds(case: Case) -> Iterator[Where]:
    profile = case.evidence.thunderbolt
    for bus in () if isinstance(profile, Missing) else profile.buses:
        yield from _host_wide(bus.speed_gbps)


def _topology(case: Case) -> Iterator[Where]:
    """Where GPUs and adapters stand; a host without PCI has no GPU."""
    yield from _part("topology")(case)
    facts = case.evidence.topology
    if isinstance(facts, Missing):
        return
    for value in (facts.gpus, facts.adapters):
        if isinstance(value, Missing) and value.why is not Why.ABSENT:
            yield value, None, None


def _receptacles(case: Case) -> Iterator[Where]:
    """Which interface and which bus each one has."""
    yield from _part("mac_network.hardware_ports")(case)
    profile = case.evidence.thunderbolt
    for bus in () if isinstance(profile, Missing) else profile.buses:
        yield from _host_wide(bus.receptacle)


def _registry_links(case: Case) -> Iterator[Where]:
    """How often the link of each interface came up."""
    yield from _part("ioreg.ip_ports")(case)
    registry = case.evidence.ioreg
    ports = registry if isinstance(registry, Missing) else registry.ip_ports
    for each in () if isinstance(ports, Missing) else ports:
        yield from _host_wide(each.netdev, each.link_active_count)


def _generation(case: Case) -> Iterator[Where]:
    """Whether this Mac's hardware can do RDMA."""
    if generation(case.evidence) is Generation.UNKNOWN:
        yield from _link_speeds(case)
        yield from _part("thunderbolt")(case)
        yield from _part("mac_log")(case)


def _peers(case: Case) -> Iterator[Where]:
    """What the Macs at the other ends offer."""
    for _, port, cable in thunderbolt_ports(case.ports, case.evidence):
        for peer in cable.hosts:
            if isinstance(peer.protocols, Missing):
                yield peer.protocols, port.device, port.number


def _mac_resources(case: Case) -> Iterator[Where]:
    """What is in use of a Thunderbolt device, and how much there may be."""
    for device in case.devices:
        if any(port.protocol is Protocol.THUNDERBOLT for port in device.ports):
            uses = in_use(device, case.evidence)
            if isinstance(uses, Missing):
                yield uses, device.name, None


# --- the table --------------------------------------------------------------------------------

NO_ANSWER: Final = ("provider-wedged", "provider-died", "provider-late")
"""Of one call that did not return, whatever device it was about."""

_NO_GIDS: Final = ("gid-table-unreadable", "thunderbolt-gids-unread")
_CHOSEN: Final = (Why.ABSENT, Why.UNSUPPORTED, Why.NOT_COLLECTED)

_ROWS: Final[dict[str | None, tuple[Need, ...]]] = {
    None: (Need("witnesses", _witnesses, in_part=True),),
    "sysfs": (
        Need("sysfs", _part("sysfs")),
        # What is not listed is not judged; what is, is.
        Need("devices", _devices, NO_ANSWER, in_part=True),
        Need("every device", _devices, NO_ANSWER),
        Need("ports", _ports, (*NO_ANSWER, "device-unreadable"), in_part=True),
        Need("every port", _ports, (*NO_ANSWER, "device-unreadable")),
        Need("port state", _of_ports(lambda port: port.state), ("port-state-unknown",)),
        Need("physical state", _of_ports(lambda port: port.phys_state)),
        Need("rate", _rates),
        Need("SM LID", _of_ports(lambda port: port.sm_lid, Protocol.INFINIBAND)),
        Need("partition keys", _partition_keys),
        Need("GID table", _of_ports(_gids, Protocol.ROCE, Protocol.THUNDERBOLT), _NO_GIDS),
        Need("software device", _software),
        Need("board", _of_devices(_board)),
        Need("node GUID", _of_devices(_node_guid)),
        Need("PCI function", _of_devices(_pci)),
        Need("driver of the PCI function", _of_devices(_pci_driver)),
        Need("PCI link", _of_devices(_pci_link)),
        Need("PCI functions", _part("sysfs.candidates")),
    ),
    "nldev": (
        Need("nldev", _part("nldev")),
        Need("netns mode", _part("nldev.netns_mode")),
    ),
    "netdev": (
        Need("netdev", _part("netdev")),
        Need("arp_ignore", _part("netdev.arp_ignore")),
        Need("rp_filter", _rp_filters),
        Need("netdevs of GIDs", _gid_netdevs),
        Need("bonds of netdevs", _bonds_of_netdevs),
        Need("bonding driver", _bonding),
        Need("MTU of netdevs", _mtus_of_netdevs),
        Need("address flags", _address_flags),
    ),
    "process": (
        Need("process", _part("process")),
        Need("addresses of GIDs", _gid_addresses),
        Need("nodes of /dev/infiniband", _part("process.nodes", (Why.ABSENT,))),
        Need("device node", _node),
        Need("device node's access", _node_open),
        Need("device node's number", _node_number),
        Need("libraries", _library),
        Need("names of providers to load", _part("process.library.configured", (Why.ABSENT,))),
        Need("locked-memory limit", _part("process.memlock"), ("memlock-too-low",)),
        Need("capabilities", _capabilities),
        Need("environment", _part("process.environment")),
        Need("environment, where it is recorded", _part("process.environment", _CHOSEN)),
        Need("netdevs of this namespace", _part("process.netdevs")),
        Need("CPUs of this process", _part("process.cpus_allowed")),
    ),
    "system": (
        Need("CPUs", _part("system.cpus_online")),
        Need("NUMA nodes", _numa),
        Need("way to the root complex", _part("system.paths", (Why.ABSENT,))),
        Need("parent processes", _part("system.ancestors")),
        Need("GPUs", _gpus),
        Need("ways to GPU memory", _gpu_memory),
        Need("parameters of the GPUs' driver", _gpu_parameters),
        Need("limits of this host", _limits),
    ),
    "libraries": (
        Need("libraries of the process of --pid", _mapped, in_part=True, for_root=True),
        Need("versions of these libraries", _versions, in_part=True),
    ),
    "verbs": (
        Need("verbs", _part("verbs")),
        Need("provider", _provider, NO_ANSWER),
        Need("what devices can do", _capabilities_of_devices, NO_ANSWER),
        Need("active MTU", _active_mtus, NO_ANSWER),
    ),
    "kernel_log": (
        Need("kernel log", _part("kernel_log.lines"), ("kernel-log-unreadable",), for_root=True),
    ),
    "routing": (
        Need("routing", _part("routing")),
        Need("routing tables", _tables),
        Need("port mapper", _part("routing.port_mapper")),
        Need("traffic control", _traffic_control),
        Need("packet filter", _part("routing.packet_filter"), for_root=True),
    ),
    "dcb": (Need("DCB settings", _dcb),),
    "vfs": (Need("virtual functions", _virtual_functions),),
    "topology": (Need("PCI topology", _topology),),
    "ethtool": (
        Need("link state", _link_states),
        Need("link modes", _link_modes),
        Need("pause settings", _pause_settings),
    ),
    "modules": (Need("modules", _modules, in_part=True),),
    "devlink": (
        Need("health reporters", _reporters),
        Need("firmware versions", _firmware_versions),
    ),
    "pci": (
        Need("PCI configuration", _pci_config, for_root=True),
        Need("PCI access control", _access_control, in_part=True, for_root=True),
    ),
    "macos": (
        Need("macos", _part("macos")),
        Need(
            "RDMA switch", _part("macos.rdma_enabled", (Why.ABSENT,)), ("rdma-switch-unreadable",)
        ),
        Need("macOS release", _part("macos.version")),
        Need("sleep setting", _part("macos.sleep_minutes")),
        Need("time of boot", _part("macos.boot_seconds")),
        Need("record of attempts", _part("macos.rtr_failed")),
        Need("panic reports", _part("macos.panics"), for_root=True),
    ),
    "ioreg": (
        Need("ioreg", _part("ioreg")),
        Need("resources in use", _mac_resources, ("resources-unknown",)),
        Need("interfaces of the registry", _part("ioreg.interfaces")),
        Need("links of the registry", _registry_links),
    ),
    "thunderbolt": (
        Need("thunderbolt", _part("thunderbolt")),
        Need("hardware generation", _generation),
        Need("peers", _peers, ("thunderbolt-port-down",)),
        Need("link speeds", _link_speeds),
    ),
    "mac_network": (
        Need("interfaces", _part("mac_network.interfaces")),
        Need("receptacles", _receptacles),
    ),
    "mac_log": (Need("mac_log", _part("mac_log")),),
}
"""By the source that shows it, or mostly does."""

NEEDS: Final = {
    need.name: replace(need, source=source) for source, rows in _ROWS.items() for need in rows
}
"""By name, as `docs/rules.md` and documents have it."""

EVERY_PORT: Final = NEEDS["every port"]
