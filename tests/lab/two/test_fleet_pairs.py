"""Hosts of two kernels in pairs by real ssh: one kernel goes in the middle of a round.

    left:  h1 … h5 in namespaces, behind a router    right: h6, a kernel of its own

At the moment that counts nothing of the right kernel gets out any more, not even that its
connections end, and all that serves h6 is killed: as when a machine is powered off.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import until
from lab.fleet import BRIDGE, Host, fleet, reached
from lab.rendezvous import PORT
from lab.rxe import Rxe
from lab.sshd import Sshd
from tests.schema.described import assert_described

pytestmark = [pytest.mark.needs("rxe in namespaces"), pytest.mark.needs("sshd")]

NEAR = 5
FAR = f"h{NEAR + 1}"
SLOW = 2
DELAY = "300ms"
ROUTER = "198.51.100.254"
FLEET, CABLE = "198.51.100.0/24", "192.0.2.0/24"
WAIT, ATTEMPT, HOST = 90, 60, 170  # seconds: all hosts share two emulated processors
SECONDS = 1500.0
CHILD = b"rdmadiag.verbs.pingpong_child"

SCRIPT = f"""\
#!/bin/sh
export PATH={Path(sys.executable).parent}:$PATH
exec sh -c "$SSH_ORIGINAL_COMMAND"
"""


def with_words(*words: bytes) -> list[int]:
    """Processes with one of them in their command line, but this one."""
    found = []
    for each in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{each}/cmdline", "rb") as file:
            line = file.read()
            if int(each) != os.getpid() and any(word in line for word in words):
                found.append(int(each))
    return found


def another(before: int | None) -> int | None:
    """A process that has the device, and is not that one."""
    late = time.monotonic() + SECONDS / 2
    while time.monotonic() < late:
        for pid in with_words(CHILD):
            if pid != before:
                return pid
        time.sleep(0.1)
    return None


def power_off(rxe: Rxe, do: Callable[[str], None]) -> None:
    """But for the line on which both ends of a test meet."""
    do(f"tc qdisc add dev {rxe.netdev} root handle 1: prio bands 4 priomap{' 3' * 16}")
    do(f"tc qdisc add dev {rxe.netdev} parent 1:4 handle 4: netem loss 100%")
    for end in ("sport", "dport"):
        match = f"u32 match ip protocol 6 0xff match ip {end} {PORT} 0xffff"
        do(f"tc filter add dev {rxe.netdev} parent 1: protocol ip prio 1 {match} flowid 1:1")
    do(f"tc filter add dev {rxe.netdev} parent 1: protocol arp prio 2 u32 match u32 0 0 flowid 1:1")
    for pid in with_words(CHILD, b"pair_end", b"pingpong", b"sshd"):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_kernel_that_goes_in_mid_round_is_named_and_so_is_a_slow_link(
    role: str,
    rxe: Rxe,
    peer: Rxe,
    tmp_path: Path,
    do: Callable[[str], None],
    run: Callable[..., Any],
    rdmadiag: Callable[..., tuple[int, str, str]],
    exchange: Callable[..., Any],
) -> None:
    if role == "right":
        do(f"ip route add {FLEET} via {peer.ipv4}")
        with Sshd(SCRIPT, {FAR: None}, rxe.ipv4) as sshd:
            exchange("ssh", sshd.client(FAR))
            gone = another(another(None)) is not None
            if gone:
                power_off(rxe, do)
            exchange("judged", gone, SECONDS)
        do(f"tc qdisc del dev {rxe.netdev} root")
        return
    with fleet(NEAR) as hosts:
        for host in hosts:
            do(f"ip -n {host.namespace} route add {CABLE} via {ROUTER}")
        do(f"ip address add {ROUTER}/24 dev {BRIDGE}")
        do("sysctl -qw net.ipv4.ip_forward=1")
        do(f"tc qdisc add dev leg{SLOW} root netem delay {DELAY}")
        code, out, err = _judged(hosts, rxe, peer, tmp_path, rdmadiag, exchange)
        gone = exchange("judged", None, SECONDS)
        left = lambda: not with_words(CHILD)  # noqa: E731
        assert until(left, 60.0), "nothing is left"
    kept = Path(os.environ["RDMADIAG_LAB_OUT"])
    (kept / "fleet_pairs.json").write_text(out + err)
    document = json.loads(out)
    assert_described(document)
    assert gone
    (out_of,) = [each for each in document["left_out"] if each["end"] == FAR]
    assert out_of["round"] == 2
    assert any(each.startswith(f"{FAR}:") for each in document["unreported"])
    odd = {name.partition(":")[0] for part in document["odd"] for name in part["names"]}
    assert hosts[SLOW - 1].namespace in odd
    assert (code, document["unplayed"]) == (3, 0)


def _judged(
    hosts: list[Host],
    rxe: Rxe,
    peer: Rxe,
    folder: Path,
    rdmadiag: Callable[..., tuple[int, str, str]],
    exchange: Callable[..., Any],
) -> tuple[int, str, str]:
    script, table = reached(hosts, folder)
    with table.open("a") as rows:
        rows.write(f"{FAR} {peer.ipv4} {peer.name}\n")
    far = exchange("ssh", None)
    for name in ("key", "known_hosts"):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(far[name])
    with Sshd(script, {host.namespace: None for host in hosts}) as sshd:
        config = folder / "config"
        config.write_text(far["config"].replace("{folder}", str(folder)) + sshd.config.read_text())
        return rdmadiag(
            *("fleet", "pairs", "--allow-rtr", "--json", "-w", f"h[1-{len(hosts) + 1}]"),
            *("--ssh-options", f"-F {config}", "--addresses", str(table)),
            *("--rounds", "3", "--retests", "1", "--iterations", "10", "--fanout", "4"),
            *("--wait", str(WAIT), "--attempt-deadline", str(ATTEMPT)),
            *("--host-deadline", str(HOST), "--deadline", str(SECONDS - 100), "--verbose"),
            timeout=SECONDS,
        )
