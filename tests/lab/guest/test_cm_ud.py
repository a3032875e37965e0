"""`pingpong --cm` by datagrams: SIDR and multicast groups on soft RoCE; soft iWARP has neither."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab.attempt import Attempts, until
from lab.resources import cm_listeners, unchanged
from tests.lab.guest.test_cm import READY_SECONDS, WAIT, Port, events, listen, rxe

UD = "--qp=ud"
EVENTS = [
    ("local", "resolve_address", "addr_resolved"),
    ("local", "resolve_route", "route_resolved"),
    ("remote", "establish", "connect_request"),
    ("local", "establish", "established"),
]
JOINED = [
    (end, *step)
    for end in ("local", "remote")
    for step in (("resolve_address", "addr_resolved"), ("join", "multicast_join"))
]

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def kept(run: Run) -> Iterator[Port]:
    """One port for all tests that leave it as it was."""
    run(["modprobe", "rdma_ucm"], timeout=READY_SECONDS)  # which User Mode Linux has built in
    with rxe(run) as made:
        yield made


@pytest.fixture
def port(kept: Port) -> Iterator[Port]:
    """After the test the kernel counts what it counted before, and no process has a device."""
    with unchanged():
        yield kept


@contextmanager
def running(*command: str, seconds: int = 90) -> Iterator[subprocess.Popen[str]]:
    """Another program, whose lines come as it prints them; at the end it is ended."""
    whole = ["timeout", str(seconds), "stdbuf", "-oL", *command]
    with subprocess.Popen(
        whole, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.communicate()


def until_printed(process: "subprocess.Popen[str]", text: str) -> str:
    """What it has printed up to that; fails at its end."""
    assert process.stdout
    said = ""
    while text not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    return said


# --- SIDR --------------------------------------------------------------------------------


def test_datagrams_are_verified_both_ways(port: Port, attempts: Attempts) -> None:
    ended = attempts.start(*port.options, UD, "--bytes=1024").end()
    assert ended.result() == (0, "verified", "done")
    assert ended.document["data_verified"]
    assert ended.document["teardown"] == "clean"
    assert events(ended) == EVENTS
    own, other = ended.document["local"], ended.document["remote"]
    assert (own["qp_type"], own["qp_state"], own["mtu"]) == ("ud", "rts", 1024)
    assert own["queue_pair"] != other["queue_pair"]


def test_more_than_a_datagram_is_not_tried(port: Port, attempts: Attempts) -> None:
    ended = attempts.start(*port.options, UD, "--bytes=1025").end()
    assert (ended.code, ended.document["outcome"]) == (3, "not_safe")
    assert "--bytes 1024" in ended.document["summary"]
    assert not ended.document["touched"]


def test_udaddy_passes_where_ours_does(port: Port, run: Run) -> None:
    with running("udaddy", "-b", port.address) as server:
        assert until(lambda: cm_listeners() == 1, READY_SECONDS)
        client = run(["timeout", "60", "udaddy", "-s", port.address], timeout=70.0)
        assert client.returncode == 0, client.stdout + client.stderr
        assert "return status 0" in until_printed(server, "return status")


@pytest.mark.other_kernels(0)
def test_a_listener_and_its_peer_of_one_host_meet(port: Port, attempts: Attempts) -> None:
    one = listen(attempts, port, 4731, UD)
    other = attempts.start(*port.options, UD, f"{port.address}:4731").end(WAIT)
    assert other.result() == (0, "verified", "done")
    ended = one.end(WAIT)
    assert ended.result() == (0, "verified", "done")
    for name in ("queue_pair", "gid", "mtu"):
        assert ended.document["local"][name] == other.document["remote"][name], name


@pytest.mark.other_kernels(0)
def test_udaddy_that_comes_is_answered_and_the_peer_after_it_met(
    port: Port, attempts: Attempts
) -> None:
    one = listen(attempts, port, 7174, UD)  # udaddy's own port, which it has no option for
    with running("udaddy", "-s", port.address) as client:
        until_printed(client, "initiating data transfers")
    other = attempts.start(*port.options, UD, f"{port.address}:7174").end(WAIT)
    assert other.result() == (0, "verified", "done")
    ended = one.end(WAIT)
    assert ended.result() == (0, "verified", "done")
    assert "answered by SIDR, and no rdmadiag pingpong" in ended.stderr


def test_udaddys_listener_is_reached_up_to_established(port: Port, attempts: Attempts) -> None:
    with running("udaddy", "-b", port.address):
        assert until(lambda: cm_listeners() == 1, READY_SECONDS)
        ended = attempts.start(*port.options, UD, f"{port.address}:7174").end()
    assert ended.result() == (2, "peer_refused", "establish")
    assert events(ended)[-1] == ("local", "establish", "established")
    assert ended.document["teardown"] == "clean"


def test_where_nobody_listens_sidr_says_so_to_ours_and_to_udaddy(
    port: Port, attempts: Attempts, run: Run
) -> None:
    ended = attempts.start(*port.options, UD, f"{port.address}:7174").end()
    assert ended.result() == (2, "cm_event", "establish")
    connection = ended.document["connection"]
    assert (connection["event"], connection["status"]) == ("unreachable", 1)
    assert connection["sidr_status"] == "unsupported"
    assert ended.document["errno"] is None
    assert any("nobody listens there" in each for each in ended.document["causes"])
    client = run(["timeout", "60", "udaddy", "-s", port.address], timeout=70.0)
    assert client.returncode == 1
    assert "RDMA_CM_EVENT_UNREACHABLE, error: 1" in client.stdout + client.stderr


@pytest.mark.other_kernels(0)
def test_what_does_not_fit_is_refused_with_its_reason(port: Port, attempts: Attempts) -> None:
    one = listen(attempts, port, 4732, UD, "--bytes=100")
    ended = attempts.start(*port.options, UD, f"{port.address}:4732").end(WAIT)
    assert ended.result() == (2, "mismatch", "establish")
    assert ended.document["connection"]["sidr_status"] == "reject"
    assert ended.document["problems"][0]["code"] == "payload_bytes_mismatch"
    one.kill(signal.SIGINT)
    one.end(WAIT)


# --- multicast ---------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["239.255.7.1"])
def test_members_of_a_group_verify_each_others_data(
    port: Port, attempts: Attempts, group: str
) -> None:
    ended = attempts.start(*port.options, f"--multicast={group}").end()
    assert ended.result() == (0, "verified", "done")
    assert ended.document["teardown"] == "clean"
    assert events(ended) == JOINED
    assert ended.document["connection"]["group"] == group


def test_a_group_of_ipv6_is_refused_on_roce_and_named(port: Port, attempts: Attempts) -> None:
    """cma_iboe_join_multicast, drivers/infiniband/core/cma.c: RoCE v2 joins IPv4 groups alone."""
    ended = attempts.start(*port.options, "--multicast=ff12::7:1").end()
    assert ended.result() == (2, "call_failed", "join")
    assert (ended.document["call"], ended.document["errno"]["name"]) == (
        "rdma_join_multicast",
        "ENOTSUPP",
    )
    assert ended.document["teardown"] == "clean"


@pytest.mark.other_kernels(0)
def test_what_mckey_sends_to_the_group_is_left_out(port: Port, attempts: Attempts) -> None:
    # Few at a time: of a datagram for which no receive is left nobody hears, of our own ones too.
    member = f"mckey -m 239.255.7.3 -b {port.address} -s -C 20"
    with running("sh", "-c", f"while {member}; do :; done") as sender:
        until_printed(sender, "initiating data transfers")
        ended = attempts.start(*port.options, "--multicast=239.255.7.3", "--iterations=500").end()
    assert ended.result() == (0, "verified", "done")


def test_a_listener_and_its_peer_meet_in_a_group(port: Port, attempts: Attempts) -> None:
    group = "--multicast=239.255.7.4"
    one = listen(attempts, port, 4733, group)
    other = attempts.start(*port.options, group, f"{port.address}:4733").end(WAIT)
    for ended in (other, one.end(WAIT)):
        assert ended.result() == (0, "verified", "done")
        assert ended.document["connection"]["group"] == "239.255.7.4"


@pytest.mark.other_kernels(0)
def test_two_that_want_different_groups_both_say_so(port: Port, attempts: Attempts) -> None:
    one = listen(attempts, port, 4734, "--multicast=239.255.7.5")
    other = attempts.start(*port.options, UD, f"{port.address}:4734").end(WAIT)
    for ended in (other, one.end(WAIT)):
        assert ended.result() == (2, "mismatch", "agree")
        assert ended.document["problems"][0]["code"] == "multicast_group_mismatch"


# --- soft iWARP --------------------------------------------------------------------------
