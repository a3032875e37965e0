"""The route GID that rdmadiag names on each of two hosts is one that a real queue pair can use."""

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from lab.ports import wait_listening
from lab.rxe import Rxe

PORT = 18602

Run = Callable[..., subprocess.CompletedProcess[str]]


def pingpong(
    role: str, index: int, peer: Rxe, run: Run, barrier: Callable[..., None]
) -> subprocess.CompletedProcess[str]:
    """ibv_rc_pingpong between both hosts, the left one serving, with this host's GID index."""
    command = ["ibv_rc_pingpong", "-d", "rxe0", "-g", str(index), "-n", "100", "-p", str(PORT)]
    if role == "right":
        barrier("serving")
        return run([*command, peer.ipv4], timeout=60.0)
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_listening(PORT, 30.0)
        barrier("serving")
        stdout, stderr = server.communicate(timeout=60.0)
    finally:
        server.kill()
    return subprocess.CompletedProcess(command, server.returncode, stdout, stderr)


def test_each_host_meets_the_other(rxe: Rxe, peer: Rxe, exchange: Callable[..., Any]) -> None:
    assert exchange("address", rxe.ipv4) == peer.ipv4


@pytest.mark.smoke
@pytest.mark.stock
def test_a_queue_pair_connects_over_the_ipv4_gid(
    role: str, rxe: Rxe, peer: Rxe, run: Run, barrier: Callable[..., None]
) -> None:
    done = pingpong(role, 1, peer, run, barrier)
    assert done.returncode == 0, done.stderr
    assert "100 iters" in done.stdout


@pytest.mark.smoke
@pytest.mark.stock
def test_a_queue_pair_connects_over_the_route_gid(
    role: str,
    rxe: Rxe,
    peer: Rxe,
    run: Run,
    barrier: Callable[..., None],
    rdmadiag_json: Callable[..., tuple[int, Any]],
) -> None:
    code, document = rdmadiag_json("gids", "--device", "rxe0")
    assert code == 0
    (port,) = document["ports"]
    assert (port["device"], port["port"]) == ("rxe0", 1)
    assert port["route"] is not None

    done = pingpong(role, port["route"]["index"], peer, run, barrier)
    assert done.returncode == 0, done.stderr
    assert "100 iters" in done.stdout
