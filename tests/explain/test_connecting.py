"""What ended a connection by the connection manager, and its causes."""

from dataclasses import replace

import pytest

from rdmadiag.explain.attempt import advice
from rdmadiag.explain.causes import CAUSES
from rdmadiag.facts.attempt import Attempt, CmStep, Connection, Outcome, Stage
from rdmadiag.facts.cm import CmEvent, RejectReason
from tests.verbs.attempts import VERIFIED


def ended(stage: Stage, awaited: CmEvent, event: CmEvent | None, status: int = 0) -> Attempt:
    """An attempt whose last step was that one."""
    step = CmStep("local", stage, awaited, event, status, 0.1 if event else None)
    reason = RejectReason.from_number(status) if event is CmEvent.REJECTED else None
    connection = Connection((step,), None, None, event, status, reason)
    outcome = Outcome.CM_EVENT if event else Outcome.NO_EVENT
    errno = -status if status < 0 else None
    return replace(
        VERIFIED,
        outcome=outcome,
        stage=stage,
        errno=errno,
        connection=connection,
        local=None,
        remote=None,
    )


@pytest.mark.parametrize(
    ("stage", "event", "status", "label"),
    [
        (Stage.RESOLVE_ADDRESS, CmEvent.ADDR_ERROR, -19, "no-rdma-at-address"),
        (Stage.RESOLVE_ADDRESS, CmEvent.ADDR_ERROR, -110, "peer-unreachable"),
        (Stage.RESOLVE_ADDRESS, CmEvent.ADDR_ERROR, -101, "no-route"),
        (Stage.RESOLVE_ROUTE, CmEvent.ROUTE_ERROR, -110, "no-subnet-manager"),
        (Stage.RESOLVE_ROUTE, CmEvent.ROUTE_ERROR, -4242, "no-path"),
        (Stage.ESTABLISH, CmEvent.REJECTED, 8, "peer-not-listening"),
        (Stage.ESTABLISH, CmEvent.REJECTED, 28, "peer-refused"),
        (Stage.ESTABLISH, CmEvent.REJECTED, 10, "connection-stale"),
        (Stage.ESTABLISH, CmEvent.REJECTED, 26, "mtu-mismatch"),
        (Stage.ESTABLISH, CmEvent.REJECTED, -111, "peer-not-listening"),
        (Stage.ESTABLISH, CmEvent.REJECTED, -104, "peer-refused"),
        (Stage.ESTABLISH, CmEvent.UNREACHABLE, -110, "cm-datagrams-lost"),
        (Stage.ESTABLISH, CmEvent.CONNECT_ERROR, -4242, "peer-not-listening"),
        (Stage.DATA, CmEvent.DISCONNECTED, 0, "peer-gone"),
        (Stage.DATA, CmEvent.DEVICE_REMOVAL, 0, "device-removed"),
    ],
)
def test_an_event_has_the_cause_of_its_status(
    stage: Stage, event: CmEvent, status: int, label: str
) -> None:
    found = advice(ended(stage, CmEvent.ESTABLISHED, event, status))
    texts = {CAUSES[label].text, *CAUSES[label].where.values()}
    assert found.causes[0] in texts
    assert found.remedy


@pytest.mark.parametrize(
    ("stage", "awaited", "label"),
    [
        (Stage.RESOLVE_ADDRESS, CmEvent.ADDR_RESOLVED, "peer-unreachable"),
        (Stage.RESOLVE_ROUTE, CmEvent.ROUTE_RESOLVED, "no-path"),
        (Stage.ESTABLISH, CmEvent.ESTABLISHED, "cm-datagrams-lost"),
        (Stage.DISCONNECT, CmEvent.DISCONNECTED, "peer-gone"),
    ],
)
def test_an_event_that_did_not_come_has_a_cause(stage: Stage, awaited: CmEvent, label: str) -> None:
    found = advice(ended(stage, awaited, None))
    assert found.causes[0] in {CAUSES[label].text, *CAUSES[label].where.values()}


def test_a_connect_that_never_returns_is_no_firmware_that_is_silent() -> None:
    """siw connects TCP within rdma_connect: siw_connect, sw/siw/siw_cm.c."""
    hung = replace(VERIFIED, outcome=Outcome.WATCHDOG, stage=Stage.ESTABLISH, call="rdma_connect")
    found = advice(hung)
    assert found.causes[0] == CAUSES["cm-datagrams-lost"].text
    assert not any("firmware" in each for each in found.causes)


def test_the_reasons_of_infiniband_are_no_errnos() -> None:
    """28 is ENOSPC and 12 ENOMEM: neither is what these two mean."""
    for status in (12, 28):
        found = advice(ended(Stage.ESTABLISH, CmEvent.ESTABLISHED, CmEvent.REJECTED, status))
        assert not any("memory" in each for each in found.causes)
