"""Commands under a deadline: what they print, and that none outlives it."""

import os
import shutil
import signal
import sys
import tempfile
import time

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.host import command
from rdmadiag.host.answers import OUTPUT_LIMIT, Ran
from rdmadiag.host.child_process import is_stuck
from rdmadiag.host.command import finish, run
from rdmadiag.host.isolation import SideBySide


def gone(pid):
    """Whether the process has ended, be it a zombie that waits for its parent."""
    for _ in range(200):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_it_ends_with_its_code_and_both_outputs(soon):
    ran = run(["sh", "-c", "echo out; echo err >&2; exit 3"], soon)
    assert ran == Ran(3, b"out\n", b"err\n")


def test_it_runs_in_the_c_locale_with_nothing_on_its_input(soon):
    ran = run(["sh", "-c", 'echo "$LC_ALL"; cat; echo end'], soon)
    assert ran == Ran(0, b"C\nend\n", b"")


@pytest.mark.parametrize(
    ("name", "why"),
    [("no-such-program", Why.ABSENT), ("/etc/passwd", Why.DENIED)],
    ids=["a program that is not there", "a file that is no program"],
)
def test_what_cannot_be_started_is_missing(name, why, soon):
    found = run([name], soon)
    assert isinstance(found, Missing)
    assert (found.why, found.detail.partition(":")[0]) == (why, name)


def test_what_it_prints_too_much_is_dropped_and_it_still_ends(soon):
    program = f"import sys; sys.stdout.write('x' * {3 * OUTPUT_LIMIT}); sys.stderr.write('done')"
    ran = run([sys.executable, "-c", program], soon)
    assert (ran.returncode, len(ran.stdout), ran.stderr) == (0, OUTPUT_LIMIT, b"done")


@pytest.mark.parametrize(
    "program",
    ["exec sleep 60", "trap '' TERM INT HUP; while :; do sleep 1; done", "kill -STOP $$"],
    ids=["one that sleeps", "one that ignores SIGTERM", "one that has stopped itself"],
)
def test_a_late_one_is_killed_and_its_pid_named(program):
    began = time.monotonic()
    found = run(["sh", "-c", program], began + 0.3)
    assert time.monotonic() - began < 20
    assert found.why is Why.TIMEOUT
    assert found.detail.startswith("sh: no end before the deadline, pid ")
    assert gone(int(found.detail.split()[-2]))


def test_a_late_one_takes_its_children_with_it(tmp_path):
    program = f"sleep 61 & echo $! > {tmp_path}/pid; sleep 62; wait"
    assert run(["sh", "-c", program], time.monotonic() + 0.3).why is Why.TIMEOUT
    assert gone(int((tmp_path / "pid").read_text()))


def test_what_one_has_written_by_its_deadline_is_read_after_it(monkeypatch):
    drain = command._Capped._drain

    def slow(self):
        time.sleep(0.3)  # a thread that a busy machine does not let run
        drain(self)

    monkeypatch.setattr(command._Capped, "_drain", slow)
    ended = finish(["echo", "whole"], time.monotonic() + 0.2)
    assert (ended.stdout, ended.returncode, ended.output_held) == (b"whole\n", 0, False)


def test_a_grandchild_that_holds_the_output_open_is_not_waited_for():
    began = time.monotonic()
    found = run(["sh", "-c", "sleep 63 & echo early"], began + 0.4)
    assert time.monotonic() - began < 20
    assert found == Missing(Why.TIMEOUT, "sh: a child of it holds its output open")


def test_a_grandchild_in_a_session_of_its_own_is_abandoned(tmp_path):
    began = time.monotonic()
    found = run(
        ["sh", "-c", f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 64' &"], began + 1
    )
    assert time.monotonic() - began < 20
    assert found == Missing(Why.TIMEOUT, "sh: a child of it holds its output open")
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start what it may not kill")
def test_one_that_we_may_not_kill_is_abandoned():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        become_root = shutil.copy("/usr/bin/setpriv", folder)
        os.chmod(become_root, 0o4755)

        def unprivileged():
            os.setresuid(65534, 65534, 0)
            found = run([become_root, "--reuid=0", "sleep", "2"], time.monotonic() + 0.3)
            os.setresuid(0, 0, 0)
            return found

        running = SideBySide()
        running.start("nobody", unprivileged)
        found = running.collect(time.monotonic() + 20)["nobody"]
    assert (found.why, found.detail.split(":")[0]) == (Why.TIMEOUT, become_root)


def test_after_its_deadline_nothing_is_started(past, tmp_path):
    found = run(["touch", str(tmp_path / "started")], past)
    assert (found.why, os.listdir(tmp_path)) == (Why.TIMEOUT, [])


def test_a_killed_one_leaves_no_zombie():
    found = run(["sleep", "66"], time.monotonic() + 0.1)
    pid = int(found.detail.split()[-2])
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def test_a_killed_one_is_stuck_only_where_the_kernel_holds_it():
    late = finish(["sleep", "67"], time.monotonic() + 0.1)
    assert (late.returncode, late.reaped) == (None, True)
    assert not is_stuck(os.getpid())
    assert not is_stuck(late.pid)


def test_one_that_cannot_be_killed_is_named(monkeypatch):
    really = command.abandon
    monkeypatch.setattr(command, "abandon", lambda child: really(child) and False)
    found = run(["sleep", "68"], time.monotonic() + 0.1)
    assert found.why is Why.TIMEOUT
    assert found.detail.endswith(" cannot be killed")
