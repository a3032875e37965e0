"""Needs of devices and ports, and of what each stands on."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.devlink import DevlinkDevice
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.needs.need import Where, host_wide, list_of_devices, part, unread_ports
from rdmadiag.preflight.needs.process import answers_of_provider
from rdmadiag.view.modules import modules_below
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol, unshown
from rdmadiag.view.unshown import FAILED


def devices(case: Case) -> Iterator[Where]:
    """The list of devices."""
    unread = list_of_devices(case.evidence)
    if unread:
        yield unread, None, None


def ports(case: Case) -> Iterator[Where]:
    """The list of devices, each one's ports, and what kind of port each is."""
    yield from devices(case)
    for device in case.devices:
        for missing in unread_ports(device)[:1] if not device.ports else ():
            yield missing, device.name, None
        for port in device.ports:
            if port.protocol is Protocol.UNKNOWN and isinstance(port.link_layer, Missing):
                yield port.link_layer, device.name, port.number


def partition_keys(case: Case) -> Iterator[Where]:
    """sysfs alone has them."""
    for _, port in case.ports:
        if port.protocol is Protocol.INFINIBAND:
            keys = port.sysfs.pkeys if port.sysfs else unshown(case.evidence, "port")
            if isinstance(keys, Missing):
                yield keys, port.device, port.number


def gid_table(port: PortView) -> Missing | None:
    """Why not the whole table is known."""
    if isinstance(port.gids, Missing):
        return port.gids
    types = (entry.type for entry in port.gids.entries)
    unread = (each for each in types if isinstance(each, Missing) and each.why in FAILED)
    return next(iter(port.gids.unreadable.values()), next(unread, None))


def own_netdev(port: PortView) -> Missing | None:
    """Why nldev does not say on which netdev a software port is; none here is an answer."""
    found = port.nldev.netdev if port.nldev else None
    unread = isinstance(found, Missing) and found.why is not Why.ABSENT
    return found if unread and port.is_software and isinstance(found, Missing) else None


def rates(case: Case) -> Iterator[Where]:
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


def active_mtus(case: Case) -> Iterator[Where]:
    """As verbs alone shows them."""
    yield from answers_of_provider(case)
    for device in case.devices:
        if device.verbs and isinstance(device.verbs.ports, Missing):
            yield device.verbs.ports, device.name, None
        for port in device.ports if device.verbs else ():
            for value in (port.verbs.active_mtu, port.verbs.max_mtu) if port.verbs else ():
                if isinstance(value, Missing):
                    yield value, device.name, port.number


def software_devices(case: Case) -> Iterator[Where]:
    """Whether a device is made of a netdev: sysfs's `parent`, or its driver's name."""
    for device in case.devices:
        driver = device.driver
        if not isinstance(driver, Missing) or not isinstance(device.pci, Missing):
            continue
        if device.sysfs is None:
            yield unshown(case.evidence, "device"), device.name, None
        elif isinstance(device.sysfs.parent, Missing) and driver.why in FAILED:
            yield driver, device.name, None  # siw has no `parent`


def board(device: DeviceView) -> Missing | None:
    """Why its type, board or firmware is not known, of those that may be."""
    known = device.sysfs
    values = (known.hca_type, known.board_id, known.firmware) if known else ()
    return next((each for each in values if isinstance(each, Missing) and each.why in FAILED), None)


def node_guid(device: DeviceView) -> Missing | None:
    """As any witness shows it."""
    values = [each.node_guid for each in (device.sysfs, device.nldev, device.verbs) if each]
    known = [each for each in values if not isinstance(each, Missing)]
    return None if known else next((each for each in values if isinstance(each, Missing)), None)


def pci_function(device: DeviceView) -> Missing | None:
    """Why its PCI function is not known; a software device has none."""
    missing = device.pci if isinstance(device.pci, Missing) else None
    has_none = missing and missing.why in (Why.ABSENT, Why.UNSUPPORTED)
    return None if has_none else missing


def pci_driver(device: DeviceView) -> Missing | None:
    """Why the driver of its PCI function is not known; one without a driver has none."""
    if isinstance(device.pci, Missing):
        return pci_function(device)
    driver = device.pci.driver
    return driver if isinstance(driver, Missing) and driver.why is not Why.ABSENT else None


def pci_link(device: DeviceView) -> Missing | None:
    """Why the speed or width of its PCI link is not known."""
    if isinstance(device.pci, Missing):
        return pci_function(device)
    pci = device.pci
    values = (
        pci.current_link_speed,
        pci.current_link_width,
        pci.max_link_speed,
        pci.max_link_width,
    )
    return next((each for each in values if isinstance(each, Missing)), None)


def numa_nodes(case: Case) -> Iterator[Where]:
    """The NUMA node of each adapter, and the CPUs that are near it."""
    for device in case.devices:
        missing = pci_function(device)
        if missing is None and not isinstance(device.pci, Missing):
            node = device.pci.numa_node
            missing = node if isinstance(node, Missing) and node.why in FAILED else None
        if missing:
            yield missing, device.name, None
    system = case.evidence.system
    paths = system if isinstance(system, Missing) else system.paths
    for path in () if isinstance(paths, Missing) else paths:
        for each, _, _ in host_wide(path.local_cpus):
            yield each, path.device, None


def witnesses(case: Case) -> Iterator[Where]:
    """sysfs, nldev and verbs, and each port's state by each."""
    for name in ("sysfs", "nldev", "verbs"):
        value = getattr(case.evidence, name)
        if isinstance(value, Missing):
            yield value, None, None
    for device in case.devices:
        for missing in unread_ports(device):
            yield missing, device.name, None
        for port in device.ports:
            for witness in (port.sysfs, port.nldev, port.verbs):
                if witness and isinstance(witness.state, Missing):
                    yield witness.state, device.name, port.number


def virtual_functions(case: Case) -> Iterator[Where]:
    """What each physical function's driver has of its virtual ones; some give nothing."""
    yield from part("vfs")(case)
    vfs = case.evidence.vfs
    for each in () if isinstance(vfs, Missing) else vfs.physical:
        yield from host_wide(each.functions)


def health_reporters(case: Case) -> Iterator[Where]:
    """Those of what each device stands on."""
    return _of_devlink(case, lambda below: below.reporters)


def firmware_versions(case: Case) -> Iterator[Where]:
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


def transceivers(case: Case) -> Iterator[Where]:
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
