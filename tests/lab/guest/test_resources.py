"""What programs hold on real devices, with their pids, as `rdma resource show` has it."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import until
from lab.ports import wait_listening
from lab.resources import queue_pair_states
from lab.rxe import Rxe
from rdmadiag.facts import Missing
from rdmadiag.host.live import LiveHost
from rdmadiag.sources.nldev import is_gone
from rdmadiag.sources.nldev_counters import read_device_indexes

Call = Callable[..., tuple[int, Any]]
Run = Callable[..., Any]

HELD_SECONDS = 30.0  # until a program has made its objects
PERFTEST_PORT = 18515
ROUNDS = "5000000"  # more than any test lasts


@pytest.fixture
def connected(rxe_pair: tuple[Rxe, Rxe]) -> Iterator[tuple[int, int]]:
    """ib_send_lat with both its ends on rxe0, in an exchange that goes on; their pids.

    A server that waits for its client has opened the device and made no queue pair yet.
    """
    argv = ["ib_send_lat", "-d", "rxe0", "-x", "1", "-F", "-n", ROUNDS]
    quiet = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    with subprocess.Popen(argv, **quiet) as first:  # type: ignore[call-overload]
        wait_listening(PERFTEST_PORT, HELD_SECONDS)
        with subprocess.Popen([*argv, "127.0.0.1"], **quiet) as second:  # type: ignore[call-overload]
            try:
                assert until(lambda: queue_pair_states("rxe0").count("RTS") == 2, HELD_SECONDS)
                yield first.pid, second.pid
            finally:
                second.kill()
                first.kill()


def of(document: Any, device: str) -> Any:
    return next(each for each in document["devices"] if each["device"] == device)


def held_by(document: Any, device: str, pid: int) -> Any:
    return next((each for each in of(document, device)["holders"] if each["pid"] == pid), None)


def wait_for(call: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What `call` gives once it gives something."""
    end = time.monotonic() + seconds
    while not (found := call()) and time.monotonic() < end:
        time.sleep(1)
    return found


def test_the_queue_pairs_of_ib_send_lat_are_shown_with_their_pids(
    connected: tuple[int, int], rdmadiag_json: Call
) -> None:
    for pid in connected:
        holder = wait_for(lambda pid=pid: held_by(rdmadiag_json("resources")[1], "rxe0", pid))  # type: ignore[misc]
        assert holder, "no holder with that pid"
        assert (holder["kind"], holder["command"]) == ("process", "ib_send_lat")
        assert holder["held"]["qp"] == 1
        assert holder["held"]["mr"] >= 1
        assert holder["held"]["ctx"] == 1
        assert holder["memory_bytes"] > 0


def test_counts_and_states_agree_with_rdma(
    connected: tuple[int, int], rdmadiag_json: Call, run: Run
) -> None:
    code, document = rdmadiag_json("resources")
    assert code == 0
    theirs = json.loads(run(["rdma", "-j", "res"], timeout=30).stdout)
    for row in theirs:
        uses = {each["kind"]: each["current"] for each in of(document, row["ifname"])["uses"]}
        assert uses == {name: row[name] for name in uses}
    pairs = json.loads(run(["rdma", "-j", "res", "show", "qp"], timeout=30).stdout)
    counted = Counter(
        (each["ifname"], each["type"].lower(), each["state"].lower(), each.get("pid"))
        for each in pairs
    )
    ours = {
        (each["device"], row["type"], row["state"], row["pid"]): row["count"]
        for each in document["devices"]
        for row in each["queue_pairs"]
    }
    assert ours == counted
    for pid in connected:
        assert ("rxe0", "rc", "rts", pid) in ours or ("rxe0", "rc", "rtr", pid) in ours


@pytest.mark.other_kernels(0)
def test_an_ordinary_user_sees_the_same_holders(
    connected: tuple[int, int], rdmadiag_json: Call
) -> None:
    wait_for(lambda: held_by(rdmadiag_json("resources")[1], "rxe0", connected[0]))
    code, document = rdmadiag_json("resources", user=65534)
    assert code == 0
    assert held_by(document, "rxe0", connected[0])["held"]["qp"] == 1


def test_an_idle_pair_has_the_kernels_own_objects_alone(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call
) -> None:
    code, document = rdmadiag_json("resources")
    assert (code, document["verdict"]["status"]) == (0, "ok")
    for device in ("rxe0", "rxe1"):
        assert {each["kind"] for each in of(document, device)["holders"]} == {"kernel"}
        uses = {each["kind"]: each for each in of(document, device)["uses"]}
        assert uses["qp"]["maximum"] > uses["qp"]["current"]
        assert uses["qp"]["limit_from"] in ("verbs", "nldev")


def test_in_a_pid_namespace_of_its_own_it_says_so(
    connected: tuple[int, int], rdmadiag_json: Call
) -> None:
    wait_for(lambda: held_by(rdmadiag_json("resources")[1], "rxe0", connected[0]))
    prefix = ("unshare", "--pid", "--fork", "--mount-proc")
    _, document = rdmadiag_json("resources", prefix=prefix)
    assert "holders-hidden" in {each["rule"] for each in document["verdict"]["findings"]}
    assert all(each["pid"] not in connected for each in of(document, "rxe0")["holders"])


def test_threads_are_one_process_also_when_they_have_ended(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call
) -> None:
    argv = [sys.executable, str(Path(__file__).with_name("threads.py"))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout
            assert program.stdout.readline() == "ready\n"
            code, document = rdmadiag_json("resources")
        finally:
            program.kill()
    assert (code, document["verdict"]["findings"]) == (0, [])
    holders = [each for each in of(document, "rxe0")["holders"] if each["kind"] != "kernel"]
    assert [(each["kind"], each["pid"], each["held"]) for each in holders] == [
        ("process", program.pid, {"ctx": 1, "pd": 1, "cq": 1})
    ]


def test_what_kept_it_from_looking_is_the_reason(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call
) -> None:
    inject = ("strace", "-f", "-o", "/dev/null", "-e", "trace=socket")
    code, document = rdmadiag_json("resources", prefix=(*inject, "-e", "inject=socket:error=EPERM"))
    assert code == 3
    summaries = [each["summary"] for each in document["verdict"]["findings"]]
    assert any("EPERM" in each for each in summaries), summaries
    assert not any("no RDMA device" in each for each in summaries), summaries


def test_linux_says_of_a_device_that_is_there_no_more_what_is_taken_for_it(
    rxe_pair: tuple[Rxe, Rxe],
) -> None:
    host, soon = LiveHost(), time.monotonic() + 30
    indexes = read_device_indexes(host, soon)
    assert not isinstance(indexes, Missing)
    assert [is_gone(host, index, soon) for index in indexes.values()] == [False, False]
    assert is_gone(host, max(indexes.values()) + 1, soon)


@pytest.mark.other_kernels(0)
def test_a_device_with_a_colon_in_its_name_can_be_selected(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call, run: Run
) -> None:
    for name in ("a:b", "a:1"):
        run(["rdma", "link", "delete", "rxe1"], timeout=30)
        run(["rdma", "link", "add", name, "type", "rxe", "netdev", "veth1"], timeout=30)
        for selector in (name, f"{name}:1", f"{name}/1"):
            code, document = rdmadiag_json("gids", "--device", selector)
            assert (code, [row["device"] for row in document["ports"]]) == (0, [name])
        code, document = rdmadiag_json("counters", "--interval", "0", "--device", f"{name}:1")
        assert {each["device"] for each in document["sample"]["sets"]} == {name}
        run(["rdma", "link", "delete", name], timeout=30)
