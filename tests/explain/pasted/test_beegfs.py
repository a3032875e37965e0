"""Connections of a client of BeeGFS in a paste."""

import pytest

from tests.explain.pasted.answer import ON_N1, first

NET = f"""{ON_N1}beegfs-net
   Connections: TCP: 1 (192.0.2.1:8008);
   Connections: {{}}: 4 (192.0.2.2:8003);
   Connections: {{}}: 4 (192.0.2.3:8003);
"""
OFFERED = f"""{ON_N1}beegfs-ctl --listnodes --nodetype=storage --nicdetails
   + ib0[ip addr: 192.0.2.2; type: RDMA]
   + ib0[ip addr: 192.0.2.2; type: TCP]
"""


@pytest.mark.parametrize(
    ("paste", "answer"),
    [
        (NET.format("RDMA", "RDMA"), None),
        (NET.format("RDMA", "TCP"), ("feature-not-built", 4, False)),
        (NET.format("TCP", "TCP"), None),
        (NET.format("TCP", "TCP") + OFFERED, ("feature-not-built", 3, False)),
        (NET.format("RDMA", "RDMA") + OFFERED, None),
        (NET.format("RDMA", "RDMA") + NET.format("TCP", "TCP").replace("n1", "n2"), None),
        (
            NET.format("TCP", "TCP").replace("8003)", "8003 [fallback route])"),
            ("feature-not-built", 3, False),
        ),
        (
            f"{NET.format('RDMA', 'RDMA')}mgmt_nodes\n   Connections: TCP: 1 (192.0.2.1:9008);\n",
            None,
        ),
    ],
    ids=[
        "all by RDMA",
        "one by TCP",
        "all by TCP",
        "all by TCP, RDMA offered",
        "offered and used",
        "two hosts",
        "all by TCP, since others failed",
        "another port of mgmtd",
    ],
)
def test_servers_that_are_reached_by_tcp(paste: str, answer: tuple[str, int, bool] | None) -> None:
    assert first(paste) == answer
