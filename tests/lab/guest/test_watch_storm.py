"""watch where much happens, and where nothing does: what it loses it says, and what it costs."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import until
from tests.lab.guest.test_watch import SECONDS, Watch, watch

__all__ = ("watch",)

pytestmark = pytest.mark.events

Run = Callable[..., Any]

A_SECOND = 1000  # changes
LASTS = 10  # seconds
IDLE = 30.0  # seconds
TICKS = os.sysconf("SC_CLK_TCK")


def cpu(pid: int) -> float:
    """Seconds of processor time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def most_memory(pid: int) -> float:
    """MiB: VmHWM."""
    rows = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(rows["VmHWM"].split()[0]) / 1024


def storm() -> float:
    """Addresses that come and go, A_SECOND of both together; how many seconds it took."""
    ip = subprocess.Popen(["ip", "-batch", "-"], stdin=subprocess.PIPE, text=True)
    assert ip.stdin is not None
    start = time.monotonic()
    step = A_SECOND // 20
    for at in range(0, A_SECOND * LASTS, step):
        lines = []
        for number in range(at, at + step):
            address = f"10.{number // 2 >> 8 & 255}.{number // 2 & 255}.1/32"
            lines.append(f"addr {'del' if number % 2 else 'add'} {address} dev lo\n")
        ip.stdin.write("".join(lines))
        ip.stdin.flush()
        time.sleep(max(0.0, start + (at + step) / A_SECOND - time.monotonic()))
    ip.stdin.close()
    assert ip.wait(SECONDS) == 0
    return time.monotonic() - start


def test_of_a_thousand_changes_a_second_none_is_lost_or_the_loss_is_said(
    watch: Callable[..., Watch], tmp_path: Path
) -> None:
    ring = tmp_path / "ring"
    running = watch("--source", "route", "--ring", str(ring), "--ring-size", "64")
    before = cpu(running.process.pid)
    took = storm()
    last = A_SECOND * LASTS // 2 - 1
    subject = f"10.{last >> 8 & 255}.{last & 255}.1/32"

    def over() -> bool:
        tail = running.path.read_bytes()[-20_000:].decode(errors="replace")
        return subject in tail

    until(over, SECONDS)
    time.sleep(2)
    used = cpu(running.process.pid) - before
    memory = most_memory(running.process.pid)
    code = running.end(signal.SIGTERM)
    events = running.events()
    changed = [
        each["action"]
        for each in events
        if each["kind"] == "address" and each["subject"].startswith("10.")
    ]
    losses = [each for each in events if each["kind"] == "loss"]
    result = {
        "changes": A_SECOND * LASTS,
        "seconds": round(took, 2),
        "of addresses": len(changed),
        "events": len(events),
        "losses": len(losses),
        "cpu seconds": round(used, 2),
        "MiB": round(memory, 1),
        "exit code": code,
    }
    note("storm", result)
    assert len(changed) == A_SECOND * LASTS or losses, result
    assert code == (3 if losses else 0)
    assert memory <= 60, result


@pytest.mark.other_kernels(0)
def test_idle_it_sleeps(watch: Callable[..., Watch]) -> None:
    """Counted in times that it woke up: of a guest that is stopped now and then, processor time
    says how busy the machine below it is. It is noted."""
    running = watch()
    time.sleep(2)
    pid = running.process.pid
    before, woken = cpu(pid), wakeups(pid)
    time.sleep(IDLE)
    share = (cpu(pid) - before) / IDLE
    woken = wakeups(pid) - woken
    memory = most_memory(pid)
    events = running.events()
    result = {
        "share of a processor": round(share, 4),
        "wakeups": woken,
        "events": len(events),
        "MiB": round(memory, 1),
    }
    note("idle", result)
    assert running.end() == 0
    assert woken <= IDLE / 10 + 2 + 2 * len(events), result
    assert memory <= 60, result


def wakeups(pid: int) -> int:
    """Times that it has gone to sleep."""
    rows = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(rows["voluntary_ctxt_switches"])


def note(name: str, result: dict[str, Any]) -> None:
    """Into the folder of the lab's results."""
    if folder := os.environ.get("RDMADIAG_LAB_OUT"):
        Path(folder, f"watch-{name}.json").write_text(json.dumps(result) + "\n")
