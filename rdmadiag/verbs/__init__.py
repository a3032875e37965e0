"""Verbs: the commands' part, whose library is loaded in a child process, and the object model.

`from rdmadiag import verbs` loads no library and opens nothing. The names below are of
rdmadiag.verbs.model, imported when they are first used: classes with which a program works on
devices in its own process, by its own decision. docs/verbs.md says what that means.

>>> from rdmadiag import verbs
>>> verbs.Opcode.READ
<Opcode.READ: 4>
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rdmadiag.facts.capability import DeviceCap, RawPacketCap
    from rdmadiag.facts.gid import Gid
    from rdmadiag.verbs.lib import CallFailed
    from rdmadiag.verbs.model.address import AHAttr
    from rdmadiag.verbs.model.capability import Capability
    from rdmadiag.verbs.model.completion import CQ, CompChannel, CompletionError, WorkCompletion
    from rdmadiag.verbs.model.constants import (
        Access,
        EventType,
        Opcode,
        QPState,
        QPType,
        SendFlags,
        WCFlags,
        WCOpcode,
    )
    from rdmadiag.verbs.model.context import (
        Context,
        PortNotActive,
        create_recv_wrs,
        create_send_wrs,
        hascapability,
        post_wrs,
    )
    from rdmadiag.verbs.model.device import (
        Device,
        Event,
        NoDevice,
        OpenDevice,
        device_list,
        fork_init,
        open_device,
    )
    from rdmadiag.verbs.model.domain import AH, PD, SRQ
    from rdmadiag.verbs.model.flow import Flow, create_flow, destroy_flow
    from rdmadiag.verbs.model.lifetime import Closed, Forked, InUse, Mismatch, VerbsError
    from rdmadiag.verbs.model.memory import MR, SGE, create_sges, packets
    from rdmadiag.verbs.model.multicast import Membership, attach_mcast
    from rdmadiag.verbs.model.queue_pair import QP
    from rdmadiag.verbs.model.repost import repost_loop
    from rdmadiag.verbs.model.states import QPCapacity, RCConnParams, WrongAttributes
    from rdmadiag.verbs.model.window import MW, MWType, alloc_mw
    from rdmadiag.verbs.model.work_request import PostFailed, RecvWR, SendWR, link
    from rdmadiag.verbs.model.xrc import XRCD, XRCSRQ, XRCRecvQP, open_xrcd

__all__ = [
    "AH",
    "CQ",
    "MR",
    "MW",
    "PD",
    "QP",
    "SGE",
    "SRQ",
    "XRCD",
    "XRCSRQ",
    "AHAttr",
    "Access",
    "CallFailed",
    "Capability",
    "Closed",
    "CompChannel",
    "CompletionError",
    "Context",
    "Device",
    "DeviceCap",
    "Event",
    "EventType",
    "Flow",
    "Forked",
    "Gid",
    "InUse",
    "MWType",
    "Membership",
    "Mismatch",
    "NoDevice",
    "Opcode",
    "OpenDevice",
    "PortNotActive",
    "PostFailed",
    "QPCapacity",
    "QPState",
    "QPType",
    "RCConnParams",
    "RawPacketCap",
    "RecvWR",
    "SendFlags",
    "SendWR",
    "VerbsError",
    "WCFlags",
    "WCOpcode",
    "WorkCompletion",
    "WrongAttributes",
    "XRCRecvQP",
    "alloc_mw",
    "attach_mcast",
    "create_flow",
    "create_recv_wrs",
    "create_send_wrs",
    "create_sges",
    "destroy_flow",
    "device_list",
    "fork_init",
    "hascapability",
    "link",
    "open_device",
    "open_xrcd",
    "packets",
    "post_wrs",
    "repost_loop",
]

_WHERE: Final = {
    "rdmadiag.facts.capability": "DeviceCap RawPacketCap",
    "rdmadiag.facts.gid": "Gid",
    "rdmadiag.verbs.lib": "CallFailed",
    "rdmadiag.verbs.model.address": "AHAttr",
    "rdmadiag.verbs.model.capability": "Capability",
    "rdmadiag.verbs.model.completion": "CQ CompChannel CompletionError WorkCompletion",
    "rdmadiag.verbs.model.constants": (
        "Access EventType Opcode QPState QPType SendFlags WCFlags WCOpcode"
    ),
    "rdmadiag.verbs.model.context": (
        "Context PortNotActive create_recv_wrs create_send_wrs hascapability post_wrs"
    ),
    "rdmadiag.verbs.model.device": (
        "Device Event NoDevice OpenDevice device_list fork_init open_device"
    ),
    "rdmadiag.verbs.model.domain": "AH PD SRQ",
    "rdmadiag.verbs.model.flow": "Flow create_flow destroy_flow",
    "rdmadiag.verbs.model.lifetime": "Closed Forked InUse Mismatch VerbsError",
    "rdmadiag.verbs.model.memory": "MR SGE create_sges packets",
    "rdmadiag.verbs.model.multicast": "Membership attach_mcast",
    "rdmadiag.verbs.model.queue_pair": "QP",
    "rdmadiag.verbs.model.repost": "repost_loop",
    "rdmadiag.verbs.model.states": "QPCapacity RCConnParams WrongAttributes",
    "rdmadiag.verbs.model.window": "MW MWType alloc_mw",
    "rdmadiag.verbs.model.work_request": "PostFailed RecvWR SendWR link",
    "rdmadiag.verbs.model.xrc": "XRCD XRCRecvQP XRCSRQ open_xrcd",
}


def __getattr__(name: str) -> Any:
    """The names of the object model, imported when they are first used."""
    # Every import of a submodule comes by here too: `from rdmadiag.verbs import records`.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = next(module for module, names in _WHERE.items() if name in names.split())
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
