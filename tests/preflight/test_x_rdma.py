"""The decision of x/rdma: one reason at a time; what was not seen has reasons of its own."""

import doctest
from dataclasses import replace

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.preflight import x_rdma
from rdmadiag.preflight.safety import FOR_LACK_OF_EVIDENCE
from rdmadiag.preflight.x_rdma import (
    LinkLayer,
    PortState,
    PreflightDevice,
    PreflightReport,
    Reason,
    RtrUnsafe,
    derive_preflight_safety,
    failed_rtr_log_line,
    require_rtr_attempt_allowed,
)

DEVICE = PreflightDevice("rdma_en1", PortState.ACTIVE, LinkLayer.THUNDERBOLT, 1)
READY = PreflightReport([DEVICE], 1, 1, ["context allocation"])
UNSEEN = Missing(Why.TIMEOUT, "late")


def test_a_ready_host_may_and_the_reason_says_that_nothing_was_proven() -> None:
    assert derive_preflight_safety(READY) == (True, (Reason.READ_ONLY_PREFLIGHT,))


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (replace(READY, devices=[replace(DEVICE, route_gid_index=None)]), Reason.NO_ROUTE_GID),
        (replace(READY, devices=[replace(DEVICE, route_gid_index=0)]), Reason.ROUTE_GID_INDEX_ZERO),
        (replace(READY, devices=[]), Reason.NO_ACTIVE_THUNDERBOLT_DEVICE),
        (
            replace(READY, devices=[replace(DEVICE, state=PortState.DOWN)]),
            Reason.NO_ACTIVE_THUNDERBOLT_DEVICE,
        ),
        (
            replace(READY, devices=[replace(DEVICE, link_layer=LinkLayer.ETHERNET)]),
            Reason.NO_ACTIVE_THUNDERBOLT_DEVICE,
        ),
        (replace(READY, peer_interfaces=0), Reason.NO_PEER_INTERFACE),
        (replace(READY, xdomain_services=0), Reason.NO_XDOMAIN_SERVICE),
        (replace(READY, recent_log=[]), Reason.NO_RECENT_LOG),
        (replace(READY, recent_log=["x", "Failed INIT->RTR"]), Reason.RECENT_RTR_FAILURE),
    ],
)
def test_each_reason(report: PreflightReport, reason: Reason) -> None:
    assert derive_preflight_safety(report) == (False, (reason,))


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (replace(READY, peer_interfaces=UNSEEN), Reason.REGISTRY_UNKNOWN),
        (replace(READY, xdomain_services=UNSEEN), Reason.REGISTRY_UNKNOWN),
        (replace(READY, recent_log=UNSEEN), Reason.LOG_UNKNOWN),
    ],
)
def test_what_was_not_seen_has_other_reasons_than_what_is_not_there(
    report: PreflightReport, reason: Reason
) -> None:
    assert derive_preflight_safety(report) == (False, (reason,))
    assert reason in FOR_LACK_OF_EVIDENCE


def test_one_of_two_devices_that_cannot_forbids_the_host() -> None:
    report = replace(READY, devices=[DEVICE, replace(DEVICE, route_gid_index=None)])
    assert derive_preflight_safety(report) == (False, (Reason.NO_ROUTE_GID,))


def test_both_arrows_are_the_marker() -> None:
    assert failed_rtr_log_line("kernel: Failed INIT->RTR qp 3")
    assert failed_rtr_log_line("Failed INIT\N{RIGHTWARDS ARROW}RTR")
    assert not failed_rtr_log_line("Failed RTR->RTS")
    assert not failed_rtr_log_line("INIT->RTR done")


def test_an_attempt_that_nobody_allowed_is_refused() -> None:
    require_rtr_attempt_allowed(True)
    with pytest.raises(RtrUnsafe, match="--allow-rtr") as caught:
        require_rtr_attempt_allowed(False)
    assert str(caught.value) == x_rdma.RTR_ATTEMPT_WARNING


def test_the_examples_hold() -> None:
    results = doctest.testmod(x_rdma)
    assert results.attempted == 3
    assert results.failed == 0
