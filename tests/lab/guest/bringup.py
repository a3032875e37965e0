"""The program of test_transitions.py: asks the kernel about every attribute of every step.

Prints a JSON list of [type, state after, attributes, errno]: for each step what it requires,
that without each one of them, with each optional one, and with each that is neither. Every
combination has a queue pair of its own, brought to the state before.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from ctypes import byref, c_int
from typing import Any

from rdmadiag.facts.ib import QpState, QpType
from rdmadiag.verbs.abi import IbvGid, IbvQpAttr
from rdmadiag.verbs.lib import CallFailed, Library
from rdmadiag.verbs.objects import Context, ProtectionDomain
from rdmadiag.verbs.transitions import BRINGUP, Attribute, Transition, transition

# Not for every step: the kernel reads what they name before it looks at the table.
NEVER = Attribute.ALT_PATH | Attribute.CAP | Attribute.EN_SQD_ASYNC_NOTIFY


HAS = (QpType.RC, QpType.UC, QpType.UD)
"""What soft RoCE makes: of others ibv_create_qp is EOPNOTSUPP."""


def main(name: str, gid_index: int, gid: bytes) -> None:
    library = Library("libibverbs.so.1")
    count = c_int(0)
    devices = library.call("ibv_get_device_list", byref(count))
    names = [library.call("ibv_get_device_name", devices[at]) for at in range(count.value)]

    def call(function: str, device: str, *arguments: Any) -> Any:
        return library.call(function, *arguments)

    answers = []
    with (
        closing(Context(call, name, devices[names.index(name.encode())])) as context,
        closing(context.alloc_pd()) as pd,
        closing(context.create_cq(16)) as cq,
    ):
        for kind in HAS:
            for step in BRINGUP[kind]:
                for mask in masks(step):
                    errno = tried(pd, cq, kind, step, mask, gid_index, gid)
                    answers.append([kind, step.after, int(mask), errno])
    json.dump(answers, sys.stdout)


def masks(step: Transition) -> Iterator[Attribute]:
    yield step.required
    for each in Attribute:
        if each in step.required and each is not Attribute.STATE:
            yield step.required & ~each
        elif each not in step.required and not each & NEVER:
            yield step.required | each


def tried(
    pd: ProtectionDomain,
    cq: Any,
    kind: QpType,
    step: Transition,
    mask: Attribute,
    gid_index: int,
    gid: bytes,
) -> int:
    with closing(pd.create_qp(cq, kind, 4)) as qp:
        for state in QpState:
            if state in (QpState.INIT, QpState.RTR) and state.number < step.after.number:
                modify(qp, state, transition(kind, state).required, gid_index, gid)
        try:
            modify(qp, step.after, mask, gid_index, gid)
        except CallFailed as failed:
            return failed.errno
    return 0


def modify(qp: Any, state: QpState, mask: Attribute, gid_index: int, gid: bytes) -> None:
    """With values that fit, so that only the mask can be wrong."""
    attributes = IbvQpAttr(
        qp_state=state.number,
        cur_qp_state=state.number - 1,
        path_mtu=3,
        qkey=0x11111111,
        dest_qp_num=qp.number,
        port_num=1,
        timeout=14,
        retry_cnt=7,
        rnr_retry=7,
        max_rd_atomic=1,
        max_dest_rd_atomic=1,
        min_rnr_timer=12,
    )
    address = attributes.ah_attr
    address.is_global, address.port_num = 1, 1
    address.grh.dgid = IbvGid(*gid)
    address.grh.sgid_index, address.grh.hop_limit = gid_index, 64
    qp._call("ibv_modify_qp", qp.device, qp.handle, byref(attributes), int(mask))


main(sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3]))
