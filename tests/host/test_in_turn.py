"""Tasks in this process: results, failures, the deadline, and no process started."""

import errno
import os
import time

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.host.in_turn import InTurn


def collect(seconds=20.0, waiting_for=None, **tasks):
    running = InTurn()
    for name, task in tasks.items():
        running.start(name, task)
    return running.collect(time.monotonic() + seconds, waiting_for)


def raises(error):
    raise error


def test_each_result_is_found_under_its_name_in_the_order_of_their_start():
    order = []
    found = collect(
        one=lambda: order.append("one") or 1,
        pid=lambda: order.append("pid") or os.getpid(),
        missing=lambda: Missing(Why.DENIED),
    )
    assert found == {"one": 1, "pid": os.getpid(), "missing": Missing(Why.DENIED)}
    assert order == ["one", "pid"]


@pytest.mark.parametrize(
    "error", [KeyError("ports"), RecursionError(), OSError(5, "EIO")], ids=repr
)
def test_an_exception_is_a_missing_that_calls_it_a_bug_and_the_rest_is_complete(error):
    found = collect(bad=lambda: raises(error), good=lambda: "whole")
    assert found == {
        "bad": Missing(Why.MALFORMED, f"bad: a bug of rdmadiag: {error!r}"),
        "good": "whole",
    }


@pytest.mark.parametrize(
    "error", [MemoryError(), OSError(errno.EMFILE, "x"), OSError(errno.ENFILE, "x")], ids=repr
)
def test_a_task_that_ran_out_of_something_is_no_bug(error):
    found = collect(bad=lambda: raises(error), good=lambda: "whole")
    assert found == {"bad": Missing(Why.EXHAUSTED, f"bad: {error!r}"), "good": "whole"}


def test_the_traceback_is_shown_only_when_debugging(capfd, monkeypatch):
    monkeypatch.delenv("RDMADIAG_DEBUG", raising=False)
    collect(bad=lambda: raises(KeyError("ports")))
    assert capfd.readouterr().err == ""
    monkeypatch.setenv("RDMADIAG_DEBUG", "1")
    collect(bad=lambda: raises(KeyError("ports")))
    assert "in raises" in capfd.readouterr().err


def test_after_the_deadline_nothing_more_is_read():
    found = collect(0.05, slow=lambda: time.sleep(0.1), never=lambda: raises(AssertionError()))
    assert found["slow"] is None
    assert found["never"] == Missing(Why.TIMEOUT, "never: not read before the deadline")


def test_a_person_is_told_of_those_that_wait_once_a_second(monkeypatch):
    moment, waited = [0.0], []
    monkeypatch.setattr("rdmadiag.host.in_turn.time.monotonic", lambda: moment[0])

    def takes(seconds):
        moment[0] += seconds

    running = InTurn()
    running.start("short", lambda: takes(0.1))
    running.start("long", lambda: takes(1.5))
    running.start("last", lambda: None)
    running.collect(20.0, lambda names: waited.append(set(names)))
    assert waited == [{"last"}]


def test_an_exit_that_a_user_asks_for_is_not_held_up():
    with pytest.raises(KeyboardInterrupt):
        collect(stopped=lambda: raises(KeyboardInterrupt()))
