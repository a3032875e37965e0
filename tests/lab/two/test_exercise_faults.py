"""`rdmadiag exercise` between two kernels, where the end that connects has a fault."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import Attempts
from lab.rxe import Rxe
from lab.two import ALLOWED

pytestmark = pytest.mark.usefixtures("nothing_left")

SECONDS = 60.0
WAITED_SECONDS = 25.0  # more than any listener waits for the other end
CHECKOUT = Path(__file__).parents[3]

Exchange = Callable[..., Any]
Run = Callable[..., Any]

ACCESS = ("--only=write,read,cmp_swap", "--qp=rc,uc")
DENIED = {
    ("write", "rc", "poll"): "REM_ACCESS_ERR",
    ("read", "rc", "poll"): "REM_ACCESS_ERR",
    ("read", "rc", "channel"): "REM_ACCESS_ERR",
    ("cmp_swap", "rc", "poll"): "REM_ACCESS_ERR",
    ("write", "uc", "poll"): None,
}


def sends(kind: str, status: str | None) -> dict[tuple[str, str, str], str | None]:
    vias = ("poll", "channel", "srq") if kind == "rc" else ("poll", "channel")
    return {("send", kind, via): status for via in vias}


SEND_RC = ("--only=send", "--qp=rc")


@pytest.mark.other_kernels(4)
@pytest.mark.stock
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("fault", "options", "expected"),
    [
        ("wrong rkey", ACCESS, DENIED),
        ("wrong address", ACCESS, DENIED),
        # REM_INV_REQ_ERR and LOC_LEN_ERR in the specification: see the same on one host.
        ("too small, sender", SEND_RC, sends("rc", "REM_OP_ERR")),
        ("too small, receiver", SEND_RC, sends("rc", "LOC_QP_OP_ERR")),
        ("no receive", SEND_RC, sends("rc", "RNR_RETRY_EXC_ERR")),
        ("no receive", ("--only=send", "--qp=uc"), sends("uc", None)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_cell_has_the_status_of_its_fault_and_both_hosts_say_so(
    fault: str,
    options: tuple[str, ...],
    expected: dict[tuple[str, str, str], str | None],
    role: str,
    rxe: Rxe,
    peer: Rxe,
    attempts: Attempts,
    run: Run,
    exchange: Exchange,
) -> None:
    if role == "left":
        attempt, port = attempts.listen(
            rxe.ipv4, *ALLOWED, *options, deadline=SECONDS, command="exercise"
        )
        exchange("listening", port)
        ended = attempt.end(waits=WAITED_SECONDS)
        code, document = ended.code, ended.document
    else:
        where = f"{peer.ipv4}:{exchange('listening', None)}"
        argv = [sys.executable, "-m", "lab.faulty", fault, "exercise", "--json", *ALLOWED]
        done = run(
            ["env", "-C", str(CHECKOUT), *argv, f"--deadline={SECONDS:g}", *options, where],
            timeout=2 * SECONDS,
        )
        assert done.stdout, done.stderr
        code, document = done.returncode, json.loads(done.stdout)
    found = {
        (each["operation"], each["qp_type"], each["via"]): (each["state"], each["status_name"])
        for each in document["cells"]
    }
    assert found == {place: ("failed", status) for place, status in expected.items()}
    assert (code, document["outcome"], document["teardown"]) == (2, "done", "clean")
    # Of a completion both know whose it was; where none came nobody does.
    sender = "right" if fault != "too small, receiver" else "left"
    for each in document["cells"]:
        if each["status"] is not None:
            assert each["at_peer"] is (role != sender), each["cause"]
