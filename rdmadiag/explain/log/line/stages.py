"""Which call a line is about, and where in the life of a queue pair that is."""

import re
from typing import Final

from rdmadiag.facts.attempt import Stage
from rdmadiag.late import late

_CALL: Final = late(
    r"\b((?:ibv|mlx5dv|efadv)_[a-z0-9_]+"
    r"|rdma_(?:create_(?:qp|id|ep|event_channel)|resolve_(?:addr|route)|connect|accept|listen"
    r"|bind_addr|get_cm_event|getaddrinfo|reg_\w+|post_\w+)"
    r"|r(?:connect|bind|listen|accept|send|recv|poll)(?=: )"
    r"|fi_(?:getinfo|eq_\w+|fabric|domain|endpoint|enable|cq_\w+|mr_\w+|connect|accept|av_\w+"
    r"|ep_\w+))\b"
)
_NO_CALLS: Final = late(r"ibv_(?:wc|event|qps?|access|mtu)_", re.IGNORECASE)


def call_of(text: str) -> str | None:
    """The function that failed: of libibverbs, librdmacm, libfabric or a provider."""
    for found in _CALL.finditer(text):
        if not _NO_CALLS.match(found[1]):
            return str(found[1])
    return None


_STAGES: Final = tuple(
    (stage, late(pattern, re.IGNORECASE))
    for stage, pattern in (
        (
            Stage.RTR,
            (
                r"INIT2RTR|INIT ?(?:->|→|to) ?RTR|next state (?:IBV_QPS_)?RTR"
                r"|(?:to|into) (?:the )?(?:state )?(?:IBV_QPS_)?RTR\b|\bRTR\b.{0,20}(?:fail|error)"
                r"|ready to receive|QP.{0,30}\bRTR\b|init2rtr"
                r"|\bconnect on mlx[45]_\w+ failed|devx_qp_modify\(503\)"
            ),
        ),
        (
            Stage.RTS,
            (
                r"RTR2RTS|RTR ?(?:->|→) ?RTS|next state (?:IBV_QPS_)?RTS"
                r"|(?:to|into) (?:the )?(?:state )?(?:IBV_QPS_)?RTS\b|QP.{0,30}\bRTS\b"
            ),
        ),
        (
            Stage.INIT,
            (
                r"RST2INIT|RESET ?(?:->|→) ?INIT|next state (?:IBV_QPS_)?INIT"
                r"|(?:to|into) (?:the )?(?:state )?(?:IBV_QPS_)?INIT\b|QP.{0,30}\bto INIT\b"
            ),
        ),
        (
            Stage.TEARDOWN,
            (
                r"\b(?:ibv|rdma)_(?:destroy|dealloc|dereg|close)\w*"
                r"|2RST_QP|DESTROY_(?:QP|CQ|MKEY)|DEALLOC_"
                r"|\b(?:dealloc\w*|deregister\w*|destroy\w*) (?:the )?(?:PD|MR|CQ|QP|AH|SRQ"
                r"|protection domain|memory region|completion queue|queue pair)\b"
            ),
        ),
        (
            Stage.REG_MR,
            (
                r"ibv_(?:exp_)?(?:reg_\w*mr\w*|advise_mr)|rdma_reg_\w+|fi_mr_reg\w*|CREATE_MKEY"
                r"|(?:regist\w*|reg) (?:the )?(?:user |gpu |local |host )?(?:memory|MR|buffer)"
                r"|mem(?:ory)?_? ?regist|regist\w*memoryregion"
                r"|(?:allocate|create|register) (?:an? )?(?:MR|memory region)"
                r"|reg_mr|\bmr_reg|:mr:"
            ),
        ),
        (
            Stage.CREATE_CQ,
            (
                r"ibv_create_(?:cq|comp_channel)\w*|CREATE_CQ"
                r"|(?:creat|resiz)\w* (?:an? |the )?(?:CQ\b"
                r"|completion queue|comp(?:letion)? channel)"
            ),
        ),
        (
            Stage.CREATE_QP,
            (
                r"(?:ibv|rdma|mlx5dv|efadv)_create_(?:qp|srq|dct)\w*|\bsetup_qp failed"
                r"|CREATE_(?:QP|DCT|SRQ|XRC)"
                r"|devx_obj_create\((?:QP|DCT|SRQ|RMP)"
                r"|creat\w+ (?:an? |the )?(?:\w+ )?(?:QP\b|queue pair|SRQ\b|shared receive queue)"
            ),
        ),
        (
            Stage.ALLOC_PD,
            (
                r"ibv_alloc_(?:pd|parent)\w*|ALLOC_PD"
                r"|(?:alloc\w*|creat\w+) (?:an? |the )?(?:PD\b|protection domain)"
            ),
        ),
        (
            Stage.OPEN,
            (
                r"ibv_(?:open|get_device|import|query_(?:device|port|gid|pkey))\w*|mlx5dv_open"
                r"|ALLOC_UAR|open(?:ing)? (?:the )?(?:ib |rdma |infiniband |verbs )?device"
                r"|/dev/infiniband|\buverbs\d|get (?:the )?(?:device )?context"
                r"|query (?:the )?(?:port|device|gid)"
            ),
        ),
        (
            Stage.RTR,
            (
                r"ibv_modify_qp|modify[ _](?:the )?qp|chang\w+ (?:the )?queue pair"
                r"|ibv_create_ah|create[ _](?:an? )?(?:ah\b|address handle)"
            ),
        ),
        (
            Stage.CONNECT,
            (
                r"rdma_(?:resolve|connect|accept|listen|bind|create_id|create_ep|getaddrinfo"
                r"|get_cm|create_event)\w*|\br(?:connect|bind|listen|accept|poll): "
                r"|RDMA_CM_EVENT|rdma_cm\b|CM event"
                r"|(?:bind address|resolv\w+ (?:address|addr|route)) failed"
                r"|rdma connection establishment|rpcrdma: connection|fi_eq_\w+"
            ),
        ),
        (
            Stage.DATA,
            (
                r"ibv_(?:post|poll|req_notify)\w*|\br(?:send|recv): "
                r"|(?:\b|_)post(?:ing)?[ _](?:an? )?(?:send|recv|receive)"
                r"|poll(?:ing)? (?:the )?(?:\w+ )?(?:CQ|completion)|\bcompletion\b|\bCQE\b"
            ),
        ),
    )
)


def stage_of(text: str, call: str | None = None) -> Stage | None:
    """Where in the life of a queue pair the line is; by the call, else by words."""
    if call:
        for stage, pattern in _STAGES:
            if pattern.search(call) and call != "ibv_modify_qp":
                return stage
    return next((stage for stage, pattern in _STAGES if pattern.search(text)), None)
