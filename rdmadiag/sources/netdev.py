"""rtnetlink: the netdevs of this network namespace and their addresses."""

import struct
from typing import Any, Final

from rdmadiag.facts import NOT_IN_RECORD, Address, Missing, NetDev, NetDevFacts, Why
from rdmadiag.facts.address import deprecated, tentative_and_duplicate
from rdmadiag.host import Host, netlink
from rdmadiag.sources.bonding import read_bonds
from rdmadiag.sources.dump import dump
from rdmadiag.sources.pyroute2_messages import decode, ifaddrmsg, ifinfmsg, raw
from rdmadiag.sources.text import attribute, parse_number

_IFF_UP: Final = 1
_ARP_IGNORE: Final = "/proc/sys/net/ipv4/conf/all/arp_ignore"
_RP_FILTER: Final = "/proc/sys/net/ipv4/conf/all/rp_filter"
_ARP_FILTER: Final = "/proc/sys/net/ipv4/conf/all/arp_filter"
_DEFAULT_TTL: Final = "/proc/sys/net/ipv4/ip_default_ttl"

_AF_INET, _AF_INET6 = 2, 10
_CONF: Final = {_AF_INET: 1, _AF_INET6: 2}  # IFLA_INET_CONF, IFLA_INET6_CONF: arrays of 32 bits
# IPV4_DEVCONF_* count from 1
_INET_CONF_RP_FILTER, _INET_CONF_ARP_FILTER, _INET_CONF_ARP_IGNORE = 7, 12, 18
_INET6_CONF_HOP_LIMIT: Final = 1  # DEVCONF_HOPLIMIT
_XDP_ATTACHED: Final = 2  # IFLA_XDP_ATTACHED, a byte
_XDP: Final = ("none", "driver", "generic", "hardware", "several")  # XDP_ATTACHED_*
_SCOPES: Final = {0: "global", 200: "site", 253: "link", 254: "host", 255: "nowhere"}

# Behind the header an empty struct ifinfomsg, and an empty struct ifaddrmsg.
_GET_ADDRESSES: Final = netlink.request(netlink.RTM_GETADDR, netlink.NLM_F_DUMP, bytes(8))


def _value(message: Any, name: str, kind: type) -> Any:
    value = message.get_attr(name)
    if value is None:
        return Missing(Why.ABSENT, name)
    # pyroute2 hands out raw bytes for what it could not decode.
    return value if isinstance(value, kind) else Missing(Why.MALFORMED, f"{name}: {value!r:.60}")


def ifname(message: Any) -> str | None:
    """IFLA_IFNAME; Linux allows any bytes in it but a slash and white space."""
    name = message.get_attr("IFLA_IFNAME")
    return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name


def _mac(message: Any) -> str | Missing:
    """IFLA_ADDRESS; 20 bytes for IPoIB, which pyroute2 would report on stderr as invalid."""
    address = raw(message, "IFLA_ADDRESS")
    if address is None:
        return Missing(Why.ABSENT, "IFLA_ADDRESS")
    return address.hex(":") or Missing(Why.ABSENT, "IFLA_ADDRESS: empty")


def parse_arp_ignore(af_spec: bytes) -> int | Missing:
    """IFLA_AF_SPEC → arp_ignore of the netdev's own IPv4 configuration."""
    return _conf(af_spec, _AF_INET, _INET_CONF_ARP_IGNORE)


def parse_rp_filter(af_spec: bytes) -> int | Missing:
    """IFLA_AF_SPEC → rp_filter of the same: 0 off, 1 strict, 2 loose (RFC 3704)."""
    return _conf(af_spec, _AF_INET, _INET_CONF_RP_FILTER)


def parse_arp_filter(af_spec: bytes) -> int | Missing:
    """IFLA_AF_SPEC → arp_filter of the same: 1 answers where the way back is by this netdev."""
    return _conf(af_spec, _AF_INET, _INET_CONF_ARP_FILTER)


def parse_hop_limit(af_spec: bytes) -> int | Missing:
    """IFLA_AF_SPEC → hop_limit of the netdev's IPv6 configuration."""
    return _conf(af_spec, _AF_INET6, _INET6_CONF_HOP_LIMIT)


def _conf(af_spec: bytes, version: int, index: int) -> int | Missing:
    """By hand: pyroute2 takes a tenth of a millisecond for each netdev's."""
    for family, content in netlink.attributes(af_spec):
        for kind, values in netlink.attributes(content) if family == version else ():
            at = 4 * index
            if kind == _CONF[version] and len(values) >= at + 4:
                return int(struct.unpack_from("=i", values, at)[0])
    name = "IFLA_INET_CONF" if version == _AF_INET else "IFLA_INET6_CONF"
    return Missing(Why.ABSENT, name)


def parse_xdp(content: bytes) -> str | Missing:
    """IFLA_XDP → where a program of XDP is: "none", "generic" (the kernel's), "driver"."""
    found = dict(netlink.attributes(content)).get(_XDP_ATTACHED)
    if not found:
        return Missing(Why.ABSENT, "IFLA_XDP")
    return _XDP[found[0]] if found[0] < len(_XDP) else str(found[0])


def parse_addresses(reply: bytes) -> dict[int, tuple[Address, ...]] | Missing:
    """The reply to an RTM_GETADDR dump: ifindex → addresses."""
    addresses: dict[int, list[Address]] = {}
    try:
        for message in decode(reply, ifaddrmsg):
            # On a point-to-point link IFA_ADDRESS is the peer; IFA_LOCAL is ours.
            address = message.get_attr("IFA_ADDRESS")
            text = message.get_attr("IFA_LOCAL") or address
            if text:
                peer = None if address in (None, text) else str(address)
                found = _address(message, str(text), peer)
                addresses.setdefault(message["index"], []).append(found)
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    return {index: tuple(found) for index, found in addresses.items()}


def _address(message: Any, text: str, peer: str | None) -> Address:
    flags = message.get_attr("IFA_FLAGS")  # 32 bits since Linux 3.14; ifa_flags are the low 8
    if not isinstance(flags, int):
        flags = message["flags"]
    scope = message["scope"]
    return Address(
        text,
        message["prefixlen"],
        _SCOPES.get(scope, str(scope)),
        *tentative_and_duplicate(flags),
        peer,
        deprecated(flags),
    )


def parse_netdevs(
    links: bytes, addresses: dict[int, tuple[Address, ...]]
) -> tuple[NetDev, ...] | Missing:
    """The reply to an RTM_GETLINK dump, with the addresses of each."""
    try:
        found = list(decode(links, ifinfmsg))
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    names = {message["index"]: ifname(message) for message in found}
    return tuple(_netdev(message, names, addresses) for message in found if names[message["index"]])


def _netdev(
    message: Any, names: dict[int, Any], addresses: dict[int, tuple[Address, ...]]
) -> NetDev:
    info: Any = message.get_attr("IFLA_LINKINFO")
    nested = hasattr(info, "get_attr")
    kind = info.get_attr("IFLA_INFO_KIND") if nested else None
    data: Any = info.get_attr("IFLA_INFO_DATA") if nested else None
    is_vlan = kind == "vlan" and hasattr(data, "get_attr")
    vlan = data.get_attr("IFLA_VLAN_ID") if is_vlan else None
    protocol = data.get_attr("IFLA_VLAN_PROTOCOL") if is_vlan else None
    operstate = _value(message, "IFLA_OPERSTATE", str)
    carrier = _value(message, "IFLA_CARRIER", int)
    return NetDev(
        name=names[message["index"]],
        ifindex=message["index"],
        admin_up=bool(message["flags"] & _IFF_UP),
        operstate=operstate if isinstance(operstate, Missing) else operstate.lower(),
        carrier=carrier if isinstance(carrier, Missing) else bool(carrier),
        carrier_changes=_value(message, "IFLA_CARRIER_CHANGES", int),
        mtu=_value(message, "IFLA_MTU", int),
        mac=_mac(message),
        kind=kind if isinstance(kind, str) and kind else Missing(Why.ABSENT, "IFLA_INFO_KIND"),
        master=_name(message, "IFLA_MASTER", names),
        vlan_id=vlan if isinstance(vlan, int) else Missing(Why.ABSENT, "IFLA_VLAN_ID"),
        lower=_lower(message, names),
        addresses=addresses.get(message["index"], ()),
        arp_ignore=parse_arp_ignore(raw(message, "IFLA_AF_SPEC") or b""),
        rp_filter=parse_rp_filter(raw(message, "IFLA_AF_SPEC") or b""),
        arp_filter=parse_arp_filter(raw(message, "IFLA_AF_SPEC") or b""),
        hop_limit=parse_hop_limit(raw(message, "IFLA_AF_SPEC") or b""),
        xdp=parse_xdp(raw(message, "IFLA_XDP") or b""),
        vlan_protocol=protocol
        if isinstance(protocol, int)
        else Missing(Why.ABSENT, "IFLA_VLAN_PROTOCOL"),
    )


def _name(message: Any, attribute: str, names: dict[int, Any]) -> str | Missing:
    index = message.get_attr(attribute)
    if not isinstance(index, int) or index == 0:
        return Missing(Why.ABSENT, attribute)
    return names.get(index) or Missing(Why.ABSENT, f"{attribute} {index} is not in this namespace")


def _lower(message: Any, names: dict[int, Any]) -> str | Missing:
    namespace = message.get_attr("IFLA_LINK_NETNSID")
    if namespace is not None:  # the number is that namespace's (rtnl_fill_link_netnsid)
        return Missing(Why.ABSENT, f"IFLA_LINK is in network namespace {namespace}")
    return _name(message, "IFLA_LINK", names)


def read_netdevs(host: Host, deadline: float) -> NetDevFacts | Missing:
    """Every netdev of this network namespace; `deadline` as in Host.netlink."""
    addresses = dump(host, "route-getaddr", netlink.NETLINK_ROUTE, _GET_ADDRESSES, deadline)
    links = dump(host, "route-getlink", netlink.NETLINK_ROUTE, netlink.GET_LINKS, deadline)
    if isinstance(links, Missing):
        return links
    known = addresses if isinstance(addresses, Missing) else parse_addresses(addresses)
    if isinstance(known, Missing):
        return known
    netdevs = parse_netdevs(links, known)
    if isinstance(netdevs, Missing):
        return netdevs
    return NetDevFacts(
        netdevs,
        attribute(host, _ARP_IGNORE, parse_number),
        attribute(host, _RP_FILTER, parse_number),
        read_bonds(host, links),
        _since(host, _ARP_FILTER),
        _since(host, _DEFAULT_TTL),
    )


def _since(host: Host, path: str) -> int | Missing:
    """Of a file that every Linux has, and records from before have not."""
    found = attribute(host, path, parse_number)
    return NOT_IN_RECORD if isinstance(found, Missing) and found.why is Why.ABSENT else found
