"""The whole run on recorded machines: preflight, choice, child, record, and what came of it."""

import json
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.mac import Mac, Peer, ready_mac
from lab.machine import Machine
from lab.samples import infiniband_host, roce_host
from lab.transcript import script
from rdmadiag import cli
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.attempt import Outcome, PeerFailure, Stage, Teardown
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import PortState, QpType
from rdmadiag.host.answers import Ran
from rdmadiag.host.layout import command_name
from rdmadiag.preflight.candidate import Wanted
from rdmadiag.preflight.safety import Reason
from rdmadiag.render.json import text
from rdmadiag.render.pingpong import document
from rdmadiag.verbs import attempt as subject
from rdmadiag.verbs import child, payloads, pingpong_child, protocol, records, rtr_record, watchdog
from rdmadiag.verbs.abi import IbvWc
from rdmadiag.verbs.attempt import BrokenChild, Meeting, Result
from rdmadiag.verbs.bounds import Interrupted, Late
from rdmadiag.verbs.exchange import Stalled
from rdmadiag.verbs.loop import Cause, Stopped
from rdmadiag.verbs.payloads import Payloads
from rdmadiag.verbs.peer import PeerFailed, PeerLost
from rdmadiag.verbs.protocol import ProtocolError
from rdmadiag.verbs.records import DEFAULT_SIZES, Listening, Record
from rdmadiag.verbs.transcript import Transcript
from rdmadiag.view.select import NoSuchDevice, Selector
from tests.verbs.attempts import LINUX_END, VERIFIED, request

BOOT, OTHER_BOOT = "5c4b6a32", "0d9ad6ef"
SYSCTL = ("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")
PRIOR = frozenset({Reason.PRIOR_RTR_FAILURE})


@dataclass
class Came:
    """What came of a run."""

    result: Result
    calls: list[str]

    @property
    def outcome(self) -> Outcome:
        return self.result.attempt.outcome

    @property
    def stage(self) -> Stage:
        return self.result.attempt.stage

    @property
    def document(self) -> dict[str, Any]:
        """As JSON."""
        found: dict[str, Any] = json.loads(text(document(self.result)))
        return found


Run = Callable[..., Came]

PORTS = (Selector("rdma_en1"), Selector("rdma_en2"))


def cabled_mac() -> Mac:
    """The ready Mac with a cable on its second port too."""
    mac = ready_mac()
    second = replace(
        mac.cables[1],
        peer=Peer("Mac Studio", "Mac16,9"),
        ipv4="169.254.20.9/16",
        gids={0: "fe80::2", 1: "::ffff:169.254.20.9"},
    )
    return mac.change(cables=(mac.cables[0], second))


def between_ports(run: "Run", *rules: str, **wanted: Any) -> Came:
    """From the Mac's first port to its second: one port is never both ends."""
    return run(cabled_mac(), *rules, selectors=PORTS, **wanted)


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where failed RTRs are recorded."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "rdmadiag" / "failed_rtr.json"


@pytest.fixture
def prepare(
    fake_verbs: Any, host_in_memory: Any, record: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Any, Any]]:
    """`prepare(machine, rules, boot)` → the machine as a host, and the library of its child."""
    monkeypatch.setattr(
        watchdog, "program", lambda module: [sys.executable, "-m", f"rdmadiag.verbs.{module}"]
    )

    def prepared(
        machine: Machine | Mac, rules: str = "", boot: str | None = BOOT
    ) -> tuple[Any, Any]:
        recording = machine.recording()
        platform = "darwin" if isinstance(machine, Mac) else "linux"
        if boot and platform == "darwin":
            recording.commands[command_name(SYSCTL)] = Ran(0, f"{boot}\n".encode(), b"")
        devices = machine.devices() if isinstance(machine, Mac) else machine.transcribed()
        fake = fake_verbs(script(devices) + rules, platform)
        monkeypatch.setattr(child, "LIBRARY", {platform: str(fake.library)})
        for name, value in fake.environ.items():
            monkeypatch.setenv(name, value)
        return host_in_memory(recording, platform), fake

    return prepared


@pytest.fixture
def run(prepare: Callable[..., tuple[Any, Any]]) -> Run:
    """`run(machine, rules, …)`: the attempt on that machine, and the calls of its library."""

    def attempt(
        machine: Machine | Mac,
        rules: str = "",
        selectors: tuple[Selector, ...] = (),
        meeting: Meeting | None = None,
        boot: str | None = BOOT,
        seconds: float = 8.0,
        noted: Callable[[Record], None] = lambda record: None,
        **wanted: Any,
    ) -> Came:
        host, fake = prepare(machine, rules, boot)
        result = subject.run(
            host,
            Wanted(**{"payload_bytes": 64, "iterations": 10} | wanted),
            selectors,
            meeting,
            None,
            time.monotonic(),
            seconds,
            noted,
        )
        return Came(result, fake.calls)

    return attempt


# --- a host that is healthy --------------------------------------------------------------


@pytest.mark.usefixtures("in_children")
@pytest.mark.parametrize(
    ("machine", "kind", "index"),
    [
        pytest.param(roce_host(), QpType.RC, 3, id="RoCE"),
        pytest.param(infiniband_host(), QpType.RC, None, id="InfiniBand"),
        pytest.param(cabled_mac(), QpType.UC, 1, id="a Mac"),
    ],
)
def test_a_healthy_host_verifies_data_both_ways(
    run: Run, record: Path, machine: Machine | Mac, kind: QpType, index: int | None
) -> None:
    came = run(machine, selectors=PORTS if isinstance(machine, Mac) else ())
    assert (came.outcome, came.stage) == (Outcome.VERIFIED, Stage.DONE)
    attempt = came.result.attempt
    assert (attempt.data_verified, attempt.teardown) == (True, Teardown.CLEAN)
    for end in (attempt.local, attempt.remote):
        assert end
        assert (end.qp_type, end.gid_index) == (kind, index)
    ends = [each.device for each in (attempt.local, attempt.remote) if each]
    assert [each.end.device for each in came.result.chosen] == ends
    assert came.result.accepted == ()
    assert not rtr_record.failed_since_start(BOOT)


def test_from_one_device_to_the_other(run: Run) -> None:
    came = run(infiniband_host(), selectors=(Selector("mlx5_1"), Selector("mlx5_0", 1)))
    attempt = came.result.attempt
    assert came.outcome is Outcome.VERIFIED
    assert attempt.local
    assert attempt.remote
    assert (attempt.local.device, attempt.remote.device) == ("mlx5_1", "mlx5_0")
    assert (attempt.local.lid, attempt.remote.lid) == (0x12, 0x11)


def test_what_is_wanted_is_used(run: Run) -> None:
    came = run(roce_host(), qp_type=QpType.UC, gid_index=1, mtu=512, payload_bytes=9, iterations=3)
    attempt = came.result.attempt
    assert came.outcome is Outcome.VERIFIED
    assert attempt.local
    assert (attempt.local.qp_type, attempt.local.gid_index) == (QpType.UC, 1)
    assert attempt.local.mtu == 512
    assert attempt.latency
    assert (attempt.latency.bytes, attempt.latency.iterations) == (9, 3)


def test_of_two_ends_on_one_device_the_one_that_failed_is_named(run: Run) -> None:
    # The first completion is the send of the first end, the second the receive of the other.
    bad = run(roce_host(), "on poll_cq after=1 wc=12,129\n").result.attempt.completion
    assert bad
    assert (bad.end, bad.is_receive) == ("remote", True)


# --- hosts that may not ------------------------------------------------------------------

NETDEV_DOWN = roce_host().change(netdevs=(replace(roce_host().netdevs[0], up=False),))


def not_attempted(came: Came) -> bool:
    attempt = came.result.attempt
    return (
        (came.outcome, came.stage) == (Outcome.NOT_SAFE, Stage.PREFLIGHT)
        and came.calls == []
        and (attempt.touched, attempt.teardown) == (False, Teardown.NOTHING_MADE)
    )


def test_what_the_preflight_forbids_is_not_attempted(run: Run) -> None:
    came = run(NETDEV_DOWN)
    assert not_attempted(came)
    assert came.result.attempt.summary == "the preflight forbids RTR on mlx5_0/1"
    assert [each.blocking for each in came.result.chosen] == [(Reason.ROUTE_NETDEV_DOWN,)]


def test_it_is_attempted_where_every_reason_is_accepted(run: Run) -> None:
    came = run(NETDEV_DOWN, accepted=frozenset({Reason.ROUTE_NETDEV_DOWN, Reason.NO_LID}))
    assert came.outcome is Outcome.VERIFIED
    assert came.result.accepted == (Reason.ROUTE_NETDEV_DOWN,)


def test_it_is_not_attempted_where_one_reason_is_left(run: Run) -> None:
    machine = NETDEV_DOWN.change(openable=False)
    came = run(machine, accepted=frozenset({Reason.ROUTE_NETDEV_DOWN}))
    assert not_attempted(came)
    assert came.result.chosen[0].blocking == (Reason.UVERBS_NODE_NOT_OPENABLE,)


def test_of_two_devices_the_one_that_may_not_is_named(run: Run) -> None:
    machine = infiniband_host().with_port(1, 0, state=PortState.INIT)
    came = run(machine, selectors=(Selector("mlx5_0"), Selector("mlx5_1")))
    assert not_attempted(came)
    assert came.result.attempt.summary.endswith("mlx5_1/1")
    assert [each.end.device for each in came.result.chosen] == ["mlx5_1"]


def test_a_port_that_may_is_taken_before_one_that_may_not(run: Run) -> None:
    machine = infiniband_host().with_port(0, 0, state=PortState.INIT)
    came = run(machine)
    assert came.outcome is Outcome.VERIFIED
    assert came.result.chosen[0].end.device == "mlx5_1"


@pytest.mark.parametrize(
    ("machine", "selectors", "text", "reasons"),
    [
        (Machine("bare"), (), "this host has no RDMA port", (Reason.NO_RDMA_PORT,)),
        (
            roce_host().with_device(ports=()),
            (Selector("mlx5_0"),),
            "the device has no port",
            (Reason.PORTS_UNKNOWN,),
        ),
    ],
)
def test_without_a_port_nothing_is_attempted_and_the_reasons_are_the_hosts(
    run: Run,
    machine: Machine,
    selectors: tuple[Selector, ...],
    text: str,
    reasons: tuple[Reason, ...],
) -> None:
    came = run(machine, selectors=selectors)
    assert not_attempted(came)
    result = came.result
    assert (result.attempt.summary, result.chosen, result.of_host) == (text, (), reasons)


def test_the_queue_pair_is_given_the_index_of_the_partition_key_that_was_asked_for(
    run: Run,
) -> None:
    refused = run(infiniband_host(), pkey_index=7)
    assert not_attempted(refused)
    assert refused.result.chosen[0].blocking == (Reason.NO_PKEY,)
    came = run(infiniband_host(), pkey_index=7, accepted=frozenset({Reason.NO_PKEY}))
    assert (came.outcome, came.stage) == (Outcome.CALL_FAILED, Stage.INIT)
    assert came.result.attempt.errno == 22  # beyond the library's table


def test_an_attempt_that_was_refused_at_the_gate_does_not_block_the_first_real_one(
    run: Run, record: Path
) -> None:
    assert run(cabled_mac()).outcome is Outcome.NOT_SAFE
    assert not record.exists()
    assert run(ready_mac(), meeting=listening(0.1)).outcome is Outcome.NO_PEER
    assert not record.exists()
    assert between_ports(run).outcome is Outcome.VERIFIED


def test_a_device_that_is_not_there_is_refused(run: Run) -> None:
    with pytest.raises(NoSuchDevice, match="did you mean mlx5_0"):
        run(roce_host(), selectors=(Selector("mlx5_7"),))


@pytest.mark.parametrize(
    "selectors",
    [
        pytest.param((), id="no port is named"),
        pytest.param(PORTS[:1], id="one port is named"),
        pytest.param((PORTS[0], PORTS[0]), id="one port is named twice"),
        pytest.param((PORTS[0], Selector("rdma_en1", 1)), id="one port under two names"),
    ],
)
@pytest.mark.parametrize("accepted", [frozenset[Reason](), frozenset(Reason)])
def test_one_thunderbolt_port_is_never_both_ends(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    selectors: tuple[Selector, ...],
    accepted: frozenset[Reason],
) -> None:
    """Not even where every risk is accepted; no child is started, no library loaded."""

    def started(*given: Any, **others: Any) -> Any:
        raise AssertionError("a child was started")

    monkeypatch.setattr(subject, "watch", started)
    came = run(cabled_mac(), selectors=selectors, accepted=accepted)
    attempt = came.result.attempt
    assert (came.outcome, came.stage, came.calls) == (Outcome.NOT_SAFE, Stage.GATE, [])
    assert (attempt.touched, attempt.teardown) == (False, Teardown.NOTHING_MADE)
    assert "name a peer, or two ports" in attempt.summary
    assert "\n" not in attempt.summary


def test_without_two_ports_of_a_mac_not_even_its_provider_is_queried(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gathered(*given: Any) -> Any:
        raise AssertionError("the verbs query was started")

    monkeypatch.setattr(subject, "gather", gathered)
    assert run(cabled_mac()).outcome is Outcome.NOT_SAFE


def test_with_a_peer_a_mac_needs_one_port(run: Run) -> None:
    came = run(ready_mac(), meeting=listening(0.1))
    assert came.outcome is Outcome.NO_PEER
    assert [each.end.device for each in came.result.chosen] == ["rdma_en1"]


def test_rc_on_thunderbolt_is_refused(run: Run) -> None:
    came = between_ports(run, qp_type=QpType.RC)
    assert not_attempted(came)
    assert "UC" in came.result.attempt.summary


def test_two_devices_of_two_kinds_do_not_fit_and_are_left_alone(run: Run, roce: Machine) -> None:
    came = run(roce, selectors=(Selector("mlx5_0"), Selector("mlx5_1")))
    assert (came.outcome, came.stage, came.calls) == (Outcome.MISMATCH, Stage.AGREE, [])
    assert [each.code for each in came.result.attempt.problems] == ["link_layer_mismatch"]


def test_without_leave_nothing_is_attempted() -> None:
    attempt = subject.not_allowed("why", "darwin")
    assert (attempt.outcome, attempt.stage) == (Outcome.NOT_ALLOWED, Stage.GATE)
    assert (attempt.platform, attempt.touched, attempt.steps) == ("darwin", False, ())
    assert attempt.summary == "why"


# --- what is remembered of a failed RTR on Thunderbolt -----------------------------------


def refused_for_an_earlier_one(came: Came) -> bool:
    return not_attempted(came) and came.result.chosen[0].blocking == (Reason.PRIOR_RTR_FAILURE,)


def test_an_rtr_that_failed_is_recorded_for_this_boot_and_not_repeated(
    run: Run, record: Path
) -> None:
    came = between_ports(run, "on modify_qp_to_rtr errno=96\n")
    assert (came.outcome, came.stage) == (Outcome.CALL_FAILED, Stage.RTR)
    assert came.calls.count("modify_qp_to_rtr rdma_en1") <= 1
    (row,) = json.loads(record.read_text())
    assert (row["boot_id"], row["device"], row["port"]) == (BOOT, "rdma_en1", 1)
    assert refused_for_an_earlier_one(between_ports(run))
    assert refused_for_an_earlier_one(between_ports(run, boot=None))


def test_a_user_may_take_the_risk_of_a_second_one(run: Run) -> None:
    between_ports(run, "on modify_qp_to_rtr errno=96\n")
    came = between_ports(run, accepted=PRIOR)
    assert came.outcome is Outcome.VERIFIED
    assert came.result.accepted == (Reason.PRIOR_RTR_FAILURE,)


def test_a_record_of_another_boot_does_not_count(run: Run, record: Path) -> None:
    between_ports(run, "on modify_qp_to_rtr errno=96\n", boot=OTHER_BOOT)
    assert between_ports(run).outcome is Outcome.VERIFIED
    assert json.loads(record.read_text()) == []


@pytest.mark.parametrize("how", [pytest.param("hang", marks=pytest.mark.slow), "crash"])
def test_an_rtr_that_never_came_back_is_recorded_too(run: Run, how: str) -> None:
    came = between_ports(run, f"on modify_qp_to_rtr {how}\n", seconds=4.0)
    assert came.stage is Stage.RTR
    assert refused_for_an_earlier_one(between_ports(run))


@pytest.mark.parametrize("call", ["ibv_create_qp", "modify_qp_to_init", "modify_qp_to_rts"])
def test_a_failure_before_or_after_rtr_is_none_of_rtr(run: Run, call: str) -> None:
    assert between_ports(run, f"on {call} errno=16\n").outcome is Outcome.CALL_FAILED
    assert between_ports(run).outcome is Outcome.VERIFIED


def test_a_damaged_record_counts(run: Run, record: Path) -> None:
    record.parent.mkdir()
    record.write_text("{")
    assert refused_for_an_earlier_one(between_ports(run))
    assert between_ports(run, accepted=PRIOR).outcome is Outcome.VERIFIED
    assert between_ports(run).outcome is Outcome.VERIFIED


def test_a_folder_that_cannot_be_written_stops_nobody(run: Run, record: Path) -> None:
    record.parent.symlink_to(record.parent.parent / "nowhere")
    assert between_ports(run).outcome is Outcome.VERIFIED
    assert between_ports(run, "on modify_qp_to_rtr errno=96\n").outcome is Outcome.CALL_FAILED


def test_on_linux_a_failed_rtr_may_be_repeated(run: Run, record: Path) -> None:
    assert run(roce_host(), "on modify_qp_to_rtr errno=110\n").outcome is Outcome.CALL_FAILED
    assert not record.exists()
    assert run(roce_host()).outcome is Outcome.VERIFIED


# --- peers -------------------------------------------------------------------------------


def connecting(port: int) -> Meeting:
    return Meeting("connect", "127.0.0.1", port, 5.0, near="127.0.0.1")


def listening(wait: float = 5.0) -> Meeting:
    return Meeting("listen", "127.0.0.1", 0, wait, near="127.0.0.1")


@contextmanager
def stranger(*said: bytes) -> Iterator[int]:
    """Somebody who takes one connection, says that, and goes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            far, _ = server.accept()
            with far:
                far.sendall(b"".join(said))
                far.shutdown(socket.SHUT_WR)
                while far.recv(4096):
                    pass

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(5)


def test_nobody_comes_to_where_it_says_that_it_listens(run: Run) -> None:
    noted: list[Record] = []
    began = time.monotonic()
    came = run(roce_host(), meeting=listening(2.0), noted=noted.append)
    assert time.monotonic() - began < 20
    assert (came.outcome, came.stage, came.calls) == (Outcome.NO_PEER, Stage.CONNECT, [])
    (there,) = (each for each in noted if isinstance(each, Listening))
    assert there.address.startswith("127.0.0.1:")
    assert len(came.result.chosen) == 1


def when_listening(number: signal.Signals) -> Callable[[Record], None]:
    """Sends that signal to this process."""

    def stop(record: Record) -> None:
        if isinstance(record, Listening):
            os.kill(os.getpid(), number)

    return stop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
def test_a_signal_ends_the_wait(run: Run, number: signal.Signals) -> None:
    came = run(roce_host(), meeting=listening(), noted=when_listening(number))
    assert (came.outcome, came.stage, came.calls) == (Outcome.INTERRUPTED, Stage.CONNECT, [])
    assert came.result.attempt.summary == number.name


# --- every outcome, as JSON --------------------------------------------------------------

HELLO = protocol.frame({"step": "hello"} | protocol.hello(bytes(32), with_secret=False))
FAILED = protocol.frame({"step": "failed", "stage": "preflight", "text": "errno 110 on linux"})


def met(run: Run, *said: bytes) -> Came:
    with stranger(*said) as port:
        return run(roce_host(), meeting=connecting(port))


def nobody_there(run: Run) -> Came:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return run(roce_host(), meeting=connecting(port), seconds=3.0)


def interrupted(run: Run) -> Came:
    return run(roce_host(), meeting=listening(), noted=when_listening(signal.SIGTERM))


OUTCOMES: dict[Outcome, Callable[[Run], Came]] = {
    Outcome.VERIFIED: lambda run: run(roce_host()),
    Outcome.NOT_ALLOWED: lambda run: Came(Result(subject.not_allowed("why", "linux"), (), ()), []),
    Outcome.NOT_SAFE: lambda run: run(NETDEV_DOWN),
    Outcome.NO_PEER: nobody_there,
    Outcome.PEER_REFUSED: lambda run: met(run, struct.pack(">I", 1 << 30)),
    Outcome.MISMATCH: lambda run: run(
        infiniband_host().with_port(0, 0, layer=roce_host().devices[0].ports[0].layer),
        accepted=frozenset(Reason),
        selectors=(Selector("mlx5_0"), Selector("mlx5_1")),
    ),
    Outcome.CALL_FAILED: lambda run: run(roce_host(), "on modify_qp_to_rtr errno=110\n"),
    Outcome.COMPLETION_ERROR: lambda run: run(roce_host(), "on poll_cq wc=12,129\n"),
    Outcome.DATA_MISMATCH: lambda run: run(roce_host(), "on post_send corrupt\n"),
    Outcome.NO_DATA: lambda run: between_ports(run, "on post_send drop\n"),
    Outcome.LATE: lambda run: run(
        roce_host(), "on post_send slow=30\n", seconds=4.0, iterations=1000
    ),
    Outcome.PEER_FAILED: lambda run: met(run, HELLO, FAILED),
    Outcome.PEER_LOST: lambda run: met(run, HELLO),
    Outcome.TEARDOWN_FAILED: lambda run: run(roce_host(), "on ibv_destroy_qp times=1 errno=16\n"),
    Outcome.INTERRUPTED: interrupted,
    Outcome.DIED: lambda run: run(roce_host(), "on ibv_create_qp crash\n"),
    Outcome.WATCHDOG: lambda run: run(roce_host(), "on ibv_create_qp hang\n", seconds=4.0),
}
KEYS = {
    "outcome",
    "stage",
    "summary",
    "call",
    "errno",
    "completion",
    "local",
    "remote",
    "peer_failure",
    "problems",
    "data_verified",
    "latency_us",
    "teardown",
    "steps",
    "touched",
    "role",
    "rounds",
    "pid",
    "causes",
    "next",
    "reasons",
    "accepted_risks",
    "arrived",
    "peer_is_this_host",
    "port_after",
    "connection",
}


def test_every_outcome_can_be_had() -> None:
    assert set(OUTCOMES) == set(Outcome) - BY_CM


BY_CM = {Outcome.CM_EVENT, Outcome.NO_EVENT}  # tests/verbs/test_cm_attempt.py
LATE = (Outcome.NO_DATA, Outcome.LATE, Outcome.WATCHDOG)  # which take seconds to come about


@pytest.mark.parametrize(
    "outcome",
    [pytest.param(each, marks=pytest.mark.slow) if each in LATE else each for each in OUTCOMES],
)
def test_every_outcome_is_a_document_of_one_shape(run: Run, outcome: Outcome) -> None:
    came = OUTCOMES[outcome](run)
    found = came.document
    assert found["outcome"] == outcome
    assert set(found) >= KEYS
    assert found["data_verified"] is (outcome in (Outcome.VERIFIED, Outcome.TEARDOWN_FAILED))
    with_errno = outcome in (Outcome.CALL_FAILED, Outcome.TEARDOWN_FAILED, Outcome.NO_PEER)
    assert (found["errno"] is not None) is with_errno
    assert (found["latency_us"] is not None) is found["data_verified"]
    assert (found["completion"] is not None) is (outcome is Outcome.COMPLETION_ERROR)
    assert (found["peer_failure"] is not None) is (outcome is Outcome.PEER_FAILED)
    assert bool(found["problems"]) is (outcome is Outcome.MISMATCH)
    assert bool(found["reasons"]) is (outcome is Outcome.NOT_SAFE)
    assert found["touched"] is (came.calls != [])
    assert found["summary"]
    assert "\n" not in found["summary"]


def test_the_json_names_that_programs_rely_on(run: Run) -> None:
    verified = OUTCOMES[Outcome.VERIFIED](run).document
    assert {"min", "median", "p99", "max", "iterations", "bytes"} <= set(verified["latency_us"])
    assert (verified["latency_us"]["iterations"], verified["latency_us"]["bytes"]) == (10, 64)
    assert verified["teardown"] == "clean"
    local = verified["local"]
    assert (local["device"], local["port"], local["gid"]) == ("mlx5_0", 1, "::ffff:192.0.2.10")
    assert (local["qp_state"], local["gid_index"]) == ("rts", 3)
    failed = OUTCOMES[Outcome.CALL_FAILED](run).document
    assert failed["errno"] == {"number": 110, "name": "ETIMEDOUT", "platform": "linux"}
    assert (failed["stage"], failed["call"]) == ("rtr", "ibv_modify_qp")
    bad = OUTCOMES[Outcome.COMPLETION_ERROR](run).document["completion"]
    assert (bad["name"], bad["status"], bad["vendor_error"]) == ("RETRY_EXC_ERR", 12, 129)
    refused = OUTCOMES[Outcome.NOT_SAFE](run).document
    assert refused["reasons"] == [{"device": "mlx5_0", "port": 1, "reason": "route_netdev_down"}]


# --- children that cannot be had ---------------------------------------------------------


def test_where_no_process_can_be_started_nothing_is_attempted(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "watch", lambda *_: Missing(Why.DENIED, "python: EAGAIN"))
    came = run(roce_host())
    assert not_attempted(came)
    assert came.result.attempt.summary == "no process could be started: denied: python: EAGAIN"


def test_a_child_without_a_result_is_a_bug_with_what_it_printed_last(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import sys; sys.exit('Traceback: KeyError')"
    monkeypatch.setattr(watchdog, "program", lambda _: [sys.executable, "-S", "-c", code])
    with pytest.raises(BrokenChild, match="no result, exit code 1: Traceback: KeyError"):
        run(roce_host())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("later", "shown"),
    [
        (b"1: DOWN\n", PortState.DOWN),
        (Missing(Why.ABSENT, "no such file"), Missing(Why.ABSENT, "no such file")),
    ],
    ids=["a link that went", "a device that went"],
)
def test_after_a_failure_this_hosts_port_is_looked_at_again(
    later: bytes | Missing, shown: PortState | Missing
) -> None:
    looks = iter([b"4: ACTIVE\n"])  # it goes a moment after the run has ended
    host: Any = SimpleNamespace(
        identity=SimpleNamespace(platform="linux"), read=lambda path: next(looks, later)
    )
    failed = replace(VERIFIED, outcome=Outcome.NO_DATA)
    assert subject._looked_again(failed, host, LINUX_END).port_after == shown


@pytest.mark.parametrize("untouched", [True, False], ids=["not attempted", "verified"])
def test_a_port_that_did_not_fail_is_not_looked_at_again(untouched: bool) -> None:
    outcome = Outcome.NO_PEER if untouched else Outcome.VERIFIED
    attempt = replace(VERIFIED, outcome=outcome, touched=not untouched)
    host: Any = SimpleNamespace()  # which fails if it is asked
    assert subject._looked_again(attempt, host, LINUX_END) == attempt


@pytest.mark.parametrize("selectors", [(), (Selector("mlx5_0"),)], ids=["any", "one of them"])
def test_ports_that_nobody_could_look_for_are_not_said_to_be_none(
    run: Run, monkeypatch: pytest.MonkeyPatch, selectors: tuple[Selector, ...]
) -> None:
    late = Evidence(sysfs=Missing(Why.TIMEOUT, "not done in 2 s"))
    monkeypatch.setattr(subject, "gather", lambda *_: late)
    came = run(roce_host(), selectors=selectors)
    assert not_attempted(came)
    assert "could not look for ports: timeout: not done in 2 s" in came.result.attempt.summary


def test_the_deadline_is_that_of_the_whole_run(run: Run) -> None:
    began = time.monotonic()
    came = between_ports(run, "on ibv_alloc_pd hang\n", seconds=4.0)
    assert came.outcome is Outcome.WATCHDOG
    assert time.monotonic() - began < 4.0 + 5.0


def test_the_port_with_the_address_of_the_connection_is_taken(run: Run) -> None:
    second = replace(
        roce_host("198.51.100.1").devices[0], name="mlx5_1", pci_address="0000:09:00.0", uverbs=1
    )
    machine = roce_host()
    machine = machine.change(devices=(*machine.devices, second))
    near = replace(listening(0.1), near="198.51.100.1")
    came = run(machine, meeting=near)
    assert [each.end.device for each in came.result.chosen] == ["mlx5_1"]


# --- without a compiled loop -------------------------------------------------------------

UNCOMPILED = """
from rdmadiag.verbs import loop
loop.compiled = lambda: None
from rdmadiag.verbs.pingpong_child import main
main()
"""


def test_without_a_compiled_loop_data_is_verified_and_nothing_is_timed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "program", lambda _: [sys.executable, "-c", UNCOMPILED])
    came = run(roce_host(), iterations=7)
    assert (came.outcome, came.result.attempt.latency) == (Outcome.VERIFIED, None)
    assert came.calls.count("post_send mlx5_0") == 2 * (2 + 7)
    assert came.result.attempt.rounds == 7


@pytest.mark.parametrize(
    ("answer", "times"),
    [({"compiled": False}, []), ({"compiled": True}, [9]), ({}, [9])],
    ids=["without one", "with one", "an older version"],
)
def test_times_are_kept_unless_the_peer_has_no_compiled_loop(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], times: list[int]
) -> None:
    sent: list[Any] = []

    def barrier(step: str, **content: Any) -> dict[str, Any]:
        sent.append((step, content))
        return answer if step == "timed" else {}

    end: Any = SimpleNamespace(facts=LINUX_END)
    made = Payloads([(end, True)], 0, DEFAULT_SIZES, lambda _: None, lambda: None, barrier)
    monkeypatch.setattr(payloads, "verified", lambda *_: None)
    monkeypatch.setattr(made, "_loop", lambda: [9])
    made.move()
    assert made._times_ns == times
    assert ("timed", {"compiled": made._compiled is not None}) in sent


# --- the loop that stops -----------------------------------------------------------------
# The first message each way is verified: two posts and four completions before the loop.


def test_a_call_of_the_loop_that_fails_is_named(run: Run) -> None:
    came = run(roce_host(), "on post_send after=7 errno=12\n")
    assert (came.outcome, came.stage) == (Outcome.CALL_FAILED, Stage.DATA)
    attempt = came.result.attempt
    assert (attempt.call, attempt.errno, attempt.teardown) == ("post_send", 12, Teardown.CLEAN)


def test_a_completion_in_the_loop_that_failed_is_reported(run: Run) -> None:
    bad = run(roce_host(), "on poll_cq after=9 wc=5,249\n").result.attempt.completion
    assert bad
    assert (bad.status, bad.vendor_error) == (5, 249)


def an_attempt() -> pingpong_child.Attempt:
    """One end that has come as far as data, without a device."""
    asked = request(ends=[LINUX_END])
    made = pingpong_child.Attempt(asked, Transcript(1, 0.0), None)  # type: ignore[arg-type]
    made._ends = [SimpleNamespace(facts=LINUX_END)]  # type: ignore[list-item]
    return made


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            Stopped(Cause.WRONG_LENGTH, 0, "x", completion=IbvWc(byte_len=63)),
            "63 bytes arrived, 64 were sent",
        ),
        (Stopped(Cause.UNEXPECTED, 0, "x"), "a message arrived that was not sent"),
    ],
    ids=["another length", "one too many"],
)
def test_a_message_that_was_not_sent_is_a_mismatch(error: Stopped, text: str) -> None:
    found = an_attempt()._result(error)
    assert found == records.Result(outcome=Outcome.DATA_MISMATCH, text=text, stage=Stage.DATA)


@pytest.mark.parametrize(
    ("known", "outcome"),
    [
        (PeerFailed(PeerFailure("data", "status 12")), Outcome.PEER_FAILED),
        (PeerLost("closed"), Outcome.PEER_LOST),
        (ProtocolError("nonsense"), Outcome.PEER_REFUSED),
        (Interrupted("SIGTERM"), Outcome.INTERRUPTED),
        (Late(), Outcome.LATE),
        (None, Outcome.NO_DATA),
    ],
    ids=lambda each: str(each) if isinstance(each, Outcome) else "",
)
def test_where_nothing_comes_what_the_peer_has_said_is_better(
    known: Exception | None, outcome: Outcome
) -> None:
    def glance() -> None:
        if known:
            raise known

    made = an_attempt()
    made._bounds = SimpleNamespace(glance=lambda: None)  # type: ignore[assignment]
    made._peer = SimpleNamespace(glance=glance)  # type: ignore[assignment]
    found = made._result(Stalled())
    assert found
    assert found.outcome == outcome


def test_an_error_that_nobody_thought_of_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise KeyError("oops")

    made = an_attempt()
    closed: list[bool] = []
    made._ends = [SimpleNamespace(close=lambda: closed.append(True))]  # type: ignore[list-item]
    monkeypatch.setattr(made, "_attempt", broken)
    monkeypatch.setattr(made, "_transcript", SimpleNamespace(write=lambda record: None))
    with pytest.raises(KeyError, match="oops"):
        made.run()
    assert closed == [True], "and what was made is destroyed all the same"


def test_where_the_parent_reads_no_more_everything_is_destroyed_all_the_same() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    made = an_attempt()
    closed: list[bool] = []
    made._ends = [SimpleNamespace(close=lambda: closed.append(True))]  # type: ignore[list-item]
    made._transcript = Transcript(writer, 0.0)
    with suppress(BrokenPipeError):
        made._tear_down()
    os.close(writer)
    assert closed == [True]


# --- the command -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "rules", "options", "code", "outcome"),
    [
        (roce_host(), "", [], 0, "verified"),
        (cabled_mac(), "", ["--device", "rdma_en1", "--device", "rdma_en2"], 0, "verified"),
        (cabled_mac(), "", [], 3, "not_safe"),
        (roce_host(), "on modify_qp_to_rtr errno=110\n", [], 2, "call_failed"),
        (NETDEV_DOWN, "", [], 3, "not_safe"),
        (NETDEV_DOWN, "", ["--accept-risk", "route_netdev_down"], 0, "verified"),
        pytest.param(
            *(roce_host(), "on modify_qp_to_rtr hang\n", ["--deadline", "4"], 124, "watchdog"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=[
        "RoCE",
        "a Mac",
        "a Mac without a peer",
        "RTR fails",
        "not safe",
        "a risk that is taken",
        "RTR hangs",
    ],
)
def test_the_command_from_its_options_to_its_exit_code(
    prepare: Callable[..., tuple[Any, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    machine: Machine | Mac,
    rules: str,
    options: list[str],
    code: int,
    outcome: str,
) -> None:
    host, fake = prepare(machine, rules)
    monkeypatch.setattr("rdmadiag.host.live.LiveHost", lambda: host)
    assert cli.run(["pingpong", "--allow-rtr", "--json", *options]) == code
    out, err = capfd.readouterr()
    assert (json.loads(out)["outcome"], err) == (outcome, "")
    tried = [call.split()[0] for call in fake.calls]
    assert tried.count("ibv_open_device") == (0 if code == 3 else 2)
    assert tried.count("ibv_modify_qp") == {0: 6, 2: 3, 3: 0, 124: 3}[code]
