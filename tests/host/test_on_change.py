"""A command for each event: one at a time, in order, each under its deadline."""

import sys
import time

import pytest

from rdmadiag.host import on_change
from rdmadiag.host.on_change import OnChange, Ran


def finished(command, seconds=20.0):
    found = []
    until = time.monotonic() + seconds
    while command.busy and time.monotonic() < until:
        found += command.step()
        time.sleep(0.005)
    return found


def script(tmp_path, text):
    path = tmp_path / "said"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_each_event_is_on_the_commands_standard_input_in_its_order(tmp_path):
    out = tmp_path / "out"
    command = OnChange([script(tmp_path, 'cat >> "$1"'), str(out)], 10)
    for number in range(5):
        command.hand_over(number, b"event %d\n" % number)
    assert {each.why for each in finished(command)} == {None}
    assert out.read_text() == "".join(f"event {number}\n" for number in range(5))
    assert (command.deadline, command.busy) == (None, False)


def test_there_is_no_shell(tmp_path):
    mark = tmp_path / "mark"
    command = OnChange(["/bin/echo", f"$(touch {mark})", ";", "touch", str(mark)], 10)
    command.hand_over(1, b"x")
    assert finished(command) == [Ran(1, None)]
    assert not mark.exists()


def test_one_runs_at_a_time(tmp_path):
    lock = tmp_path / "lock"
    command = OnChange([script(tmp_path, f"mkdir {lock} && sleep 0.05 && rmdir {lock}")], 10)
    for number in range(3):
        command.hand_over(number, b"")
    assert [each.why for each in finished(command)] == [None] * 3


def test_one_that_does_not_end_is_killed_with_its_children(tmp_path):
    pids = tmp_path / "pids"
    command = OnChange([script(tmp_path, f"sleep 77 & echo $! > {pids}; sleep 77")], 0.3)
    command.hand_over(1, b"x")
    (ended,) = finished(command)
    assert ended == Ran(1, "no end within 0.3 s: it was killed")
    child = int(pids.read_text())
    until = time.monotonic() + 10
    while time.monotonic() < until and running(child):
        time.sleep(0.01)
    assert not running(child)


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("text", "why"),
    [("exit 3", "exit code 3"), ("kill -9 $$", "ended by signal 9")],
)
def test_how_one_failed_is_said(text, why, tmp_path):
    command = OnChange([script(tmp_path, text)], 10)
    command.hand_over(7, b"x")
    assert finished(command) == [Ran(7, why)]


def test_one_that_is_not_there_is_said(tmp_path):
    command = OnChange([str(tmp_path / "none")], 10)
    command.hand_over(1, b"x")
    command.hand_over(2, b"x")
    assert [each.why for each in finished(command)] == [
        f"{tmp_path / 'none'}: No such file or directory"
    ] * 2


def test_one_that_does_not_read_its_input_costs_nothing():
    command = OnChange(["/bin/true"], 10)
    command.hand_over(1, b"x" * 60_000)
    assert finished(command) == [Ran(1, None)]


def test_more_than_wait_may_are_counted(monkeypatch):
    monkeypatch.setattr(on_change, "WAITING", 2)
    command = OnChange(["/bin/true"], 10)
    for number in range(5):
        command.hand_over(number, b"x")
    command.hand_over(9, b"x" * 70_000)
    assert command.left_out == 4


def test_closing_kills_what_runs_and_leaves_what_has_ended_alone():
    command = OnChange([sys.executable, "-c", "import time; time.sleep(77)"], 60)
    command.hand_over(1, b"")
    command.step()
    assert not command.ended()
    command.close()
    assert not command.busy
    command.close()
    command = OnChange(["/bin/true"], 60)
    command.hand_over(1, b"")
    command.step()
    until = time.monotonic() + 20
    while not command.ended() and time.monotonic() < until:
        time.sleep(0.005)
    command.close()
    assert command.ended()


def test_what_it_prints_is_not_on_stdout(capfd):
    command = OnChange(["/bin/echo", "said"], 10)
    command.hand_over(1, b"")
    finished(command)
    assert capfd.readouterr() == ("", "said\n")
