"""`pingpong --cm` between two kernels: soft RoCE, soft iWARP, and what fails at each step."""

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from lab.attempt import Attempt, Attempts, Ended, free_port, until
from lab.resources import cm_listeners, is_connected, unchanged
from lab.rxe import Rxe, wait_ready

READY_SECONDS = 60.0
ATTEMPTS_OF_OTHERS = 10
WAITED_SECONDS = 60.0  # more than any listener waits for the other end
LONG = ("--bytes=65536", "--iterations=10000")  # minutes here

Exchange = Callable[..., Any]
Barrier = Callable[..., None]
Do = Callable[[str], None]
Netem = Callable[..., AbstractContextManager[None]]
Start = Callable[..., Attempt]


@pytest.fixture(scope="module", params=["rxe", pytest.param("siw", marks=pytest.mark.needs("siw"))])
def device(request: pytest.FixtureRequest, rxe: Rxe, run: Callable[..., Any]) -> Iterator[str]:
    """The one device of this host's interface: an address leads to the first of several."""

    def do(command: str) -> None:
        done = run(command.split(), timeout=READY_SECONDS)
        assert done.returncode == 0, f"{command}: {done.stderr}"

    run(["modprobe", "rdma_ucm"], timeout=READY_SECONDS)  # which User Mode Linux has built in
    if request.param == "rxe":
        yield rxe.name
        return
    do(f"rdma link del {rxe.name}")
    do(f"rdma link add siw0 type siw netdev {rxe.netdev}")
    yield "siw0"
    do("rdma link del siw0")
    do(f"rdma link add {rxe.name} type rxe netdev {rxe.netdev}")
    wait_ready(rxe)


@pytest.fixture
def start(
    role: str, rxe: Rxe, peer: Rxe, device: str, attempts: Attempts, exchange: Exchange
) -> Iterator[Start]:
    """`start(*options)`: this host's end; the left one listens. Afterwards nothing is left."""

    def call(*options: str, deadline: float = 40.0) -> Attempt:
        own = ("--cm", "--allow-rtr", f"--device={device}", *options)
        if role == "left":
            port = free_port()
            where = f"--listen={rxe.ipv4}:{port}"
            attempt = attempts.start(*own, where, f"--wait={WAITED_SECONDS:g}", deadline=deadline)
            assert until(lambda: cm_listeners() > 0 or attempt.has_ended(), READY_SECONDS)
            exchange("listening", port)
            return attempt
        port = exchange("listening", None)
        return attempts.start(*own, f"{peer.ipv4}:{port}", deadline=deadline)

    with unchanged():
        yield call


def clean(ended: Ended) -> tuple[int, str, str]:
    """Its result, having destroyed what it made."""
    assert ended.document["teardown"] == "clean"
    return ended.result()


def last_event(ended: Ended) -> str | None:
    found: str | None = ended.document["connection"]["steps"][-1]["event"]
    return found


def in_data(attempt: Attempt, device: str) -> None:
    """Return when it is in the middle of its exchange."""

    assert until(lambda: attempt.has_ended() or is_connected(device), READY_SECONDS)
    until(attempt.has_ended, 3.0)  # through what both ends agree on once they are connected
    if attempt.has_ended():
        ended = attempt.end(WAITED_SECONDS)
        found = ended.document or {}
        pytest.fail(
            f"{ended.result()} {found.get('summary')} {found.get('reasons')} {ended.stderr}"
        )


# --- what works --------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.stock
@pytest.mark.sampled(2)
@pytest.mark.parametrize("payload", [1, 65536])
def test_data_is_verified_both_ways_and_both_ends_tell_the_same(
    payload: int, start: Start, exchange: Exchange, role: str
) -> None:
    ended = start(f"--bytes={payload}", "--iterations=10").end(waits=WAITED_SECONDS)
    assert clean(ended) == (0, "verified", "done")
    theirs = exchange("document", ended.document)
    ours = ended.document
    assert ours["connection"]["address"] == theirs["connection"]["peer"]
    assert ours["remote"]["device"] == theirs["local"]["device"]
    if ours["local"]["gid"]:
        for name in ("queue_pair", "gid", "mtu"):
            assert ours["local"][name] == theirs["remote"][name], name
    assert last_event(ended) == "disconnected"


@pytest.mark.stock
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("server", "client"),
    [
        ("rping -s -a {} -p {} -C 2", "rping -c -a {} -p {} -C 2"),
        ("ucmatose -b {} -p {}", "ucmatose -s {} -p {}"),
        ("ib_send_lat -R -n 10 -p {1}", "ib_send_lat -R -n 10 {0} -p {1}"),
    ],
)
def test_what_others_connect_passes_where_ours_does(
    server: str,
    client: str,
    role: str,
    rxe: Rxe,
    peer: Rxe,
    device: str,
    exchange: Exchange,
    run: Callable[..., Any],
) -> None:
    if device == "siw0" and server.startswith("ucmatose"):
        pytest.skip("its client ends with CONNECT_ERROR, -22, on soft iWARP")
    # perftest makes two connections, and its client does not wait until the server listens for
    # the second: it is rejected, the client ends (-R, also by SIGSEGV), and the server never does.
    for turn in range(ATTEMPTS_OF_OTHERS):
        if role == "left":
            port = free_port()
            command = ["timeout", "60", *server.format(rxe.ipv4, port).split()]
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            ) as process:
                until(lambda: cm_listeners() > 0, READY_SECONDS)
                exchange(f"listening {turn}", port)
                if theirs := exchange(f"code {turn}", None):
                    process.terminate()
                out, _ = process.communicate()
            if not theirs:
                assert process.returncode == 0, out
                return
        else:
            port = exchange(f"listening {turn}", None)
            command = ["timeout", "20", *client.format(peer.ipv4, port).split()]
            done = run(command, timeout=30.0)
            exchange(f"code {turn}", done.returncode)
            if done.returncode == 0:
                return
    if server.startswith("ib_"):
        pytest.skip(f"perftest's client came before its server in {ATTEMPTS_OF_OTHERS} attempts")
    pytest.fail("none of its attempts passed")


# --- faults ------------------------------------------------------------------------------


def test_no_listener(
    role: str, peer: Rxe, device: str, attempts: Attempts, barrier: Barrier
) -> None:
    if role == "right":
        own = ("--cm", "--allow-rtr", f"--device={device}")
        ended = attempts.start(*own, f"{peer.ipv4}:{free_port()}").end()
        if device == "siw0":  # the TCP connection is refused within the call
            assert clean(ended) == (2, "call_failed", "establish")
            assert ended.document["errno"]["name"] == "ECONNREFUSED"
        else:
            assert clean(ended) == (2, "cm_event", "establish")
            assert ended.document["connection"]["event"] == "rejected"
            assert ended.document["connection"]["reject_reason"] == "invalid_service_id"
        assert any("nobody listens there" in each for each in ended.document["causes"])
    barrier("over")


@pytest.mark.sampled(2)
def test_a_listener_that_is_killed(role: str, device: str, start: Start, barrier: Barrier) -> None:
    attempt = start(*LONG)
    in_data(attempt, device)
    barrier("data")
    if role == "left":
        child = attempt.child()
        attempt.kill()
        os.kill(child, signal.SIGKILL)
    else:
        ended = attempt.end(waits=WAITED_SECONDS)
        assert clean(ended) == (2, "cm_event", "data")
        assert ended.document["connection"]["event"] == "disconnected"
        assert any("peer" in each for each in ended.document["causes"])
    barrier("over")


@contextmanager
def down(rxe: Rxe, do: Do) -> Iterator[None]:
    """The interface without its link; its addresses come back with it."""
    do(f"ip link set {rxe.netdev} down")
    try:
        yield
    finally:
        do(f"ip link set {rxe.netdev} up")
        do(f"ip address replace {rxe.ipv6}/64 dev {rxe.netdev} nodad")
        if os.path.exists(f"/sys/class/infiniband/{rxe.name}"):
            # Seen on 7.2: after that the device sends nothing of the connection manager.
            do(f"rdma link del {rxe.name}")
            do(f"rdma link add {rxe.name} type rxe netdev {rxe.netdev}")
            wait_ready(rxe)


def is_silent(address: str) -> bool:
    """Whether nothing of that host comes, not even that a port is closed."""
    try:
        socket.create_connection((address, 9), timeout=1.0).close()
    except ConnectionRefusedError:
        return False
    except OSError:
        return True
    return False


@pytest.mark.stock
@pytest.mark.long
def test_a_link_that_goes_down_before_the_connection(
    role: str, rxe: Rxe, peer: Rxe, device: str, attempts: Attempts, do: Do, exchange: Exchange
) -> None:
    """The other host's link; the neighbour never answers, whatever the device is."""
    if device == "siw0":
        pytest.skip("the same as on soft RoCE: the kernel's own resolution of addresses")
    if role == "left":
        exchange("down", None)
        # No message of the two hosts passes now: the other one has its own time.
        with down(rxe, do):
            until(lambda: False, 25.0)
    else:
        exchange("down", None)
        assert until(lambda: is_silent(peer.ipv4), 10.0)
        do(f"ip neigh flush dev {rxe.netdev}")
        own = ("--cm", "--allow-rtr", f"--device={device}")
        ended = attempts.start(*own, f"{peer.ipv4}:4711", deadline=20.0).end()
        assert clean(ended) == (2, "cm_event", "resolve_address")
        assert ended.document["connection"]["event"] == "addr_error"
    exchange("over", None)


@pytest.mark.sampled(2)
def test_a_link_that_goes_down_after_it(
    role: str, rxe: Rxe, device: str, start: Start, do: Do, barrier: Barrier
) -> None:
    attempt = start(*LONG, deadline=50.0)
    in_data(attempt, device)
    barrier("data")
    if role == "left":
        with down(rxe, do):
            ended = attempt.end(waits=WAITED_SECONDS)
    else:
        ended = attempt.end(waits=WAITED_SECONDS)
    code, outcome, stage = clean(ended)
    assert (code, stage) == (2, "data")
    assert outcome in ("cm_event", "completion_error", "no_data")
    assert ended.document["causes"]
    barrier("over")


@pytest.mark.smoke
@pytest.mark.stock
def test_a_device_that_is_removed(
    role: str, rxe: Rxe, device: str, start: Start, do: Do, barrier: Barrier
) -> None:
    """The kernel waits until its user has gone, and gives no DEVICE_REMOVAL before."""
    if device == "siw0":
        pytest.skip("the same as on soft RoCE: ib_uverbs waits")
    attempt = start(*LONG, deadline=25.0)
    in_data(attempt, device)
    barrier("data")
    if role == "left":
        with subprocess.Popen(["rdma", "link", "del", device]) as removing:
            ended = attempt.end(waits=WAITED_SECONDS)
            assert removing.wait(READY_SECONDS) == 0
        kind = "siw" if device == "siw0" else "rxe"
        do(f"rdma link add {device} type {kind} netdev {rxe.netdev}")
        if device == rxe.name:
            wait_ready(rxe)
        assert any("device is no longer there" in each for each in ended.document["causes"])
    else:
        ended = attempt.end(waits=WAITED_SECONDS)
    assert (ended.code, ended.document["stage"]) == (2, "data")
    assert ended.document["outcome"] in ("late", "cm_event", "completion_error", "no_data")
    barrier("over")


@pytest.mark.long
@pytest.mark.needs("u32")
def test_a_third_of_the_frames_lost(
    role: str, device: str, start: Start, netem: Netem, barrier: Barrier
) -> None:
    """What is lost is sent again; it passes, or is named at its step."""
    what = "match ip protocol 6 0xff" if device == "siw0" else "match ip protocol 17 0xff"
    barrier("before")
    with netem("loss 30%", what):
        ended = start("--iterations=5", deadline=60.0).end(waits=WAITED_SECONDS)
        barrier("ended")
    code, outcome, stage = clean(ended)
    if code == 0:
        assert (outcome, stage) == ("verified", "done")
    elif code == 3:
        assert (role, outcome) == ("left", "no_peer")
    else:
        assert code == 2
        assert stage in ("establish", "agree", "data", "disconnect", "listen")
        assert ended.document["causes"]
    barrier("over")
