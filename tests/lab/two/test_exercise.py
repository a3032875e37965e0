"""`rdmadiag exercise` between two kernels: every cell, strangers, and a peer that goes."""

import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import Attempt, Attempts, until
from lab.resources import in_the_middle
from lab.rxe import Rxe
from lab.two import ALLOWED

pytestmark = pytest.mark.usefixtures("nothing_left")

SECONDS = 60.0
WAITED_SECONDS = 25.0  # more than any listener waits for the other end
SECRETS = {"left": bytes(range(32)).hex(), "right": bytes(range(1, 33)).hex()}

Barrier = Callable[..., None]
Exchange = Callable[..., Any]
Start = Callable[..., Attempt]
Do = Callable[[str], None]


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


def test_every_cell_is_verified_between_two_hosts_and_both_say_so(
    role: str, exercise: Start, exchange: Exchange, tmp_path: Path
) -> None:
    ended = exercise(secret(tmp_path, "left")).end(waits=WAITED_SECONDS)
    ours = ended.document
    others = {cell: said for cell, said in states(ours).items() if said[0] != "verified"}
    assert (others, ours["outcome"], ours["teardown"]) == ({}, "done", "clean")
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
def test_a_peer_that_is_killed_at_any_moment_leaves_nothing_on_either_host(
    killed: str, role: str, exercise: Start, barrier: Barrier
) -> None:
    moments = random.Random(killed)
    for turn in range(3):
        attempt = exercise(deadline=30.0)
        wait = moments.uniform(0.0, 6.0)
        if role == killed:
            with in_the_middle() if not turn else _nothing():
                time.sleep(wait)
            attempt.kill()
            attempt.end()
        else:
            ended = attempt.end(waits=WAITED_SECONDS)
            document = ended.document
            assert document["outcome"] in ("peer_lost", "no_peer", "done", "peer_failed"), document
            assert document["teardown"] in ("clean", "nothing_made")
        barrier(f"turn {turn}")
