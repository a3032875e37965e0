"""Causes by platform, stage and errno: the rows that the facts name, and the form of all."""

from typing import get_args

import pytest

from rdmadiag.explain.calls import ANY, after_call, causes, hanging, known
from rdmadiag.explain.causes import Known
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.errnos import ERRNOS, Platform

DEVICE_STAGES = (
    *(Stage.OPEN, Stage.ALLOC_PD, Stage.REG_MR, Stage.CREATE_CQ, Stage.CREATE_QP),
    *(Stage.INIT, Stage.RTR, Stage.RTS, Stage.DATA, Stage.TEARDOWN),
)


CM_STAGES = (
    *(Stage.EVENT_CHANNEL, Stage.BIND, Stage.LISTEN),
    *(Stage.RESOLVE_ADDRESS, Stage.RESOLVE_ROUTE, Stage.ESTABLISH, Stage.JOIN),
)
"""Of the connection manager."""


def rows() -> list[tuple[Platform, str, int, tuple[Known, ...]]]:
    return [
        (platform, stage, number, found)
        for platform in get_args(Platform)
        for stage in (*Stage, ANY)
        for number, found in known(stage, platform).items()
    ]


def test_a_row_is_of_a_stage_that_makes_calls() -> None:
    assert {stage for _, stage, _, _ in rows()} <= {
        *(*DEVICE_STAGES, *CM_STAGES, Stage.CONNECT, ANY)
    }


@pytest.mark.parametrize("stage", [*DEVICE_STAGES, *CM_STAGES])
def test_every_stage_has_rows_on_linux(stage: Stage) -> None:
    assert known(stage, "linux")


def test_a_row_is_of_an_errno_that_its_platform_has() -> None:
    wrong = [(p, s, n) for p, s, n, _ in rows() if n != 0 and n not in ERRNOS[p]]
    assert wrong == []


def test_a_row_has_one_to_five_causes_none_of_them_twice() -> None:
    for _, _, _, found in rows():
        assert 0 < len(found) <= 5
        assert len(set(found)) == len(found)


def test_the_same_number_means_other_things_on_another_platform() -> None:
    assert causes(110, Stage.RTR, "linux")
    assert causes(110, Stage.RTR, "darwin") == ()
    assert causes(96, Stage.RTR, "darwin")
    assert causes(96, Stage.RTR, "linux") == ()
    assert causes(22, Stage.RTR, "linux") != causes(22, Stage.RTR, "darwin")


def test_an_unknown_platform_or_number_has_no_causes() -> None:
    assert causes(22, Stage.RTR, "unknown") == ()
    assert causes(9999, Stage.RTR, "linux") == ()


@pytest.mark.parametrize(
    ("platform", "stage", "number", "word"),
    [
        pytest.param("linux", "rtr", 110, "does not answer on the link", id="B5 110"),
        pytest.param("linux", "rtr", 101, "no route", id="B5 101"),
        pytest.param("linux", "rtr", 113, "no route", id="113"),
        pytest.param("linux", "rtr", 61, "empty", id="B2 61: an empty row"),
        pytest.param("linux", "rtr", 19, "network namespace", id="B2 19: netdev elsewhere"),
        pytest.param("linux", "rtr", 22, "MTU", id="B11"),
        pytest.param("linux", "rtr", 22, "link-local", id="the default GID of rxe"),
        pytest.param("linux", "rts", 22, "iWARP", id="B21"),
        pytest.param("linux", "reg_mr", 12, "locked memory", id="B6 memory"),
        pytest.param("linux", "create_cq", 12, "locked memory", id="B6 queue"),
        pytest.param("linux", "open", 13, "may not open", id="B4 mode"),
        pytest.param("linux", "open", 2, "no node", id="B4 node"),
        pytest.param("linux", "open", 0, "provider library", id="B14"),
        pytest.param("linux", "open", 1, "exclusive", id="B16"),
        pytest.param("linux", "open", 12, "too many", id="B25"),
        pytest.param("linux", "init", 22, "partition key", id="B19"),
        pytest.param("darwin", "rtr", 22, "no IPv4 GID", id="A1"),
        pytest.param("darwin", "rtr", 60, "GID index 0", id="A2"),
        pytest.param("darwin", "rtr", 96, "bridge", id="A5"),
        pytest.param("darwin", "rtr", 60, "share a subnet", id="A6"),
        pytest.param("darwin", "alloc_pd", 0, "exhausted", id="A7"),
        pytest.param("darwin", "alloc_pd", 12, "down", id="A8"),
        pytest.param("darwin", "open", 0, "switched off", id="A9"),
        pytest.param("darwin", "create_qp", 16, "one fewer than max_qp", id="A12 create"),
        pytest.param("darwin", "rtr", 16, "still held", id="A12 RTR"),
        pytest.param("darwin", "reg_mr", 0, "100", id="A13"),
        pytest.param("darwin", "create_qp", 102, "UC alone", id="A14"),
    ],
)
def test_a_reported_failure_has_its_reported_cause(
    platform: Platform, stage: str, number: int, word: str
) -> None:
    assert any(word in cause.text for cause in causes(number, stage, platform))


@pytest.mark.parametrize("stage", DEVICE_STAGES)
def test_a_device_that_is_gone_can_fail_any_call(stage: Stage) -> None:
    for number in (5, 19):
        assert any(each.label == "device-removed" for each in causes(number, stage, "linux"))


@pytest.mark.parametrize("stage", DEVICE_STAGES)
def test_a_timeout_of_thunderbolt_may_be_a_wedge_at_any_stage(stage: Stage) -> None:
    assert causes(60, stage, "darwin")[-1].label == "driver-wedged"


def test_the_causes_of_the_stage_come_before_those_of_any() -> None:
    assert causes(19, Stage.RTR, "linux") == (
        *known(Stage.RTR, "linux")[19],
        *known(ANY, "linux")[19],
    )


def test_a_hang_has_causes_on_both_platforms() -> None:
    assert hanging("darwin")[0].label == "driver-wedged"
    assert hanging("linux")
    assert hanging("unknown") == ()


def test_no_call_on_the_device_has_failed_while_the_ends_connect() -> None:
    assert [each.label for each in causes(110, Stage.CONNECT, "linux")] == [
        "peer-unreachable",
        "firewall",
    ]
    assert causes(5, Stage.CONNECT, "linux") == ()


def test_the_remedy_of_a_number_is_that_of_its_first_cause_else_of_the_stage() -> None:
    assert after_call(12, Stage.REG_MR, "linux")[0] == "ulimit -l"
    assert after_call(9999, Stage.RTS, "linux") == after_call(22, Stage.RTS, "linux")
    assert after_call(None, Stage.RTR, "linux")[-1] == "rdmadiag preflight"
