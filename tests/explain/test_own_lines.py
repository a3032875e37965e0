"""What rdmadiag pingpong prints itself, line by line, as the code that prints it has it."""

import pytest

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.mismatches import MISMATCHES
from rdmadiag.facts.attempt import Stage
from rdmadiag.verbs.cm_protocol import REFUSAL_TEXT, Refusal
from tests.explain.test_tools import meaning

ADDRESS = "192.0.2.2:18620"


@pytest.mark.parametrize(
    ("said", "label"),
    [
        ("the peer wants a secret: give both ends the same --secret-file", "secrets-differ"),
        ("the peer has no secret: give both ends the same --secret-file", "secrets-differ"),
        ("the peer knows another secret, or somebody changed its message", "secrets-differ"),
        (f"{ADDRESS}: the peer has no secret: give both ends the same", "secrets-differ"),
        (REFUSAL_TEXT[Refusal.WANTS_SECRET], "secrets-differ"),
        (REFUSAL_TEXT[Refusal.WANTS_NO_SECRET], "secrets-differ"),
        (REFUSAL_TEXT[Refusal.OTHER_VERSION], "other-program"),
        ("the peer is no rdmadiag pingpong", "other-program"),
        ("a message that is no JSON: no peer of ours", "other-program"),
        (f"cannot connect to {ADDRESS}: Connection refused", "peer-not-listening"),
        (f"cannot connect to {ADDRESS}: No route to host", "peer-unreachable"),
        (f"cannot connect to {ADDRESS}: Network is unreachable", "no-route"),
        (f"cannot connect to {ADDRESS}: no answer", "firewall"),
        (f"cannot listen on {ADDRESS}: Address already in use", "tcp-port-taken"),
        (f"cannot listen on {ADDRESS}: Cannot assign requested address", "not-this-hosts-address"),
        (f"cannot listen on {ADDRESS}: Permission denied", "tcp-port-privileged"),
        ("no address for node7: Name or service not known", "name-not-resolved"),
        ("the preflight forbids RTR on rxe0/1", "attempt-not-permitted"),
    ],
)
def test_why_nothing_was_attempted(said: str, label: str) -> None:
    found = meaning(f"NOT ATTEMPTED  {said}  [left]")
    assert found.kind is Kind.FAILURE
    assert found.causes[0].label == label


def test_the_end_that_listens_says_whom_it_turned_away() -> None:
    line = "rdmadiag: turned away 192.0.2.1:41050: the peer has no secret: give both ends the same"
    assert meaning(line).causes[0].label == "secrets-differ"


def test_that_nobody_came_follows_from_what_kept_the_other_end() -> None:
    found = meaning(f"NOT ATTEMPTED  nobody came to {ADDRESS}  [right]")
    assert found.kind is Kind.CONSEQUENCE


@pytest.mark.parametrize(("code", "label"), MISMATCHES.items())
def test_what_does_not_fit_is_named_by_its_code(code: str, label: str) -> None:
    found = meaning(f"  {code}: one thing here, and another there")
    assert (found.fields.stage, found.causes[0].label) == (Stage.AGREE, label)


@pytest.mark.parametrize(
    ("said", "kind", "label"),
    [
        ("the peer failed at rtr: ibv_modify_qp failed", Kind.CONSEQUENCE, "failed-at-peer"),
        ("the peer closed the connection", Kind.CONSEQUENCE, "peer-gone"),
        ("nothing arrived", Kind.FAILURE, "no-path"),
        ("the deadline came after 7 round trips", Kind.FAILURE, "deadline-short"),
    ],
)
def test_why_an_attempt_failed(said: str, kind: Kind, label: str) -> None:
    found = meaning(f"FAILED  at data on rxe0/1: {said}  [left]")
    assert (found.kind, found.causes[0].label) == (kind, label)
