"""What a node of fleet pairs does with the line that it gets on stdin."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rdmadiag.cli import pair_end
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.pair_end import end_of_pair, own_pair, read_job, read_line
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.attempt import Outcome
from rdmadiag.facts.ib import DataOp
from rdmadiag.facts.resources import DeviceResources, Owner, QueuePair, ResourceFacts
from rdmadiag.fleet.pair_job import Job, JobPair
from rdmadiag.preflight.safety import Reason
from rdmadiag.preflight.x_rdma import RTR_ATTEMPT_WARNING
from rdmadiag.verbs import attempt
from rdmadiag.verbs.attempt import Result
from rdmadiag.verbs.secret import made
from tests.verbs.attempts import VERIFIED

PAIR = JobPair("n1", "n2", "127.0.0.1:9", "mlx5_0", "mlx5_1:1")
JOB = Job(made(), (PAIR, JobPair("n3", "n4", "n4", None, None)), 64, 10, 0.0, 1.0, 5.0, busy=True)
PROGRAM = str(Path(sys.executable).with_name("rdmadiag"))
UNKNOWN = Missing(Why.ABSENT, "not here")


@contextmanager
def piped(content: bytes, *, ends: bool = False) -> Iterator[int]:
    """The reading end of a pipe with that in it."""
    reading, writing = os.pipe()
    os.write(writing, content)
    if ends:
        os.close(writing)
    try:
        yield reading
    finally:
        os.close(reading)
        if not ends:
            os.close(writing)


def soon(seconds: float = 0.2) -> float:
    return time.monotonic() + seconds


def test_the_line_is_read_while_stdin_stays_open() -> None:
    with piped(JOB.line()) as handle:
        assert read_job(handle, soon(5)) == JOB


@pytest.mark.parametrize(
    ("content", "ends", "said"),
    [
        (b"", True, "stdin ended before its line did"),
        (b'{"secret"', True, "stdin ended before its line did"),
        (b'{"secret"', False, "no line came on stdin"),
        (b"{}\n", False, "is none of fleet pairs: payload is no number"),
    ],
)
def test_what_is_no_line_is_refused(content: bytes, ends: bool, said: str) -> None:
    with piped(content, ends=ends) as handle, pytest.raises(Refused, match=said):
        read_job(handle, soon())


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_end, "LONGEST", 100)
    with piped(b"x" * 200) as handle, pytest.raises(Refused, match="more than 100 bytes"):
        read_line(handle, soon())


def test_a_node_is_who_it_was_told_to_be() -> None:
    assert own_pair(JOB, "n2") == ("n2", PAIR)
    with pytest.raises(Refused, match="n9: in no pair of this round"):
        own_pair(JOB, "n9")


def test_else_it_is_the_task_of_slurm_or_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "n3")
    assert own_pair(JOB, "")[0] == "n3"
    monkeypatch.delenv("SLURMD_NODENAME")
    monkeypatch.setattr(socket, "gethostname", lambda: "n4.cluster.example")
    assert own_pair(JOB, "")[0] == "n4"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the attempt was asked, which is verified."""
    asked: list[tuple[Any, ...]] = []

    def run(*arguments: Any) -> Result:
        asked.append(arguments)
        return Result(VERIFIED, (), ())

    monkeypatch.setattr(attempt, "run", run)
    return asked


def test_the_receiver_listens_at_its_address(ran: list[tuple[Any, ...]]) -> None:
    risks = frozenset({Reason.NO_LID})
    assert end_of_pair(replace(JOB, wait=20.0), "n2", risks).attempt.outcome is Outcome.VERIFIED
    ((_, wanted, selectors, meeting, secret, _, seconds, _),) = ran
    assert (meeting.role, meeting.host, meeting.port) == ("listen", "127.0.0.1", 9)
    assert 19 < meeting.wait <= 20, "without what was spent before"
    assert [(each.device, each.port) for each in selectors] == [("mlx5_1", 1)]
    assert (secret.hex(), seconds) == (JOB.secret, 5.0)
    assert (wanted.payload_bytes, wanted.iterations, wanted.op) == (64, 10, DataOp.SEND)
    assert wanted.accepted == risks


def test_the_sender_comes_once_its_partner_listens(ran: list[tuple[Any, ...]]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        job = replace(JOB, bandwidth=2.0, pairs=(replace(PAIR, address=address),))
        end_of_pair(job, "n1", frozenset())
    ((_, wanted, selectors, meeting, *_),) = ran
    assert (meeting.role, f"{meeting.host}:{meeting.port}") == ("connect", address)
    assert [each.device for each in selectors] == ["mlx5_0"]
    assert (wanted.op, wanted.bandwidth_seconds) == (DataOp.WRITE, 2.0)


def test_a_sender_waits_for_a_partner_that_is_slower(ran: list[tuple[Any, ...]]) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        job = replace(
            JOB, wait=20.0, pairs=(replace(PAIR, address=f"127.0.0.1:{server.getsockname()[1]}"),)
        )
        later = threading.Timer(0.3, server.listen)
        later.start()
        end_of_pair(job, "n1", frozenset())
        later.join()
    assert len(ran) == 1


def test_a_partner_that_never_listens_costs_no_attempt(ran: list[tuple[Any, ...]]) -> None:
    found = end_of_pair(replace(JOB, wait=0.3), "n1", frozenset()).attempt
    assert (found.outcome, found.touched, ran) == (Outcome.NO_PEER, False, [])
    assert found.summary == "nobody listened at 127.0.0.1:9 in time: Connection refused"


def test_a_name_that_is_the_loopback_here_is_no_address(
    ran: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rdmadiag.sources import hosts

    monkeypatch.setattr(hosts, "addresses_of", lambda host, name: ("127.0.1.1",))
    found = end_of_pair(JOB, "n4", frozenset()).attempt
    assert (found.outcome, ran) == (Outcome.NO_PEER, [])
    assert found.summary.startswith("n4 is 127.0.1.1 in /etc/hosts here")


def used(*owners: Owner, name: str = "mlx5_1") -> ResourceFacts:
    pairs = tuple(QueuePair(17, UNKNOWN, 1, UNKNOWN, UNKNOWN, owner) for owner in owners)
    return ResourceFacts((DeviceResources(0, name, UNKNOWN, pairs, {}),), {}, True)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (used(Owner(7, None)), "mlx5_1 is in use, 1 queue pair of process 7: --busy"),
        (used(Owner(None, None)), "mlx5_1 is in use, 1 queue pair: --busy"),
        (Missing(Why.DENIED, "no"), "whether it is in use is not known (denied: no): --busy"),
        (
            ResourceFacts((DeviceResources(0, "mlx5_1", UNKNOWN, UNKNOWN, {}),), {}, True),
            "whether mlx5_1 is in use is not known (absent: not here): --busy",
        ),
        (used(Owner(None, "ib_core")), None),
        (used(Owner(7, None), name="mlx5_0"), None),
        (Missing(Why.UNSUPPORTED, "a Mac"), None),
    ],
    ids=[
        "a program",
        "of whom is not known",
        "cannot look",
        "cannot look at this one",
        "the kernel alone",
        "another device",
        "a Mac",
    ],
)
def test_a_port_in_use_is_left_alone_unless_told_otherwise(
    facts: Any, said: str | None, ran: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rdmadiag.sources import sampling

    monkeypatch.setattr(sampling, "resources", lambda host, deadline: facts)
    found = end_of_pair(replace(JOB, busy=False), "n2", frozenset()).attempt
    if said is None:
        assert len(ran) == 1
        return
    assert ran == []
    assert found.outcome is Outcome.NOT_ALLOWED
    assert found.summary.startswith(said)
    end_of_pair(JOB, "n2", frozenset())
    assert len(ran) == 1, "as it was told"


def test_a_secret_that_is_none_is_refused(ran: list[tuple[Any, ...]]) -> None:
    with pytest.raises(Refused, match="no secret of 16"):
        end_of_pair(replace(JOB, secret="password"), "n2", frozenset())


def command(*argv: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [PROGRAM, "pingpong", "--json", *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_without_leave_the_line_is_not_even_read() -> None:
    child = command("--job=n1")
    out, _ = child.communicate(timeout=30)
    found = json.loads(out)
    assert (child.returncode, found["outcome"]) == (3, "not_allowed")
    assert found["summary"] == RTR_ATTEMPT_WARNING


def test_the_outcome_is_a_document_of_pingpong() -> None:
    with command("--allow-rtr", "--job=n1") as child:
        assert child.stdin
        assert child.stdout
        child.stdin.write(replace(JOB, wait=1.0).line())
        child.stdin.flush()
        found = json.loads(child.stdout.read())
        assert (child.wait(30), found["outcome"], found["stage"]) == (3, "no_peer", "connect")


def test_it_ends_with_whoever_started_it() -> None:
    with command("--allow-rtr", "--job=n1") as child:
        assert child.stdin
        child.stdin.write(replace(JOB, wait=600.0).line())
        child.stdin.close()
        assert child.wait(30) == -signal.SIGTERM
