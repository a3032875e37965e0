"""The netdevs below RDMA ports, as sources that ask for each by itself need them."""

from collections.abc import Iterator

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.routing import Link
from rdmadiag.host import Host, netlink
from rdmadiag.sources.counters import read_netdev, read_port_numbers
from rdmadiag.sources.dump import dump
from rdmadiag.sources.nldev_counters import PortNetdevs, read_device_indexes
from rdmadiag.sources.routing import parse_links
from rdmadiag.sources.sysfs import CLASS, NET_CLASS

_MOST = 1024


def read_links_of_ports(host: Host, deadline: float) -> tuple[Link, ...] | Missing:
    """The netdevs of ports, where they are in this namespace, and the legs of their bonds."""
    devices = host.list(CLASS)
    if isinstance(devices, Missing) and devices.why is not Why.ABSENT:
        return devices
    if isinstance(devices, Missing) or not devices:  # without ib_core there is no such folder
        return ()
    reply = dump(host, "route-getlink", netlink.NETLINK_ROUTE, netlink.GET_LINKS, deadline)
    links = reply if isinstance(reply, Missing) else parse_links(reply)
    if isinstance(links, Missing):
        return links
    netdevs = PortNetdevs(host, read_device_indexes(host, deadline), deadline)
    named: set[str] = set()
    for device in devices:
        numbers = read_port_numbers(host, device)
        if isinstance(numbers, Missing):
            return numbers
        found = (read_netdev(host, device, number, netdevs) for number in numbers)
        named |= {netdev for netdev in found if not isinstance(netdev, Missing)}
    wanted = tuple(_with_legs(host, named, links))
    if len(wanted) > _MOST:
        return Missing(Why.UNSUPPORTED, f"more than {_MOST} netdevs")
    return wanted


def _with_legs(host: Host, named: set[str], links: tuple[Link, ...]) -> Iterator[Link]:
    """Those of the names, and the legs of bonds that they are or are in."""
    masters = {link.master for link in links if link.name in named and link.master}
    bonds = named | {
        each
        for each in masters
        if "/" not in each and not isinstance(host.list(f"{NET_CLASS}/{each}/bonding"), Missing)
    }
    for link in links:
        if (link.name in named or link.master in bonds) and not link.loopback:
            yield link
