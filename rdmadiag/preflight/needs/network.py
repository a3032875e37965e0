"""Needs of netdevs, their links and addresses, and of routes."""

from collections.abc import Callable, Iterator

from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.dcb import Ieee
from rdmadiag.facts.ethtool import NetdevEthtool
from rdmadiag.facts.gid import Family, Scope
from rdmadiag.gid.netdev import NetDevState
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.needs.need import Where, host_wide, part
from rdmadiag.view.ethernet import links_below
from rdmadiag.view.lossless import lossless_ports
from rdmadiag.view.reconcile import DeviceView, PortView, Protocol, unshown
from rdmadiag.view.unshown import FAILED


def gid_netdevs(case: Case) -> Iterator[Where]:
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
            for source in _of_netdev_states(case, device, port):
                if isinstance(source, Missing):
                    yield source, port.device, port.number
                    break


def _of_netdev_states(case: Case, device: DeviceView, port: PortView) -> Iterator[object]:
    """What shows whether a netdev is here: a Missing where one of it could not be read."""
    nldev = case.evidence.nldev
    yield from (case.evidence.netdev, case.evidence.process, nldev)
    if device.nldev:
        yield device.nldev.ports
        yield device.nldev.unreadable_ports.get(port.number)
    elif not isinstance(nldev, Missing):
        yield from nldev.unreadable[:1]


def mtus_of_netdevs(case: Case) -> Iterator[Where]:
    netdev = case.evidence.netdev
    for each in () if isinstance(netdev, Missing) else netdev.netdevs:
        yield from host_wide(each.mtu)


def rp_filters(case: Case) -> Iterator[Where]:
    """That of every netdev, and of each one's own."""
    yield from part("netdev.rp_filter")(case)
    netdev = case.evidence.netdev
    for each in () if isinstance(netdev, Missing) else netdev.netdevs:
        yield from host_wide(each.rp_filter)


def hop_limits(case: Case) -> Iterator[Where]:
    """That of IPv4, and each netdev's own of IPv6, where it has one."""
    yield from part("netdev.default_ttl")(case)
    netdev = case.evidence.netdev
    for each in () if isinstance(netdev, Missing) else netdev.netdevs:
        yield from host_wide(each.hop_limit)


def programs_of_xdp(case: Case) -> Iterator[Where]:
    """Whether a netdev has one; of an older kernel, which has none, nothing is missing."""
    netdev = case.evidence.netdev
    for each in () if isinstance(netdev, Missing) else netdev.netdevs:
        yield from host_wide(each.xdp)


def routing_tables(case: Case) -> Iterator[Where]:
    """Rules and routes."""
    yield from part("routing.rules")(case)
    if not isinstance(case.evidence.routing, Missing):
        yield from part("routing.routes")(case)


def traffic_control(case: Case) -> Iterator[Where]:
    """Qdiscs, and the filters of netdevs that have a place for them."""
    yield from part("routing.traffic_control")(case)
    routing = case.evidence.routing
    if not isinstance(routing, Missing) and not isinstance(routing.traffic_control, Missing):
        yield from host_wide(routing.traffic_control.filters)


def names_in_files(case: Case) -> Iterator[Where]:
    """This host's name, the addresses of its file, and whether that is looked into."""
    yield from part("naming")(case)
    naming = case.evidence.naming
    if not isinstance(naming, Missing):
        yield from host_wide(naming.hostname, naming.hosts, naming.services)


def dcb(case: Case) -> Iterator[Where]:
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
        apps = ieee.apps if isinstance(ieee, Ieee) else ()
        if isinstance(apps, Missing) and apps.why is not Why.UNSUPPORTED:
            yield apps, port.device, port.port
        for app in present(apps):
            if isinstance(app.selector, Missing):
                yield app.selector, port.device, port.port


def link_states(case: Case) -> Iterator[Where]:
    """That of the netdevs of each port that is down."""
    return _of_links(case, lambda link: link.link, active=False)


def link_modes(case: Case) -> Iterator[Where]:
    """Those of the netdevs of each active port."""
    return _of_links(case, lambda link: link.modes, active=True)


def pause_settings(case: Case) -> Iterator[Where]:
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


def bonds_of_netdevs(case: Case) -> Iterator[Where]:
    """What says that a netdev is a bond, and which are its legs."""
    netdev = case.evidence.netdev
    for each in () if isinstance(netdev, Missing) else netdev.netdevs:
        yield from host_wide(each.kind, each.master, each.lower)


def bonding(case: Case) -> Iterator[Where]:
    """Mode of each bond, and whether it uses each leg."""
    yield from part("netdev.bonds")(case)
    netdev = case.evidence.netdev
    for bond in () if isinstance(netdev, Missing) else present(netdev.bonds):
        legs = (value for leg in bond.legs for value in (leg.state, leg.mii, leg.aggregator))
        yield from host_wide(bond.mode, bond.hash_policy, bond.aggregator, *legs)


def gid_addresses(case: Case) -> Iterator[Where]:
    """Whether a netdev has the link-local address that a software device would send from."""
    process = case.evidence.process
    unread = process if isinstance(process, Missing) else process.ipv6
    if not isinstance(unread, Missing):
        return
    for _, port in case.ports:
        entry = port.route_entry if port.is_software else None
        if entry and entry.gid.scope is Scope.LINK_LOCAL and entry.gid.family is Family.IPV6:
            yield unread, port.device, port.number


def address_flags(case: Case) -> Iterator[Where]:
    """Whether duplicate address detection has failed, or goes on: rtnetlink, or if_inet6."""
    netdev, process = case.evidence.netdev, case.evidence.process
    if not isinstance(netdev, Missing):
        for each in netdev.netdevs:
            for address in each.addresses:
                yield from host_wide(address.duplicate, address.tentative)
        return
    if isinstance(process, Missing) or isinstance(process.ipv6_addresses, Missing):
        for _, port in case.ports:
            if port.protocol is Protocol.ROCE:
                yield netdev, port.device, port.number
