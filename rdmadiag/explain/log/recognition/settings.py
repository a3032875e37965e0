"""How a log says that a program was set, or what it found: what other lines of it then mean.

Not a failure by itself, and mostly not shown; but it decides between the causes of one.
"""

import re
from typing import Final

from rdmadiag.explain.log.recognition.links import DRIVER_STARTED, LINK_UP
from rdmadiag.facts.attempt import Stage
from rdmadiag.frozen import dataclass
from rdmadiag.late import late

RDMA_OFF: Final = "rdma-off"
"""NCCL is set to use no RDMA: that it has no device is as it should be."""
BY_SOCKETS: Final = "by-sockets"
"""NCCL goes by sockets."""
RDMA_ASKED_FOR: Final = "rdma-asked-for"
"""A device, or RDMA as the transport, was asked for: sockets are not what was meant."""
ON_INFINIBAND: Final = "on-infiniband"
ON_ROCE: Final = "on-roce"
"""All devices that NCCL takes are of that link layer."""
DEVICES_EXCLUDED: Final = "devices-excluded"
"""NCCL is to leave some devices aside; it is asked for the others."""
DEVICES_NAMED: Final = "devices-named"
"""NCCL is to take those alone, and what it was given is named like a netdev."""
LAYERS_MIXED: Final = "layers-mixed"
"""NCCL takes devices of both link layers, and a port of one cannot reach one of the other."""
ASKS_FOR_RDMA: Final = frozenset(
    {
        *(RDMA_ASKED_FOR, ON_INFINIBAND, ON_ROCE, DEVICES_EXCLUDED, DEVICES_NAMED, LAYERS_MIXED),
    }
)
OF_THE_WAY: Final = ASKS_FOR_RDMA | {BY_SOCKETS}

RETRIES_EXCEEDED: Final = 12
"""IBV_WC_RETRY_EXC_ERR."""

LISTED_DOWN: Final = "port-listed-down"
"""The sign of a port that ibstat or ibdev2netdev lists: perhaps one of several."""
PORT_ACTIVE: Final = "port-active"
"""A listing of ports has one that is active: of two ports one is often without a cable."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One, and which cause it makes the likeliest of a failure at these stages."""

    word: str
    pattern: "re.Pattern[str]"
    stages: frozenset[Stage] = frozenset()
    label: str = ""
    shown: str = ""  # the cause that a note of it names
    status: int | None = None  # of failures with this status, whatever causes they name


_ALL_OF: Final = r"\bNET/IB : Using (?:\[\d+\][\w.-]+:\d+/{}\b[\w/]* ?)+(?:\[RO\]|;|$)"

SETTINGS: Final = (
    Setting(
        RDMA_OFF,
        late(r"NCCL_IB_DISABLE set by environment to 1\.?$"),
        frozenset({Stage.CONNECT}),
        "rdma-off-by-variable",
        shown="rdma-off-by-variable",
    ),
    # 4.096 us x 2^timeout: NCCL's own was 14 and is 20 now.
    Setting(
        "ack-timeout-short",
        late(
            r"NCCL_IB_TIMEOUT set by environment to (?:\d|1[0-3])\.?$"
            r"|NCCL_IB_RETRY_CNT set by environment to [01]\.?$"
        ),
        frozenset({Stage.DATA}),
        "ack-timeout-short",
        status=RETRIES_EXCEEDED,
    ),
    Setting(
        PORT_ACTIVE,
        late(
            r"^\s*state: +(?:\d: )?(?:PORT_)?active\b|^link \S+ .{0,120}state ACTIVE"
            r"|^\S+ port \d+ ==> \S+ \(up\)",
            re.IGNORECASE,
        ),
    ),
    Setting(DRIVER_STARTED, late(r": renamed from \w|: enabling device \(")),
    Setting(LINK_UP, late(r"\blink (?:is )?up\b|\bcable plugged$", re.IGNORECASE)),
    Setting(
        DEVICES_EXCLUDED,
        late(r"NCCL_IB_HCA set (?:to|by environment to) \^"),
        frozenset({Stage.OPEN}),
        "device-absent",
    ),
    Setting(
        DEVICES_NAMED,
        late(r"NCCL_IB_HCA set (?:to|by environment to) =?(?:ib\d|eth\d|en[ops]\d|bond)"),
        frozenset({Stage.OPEN}),
        "device-absent",
    ),
    Setting(
        LAYERS_MIXED,
        late(r"\bNET/IB : Using (?=.*:\d+/IB\b)(?=.*:\d+/RoCE\b)"),
        frozenset({Stage.RTR}),
        "link-layers-differ",
    ),
    Setting(
        "gid-without-netdev",
        late(r"GID index \d+ .{0,60}has no associated network device", re.IGNORECASE),
        frozenset({Stage.OPEN, Stage.RTR}),
        "gid-without-netdev",
    ),
    # Row 0 of a RoCE port is RoCE v1 and link-local; perftest prints the index on Ethernet alone.
    Setting(
        "gid-index-0",
        late(
            r"_GID_INDEX set by environment to 0\.?$|^\s*GID index\s+: 0$"
            r"|\bib(?:_|v_)\w+ [^|;]{0,200}(?:-g|-x|--gid-(?:idx|index))[ =]0\b"
        ),
        frozenset({Stage.DATA, Stage.RTR}),
        "gid-does-not-route",
    ),
    Setting(
        "cxi-listed",
        late(r"^\s*provider: cxi$|\bFI_PROVIDER=[\"']?cxi\b"),
        frozenset({Stage.OPEN}),
        "cxi-service",
    ),
    # A path MTU that a RoCE port with the usual MTU of Ethernet does not carry.
    Setting(
        "path-mtu",
        late(r"\bib(?:_|v_)\w+ [^|;]{0,200}(?:-m|--mtu)[ =](?:2048|4096)\b"),
        frozenset({Stage.DATA}),
        "mtu-too-large",
    ),
    Setting(
        "memlock-small",
        # ulimit -a, and /proc/PID/limits, in bytes
        late(r"max locked memory\s+\(kbytes, -l\) \d{2,5}$|^Max locked memory\s+\d{4,8}\s+\d"),
        frozenset({Stage.REG_MR, Stage.CREATE_CQ, Stage.CREATE_QP}),
        "memlock",
    ),
    Setting(ON_INFINIBAND, late(_ALL_OF.format("IB"))),
    Setting(ON_ROCE, late(_ALL_OF.format("RoCE"))),
    Setting(
        RDMA_ASKED_FOR,
        late(
            r"\bNCCL_IB_(?:HCA|TC|ROCE_VERSION_NUM) set (?:to|by environment to) \S"
            r"|\bNCCL_NET set by environment to IB\b|\bNCCL_IB_DISABLE set by environment to 0"
            r"|\bNET/IB : Using \[0\]\w+:\d"
            # an interface of InfiniBand: the adapter is there
            r"|\bNET(?:/Socket)? : Using (?:\[0\]|interface )ib(?:\d|[sp]\d)"
        ),
    ),
    Setting(
        BY_SOCKETS,
        late(
            r"\bNET/Socket : Using \[0\]|\bUsing (?:internal )?[Nn]etwork Socket\b"
            r"|\bAssigned NET plugin Socket\b"
        ),
    ),
)


def setting_of(text: str) -> Setting | None:
    """The first that the line states."""
    return next((each for each in SETTINGS if each.pattern.search(text)), None)
