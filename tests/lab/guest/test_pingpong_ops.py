"""`rdmadiag pingpong` by WRITE and READ, by events, with queues of other sizes, as a window."""

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from lab.ports import wait_listening

Call = Callable[..., tuple[int, Any]]
Run = Callable[..., Any]
ONE_HOST = ("pingpong", "--allow-rtr", "--deadline", "50")


def perftest(program: str) -> int:
    """Exit code of the client; both ends are on rxe0."""
    argv = ["timeout", "60", program, "-d", "rxe0", "-x", "1", "-F", "-n", "100"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_listening(18515, 60.0)
            client = [*argv, "127.0.0.1"]
            done = subprocess.run(client, capture_output=True, timeout=90, check=False)
        finally:
            server.kill()
    return done.returncode


@pytest.mark.usefixtures("rxe_pair")
class TestRxe:
    @pytest.mark.parametrize(
        "options",
        [
            ("--op=write", "--bytes=1", "--iterations=600"),
            ("--op=write", "--qp=uc", "--bytes=4097", "--inline=64"),
            ("--op=read", "--bytes=65536"),
            ("--events", "--bytes=4097"),
            ("--events", "--op=read"),
            ("--sge=4", "--inline=64", "--sq-depth=64", "--rq-depth=8", "--cq-depth=100"),
        ],
        ids=" ".join,
    )
    def test_data_is_verified_and_timed(
        self, options: tuple[str, ...], rdmadiag_json: Call
    ) -> None:
        code, document = rdmadiag_json(*ONE_HOST, *options)
        ended = (code, document["outcome"], document["teardown"], document["data_verified"])
        assert ended == (0, "verified", "clean", True), document["summary"]
        named = {each.partition("=")[0]: each.partition("=")[2] for each in options}
        assert document["latency_us"]["op"] == named.get("--op", "send")
        assert document["latency_us"]["iterations"] == int(named.get("--iterations", 100))

    @pytest.mark.parametrize("op", ["write", "read"])
    def test_a_window_is_as_fast_as_it_completes_and_its_last_buffer_is_compared(
        self, op: str, rdmadiag_json: Call
    ) -> None:
        code, document = rdmadiag_json(*ONE_HOST, f"--op={op}", "--bandwidth=1", "--bytes=65536")
        found = document["bandwidth"]
        assert (code, found["data_verified"], found["bytes"]) == (0, True, 65536)
        assert 0 < found["seconds"] < 4
        moved = found["messages"] * found["bytes"] * 8 / found["seconds"] / 1e9
        assert found["gbps"] == pytest.approx(moved, rel=0.01, abs=0.002)

    def test_more_buffers_than_the_device_has_are_refused_by_name(
        self, rdmadiag_json: Call, run: Run
    ) -> None:
        said = run(["ibv_devinfo", "-v", "-d", "rxe0"], timeout=60).stdout
        most = int(next(line for line in said.splitlines() if "max_sge:" in line).split()[1])
        code, document = rdmadiag_json(*ONE_HOST, f"--sge={min(32, most + 1)}")
        if most < 32:
            ended = (code, document["call"], document["errno"]["name"], document["teardown"])
            assert ended == (2, "ibv_create_qp", "EINVAL", "clean")
        else:
            assert code == 0

    def test_what_perftest_can_do_is_verified_and_the_other_way_round(
        self, rdmadiag_json: Call
    ) -> None:
        by = {
            "ib_write_bw": ("write", "rc"),
            "ib_read_bw": ("read", "rc"),
            "ib_atomic_bw": ("fetch_add", "rc"),
            "ib_send_bw": ("send", "rc"),
        }
        code, document = rdmadiag_json(
            *("exercise", "--allow-rtr", "--qp=rc", "--deadline=60"),
            "--only=write,read,fetch_add,send",
        )
        assert code == 0
        verified = {
            (each["operation"], each["qp_type"]): each["state"] == "verified"
            for each in document["cells"]
            if each["via"] == "poll"
        }
        for program, cell in by.items():
            assert (perftest(program) == 0) is verified[cell], program
