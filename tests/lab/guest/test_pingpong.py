"""One bounded attempt on real soft RoCE: data verified, and refusals that make nothing."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import BEYOND_DEADLINE, Attempts
from lab.device_requests import probes
from lab.rxe import Rxe
from rdmadiag.verbs.loop import COMPILED
from rdmadiag.verbs.secret import made

NOBODY = 65534
DEADLINE = "--deadline=40"
# And what it may take beyond it, and 4 s until it measures its time: the interpreter and its
# imports, emulated.
LIMIT_SECONDS = 40.0 + BEYOND_DEADLINE + 4.0
ALLOWED = ("--allow-rtr", "--device", "rxe0")
NODE = "/dev/infiniband/uverbs0"

Pair = tuple[Rxe, Rxe]
Call = Callable[..., tuple[int, Any]]
Run = Callable[..., Any]


@contextmanager
def without_compiled_loop() -> Iterator[None]:
    subprocess.run(["mount", "--bind", "/dev/null", COMPILED], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", COMPILED], check=True)


@pytest.fixture
def installed(rdmadiag_json: Call) -> Call:
    """`installed(*args, user=None, prefix=())`: exit code and document of the real program."""

    def call(*args: str, **how: Any) -> tuple[int, Any]:
        return rdmadiag_json("pingpong", DEADLINE, *args, timeout=LIMIT_SECONDS, **how)

    return call


def result(code: int, document: Any) -> tuple[int, str, str]:
    return code, document["outcome"], document["stage"]


# --- data that arrives -----------------------------------------------------------------


@pytest.mark.usefixtures("nothing_left")
class TestLoopback:
    @pytest.mark.other_kernels(4)
    @pytest.mark.parametrize("payload", [1, 64, 4097, 1 << 20])
    @pytest.mark.parametrize("kind", ["rc", "uc"])
    def test_data_is_verified_both_ways(self, kind: str, payload: int, attempts: Attempts) -> None:
        options = (f"--qp={kind}", f"--bytes={payload}", "--iterations=10")
        ended = attempts.start(*ALLOWED, *options).end()
        document = ended.document
        assert ended.result() == (0, "verified", "done")
        assert (document["data_verified"], document["teardown"]) == (True, "clean")
        latency = document["latency_us"]
        assert (latency["bytes"], latency["iterations"]) == (payload, 10)
        assert latency["loop"] == "compiled"
        assert sum(count for _, count in latency["histogram"]) == 10
        local, remote = document["local"], document["remote"]
        assert local["qp_type"] == remote["qp_type"] == kind
        assert local["queue_pair"] != remote["queue_pair"]
        assert local["mtu"] == remote["mtu"] == 1024

    def test_what_it_verified_is_the_last_rung_of_the_ladder(
        self, attempts: Attempts, tmp_path: Path, rdmadiag_json: Call
    ) -> None:
        ended = attempts.start(*ALLOWED, "--iterations=10").end()
        assert ended.result() == (0, "verified", "done")
        outcome = tmp_path / "outcome.json"
        outcome.write_text(json.dumps(ended.document))
        _, before = rdmadiag_json("preflight", "--ladder", "--device=rxe0")
        _, after = rdmadiag_json("preflight", "--ladder", "--device=rxe0", f"--proven={outcome}")
        steps = [
            {each["rung"]: each["footing"] for each in found["verdict"]["ports"][0]["ladder"]}
            for found in (before, after)
        ]
        assert (steps[0].pop("proven"), steps[1].pop("proven")) == ("not_tried", "reached")
        assert steps[0] == steps[1]
        assert set(steps[0].values()) == {"reached", "not_needed"}

    @pytest.mark.parametrize("kind", ["rc", "uc"])
    def test_an_ipv6_gid_serves_as_well(self, kind: str, attempts: Attempts) -> None:
        ended = attempts.start(*ALLOWED, f"--qp={kind}", "--gid-index=2").end()
        assert ended.result() == (0, "verified", "done")
        for end in (ended.document["local"], ended.document["remote"]):
            assert (end["gid_index"], end["gid"]) == (2, "2001:db8::1")

    @pytest.mark.parametrize(("kind", "payload"), [("rc", 64), ("uc", 4097)])
    def test_without_its_library_data_is_verified_and_nothing_is_timed(
        self, kind: str, payload: int, attempts: Attempts
    ) -> None:
        with without_compiled_loop():
            ended = attempts.start(*ALLOWED, f"--qp={kind}", f"--bytes={payload}").end()
        assert ended.result() == (0, "verified", "done")
        assert ended.document["latency_us"] is None

    @pytest.mark.parametrize("user", [None, NOBODY])
    def test_the_program_as_it_is_installed(self, user: int | None, installed: Call) -> None:
        assert result(*installed(*ALLOWED, user=user)) == (0, "verified", "done")


@pytest.mark.usefixtures("nothing_left")
class TestTwoProcesses:
    @pytest.mark.other_kernels(3)
    @pytest.mark.parametrize(
        ("kind", "address"),
        [("rc", "192.0.2.1"), ("uc", "127.0.0.1"), ("rc", "2001:db8::1")],
    )
    def test_both_ends_tell_the_same(
        self, kind: str, address: str, attempts: Attempts, tmp_path: Path
    ) -> None:
        secret = tmp_path / "secret"
        secret.touch(0o600)
        secret.write_text(f"{made()}\n")
        options = (*ALLOWED, f"--qp={kind}", f"--secret-file={secret}", "--bytes=4097")
        listener, port = attempts.listen(address, *options)
        where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        connector = attempts.start(*options, where)
        one, two = connector.end(), listener.end(waits=connector.seconds)
        assert one.result() == two.result() == (0, "verified", "done")
        ours, theirs = one.document, two.document
        assert ours["data_verified"]
        assert theirs["data_verified"]
        for here, there in ((ours, theirs), (theirs, ours)):
            for name in ("queue_pair", "psn", "gid", "mtu", "qp_type", "device"):
                assert here["local"][name] == there["remote"][name], name
        assert ours["local"]["mtu"] == 1024
        # One end takes the times: the one that sends first.
        assert ours["latency_us"]["bytes"] == 4097
        assert theirs["latency_us"] is None

    def test_the_listener_says_on_stderr_what_to_run_on_the_other_host(
        self, attempts: Attempts
    ) -> None:
        listener, port = attempts.listen("127.0.0.1", *ALLOWED, "--wait=3")
        ended = listener.end(waits=3)
        assert ended.result() == (3, "no_peer", "connect")
        assert ended.stderr == (
            f"rdmadiag: waiting 3 s on 127.0.0.1:{port}; on the other host: "
            f"rdmadiag pingpong --allow-rtr 127.0.0.1:{port}\n"
        )


# --- refusals --------------------------------------------------------------------------


@pytest.fixture
def unasked(nothing_left: None) -> Iterator[None]:
    """The preflight asks the device; nothing that would make an object reaches it."""
    with probes() as taken:
        yield
        assert [each.text for each in taken() if each.query is None] == []


def reasons(document: Any) -> list[str]:
    return [each["reason"] for each in document["reasons"] if each["device"] == "rxe0"]


@contextmanager
def closed_node() -> Iterator[None]:
    os.chmod(NODE, 0)
    try:
        yield
    finally:
        os.chmod(NODE, 0o666)


@pytest.mark.needs("kprobes")
@pytest.mark.usefixtures("unasked")
class TestRefusals:
    def test_without_the_word_nothing_is_attempted(self, attempts: Attempts) -> None:
        ended = attempts.start("--device=rxe0").end()
        assert ended.result() == (3, "not_allowed", "gate")
        assert ended.document["steps"] == []

    @pytest.mark.smoke
    def test_a_gid_index_without_a_gid_is_not_safe(self, attempts: Attempts) -> None:
        ended = attempts.start(*ALLOWED, "--gid-index=9").end()
        assert ended.result() == (3, "not_safe", "preflight")
        assert reasons(ended.document) == ["no_route_gid"]

    def test_a_node_that_the_user_may_not_open_is_not_safe(self, installed: Call) -> None:
        with closed_node():
            found = installed(*ALLOWED, user=NOBODY)
        assert result(*found) == (3, "not_safe", "preflight")
        assert "uverbs_node_not_openable" in reasons(found[1])

    def test_64_kib_of_locked_memory_are_not_safe(self, installed: Call) -> None:
        limited = ("prlimit", "--memlock=65536:65536")
        found = installed(*ALLOWED, user=NOBODY, prefix=limited)
        assert result(*found) == (3, "not_safe", "preflight")
        assert reasons(found[1]) == ["memlock_too_low"]


@pytest.mark.usefixtures("nothing_left")
class TestAcceptedRisks:
    """What the preflight would have forbidden fails in the call that the live kernel refuses."""

    def test_a_gid_index_without_a_gid_fails_at_rtr(self, attempts: Attempts) -> None:
        ended = attempts.start(*ALLOWED, "--gid-index=9", "--accept-risk=no_route_gid").end()
        assert ended.result() == (2, "call_failed", "rtr")
        assert ended.document["errno"] == {"number": 61, "name": "ENODATA", "platform": "linux"}
        assert ended.document["accepted_risks"] == ["no_route_gid"]
        assert ended.document["teardown"] == "clean"

    def test_a_node_that_the_user_may_not_open_fails_at_open(self, installed: Call) -> None:
        risks = ("--accept-risk=uverbs_node_not_openable", "--accept-risk=verbs_open_failed")
        with closed_node():
            code, document = installed(*ALLOWED, *risks, user=NOBODY)
        assert result(code, document) == (2, "call_failed", "open")
        assert document["call"] == "ibv_open_device"
        assert document["errno"]["name"] == "EACCES"
        assert document["teardown"] == "nothing_made"

    @pytest.mark.parametrize(
        ("limit", "payload", "errno"),
        # Without any, mlock is not permitted at all (can_do_mlock): another errno.
        [(0, 64, "EPERM"), (65536, 1 << 20, "ENOMEM")],
    )
    def test_memory_that_may_not_be_locked_fails_at_its_registration(
        self, limit: int, payload: int, errno: str, installed: Call
    ) -> None:
        limited = ("prlimit", f"--memlock={limit}:{limit}")
        options = ("--accept-risk=memlock_too_low", f"--bytes={payload}")
        found = installed(*ALLOWED, *options, user=NOBODY, prefix=limited)
        assert result(*found) == (2, "call_failed", "reg_mr")
        assert found[1]["errno"]["name"] == errno
        assert found[1]["teardown"] == "clean"

    def test_two_devices_of_one_host_do_not_reach_each_other(self, attempts: Attempts) -> None:
        # Of rxe in 6.1: an address of this host does not answer on the other device's link.
        ended = attempts.start("--allow-rtr", "--device=rxe0", "--device=rxe1").end()
        assert ended.result() == (2, "call_failed", "rtr")
        assert ended.document["errno"]["name"] == "ETIMEDOUT"
        assert ended.document["teardown"] == "clean"


@pytest.mark.needs("kprobes")
def test_a_port_that_is_down_is_not_safe(
    rxe_pair: Pair, unasked: None, attempts: Attempts, run: Run
) -> None:
    run(["ip", "link", "set", "veth0", "down"], timeout=30)
    ended = attempts.start(*ALLOWED).end()
    assert ended.result() == (3, "not_safe", "preflight")
    assert reasons(ended.document)[0] == "port_not_active"
