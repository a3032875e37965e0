"""`rdmadiag exercise` on soft RoCE: every cell, what is left behind, and who is in the way."""

import json
from collections.abc import Callable
from typing import Any

import pytest

Call = Callable[..., tuple[int, Any]]
Rdmadiag = Callable[..., tuple[int, str, str]]
Run = Callable[..., Any]

SECONDS = 60
ALLOWED = ("exercise", "--allow-rtr", "--deadline", str(SECONDS))
UNKNOWN_TO_RXE: set[tuple[str, str, str]] = set()


def counts(run: Run) -> Any:
    return json.loads(run(["rdma", "-j", "res"], timeout=30).stdout)


@pytest.mark.usefixtures("rxe_pair")
class TestRxe:
    def test_every_cell_is_verified_and_nothing_is_left(
        self, rdmadiag: Rdmadiag, rdmadiag_json: Call, run: Run
    ) -> None:
        before = counts(run)
        print(rdmadiag(*ALLOWED, timeout=2 * SECONDS)[1])
        code, document = rdmadiag_json(*ALLOWED, timeout=2 * SECONDS)
        states = {
            (each["operation"], each["qp_type"], each["via"]): (each["state"], each["cause"])
            for each in document["cells"]
        }
        assert {place: what for place, what in states.items() if what[0] != "verified"} == {}
        assert (code, document["outcome"], document["teardown"]) == (0, "done", "clean")
        assert counts(run) == before
