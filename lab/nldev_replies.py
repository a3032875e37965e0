"""RDMA devices of a described host, as nldev gives them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lab import counted
from lab.encoded import encoded
from lab.nldev_msg import nldev_msg
from lab.rdma_devices import Device, Port
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.host import netlink
from rdmadiag.sources import nldev_messages as nldev


def nldev_replies(
    devices: Sequence[Device], netns_mode: int | None, ifindex: Mapping[str, int]
) -> dict[str, bytes]:
    """Each request's name in a record → what the kernel answers; `ifindex` is of its netdevs."""
    mode = [] if netns_mode is None else [("SYS_ATTR_NETNS_MODE", netns_mode)]
    replies = {"nldev-sys-get": _reply(nldev.SYS_GET, mode)}
    dump = b""
    for at, device in enumerate(devices):
        index = at if device.index is None else device.index
        attributes = _device_attributes(index, device)
        dump += _reply(nldev.GET, attributes, netlink.NLM_F_MULTI)
        replies[f"nldev-get-{index}"] = _reply(nldev.GET, attributes)
        for number, port in enumerate(device.ports, 1):
            netdev = _port_netdev(port, ifindex)
            replies[f"nldev-port-get-{index}-{number}"] = _reply(
                nldev.GET, [*_port_attributes(index, number, device, port), *netdev]
            )
        replies[f"nldev-res-ctx-get-{index}"] = b""
        replies[f"nldev-res-get-{index}"] = _reply(
            nldev.RES_GET, [("ATTR_DEV_INDEX", index), ("ATTR_RES_SUMMARY", _summary(device))]
        )
        if device.uverbs is not None:
            replies[f"nldev-get-chardev-{index}"] = _reply(
                nldev.GET_CHARDEV,
                [
                    ("ATTR_CHARDEV_ABI", device.abi_version),
                    ("ATTR_CHARDEV_NAME", f"uverbs{device.uverbs}"),
                    ("ATTR_CHARDEV", (231 << 8) | (192 + device.uverbs)),
                    ("ATTR_UVERBS_DRIVER_ID", device.driver.number),
                ],
            )
    return replies | {"nldev-get": dump}


def _port_netdev(port: Port, ifindex: Mapping[str, int]) -> list[tuple[str, Any]]:
    if port.netdev is None or port.netdev not in ifindex:
        return []
    return [("ATTR_NDEV_INDEX", ifindex[port.netdev]), ("ATTR_NDEV_NAME", port.netdev)]


def _device_attributes(index: int, device: Device) -> list[tuple[str, Any]]:
    guid = int(device.node_guid.replace(":", ""), 16)
    return [
        ("ATTR_DEV_INDEX", index),
        ("ATTR_DEV_NAME", device.name),
        ("ATTR_PORT_INDEX", len(device.ports)),
        ("ATTR_FW_VERSION", device.firmware),
        ("ATTR_NODE_GUID", guid),
        ("ATTR_SYS_IMAGE_GUID", guid),
        ("ATTR_DEV_NODE_TYPE", int(device.node_type.partition(":")[0])),
        ("ATTR_DEV_PROTOCOL", device.protocol),
        *([("ATTR_DEV_TYPE", 1), ("ATTR_PARENT_NAME", device.smi_of)] if device.smi_of else []),
    ]


def _port_attributes(index: int, number: int, device: Device, port: Port) -> list[tuple[str, Any]]:
    attributes: list[tuple[str, Any]] = [
        ("ATTR_DEV_INDEX", index),
        ("ATTR_DEV_NAME", device.name),
        ("ATTR_PORT_INDEX", number),
        ("ATTR_PORT_STATE", (port.nldev_state or port.state).number),
        ("ATTR_PORT_PHYS_STATE", port.phys.number),
    ]
    if port.layer is LinkLayer.INFINIBAND:
        attributes += [("ATTR_LID", port.lid), ("ATTR_SM_LID", port.sm_lid), ("ATTR_LMC", 0)]
    return attributes


def _summary(device: Device) -> dict[str, list[tuple[str, Any]]]:
    counts = {"pd": 2, "cq": 2, "qp": 1, "cm_id": 0, "mr": 0, "ctx": 0, "srq": 0}
    if device.held is not None:
        counts = counted.summary(device.held)
    return {
        "attrs": [
            (
                "RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY",
                {
                    "attrs": [
                        ("RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME", name),
                        ("RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR", count),
                    ]
                },
            )
            for name, count in counts.items()
        ]
    }


def _reply(op: int, attributes: Iterable[tuple[str, Any]], flags: int = 0) -> bytes:
    message = nldev_msg()
    message["header"]["flags"] = flags
    message["attrs"] = [(f"RDMA_NLDEV_{name}", value) for name, value in attributes]
    return encoded(message, (netlink.RDMA_NL_NLDEV << 10) + op, flags)
