"""`pingpong --cm` by datagrams between two kernels: SIDR, multicast groups, and what fails."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from lab.attempt import Attempt, Attempts, free_port, until
from lab.resources import cm_listeners, unchanged
from lab.rxe import Rxe
from tests.lab.two.test_cm import LONG, READY_SECONDS, WAITED_SECONDS, clean, down, in_data

UD = "--qp=ud"
LONG_UD = (UD, "--bytes=1024", *LONG[1:])

Barrier = Callable[..., None]
Do = Callable[[str], None]
Exchange = Callable[..., Any]
Netem = Callable[..., AbstractContextManager[None]]
Start = Callable[..., Attempt]


@pytest.fixture(scope="module", autouse=True)
def manager(run: Callable[..., Any]) -> None:
    run(["modprobe", "rdma_ucm"], timeout=READY_SECONDS)  # which User Mode Linux has built in


@pytest.fixture
def start(
    role: str, rxe: Rxe, peer: Rxe, attempts: Attempts, exchange: Exchange
) -> Iterator[Start]:
    """`start(*options)`: this host's end; the left one listens. Afterwards nothing is left."""

    def call(*options: str, deadline: float = 40.0) -> Attempt:
        own = ("--cm", "--allow-rtr", f"--device={rxe.name}", *options)
        if role == "left":
            port = free_port()
            attempt = attempts.start(*own, f"--listen={rxe.ipv4}:{port}", deadline=deadline)
            assert until(lambda: cm_listeners() > 0 or attempt.has_ended(), READY_SECONDS)
            exchange("listening", port)
            return attempt
        port = exchange("listening", None)
        return attempts.start(*own, f"{peer.ipv4}:{port}", deadline=deadline)

    with unchanged():
        yield call


# --- what works --------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.other_kernels(2)
@pytest.mark.stock
@pytest.mark.parametrize("secret", [False, True], ids=["open", "secret"])
def test_datagrams_are_verified_and_both_ends_tell_the_same(
    secret: bool, start: Start, exchange: Exchange, tmp_path: Any
) -> None:
    file = tmp_path / "secret"
    file.write_text(bytes(range(32)).hex())
    file.chmod(0o600)
    more = (f"--secret-file={file}",) if secret else ()
    ended = start(UD, "--bytes=1024", "--iterations=10", *more).end(waits=WAITED_SECONDS)
    assert clean(ended) == (0, "verified", "done")
    theirs = exchange("document", ended.document)
    ours = ended.document
    assert ours["connection"]["address"] == theirs["connection"]["peer"]
    for name in ("device", "queue_pair", "gid", "mtu"):
        assert ours["local"][name] == theirs["remote"][name], name


@pytest.mark.parametrize("group", ["239.255.8.1"])
def test_members_of_a_group_verify_each_others_data(
    group: str, start: Start, exchange: Exchange
) -> None:
    ended = start(f"--multicast={group}", "--iterations=10").end(waits=WAITED_SECONDS)
    assert clean(ended) == (0, "verified", "done")
    theirs = exchange("document", ended.document)
    ours = ended.document
    assert ours["connection"]["group"] == theirs["connection"]["group"] == group
    assert ours["local"]["queue_pair"] == theirs["remote"]["queue_pair"]
    assert ours["connection"]["steps"][-1]["event"] == "multicast_join"


def test_udaddy_passes_where_ours_does(
    role: str, rxe: Rxe, peer: Rxe, exchange: Exchange, run: Callable[..., Any]
) -> None:
    if role == "left":
        command = ["timeout", "100", "udaddy", "-b", rxe.ipv4]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert until(lambda: cm_listeners() > 0, READY_SECONDS)
            exchange("listening", None)
            out, _ = process.communicate()
            code = process.returncode
    else:
        exchange("listening", None)
        done = run(["timeout", "60", "udaddy", "-s", peer.ipv4], timeout=70.0)
        code, out = done.returncode, done.stdout + done.stderr
    assert (code, exchange("code", code)) == (0, 0), out


@pytest.mark.stock
def test_mckey_passes_where_ours_does(
    role: str, rxe: Rxe, exchange: Exchange, run: Callable[..., Any]
) -> None:
    member = ["timeout", "60", "stdbuf", "-oL", "mckey", "-m", "239.255.8.9", "-b", rxe.ipv4]
    if role == "left":
        with subprocess.Popen([*member, "-C", "10"], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert any("joined dgid" in line for line in process.stdout)
            exchange("joined", None)
            process.communicate()
            code = process.returncode
    else:
        exchange("joined", None)
        # Many more than the other end waits for: datagrams of a group may be lost.
        code = run([*member, "-s", "-C", "2000"], timeout=70.0).returncode
    assert (code, exchange("code", code)) == (0, 0)


# --- faults ------------------------------------------------------------------------------


def test_no_listener(
    role: str, rxe: Rxe, peer: Rxe, attempts: Attempts, barrier: Barrier, run: Callable[..., Any]
) -> None:
    if role == "right":
        own = ("--cm", "--allow-rtr", f"--device={rxe.name}", UD)
        ended = attempts.start(*own, f"{peer.ipv4}:7174").end()
        assert clean(ended) == (2, "cm_event", "establish")
        assert ended.document["connection"]["event"] == "unreachable"
        assert ended.document["connection"]["sidr_status"] == "unsupported"
        assert any("nobody listens there" in each for each in ended.document["causes"])
        client = run(["timeout", "60", "udaddy", "-s", peer.ipv4], timeout=70.0)
        assert client.returncode == 1
        assert "RDMA_CM_EVENT_UNREACHABLE, error: 1" in client.stdout + client.stderr
    barrier("over")


@pytest.mark.parametrize("more", [(), ("--multicast=239.255.8.3",)], ids=["sidr", "group"])
@pytest.mark.long
def test_a_listener_that_is_killed(
    more: tuple[str, ...], role: str, rxe: Rxe, start: Start, barrier: Barrier
) -> None:
    """No event says so: nothing arrives any more."""
    attempt = start(*LONG_UD, *more)
    in_data(attempt, rxe.name)
    barrier("data")
    if role == "left":
        child = attempt.child()
        attempt.kill()
        os.kill(child, 9)
    else:
        ended = attempt.end(waits=WAITED_SECONDS)
        assert clean(ended) == (2, "no_data", "data")
        assert ended.document["causes"]
    barrier("over")


@pytest.mark.parametrize("more", [(), ("--multicast=239.255.8.4",)], ids=["sidr", "group"])
@pytest.mark.long
def test_a_link_that_goes_down(
    more: tuple[str, ...], role: str, rxe: Rxe, start: Start, do: Do, barrier: Barrier
) -> None:
    attempt = start(*LONG_UD, *more, deadline=50.0)
    in_data(attempt, rxe.name)
    barrier("data")
    if role == "left":
        with down(rxe, do):
            ended = attempt.end(waits=WAITED_SECONDS)
        assert any("port" in each for each in ended.document["causes"])
    else:
        ended = attempt.end(waits=WAITED_SECONDS)
    code, outcome, stage = clean(ended)
    assert (code, stage) == (2, "data")
    assert outcome in ("no_data", "completion_error", "cm_event")
    assert ended.document["causes"]
    barrier("over")


@pytest.mark.long
@pytest.mark.needs("u32")
def test_a_third_of_the_frames_lost(
    start: Start, netem: Netem, barrier: Barrier, role: str
) -> None:
    """SIDR asks again, a datagram is not sent again: it ends at the first that is lost."""
    barrier("before")
    with netem("loss 30%", "match ip protocol 17 0xff"):
        ended = start(UD, "--iterations=50", deadline=60.0).end(waits=WAITED_SECONDS)
        barrier("ended")
    code, outcome, stage = clean(ended)
    if code == 3:
        assert (role, outcome) == ("left", "no_peer")
    else:
        assert code == 2
        assert stage in ("establish", "agree", "data")
        assert outcome in ("no_data", "no_event", "peer_refused")
        assert ended.document["causes"]
    barrier("over")
