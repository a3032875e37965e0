"""Virtual functions (SR-IOV): what the driver of the physical function has of each.

RTM_GETLINK of one netdev with IFLA_EXT_MASK RTEXT_FILTER_VF (rtnl_fill_vfinfo of
net/core/rtnetlink.c), for functions alone that have virtual ones: drivers ask their firmware.

    /sys/class/infiniband/mlx5_0/device/sriov_numvfs    2
    /sys/class/infiniband/mlx5_0/device/virtfn0 -> ../0000:08:00.2
    /sys/class/infiniband/mlx5_2/device/physfn -> ../0000:08:00.0
"""

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.vfs import LinkPolicy, PhysicalFunction, VfFacts, VirtualFunction
from rdmadiag.host import Host, netlink
from rdmadiag.sources.sysfs import CLASS, NET_CLASS
from rdmadiag.sources.text import attribute, malformed, parse_number, parse_text

_EXT_MASK, _VF_LIST, _VF_INFO = 29, 22, 1  # IFLA_*
_MASK: Final = 0x01 | 0x08  # RTEXT_FILTER_VF, RTEXT_FILTER_SKIP_STATS
_MAC, _VLAN, _SPOOF_CHECK, _LINK, _TRUST, _NODE_GUID, _PORT_GUID = 1, 2, 4, 5, 9, 10, 11
_REQUEST: Final = struct.Struct("=BxHiII")  # struct ifinfomsg
_IFINFOMSG: Final = 16
_MAC_OCTETS: Final = 6
_UNSET: Final = 0xFFFFFFFF  # of a driver that says nothing of it
_MOST: Final = 256  # functions: an attribute of 64 KiB holds some 270
_FEW: Final = 4  # netdevs of a function that are queried


def vf_request(ifindex: int) -> bytes:
    """RTM_GETLINK of one netdev, its virtual functions with it and their statistics without."""
    mask = netlink.attribute(_EXT_MASK, struct.pack("=I", _MASK))
    return netlink.request(netlink.RTM_GETLINK, 0, _REQUEST.pack(0, 0, ifindex, 0, 0) + mask)


def parse_vfs(reply: bytes) -> tuple[VirtualFunction, ...] | Missing:
    """The reply to it; their addresses are not in it."""
    try:
        message = next(netlink.messages(reply), None)
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    if message is None:
        return Missing(Why.ABSENT, "empty reply to RTM_GETLINK")
    found = dict(netlink.attributes(netlink.body(reply, message, _IFINFOMSG)))
    if _VF_LIST not in found:
        return Missing(Why.UNSUPPORTED, "the driver gives no IFLA_VFINFO_LIST")
    rows = (raw for kind, raw in netlink.attributes(found[_VF_LIST]) if kind == _VF_INFO)
    read = (_function(dict(netlink.attributes(raw))) for raw in rows)
    return tuple(each for each, _ in zip(filter(None, read), range(_MOST), strict=False))


def _function(found: dict[int, bytes]) -> VirtualFunction | None:
    """None without the number, with which each of its attributes begins."""
    number = next((netlink.number(raw[:4]) for raw in found.values() if len(raw) >= 4), None)
    if number is None:
        return None
    mac = found.get(_MAC, b"")[4 : 4 + _MAC_OCTETS]
    trust = _setting(found, _TRUST, "IFLA_VF_TRUST")
    spoof_check = _setting(found, _SPOOF_CHECK, "IFLA_VF_SPOOFCHK")
    return VirtualFunction(
        number=number,
        address=Missing(Why.ABSENT, "no virtfn link"),
        mac=mac.hex(":") if len(mac) == _MAC_OCTETS else Missing(Why.ABSENT, "IFLA_VF_MAC"),
        node_guid=_guid(found, _NODE_GUID, "IFLA_VF_IB_NODE_GUID"),
        port_guid=_guid(found, _PORT_GUID, "IFLA_VF_IB_PORT_GUID"),
        link=_policy(_setting(found, _LINK, "IFLA_VF_LINK_STATE")),
        trust=trust if isinstance(trust, Missing) else bool(trust),
        spoof_check=spoof_check if isinstance(spoof_check, Missing) else bool(spoof_check),
        vlan=_setting(found, _VLAN, "IFLA_VF_VLAN"),
    )


def _policy(number: int | Missing) -> LinkPolicy | Missing:
    if isinstance(number, Missing):
        return number
    return LinkPolicy.from_number(number) or Missing(Why.MALFORMED, f"link state {number}")


def _setting(found: dict[int, bytes], kind: int, name: str) -> int | Missing:
    """The u32 behind the number of the function."""
    raw = found.get(kind)
    if raw is None:
        return Missing(Why.UNSUPPORTED, f"the driver gives no {name}")
    value = netlink.number(raw[4:8])
    if value is None:
        return Missing(Why.MALFORMED, f"{name} of {len(raw)} bytes")
    return value if value != _UNSET else Missing(Why.UNSUPPORTED, f"the driver gives no {name}")


def _guid(found: dict[int, bytes], kind: int, name: str) -> str | Missing:
    """struct ifla_vf_guid: the number, padding to 8 bytes, a u64."""
    raw = found.get(kind)
    if raw is None:
        return Missing(Why.UNSUPPORTED, f"the driver gives no {name}")
    value = netlink.number(raw[8:16])
    if value is None:
        return Missing(Why.MALFORMED, f"{name} of {len(raw)} bytes")
    digits = f"{value:016x}"
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


# --- reading -----------------------------------------------------------------------------


def read_vfs(host: Host, deadline: float) -> VfFacts | Missing:
    """Of each RDMA device's function; `deadline` as in Host.netlink."""
    devices = host.list(CLASS)
    if isinstance(devices, Missing):
        return VfFacts((), {}) if devices.why is Why.ABSENT else devices
    folders = {name: _folder(host, name) for name in devices if not name.startswith(".")}
    physical: dict[str, PhysicalFunction] = {}
    virtual: dict[str, str] = {}
    for name, folder in folders.items():
        above = host.readlink(f"{folder}/physfn")
        if not isinstance(above, Missing):
            virtual[name] = above.rstrip("/").rpartition("/")[2].lower()
        function = folder if isinstance(above, Missing) else f"{folder}/physfn"
        for each in _physical(host, function, deadline, physical):
            physical[each.netdev] = each
    return VfFacts(tuple(physical.values()), virtual)


def _folder(host: Host, device: str) -> str:
    """Of the device's own function, or of that below the netdev of a software device."""
    parent = attribute(host, f"{CLASS}/{device}/parent", parse_text)
    if isinstance(parent, Missing) or "/" in parent:
        return f"{CLASS}/{device}/device"
    return f"{NET_CLASS}/{parent}/device"


def _physical(
    host: Host, folder: str, deadline: float, known: dict[str, PhysicalFunction]
) -> Iterator[PhysicalFunction]:
    """The function by the first of its netdevs that shows virtual ones; none where it has none.

    A function in switchdev mode has a netdev for each virtual one, too, made after its own.
    """
    count = attribute(host, f"{folder}/sriov_numvfs", parse_number)
    if isinstance(count, Missing) or count <= 0:
        return
    names = host.list(f"{folder}/net")
    if isinstance(names, Missing) or any(name in known for name in names):
        return  # they are in another namespace, or were read
    indexes = {name: attribute(host, f"{NET_CLASS}/{name}/ifindex", parse_number) for name in names}
    own = sorted((at, name) for name, at in indexes.items() if not isinstance(at, Missing))
    answer: PhysicalFunction | None = None
    for at, name in own[:_FEW]:
        reply = host.netlink(
            f"route-getlink-vf-{at}", netlink.NETLINK_ROUTE, vf_request(at), deadline
        )
        found = reply if isinstance(reply, Missing) else parse_vfs(reply)
        if not isinstance(found, Missing):
            found = tuple(_with_address(host, folder, each) for each in found)
            answer = PhysicalFunction(name, found)
            break
        answer = answer or PhysicalFunction(name, found)
    if answer:
        yield answer


def _with_address(host: Host, folder: str, function: VirtualFunction) -> VirtualFunction:
    target = host.readlink(f"{folder}/virtfn{function.number}")
    if isinstance(target, Missing):
        return replace(function, address=target)
    address = target.rstrip("/").rpartition("/")[2].lower()
    return replace(function, address=address or malformed(target.encode(), "a PCI function"))
