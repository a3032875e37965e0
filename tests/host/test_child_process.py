"""Children of a parent that is killed: they end with it, and hold nothing of its caller's."""

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rdmadiag.facts import Missing
from rdmadiag.host import child_process, isolation
from rdmadiag.host.isolation import SideBySide

SOON = 10.0  # seconds, on a machine that is busy; by itself it takes milliseconds

PARENT = """
import os, signal, sys, time
from rdmadiag.host import command
from rdmadiag.host.isolation import SideBySide

folder, sys.platform = sys.argv[1:3]

def note(name):
    with open(f"{folder}/{name}.part", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"{folder}/{name}.part", f"{folder}/{name}")

def hang():
    note("hang")
    while True:
        signal.pause()

def deaf():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    note("deaf")
    time.sleep(600)

def start():
    note("start")
    line = f"echo $$ > {folder}/part; mv {folder}/part {folder}/command; exec sleep 600"
    command.run(["sh", "-c", line], time.monotonic() + 600)

def answer():
    note("answer")
    return b"x" * (1 << 24)

def reads():
    note("reads")
    sys.stdin.read()
    time.sleep(600)

running = SideBySide()
for task in (hang, deaf, start, answer, reads):
    running.start(task.__name__, task)
running.collect(time.monotonic() + 600)
"""
TASKS = {"hang", "deaf", "start", "command", "answer", "reads"}


def has_ended(pid: int) -> bool:
    """Whether it is gone, or has only to be waited for by whoever has inherited it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def until(true: Any) -> bool:
    end = time.monotonic() + SOON
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_parent_that_is_killed_leaves_no_child_and_no_open_stream(
    tmp_path: Path, platform: str
) -> None:
    """Asked of a Linux that calls itself macOS too: SIGIO from a pipe is the same on both."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), platform],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as parent:
        assert parent.stdout
        try:
            assert until(lambda: set(os.listdir(tmp_path)) >= TASKS), os.listdir(tmp_path)
            pids = {name: int((tmp_path / name).read_text()) for name in TASKS}
            assert not any(has_ended(pids[name]) for name in TASKS - {"answer"})
        finally:
            parent.kill()
        try:
            assert select.select([parent.stdout], [], [], SOON)[0], "nobody holds it open"
            assert parent.stdout.read() == b""
            assert until(lambda: all(map(has_ended, pids.values()))), pids
        finally:
            for pid in pids.values():
                if not has_ended(pid):
                    os.kill(pid, signal.SIGKILL)


LATE = """
import os, subprocess, sys, time
from rdmadiag.host import command, isolation
from rdmadiag.host.isolation import SideBySide

folder, sys.platform = sys.argv[1:3]

class Slow(subprocess.Popen):
    def __init__(self, *args, **how):  # the command runs before whoever starts it goes on
        super().__init__(*args, **how)
        time.sleep(float(sys.argv[3]))

command.subprocess.Popen = Slow
isolation._ENDS_ITSELF_SECONDS = 20.0  # on a machine that is busy

def start():
    line = f"echo $$ > {folder}/part; mv {folder}/part {folder}/command; exec sleep 600"
    command.run(["sh", "-c", line], time.monotonic() + 600)

running = SideBySide()
running.start("start", start)
while not os.path.exists(f"{folder}/command"):
    time.sleep(0.01)
print(running.collect(time.monotonic())["start"])
"""


@pytest.mark.parametrize("slow", [0.0, 0.5], ids=["at once", "while it is started"])
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_child_that_is_killed_at_its_deadline_leaves_no_command(
    tmp_path: Path, platform: str, slow: float
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LATE, str(tmp_path), platform, str(slow)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60,
        check=True,
    )
    pid = int((tmp_path / "command").read_text())
    try:
        assert "was killed" in ran.stdout
        assert until(lambda: has_ended(pid))
    finally:
        if not has_ended(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_child_holds_none_of_the_callers_streams_and_no_pipe_of_the_others() -> None:
    """One that the kernel holds cannot end: what it had of the caller's would stay open."""

    def held() -> dict[str, str]:
        return {
            name: os.readlink(f"/proc/self/fd/{name}")
            for name in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{name}")
        }

    before = set(held().values())
    running = SideBySide()
    for name in ("one", "two", "three"):
        running.start(name, held)
    for found in running.collect(time.monotonic() + 20).values():
        assert {found.pop(name) for name in ("0", "1", "2")} == {os.devnull}
        new = [target for target in found.values() if target not in before]
        assert sum(target.startswith("pipe:") for target in new) == 1, "its own answer's"


def test_a_caller_without_streams_gets_its_answers(tmp_path: Path) -> None:
    code = (
        "import time\n"
        "from rdmadiag.host.isolation import SideBySide\n"
        "running = SideBySide()\n"
        "running.start('one', lambda: 1)\n"
        "running.start('two', lambda: 2)\n"
        f"open({str(tmp_path / 'out')!r}, 'w').write(str(running.collect(time.monotonic() + 20)))"
    )
    subprocess.run(
        ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        timeout=60,
    )
    assert (tmp_path / "out").read_text() == "{'one': 1, 'two': 2}"


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_child_whose_parent_has_ended_before_it_was_bound_ends_at_once(
    monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    child_process.prepare()
    reader, writer = os.pipe()
    other = os.getppid()
    pid = os.fork()
    if not pid:
        os.close(reader)
        if platform == "darwin":
            time.sleep(0.2)
        child_process.bind(other, writer)
        os._exit(7)
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    os.close(writer)
    assert os.waitstatus_to_exitcode(status) == 0


def test_one_that_cannot_be_killed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process in an uninterruptible sleep is: killed, not gone, state D."""
    real = isolation._reap
    pids = []

    def still_there(pid: int, seconds: float) -> None:
        pids.append(pid)
        real(pid, 5.0)

    monkeypatch.setattr(isolation, "_reap", still_there)
    monkeypatch.setattr(child_process, "is_stuck", lambda pid: True)
    running = SideBySide()
    running.start("late", signal.pause)
    late = running.collect(time.monotonic() + 0.2)["late"]
    assert isinstance(late, Missing)
    assert late.detail == f"late: no answer before the deadline; process {pids[0]} cannot be killed"
