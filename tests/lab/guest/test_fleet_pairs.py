"""Sixteen hosts by real ssh, in pairs: a slow link, and a host that goes in the middle of a round.

All of them are in one kernel, each in a network namespace with a device of its own.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import until
from lab.fleet import CHILD, Host, PowerCut, fleet, pids, reached
from lab.sshd import Sshd
from tests.schema.described import assert_described

pytestmark = [pytest.mark.needs("rxe in namespaces"), pytest.mark.needs("sshd")]

Rdmadiag = Callable[..., tuple[int, str, str]]

HOSTS, FEW = 16, 2
SLOW, GOING = 5, 11
DELAY = "300ms"
ROUNDS = 3
WAIT, ATTEMPT, HOST = 90, 60, 170  # seconds: all hosts share two emulated processors
COPIED = 500  # where each of them compiles all of rdmadiag first
AT_ONCE = 4
SECONDS = 1600.0


@pytest.fixture
def hosts() -> Iterator[list[Host]]:
    with fleet(HOSTS) as ready:
        yield ready


@pytest.fixture
def few() -> Iterator[list[Host]]:
    with fleet(FEW) as ready:
        yield ready


def test_a_slow_link_and_a_host_that_goes_in_mid_round_are_both_named(
    hosts: list[Host], rdmadiag: Rdmadiag, run: Callable[..., Any], tmp_path: Path
) -> None:
    script, table = reached(hosts, tmp_path)
    slow, going = hosts[SLOW - 1], hosts[GOING - 1]
    netem = f"tc qdisc add dev leg{SLOW} root netem delay {DELAY}"
    assert run(netem.split(), timeout=60).returncode == 0
    cut = PowerCut(going)
    cut.start()
    begun = time.monotonic()
    try:
        with Sshd(script, {host.namespace: None for host in hosts}) as sshd:
            code, out, err = rdmadiag(
                *("fleet", "pairs", "--allow-rtr", "--json", "-w", f"h[1-{HOSTS}]"),
                *("--ssh-options", f"-F {sshd.config}", "--addresses", str(table)),
                *("--rounds", str(ROUNDS), "--retests", "1", "--iterations", "10"),
                *("--fanout", str(AT_ONCE), "--wait", str(WAIT)),
                *("--attempt-deadline", str(ATTEMPT)),
                *("--host-deadline", str(HOST), "--deadline", str(SECONDS - 100), "--verbose"),
                timeout=SECONDS,
            )
    finally:
        cut.ending.set()
        cut.join()
    kept = Path(os.environ["RDMADIAG_LAB_OUT"])
    (kept / "fleet_pairs.json").write_text(out)
    (kept / "fleet_pairs.log").write_text(f"{time.monotonic() - begun:.0f} s, {code}\n{err}")
    document = json.loads(out)
    assert_described(document)
    assert cut.done
    (out_of,) = [each for each in document["left_out"] if each["end"] == going.namespace]
    assert out_of["round"] == 2
    assert any(each.startswith(f"{going.namespace}:") for each in document["unreported"])
    assert slow.namespace in {
        name.partition(":")[0] for part in document["odd"] for name in part["names"]
    }
    assert document["odd"][0]["kind"] in ("node", "undecided")
    assert document["rounds"] >= ROUNDS
    assert (code, document["unplayed"]) == (3, 0)
    assert until(lambda: not any(pids(host, CHILD) for host in hosts), 60.0), "nothing is left"


def test_hosts_without_rdmadiag_meet_by_a_copy_of_it_and_a_history_has_what_they_measured(
    few: list[Host], rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    script, table = reached(few, tmp_path)
    scratch, history = tmp_path / "scratch", str(tmp_path / "pairs.db")
    scratch.mkdir()
    script = script.replace(f"{Path(sys.executable).parent}:", "")
    script = script.replace("exec nsenter", f"export TMPDIR={scratch}\nexec nsenter")
    with Sshd(script, {host.namespace: None for host in few}) as sshd:
        code, out, err = rdmadiag(
            *("fleet", "pairs", "--allow-rtr", "--json", "-w", f"h[1-{FEW}]", "--copy"),
            *("--python", sys.executable, "--history", history),
            *("--ssh-options", f"-F {sshd.config}", "--addresses", str(table)),
            *("--rounds", "1", "--retests", "0", "--iterations", "10", "--verbose"),
            *("--wait", str(COPIED - ATTEMPT), "--attempt-deadline", str(ATTEMPT)),
            *("--host-deadline", str(COPIED)),
            timeout=SECONDS,
        )
    (Path(os.environ["RDMADIAG_LAB_OUT"]) / "fleet_pairs_copied.json").write_text(out + err)
    document = json.loads(out)
    assert_described(document)
    assert (document["left_out"], document["unreported"]) == ([], []), err
    (cell,) = document["matrix"]["cells"]
    assert (code, cell["outcome"]) == (0, "verified")
    assert cell["latency_us"] > 0, "the compiled loop was sent, too"
    assert list(scratch.iterdir()) == []
    _, past, _ = rdmadiag("fleet", "history", f"h[1-{FEW}]", "--history", history, "--json")
    nodes = json.loads(past)["nodes"]
    assert [each["node"] for each in nodes] == [host.namespace for host in few]
    figures = [each["pairs"][-1] for each in nodes]
    assert [(each["tried"], each["failed"]) for each in figures] == [(1, 0), (1, 0)]
    assert {each["latency_us"] for each in figures} == {cell["latency_us"]}
