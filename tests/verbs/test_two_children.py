"""Two hosts: two watched children that meet over TCP, each with a fake library of its own.

The fake library delivers within one process alone: what one end sends never arrives.
"""

import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType
from rdmadiag.verbs import protocol
from rdmadiag.verbs.protocol import End, frame
from rdmadiag.verbs.records import encode
from tests.verbs.attempts import DARWIN_END, DARWIN_SCRIPT, LINUX_END, LINUX_SCRIPT, request

pytestmark = pytest.mark.once

CHECKOUT = Path(__file__).parents[2]
HERE = LINUX_END
MAC_GID = "::ffff:169.254.11.1"
MAC = replace(DARWIN_END, gid=Gid.parse(MAC_GID), lid=0)
HOSTS = {
    "linux": (LINUX_SCRIPT, HERE),
    "darwin": (DARWIN_SCRIPT.replace(str(DARWIN_END.gid), MAC_GID), MAC),
}
ONCE = (  # what a whole attempt makes, changes and destroys
    "ibv_open_device",
    "ibv_alloc_pd",
    "ibv_reg_mr",
    "ibv_create_cq",
    "ibv_create_qp",
    "modify_qp_to_init",
    "modify_qp_to_rtr",
    "modify_qp_to_rts",
    "ibv_destroy_qp",
    "ibv_destroy_cq",
    "ibv_dereg_mr",
    "ibv_dealloc_pd",
    "ibv_close_device",
)

# One host: its parent process, which prints where it listens and then what came of it.
HOST = """
import json, sys, time
from dataclasses import replace
from rdmadiag.render.json import text
from rdmadiag.verbs import watchdog
from rdmadiag.verbs.outcome import conclude
from rdmadiag.verbs.records import Listening, parse

watchdog.program = lambda module: [sys.executable, "-m", "rdmadiag.verbs." + module]
asked = parse(sys.stdin.buffer.readline())
began = time.monotonic()
request = replace(asked, start=began, deadline=began + asked.deadline, until=began + asked.until)

def seen(record):
    if isinstance(record, Listening):
        print(record.address, flush=True)

watched = watchdog.watch(request, 0.5, seen)
attempt = conclude(
    watched.records,
    platform=asked.platform,
    ends=asked.ends,
    returncode=watched.returncode,
)
found = json.loads(text(attempt))
print(json.dumps(found | {"stderr": watched.stderr, "took": time.monotonic() - began}))
"""


@dataclass
class Changed:
    """One host of two: what differs from a healthy one."""

    rules: str = ""
    secret: bytes | None = None
    seconds: float = 8.0
    end: dict[str, Any] | None = None


@dataclass
class Came:
    """What came of one host's attempt."""

    attempt: dict[str, Any]
    calls: list[str]

    @property
    def outcome(self) -> str:
        return str(self.attempt["outcome"])

    @property
    def stage(self) -> str:
        return str(self.attempt["stage"])

    def count(self, name: str) -> int:
        return sum(call.split()[0] == name for call in self.calls)


class Host:
    """A running one."""

    def __init__(self, fake: Any, platform: str, end: End, changed: Changed, **how: Any) -> None:
        self._fake = fake
        asked = replace(
            request(fake.library, [end], platform=platform, meet="connect", host="127.0.0.1"),
            deadline=changed.seconds,
            until=8.0,
            secret=None if changed.secret is None else changed.secret.hex(),
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOST],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **fake.environ, "PYTHONPATH": str(CHECKOUT)},
            text=True,
        )
        assert self._process.stdin
        self._process.stdin.write(encode(replace(asked, **how)).decode())
        self._process.stdin.flush()

    def end(self) -> None:
        """Whatever it does."""
        self._process.kill()
        self._process.communicate()

    @property
    def calls(self) -> list[str]:
        """Of its library, so far."""
        found: list[str] = self._fake.calls
        return found

    def port(self) -> int:
        """Where it listens."""
        assert self._process.stdout
        return int(self._process.stdout.readline().rpartition(":")[2])

    def ended(self) -> Came:
        """What came of it."""
        out, err = self._process.communicate(timeout=30)
        assert err == ""
        return Came(json.loads(out.splitlines()[-1]), self._fake.calls)


Meet = Callable[..., tuple[Came, Came]]


@pytest.fixture
def host(fake_verbs: Any) -> Iterator[Callable[..., Host]]:
    """`host(changed, platform, meet=…, port=…)` → one that runs."""
    hosts: list[Host] = []

    def started(changed: Changed, platform: str = "linux", **how: Any) -> Host:
        script, base = HOSTS[platform]
        if "meet" not in how:  # the end that connects has the next address
            address = str(base.gid)
            script = script.replace(address, f"{address[:-1]}2")
            base = replace(base, gid=Gid.parse(f"{address[:-1]}2"))
        end = replace(base, **changed.end or {})
        fake = fake_verbs(script + changed.rules, platform)
        hosts.append(Host(fake, platform, end, changed, **how))
        return hosts[-1]

    yield started
    for each in hosts:
        each.end()


@pytest.fixture
def meet(host: Callable[..., Host]) -> Meet:
    """The end that listens and the one that connects; nothing may be left on either device."""

    def both(
        there: Changed | None = None, here: Changed | None = None, platform: str = "linux"
    ) -> tuple[Came, Came]:
        listening = host(there or Changed(), platform, meet="listen")
        connecting = host(here or Changed(), platform, port=listening.port())
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(Host.ended, (listening, connecting))
        return first, second

    return both


def is_clean(came: Came) -> bool:
    """Whether nothing is left, and nothing was done twice."""
    return (
        came.attempt["teardown"] == "clean"
        and came.attempt["stderr"] == ""
        and all(came.count(call) <= 1 for call in ONCE)
    )


# --- as far as two can come --------------------------------------------------------------


@pytest.mark.parametrize("secret", [None, b"s"], ids=["without a secret", "with a secret"])
def test_two_healthy_hosts_come_as_far_as_data(meet: Meet, secret: bytes | None) -> None:
    there, here = meet(Changed(secret=secret), Changed(secret=secret))
    assert is_clean(there)
    assert is_clean(here)
    assert [came.count(call) for call in ONCE for came in (there, here)] == [1, 1] * len(ONCE)
    # The end that connects sends first: RC tells it that nothing came through.
    assert (here.outcome, here.stage) == ("completion_error", "data")
    assert here.attempt["completion"]["status"] == 12
    assert (there.outcome, there.stage) == ("peer_failed", "data")
    assert there.attempt["peer_failure"] == {
        "stage": "data",
        "text": "completion status 12, vendor error 129",
        "outcome": "completion_error",
        "status": 12,
        "arrived": 0,
    }
    # Each has heard from the other how it ended.
    assert here.attempt["peer_failure"]["outcome"] == "peer_failed"
    for came in (there, here):
        assert came.attempt["arrived"] == {"here": 0, "at_peer": 0, "only_small": False}


def test_each_end_knows_the_others_numbers(meet: Meet) -> None:
    there, here = meet(Changed(end={"mtu": 512}))
    for one, other in ((there, here), (here, there)):
        for name in ("queue_pair", "psn", "device", "gid"):
            assert one.attempt["remote"][name] == other.attempt["local"][name]
        assert one.attempt["local"]["mtu"] == 512, "the smaller of both"
    assert there.attempt["local"]["psn"] != there.attempt["remote"]["psn"]
    assert there.attempt["local"]["qp_state"] == "rts"


@pytest.mark.slow
def test_uc_that_loses_everything_ends_as_no_data_on_both(meet: Meet) -> None:
    both = meet(platform="darwin")
    assert {came.outcome for came in both} <= {"no_data", "peer_failed"}
    assert "no_data" in {came.outcome for came in both}
    for came in both:
        assert came.stage == "data"
        assert is_clean(came)
        assert came.attempt["took"] < 8


# --- a call that fails at one end --------------------------------------------------------


LISTENER, OTHER = 0, 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failing", "platform", "rule", "call", "errno", "stage"),
    [
        (LISTENER, "linux", "ibv_get_device_list", "ibv_get_device_list", 38, "open"),
        (OTHER, "linux", "ibv_open_device", "ibv_open_device", 13, "open"),
        (LISTENER, "linux", "ibv_create_qp", "ibv_create_qp", 12, "create_qp"),
        (OTHER, "linux", "modify_qp_to_rtr", "ibv_modify_qp", 110, "rtr"),
        (LISTENER, "darwin", "modify_qp_to_rtr", "ibv_modify_qp", 96, "rtr"),
        (OTHER, "linux", "modify_qp_to_rts", "ibv_modify_qp", 22, "rts"),
        (LISTENER, "linux", "post_recv", "post_recv", 12, "data"),
        (OTHER, "linux", "post_recv", "post_recv", 12, "data"),
    ],
)
def test_a_call_that_fails_at_one_end_is_known_to_the_other(
    meet: Meet, failing: int, platform: str, rule: str, call: str, errno: int, stage: str
) -> None:
    changes = [Changed(), Changed()]
    changes[failing] = Changed(f"on {rule} errno={errno}\n")
    both = meet(*changes, platform=platform)
    failed, other = both[failing], both[1 - failing]
    assert (failed.outcome, failed.stage) == ("call_failed", stage)
    assert (failed.attempt["call"], failed.attempt["errno"]) == (call, errno)
    assert other.outcome == "peer_failed"
    failure = other.attempt["peer_failure"]
    assert (failure["stage"], failure["outcome"]) == (stage, "call_failed")
    assert failure["text"] == f"{call} failed with errno {errno} on {platform}"
    assert is_clean(other)
    assert is_clean(failed) or failed.attempt["teardown"] == "nothing_made"


def test_a_library_that_is_not_there_is_known_to_the_other(host: Callable[..., Host]) -> None:
    listening = host(Changed(), meet="listen")
    here = host(Changed(), port=listening.port(), library="/nonexistent/libibverbs.so.1").ended()
    there = listening.ended()
    assert (here.outcome, here.stage, here.calls) == ("call_failed", "open", [])
    assert (there.outcome, there.attempt["peer_failure"]["stage"]) == ("peer_failed", "open")
    assert is_clean(there)


def test_a_device_that_the_library_does_not_list_is_known_to_the_other(meet: Meet) -> None:
    there, here = meet(Changed(end={"device": "mlx5_7"}))
    assert (there.outcome, there.stage) == ("call_failed", "open")
    assert there.attempt["summary"] == "the verbs library does not list the device"
    assert (here.outcome, here.attempt["peer_failure"]["stage"]) == ("peer_failed", "open")


@pytest.mark.parametrize("failing", [0, 1], ids=["the listener", "the other"])
@pytest.mark.parametrize("how", [pytest.param("hang", marks=pytest.mark.slow), "crash"])
def test_an_end_that_hangs_or_dies_is_a_lost_peer_of_the_other(
    meet: Meet, failing: int, how: str
) -> None:
    changes = [Changed(), Changed()]
    changes[failing] = Changed(f"on modify_qp_to_rtr {how}\n", seconds=1.0)
    both = meet(*changes)
    failed, other = both[failing], both[1 - failing]
    assert (failed.outcome, failed.stage) == ({"hang": "watchdog", "crash": "died"}[how], "rtr")
    assert failed.attempt["teardown"] == "abandoned"
    assert other.outcome == "peer_lost"
    assert is_clean(other)
    assert other.attempt["took"] < 8


@pytest.mark.slow
def test_an_end_that_only_falls_silent_is_lost_at_the_others_deadline(meet: Meet) -> None:
    there, here = meet(Changed("on modify_qp_to_rtr slow=2500\n"), Changed(seconds=1.0))
    assert (here.outcome, here.stage) == ("peer_lost", "data")
    assert here.attempt["summary"] == "the peer fell silent before its 'ready'"
    assert is_clean(here)
    assert here.attempt["took"] < 2.5
    assert there.outcome == "peer_lost"
    assert is_clean(there)


# --- ends that do not fit ----------------------------------------------------------------

V1 = {"gid_type": GidType.ROCE_V1}


@pytest.mark.parametrize(
    ("there", "here", "code"),
    [
        (V1, V1 | {"gid": Gid.parse("::ffff:192.0.3.1")}, "subnet_mismatch"),
        ({"permitted": False}, {}, "not_permitted"),
        ({}, {"payload_bytes": 65}, "payload_bytes_mismatch"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_ends_that_do_not_fit_open_no_device(
    meet: Meet, there: dict[str, Any], here: dict[str, Any], code: str
) -> None:
    """One of both, one of the listener's, one of the other's; all codes: test_protocol.py."""
    for came in meet(Changed(end=there), Changed(end=here)):
        assert (came.outcome, came.stage) == ("mismatch", "agree")
        assert [problem["code"] for problem in came.attempt["problems"]] == [code]
        assert (came.calls, came.attempt["touched"]) == ([], False)
        assert came.attempt["teardown"] == "nothing_made"


@pytest.mark.parametrize(
    ("there", "here"),
    [(b"s", b"t"), (b"s", None), (None, b"t")],
    ids=["two", "one", "the other"],
)
def test_an_end_with_another_secret_opens_no_device_nor_does_the_one_that_listens(
    host: Callable[..., Host], there: bytes | None, here: bytes | None
) -> None:
    listening = host(Changed(secret=there), meet="listen", until=60.0)
    came = host(Changed(secret=here), port=listening.port()).ended()
    assert (came.outcome, came.stage) in (("peer_refused", "connect"), ("peer_refused", "agree"))
    assert "secret" in came.attempt["summary"]
    assert came.calls == []
    listening.end()
    assert listening.calls == []


def test_a_secret_of_the_size_that_the_command_takes_is_taken(meet: Meet) -> None:
    for came in meet(Changed(secret=b"s" * 65_536), Changed(secret=b"s" * 65_536)):
        assert came.stage == "data"


# --- peers that are none -----------------------------------------------------------------


def test_nobody_comes(host: Callable[..., Host]) -> None:
    came = host(Changed(), meet="listen", until=0.3).ended()
    assert (came.outcome, came.stage, came.calls) == ("no_peer", "connect", [])
    assert came.attempt["took"] < 8


@pytest.mark.slow
def test_nobody_is_there(host: Callable[..., Host]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    came = host(Changed(), port=port).ended()
    assert (came.outcome, came.stage, came.calls) == ("no_peer", "connect", [])


HELLO = {"step": "hello"} | protocol.hello(bytes(32), with_secret=False)
AGREED = frame(HELLO) + frame({"step": "endpoint", "endpoint": HERE.message()})
AGREED += frame({"step": "agree", "problems": []})
PAIRED = AGREED + frame({"step": "queue_pair", "number": 7, "psn": 8})


@pytest.mark.parametrize(
    ("said", "outcome", "stage"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", "peer_refused", "connect"),
        (struct.pack(">I", 1 << 30), "peer_refused", "connect"),
        (frame(HELLO | {"version": 1}), "peer_refused", "connect"),
        (frame(HELLO), "peer_lost", "agree"),
        (frame(HELLO) + frame({"step": "ready"}), "peer_refused", "agree"),
        (AGREED, "peer_lost", "init"),
        (AGREED + frame({"step": "queue_pair", "number": -1, "psn": 8}), "peer_refused", "init"),
        (PAIRED, "peer_lost", "data"),
        (PAIRED + frame({"step": "ready"}), "completion_error", "data"),
    ],
    ids=[
        "HTTP",
        "a gigabyte",
        "another version",
        "goes after its hello",
        "leaves a step out",
        "goes once it has agreed",
        "nonsense for a queue pair",
        "goes before it is ready",
        "goes after that",
    ],
)
def test_a_strange_peer_costs_an_attempt_and_nothing_else(
    host: Callable[..., Host], said: bytes, outcome: str, stage: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connecting = host(Changed(), port=server.getsockname()[1])
        far, _ = server.accept()
    with far:
        far.sendall(said)
        far.shutdown(socket.SHUT_WR)
        came = connecting.ended()
    assert (came.outcome, came.stage) == (outcome, stage)
    assert is_clean(came) or (came.calls, came.attempt["teardown"]) == ([], "nothing_made")
