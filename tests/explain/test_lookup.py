"""A word is what a tired person means by it; every answer is that of the tables."""

import pytest

from rdmadiag.explain.answers import (
    CauseAnswer,
    CompletionAnswer,
    ErrnoAnswer,
    RuleAnswer,
    StateAnswer,
    VariableAnswer,
)
from rdmadiag.explain.lookup import NotUnderstood, lookup
from rdmadiag.explain.states import MEANINGS, state_meanings
from rdmadiag.facts.ib import PhysState, PortState, QpState
from rdmadiag.gid.variables import VARIABLES, said_of, variable
from rdmadiag.preflight.rules import CATALOGUE
from rdmadiag.preflight.safety import REASON_TEXT


@pytest.mark.parametrize(
    ("words", "subject"),
    [
        ("110", "errno"),
        ("errno 110", "errno"),
        ("ETIMEDOUT", "errno"),
        ("etimedout", "errno"),
        ("Connection timed out", "errno"),
        ("INIT", "state"),
        ("2: INIT", "state"),
        ("PORT_INIT", "state"),
        ("Initializing", "state"),
        ("LinkUp", "state"),
        ("polling", "state"),
        ("wc 12", "wc"),
        ("IBV_WC_RETRY_EXC_ERR", "wc"),
        ("retry_exc_err", "wc"),
        ("RNR_RETRY", "wc"),
        ("transport retry counter exceeded", "wc"),
        ("status 5", "wc"),
        ("NCCL_IB_GID_INDEX", "env"),
        ("NCCL_IB_GID_INDEX=3", "env"),
        ("env $UCX_TLS", "env"),
        ("no-usable-gid", "rule"),
        ("no_usable_gid", "rule"),
        ("no_route_gid", "reason"),
        ("no-route-gid", "reason"),
        ("gid-row-empty", "cause"),
    ],
)
def test_a_first_guess_is_understood(words: str, subject: str) -> None:
    assert lookup(words.split(), "linux")[0].subject == subject


@pytest.mark.parametrize("words", ["", "errno", "errno 9999", "wc 99", "state nowhere", "env HOME"])
def test_what_is_not_understood_is_one_line(words: str) -> None:
    with pytest.raises(NotUnderstood) as refused:
        lookup(words.split() or ["frobnicate"], "linux")
    assert "\n" not in str(refused.value)


def test_a_slip_of_the_hand_is_answered_with_what_is_near() -> None:
    with pytest.raises(NotUnderstood, match="did you mean ETIMEDOUT"):
        lookup(["ETIMEDUOT"], "linux")
    with pytest.raises(NotUnderstood, match="did you mean no-usable-gid"):
        lookup(["no-usable-gids"], "linux")


def test_an_errno_without_a_stage_has_every_stage_that_is_known() -> None:
    (answer,) = lookup(["12"], "linux")
    assert isinstance(answer, ErrnoAnswer)
    assert [each.stage for each in answer.stages] == [
        *("open", "alloc_pd", "reg_mr", "create_cq", "create_qp", "data"),
    ]
    (one,) = lookup(["12"], "linux", stage="reg_mr")
    assert isinstance(one, ErrnoAnswer)
    assert [each.stage for each in one.stages] == ["reg_mr"]


def test_an_errno_is_its_platforms() -> None:
    (linux,) = lookup(["errno", "96"], "linux")
    (mac,) = lookup(["errno", "96"], "darwin")
    assert isinstance(linux, ErrnoAnswer)
    assert isinstance(mac, ErrnoAnswer)
    assert (linux.name, mac.name) == ("EPFNOSUPPORT", "ENODATA")
    assert mac.elsewhere == "linux: EPFNOSUPPORT, Protocol family not supported"
    assert [each.stage for each in mac.stages] == ["rtr"]


def test_a_line_that_can_do_without_a_device_is_kept_where_none_is_known() -> None:
    (answer,) = lookup(["wc", "2"], "linux")
    assert isinstance(answer, CompletionAnswer)
    assert answer.next[0].startswith("ibv_devinfo -v | grep ")


def test_a_status_with_the_vendors_number() -> None:
    (answer,) = lookup(["12"], "linux", vendor_error=129)
    assert isinstance(answer, CompletionAnswer)
    assert answer.vendor == ("with mlx5, vendor error 129 says that the transport retries ran out")
    (flush,) = lookup(["wc", "5"], "linux")
    assert isinstance(flush, CompletionAnswer)
    assert flush.is_consequence


def test_a_number_that_both_kinds_of_state_have_is_both() -> None:
    found = lookup(["state", "4"], "linux")
    assert [(each.kind, each.state) for each in found if isinstance(each, StateAnswer)] == [
        ("port", "active"),
        ("physical", "training"),
    ]


def test_every_state_has_a_meaning() -> None:
    assert {row.state for row in MEANINGS} == {*PortState, *PhysState, *QpState}
    for row in MEANINGS:
        assert row in state_meanings(str(row.state))


def test_every_rule_is_explained_by_its_own_words() -> None:
    for code, rule in CATALOGUE.items():
        answer = lookup([code], "linux")[0]
        assert isinstance(answer, RuleAnswer)
        assert (answer.code, answer.title, answer.meaning, answer.remedy, answer.references) == (
            code,
            rule.title,
            rule.meaning,
            rule.remedy,
            rule.references,
        )


def test_every_reason_is_explained() -> None:
    for reason in REASON_TEXT:
        answers = lookup(["reason", reason], "linux")
        assert reason in [each.code for each in answers if isinstance(each, RuleAnswer)]


def test_a_label_says_where_it_is_known_from() -> None:
    (answer,) = lookup(["gid-row-empty"], "linux")
    assert isinstance(answer, CauseAnswer)
    assert "linux: errno 61 (ENODATA) at rtr" in answer.known_from


def test_a_label_says_what_to_look_at() -> None:
    (answer,) = lookup(["memlock"], "linux")
    assert isinstance(answer, CauseAnswer)
    assert answer.next[0] == "ulimit -l"
    answer = lookup(["mac-slept"], "linux")[-1]  # of a Mac alone
    assert isinstance(answer, CauseAnswer)
    assert answer.next


@pytest.mark.parametrize("row", VARIABLES, ids=lambda row: row.name)
def test_a_variable_stands_once_and_is_found(row) -> None:  # type: ignore[no-untyped-def]
    assert sum(each.name == row.name for each in VARIABLES) == 1
    found = variable(row.name.replace("*", "SOMETHING_ELSE"))
    assert found is row
    (answer, *_) = lookup(["env", row.name.replace("*", "SOMETHING_ELSE")], "linux")
    assert isinstance(answer, VariableAnswer)
    assert answer.meaning.endswith(".")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("NCCL_IB_GID_INDEX=3", "row 3 of the table"),
        ("NCCL_IB_GID_INDEX=-1", "chooses for itself"),
        ("NCCL_IB_GID_INDEX=x", "no number"),
        ("NCCL_IB_GID_INDEX=900", "few GID tables"),
        ("NCCL_IB_TIMEOUT=22", "17.2 s"),
        ("NCCL_IB_TIMEOUT=0", "without end"),
        ("NCCL_IB_TIMEOUT=40", "not between 0 and 31"),
        ("NCCL_IB_RETRY_CNT=13", "not between 0 and 7"),
        ("NCCL_IB_DISABLE=1", "TCP alone"),
        ("NCCL_IB_DISABLE=maybe", "neither 0 nor 1"),
        ("NCCL_IB_HCA=mlx5_1", "mlx5_10 too"),
        ("NCCL_IB_HCA==mlx5_1", "exactly these"),
        ("NCCL_IB_HCA=^mlx5_1", "every device but"),
        ("NCCL_IB_HCA=^=mlx5_1", "every device but exactly"),
        ("NCCL_IB_ADDR_FAMILY=AF_INET7", "neither"),
        ("UCX_NET_DEVICES=mlx5_0", "no :PORT"),
        ("UCX_IB_GID_INDEX=3", "row 3"),
    ],
)
def test_a_value_is_judged(setting: str, said: str) -> None:
    (answer,) = lookup([setting], "linux")
    assert isinstance(answer, VariableAnswer)
    assert answer.value_means
    assert said in answer.value_means


@pytest.mark.parametrize(
    "setting",
    [
        "NCCL_IB_RETRY_CNT=7",
        "UCX_IB_GID_INDEX=auto",
        "UCX_NET_DEVICES=mlx5_0:1",
        "NCCL_IB_ADDR_FAMILY=AF_INET6",
        "NCCL_IB_DISABLE=0",
    ],
)
def test_a_plain_value_needs_no_word(setting: str) -> None:
    name, _, value = setting.partition("=")
    row = variable(name)
    assert row
    assert said_of(row, value) is None


@pytest.mark.parametrize(("number", "states"), [("0004", 2), ("9" * 5000, 0), ("²", 0)])
def test_a_state_of_any_digits(number: str, states: int) -> None:
    assert len(state_meanings(number)) == states
