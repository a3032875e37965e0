"""`rdmadiag exercise` on soft RoCE: every cell, what is left behind, and who is in the way."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., tuple[int, Any]]
Rdmadiag = Callable[..., tuple[int, str, str]]
Run = Callable[..., Any]

SECONDS = 60
ALLOWED = ("exercise", "--allow-rtr", "--deadline", str(SECONDS))
NOBODY = 65534


def counts(run: Run) -> Any:
    return json.loads(run(["rdma", "-j", "res"], timeout=30).stdout)


def settled(run: Run, before: Any) -> bool:
    late = time.monotonic() + 30
    while counts(run) != before and time.monotonic() < late:
        time.sleep(0.2)
    return bool(counts(run) == before)


@pytest.mark.usefixtures("rxe_pair")
class TestRxe:
    def test_every_cell_is_verified_and_nothing_is_left(
        self, rdmadiag_json: Call, run: Run
    ) -> None:
        before = counts(run)
        code, document = rdmadiag_json(*ALLOWED, timeout=2 * SECONDS)
        others = {
            (each["operation"], each["qp_type"], each["via"]): (each["state"], each["cause"])
            for each in document["cells"]
            if each["state"] != "verified"
        }
        assert others == {}
        assert len(document["cells"]) == 44
        assert (code, document["outcome"], document["teardown"]) == (0, "done", "clean")
        assert counts(run) == before

    def test_what_it_proves_stands_beside_the_claims(
        self, rdmadiag: Rdmadiag, rdmadiag_json: Call, tmp_path: Path
    ) -> None:
        code, out, _ = rdmadiag(*ALLOWED, "--json", timeout=2 * SECONDS)
        assert code == 0
        saved = tmp_path / "exercise.json"
        saved.write_text(out)
        _, document = rdmadiag_json("capabilities", "--exercised", str(saved))
        first, second = document["devices"]
        proven = {row["name"] for row in first["capabilities"] if row["proven"]}
        assert {"atomic_cap", "max_srq", "max_sge", "op_req_notify_cq"} <= proven
        assert not any(row["proven"] for row in second["capabilities"])

    def test_a_choice_is_all_that_is_tried(self, rdmadiag_json: Call) -> None:
        argv = (*ALLOWED, "--only", "write,read", "--qp", "rc", "--device", "rxe1")
        code, document = rdmadiag_json(*argv, timeout=2 * SECONDS)
        places = [(each["operation"], each["via"]) for each in document["cells"]]
        assert (code, document["device"]) == (0, "rxe1")
        assert places == [("write", "poll"), ("read", "poll"), ("read", "channel")]

    def test_nothing_is_tried_beside_a_program_that_has_queue_pairs(
        self, rdmadiag: Rdmadiag, run: Run
    ) -> None:
        before = counts(run)
        holder = subprocess.Popen(
            ["ibv_rc_pingpong", "-d", "rxe0", "-g", "1"], stdout=subprocess.PIPE
        )
        try:
            late = time.monotonic() + 30
            while counts(run) == before and time.monotonic() < late:
                time.sleep(0.2)
            with_holder = counts(run)
            code, out, _ = rdmadiag(*ALLOWED, timeout=2 * SECONDS)
            assert code == 3
            assert "others hold 1 queue pair on rxe0/1" in out
            assert counts(run) == with_holder
            argv = (*ALLOWED, "--even-if-busy", "--only", "send")
            code, out, _ = rdmadiag(*argv, timeout=2 * SECONDS)
            assert (code, out.split()[0]) == (0, "VERIFIED")
            assert counts(run) == with_holder
        finally:
            holder.kill()
            holder.communicate()

    def test_memory_that_may_not_be_locked_is_refused_by_name_in_each_cell(
        self, rdmadiag_json: Call
    ) -> None:
        code, document = rdmadiag_json(
            *(*ALLOWED, "--only", "send", "--accept-risk", "memlock_too_low"),
            prefix=["prlimit", "--memlock=4096:4096"],
            user=NOBODY,
            timeout=2 * SECONDS,
        )
        found = {(each["state"], each["call"], each["errno_name"]) for each in document["cells"]}
        assert (code, found) == (2, {("refused", "ibv_reg_mr", "ENOMEM")})
        assert document["teardown"] == "clean"

    def test_killed_at_any_moment_it_leaves_nothing(self, rdmadiag: Rdmadiag, run: Run) -> None:
        before = counts(run)
        script = (
            'python -m rdmadiag exercise --allow-rtr --json >/dev/null & sleep "$1"; '
            "kill -KILL $!; wait"
        )
        for tenths in range(2, 42, 4):
            run(["bash", "-c", script, "bash", str(tenths / 10)], timeout=60)
            assert settled(run, before), f"killed after {tenths / 10} s"
