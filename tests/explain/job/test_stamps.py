"""Times as logs write them, and clocks on one scale."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.explain.job.alignment import Scale
from rdmadiag.explain.job.stamps import Stamp, completed, stamp_of, stamps_of

AT = datetime(2026, 3, 13, 22, 26, 1, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "clock", "seconds", "period"),
    [
        ("[2026-03-13 22:26:01] node2:1:2 [0] NCCL WARN", "local", AT, None),
        ("2026-03-13T22:26:01.250Z x", "utc", AT + 0.25, None),
        ("2026-03-13T23:26:01+01:00 x", "utc", AT, None),
        ("2026-03-13T12:26:01.5-10:00 x", "utc", AT + 0.5, None),
        ("2026-03-13 22:26:01,250 - train - INFO", "local", AT + 0.25, None),
        ("[Fri Mar 13 22:26:01 2026] mlx5_core", "local", AT, None),
        ("W20260313 22:26:01.500000 12 x.cpp:1] y", "local", AT + 0.5, None),
        (f"[{AT:.6f}] [node2:811  :0] ib_log.c UCX ERROR", "utc", AT, None),
        ("[ 8123.250000] mlx5_core", "uptime", 8123.25, None),
        ("12.5s: step", "relative", 12.5, None),
        ("22:26:01.500 x", "local", (22 * 60 + 26) * 60 + 1.5, "day"),
    ],
)
def test_a_time_is_read(text: str, clock: str, seconds: float, period: str | None) -> None:
    found = stamp_of(text)
    assert found is not None
    if period == "day":
        assert found.seconds % 86400 == seconds
    else:
        assert found.seconds == pytest.approx(seconds)
    assert (found.clock, found.period) == (clock, period)


@pytest.mark.parametrize("text", ["", "2026-99-13 22:26:01", "rank 3 of 12", "10.0.0.1:80", "1:2"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert stamp_of(text) is None


@pytest.mark.parametrize(
    "text", ["Mar 13 22:26:01 node2 x", "22:26:01 x", "I0313 22:26:01.000000 1"]
)
def test_what_is_not_named_is_what_brings_it_nearest(text: str) -> None:
    found = stamp_of(text)
    assert found is not None
    assert completed(found, AT + 3600).seconds == AT


def test_the_last_day_of_the_year_is_that_of_the_year_before() -> None:
    found = stamp_of("Dec 31 23:59:59 node2 x")
    assert found is not None
    around = datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC).timestamp()
    assert completed(found, around).seconds == around - 6


@given(st.text(max_size=100), st.floats(0, 4e9))
def test_any_text_has_times_or_none(text: str, around: float) -> None:
    for each in stamps_of(text):
        completed(each, around)


@given(
    st.dictionaries(st.sampled_from("abcdefg"), st.floats(-1e5, 1e5), min_size=3),
    st.sampled_from(("uptime", "relative")),
)
def test_a_clock_of_its_own_is_set_by_what_all_saw(offsets: dict[str, float], clock: str) -> None:
    wall, *others = offsets
    seen = {(each, clock): 1000.0 - offsets[each] for each in others}
    scale = Scale([*seen, (wall, "utc")], {"collective 1": {**seen, (wall, "utc"): 1000.0}})
    for host, _ in seen:
        at = scale.at((host, clock), Stamp(clock, 50.0 - offsets[host]))
        assert at == pytest.approx(50.0, abs=1e-6)


def test_a_clock_that_nobody_met_is_not_set() -> None:
    scale = Scale([("a", "utc"), ("b", "uptime")], {})
    assert scale.at(("b", "uptime"), Stamp("uptime", 1.0)) is None
    assert [(each.host, each.basis, each.offset_s) for each in scale.settings] == [
        ("b", "none", None)
    ]


def test_a_clock_is_set_by_one_that_was_set_itself() -> None:
    scale = Scale(
        [("a", "utc"), ("b", "uptime"), ("c", "uptime")],
        {
            "x": {("a", "utc"): 1000.0, ("b", "uptime"): 10.0},
            "y": {("b", "uptime"): 20.0, ("c", "uptime"): 5.0},
        },
    )
    assert scale.at(("c", "uptime"), Stamp("uptime", 5.0)) == 1010.0
