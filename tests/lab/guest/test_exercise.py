"""`rdmadiag exercise` on soft RoCE: every cell, what is left behind, and who is in the way."""

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lab.ports import wait_listening
from rdmadiag.facts.exercise import Via
from rdmadiag.verbs.matrix import MATRIX

Call = Callable[..., tuple[int, Any]]
Rdmadiag = Callable[..., tuple[int, str, str]]
Run = Callable[..., Any]

SECONDS = 60
ALLOWED = ("exercise", "--allow-rtr", "--deadline", str(SECONDS))
NOBODY = 65534
IS_6_1 = os.uname().release.startswith("6.1.")


NOT_CLAIMED = {
    **{("xrc", each): "XRC" for each in MATRIX["xrc", Via.SRQ]},
    **{("raw_packet", each): "MANAGED_FLOW_STEERING" for each in MATRIX["raw_packet", Via.POLL]},
}
"""Of soft RoCE: type and operation → the flag that it does not set."""

REFUSED = {
    ("rc", "alt_path", "poll"): ("ibv_modify_qp", "EINVAL"),
    ("xrc", "send", "srq"): ("ibv_create_qp", "EOPNOTSUPP"),
    ("raw_packet", "frame_eth", "poll"): ("ibv_create_qp", "EOPNOTSUPP"),
}
"""What it refuses where it is tried all the same."""

CHILD = """
import dataclasses, json, sys, time
from rdmadiag.facts.exercise import Operation, Via, Wanted
from rdmadiag.host.live import LiveHost
from rdmadiag.preflight.candidate import Wanted as End, candidates
from rdmadiag.sources.run import gather
from rdmadiag.sources.table import Depth
from rdmadiag.verbs import child
from rdmadiag.verbs.exercise import conclude
from rdmadiag.verbs.records import ExerciseRequest
from rdmadiag.verbs.watchdog import watch
now = time.monotonic()
evidence = gather(LiveHost(), now + 30, None, Depth())
chosen = (candidates(evidence, End(payload_bytes=256, iterations=1))[0],) * 2
cells = tuple(
    Wanted(Operation(operation), kind, Via(via))
    for kind, operation, via in (each.split(",") for each in sys.argv[1:])
)
request = ExerciseRequest(
    platform="linux", library=child.LIBRARY["linux"], start=now, deadline=now + 60,
    ends=tuple(each.end for each in chosen), meet=None, host="", port=0, until=0.0, secret=None,
    cells=cells,
)
found = conclude(watch(request, 2.0, module="exercise_child"), chosen, cells, (), "linux")
print(json.dumps(dataclasses.asdict(found)))
"""
"""The child with the cells that the command leaves out."""

WITHOUT_SYMBOL = """
import json
from contextlib import suppress
from ctypes import byref, c_int
from rdmadiag.facts.ib import QpType
from rdmadiag.verbs import child
from rdmadiag.verbs.frames import Frame, Rule
from rdmadiag.verbs.lib import CallFailed, Library
from rdmadiag.verbs.objects import Context, FlowRule
from rdmadiag.verbs.teardown import Objects
library = Library(child.LIBRARY["linux"])
call = lambda name, device, *arguments: library.call(name, *arguments)
found, made = {}, Objects()
context = made.add(Context(call, "rxe0", library.call("ibv_get_device_list", byref(c_int()))[0]))
pd, cq = made.add(context.alloc_pd()), made.add(context.create_cq(4))
qp = made.add(pd.create_qp(cq, QpType.UD, 4))
frame = Frame(b"\\2local", b"\\2other")
for attempt in (context.open_xrcd, lambda: FlowRule(call, qp, Rule(frame, 1))):
    try:
        made.add(attempt())
    except CallFailed as failed:
        found[failed.call] = failed.errno
made.close()
print(json.dumps(found))
"""


def counts(run: Run) -> Any:
    return json.loads(run(["rdma", "-j", "res"], timeout=30).stdout)


def settled(run: Run, before: Any) -> bool:
    """Of a command that was killed the child may open the device yet, before it sees that."""
    late = time.monotonic() + 30
    while (is_running() or counts(run) != before) and time.monotonic() < late:
        time.sleep(0.2)
    return bool(counts(run) == before)


def is_running() -> bool:
    """Whether a process of the command is there, its child included."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if b"-m\0rdmadiag" in each.read_bytes():
                return True
    return False


@pytest.mark.usefixtures("rxe_pair")
class TestRxe:
    def test_every_cell_is_verified_and_nothing_is_left(
        self, rdmadiag_json: Call, run: Run
    ) -> None:
        before = counts(run)
        code, document = rdmadiag_json(*ALLOWED, timeout=2 * SECONDS)
        cells = {
            state: [each for each in document["cells"] if each["state"] == state]
            for state in ("verified", "not_claimed", "not_tried", "refused", "failed")
        }
        assert (cells["refused"], cells["failed"]) == ([], [])
        assert len(cells["verified"]) == 48
        causes = {(each["qp_type"], each["operation"]): each for each in cells["not_claimed"]}
        assert causes.keys() == NOT_CLAIMED.keys()
        for place, flag in NOT_CLAIMED.items():
            assert causes[place]["cause"] == f"ibv_query_device: device_cap_flags has no {flag}"
        assert {each["operation"] for each in cells["not_tried"]} == {"sqd", "alt_path"}
        assert (code, document["outcome"], document["teardown"]) == (0, "done", "clean")
        # A receive queue that ran low; windows that were shut, of which 6.1 says nothing.
        names = [each["name"] for each in document["events"]]
        assert names.count("IBV_EVENT_SRQ_LIMIT_REACHED") == 1
        assert names.count("IBV_EVENT_QP_ACCESS_ERR") == (0 if IS_6_1 else 3)
        assert len(names) == (1 if IS_6_1 else 4)
        assert counts(run) == before

    def test_a_send_queue_drains_where_it_is_asked_for_by_name(
        self, rdmadiag_json: Call, run: Run
    ) -> None:
        before = counts(run)
        code, document = rdmadiag_json(*ALLOWED, "--only", "sqd", timeout=2 * SECONDS)
        (cell,) = document["cells"]
        (event,) = document["events"]
        assert event["name"] == "IBV_EVENT_SQ_DRAINED"
        # rxe of 6.1 drains, and what was posted meanwhile never leaves.
        stuck = "what was posted in SQD did not leave in RTS"
        found = code, cell["state"], cell["cause"]
        assert found == ((2, "failed", stuck) if IS_6_1 else (0, "verified", None))
        assert (event["end"], event["device"]) == ("local", "rxe0")
        assert counts(run) == before

    def test_what_soft_roce_cannot_is_refused_by_the_kernel_or_its_library(self, run: Run) -> None:
        before = counts(run)
        argv = [",".join(each) for each in REFUSED]
        ran = run([sys.executable, "-c", CHILD, *argv], timeout=2 * SECONDS)
        document = json.loads(ran.stdout)
        assert {
            (each["qp_type"], each["operation"], each["via"]): (each["call"], each["errno_name"])
            for each in document["cells"]
        } == REFUSED
        assert {each["state"] for each in document["cells"]} == {"refused"}
        assert document["teardown"] == "clean"
        assert counts(run) == before

    def test_calls_without_a_symbol_that_its_provider_has_not_say_so(self, run: Run) -> None:
        before = counts(run)
        ran = run([sys.executable, "-c", WITHOUT_SYMBOL], timeout=60)
        assert json.loads(ran.stdout) == {
            "ibv_open_xrcd": errno.EOPNOTSUPP,
            "ibv_create_flow": errno.EOPNOTSUPP,
        }
        assert counts(run) == before

    @pytest.mark.parametrize(
        ("tool", "cells"),
        [
            (["ibv_srq_pingpong", "-q", "2", "-n", "20"], ["send rc srq"]),
            (["ibv_ud_pingpong", "-n", "20"], ["send ud poll", "send ud channel"]),
            (["ibv_ud_pingpong", "-e", "-n", "20"], ["send ud channel"]),
        ],
        ids=["a shared receive queue", "UD", "UD by events"],
    )
    def test_the_tools_of_libibverbs_agree(
        self, tool: list[str], cells: list[str], rdmadiag_json: Call, run: Run
    ) -> None:
        argv = [*tool, "-d", "rxe0", "-g", "1", "-p", "18600"]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as server:
            try:
                wait_listening(18600, 30)
                assert run([*argv, "192.0.2.1"], timeout=60).returncode == 0
                assert server.wait(30) == 0
            finally:
                server.kill()
        _, document = rdmadiag_json(*ALLOWED, "--only", "send", timeout=2 * SECONDS)
        verified = {
            f"{each['operation']} {each['qp_type']} {each['via']}"
            for each in document["cells"]
            if each["state"] == "verified"
        }
        assert set(cells) <= verified

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
            *(*ALLOWED, "--only", "send", "--qp", "rc,uc,ud"),
            *("--accept-risk", "memlock_too_low"),
            prefix=["prlimit", "--memlock=4096:4096"],
            user=NOBODY,
            timeout=2 * SECONDS,
        )
        found = {(each["state"], each["call"], each["errno_name"]) for each in document["cells"]}
        assert (code, found) == (2, {("refused", "ibv_reg_mr", "ENOMEM")})
        assert document["teardown"] == "clean"

    @pytest.mark.other_kernels(0)
    def test_killed_at_any_moment_it_leaves_nothing(self, rdmadiag: Rdmadiag, run: Run) -> None:
        before = counts(run)
        script = (
            'python -m rdmadiag exercise --allow-rtr --json >/dev/null & sleep "$1"; '
            "kill -KILL $!; wait"
        )
        for tenths in range(2, 42, 4):
            run(["bash", "-c", script, "bash", str(tenths / 10)], timeout=60)
            assert settled(run, before), f"killed after {tenths / 10} s"
