"""rdmadiag pingpong: what it refuses, what it passes on, what it prints, and its exit codes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from rdmadiag.cli.addresses import host_and_port
from rdmadiag.facts.attempt import (
    Attempt,
    BadCompletion,
    Bandwidth,
    Latency,
    Outcome,
    PeerFailure,
    Problem,
    Stage,
)
from rdmadiag.facts.ib import DataOp, QpType
from rdmadiag.preflight.candidate import Wanted
from rdmadiag.preflight.safety import Reason
from rdmadiag.preflight.x_rdma import RTR_ATTEMPT_WARNING
from rdmadiag.verbs.attempt import BrokenChild, How, Meeting, Result
from rdmadiag.verbs.records import Listening, Sizes, TurnedAway, Waiting
from rdmadiag.view.select import NoSuchDevice, Selector
from tests.verbs.attempts import VERIFIED

Rdmadiag = Callable[..., Any]
ALLOWED = ("pingpong", "--allow-rtr")

TIMED = replace(
    VERIFIED,
    latency=Latency(1.5, 2, 3, 4.5, 100, 64, "compiled", 0.2, histogram=((2, 99), (5, 1))),
)


def ended(outcome: Outcome, **changes: Any) -> Attempt:
    """The same attempt with another end."""
    failed = {"summary": "words", "stage": Stage.RTR, "latency": None, "data_verified": False}
    return replace(TIMED, outcome=outcome, **failed | changes)


@dataclass
class Ran:
    """What `run` was asked, and what it answers."""

    answer: Attempt | Exception = TIMED
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    listening: str | None = None
    noted: Any = None

    @property
    def wanted(self) -> Wanted:
        return self.asked[-1][1]

    @property
    def selectors(self) -> tuple[Selector, ...]:
        return self.asked[-1][2]

    @property
    def meeting(self) -> Meeting | None:
        return self.asked[-1][3]

    @property
    def secret(self) -> bytes | None:
        return self.asked[-1][4]

    @property
    def how(self) -> How:
        return self.asked[-1][8]

    def __call__(self, *asked: Any) -> Result:
        self.asked.append(asked)
        if self.listening:
            asked[7](Listening(address=self.listening))
        if self.noted:
            asked[7](self.noted)
        if isinstance(self.answer, Exception):
            raise self.answer
        return Result(self.answer, (), ())


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Stands where the run would be."""
    made = Ran()
    monkeypatch.setattr("rdmadiag.verbs.attempt.run", made)
    return made


# --- the gate ----------------------------------------------------------------------------


def test_without_leave_it_says_why_and_how(rdmadiag: Rdmadiag, ran: Ran) -> None:
    code, out, err = rdmadiag("pingpong")
    assert (code, err, ran.asked) == (3, "", [])
    assert out.startswith(f"NOT ATTEMPTED  {RTR_ATTEMPT_WARNING}  [")
    assert "\n    rdmadiag preflight\n" in out
    assert "\n    rdmadiag pingpong --allow-rtr\n" in out
    document = rdmadiag("pingpong", "--json").document
    assert (document["outcome"], document["stage"]) == ("not_allowed", "gate")
    assert (document["touched"], document["teardown"]) == (False, "nothing_made")
    assert ran.asked == []


WATCHED = """
import sys
from rdmadiag import cli

seen = []
STARTS = ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.system", "ctypes.dlopen")

def watch(event, arguments):
    if event in STARTS or event in ("socket.bind", "os.listdir", "os.scandir"):
        seen.append((event, str(arguments)))
    if event == "open" and str(arguments[0]).startswith(("/sys", "/proc", "/dev")):
        if arguments[0] != "/proc/self/mountinfo":  # where config.toml would be
            seen.append((event, str(arguments[0])))

import importlib, platform
for name in ("verbs.attempt", "render.pingpong", "render.json", "cli.pingpong", "host.live"):
    importlib.import_module(f"rdmadiag.{name}")
sys.addaudithook(watch)
code = cli.run(sys.argv[1:])
print(code, seen, file=sys.stderr)
"""


@pytest.mark.parametrize("argv", [(), ("192.0.2.1",), ("--listen", "127.0.0.1")], ids=str)
def test_without_leave_nothing_is_opened_and_nobody_is_called(argv: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, "pingpong", "--json", *argv],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == "3 []\n"


# --- mistakes ----------------------------------------------------------------------------


MISTAKES = [
    pytest.param(["192.0.2.1", "--listen", "192.0.2.2"], "exclude", id="two ways to meet"),
    pytest.param(["--listen", "0.0.0.0"], "one address of this host", id="all of IPv4"),
    pytest.param(["--listen", "[::]:4711"], "one address of this host", id="all of IPv6"),
    pytest.param(["--listen", ""], "", id="nowhere to listen"),
    pytest.param([""], "", id="a peer that is an empty variable"),
    pytest.param(["192.0.2.1:0"], "ADDRESS:PORT", id="TCP port 0"),
    pytest.param(["192.0.2.1:65536"], "ADDRESS:PORT", id="a TCP port too high"),
    pytest.param(["[::1]x"], "[ADDRESS]:PORT", id="a bracket and something"),
    pytest.param(["a", "b"], "b", id="two peers"),
    pytest.param(["--device", "a", "--device", "b", "--device", "c"], "two", id="3 devices"),
    pytest.param(["--device", "a", "--device", "b", "x"], "--device", id="2 and a peer"),
    pytest.param(
        ["--device", "a", "--device", "b", "--listen", "127.0.0.1"], "one", id="2 and a wait"
    ),
    pytest.param(["--device", "mlx5_0/x"], "DEV:PORT", id="a port that is no number"),
    pytest.param(["--device", ""], "DEV:PORT", id="no device"),
    pytest.param(["--device", "/1"], "DEV:PORT", id="a port of no device"),
    pytest.param(["--device", "mlx5_0:" + "1" * 5000], "--device", id="a huge port"),
    pytest.param(["--port", "1"], "needs a --device", id="a port alone"),
    pytest.param(["--device", "a:1", "--port", "2"], "a:1", id="two ports of a device"),
    pytest.param(["--device", "a", "--port", "0"], "--port", id="port 0"),
    pytest.param(["--device", "a", "--port", "256"], "--port", id="port 256"),
    pytest.param(["--gid-index", "-1"], "--gid-index", id="a negative index"),
    pytest.param(["--gid-index", "65536"], "--gid-index", id="an index too high"),
    pytest.param(["--bytes", "0"], "--bytes", id="no bytes"),
    pytest.param(["--bytes", "1048577"], "--bytes", id="too many bytes"),
    pytest.param(["--iterations", "0"], "--iterations", id="no iterations"),
    pytest.param(["--iterations", "10001"], "--iterations", id="too many iterations"),
    pytest.param(["--qp", "xrc"], "'rc', 'uc', 'ud'", id="XRC"),
    pytest.param(["--qp", "ud"], "with --cm", id="UD by hand"),
    pytest.param(["--multicast", "239.255.7.7"], "with --cm", id="a group by hand"),
    pytest.param(
        ["--cm", "--multicast", "192.0.2.1"], "no multicast address", id="an address of one host"
    ),
    pytest.param(["--cm", "--multicast", "all"], "no multicast address", id="no group"),
    pytest.param(
        ["--cm", "--multicast", "ff12::7", "--qp", "rc"], "not with --qp rc", id="a group of RC"
    ),
    pytest.param(["--mtu", "1500"], "4096", id="an MTU of Ethernet"),
    pytest.param(["--op", "atomic"], "'send', 'write', 'read'", id="an operation of exercise"),
    pytest.param(["--op", "read", "--qp", "uc"], "UC has no READ", id="a READ of UC"),
    pytest.param(["--op", "write", "--events"], "no completion", id="an event of a WRITE"),
    pytest.param(["--bandwidth", "1"], "write or read", id="a window of SENDs"),
    pytest.param(["--op", "write", "--bandwidth", "5.1"], "--bandwidth", id="too long a window"),
    pytest.param(["--op", "write", "--bandwidth", "0"], "--bandwidth", id="no window"),
    pytest.param(["--sq-depth", "0"], "--sq-depth", id="no send queue"),
    pytest.param(["--cq-depth", "1"], "--cq-depth", id="a completion queue of one entry"),
    pytest.param(["--sge", "33"], "--sge", id="too many buffers"),
    pytest.param(["--inline", "1025"], "--inline", id="too much inline"),
    *(
        pytest.param(["--cm", *option], f"not with {option[0]} ", id=f"--cm and {option[0]}")
        for option in (*(("--gid-index", "3"), ("--mtu", "1024"), ("--pkey-index", "1")),)
    ),
    pytest.param(["--deadline", "0.9"], "--deadline", id="hardly any time"),
    pytest.param(["--deadline", "60.1"], "--deadline", id="too much time"),
    pytest.param(["--deadline", "nan"], "--deadline", id="no number of seconds"),
    pytest.param(["--wait", "0"], "--wait", id="no wait"),
    pytest.param(["--wait", "3601"], "--wait", id="too long a wait"),
    pytest.param(["--wait", "nan"], "--wait", id="no number to wait"),
    pytest.param(["--accept-risk", "nonsense"], "no reason", id="an unknown reason"),
    pytest.param(["--accept-risk", ""], "no reason", id="no reason"),
    pytest.param(["-o", "yaml"], "'text', 'json'", id="an unknown format"),
    pytest.param(["--sample", "mac-ready"], "--sample", id="a recorded machine"),
    pytest.param(["--secret-file", "/nonexistent"], "No such file", id="no secret"),
    pytest.param(["--secret-file", "/"], "Is a directory", id="a folder of secrets"),
]


@pytest.mark.parametrize(("argv", "words"), MISTAKES)
def test_a_mistake_is_one_line_and_exit_64_and_nothing_is_run(
    argv: list[str], words: str, rdmadiag: Rdmadiag, ran: Ran
) -> None:
    for gate in (ALLOWED, ("pingpong",)):
        code, out, err = rdmadiag(*gate, *argv)
        assert (code, out) == (64, "")
        assert words in err
        assert err.startswith("rdmadiag: ")
        assert err.count("\n") == 1
    assert ran.asked == []


def test_a_device_that_is_not_there_is_a_mistake(rdmadiag: Rdmadiag, ran: Ran) -> None:
    ran.answer = NoSuchDevice("no RDMA device 'x'; there are: mlx5_0")
    outcome = rdmadiag(*ALLOWED, "--device", "x")
    assert outcome == (64, "", "rdmadiag: no RDMA device 'x'; there are: mlx5_0\n")


def test_a_child_without_a_word_is_a_bug_of_ours(rdmadiag: Rdmadiag, ran: Ran) -> None:
    ran.answer = BrokenChild("no result, exit code 1: Traceback")
    code, out, err = rdmadiag(*ALLOWED)
    assert (code, out, err.count("\n")) == (70, "", 1)
    assert "a bug of ours" in err


# --- what is passed on -------------------------------------------------------------------


def test_without_options_the_documented_defaults_are_used(rdmadiag: Rdmadiag, ran: Ran) -> None:
    assert rdmadiag(*ALLOWED).code == 0
    assert ran.wanted == Wanted(payload_bytes=64, iterations=100)
    assert (ran.selectors, ran.meeting, ran.secret) == ((), None, None)
    host, *_, start, seconds, _, _ = ran.asked[0]
    assert host.identity.hostname == os.uname().nodename
    assert (seconds, start > 0) == (15.0, True)


def test_every_option_is_passed_on(rdmadiag: Rdmadiag, ran: Ran) -> None:
    options = ["--gid-index", "3", "--bytes", "9", "--iterations", "7", "--qp", "uc"]
    options += ["--mtu", "512", "--deadline", "20"]
    risks = ("--accept-risk", "no_lid", "--accept-risk", "prior_rtr_failure")
    assert rdmadiag(*ALLOWED, *options, *risks).code == 0
    assert ran.wanted == Wanted(
        payload_bytes=9,
        iterations=7,
        gid_index=3,
        qp_type=QpType.UC,
        mtu=512,
        accepted=frozenset({Reason.NO_LID, Reason.PRIOR_RTR_FAILURE}),
    )
    assert ran.asked[0][6] == 20.0


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_of_the_preflight_can_be_accepted(
    reason: Reason, rdmadiag: Rdmadiag, ran: Ran
) -> None:
    assert rdmadiag(*ALLOWED, "--accept-risk", reason.value).code == 0
    assert ran.wanted.accepted == {reason}


@pytest.mark.parametrize(
    ("argv", "selectors"),
    [
        (["--device", "mlx5_0"], [Selector("mlx5_0")]),
        (["--device", "mlx5_0:2"], [Selector("mlx5_0", 2)]),
        (["--device", "mlx5_0/2"], [Selector("mlx5_0", 2)]),
        (["--device", "mlx5_0", "--port", "2"], [Selector("mlx5_0", 2)]),
        (["--device", "mlx5_0:2", "--port", "2"], [Selector("mlx5_0", 2)]),
        (["--device", "a", "--device", "b:1"], [Selector("a"), Selector("b", 1)]),
        (["--device", "a", "--device", "b:1", "--port", "1"], [Selector("a", 1), Selector("b", 1)]),
    ],
)
def test_devices_and_ports(
    argv: list[str], selectors: list[Selector], rdmadiag: Rdmadiag, ran: Ran
) -> None:
    assert rdmadiag(*ALLOWED, *argv).code == 0
    assert list(ran.selectors) == selectors


@pytest.mark.parametrize(
    ("argv", "how"),
    [
        ([], How()),
        (["--events", "--op", "read"], How(events=True)),
        (["--sq-depth", "64"], How(Sizes(64, 16, 1, 0, 80))),
        (
            ["--sq-depth=4", "--rq-depth=8", "--cq-depth=32", "--sge=3", "--inline=64"],
            How(Sizes(4, 8, 3, 64, 32)),
        ),
    ],
    ids=["as ever", "a channel", "a completion queue for both", "each its own"],
)
def test_sizes_and_how_it_waits(argv: list[str], how: How, rdmadiag: Rdmadiag, ran: Ran) -> None:
    assert rdmadiag(*ALLOWED, *argv).code == 0
    assert ran.how == how


def test_what_moves_the_data_is_for_both_ends(rdmadiag: Rdmadiag, ran: Ran) -> None:
    assert rdmadiag(*ALLOWED, "--op", "write", "--bandwidth", "1.5").code == 0
    assert (ran.wanted.op, ran.wanted.bandwidth_seconds) == (DataOp.WRITE, 1.5)
    assert rdmadiag(*ALLOWED).code == 0
    assert (ran.wanted.op, ran.wanted.bandwidth_seconds) == (DataOp.SEND, 0.0)


def test_a_window_has_the_rate_of_the_port_beside_it(rdmadiag: Rdmadiag, ran: Ran) -> None:
    found = Bandwidth(DataOp.WRITE, 1 << 20, 200, 2.0, 0.839, 100.0, data_verified=True)
    ran.answer = replace(TIMED, bandwidth=found)
    _, out, _ = rdmadiag(*ALLOWED)
    assert "0.839 Gb/s by WRITE of 1048576 bytes (port: 100 Gb/s; 200 messages in 2.00 s" in out
    assert "last buffer compared" in out
    assert rdmadiag(*ALLOWED, "--json").document["bandwidth"]["gbps"] == 0.839
    ran.answer = replace(TIMED, bandwidth=replace(found, link_gbps=None))
    assert "(port: unknown; " in rdmadiag(*ALLOWED).out


def test_a_read_is_timed_whole(rdmadiag: Rdmadiag, ran: Ran) -> None:
    assert TIMED.latency
    ran.answer = replace(TIMED, latency=replace(TIMED.latency, op=DataOp.READ))
    out = rdmadiag(*ALLOWED).out
    assert "READ: min 1.5" in out
    assert "Half round trip" not in out


@pytest.mark.parametrize(
    ("argv", "meeting"),
    [
        (["--listen", "192.0.2.1"], Meeting("listen", "192.0.2.1", 18519, 30, "192.0.2.1")),
        (
            ["--listen", "[2001:db8::1]:4711", "--wait", "5"],
            Meeting("listen", "2001:db8::1", 4711, 5, "2001:db8::1"),
        ),
        (["127.0.0.1"], Meeting("connect", "127.0.0.1", 18519, 30, "127.0.0.1")),
        (["127.0.0.1:4711"], Meeting("connect", "127.0.0.1", 4711, 30, "127.0.0.1")),
        (["mac-mini.local"], Meeting("connect", "mac-mini.local", 18519, 30, None)),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_the_two_ways_to_meet(
    argv: list[str], meeting: Meeting, rdmadiag: Rdmadiag, ran: Ran
) -> None:
    assert rdmadiag(*ALLOWED, *argv).code == 0
    assert ran.meeting == meeting


@pytest.mark.parametrize(
    ("address", "typed"),
    [
        ("192.0.2.1:18519", "192.0.2.1"),
        ("192.0.2.1:4711", "192.0.2.1:4711"),
        ("[2001:db8::1]:18519", "[2001:db8::1]"),
        ("[2001:db8::1]:4711", "[2001:db8::1]:4711"),
    ],
)
def test_who_waits_says_what_to_type_on_the_other_host(
    address: str, typed: str, rdmadiag: Rdmadiag, ran: Ran
) -> None:
    ran.listening = address
    outcome = rdmadiag(*ALLOWED, "--listen", "192.0.2.1", "--wait", "5", "--json")
    assert outcome.err == (
        f"rdmadiag: waiting 5 s on {address}; on the other host: "
        f"rdmadiag pingpong --allow-rtr {typed}\n"
    )
    assert outcome.document["outcome"] == "verified"
    host, port = host_and_port(typed, 18519)
    assert f"{host}:{port}" == address.replace("[", "").replace("]", "")


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (
            TurnedAway(address="192.0.2.9:4711", text="the peer's \x1b[2J"),
            "turned away 192.0.2.9:4711: the peer's \\x1b[2J",
        ),
        (
            Waiting(address="192.0.2.1:18519", is_this_host=False),
            "nobody listens yet at 192.0.2.1:18519: waiting",
        ),
        (
            Waiting(address="192.0.2.2:18519", is_this_host=True),
            "nobody listens yet at 192.0.2.2:18519, an address of this host itself: waiting",
        ),
    ],
    ids=["a stranger", "no listener yet", "nor here"],
)
def test_what_happens_while_it_waits_is_a_line_on_stderr(
    record: Any, line: str, rdmadiag: Rdmadiag, ran: Ran
) -> None:
    ran.noted = record
    outcome = rdmadiag(*ALLOWED, "192.0.2.1", "--json")
    assert outcome.err == f"rdmadiag: {line}\n"
    assert outcome.document["outcome"] == "verified"


# --- secrets -----------------------------------------------------------------------------

LIMIT = 65_536
RANDOM = "9f2c41d07be85a3306cc19e2f45d8b70"


def test_a_secret_that_every_user_can_read_is_refused(
    rdmadiag: Rdmadiag, ran: Ran, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text(RANDOM)
    (tmp_path / "secret").chmod(0o644)
    refused = rdmadiag(*ALLOWED, "--secret-file", str(tmp_path / "secret"))
    assert (refused.code, refused.out) == (64, "")
    assert f"(mode 0644): chmod o= {tmp_path}/secret" in refused.err


@pytest.mark.parametrize("around", ["", " \r\n", "\n\n\t"], ids=repr)
def test_a_secret_is_random_bytes_in_hexadecimal_whatever_white_space_is_around_it(
    around: str, rdmadiag: Rdmadiag, ran: Ran, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text(f"{around}{RANDOM}{around}")
    (tmp_path / "secret").chmod(0o600)
    assert rdmadiag(*ALLOWED, "--secret-file", str(tmp_path / "secret")).code == 0
    assert ran.secret == bytes.fromhex(RANDOM)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no secret of 16 or more random bytes"),
        (b" \n\t", "no secret of 16 or more random bytes"),
        (b"correct horse battery staple, and more of it", "no secret of 16 or more random bytes"),
        (RANDOM[:-2].encode(), "no secret of 16 or more random bytes"),
        (b"s" * 32, "no secret of 16 or more random bytes"),
        (b"0" * 64, "no secret of 16 or more random bytes"),
        (b"deadbeef" * 8, "no secret of 16 or more random bytes"),
        (b"\xff" * 32, "no secret of 16 or more random bytes"),
        (b"ab" * (LIMIT // 2) + b"a", f"more than {LIMIT} bytes"),
    ],
    ids=[
        "nothing",
        "white space",
        "a passphrase",
        "15 bytes",
        "no hexadecimal",
        "zeros",
        "four bytes again and again",
        "no text",
        "too long",
    ],
)
def test_a_secret_that_can_be_guessed_is_refused_in_one_line_with_how_to_make_one(
    content: bytes, words: str, rdmadiag: Rdmadiag, ran: Ran, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_bytes(content)
    (tmp_path / "secret").chmod(0o600)
    code, out, err = rdmadiag(*ALLOWED, "--secret-file", str(tmp_path / "secret"))
    assert (code, out, ran.asked) == (64, "", [])
    assert words in err
    assert err.count("\n") == 1
    assert ("--new-secret" in err) == ("more than" not in words)
    for part in (b"correct", b"dead", b"abab"):
        assert part.decode() not in err


def test_a_new_secret_is_the_owners_alone_and_is_taken(
    rdmadiag: Rdmadiag, ran: Ran, tmp_path: Path
) -> None:
    made = [tmp_path / "one", tmp_path / "two"]
    for path in made:
        code, out, _ = rdmadiag("pingpong", "--new-secret", str(path))
        assert (code, ran.asked) == (0, [])
        assert "--secret-file" in out
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.read_text().strip() not in out
    assert made[0].read_text() != made[1].read_text()
    assert rdmadiag(*ALLOWED, "--secret-file", str(made[0])).code == 0
    assert ran.secret is not None
    assert len(ran.secret) == 32


@pytest.mark.parametrize("there", ["file", "link"])
def test_a_new_secret_is_written_over_nothing(
    there: str, rdmadiag: Rdmadiag, ran: Ran, tmp_path: Path
) -> None:
    target, path = tmp_path / "target", tmp_path / "secret"
    if there == "file":
        path.write_text("mine")
    else:
        path.symlink_to(target)
    code, out, err = rdmadiag("pingpong", "--new-secret", str(path))
    assert (code, out) == (64, "")
    assert "File exists" in err
    assert not target.exists()
    assert there == "link" or path.read_text() == "mine"


# --- exit codes --------------------------------------------------------------------------

ALWAYS = {
    Outcome.VERIFIED: 0,
    Outcome.WATCHDOG: 124,
    Outcome.CALL_FAILED: 2,  # also of a library that cannot be loaded
    Outcome.DIED: 2,
}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("touched", [True, False], ids=["attempted", "not attempted"])
@pytest.mark.parametrize("outcome", Outcome)
def test_the_exit_code_says_whether_it_was_attempted(
    outcome: Outcome, touched: bool, form: str, rdmadiag: Rdmadiag, ran: Ran
) -> None:
    ran.answer = ended(outcome, touched=touched)
    assert rdmadiag(*ALLOWED, "-o", form).code == ALWAYS.get(outcome, 2 if touched else 3)


# --- what is printed ---------------------------------------------------------------------


def test_a_success_in_text(rdmadiag: Rdmadiag, ran: Ran) -> None:
    code, out, err = rdmadiag(*ALLOWED)
    assert (code, err) == (0, "")
    assert out.startswith(
        "VERIFIED  mlx5_0/1 - mlx5_7/1 (192.0.2.2): data verified both ways, RC, 64 bytes  ["
    )
    assert "median 2, p99 3" in out


def test_a_peer_that_is_this_host_is_said_whatever_came_of_it(rdmadiag: Rdmadiag, ran: Ran) -> None:
    words = "The address of the peer is one of this host"
    for answer in (VERIFIED, ended(Outcome.PEER_LOST)):
        ran.answer = answer
        assert words not in rdmadiag(*ALLOWED, "192.0.2.1").out
        ran.answer = replace(answer, peer_is_this_host=True)
        assert words in rdmadiag(*ALLOWED, "192.0.2.1").out


def test_a_failure_in_text(rdmadiag: Rdmadiag, ran: Ran) -> None:
    ran.answer = ended(Outcome.CALL_FAILED, summary="ibv_modify_qp failed: errno 110", errno=110)
    code, out, err = rdmadiag(*ALLOWED)
    assert (code, err) == (2, "")
    assert out.startswith("FAILED  at rtr on mlx5_0/1: ibv_modify_qp failed: errno 110  [")


def test_the_json_of_a_success(rdmadiag: Rdmadiag, ran: Ran) -> None:
    document = rdmadiag(*ALLOWED, "--json").document
    assert {"schema_version", "tool", "generated_at", "host"} < set(document)
    assert document["host"]["hostname"] == os.uname().nodename
    assert (document["outcome"], document["stage"]) == ("verified", "done")
    assert (document["data_verified"], document["teardown"]) == (True, "clean")
    assert (document["errno"], document["completion"]) == (None, None)
    assert document["latency_us"] == {
        "min": 1.5,
        "median": 2,
        "p99": 3,
        "max": 4.5,
        "iterations": 100,
        "bytes": 64,
        "loop": "compiled",
        "overhead": 0.2,
        "histogram": [[2, 99], [5, 1]],
        "op": "send",
    }
    assert document["local"] == {
        "device": "mlx5_0",
        "port": 1,
        "link_layer": "ethernet",
        "link_layer_number": 2,
        "state": "active",
        "state_number": 4,
        "gid_index": 3,
        "gid": "::ffff:192.0.2.1",
        "gid_type": "roce_v2",
        "gid_type_number": 2,
        "lid": 0,
        "qp_type": "rc",
        "qp_type_number": 2,
        "mtu": 1024,
        "queue_pair": 17,
        "psn": 1,
        "qp_state": "rts",
        "qp_state_number": 3,
    }
    assert document["remote"]["device"] == "mlx5_7"
    for name in ("platform", "latency"):
        assert name not in document


@pytest.mark.parametrize(
    ("platform", "number", "name"),
    [("linux", 110, "ETIMEDOUT"), ("darwin", 60, "ETIMEDOUT"), ("darwin", 96, "ENODATA")],
)
def test_an_errno_comes_with_its_platform(
    platform: str, number: int, name: str, rdmadiag: Rdmadiag, ran: Ran
) -> None:
    ran.answer = ended(Outcome.CALL_FAILED, errno=number, platform=platform, call="ibv_modify_qp")
    document = rdmadiag(*ALLOWED, "--json").document
    assert document["errno"] == {"number": number, "name": name, "platform": platform}
    assert (document["call"], document["stage"]) == ("ibv_modify_qp", "rtr")


def test_a_call_without_an_errno_has_none(rdmadiag: Rdmadiag, ran: Ran) -> None:
    ran.answer = ended(Outcome.CALL_FAILED, errno=0, call="ibv_open_device")
    assert rdmadiag(*ALLOWED, "--json").document["errno"] is None


@pytest.mark.parametrize(("status", "name"), [(12, "RETRY_EXC_ERR"), (99, None)])
def test_a_completion_error_comes_with_its_name(
    status: int, name: str | None, rdmadiag: Rdmadiag, ran: Ran
) -> None:
    bad = BadCompletion("remote", status, 129, is_receive=True)
    ran.answer = ended(Outcome.COMPLETION_ERROR, completion=bad)
    assert rdmadiag(*ALLOWED, "--json").document["completion"] == {
        "name": name,
        "end": "remote",
        "status": status,
        "vendor_error": 129,
        "is_receive": True,
    }


def test_a_failure_of_the_peer_and_a_mismatch_are_quoted(rdmadiag: Rdmadiag, ran: Ran) -> None:
    ran.answer = ended(Outcome.PEER_FAILED, peer_failure=PeerFailure("rtr", "errno 110 on linux"))
    failed = rdmadiag(*ALLOWED, "--json").document
    failure = failed["peer_failure"]
    assert (failure["stage"], failure["text"]) == ("rtr", "errno 110 on linux")
    ran.answer = ended(Outcome.MISMATCH, problems=(Problem("mtu_above_port", "words"),))
    mismatch = rdmadiag(*ALLOWED, "--json").document
    assert mismatch["problems"] == [{"code": "mtu_above_port", "text": "words"}]


def test_ends_that_were_never_known_are_null(rdmadiag: Rdmadiag, ran: Ran) -> None:
    ran.answer = ended(Outcome.NO_PEER, local=None, remote=None, touched=False)
    document = rdmadiag(*ALLOWED, "--json").document
    assert (document["local"], document["remote"], document["latency_us"]) == (None, None, None)


@pytest.mark.parametrize("form", ["text", "json"])
def test_whatever_a_peer_says_can_be_printed(form: str, rdmadiag: Rdmadiag, ran: Ran) -> None:
    ran.answer = ended(
        Outcome.PEER_FAILED, peer_failure=PeerFailure("rtr", "\x1b[2J\u20ac\n"), summary="\x1b\n"
    )
    code, out, err = rdmadiag(*ALLOWED, "-o", form)
    assert (code, err) == (2, "")
    assert "\x1b" not in out
    if form == "json":
        assert json.loads(out)["peer_failure"]["text"] == "\x1b[2J\u20ac\n"


def test_the_help_fits_80_columns(rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = rdmadiag("pingpong", "--help")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "--allow-rtr" in out
    for number in ("0 data verified", "2 attempted and failed", "3 not attempted", "124 a call"):
        assert number in " ".join(out.split())


@pytest.mark.parametrize(
    ("name", "value"),
    [("RDMADIAG_PINGPONG_ALLOW_RTR", "1"), ("RDMADIAG_PINGPONG_ACCEPT_RISK", "no_route_gid")],
)
def test_what_opens_the_gate_is_not_taken_from_the_environment(
    name: str, value: str, rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    ran = rdmadiag("pingpong", "--json")
    assert ran.code == 3
    assert json.loads(ran.out)["outcome"] == "not_allowed"
