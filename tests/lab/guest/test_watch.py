"""watch on a live kernel: what is done to the host is named, in its order and when it was done."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import until
from lab.rxe import Rxe
from tests.schema.described import assert_described

pytestmark = pytest.mark.events

Run = Callable[..., Any]
Rdmadiag = Callable[..., tuple[int, str, str]]

SLOWER = 15.0 if os.environ.get("RDMADIAG_LAB_MACHINE") == "qemu" else 1.0
"""Than a User Mode Linux kernel: QEMU emulates each instruction."""

SECONDS = 60.0 * min(SLOWER, 4.0)  # for what ends when it is done: the whole part has 1,800
LATE = 10.0 * SLOWER
"""How long after a change its event may be read: beside it each event starts a command."""

LONGEST = ("--timeout", "30")
PROGRAM = str(Path(sys.executable).parent / "rdmadiag")
RELEASE = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
TELLS_OF_DEVICES = RELEASE >= (6, 12)  # RDMA_NLDEV_CMD_MONITOR

# What is done, and what an event of it says: source, kind, action, subject.
STEPS = [
    ("ip link add watch0 type veth peer name watch1", ("route", "link", "added", "watch0")),
    ("ip link set watch0 up", ("route", "link", "changed", "watch0")),
    ("ip link set watch1 up", ("route", "link", "changed", "watch1")),
    ("ip addr add 198.51.100.1/24 dev watch0", ("route", "address", "added", "198.51.100.1/24")),
    ("ip route add 203.0.113.0/24 via 198.51.100.2", ("route", "route", "added", "203.0.113.0/24")),
    (
        "ip neigh add 198.51.100.2 lladdr 02:00:00:00:00:01 dev watch0",
        ("route", "neighbour", "changed", "198.51.100.2"),
    ),
    ("ip rule add from 198.51.100.9 table 77", ("route", "rule", "added", "32765")),
    ("rdma link add watchrxe type rxe netdev watch0", ("uevent", "object", "added", "watchrxe")),
    ("rdma link del watchrxe", ("uevent", "object", "removed", "watchrxe")),
    ("ip rule del from 198.51.100.9 table 77", ("route", "rule", "removed", "32765")),
    (
        "ip neigh del 198.51.100.2 dev watch0",
        ("route", "neighbour", "removed", "198.51.100.2"),
    ),
    (
        "ip route del 203.0.113.0/24 via 198.51.100.2",
        ("route", "route", "removed", "203.0.113.0/24"),
    ),
    ("ip addr del 198.51.100.1/24 dev watch0", ("route", "address", "removed", "198.51.100.1/24")),
    ("ip link set watch1 down", ("route", "link", "changed", "watch0")),
    ("ip link del watch0", ("route", "link", "removed", "watch0")),
]
OF_RDMA = {
    "rdma link add watchrxe type rxe netdev watch0": [
        ("rdma", "device", "added", "watchrxe"),
        ("rdma", "netdev", "attached", "watchrxe"),
    ],
    "rdma link del watchrxe": [("rdma", "device", "removed", "watchrxe")],
}


class Watch:
    """`watch --json`, and the documents that it has printed."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.path = folder / "events"
        with self.path.open("wb") as out, (folder / "stderr").open("wb") as err:
            self.process = subprocess.Popen(
                [PROGRAM, "watch", "--json", *options], stdout=out, stderr=err
            )
        assert until(lambda: bool(self.path.stat().st_size), SECONDS), "it said nothing"

    def documents(self) -> list[dict[str, Any]]:
        lines = self.path.read_text().split("\n")[:-1]  # the last may be on its way
        return [json.loads(each) for each in lines]

    def events(self) -> list[dict[str, Any]]:
        return [each["event"] for each in self.documents()]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(SECONDS)


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., Watch]]:
    started: list[Watch] = []

    def start(*options: str) -> Watch:
        started.append(Watch(tmp_path, *options))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait(SECONDS)


def what(event: dict[str, Any]) -> tuple[str, ...]:
    return tuple(event[name] for name in ("source", "kind", "action", "subject"))


def seconds(event: dict[str, Any]) -> float:
    whole, _, part = event["time"].rstrip("Z").partition(".")
    return (
        time.mktime(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) - time.timezone + float(f"0.{part}")
    )


def test_each_change_is_named_and_timed(
    watch: Callable[..., Watch], run: Run, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    run(["modprobe", "rdma_rxe"], timeout=SECONDS)
    ring = tmp_path / "ring"
    given = tmp_path / "given"
    given.mkdir()
    script = tmp_path / "keep"
    script.write_text(f'#!/bin/sh\ncat > "$(mktemp {given}/XXXXXX)"\n')
    script.chmod(0o755)
    running = watch("--ring", str(ring), "--on-change", str(script))
    for command, expected in STEPS:
        wanted = [expected, *(OF_RDMA.get(command, []) if TELLS_OF_DEVICES else [])]
        known = len(running.events())
        before = time.time()
        done = run(command.split(), timeout=SECONDS)
        after = time.time()
        assert done.returncode == 0, f"{command}: {done.stderr}"
        for each in wanted:

            def seen(each: tuple[str, ...] = each, known: int = known) -> list[dict[str, Any]]:
                return [found for found in running.events()[known:] if what(found) == each]

            assert until(lambda seen=seen: bool(seen()), SECONDS), f"{command}: no {each}"  # type: ignore[misc]
            # Of a busy machine's kernel: the reader may come later than the command ends.
            assert before - 0.5 <= seconds(seen()[0]) <= after + LATE
    assert until(lambda: len(list(given.iterdir())) > len(STEPS), SECONDS)
    assert running.end() == 0
    documents = running.documents()
    for each in documents:
        assert_described(each)
    events = [each["event"] for each in documents]
    assert [each["number"] for each in events] == list(range(1, len(events) + 1))
    (down,) = [
        each
        for each in events
        if what(each) == ("route", "link", "changed", "watch0") and each["before"].get("carrier")
    ]
    assert down["details"]["carrier"] is False
    handed = [json.loads(each.read_text() or "{}") for each in given.iterdir()]
    assert [each for each in handed if each.get("event") not in events] == []
    code, out, _ = rdmadiag("explain", "--ring", str(ring), "--before", "3600", "--json", *LONGEST)
    document = json.loads(out)
    assert_described(document)
    assert document["events"] == events
    assert (code, document["unknown"]) == (3, ["it was not watched all that time"])
    (began,) = [each for each in events if each["action"] == "began"]
    span = str(seconds(events[-1]) - seconds(began) - 0.001)
    code, out, _ = rdmadiag("explain", "--ring", str(ring), "--before", span, *LONGEST)
    assert code == 0, out
    assert "link watch0 removed" in out


def test_a_kernel_that_does_not_tell_of_devices_is_said_to_be_one(
    watch: Callable[..., Watch], run: Run
) -> None:
    run(["modprobe", "ib_core"], timeout=SECONDS)
    running = watch("--for", "0")
    assert running.process.wait(SECONDS) == 0
    details = running.events()[0]["details"]
    assert ("rdma" in details["heard"].split(",")) == TELLS_OF_DEVICES
    assert ("unheard_rdma" in details) != TELLS_OF_DEVICES


def test_what_was_written_before_a_kill_is_in_the_ring(
    watch: Callable[..., Watch], run: Run, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    ring = str(tmp_path / "ring")
    running = watch("--ring", ring)
    for number in range(20):
        run(["ip", "addr", "add", f"198.51.100.{number}/32", "dev", "lo"], timeout=SECONDS)
    try:
        last = ("route", "address", "added", "198.51.100.19/32")
        assert until(lambda: last in map(what, running.events()), SECONDS)
        running.end(signal.SIGKILL)
    finally:
        run(["ip", "addr", "flush", "dev", "lo", "to", "198.51.100.0/24"], timeout=SECONDS)
    _, out, _ = rdmadiag("explain", "--ring", ring, "--json", *LONGEST)
    kept = {each["subject"] for each in json.loads(out)["events"] if each["kind"] == "address"}
    assert kept >= {f"198.51.100.{number}/32" for number in range(20)}
    _, out, _ = rdmadiag("explain", "--ring", ring, "--at", str(time.time() + 60), "--json")
    assert "it was not watched all that time" in json.loads(out)["unknown"]


def test_a_device_that_is_named_tells_of_its_port(
    watch: Callable[..., Watch], rxe_pair: tuple[Rxe, Rxe], run: Run
) -> None:
    device = rxe_pair[0]
    running = watch("--source", "kernel", "--async-events", device.name)
    assert until(lambda: uverbs_is_open(running.process.pid), SECONDS)
    run(["ip", "link", "set", device.netdev, "down"], timeout=SECONDS)

    def seen() -> list[Any]:
        return [each["details"]["event"] for each in running.events() if each["source"] == "async"]

    assert until(lambda: "IBV_EVENT_PORT_ERR" in seen(), SECONDS), running.events()
    assert running.end() == 0


def uverbs_is_open(parent: int) -> bool:
    """Whether a child of the process has a device open."""
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):  # it may end meanwhile
            if f"\nPPid:\t{parent}\n" in status.read_text():
                links = [os.readlink(each) for each in (status.parent / "fd").iterdir()]
                if any("/uverbs" in each for each in links):
                    return True
    return False


@pytest.mark.needs("netdevsim")
def test_a_health_reporter_that_fails_is_told(watch: Callable[..., Watch], run: Run) -> None:
    bus, debug = Path("/sys/bus/netdevsim"), Path("/sys/kernel/debug")
    if not (debug / "netdevsim").exists():
        run(["mount", "-t", "debugfs", "debugfs", str(debug)], timeout=SECONDS)
    running = watch("--source", "devlink")
    (bus / "new_device").write_text("14 1\n")
    try:
        handle = "netdevsim/netdevsim14"
        added = ("devlink", "device", "added", handle)
        assert until(lambda: added in map(what, running.events()), SECONDS)
        health = debug / "netdevsim" / "netdevsim14" / "health" / "break_health"
        assert until(health.exists, SECONDS)
        health.write_text("a fault\n")
        wanted = ("devlink", "health", "changed", handle)
        assert until(lambda: wanted in map(what, running.events()), SECONDS)
    finally:
        (bus / "del_device").write_text("14\n")
    gone = ("devlink", "device", "removed", handle)
    assert until(lambda: gone in map(what, running.events()), SECONDS)
    found = [each["details"] for each in running.events() if what(each) == wanted]
    assert {each["reporter"] for each in found} == {"dummy"}
    assert "error" in {each["state"] for each in found}


def test_the_kernels_log_is_followed_from_its_end(watch: Callable[..., Watch]) -> None:
    kmsg = Path("/dev/kmsg")
    kmsg.write_text("infiniband watched: before\n")
    running = watch("--source", "kernel")
    kmsg.write_text("infiniband watched: \x1b[31m after\n")
    kmsg.write_text("nothing of ours\n")

    def lines() -> list[str]:
        return [each["details"]["line"] for each in running.events() if each["kind"] == "line"]

    assert until(lambda: bool(lines()), SECONDS)
    assert running.end(signal.SIGINT) == 0
    assert [re.sub(r"[^a-z :]", "", each) for each in lines()] == ["infiniband watched: xbm after"]
