"""Since when, how often, which way, and what changed the day before."""

import pytest

from rdmadiag.fleet.history import DAY, Change, PairFigures, Past, Seen
from rdmadiag.fleet.trend import MOST_CHANGES, ChangedFact, Trend, history_of
from rdmadiag.preflight.verdict import Status

START = 1_767_225_600  # 2026-01-01T00:00:00Z
OK, WARN, UNKNOWN, CRITICAL = Status


def past(*statuses, changes=(), pairs=(), reasons=lambda day: (), odd=lambda day: {}) -> Past:
    seen = [
        Seen(START + day * DAY, status, reasons(day), odd(day))
        for day, status in enumerate(statuses)
    ]
    return Past("n1", tuple(seen), tuple(changes), tuple(pairs))


@pytest.mark.parametrize(
    ("statuses", "since", "before", "always", "unfit", "spells"),
    [
        ([OK], "2026-01-01T00:00:00Z", None, True, 0, 0),
        ([OK, OK, CRITICAL, CRITICAL], "2026-01-03T00:00:00Z", OK, False, 2, 1),
        ([CRITICAL, OK, CRITICAL, OK], "2026-01-04T00:00:00Z", CRITICAL, False, 2, 2),
        ([OK, None, None], "2026-01-02T00:00:00Z", OK, False, 2, 1),
        ([None, None, WARN], "2026-01-03T00:00:00Z", None, False, 2, 1),
        ([CRITICAL, UNKNOWN], "2026-01-02T00:00:00Z", CRITICAL, False, 2, 1),
    ],
    ids=[
        "one merge",
        "critical for two days",
        "well again, after two spells",
        "no report any more",
        "reports at last",
        "one spell of two kinds",
    ],
)
def test_since_when_and_how_often(statuses, since, before, always, unfit, spells) -> None:
    found = history_of(past(*statuses))
    assert found is not None
    assert (found.status, found.since, found.before) == (statuses[-1], since, before)
    assert (found.always, found.unfit, found.spells) == (always, unfit, spells)
    assert found.merges == len(statuses)


@pytest.mark.parametrize(
    ("statuses", "trend"),
    [
        ([CRITICAL], Trend.NEW),
        ([OK] * 9, Trend.STEADY),
        ([OK] * 5 + [CRITICAL], Trend.WORSE),
        ([OK, WARN, WARN], Trend.WORSE),
        ([CRITICAL, WARN, WARN], Trend.BETTER),
        ([OK, CRITICAL, OK, CRITICAL, OK], Trend.FLAPPING),
        ([OK, CRITICAL, OK, CRITICAL], Trend.WORSE),
        ([OK, None, OK, None, OK], Trend.FLAPPING),
        ([OK, WARN, OK, WARN, OK], Trend.BETTER),
        ([OK, CRITICAL, OK, CRITICAL, OK] + [OK] * 30, Trend.STEADY),
        ([CRITICAL, None], Trend.UNKNOWN),
        ([CRITICAL, UNKNOWN], Trend.UNKNOWN),
        ([UNKNOWN, WARN], Trend.BETTER),
    ],
    ids=[
        "one merge shows no way",
        "as it was",
        "bad since today",
        "a warning since",
        "milder since",
        "down and up and down and up",
        "three changes are none yet",
        "a host that comes and goes",
        "a warning that comes and goes is fit all the time",
        "flapping long ago",
        "no report any more is not better than critical",
        "nor is a host of which nothing is known",
        "better than not known",
    ],
)
def test_which_way_it_goes(statuses, trend) -> None:
    found = history_of(past(*statuses))
    assert found is not None
    assert found.trend is trend


def test_more_reasons_are_worse() -> None:
    found = history_of(past(CRITICAL, CRITICAL, reasons=lambda day: ("a", "b")[: day + 1]))
    assert found is not None
    assert found.trend is Trend.WORSE
    assert [(each.what, each.since, each.merges) for each in found.reasons] == [
        ("a", "2026-01-01T00:00:00Z", 2),
        ("b", "2026-01-02T00:00:00Z", 1),
    ]


@pytest.mark.parametrize(
    ("gbps", "trend"),
    [
        ([390.0, 360.0, 330.0], Trend.WORSE),
        ([390.0, 360.0], Trend.STEADY),
        ([390.0, 330.0, 380.0], Trend.STEADY),
        ([330.0, 390.0], Trend.STEADY),
        ([390.0, None, 330.0], Trend.WORSE),
        ([390.0, 0.0], Trend.STEADY),
    ],
    ids=[
        "by 18 %, step by step",
        "by less than a tenth",
        "and recovered",
        "faster",
        "one that was not measured",
        "nothing passed at all: a failure, no figure",
    ],
)
def test_pairs_that_become_slower_are_worse(gbps, trend) -> None:
    pairs = [(START + day * DAY, PairFigures(3, 0, None, each)) for day, each in enumerate(gbps)]
    found = history_of(past(*([OK] * len(gbps)), pairs=pairs))
    assert found is not None
    assert found.trend is trend
    assert (found.pairs[0].gbps, found.pairs[-1].gbps) == (gbps[0], gbps[-1])


def test_what_changed_in_the_day_before_it_became_so() -> None:
    changes = [
        Change(START + DAY, "kernel", "6.1", "6.5"),
        *(Change(START + 2 * DAY, f"adapter[{at}].firmware", "28", "29") for at in (0, 1)),
        Change(START + 3 * DAY, "memlock.soft", "unlimited", "65536"),
        Change(START + 4 * DAY, "modules", "a", "b"),
    ]
    found = history_of(past(OK, OK, OK, CRITICAL, CRITICAL, changes=changes))
    assert found is not None
    assert found.changed == (
        ChangedFact("2026-01-03T00:00:00Z", "adapter[0-1].firmware", "28", "29"),
        ChangedFact("2026-01-04T00:00:00Z", "memlock.soft", "unlimited", "65536"),
    )


def test_of_a_host_that_was_never_else_the_newest_day_counts() -> None:
    changes = [Change(START, "a", "1", "2"), Change(START + 3 * DAY, "b", "1", "2")]
    found = history_of(past(OK, OK, OK, OK, changes=changes))
    assert found is not None
    assert [each.fact for each in found.changed] == ["b"]


def test_there_is_an_end_to_changes() -> None:
    changes = [Change(START + DAY, f"variable.V{at}", "1", "2") for at in range(70)]
    found = history_of(past(OK, CRITICAL, changes=changes))
    assert found is not None
    assert (len(found.changed), found.changed_more) == (MOST_CHANGES, 20)


def test_a_fact_that_is_odd_since_then() -> None:
    odd = {2: {"kernel": "5.4"}, 3: {"kernel": "5.4"}}
    found = history_of(past(OK, OK, OK, OK, odd=lambda day: odd.get(day, {})))
    assert found is not None
    (one,) = found.odd
    assert (one.what, one.value, one.since, one.merges) == (
        "kernel",
        "5.4",
        "2026-01-03T00:00:00Z",
        2,
    )


def test_a_node_of_which_nothing_was_said() -> None:
    assert history_of(Past("n1", (), (), ())) is None
