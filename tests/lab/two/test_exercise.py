"""`rdmadiag exercise` between two kernels: every cell, strangers, and a peer that goes."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import Attempt, Attempts, until
from lab.resources import queue_pair_states
from lab.rxe import Rxe, wait_ready
from lab.two import ALLOWED
from rdmadiag.verbs.remote_side import SILENT_SECONDS

pytestmark = pytest.mark.usefixtures("nothing_left")

SECONDS = 60.0
IS_6_1 = os.uname().release.startswith("6.1.")
WAITED_SECONDS = 25.0  # more than any listener waits for the other end
SECRETS = {"left": bytes(range(32)).hex(), "right": bytes(range(1, 33)).hex()}

Barrier = Callable[..., None]
Exchange = Callable[..., Any]
Start = Callable[..., Attempt]
Do = Callable[[str], None]
Netem = Callable[..., AbstractContextManager[None]]


@pytest.fixture
def exercise(start: Start) -> Start:
    def call(*options: str, deadline: float = SECONDS) -> Attempt:
        return start(*options, deadline=deadline, command="exercise")

    return call


def states(document: Any) -> dict[tuple[str, str, str], tuple[str, str | None]]:
    return {
        (each["operation"], each["qp_type"], each["via"]): (each["state"], each["cause"])
        for each in document["cells"]
    }


def secret(folder: Path, role: str) -> str:
    file = folder / "secret"
    file.write_text(SECRETS[role])
    file.chmod(0o600)
    return f"--secret-file={file}"


@pytest.mark.smoke
@pytest.mark.stock
def test_every_cell_is_verified_between_two_hosts_and_both_say_so(
    role: str, exercise: Start, exchange: Exchange, tmp_path: Path
) -> None:
    ended = exercise(secret(tmp_path, "left")).end(waits=WAITED_SECONDS)
    ours = ended.document
    others = {
        cell[0] if cell[1] == "rc" else cell[1]: said[0]
        for cell, said in states(ours).items()
        if said[0] != "verified"
    }
    absent = {"xrc": "not_claimed", "raw_packet": "not_claimed"}  # soft RoCE has neither
    left_alone = {"sqd": "not_tried", "alt_path": "not_tried"}
    assert (others, ours["outcome"], ours["teardown"]) == (absent | left_alone, "done", "clean")
    assert (ended.code, ours["role"]) == (0, "listen" if role == "left" else "connect")
    assert len(ours["cells"]) >= 44
    assert exchange("cells", [*map(list, states(ours))]) == [*map(list, states(ours))]


def test_what_one_end_alone_names_is_not_tried(role: str, exercise: Start) -> None:
    only = {"left": "--only=send,write", "right": "--only=write,read"}
    ended = exercise(only[role], "--qp=rc").end(waits=WAITED_SECONDS)
    not_there = ("not_tried", "the peer was not started for it")
    alone = {
        "left": {("send", "rc", via): not_there for via in ("poll", "channel", "srq")},
        "right": {("read", "rc", via): not_there for via in ("poll", "channel")},
    }
    expected = {("write", "rc", "poll"): ("verified", None)} | alone[role]
    assert (ended.code, states(ended.document)) == (0, expected)


def test_other_secrets_other_commands_and_others_altogether_end_nothing(
    role: str,
    rxe: Rxe,
    peer: Rxe,
    attempts: Attempts,
    exchange: Exchange,
    barrier: Barrier,
    tmp_path: Path,
) -> None:
    ours = secret(tmp_path, "left")
    if role == "left":
        attempt, port = attempts.listen(
            rxe.ipv4, *ALLOWED, "--only=send", ours, deadline=SECONDS, command="exercise"
        )
        exchange("listening", port)
        barrier("strangers")
        ended = attempt.end(waits=WAITED_SECONDS)
        assert (ended.code, ended.document["outcome"]) == (0, "done")
        assert ended.stderr.count("turned away") >= 3
        return
    where = f"{peer.ipv4}:{exchange('listening', None)}"
    other = tmp_path / "other"
    other.write_text(SECRETS["right"])
    other.chmod(0o600)
    strangers = [
        ("exercise", f"--secret-file={other}", "another secret"),
        ("exercise", "--only=send", "secret"),
        ("pingpong", ours, "no rdmadiag pingpong"),
    ]
    for command, option, why in strangers:
        ended = attempts.start(*ALLOWED, option, where, command=command).end()
        assert (ended.code, ended.document["outcome"]) == (3, "peer_refused"), ended
        assert why in ended.document["summary"]
        assert not ended.document["touched"]
    for line in (b"GET / HTTP/1.0\r\n\r\n", b"\0\0\0\2{}", b""):
        subprocess.run(
            ["python3", "-c", _SAY, *where.split(":"), line.hex()], check=True, timeout=60
        )
    barrier("strangers")
    ended = attempts.start(*ALLOWED, "--only=send", ours, where, command="exercise").end()
    assert (ended.code, ended.document["outcome"]) == (0, "done")


_SAY = (
    "import socket, sys; c = socket.create_connection((sys.argv[1], int(sys.argv[2]))); "
    "c.sendall(bytes.fromhex(sys.argv[3]))"
)


@pytest.mark.parametrize("killed", ["left", "right"])
@pytest.mark.long
def test_a_peer_that_is_killed_at_any_moment_leaves_nothing_on_either_host(
    killed: str, role: str, exercise: Start, barrier: Barrier, exchange: Exchange
) -> None:
    moments = random.Random(killed)
    for turn in range(3):
        attempt = exercise(deadline=30.0)
        wait = moments.uniform(0.0, 2.5)  # an idle machine has done all of it after 5 s
        if role == killed:
            time.sleep(wait)
            # The command, whose child sees that, or the child itself.
            os.kill(attempt.pid if turn % 2 else attempt.child(), signal.SIGKILL)
            attempt.end(waits=WAITED_SECONDS)
        else:
            ended = attempt.end(waits=WAITED_SECONDS)
            document = ended.document
            assert document["outcome"] in ("peer_lost", "no_peer", "peer_failed"), document
            assert document["teardown"] in ("clean", "nothing_made")
            assert ended.code == (2 if document["touched"] else 3)
        barrier(f"turn {turn}")


@pytest.mark.needs("u32")
def test_roce_that_is_lost_fails_each_cell_as_its_transport_has_it(
    role: str, exercise: Start, netem: Netem, barrier: Barrier
) -> None:
    barrier("begin")
    with netem("loss 100%"):
        ended = exercise("--only=write", deadline=40.0).end(waits=WAITED_SECONDS)
        barrier("ended")
    cells = {each["qp_type"]: each for each in ended.document["cells"]}
    # RC counts what it sent, UC never knows: its WRITE has left, and is not at the target.
    assert (cells["rc"]["state"], cells["rc"]["status_name"]) == ("failed", "RETRY_EXC_ERR")
    assert cells["rc"]["at_peer"] is (role == "left")
    assert (cells["uc"]["state"], cells["uc"]["status"]) == ("failed", None)
    assert "did not arrive" in cells["uc"]["cause"]
    assert (ended.code, ended.document["teardown"]) == (2, "clean")


@pytest.mark.long
def test_a_link_that_goes_down_in_the_middle_ends_both(
    role: str, rxe: Rxe, exercise: Start, do: Do, barrier: Barrier
) -> None:
    attempt = exercise(deadline=30.0)
    if role == "right":
        # No barrier: an idle machine has done all of it in less than 2 s.
        assert until(lambda: queue_pair_states(rxe.name) != [], SECONDS)
        do(f"ip link set {rxe.netdev} down")
        time.sleep(SILENT_SECONDS + 5.0)
        do(f"ip link set {rxe.netdev} up")
        do(f"ip address add {rxe.ipv6}/64 dev {rxe.netdev} nodad")  # which went with it
        wait_ready(rxe)
    ended = attempt.end(waits=WAITED_SECONDS + SILENT_SECONDS)
    assert ended.document["outcome"] in ("peer_lost", "late", "peer_failed"), ended.document
    assert (ended.code, ended.document["teardown"]) == (2, "clean")
    barrier("ended")


def test_what_must_be_named_is_tried_where_both_ends_name_it(exercise: Start) -> None:
    ended = exercise("--only=sqd,frame_eth").end(waits=WAITED_SECONDS)
    found = {each["operation"]: each["state"] for each in ended.document["cells"]}
    # rxe of 6.1 drains, and what was posted meanwhile never leaves.
    assert found["sqd"] == ("failed" if IS_6_1 else "verified")
    assert found["frame_eth"] == "not_claimed"
