"""How an answer is taken, and when it is right."""

from typing import Any

import pytest

from faults.answers import (
    NOTHING,
    Answer,
    by_checklist,
    by_findings,
    by_grep,
    by_logs,
    by_story,
    cause_is_right,
    host_is_right,
    of_all,
    placed,
    together,
)
from faults.table import Fault

pytestmark = pytest.mark.once

FAULT = Fault(
    name="one",
    family="some",
    truth="",
    host="right",
    object="",
    stage="rtr",
    causes=("no-route",),
    rules=("link-not-up",),
    tools=("rping",),
)


def at(host: str) -> Fault:
    return Fault(
        **{name: getattr(FAULT, name) for name in Fault.__dataclass_fields__} | {"host": host}
    )


def account(label: str, **more: Any) -> dict[str, Any]:
    first = {
        "kind": "failure",
        "stage": "rtr",
        "causes": [{"label": label, "standing": "possible"}],
    }
    return {"first": first | more}


def story(label: str, severity: str, *hosts: str, confirmed: str = "") -> dict[str, Any]:
    cause = {"label": label} if label else None
    proven = severity == "critical"
    causes = [{"label": confirmed, "standing": "confirmed"}]
    first = {"where": "left.log", "failure": {"causes": causes}} if confirmed else None
    return {"of_reports": {"cause": cause, "hosts": hosts, "is_proven": proven}, "first": first}


def test_what_both_reports_prove_stands_between_the_findings_of_one_host() -> None:
    critical = {"right": [{"rule": "link-not-up", "severity": "critical"}]}
    warn = {"right": [{"rule": "some", "severity": "warn"}]}
    logs, proven = Answer("memlock", "left"), story("no-route", "critical", "left")
    assert of_all(critical, proven, logs) == Answer("link-not-up", "right")
    assert of_all(warn, proven, logs) == Answer("no-route", "left")
    assert of_all({}, story("no-path", "warn", "left", "right"), logs) == Answer("no-path", "both")
    assert of_all(warn, story("no-path", "warn", "left"), logs) == Answer("some", "right")
    assert of_all({}, story("no-path", "warn"), logs) == Answer("no-path", "between")
    assert of_all({}, {"of_reports": None}, logs) == logs


def test_a_cause_that_a_report_confirms_stands_before_a_warning_of_another_kind() -> None:
    warn = {"right": [{"rule": "some", "severity": "warn"}]}
    shown = story("", "", confirmed="memlock")
    assert of_all(warn, shown, NOTHING) == Answer("memlock", "left")
    pointed = story("no-path", "warn", "left", confirmed="no-path")
    assert of_all(warn, pointed, NOTHING) == Answer("some", "right")


def test_without_a_cause_of_both_reports_the_logs_are_left() -> None:
    assert of_all({}, story("", "warn"), NOTHING) == NOTHING


def test_a_label_and_a_rule_of_the_truth_are_right_and_nothing_is_not() -> None:
    answers = [Answer("no-route"), Answer("link-not-up"), Answer("memlock"), NOTHING]
    assert [cause_is_right(each, FAULT) for each in answers] == [True, True, False, False]


@pytest.mark.parametrize(
    ("host", "answer", "right"),
    [
        ("right", Answer("memlock", "right"), True),
        ("right", Answer("no-route", "left"), False),
        ("both", Answer("memlock", "left"), True),
        ("between", Answer("no-path", "between"), True),
        ("between", Answer("no-route", "left"), True),
        ("between", Answer("link-not-up", "left"), True),
        ("between", Answer("memlock", "left"), False),
        ("right", NOTHING, False),
    ],
)
def test_the_host_is_right(host: str, answer: Answer, right: bool) -> None:
    assert host_is_right(answer, at(host)) == right


def test_the_worst_finding_is_the_answer_and_info_is_none() -> None:
    def finding(rule: str, severity: str) -> dict[str, Any]:
        return {"rule": rule, "severity": severity}

    left = [finding("a", "info"), finding("b", "warn")]
    right = [finding("c", "critical")]
    assert by_findings({"left": left, "right": right}) == Answer("c", "right")
    assert by_findings({"left": left}) == Answer("b", "left")
    assert by_findings({"left": left[:1]}) == NOTHING


def test_of_two_ends_the_one_that_ended_first_by_itself_is_the_answer() -> None:
    logs = {"left": account("no-route"), "right": account("memlock")}
    assert by_logs(logs, {"left": 2.5, "right": 2.0}, reports=False) == Answer("memlock", "right")
    assert by_logs(logs, {"left": 2.5, "right": None}, reports=False).host == "left"
    assert by_logs(logs, {}, reports=False).host == "left"


def test_an_end_that_speaks_of_itself_comes_before_one_that_speaks_of_the_other() -> None:
    logs = {"left": account("peer-gone"), "right": account("peer-address-wrong")}
    assert by_logs(logs, {"left": 1.0, "right": 2.0}, reports=False).cause == "peer-address-wrong"


def test_a_confirmed_cause_comes_first_with_reports_alone() -> None:
    sure = account("memlock", stage="data", causes=[{"label": "memlock", "standing": "confirmed"}])
    logs = {"left": account("no-route"), "right": sure}
    assert by_logs(logs, {}, reports=True) == Answer("memlock", "right")
    assert by_logs(logs, {}, reports=False) == Answer("no-route", "left")


def test_a_consequence_comes_last_and_a_note_is_no_answer() -> None:
    logs = {
        "left": account("flushed", kind="consequence", stage="open"),
        "right": account("no-route"),
    }
    assert by_logs(logs, {}, reports=False) == Answer("no-route", "right")
    assert by_logs({"left": account("no-route", kind="note")}, {}, reports=False) == NOTHING
    assert by_logs({"left": {"first": None}}, {}, reports=False) == NOTHING


@pytest.mark.parametrize(
    ("cause", "host"),
    [
        ("peer-not-listening", "right"),
        ("peer-address-wrong", "left"),
        ("mtu-too-large", "between"),
        ("qp-types-differ", "both"),
        ("memlock", "left"),
    ],
)
def test_where_a_cause_is_that_the_client_shows(cause: str, host: str) -> None:
    assert placed(cause, "left").host == host


def test_baselines_name_the_usual_cause_or_none() -> None:
    assert by_checklist({"left": "cause: none\n", "right": "cause: memlock\n"}) == Answer(
        "memlock", "right"
    )
    assert by_checklist({"left": "cause: none\n"}) == NOTHING
    assert by_grep({"left": "Couldn't connect to 192.0.2.2:18515"}) == Answer(
        "peer-not-listening", "right"
    )
    assert by_grep({"left": "50 iters"}) == NOTHING


def test_the_first_way_that_names_a_cause_counts() -> None:
    assert together((NOTHING, Answer("memlock", "left"))) == Answer("memlock", "left")
    assert together(()) == NOTHING


@pytest.mark.parametrize(
    ("story", "answer"),
    [
        ({"first": None}, NOTHING),
        ({"first": {"where": "/x/left.log", "failure": {"causes": []}}}, NOTHING),
        (
            {"first": {"where": "/x/left.log", "failure": {"causes": [{"label": "memlock"}]}}},
            Answer("memlock", "left"),
        ),
        (
            {"first": {"where": "left.log", "failure": {"causes": [{"label": "peer-gone"}]}}},
            Answer("peer-gone", "right"),
        ),
    ],
    ids=["nothing failed", "no cause", "at the end of the log", "a cause of the peer"],
)
def test_of_a_story_the_first_cause_is_at_the_end_whose_log_it_is(
    story: dict[str, Any], answer: Answer
) -> None:
    assert by_story(story) == answer
