"""A listener and the end that comes to it, over the fake librdmacm: the conversation of both."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rdmadiag.facts.attempt import Attempt, Outcome, Stage, Teardown
from rdmadiag.facts.cm import CmEvent
from rdmadiag.facts.ib import DataOp
from rdmadiag.verbs.cm_protocol import REFUSAL_TEXT, Refusal
from rdmadiag.verbs.outcome import conclude
from rdmadiag.verbs.protocol import End
from rdmadiag.verbs.records import (
    Agreed,
    CmRequest,
    Connected,
    Malformed,
    Record,
    TurnedAway,
    encode,
    parse,
)
from tests.verbs.attempts import LINUX_END, LINUX_SCRIPT

PROGRAM = Path(__file__).with_name("cm_two_ends.py")
ADDRESS = "192.0.2.1"
SECRET, OTHER = bytes(range(32)).hex(), bytes(range(1, 33)).hex()

Run = Callable[..., tuple["Came", "Came"]]


class Came:
    """What came of one end."""

    def __init__(self, records: list[Record], end: End, role: Any) -> None:
        self.records = records
        self.attempt: Attempt = conclude(records, platform="linux", ends=[end], role=role)

    @property
    def ended(self) -> tuple[Outcome, Stage, Teardown]:
        return self.attempt.outcome, self.attempt.stage, self.attempt.teardown

    def of(self, kind: type[Record]) -> list[Any]:
        return [each for each in self.records if isinstance(each, kind)]


@pytest.fixture
def run(fake_cm: Any, tmp_path: Path) -> Run:
    def both(
        here: End = LINUX_END,
        there: End = LINUX_END,
        secrets: tuple[str | None, str | None] = (None, None),
        cm_rules: str = "",
        rules: str = "",
        wait: float = 20.0,
        groups: tuple[str | None, str | None] = (None, None),
    ) -> tuple[Came, Came]:
        fake = fake_cm(LINUX_SCRIPT + rules, f"address {ADDRESS} mlx5_0 1\n{cm_rules}")
        node = tmp_path / "node"
        node.touch()
        now = time.monotonic()
        requests = [
            CmRequest(
                platform="linux",
                library=str(fake.verbs.library),
                start=now,
                deadline=now + 30.0,
                ends=(end,),
                meet=meet,  # type: ignore[arg-type]
                host=ADDRESS,
                port=4711,
                until=now + wait,
                secret=secret,
                cm_library=str(fake.library),
                node=str(node),
                addresses=("",),
                group=group,
                members=(ADDRESS,),
            )
            for end, meet, secret, group in zip(
                (here, there), ("listen", "connect"), secrets, groups, strict=True
            )
        ]
        files = [tmp_path / "here", tmp_path / "there"]
        ran = subprocess.run(
            [sys.executable, PROGRAM, *files],
            input=b"".join(map(encode, requests)),
            env=os.environ | fake.environ | {"PYTHONPATH": str(PROGRAM.parents[2])},
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (0, b"")
        found = []
        for file, end, role in zip(files, (here, there), ("listen", "connect"), strict=True):
            records = [parse(line) for line in file.read_bytes().splitlines()]
            assert not any(isinstance(each, Malformed) for each in records)
            found.append(Came(records, end, role))  # type: ignore[arg-type]
        return found[0], found[1]

    return both


@pytest.mark.parametrize("secrets", [(None, None), (SECRET, SECRET)])
@pytest.mark.parametrize("payload", [1, 5000])
def test_both_verify_and_know_each_other(run: Run, secrets: Any, payload: int) -> None:
    end = replace(LINUX_END, payload_bytes=payload)
    far = replace(end, iterations=10, lid=7)
    here, there = run(end, far, secrets)
    for came, remote in ((here, far), (there, end)):
        assert came.ended == (Outcome.VERIFIED, Stage.DONE, Teardown.CLEAN)
        assert came.attempt.data_verified
        assert came.attempt.latency is None
        assert [each.remote for each in came.of(Agreed)] == [remote]
        assert len(came.of(Connected)) == 1
    ours, theirs = here.attempt, there.attempt
    assert ours.local
    assert ours.remote
    assert theirs.local
    assert theirs.remote
    assert ours.local.queue_pair == theirs.remote.queue_pair
    assert ours.remote.queue_pair == theirs.local.queue_pair
    assert ours.connection
    assert theirs.connection
    assert ours.connection.address == theirs.connection.peer
    assert [each.event for each in theirs.connection.steps] == [
        CmEvent.ADDR_RESOLVED,
        CmEvent.ROUTE_RESOLVED,
        CmEvent.ESTABLISHED,
        CmEvent.DISCONNECTED,
    ]


@pytest.mark.parametrize("window", [0.0, 0.05])
@pytest.mark.parametrize("op", [DataOp.WRITE, DataOp.READ])
def test_one_sided_operations_are_verified_and_timed_by_the_end_that_connects(
    run: Run, op: DataOp, window: float
) -> None:
    end = replace(LINUX_END, payload_bytes=5000, op=op, bandwidth_seconds=window)
    here, there = run(end, end, (SECRET, SECRET))
    for came in (here, there):
        assert came.ended == (Outcome.VERIFIED, Stage.DONE, Teardown.CLEAN)
    assert here.attempt.latency is None
    figures = there.attempt.latency
    assert figures is None or (figures.op, figures.iterations) == (op, 10)
    assert here.attempt.bandwidth is None
    assert (there.attempt.bandwidth is not None) is bool(window)


@pytest.mark.slow
def test_another_secret_is_turned_away_and_gets_no_proof(run: Run) -> None:
    here, there = run(secrets=(SECRET, OTHER), wait=4.0)
    assert here.ended == (Outcome.PEER_REFUSED, Stage.LISTEN, Teardown.CLEAN)
    assert "another secret" in here.of(TurnedAway)[0].text
    assert there.ended[0] in (Outcome.CM_EVENT, Outcome.COMPLETION_ERROR)
    assert not there.attempt.data_verified
    assert there.of(Agreed) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("far", "secrets", "why", "outcome"),
    [
        ({"payload_bytes": 65}, (None, None), Refusal.OTHER_PAYLOAD, Outcome.MISMATCH),
        ({"iterations": 9}, (None, None), Refusal.OTHER_ITERATIONS, Outcome.MISMATCH),
        ({"op": DataOp.READ}, (None, None), Refusal.OTHER_OP, Outcome.MISMATCH),
        ({}, (SECRET, None), Refusal.WANTS_SECRET, Outcome.PEER_REFUSED),
        ({}, (None, SECRET), Refusal.WANTS_NO_SECRET, Outcome.PEER_REFUSED),
    ],
)
def test_what_does_not_fit_is_said_at_both_ends(
    run: Run, far: Any, secrets: Any, why: Refusal, outcome: Outcome
) -> None:
    here, there = run(LINUX_END, replace(LINUX_END, **far), secrets, wait=4.0)
    assert here.ended == (Outcome.PEER_REFUSED, Stage.LISTEN, Teardown.CLEAN)
    assert REFUSAL_TEXT[why] in here.attempt.summary
    assert there.ended == (outcome, Stage.ESTABLISH, Teardown.CLEAN)
    assert there.attempt.summary == REFUSAL_TEXT[why]


def test_strangers_before_the_peer_end_nothing(run: Run) -> None:
    here, there = run(cm_rules="request -\n" * 25 + "request 00ff\n")
    assert here.ended == (Outcome.VERIFIED, Stage.DONE, Teardown.CLEAN)
    assert there.ended == (Outcome.VERIFIED, Stage.DONE, Teardown.CLEAN)
    assert len(here.of(TurnedAway)) == 20


def test_an_end_that_fails_is_a_disconnection_at_the_other(run: Run) -> None:
    here, there = run(rules="on post_send after=8 corrupt\n")
    outcomes = {here.ended[0], there.ended[0]}
    assert Outcome.DATA_MISMATCH in outcomes
    assert outcomes <= {Outcome.DATA_MISMATCH, Outcome.CM_EVENT, Outcome.COMPLETION_ERROR}
    assert {here.ended[2], there.ended[2]} == {Teardown.CLEAN}
