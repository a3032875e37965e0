"""A connection by the fake librdmacm, both ends in one child: every failure at every step."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rdmadiag.facts.attempt import Attempt, Outcome, Stage, Teardown
from rdmadiag.facts.cm import CmEvent, RejectReason
from rdmadiag.facts.ib import LinkLayer, QpState, QpType
from rdmadiag.verbs import cm_protocol
from rdmadiag.verbs.cm_protocol import Hello, Refusal
from rdmadiag.verbs.protocol import End
from rdmadiag.verbs.records import CmRequest, Listening, Record, TurnedAway
from rdmadiag.verbs.watchdog import Watched, watch
from tests.verbs.attempts import LINUX_END, LINUX_SCRIPT, concluded, request

ADDRESS = "192.0.2.1"
ADDRESSES = f"address {ADDRESS} mlx5_0 1\naddress 198.51.100.1 mlx5_0 2\n"
INFINIBAND_SCRIPT = """
device mlx4_0 node_type=1 max_qp=16 max_cq=16 max_pd=16 max_mr=16 phys_port_cnt=1
port mlx4_0 1 state=4 link_layer=1 active_mtu=3 max_mtu=5 gid_tbl_len=4 lid=5
gid mlx4_0 1 0 fe80::c42:a103:0:1
"""
INFINIBAND_END = replace(
    LINUX_END,
    device="mlx4_0",
    link_layer=LinkLayer.INFINIBAND,
    gid_index=None,
    gid=None,
    gid_type=None,
    lid=5,
)
STEPS = [
    ("local", Stage.RESOLVE_ADDRESS, CmEvent.ADDR_RESOLVED),
    ("local", Stage.RESOLVE_ROUTE, CmEvent.ROUTE_RESOLVED),
    ("remote", Stage.ESTABLISH, CmEvent.CONNECT_REQUEST),
    ("local", Stage.ESTABLISH, CmEvent.ESTABLISHED),
    ("remote", Stage.ESTABLISH, CmEvent.ESTABLISHED),
    ("remote", Stage.DISCONNECT, CmEvent.DISCONNECTED),
    ("local", Stage.DISCONNECT, CmEvent.DISCONNECTED),
]
"""The order in which a connection comes about: man rdma_cm."""
STAGE_OF = {
    "rdma_create_event_channel": Stage.EVENT_CHANNEL,
    "rdma_create_id": Stage.BIND,
    "rdma_getaddrinfo": Stage.BIND,
    "rdma_bind_addr": Stage.BIND,
    "rdma_listen": Stage.LISTEN,
    "rdma_resolve_addr": Stage.RESOLVE_ADDRESS,
    "rdma_resolve_route": Stage.RESOLVE_ROUTE,
    "rdma_create_qp": Stage.CREATE_QP,
    "rdma_connect": Stage.ESTABLISH,
    "rdma_accept": Stage.ESTABLISH,
    "rdma_disconnect": Stage.DISCONNECT,
}

Run = Callable[..., "Came"]


class Came:
    """What came of a run."""

    def __init__(self, attempt: Attempt, fake: Any, watched: Watched, seen: list[Record]) -> None:
        self.attempt = attempt
        self.calls: list[str] = fake.calls
        self.verbs_calls: list[str] = fake.verbs.calls
        self.stderr = watched.stderr
        self.seen = seen

    @property
    def ended(self) -> tuple[Outcome, Stage, Teardown]:
        return self.attempt.outcome, self.attempt.stage, self.attempt.teardown

    @property
    def event(self) -> tuple[CmEvent | None, int]:
        assert self.attempt.connection
        return self.attempt.connection.event, self.attempt.connection.status

    @property
    def turned_away(self) -> list[str]:
        return [each.text for each in self.seen if isinstance(each, TurnedAway)]


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """In place of /dev/infiniband/rdma_cm."""
    made = tmp_path / "rdma_cm"
    made.touch()
    return made


@pytest.fixture
def run(fake_cm: Any, node: Path) -> Run:
    def attempt(
        cm_rules: str = "",
        rules: str = "",
        seconds: float = 10.0,
        end: End = LINUX_END,
        address: str = ADDRESS,
        script: str = LINUX_SCRIPT,
        **changes: Any,
    ) -> Came:
        fake = fake_cm(script + rules, ADDRESSES + cm_rules)
        both = changes.get("meet") is None
        base = request(fake.verbs.library, [end] * (2 if both else 1), seconds)
        given = {name: getattr(base, name) for name in base.__dataclass_fields__}
        asked = CmRequest(
            **{name: value for name, value in given.items() if name != "kind"}
            | {
                "cm_library": str(fake.library),
                "node": str(node),
                "addresses": (address,) * (2 if both else 1),
            }
            | changes
        )
        seen: list[Record] = []
        with pytest.MonkeyPatch.context() as patch:
            for name, value in fake.environ.items():
                patch.setenv(name, value)
            watched = watch(asked, 1.0, seen.append, "cm_child")
        assert isinstance(watched, Watched)
        found = concluded(watched, asked, role=changes.get("meet"))
        return Came(found, fake, watched, seen)

    return attempt


# --- what works --------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [1, 64, 5000, 1 << 20])
def test_data_is_verified_both_ways_and_nothing_is_left(run: Run, payload: int) -> None:
    came = run(end=replace(LINUX_END, payload_bytes=payload))
    attempt = came.attempt
    assert came.ended == (Outcome.VERIFIED, Stage.DONE, Teardown.CLEAN)
    assert attempt.data_verified
    assert came.stderr == ""
    assert attempt.latency is None or attempt.latency.iterations == 10
    for end in (attempt.local, attempt.remote):
        assert end
        assert (end.qp_state, end.mtu, end.psn) == (QpState.RTS, 1024, 7)
    assert attempt.connection
    found = [(each.end, each.stage, each.event) for each in attempt.connection.steps]
    assert found == STEPS
    assert [each.awaited for each in attempt.connection.steps] == [event for _, _, event in STEPS]
    assert all(each.status == 0 for each in attempt.connection.steps)


def test_on_infiniband_the_path_has_no_grh(run: Run) -> None:
    came = run(
        f"address {ADDRESS} mlx4_0 1\n",
        script=INFINIBAND_SCRIPT,
        end=INFINIBAND_END,
        address="203.0.113.1",
        addresses=("203.0.113.7", "203.0.113.7"),
    )
    assert came.ended[:2] == (Outcome.CALL_FAILED, Stage.BIND)
    came = run(
        "address 203.0.113.7 mlx4_0 1\n",
        script=INFINIBAND_SCRIPT,
        end=INFINIBAND_END,
        address="203.0.113.7",
    )
    assert came.ended == (Outcome.VERIFIED, Stage.DONE, Teardown.CLEAN)
    assert came.attempt.local
    assert came.attempt.local.gid_index is None


def test_private_data_without_padding_is_read_as_well(run: Run) -> None:
    assert run("exact\n").ended == (Outcome.VERIFIED, Stage.DONE, Teardown.CLEAN)


def test_a_stranger_at_the_listener_of_one_host_ends_nothing(run: Run) -> None:
    came = run("request -\nrequest 00ff\n")
    assert came.ended == (Outcome.VERIFIED, Stage.DONE, Teardown.CLEAN)
    assert came.calls.count("rdma_reject") == 2


# --- calls -------------------------------------------------------------------------------


@pytest.mark.parametrize("call", STAGE_OF)
def test_a_call_that_fails_is_named_with_its_stage_and_never_made_again(
    run: Run, call: str
) -> None:
    came = run(f"on {call} errno=12\n")
    assert came.ended[:2] == (Outcome.CALL_FAILED, STAGE_OF[call])
    assert (came.attempt.call, came.attempt.errno) == (call, 12)
    assert came.attempt.teardown in (Teardown.CLEAN, Teardown.NOTHING_MADE)
    assert came.stderr == ""
    assert came.calls.count(call) <= 2  # of the two ends


@pytest.mark.parametrize("call", ["ibv_alloc_pd", "ibv_reg_mr", "ibv_create_cq", "post_recv"])
def test_so_is_one_of_the_verbs_library(run: Run, call: str) -> None:
    came = run(rules=f"on {call} errno=12\n")
    assert came.ended[::2] == (Outcome.CALL_FAILED, Teardown.CLEAN)
    assert came.attempt.errno == 12
    assert came.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("call", ["rdma_bind_addr", "rdma_resolve_addr", "rdma_connect"])
def test_a_call_that_hangs_is_named_and_its_process_killed(run: Run, call: str) -> None:
    came = run(f"on {call} hang\n", seconds=1.0)
    assert came.ended == (Outcome.WATCHDOG, STAGE_OF[call], Teardown.ABANDONED)
    assert came.attempt.call == call


def test_a_library_that_crashes_is_named(run: Run) -> None:
    came = run("on rdma_connect crash\n")
    assert came.ended[:2] == (Outcome.DIED, Stage.ESTABLISH)
    assert came.attempt.call == "rdma_connect"


@pytest.mark.parametrize(
    ("node", "errno"), [("/nonexistent/rdma_cm", 2), ("/proc/1/mem/rdma_cm", 20)]
)
def test_without_its_node_librdmacm_is_never_loaded(run: Run, node: str, errno: int) -> None:
    came = run(node=node)
    assert came.ended == (Outcome.CALL_FAILED, Stage.EVENT_CHANNEL, Teardown.NOTHING_MADE)
    assert came.attempt.errno == errno
    assert came.calls == []
    assert not came.attempt.touched


def test_a_library_that_is_not_there_is_named_by_the_loader(run: Run) -> None:
    came = run(cm_library="/nonexistent/librdmacm.so.1")
    assert came.ended[:2] == (Outcome.CALL_FAILED, Stage.EVENT_CHANNEL)
    assert "/nonexistent/librdmacm.so.1" in came.attempt.summary


def test_an_address_of_another_port_than_the_permitted_one_ends_it_before_anything_is_made(
    run: Run,
) -> None:
    came = run(address="198.51.100.1")
    assert came.ended[0] is Outcome.MISMATCH
    assert came.attempt.problems[0].code == "another_device"
    assert "mlx5_0/2" in came.attempt.problems[0].text
    assert "ibv_alloc_pd mlx5_0" not in came.verbs_calls


# --- events ------------------------------------------------------------------------------

FAILING = [
    ("ADDR_RESOLVED", "ADDR_ERROR", -110, Stage.RESOLVE_ADDRESS),
    ("ADDR_RESOLVED", "DEVICE_REMOVAL", 0, Stage.RESOLVE_ADDRESS),
    ("ROUTE_RESOLVED", "ROUTE_ERROR", -22, Stage.RESOLVE_ROUTE),
    ("ESTABLISHED", "REJECTED", 8, Stage.ESTABLISH),
    ("ESTABLISHED", "REJECTED", 28, Stage.ESTABLISH),
    ("ESTABLISHED", "REJECTED", -111, Stage.ESTABLISH),
    ("ESTABLISHED", "UNREACHABLE", -110, Stage.ESTABLISH),
    ("ESTABLISHED", "CONNECT_ERROR", -22, Stage.ESTABLISH),
    ("ESTABLISHED", "DISCONNECTED", 0, Stage.ESTABLISH),
    ("DISCONNECTED", "DEVICE_REMOVAL", 0, Stage.DISCONNECT),
]


@pytest.mark.parametrize(("awaited", "event", "status", "stage"), FAILING)
def test_an_event_that_ends_it_is_named_with_step_and_status(
    run: Run, awaited: str, event: str, status: int, stage: Stage
) -> None:
    came = run(f"instead {awaited} {event} {status}\n")
    assert came.ended == (Outcome.CM_EVENT, stage, Teardown.CLEAN)
    assert came.event == (CmEvent[event], status)
    assert came.attempt.connection
    last = came.attempt.connection.steps[-1]
    assert (last.awaited, last.event, last.status) == (CmEvent[awaited], CmEvent[event], status)
    assert came.attempt.errno == (-status if status < 0 else None)
    wanted = RejectReason.from_number(status) if event == "REJECTED" and status > 0 else None
    assert came.attempt.connection.reject_reason is wanted
    assert came.stderr == ""


def test_a_rejection_is_no_errno(run: Run) -> None:
    came = run("instead ESTABLISHED REJECTED 8\n")
    assert "INVALID_SERVICE_ID" in came.attempt.summary
    assert "ENOEXEC" not in came.attempt.summary


@pytest.mark.parametrize(
    ("event", "stage"),
    [
        ("ADDR_RESOLVED", Stage.RESOLVE_ADDRESS),
        ("ROUTE_RESOLVED", Stage.RESOLVE_ROUTE),
        ("CONNECT_REQUEST", Stage.ESTABLISH),
        ("ESTABLISHED", Stage.ESTABLISH),
        ("DISCONNECTED", Stage.DISCONNECT),
    ],
)
def test_an_event_that_never_comes_is_named_at_the_deadline(
    run: Run, event: str, stage: Stage
) -> None:
    came = run(f"drop {event}\n", seconds=1.0)
    assert came.ended == (Outcome.NO_EVENT, stage, Teardown.CLEAN)
    assert came.attempt.connection
    last = came.attempt.connection.steps[-1]
    assert (last.awaited, last.event, last.seconds) == (CmEvent[event], None, None)


@pytest.mark.slow
@pytest.mark.parametrize("event", ["ADDR_RESOLVED", "ROUTE_RESOLVED"])
def test_an_event_that_says_nothing_of_the_step_is_no_answer(run: Run, event: str) -> None:
    assert run(f"instead {event} TIMEWAIT_EXIT 0\n", seconds=1.0).ended[0] is Outcome.NO_EVENT


def test_a_device_that_goes_while_data_is_sent_is_named(run: Run) -> None:
    came = run("gone ESTABLISHED\n", rules="on post_send slow=60\n")
    assert came.ended == (Outcome.CM_EVENT, Stage.DATA, Teardown.CLEAN)
    assert came.event == (CmEvent.DEVICE_REMOVAL, 0)


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ("on post_send corrupt", Outcome.DATA_MISMATCH),
        ("on poll_cq wc=12", Outcome.COMPLETION_ERROR),
        ("on poll_cq wc=5", Outcome.COMPLETION_ERROR),  # flushed, and no event comes
        ("on post_send errno=12", Outcome.CALL_FAILED),
    ],
)
def test_data_that_fails_is_named(run: Run, rule: str, outcome: Outcome) -> None:
    assert run(rules=f"{rule}\n").ended == (outcome, Stage.DATA, Teardown.CLEAN)


@pytest.mark.parametrize(
    ("call", "made"),
    [("ibv_dealloc_pd", True), ("ibv_dereg_mr", True), ("rdma_destroy_id", False)],
)
def test_what_cannot_be_destroyed_is_said(run: Run, call: str, made: bool) -> None:
    rule = f"on {call} errno=16\n"
    came = run("" if made else rule, rule if made else "")
    assert came.ended == (Outcome.TEARDOWN_FAILED, Stage.TEARDOWN, Teardown.FAILED)
    assert (came.attempt.call, came.attempt.errno) == (call, 16)


# --- a listener --------------------------------------------------------------------------


def listening(seconds: float = 3.0, **changes: Any) -> dict[str, Any]:
    import time

    return {
        "meet": "listen",
        "host": ADDRESS,
        "port": 4711,
        "until": time.monotonic() + seconds,
    } | changes


def hello(end: End = LINUX_END, *, with_secret: bool = False) -> str:
    made = Hello(with_secret, end.qp_type, end.payload_bytes, end.iterations, bytes(range(32)))
    return made.encode().hex()


def test_a_listener_says_where_and_ends_when_nobody_comes(run: Run) -> None:
    came = run(**listening())
    assert came.ended == (Outcome.NO_PEER, Stage.LISTEN, Teardown.CLEAN)
    assert [each.address for each in came.seen if isinstance(each, Listening)] == [
        f"{ADDRESS}:4711"
    ]
    assert not came.attempt.touched


def test_a_stranger_is_connected_and_disconnected_and_ends_nothing(run: Run) -> None:
    came = run("request -\nrequest 00\n", **listening())
    assert came.ended == (Outcome.NO_PEER, Stage.LISTEN, Teardown.CLEAN)
    assert len(came.turned_away) == 2
    assert all("ESTABLISHED" in each for each in came.turned_away)
    assert came.calls.count("rdma_accept") == 2
    assert came.stderr == ""


@pytest.mark.slow
def test_with_a_secret_nothing_is_made_for_a_stranger(run: Run) -> None:
    came = run("request -\n", **listening(secret="00" * 32))
    assert came.ended[0] is Outcome.NO_PEER
    assert "rdma_accept" not in came.calls
    assert "rdma_create_qp" not in came.calls


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "secret", "why"),
    [
        (hello(replace(LINUX_END, payload_bytes=65)), None, Refusal.OTHER_PAYLOAD),
        (hello(replace(LINUX_END, iterations=11)), None, Refusal.OTHER_ITERATIONS),
        (hello(replace(LINUX_END, qp_type=QpType.UD)), None, Refusal.OTHER_QP_TYPE),
        (hello(with_secret=True), None, Refusal.WANTS_NO_SECRET),
        (hello(), "00" * 32, Refusal.WANTS_SECRET),
        (b"rdmadiag\x09".hex(), None, Refusal.OTHER_VERSION),
    ],
)
def test_who_does_not_fit_is_rejected_with_the_reason(
    run: Run, sent: str, secret: str | None, why: Refusal
) -> None:
    came = run(f"request {sent}\n", **listening(secret=secret))
    assert came.ended == (Outcome.PEER_REFUSED, Stage.LISTEN, Teardown.CLEAN)
    assert came.turned_away == [cm_protocol.REFUSAL_TEXT[why]]
    assert came.calls.count("rdma_reject") == 1
    assert "rdma_create_qp" not in came.calls


@pytest.mark.slow
@pytest.mark.parametrize("leaves", ["leaves", "silent"])
def test_who_says_hello_and_nothing_more_is_turned_away(run: Run, leaves: str) -> None:
    came = run(f"{leaves}\nrequest {hello()}\n", **listening())
    assert came.ended == (Outcome.NO_PEER, Stage.LISTEN, Teardown.CLEAN)
    assert len(came.turned_away) == 1


@pytest.mark.slow
def test_many_strangers_are_served_and_few_of_them_named(run: Run) -> None:
    came = run("silent\n" + f"request {hello()}\n" * 30, **listening())
    assert came.ended == (Outcome.NO_PEER, Stage.LISTEN, Teardown.CLEAN)
    assert len(came.turned_away) == 20
    assert came.calls.count("rdma_accept") == 30
    assert came.calls.count("rdma_destroy_id") == 31
    assert came.stderr == ""


def test_an_end_that_connects_where_nobody_listens_is_rejected(run: Run) -> None:
    came = run(meet="connect", host="203.0.113.9", port=4711)
    assert came.ended == (Outcome.CM_EVENT, Stage.ESTABLISH, Teardown.CLEAN)
    assert came.event == (CmEvent.REJECTED, 8)


def test_what_a_peer_of_ours_rejects_for_is_said_in_its_words(run: Run) -> None:
    for code, outcome in (
        (Refusal.OTHER_PAYLOAD, Outcome.MISMATCH),
        (Refusal.WANTS_SECRET, Outcome.PEER_REFUSED),
    ):
        data = cm_protocol.rejection(code).hex()
        came = run(f"instead REJECTED REJECTED 28 {data}\n", meet="connect", host=ADDRESS, port=1)
        assert came.ended == (outcome, Stage.ESTABLISH, Teardown.CLEAN)
        assert came.attempt.summary == cm_protocol.REFUSAL_TEXT[code]
        assert came.event == (CmEvent.REJECTED, 28)
