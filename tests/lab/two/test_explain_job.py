"""Four ranks on two kernels, the cable of one of them cut: the story names that end."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.ports import wait_listening
from lab.rxe import Rxe, wait_ready

RANKS = (0, 1)  # of each end; those of the right one are 2 and 3
PORT = 18600
SECONDS = 60.0
SENDING = 5.0  # seconds in which the ranks connect and begin to send

Run = Callable[..., subprocess.CompletedProcess[str]]


def started(rank: int, log: Path, *peer: str) -> "subprocess.Popen[bytes]":
    """One rank: ib_send_bw with a queue pair that gives up after a second."""
    port = str(PORT + rank % 2)
    argv = ["ib_send_bw", "-d", "rxe0", "-x", "1", "-F", "-D", "40", "-s", "8192", "-t", "4"]
    argv += ["-u", "16", "-p", port, *peer]
    with log.open("wb") as file:
        return subprocess.Popen(["timeout", "60", *argv], stdout=file, stderr=file)


def test_the_end_whose_cable_was_cut_is_named(
    role: str,
    rxe: Rxe,
    peer: Rxe,
    tmp_path: Path,
    run: Run,
    do: Callable[[str], None],
    exchange: Callable[..., Any],
    barrier: Callable[..., None],
    rdmadiag_json: Callable[..., tuple[int, Any]],
) -> None:
    logs, reports = tmp_path / "logs", tmp_path / "reports"
    logs.mkdir()
    reports.mkdir()
    ranks = [rank + 2 * (role == "right") for rank in RANKS]
    own = {rank: logs / f"{role}-rank{rank}.log" for rank in ranks}
    if role == "left":
        jobs = [started(rank, own[rank]) for rank in ranks]
        for rank in ranks:
            wait_listening(PORT + rank % 2, SECONDS)
        barrier("listening")
    else:
        barrier("listening")
        jobs = [started(rank, own[rank], peer.ipv4) for rank in ranks]
        time.sleep(SENDING)
    try:
        barrier("sending")
        if role == "right":
            do(f"ip link set dev {rxe.netdev} down")
            try:
                _, report = rdmadiag_json("preflight", "--timeout", "20")
                for job in jobs:
                    job.wait(SECONDS)
            finally:
                do(f"ip link set dev {rxe.netdev} up")
                do(f"ip address add {rxe.ipv6}/64 dev {rxe.netdev} nodad")
                wait_ready(rxe)
        else:
            _, report = rdmadiag_json("preflight", "--timeout", "20")
        barrier("cut", 2 * SECONDS)
    finally:
        for job in jobs:
            job.terminate()  # timeout(1) passes it on
            job.wait(SECONDS)
    report["host"]["hostname"] = role  # both kernels have one name
    files = {path.name: path.read_text() for path in own.values()}
    theirs, of_peer = exchange("logs", (files, report))
    (reports / role).write_text(json.dumps(report))
    (reports / "other").write_text(json.dumps(of_peer))
    for name, text in theirs.items():
        (logs / name).write_text(text)

    code, document = rdmadiag_json("explain", "--log", str(logs), "--from", str(reports))
    said = {path.name: path.read_text() for path in logs.iterdir()}
    assert code == 2, said
    first = document["first"]
    assert (first["who"]["host"], first["who"]["device"]) == ("right", "rxe0"), (first, said)
    assert (first["whom"]["host"], first["whom"]["device"]) == ("left", "rxe0"), (first, said)
    # rxe flushes its queue pairs where its own interface goes down, or retries until it gives up;
    # that of 6.1 may refuse what it cannot send (IBV_WC_LOC_QP_OP_ERR)
    assert first["failure"]["completion"]["number"] in (2, 5, 12)
    assert document["common_end"]["host"] == "right", document
    assert document["failed_after"] == 1
