"""The manual's RDMA_RC_example in Python, between two hosts."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from lab.ports import wait_listening
from lab.rxe import Rxe
from tests.verbs.model.programs import MANUAL, PRINTED, programs

SECONDS = 60.0


@pytest.mark.stock
@pytest.mark.usefixtures("nothing_left")
def test_send_read_and_write_between_two_hosts(
    role: str, rxe: Rxe, peer: Rxe, barrier: Callable[..., None]
) -> None:
    command = [sys.executable, "-X", "dev", "-c", programs()[MANUAL], rxe.name]
    if role == "right":
        barrier("listening")
        command.append(peer.ipv4)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if role == "left":
            wait_listening(19875, SECONDS)
            barrier("listening")
        out, error = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert (process.returncode, error) == (0, "")
    theirs = ("client", "completion: RECV", "completion: RDMA")
    wanted = [row for row in PRINTED[MANUAL] if row.startswith(theirs) == (role == "right")]
    assert out.splitlines() == wanted
