"""At which host it is to be mended."""

from dataclasses import replace

import pytest

from rdmadiag.explain.job.place import with_place
from rdmadiag.explain.job.story import JobReport, OfReports, Story
from rdmadiag.explain.log.account import LikelyCause, Named, Standing
from rdmadiag.preflight.verdict import Finding, Severity
from tests.explain.job.telling import placed
from tests.explain.job.test_both_ends import MET, REFUSED, RESULT

STORY = placed({"left.log": REFUSED, "right.log": ""})
DOWN = Finding("link-not-up", Severity.CRITICAL, "rxe1", 1, "it is down", (), (), ())
WARNS = replace(DOWN, severity=Severity.WARN)


def failed(label: str, standing: Standing = Standing.POSSIBLE, host: str | None = "a") -> Story:
    first = STORY.first
    assert first is not None
    who = replace(first.who, host=host)
    failure = replace(first.failure, causes=(LikelyCause(label, "why", standing),))
    return replace(STORY, first=replace(first, who=who, failure=failure), hosts=("a", "b"))


def of_reports(hosts: tuple[str, ...], *, proven: bool) -> OfReports:
    cause = LikelyCause("no-path", "why", Standing.POSSIBLE, ("the reports: so",))
    return OfReports((("a", "b"),), (), False, (), cause, hosts, "", (), proven)


def at(story: Story, **own: tuple[Finding, ...]) -> tuple[str, tuple[str, ...]]:
    place = with_place(story, own).at
    assert place is not None
    return place.kind.value, place.names


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("memlock", ("host", ("a",))),
        ("peer-address-wrong", ("host", ("a",))),
        ("peer-not-listening", ("host", ("b",))),
        ("flushed", ("host", ("b",))),
        ("firewall", ("between", ())),
        ("peer-unreachable", ("between", ())),
        ("qp-types-differ", ("both", ("a", "b"))),
    ],
)
def test_a_line_alone_says_it_of_its_own_end_of_its_peer_or_of_the_way(
    label: str, expected: tuple[str, tuple[str, ...]]
) -> None:
    assert at(failed(label)) == expected


def test_a_file_stands_for_a_host_that_is_not_known() -> None:
    assert at(failed("peer-gone", host=None)) == ("host", ("right.log",))
    assert at(failed("memlock", host=None)) == ("host", ("left.log",))


def test_what_is_critical_at_one_host_comes_before_what_a_line_says_of_the_other() -> None:
    assert at(failed("memlock"), a=(), b=(DOWN,)) == ("host", ("b",))
    assert at(failed("memlock"), a=(), b=(WARNS,)) == ("host", ("a",))


def test_a_warning_of_one_host_alone_comes_before_a_line_of_the_peer_or_the_way() -> None:
    assert at(failed("peer-gone"), a=(WARNS,), b=()) == ("host", ("a",))
    assert at(failed("firewall"), a=(), b=(WARNS,)) == ("host", ("b",))
    assert at(failed("peer-gone"), a=(WARNS,), b=(WARNS,)) == ("host", ("b",))
    confirmed = failed("peer-gone", Standing.CONFIRMED)
    assert at(confirmed, a=(WARNS,), b=()) == ("host", ("b",))


def test_a_cause_of_the_way_that_what_one_host_is_set_to_confirms_is_at_that_host() -> None:
    drops = replace(WARNS, rule="firewall-drops-tcp")
    confirmed = failed("firewall", Standing.CONFIRMED)
    assert at(confirmed, a=(drops,), b=()) == ("host", ("a",))
    assert at(confirmed, a=(drops,), b=(drops,)) == ("between", ())
    assert at(confirmed, a=(), b=()) == ("between", ())


def test_a_flush_that_comes_first_is_of_the_host_whose_line_it_is() -> None:
    story = failed("roce-port-dropped")
    assert story.first is not None
    flushed = Named(5, "IBV_WC_WR_FLUSH_ERR", "flushed", None, None)
    failure = replace(story.first.failure, completion=flushed)
    assert at(story) == ("between", ())
    assert at(replace(story, first=replace(story.first, failure=failure))) == ("host", ("a",))
    adapter = replace(failure, completion=replace(flushed, vendor_error=0xF9))
    assert at(replace(story, first=replace(story.first, failure=adapter))) == ("between", ())


def test_the_other_of_two_reports_is_the_peer_that_has_no_log() -> None:
    reports = tuple(JobReport(name, f"{name}.json", "ok") for name in ("a", "b"))
    story = replace(failed("peer-gone"), hosts=("a",), sources=STORY.sources[:1], reports=reports)
    assert at(story) == ("host", ("b",))


def test_what_could_not_be_looked_at_at_the_other_host_leaves_it_open_whose_it_is() -> None:
    unread = replace(DOWN, rule="source-failed", severity=Severity.UNKNOWN)
    assert at(failed("peer-gone"), a=(DOWN,), b=()) == ("host", ("a",))
    assert at(failed("peer-gone"), a=(DOWN,), b=(unread,)) == ("host", ("b",))
    assert at(failed("firewall"), a=(WARNS,), b=(unread,)) == ("between", ())


def test_what_is_critical_at_both_says_nothing_of_which() -> None:
    assert at(failed("memlock"), a=(DOWN,), b=(DOWN,)) == ("host", ("a",))


def test_a_finding_where_the_other_host_has_no_report_is_no_odd_one() -> None:
    assert at(failed("peer-not-listening"), a=(DOWN,)) == ("host", ("b",))


@pytest.mark.parametrize(
    ("proven", "expected"), [(True, ("host", ("a",))), (False, ("host", ("b",)))]
)
def test_what_reports_prove_comes_before_a_finding_and_what_they_point_at_after_it(
    proven: bool, expected: tuple[str, tuple[str, ...]]
) -> None:
    story = replace(failed("firewall"), of_reports=of_reports(("a",), proven=proven))
    assert at(story, a=(), b=(DOWN,)) == expected
    assert at(story, a=(), b=()) == ("host", ("a",))


def test_what_reports_prove_at_no_host_is_between_them() -> None:
    story = replace(failed("memlock"), of_reports=of_reports((), proven=True))
    assert at(story, a=(), b=(DOWN,)) == ("between", ())


def test_where_nothing_failed_it_is_nowhere() -> None:
    story = placed({"left.log": MET + RESULT, "right.log": MET + RESULT})
    assert with_place(story, {"a": (), "b": (DOWN,)}).at is None
