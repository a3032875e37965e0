"""Events of a device, where the kernel stopped, and what UCX says of every transport."""

from typing import Final

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.signs.sign import OF_DRIVER, sign
from rdmadiag.explain.remedies import AT_PEER, DEVICES, DMESG_OF_RDMA
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.events import AsyncEvent

_EVENT: Final = r"event|NET/IB|ibv|rdma|ucx|hca|mlx"

_HARMLESS: Final = tuple(
    sign(
        event.text.lower().replace(" ", "-"),
        Kind.NOTE,
        Stage.DATA,
        rf"{event.constant}\b|\b{event.text}\b",
        (),
        look,
        only=r"event",
    )
    for event, look in (
        (AsyncEvent.COMM_EST, ()),
        (AsyncEvent.SQ_DRAINED, ()),
        (AsyncEvent.PATH_MIG, (DMESG_OF_RDMA, "# rearm: load an alternate path again")),
        (AsyncEvent.PORT_ACTIVE, (DMESG_OF_RDMA,)),
        (AsyncEvent.SRQ_LIMIT_REACHED, ("# post receives, and arm the limit again",)),
        (AsyncEvent.QP_LAST_WQE_REACHED, ()),
        (AsyncEvent.DEVICE_SPEED_CHANGE, ("rdmadiag devices   # the rate of each port",)),
    )
)

SIGNS: Final = (
    sign(
        "module-too-hot",
        Kind.FAILURE,
        None,
        r"\bmodule \d+, cable error, high temperature\b",
        ("too-hot",),
        only=OF_DRIVER,
    ),
    sign(
        "module-error",
        Kind.FAILURE,
        None,
        r"port module event\[error\]|\bmodule \d+, cable error\b",
        ("cable-or-module", "link-lost"),
        only=OF_DRIVER,
    ),
    sign(
        "port-error",
        Kind.FAILURE,
        Stage.DATA,
        r"IBV_EVENT_PORT_ERR|\bport error\b",
        ("link-lost", "port-went-down"),
        only=_EVENT,
    ),
    sign(
        "device-fatal",
        Kind.FAILURE,
        Stage.DATA,
        r"IBV_EVENT_DEVICE_FATAL|local catastrophic error|device fatal",
        ("firmware-failed", "device-removed"),
        (DMESG_OF_RDMA, DEVICES),
        only=_EVENT,
    ),
    sign(
        "gid-table-change",
        Kind.FAILURE,
        Stage.DATA,
        r"IBV_EVENT_GID_CHANGE|GID table change",
        ("gid-changed", "link-lost"),
    ),
    sign(
        "queue-pair-event",
        Kind.FAILURE,
        Stage.DATA,
        r"IBV_EVENT_QP_(?:FATAL|REQ_ERR|ACCESS_ERR)|local access violation|local work queue"
        r"|invalid request local work queue",
        ("remote-key-wrong", "acs-or-iommu"),
        (AT_PEER, DMESG_OF_RDMA),
    ),
    sign(
        "cq-event",
        Kind.FAILURE,
        Stage.DATA,
        r"IBV_EVENT_CQ_ERR|\bCQ error\b",
        ("cq-overrun",),
        only=r"event",
    ),
    sign(
        "srq-event",
        Kind.FAILURE,
        Stage.DATA,
        r"IBV_EVENT_SRQ_ERR|\bSRQ (?:catastrophic )?error\b",
        ("receive-queue-failed",),
        only=r"event",
    ),
    sign(
        "work-queue-event",
        Kind.FAILURE,
        Stage.DATA,
        r"IBV_EVENT_WQ_FATAL|\bWQ fatal\b",
        ("receive-queue-failed",),
        only=r"event",
    ),
    sign(
        "path-migration-failed",
        Kind.FAILURE,
        Stage.DATA,
        r"IBV_EVENT_PATH_MIG_ERR|path migration (?:request error|error|failed)",
        ("alternate-path-unusable",),
    ),
    sign(
        "fabric-event",
        Kind.NOTE,
        Stage.DATA,
        r"IBV_EVENT_(?:LID|PKEY|SM)_CHANGE|IBV_EVENT_CLIENT_REREGISTER|\b(?:LID|SM|P_Key) change\b"
        r"|\bclient reregistration\b",
        ("fabric-changed",),
    ),
    *_HARMLESS,
    # arch/x86/kernel/dumpstack.c and arch/arm64/kernel/process.c: where the kernel stopped
    sign(
        "kernel-stopped",
        Kind.FAILURE,
        None,
        r"\b(?:rip: 0010:|ip: (?:\[<[0-9a-f]+>\] )?|pc : )\w[\w.]*\+0x[0-9a-f]+/0x[0-9a-f]+ \[",
        ("program-fault",),
        (DMESG_OF_RDMA, "uname -r; modinfo MODULE | head -5   # another release may mend it"),
        only=r"\[(?:\w*(?:rdma|mlx[45]|peermem|peer_mem)\w*|ib_\w+|iw_\w+|bnxt_\w+|irdma|i40iw|qedr"
        r"|hns_roce\w*|efa|mana_ib|erdma|siw|hfi1|qib|ko2iblnd|rtrs_\w+|rnbd_\w+|gdrdrv|nvidia_fs)\]",
    ),
    # drivers/net/ethernet/mellanox/mlx5/core/events.c: mlx5_pme_error
    sign(
        "module-too-hot",
        Kind.FAILURE,
        None,
        r"\bmodule event\b.{0,60}high temperature",
        ("too-hot", "cable-or-module"),
        only=r"mlx[45]",
    ),
    sign(
        "module-refused",
        Kind.FAILURE,
        None,
        r"\bmodule event\[error\].{0,60}(?:shorted|eeprom|unknown identifier|bus stuck|part number"
        r"|long range|power budget|unsupported)",
        ("cable-or-module", "link-lost", "port-down"),
        only=r"mlx[45]",
    ),
    sign(
        "safe-mode",
        Kind.FAILURE,
        Stage.OPEN,
        r"\bice [0-9a-f:.]+: .{0,120}\bsafe mode\b",
        ("firmware-old", "rdma-off-on-device"),
    ),
    # Before all others: its line quotes what each transport said.
    sign(
        "transport-not-usable",
        Kind.FAILURE,
        Stage.OPEN,
        r"no (?:\w+ ){0,5}?(?:transports?|resources) (?:to|are|available|for)"
        r"|transports?.{0,40}not available|no usable transports",
        ("transport-unusable", "no-path", "no-usable-gid", "no-rdma-device"),
        only=r"\bUCX\b",
    ),
)
