"""RDMA netlink (nldev): devices, links, netns mode, uverbs mapping, resource counts.

Only GETs are sent (`rdmadiag.host.netlink.READ_ONLY`).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeVar

from rdmadiag.facts import (
    Chardev,
    Missing,
    NldevDevice,
    NldevFacts,
    NldevPort,
    ResourceCount,
    Why,
)
from rdmadiag.facts.ib import (
    DeviceType,
    DriverId,
    NetnsMode,
    NodeType,
    Numbered,
    PhysState,
    PortState,
)
from rdmadiag.host import Host, netlink
from rdmadiag.sources.dump import dump
from rdmadiag.sources.nldev_messages import (
    GET,
    GET_CHARDEV,
    PORT_GET,
    RES_GET,
    SYS_GET,
    Attributes,
    first,
    integer,
    messages,
    nest,
    request,
    rows,
    text,
)

_PORTS: Final = 255  # a port number is one byte on the wire

N = TypeVar("N", bound=Numbered)
T = TypeVar("T")


def _guid(found: Attributes, name: str) -> str | Missing:
    value = integer(found, name)
    if isinstance(value, Missing):
        return value
    digits = f"{value:016x}"
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


def _member(found: Attributes, name: str, table: type[N]) -> N | Missing:
    value = integer(found, name)
    if isinstance(value, Missing):
        return value
    return table.from_number(value) or Missing(
        Why.MALFORMED, f"RDMA_NLDEV_ATTR_{name}: {value} is not a known {table.__name__}"
    )


def parse_device(reply: bytes) -> NldevDevice | Missing:
    """The reply to GET with a DEV_INDEX: one device, its parts still not collected."""
    found = first(reply)
    if isinstance(found, Missing):
        return found
    index, name = integer(found, "DEV_INDEX"), text(found, "DEV_NAME")
    if isinstance(index, Missing) or isinstance(name, Missing):
        return Missing(Why.MALFORMED, "nldev device without an index or a name")
    later = Missing(Why.NOT_COLLECTED)
    return NldevDevice(
        index=index,
        name=name,
        node_type=_member(found, "DEV_NODE_TYPE", NodeType),
        node_guid=_guid(found, "NODE_GUID"),
        sys_image_guid=_guid(found, "SYS_IMAGE_GUID"),
        firmware=text(found, "FW_VERSION"),
        protocol=text(found, "DEV_PROTOCOL"),
        port_count=integer(found, "PORT_INDEX"),
        ports=later,
        unreadable_ports={},
        chardev=later,
        resources=later,
        type=_member(found, "DEV_TYPE", DeviceType),
        parent=text(found, "PARENT_NAME"),
    )


def parse_indexes(reply: bytes) -> tuple[int, ...] | Missing:
    """The reply to a GET dump: the DEV_INDEX of every device this namespace may see."""
    try:
        indexes = {integer(found, "DEV_INDEX") for found in messages(reply)}
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    return tuple(sorted(index for index in indexes if not isinstance(index, Missing)))


def parse_port(reply: bytes) -> NldevPort | Missing:
    """The reply to PORT_GET with DEV_INDEX and PORT_INDEX."""
    found = first(reply)
    if isinstance(found, Missing):
        return found
    number = integer(found, "PORT_INDEX")
    if isinstance(number, Missing):
        return Missing(Why.MALFORMED, "nldev port without a number")
    return NldevPort(
        number=number,
        state=_member(found, "PORT_STATE", PortState),
        phys_state=_member(found, "PORT_PHYS_STATE", PhysState),
        lid=integer(found, "LID"),
        sm_lid=integer(found, "SM_LID"),
        lmc=integer(found, "LMC"),
        netdev=text(found, "NDEV_NAME"),
        netdev_index=integer(found, "NDEV_INDEX"),
    )


def parse_chardev(reply: bytes) -> Chardev | Missing:
    """The reply to GET_CHARDEV."""
    found = first(reply)
    if isinstance(found, Missing):
        return found
    name = text(found, "CHARDEV_NAME")
    if isinstance(name, Missing):
        return Missing(Why.MALFORMED, "nldev character device without a name")
    number = integer(found, "CHARDEV")
    return Chardev(
        name=name,
        abi_version=integer(found, "CHARDEV_ABI"),
        # huge_encode_dev of the kernel: 12 bits of major between two parts of the minor.
        dev=number
        if isinstance(number, Missing)
        else f"{(number >> 8) & 0xFFF}:{(number & 0xFF) | ((number >> 12) & 0xFFF00)}",
        driver=_member(found, "UVERBS_DRIVER_ID", DriverId),
    )


def parse_resources(reply: bytes) -> dict[str, ResourceCount] | Missing:
    """The reply to RES_GET: "qp" → how many there are, and may be where the kernel says."""
    found = first(reply)
    if isinstance(found, Missing):
        return found
    summary = nest(found, "RES_SUMMARY")
    if summary is None:
        return Missing(Why.MALFORMED, "nldev resources without a summary")
    counts = {}
    for entry in rows(summary, "RES_SUMMARY_ENTRY"):
        name, current = (
            text(entry, "RES_SUMMARY_ENTRY_NAME"),
            integer(entry, "RES_SUMMARY_ENTRY_CURR"),
        )
        if not (isinstance(name, Missing) or isinstance(current, Missing)):
            counts[name] = ResourceCount(current, integer(entry, "RES_SUMMARY_ENTRY_MAX"))
    return counts


def parse_netns_mode(reply: bytes) -> NetnsMode | Missing:
    """The reply to SYS_GET."""
    found = first(reply)
    if isinstance(found, Missing):
        return found
    value = integer(found, "SYS_ATTR_NETNS_MODE")
    if isinstance(value, Missing):
        return Missing(Why.UNSUPPORTED, "RDMA_NLDEV_SYS_ATTR_NETNS_MODE")
    return NetnsMode.from_number(value) or Missing(Why.MALFORMED, f"netns mode {value}")


def read_nldev(host: Host, deadline: float) -> NldevFacts | Missing:
    """Every device that this namespace may see. `deadline` is absolute on `time.monotonic`'s clock.

    Opening a socket of this protocol can load ib_core, and asking for a character
    device can load ib_uverbs: neither is done unless that module is there already.
    """
    module, folder = host.list("/sys/module/ib_core"), host.list("/sys/class/infiniband")
    if isinstance(module, Missing) and isinstance(folder, Missing):
        for refused in (module, folder):
            if refused.why is not Why.ABSENT:
                return refused
        return Missing(
            Why.ABSENT, "ib_core is not loaded; nldev was not opened, since that would load it"
        )
    asked = request(GET, netlink.NLM_F_DUMP)
    reply = dump(host, "nldev-get", netlink.NETLINK_RDMA, asked, deadline)
    indexes = reply if isinstance(reply, Missing) else parse_indexes(reply)
    if isinstance(indexes, Missing):
        return indexes
    listed = host.list("/sys/class/infiniband_verbs")
    no_uverbs = listed if isinstance(listed, Missing) else None
    if no_uverbs and no_uverbs.why is Why.ABSENT:
        no_uverbs = Missing(Why.ABSENT, "ib_uverbs is not loaded")
    devices = [_device(host, index, no_uverbs, deadline) for index in indexes]
    return NldevFacts(
        devices=tuple(device for device in devices if not isinstance(device, Missing)),
        unreadable=tuple(device for device in devices if isinstance(device, Missing)),
        netns_mode=ask(host, "nldev-sys-get", SYS_GET, (), parse_netns_mode, deadline),
    )


def ask(
    host: Host,
    name: str,
    op: int,
    attributes: Iterable[tuple[str, int | str]],
    parse: Callable[[bytes], T | Missing],
    deadline: float,
) -> T | Missing:
    """One question and what `parse` makes of the reply; `name` is that of a record's file."""
    reply = host.netlink(name, netlink.NETLINK_RDMA, request(op, 0, attributes), deadline)
    return reply if isinstance(reply, Missing) else parse(reply)


def _device(
    host: Host, index: int, no_uverbs: Missing | None, deadline: float
) -> NldevDevice | Missing:
    at = (("DEV_INDEX", index),)
    device = ask(host, f"nldev-get-{index}", GET, at, parse_device, deadline)
    if not isinstance(device, NldevDevice):
        if device.why is _GONE:
            return gone(index)
        return Missing(device.why, f"nldev device {index}: {device.detail}")
    answers = _ports(host, device, deadline)
    refused = {number: port for number, port in answers.items() if isinstance(port, Missing)}
    if refused and is_gone(host, index, deadline):
        return gone(index)
    ports = tuple(port for port in answers.values() if not isinstance(port, Missing))
    kind = (("CHARDEV_TYPE", "uverbs"), *at)
    chardev: Chardev | Missing = (
        ask(host, f"nldev-get-chardev-{index}", GET_CHARDEV, kind, parse_chardev, deadline)
        if no_uverbs is None
        else no_uverbs
    )
    return replace(
        device,
        ports=device.port_count if isinstance(device.port_count, Missing) else ports,
        unreadable_ports=refused,
        chardev=chardev,
        resources=ask(host, f"nldev-res-get-{index}", RES_GET, at, parse_resources, deadline),
    )


_GONE: Final = Why.UNSUPPORTED
"""EINVAL: GET of a device that nldev itself has named, and that is there no more
(nldev_get_doit)."""


def is_gone(host: Host, index: int, deadline: float) -> bool:
    """Whether a device that nldev has named is there no more, by another question."""
    at = (("DEV_INDEX", index),)
    found = ask(host, f"nldev-get-{index}-again", GET, at, parse_device, deadline)
    return isinstance(found, Missing) and found.why is _GONE


def gone(index: int) -> Missing:
    """What is said of such a device."""
    return Missing(Why.ABSENT, f"RDMA device {index} was deleted while it was being read")


def _ports(host: Host, device: NldevDevice, deadline: float) -> dict[int, NldevPort | Missing]:
    if isinstance(device.port_count, Missing):
        return {}
    return {
        number: ask(
            host,
            f"nldev-port-get-{device.index}-{number}",
            PORT_GET,
            (("DEV_INDEX", device.index), ("PORT_INDEX", number)),
            parse_port,
            deadline,
        )
        for number in range(1, min(device.port_count, _PORTS) + 1)
    }
