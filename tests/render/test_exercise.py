"""What `exercise` says of a run between two hosts."""

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from rdmadiag.facts.attempt import Problem, Stage, Teardown
from rdmadiag.facts.exercise import Cell, CellState, Exercise, Operation, RunOutcome, Via
from rdmadiag.preflight.candidate import Candidate
from rdmadiag.preflight.safety import Reason
from rdmadiag.render.exercise import document, show
from rdmadiag.verbs.exercise import Ran
from rdmadiag.view.reconcile import Protocol
from tests.verbs.attempts import LINUX_END

SEND = Cell(Operation.SEND, "rc", Via.POLL, CellState.VERIFIED)
REFUSED = Cell(
    Operation.WRITE,
    "rc",
    Via.POLL,
    CellState.REFUSED,
    call="ibv_reg_mr",
    errno=12,
    errno_name="ENOMEM",
    stage=Stage.CREATE_QP,
    cause="at the peer: ibv_reg_mr: ENOMEM",
    at_peer=True,
)
RUN = Exercise(
    outcome=RunOutcome.DONE,
    summary="1 verified",
    platform="linux",
    device="mlx5_0",
    port=1,
    peer_device="mlx5_7",
    gid_index=3,
    cells=(SEND,),
    teardown=Teardown.CLEAN,
    touched=True,
    seconds=1.25,
    role="connect",
    peer="192.0.2.1:18519",
)


def lines(**changes: Any) -> list[str]:
    out = io.StringIO()
    show(Ran(replace(RUN, **changes), (), ()), Console(file=out, width=80))
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("role", "first", "target"),
    [
        ("connect", "to mlx5_7 at 192.0.2.1:18519", "yes: verified at the target"),
        ("listen", "for mlx5_7 at 192.0.2.1:18519", "yes: the peer compared it"),
    ],
)
def test_each_end_says_where_the_other_is_and_who_compared(
    role: str, first: str, target: str
) -> None:
    said = lines(role=role)
    assert said[0] == f"VERIFIED  mlx5_0/1 {first}  1 verified"
    assert any(each.startswith(target) for each in said)


def test_what_was_refused_at_the_other_host_is_said_so() -> None:
    said = lines(cells=(SEND, REFUSED), summary="1 verified, 1 refused")
    assert said[0].startswith("FAILED  ")
    assert "write rc poll: refused: at the peer: ibv_reg_mr: ENOMEM" in said
    assert document(Ran(replace(RUN, cells=(REFUSED,)), (), ()))["cells"][0].at_peer


@pytest.mark.parametrize(
    ("changes", "first", "then"),
    [
        (
            {"outcome": RunOutcome.NO_PEER, "summary": "nobody came to 192.0.2.2:18519"},
            "NOT ATTEMPTED  mlx5_0/1  nobody came to 192.0.2.2:18519",
            ["    rdmadiag exercise --allow-rtr --listen ADDRESS   # first, on the other host"],
        ),
        (
            {"outcome": RunOutcome.BUSY, "summary": "others hold it", "by_cm": True},
            "NOT ATTEMPTED  mlx5_0/1  others hold it",
            [
                "    rdmadiag resources                                  # who holds them",
                "    rdmadiag exercise --cm --allow-rtr --even-if-busy   # beside them",
            ],
        ),
        (
            {"outcome": RunOutcome.PEER_REFUSED, "summary": "the peer wants a secret"},
            "NOT ATTEMPTED  mlx5_0/1  the peer wants a secret",
            [],
        ),
        (
            {
                "outcome": RunOutcome.MISMATCH,
                "summary": "one",
                "problems": (Problem("a", "one"), Problem("b", "the other\x1b[31m")),
            },
            "NOT ATTEMPTED  mlx5_0/1  one",
            [r"    the other\x1b[31m"],
        ),
    ],
    ids=[
        "nobody there",
        "nobody there of the manager",
        "busy",
        "another secret",
        "ends that do not fit",
    ],
)
def test_a_peer_that_is_not_met_leaves_the_device_alone_and_says_why(
    changes: dict[str, Any], first: str, then: list[str]
) -> None:
    said = lines(**changes, touched=False, cells=(), peer_device=None, peer=None)
    assert said == [first, *then]


def test_on_iwarp_what_can_be_tried_there_is_named() -> None:
    reason = Reason.IWARP_NEEDS_RDMA_CM
    port = Candidate(LINUX_END, Protocol.IWARP, (reason,), (reason,), "", 0, 0xFFFF)
    run = replace(RUN, outcome=RunOutcome.NOT_SAFE, touched=False, cells=(), role=None)
    out = io.StringIO()
    show(Ran(run, (port,), ()), Console(file=out, width=80))
    assert "    rdmadiag exercise --cm --allow-rtr   # iWARP connects by rdma_cm" in out.getvalue()
