"""`rdmadiag exercise` where something is wrong: the status that the specification has for it.

InfiniBand specification 10.10.3 (completion return status) and 9.9.2 to 9.9.3: a responder
that finds a key or an address not to be its own sends a NAK of a remote access error, one whose
buffer is too small completes with a local length error and sends one of an invalid request, and
one without a receive sends RNR NAKs, until the requester has counted them. UC and UD drop it.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

SECONDS = 60
CHECKOUT = Path(__file__).parents[3]


@pytest.fixture
def exercise(run: Run) -> Callable[..., tuple[int, Any]]:
    """`exercise(fault, *options)`: exit code and document."""

    def call(fault: str, *options: str) -> tuple[int, Any]:
        argv = [sys.executable, "-m", "lab.faulty", fault, "exercise", "--allow-rtr", "--json"]
        folder = ["env", "-C", str(CHECKOUT)]
        done = run([*folder, *argv, "--deadline", str(SECONDS), *options], timeout=2 * SECONDS)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    return call


def found(document: Any) -> dict[tuple[str, str, str], tuple[str, str | None]]:
    return {
        (each["operation"], each["qp_type"], each["via"]): (each["state"], each["status_name"])
        for each in document["cells"]
    }


def counts(run: Run) -> Any:
    return json.loads(run(["rdma", "-j", "res"], timeout=30).stdout)


ACCESS = ("--only=write,read,cmp_swap", "--qp=rc,uc")
DENIED = {
    ("write", "rc", "poll"): ("failed", "REM_ACCESS_ERR"),
    ("read", "rc", "poll"): ("failed", "REM_ACCESS_ERR"),
    ("read", "rc", "channel"): ("failed", "REM_ACCESS_ERR"),
    ("cmp_swap", "rc", "poll"): ("failed", "REM_ACCESS_ERR"),
    ("write", "uc", "poll"): ("failed", None),
}


def sends(kind: str, status: str | None) -> Any:
    vias = ("poll", "channel", "srq") if kind == "rc" else ("poll", "channel")
    return {("send", kind, via): ("failed", status) for via in vias}


RC = ("--only=send", "--qp=rc")


@pytest.mark.usefixtures("rxe_pair")
class TestFaults:
    @pytest.mark.sampled(2)
    @pytest.mark.parametrize(
        ("fault", "options", "expected"),
        [
            ("wrong rkey", ACCESS, DENIED),
            ("wrong address", ACCESS, DENIED),
            # The specification has REM_INV_REQ_ERR and LOC_LEN_ERR: rxe finds the message longer
            # than what the work request has left, and calls that malformed: copy_data, rxe_mr.c.
            ("too small, sender", RC, sends("rc", "REM_OP_ERR")),
            ("too small, receiver", RC, sends("rc", "LOC_QP_OP_ERR")),
            ("no receive", RC, sends("rc", "RNR_RETRY_EXC_ERR")),
            ("no receive", ("--only=send", "--qp=uc"), sends("uc", None)),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_each_cell_has_the_status_of_its_fault_and_nothing_is_left(
        self, fault: str, options: tuple[str, ...], expected: Any, exercise: Run, run: Run
    ) -> None:
        before = counts(run)
        code, document = exercise(fault, *options)
        assert found(document) == expected
        assert (code, document["outcome"], document["teardown"]) == (2, "done", "clean")
        assert counts(run) == before
