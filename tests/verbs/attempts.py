"""Ends, scripts of the fake library and requests that the tests of an attempt share."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from rdmadiag.facts.attempt import Attempt, EndFacts, Outcome, Stage, Teardown
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer, PortState, QpState, QpType
from rdmadiag.verbs.bounds import Bounds
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
HERE = replace(LINUX_END, active_mtu=4096, gid_index=3, iterations=100)
THERE = replace(HERE, gid=Gid.parse("::ffff:192.0.2.2"))
"""Two hosts that fit each other."""

HERE_FACTS = EndFacts(
    device="mlx5_0",
    port=1,
    link_layer=LinkLayer.ETHERNET,
    state=PortState.ACTIVE,
    gid_index=3,
    gid=Gid.parse("::ffff:192.0.2.1"),
    gid_type=GidType.ROCE_V2,
    lid=0,
    qp_type=QpType.RC,
    mtu=1024,
    queue_pair=17,
    psn=1,
    qp_state=QpState.RTS,
)
VERIFIED = Attempt(
    outcome=Outcome.VERIFIED,
    stage=Stage.DONE,
    platform="linux",
    summary="both payloads arrived as they were sent",
    call=None,
    errno=None,
    completion=None,
    local=HERE_FACTS,
    remote=replace(HERE_FACTS, device="mlx5_7", gid=Gid.parse("::ffff:192.0.2.2"), queue_pair=18),
    peer_failure=None,
    problems=(),
    data_verified=True,
    latency=None,
    teardown=Teardown.CLEAN,
    steps=(),
    touched=True,
)
"""What came of two that fit."""

SECRET = bytes(range(32))

HOSTS = {"linux": (LINUX_SCRIPT, LINUX_END), "darwin": (DARWIN_SCRIPT, DARWIN_END)}


@contextmanager
def deadline(bounds: Bounds, seconds: float) -> Iterator[None]:
    """Of every wait, for a while."""
    before, bounds._deadline = bounds._deadline, time.monotonic() + seconds
    try:
        yield
    finally:
        bounds._deadline = before


def together(*parts: Callable[[], Any]) -> list[Any]:
    """What each returned or raised; all ran at the same time."""
    with ThreadPoolExecutor(len(parts)) as pool:
        running = [pool.submit(part) for part in parts]
        return [each.exception() or each.result() for each in running]


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
        returncode=found.returncode,
        unkillable=found.unkillable,
        pid=found.pid,
        **how,
    )
