"""A job with an end on each of two kernels: what each says beside what its programs counted."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.mixed_job import PERFTEST_PORT, SECONDS, answer, mixed_job, moved, sent_again, sink
from lab.ports import wait_listening
from lab.rxe import Rxe

POINTS = 0.05
TCP_RATE = 1e6  # bytes in a second
INTERVAL = "4"
SHORT_INTERVAL = "0.5"  # nothing is counted: perftest must not end before both hosts have looked

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.smoke
@pytest.mark.long
def test_each_end_says_the_share_that_perftest_and_the_copy_have(
    role: str,
    rxe: Rxe,
    peer: Rxe,
    tmp_path: Path,
    run: Run,
    exchange: Callable[..., Any],
    barrier: Callable[..., None],
    rdmadiag_json: Callable[..., tuple[int, Any]],
) -> None:
    run(["modprobe", "tcp_diag"], timeout=60.0)
    with mixed_job(tmp_path) as job:
        if role == "left":
            job.start(sink(rxe.ipv4))
            job.send_bw()
            wait_listening(PERFTEST_PORT, SECONDS)
            barrier("listening")
        else:
            barrier("listening")
            job.copy(peer.ipv4, TCP_RATE)
            job.send_bw(peer.ipv4)
            job.wait_sending(["RTS"])
        barrier("sending")
        document = answer(rdmadiag_json, str(job.pid), "--children", "--interval", INTERVAL)
        transport = document["transport"]
        window = transport["began"], transport["seconds"]
        other = tmp_path / "other.json"
        other.write_text(json.dumps(exchange("document", document)))
        again = (str(job.pid), "--children", "--interval", SHORT_INTERVAL, "--peer", str(other))
        both = answer(rdmadiag_json, *again)["peer"]
        barrier("looked")
        here = time.clock_gettime(time.CLOCK_BOOTTIME)
        there, began, seconds = exchange("window", (here, *window))
        if role == "right":  # the one that sends knows of both windows
            exchange("share", moved(job, began - there + here, seconds).share)
            expected = moved(job, *window).share
        else:
            expected = exchange("share", None)
    assert transport["rdma_bound"] in ("counted", "estimate"), json.dumps(document["ports"])
    assert abs(transport["share_rdma"] - expected) < POINTS, (
        transport,
        expected,
        sent_again(),
    )
    assert (both["both"]["joined"], both["both"]["connected"], both["both"]["halves"]) == (1, 1, [])
    assert document["states"] == ({"rtr": 1} if role == "left" else {"rts": 1})
    (away,) = [each for each in document["tcp"] if not each["within_host"]]
    assert away["netdev"] == rxe.netdev
