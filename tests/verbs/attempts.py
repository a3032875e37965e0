"""Ends, scripts of the fake library and requests that the tests of an attempt share."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rdmadiag.facts.attempt import Attempt
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer, PortState, QpType
from rdmadiag.verbs.outcome import conclude
from rdmadiag.verbs.protocol import End
from rdmadiag.verbs.records import Request
from rdmadiag.verbs.watchdog import Watched

LINUX_SCRIPT = """
device mlx5_0 node_type=1 max_qp=16 max_cq=16 max_pd=16 max_mr=16 phys_port_cnt=1
port mlx5_0 1 state=4 link_layer=2 active_mtu=3 max_mtu=5 gid_tbl_len=4
gid mlx5_0 1 0 fe80::1 type=2
gid mlx5_0 1 1 ::ffff:192.0.2.1 type=2
"""
DARWIN_SCRIPT = """
device rdma_en1 transport=100 max_qp=11 max_cq=11 max_pd=11 max_mr=100 phys_port_cnt=1
port rdma_en1 1 state=4 link_layer=100 active_mtu=5 max_mtu=5 gid_tbl_len=4
gid rdma_en1 1 0 fe80::1
gid rdma_en1 1 1 ::ffff:192.0.2.1
"""
LINUX_END = End(
    device="mlx5_0",
    port=1,
    link_layer=LinkLayer.ETHERNET,
    state=PortState.ACTIVE,
    active_mtu=1024,
    mtu=1024,
    gid_index=1,
    gid=Gid.parse("::ffff:192.0.2.1"),
    gid_type=GidType.ROCE_V2,
    prefix_length=24,
    lid=0,
    qp_type=QpType.RC,
    payload_bytes=64,
    iterations=10,
    permitted=True,
)
DARWIN_END = replace(
    LINUX_END,
    device="rdma_en1",
    link_layer=LinkLayer.THUNDERBOLT,
    gid_type=None,
    lid=7,
    active_mtu=4096,
    mtu=4096,
    qp_type=QpType.UC,
)
HOSTS = {"linux": (LINUX_SCRIPT, LINUX_END), "darwin": (DARWIN_SCRIPT, DARWIN_END)}


def request(
    library: object = "",
    ends: Sequence[End] = (LINUX_END, LINUX_END),
    seconds: float = 10.0,
    **changes: Any,
) -> Request:
    """Both ends on this host, from now on."""
    now = time.monotonic()
    return Request(
        **{
            "platform": "linux",
            "library": str(library),
            "start": now,
            "deadline": now + seconds,
            "ends": tuple(ends),
            "meet": None,
            "host": "",
            "port": 0,
            "until": now,
            "secret": None,
        }
        | changes
    )


def concluded(found: Watched, asked: Request, **how: Any) -> Attempt:
    """What came of it."""
    return conclude(
        found.records,
        platform=asked.platform,  # type: ignore[arg-type]
        ends=asked.ends,
        seconds=found.seconds,
        returncode=found.returncode,
        unkillable=found.unkillable,
        pid=found.pid,
        **how,
    )
