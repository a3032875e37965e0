"""`rdmadiag pingpong` by WRITE and READ, by events, with queues of other sizes, as a window."""

from collections.abc import Callable
from typing import Any

import pytest

Call = Callable[..., tuple[int, Any]]
BOTH = ("pingpong", "--allow-rtr", "--deadline", "50")


@pytest.mark.usefixtures("rxe_pair")
class TestRxe:
    @pytest.mark.parametrize(
        "options",
        [
            ("--op=write",),
            ("--op=write", "--bytes=1", "--iterations=600"),
            ("--op=write", "--bytes=65536"),
            ("--op=write", "--qp=uc"),
            ("--op=read",),
            ("--op=read", "--bytes=65536"),
            ("--events",),
            ("--events", "--op=read"),
            ("--events", "--qp=uc", "--bytes=4097"),
            ("--sge=4", "--bytes=4097", "--sq-depth=64", "--rq-depth=8", "--cq-depth=100"),
            ("--inline=64",),
            ("--inline=64", "--op=write", "--sge=2"),
        ],
        ids=" ".join,
    )
    def test_data_is_verified_and_timed(
        self, options: tuple[str, ...], rdmadiag_json: Call
    ) -> None:
        code, document = rdmadiag_json(*BOTH, *options)
        assert (code, document["outcome"], document["teardown"]) == (0, "verified", "clean"), (
            document
        )
        assert document["data_verified"]
        named = {each.partition("=")[0]: each.partition("=")[2] for each in options}
        assert document["latency_us"]["op"] == named.get("--op", "send")
        assert document["latency_us"]["iterations"] == int(named.get("--iterations", 100))

    @pytest.mark.parametrize("op", ["write", "read"])
    def test_a_window_is_as_fast_as_it_completes_and_its_last_buffer_is_compared(
        self, op: str, rdmadiag_json: Call
    ) -> None:
        code, document = rdmadiag_json(*BOTH, f"--op={op}", "--bandwidth=1", "--bytes=65536")
        found = document["bandwidth"]
        assert (code, found["data_verified"], found["bytes"]) == (0, True, 65536), document
        assert 0 < found["seconds"] < 4
        moved = found["messages"] * found["bytes"] * 8 / found["seconds"] / 1e9
        assert found["gbps"] == pytest.approx(moved, rel=0.01, abs=0.002)

    @pytest.mark.parametrize(
        ("option", "call"), [("--sge=32", "ibv_create_qp"), ("--sq-depth=4096", "ibv_create_qp")]
    )
    def test_what_a_device_cannot_is_refused_by_name_or_done(
        self, option: str, call: str, rdmadiag_json: Call
    ) -> None:
        code, document = rdmadiag_json(*BOTH, option)
        assert (code, document["teardown"]) in ((0, "clean"), (2, "clean"))
        assert document["call"] in (None, call)
