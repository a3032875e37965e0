"""RDMA netlink (nldev): devices, links, netns mode, uverbs mapping, resource counts.

Attribute numbers and types: rdma/rdma_netlink.h, enum rdma_nldev_attr. pyroute2 has no
nldev of its own, so its message classes are declared here. Only GETs are sent
(`rdmadiag.host.netlink.READ_ONLY`).
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar, Final

from pyroute2.netlink import nla, nlmsg

from rdmadiag.facts import (
    Chardev,
    Missing,
    NldevDevice,
    NldevFacts,
    NldevPort,
    ResourceCount,
    Why,
)
from rdmadiag.facts.ib import DriverId, NetnsMode, NodeType, PhysState, PortState
from rdmadiag.host import Host, netlink
from rdmadiag.sources.nldev_attributes import ATTRIBUTES

_PORTS: Final = 255  # a port number is one byte on the wire

GET: Final = 1
PORT_GET: Final = 5
SYS_GET: Final = 6
RES_GET: Final = 9
GET_CHARDEV: Final = 15


class nldev_nla(nla):  # type: ignore[misc]  # noqa: N801  # pyroute2 names message classes after the kernel's
    """An attribute that holds attributes of the same numbering."""

    prefix = "RDMA_NLDEV_"
    nla_map = ATTRIBUTES
    nest: ClassVar[type]


# pyroute2's own "nested" resolves to the enclosing nlmsg with its header, and yields raw bytes.
nldev_nla.nest = nldev_nla


class nldev_msg(nlmsg):  # type: ignore[misc]  # noqa: N801
    """An nldev message: attributes directly behind the netlink header."""

    prefix = "RDMA_NLDEV_"
    nla_map = ATTRIBUTES
    nest = nldev_nla


def request(op: int, flags: int, attributes: Iterable[tuple[str, Any]] = ()) -> bytes:
    """The bytes of one nldev request; attribute names without their prefix."""
    message = nldev_msg()
    message["header"]["type"] = (netlink.RDMA_NL_NLDEV << 10) + op
    # No NLM_F_ACK: its zero error would follow the reply as one more message.
    message["header"]["flags"] = netlink.NLM_F_REQUEST | flags
    message["attrs"] = [(f"RDMA_NLDEV_ATTR_{name}", value) for name, value in attributes]
    message.encode()
    return bytes(message.data)


_TYPES: Final[dict[str, type]] = {
    name: str if kind == "asciiz" else nldev_nla if kind == "nest" else int
    for _, name, kind in ATTRIBUTES
}


def _get(message: Any, name: str) -> Any:
    """The attribute's value; None where there is none, or one of another type.

    pyroute2 hands out raw bytes for what it could not decode.
    """
    value = message.get_attr(f"RDMA_NLDEV_{name}")
    return value if isinstance(value, _TYPES[f"RDMA_NLDEV_{name}"]) else None


def _value(message: Any, name: str) -> Any:
    full = f"RDMA_NLDEV_ATTR_{name}"
    value = message.get_attr(full)
    if value is None:
        return Missing(Why.ABSENT, full)
    if not isinstance(value, _TYPES[full]):
        return Missing(Why.MALFORMED, f"{full}: {value!r:.60}")
    return value


def _text(message: Any, name: str) -> str | Missing:
    value = _value(message, name)
    return Missing(Why.ABSENT, f"RDMA_NLDEV_ATTR_{name}: empty") if value == "" else value


def _guid(message: Any, name: str) -> str | Missing:
    value = _value(message, name)
    if isinstance(value, Missing):
        return value
    digits = f"{value:016x}"
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


def _member(message: Any, name: str, table: Any) -> Any:
    value = _value(message, name)
    if isinstance(value, Missing):
        return value
    member = table.from_number(value)
    if member is None:
        return Missing(
            Why.MALFORMED, f"RDMA_NLDEV_ATTR_{name}: {value} is not a known {table.__name__}"
        )
    return member


def parse_device(reply: bytes) -> NldevDevice | Missing:
    """The reply to GET with a DEV_INDEX: one device, its parts still not collected."""
    message = _only(reply)
    if isinstance(message, Missing):
        return message
    index, name = _get(message, "ATTR_DEV_INDEX"), _get(message, "ATTR_DEV_NAME")
    if index is None or not name:
        return Missing(Why.MALFORMED, "nldev device without an index or a name")
    later = Missing(Why.NOT_COLLECTED)
    return NldevDevice(
        index=index,
        name=name,
        node_type=_member(message, "DEV_NODE_TYPE", NodeType),
        node_guid=_guid(message, "NODE_GUID"),
        sys_image_guid=_guid(message, "SYS_IMAGE_GUID"),
        firmware=_text(message, "FW_VERSION"),
        protocol=_text(message, "DEV_PROTOCOL"),
        port_count=_value(message, "PORT_INDEX"),
        ports=later,
        unreadable_ports={},
        chardev=later,
        resources=later,
    )


def parse_indexes(reply: bytes) -> tuple[int, ...] | Missing:
    """The reply to a GET dump: the DEV_INDEX of every device this namespace may see."""
    try:
        found = netlink.decode(reply, nldev_msg)
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    indexes = (_get(message, "ATTR_DEV_INDEX") for message in found)
    return tuple(sorted({index for index in indexes if index is not None}))


def parse_port(reply: bytes) -> NldevPort | Missing:
    """The reply to PORT_GET with DEV_INDEX and PORT_INDEX."""
    message = _only(reply)
    if isinstance(message, Missing):
        return message
    number = _get(message, "ATTR_PORT_INDEX")
    if number is None:
        return Missing(Why.MALFORMED, "nldev port without a number")
    return NldevPort(
        number=number,
        state=_member(message, "PORT_STATE", PortState),
        phys_state=_member(message, "PORT_PHYS_STATE", PhysState),
        lid=_value(message, "LID"),
        sm_lid=_value(message, "SM_LID"),
        lmc=_value(message, "LMC"),
        netdev=_text(message, "NDEV_NAME"),
        netdev_index=_value(message, "NDEV_INDEX"),
    )


def parse_chardev(reply: bytes) -> Chardev | Missing:
    """The reply to GET_CHARDEV."""
    message = _only(reply)
    if isinstance(message, Missing):
        return message
    name = _get(message, "ATTR_CHARDEV_NAME")
    if not name:
        return Missing(Why.MALFORMED, "nldev character device without a name")
    number = _value(message, "CHARDEV")
    if not isinstance(number, Missing):
        # huge_encode_dev of the kernel: 12 bits of major between two parts of the minor.
        number = f"{(number >> 8) & 0xFFF}:{(number & 0xFF) | ((number >> 12) & 0xFFF00)}"
    return Chardev(
        name=name,
        abi_version=_value(message, "CHARDEV_ABI"),
        dev=number,
        driver=_member(message, "UVERBS_DRIVER_ID", DriverId),
    )


def parse_resources(reply: bytes) -> dict[str, ResourceCount] | Missing:
    """The reply to RES_GET: "qp" → how many there are."""
    message = _only(reply)
    if isinstance(message, Missing):
        return message
    summary = _get(message, "ATTR_RES_SUMMARY")
    if summary is None:
        return Missing(Why.MALFORMED, "nldev resources without a summary")
    found = {}
    for key, entry in summary["attrs"]:
        if key != "RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY" or not isinstance(entry, nldev_nla):
            continue
        name, current = (
            _get(entry, "ATTR_RES_SUMMARY_ENTRY_NAME"),
            _get(entry, "ATTR_RES_SUMMARY_ENTRY_CURR"),
        )
        if name and current is not None:
            found[name] = ResourceCount(current, _value(entry, "RES_SUMMARY_ENTRY_MAX"))
    return found


def parse_netns_mode(reply: bytes) -> NetnsMode | Missing:
    """The reply to SYS_GET."""
    message = _only(reply)
    if isinstance(message, Missing):
        return message
    value = _get(message, "SYS_ATTR_NETNS_MODE")
    if value is None:
        return Missing(Why.UNSUPPORTED, "RDMA_NLDEV_SYS_ATTR_NETNS_MODE")
    return NetnsMode.from_number(value) or Missing(Why.MALFORMED, f"netns mode {value}")


def _only(reply: bytes) -> Any:
    try:
        found = netlink.decode(reply, nldev_msg)
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    return found[0] if found else Missing(Why.ABSENT, "empty nldev reply")


def read_nldev(host: Host, deadline: float) -> NldevFacts | Missing:
    """Everything above. `deadline` is absolute on `time.monotonic`'s clock.

    Opening a socket of this protocol can load ib_core, and asking for a character
    device can load ib_uverbs: neither is done unless that module is there already.
    """
    if isinstance(host.list("/sys/module/ib_core"), Missing) and isinstance(
        host.list("/sys/class/infiniband"), Missing
    ):
        return Missing(
            Why.ABSENT, "ib_core is not loaded; nldev was not opened, since that would load it"
        )
    reply = host.netlink(
        "nldev-get", netlink.NETLINK_RDMA, request(GET, netlink.NLM_F_DUMP), deadline
    )
    indexes = reply if isinstance(reply, Missing) else parse_indexes(reply)
    if isinstance(indexes, Missing):
        return indexes
    uverbs = not isinstance(host.list("/sys/class/infiniband_verbs"), Missing)
    devices = [_device(host, index, uverbs, deadline) for index in indexes]
    return NldevFacts(
        devices=tuple(device for device in devices if not isinstance(device, Missing)),
        unreadable=tuple(device for device in devices if isinstance(device, Missing)),
        netns_mode=_ask(host, "nldev-sys-get", SYS_GET, (), parse_netns_mode, deadline),
    )


def _ask(
    host: Host,
    name: str,
    op: int,
    attributes: Iterable[tuple[str, Any]],
    parse: Any,
    deadline: float,
) -> Any:
    reply = host.netlink(name, netlink.NETLINK_RDMA, request(op, 0, attributes), deadline)
    return reply if isinstance(reply, Missing) else parse(reply)


def _device(host: Host, index: int, uverbs: bool, deadline: float) -> NldevDevice | Missing:
    at = (("DEV_INDEX", index),)
    device = _ask(host, f"nldev-get-{index}", GET, at, parse_device, deadline)
    if not isinstance(device, NldevDevice):
        return Missing(device.why, f"nldev device {index}: {device.detail}")
    answers = _ports(host, device, deadline)
    refused = {number: port for number, port in answers.items() if isinstance(port, Missing)}
    ports = tuple(port for port in answers.values() if not isinstance(port, Missing))
    chardev: Chardev | Missing = Missing(Why.ABSENT, "ib_uverbs is not loaded")
    if uverbs:
        kind = (("CHARDEV_TYPE", "uverbs"), *at)
        chardev = _ask(
            host, f"nldev-get-chardev-{index}", GET_CHARDEV, kind, parse_chardev, deadline
        )
    return replace(
        device,
        ports=device.port_count if isinstance(device.port_count, Missing) else ports,
        unreadable_ports=refused,
        chardev=chardev,
        resources=_ask(host, f"nldev-res-get-{index}", RES_GET, at, parse_resources, deadline),
    )


def _ports(host: Host, device: NldevDevice, deadline: float) -> dict[int, NldevPort | Missing]:
    if isinstance(device.port_count, Missing):
        return {}
    return {
        number: _ask(
            host,
            f"nldev-port-get-{device.index}-{number}",
            PORT_GET,
            (("DEV_INDEX", device.index), ("PORT_INDEX", number)),
            parse_port,
            deadline,
        )
        for number in range(1, min(device.port_count, _PORTS) + 1)
    }
