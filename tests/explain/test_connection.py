"""Events and statuses of the connection manager: one row each, and what a log makes of them."""

import io

import pytest

from rdmadiag.explain.answers import ConstantAnswer
from rdmadiag.explain.connection import EVENTS, IWARP, REASONS, SIDR, ended, groups, said
from rdmadiag.explain.log.account import Account
from rdmadiag.explain.log.recognition.vocabulary import NEEDLES
from rdmadiag.explain.log.scan import collect
from rdmadiag.explain.lookup import NotUnderstood, lookup
from rdmadiag.facts.cm import CmEvent, IwarpStatus, RejectReason, SidrStatus
from rdmadiag.sieve.lines import Sieve

FAILURES = {
    *(CmEvent.ADDR_ERROR, CmEvent.ROUTE_ERROR, CmEvent.CONNECT_ERROR, CmEvent.UNREACHABLE),
    *(CmEvent.REJECTED, CmEvent.DEVICE_REMOVAL, CmEvent.MULTICAST_ERROR, CmEvent.ADDR_CHANGE),
    CmEvent.ADDRINFO_ERROR,
}


SIEVE = Sieve(NEEDLES)


def explained(*lines: str) -> Account:
    collector = collect(SIEVE.segments(io.BytesIO("\n".join(lines).encode())))
    return collector.account(SIEVE.lines, SIEVE.bytes)


def test_every_event_has_one_row() -> None:
    assert [row.event for row in EVENTS] == list(CmEvent)
    assert {row.event for row in EVENTS if row.failure} == FAILURES
    assert all(bool(row.labels) == row.failure for row in EVENTS)


def test_every_reason_has_one_row() -> None:
    assert sorted(row.status for row in REASONS) == sorted(RejectReason)
    assert {row.status for row in SIDR} == set(SidrStatus) - {SidrStatus.SUCCESS}
    assert set(IWARP) == set(IwarpStatus)


def test_each_number_is_in_one_group() -> None:
    numbers = [number for _, own in groups(REASONS) for number in own]
    assert sorted(numbers) == [each.number for each in RejectReason]


def test_status_8_is_invalid_service_id_and_no_errno() -> None:
    found = ended(CmEvent.REJECTED, 8)
    assert (found.reason, found.errno) == (RejectReason.INVALID_SERVICE_ID, None)
    assert [each.label for each in found.causes] == ["peer-not-listening"]
    assert "ENOEXEC" not in said(CmEvent.REJECTED, 8)


def test_a_clean_end_is_no_failure() -> None:
    for event in (CmEvent.ESTABLISHED, CmEvent.DISCONNECTED, CmEvent.TIMEWAIT_EXIT):
        found = ended(event, 0)
        assert (found.failure, found.causes) == (False, ())


@pytest.mark.parametrize(
    ("event", "status", "label"),
    [
        (CmEvent.ADDR_ERROR, -19, "no-rdma-at-address"),
        (CmEvent.ADDR_ERROR, -110, "peer-unreachable"),
        (CmEvent.ROUTE_ERROR, -22, "no-path"),
        (CmEvent.UNREACHABLE, -110, "peer-unreachable"),
        (CmEvent.UNREACHABLE, 1, "peer-not-listening"),
        (CmEvent.UNREACHABLE, 2, "peer-refused"),
        (CmEvent.REJECTED, 10, "connection-stale"),
        (CmEvent.REJECTED, 28, "peer-refused"),
        (CmEvent.REJECTED, 26, "mtu-mismatch"),
        (CmEvent.REJECTED, 34, "peer-not-listening"),
        (CmEvent.REJECTED, -111, "peer-not-listening"),
        (CmEvent.REJECTED, -104, "peer-gone"),
        (CmEvent.MULTICAST_ERROR, -22, "multicast-refused"),
        (CmEvent.DEVICE_REMOVAL, 0, "device-removed"),
    ],
)
def test_an_ending_has_its_likeliest_cause_first(event: CmEvent, status: int, label: str) -> None:
    found = ended(event, status)
    assert found.failure
    assert found.causes[0].label == label


@pytest.mark.parametrize(
    ("event", "status", "words"),
    [
        (CmEvent.REJECTED, 28, ("28 consumer_defined", "the peer's program refused")),
        (CmEvent.REJECTED, -104, ("ECONNRESET", "refused, or its host ended")),
        (CmEvent.REJECTED, 34, ("status 34",)),
        (CmEvent.UNREACHABLE, -110, ("ETIMEDOUT",)),
        (CmEvent.UNREACHABLE, 3, ("3 no_qp",)),
        (CmEvent.ESTABLISHED, 0, ("RDMA_CM_EVENT_ESTABLISHED",)),
    ],
)
def test_an_event_is_said_with_what_its_status_is(
    event: CmEvent, status: int, words: tuple[str, ...]
) -> None:
    text = said(event, status)
    assert all(word in text for word in words)


# --- explain and logs --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [["reject", "8"], ["reject", "invalid service id"], ["IB_CM_REJ_INVALID_SERVICE_ID"]]
)
def test_a_reason_is_found_by_number_and_name(words: list[str]) -> None:
    (answer,) = lookup(words, "linux")
    assert isinstance(answer, ConstantAnswer)
    assert (answer.of, answer.number) == ("enum ib_cm_rej_reason", 8)
    assert [each.label for each in answer.causes] == ["peer-not-listening"]


@pytest.mark.parametrize("row", [*REASONS, *SIDR], ids=lambda row: row.status.constant)
def test_every_status_is_explained_by_its_constant(row) -> None:  # type: ignore[no-untyped-def]
    (answer,) = lookup([row.status.constant], "linux")
    assert isinstance(answer, ConstantAnswer)
    assert answer.number == row.status.number
    assert "No errno" in answer.meaning
    assert answer.causes
    assert answer.next


def test_a_reason_that_there_is_not_is_not_confirmed() -> None:
    for words in (["reject", "34"], ["IB_CM_REJ_NOBODY"]):
        with pytest.raises(NotUnderstood):
            lookup(words, "linux")


@pytest.mark.parametrize("row", REASONS, ids=lambda row: row.status)
def test_a_log_has_the_causes_of_the_table(row) -> None:  # type: ignore[no-untyped-def]
    first = explained(f"cma event RDMA_CM_EVENT_REJECTED, error {row.status.number}").first
    assert first
    assert (first.what, first.errno) == ("rejected", None)
    assert tuple(each.label for each in first.causes) == row.labels


@pytest.mark.parametrize("row", SIDR, ids=lambda row: row.status)
def test_an_unreachable_service_has_the_status_of_its_resolution(row) -> None:  # type: ignore[no-untyped-def]
    first = explained(f"udaddy: event: RDMA_CM_EVENT_UNREACHABLE, error: {row.status.number}").first
    assert first
    assert (first.what, first.errno) == ("unreachable", None)
    assert tuple(each.label for each in first.causes) == row.labels


@pytest.mark.parametrize(
    ("line", "what", "label"),
    [
        (
            "mckey: event: RDMA_CM_EVENT_MULTICAST_ERROR, error: -22",
            "multicast-error",
            "multicast-refused",
        ),
        ("async event: IBV_EVENT_PATH_MIG_ERR", "path-migration-failed", "alternate-path-unusable"),
    ],
)
def test_these_events_are_understood(line: str, what: str, label: str) -> None:
    first = explained(line).first
    assert first
    assert first.what == what
    assert label in [each.label for each in first.causes]
