"""Tasks in forked children: results, failures, deadlines, and nothing left behind."""

import errno
import faulthandler
import fcntl
import multiprocessing
import os
import resource
import signal
import stat
import sys
import time
from functools import partial

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.host import isolation
from rdmadiag.host.isolation import MEMORY, InFewChildren, SideBySide


@pytest.fixture(
    params=[SideBySide, InFewChildren, partial(InFewChildren, MEMORY)],
    ids=["a child each", "a few children", "two of what is given"],
)
def collect(request):
    def collected(seconds=20.0, **tasks):
        running = request.param()
        for name, task in tasks.items():
            running.start(name, task)
        return running.collect(time.monotonic() + seconds)

    return collected


def raises(error):
    raise error


def hang():
    while True:
        signal.pause()


def deaf():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    hang()


def open_files():
    return sorted(os.listdir("/proc/self/fd"))


def children():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return file.read().split()


def answer_pipe(known):
    """In a child: the pipe that its answer goes to, the one that the parent had not open."""
    for name in set(open_files()) - set(known):
        try:
            kind, flags = os.fstat(int(name)).st_mode, fcntl.fcntl(int(name), fcntl.F_GETFL)
        except OSError:
            continue
        if stat.S_ISFIFO(kind) and flags & os.O_ACCMODE == os.O_WRONLY:
            return int(name)
    raise AssertionError("no pipe for the answer")


class BadState:
    """Pickles, and cannot be put together again."""

    def __reduce__(self):
        return int, ("not a number",)


class TooDeep:
    """Cannot be pickled: each part holds one more."""

    def __reduce__(self):
        return TooDeep, (TooDeep(),)


def test_each_result_comes_back_under_its_name(collect):
    assert collect(one=lambda: 1, none=lambda: None, missing=lambda: Missing(Why.DENIED)) == {
        "one": 1,
        "none": None,
        "missing": Missing(Why.DENIED),
    }


def test_no_tasks_are_no_results(collect):
    assert collect() == {}


def test_they_run_at_the_same_time(collect):
    everybody = multiprocessing.get_context("fork").Barrier(2)

    def meet():
        everybody.wait(20)
        return "met"

    assert collect(20, **{f"task{number}": meet for number in range(2)}) == {
        f"task{number}": "met" for number in range(2)
    }


def test_a_result_of_many_megabytes_arrives_whole(collect):
    big = bytes(range(256)) * (16 * 4096)
    assert collect(big=lambda: big, other=lambda: big[::-1]) == {"big": big, "other": big[::-1]}


def test_an_exception_is_a_missing_that_calls_it_a_bug_and_the_rest_is_complete(collect):
    found = collect(bad=lambda: raises(KeyError("ports")), good=lambda: "whole")
    assert found == {
        "bad": Missing(Why.MALFORMED, "bad: a bug of rdmadiag: KeyError('ports')"),
        "good": "whole",
    }


def test_a_child_that_ran_out_of_memory_or_descriptors_is_no_bug(collect):
    full = OSError(errno.EMFILE, "Too many open files")
    assert collect(bad=lambda: raises(full), worse=lambda: raises(MemoryError())) == {
        "bad": Missing(Why.EXHAUSTED, f"bad: {full!r}"),
        "worse": Missing(Why.EXHAUSTED, "worse: takes more memory than it may"),
    }


def test_the_traceback_is_shown_only_when_debugging(collect, capfd, monkeypatch):
    monkeypatch.delenv("RDMADIAG_DEBUG", raising=False)
    collect(bad=lambda: raises(KeyError("ports")))
    assert capfd.readouterr().err == ""
    monkeypatch.setenv("RDMADIAG_DEBUG", "1")
    collect(bad=lambda: raises(KeyError("ports")))
    assert "Traceback" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_a_child_that_a_signal_ends_is_missing_and_the_rest_is_complete(collect, number):
    found = collect(dead=lambda: os.kill(os.getpid(), number), good=lambda: "whole")
    assert found == {
        "dead": Missing(Why.MALFORMED, f"dead: its process was ended by signal {number:d}"),
        "good": "whole",
    }


@pytest.mark.parametrize("leave", [SystemExit, KeyboardInterrupt], ids=["exit", "interrupt"])
def test_a_child_that_leaves_without_an_answer_is_missing(collect, leave):
    assert collect(gone=lambda: raises(leave())) == {
        "gone": Missing(Why.MALFORMED, "gone: its process ended without an answer")
    }


@pytest.mark.parametrize("task", [hang, deaf], ids=["one that hangs", "one that ignores SIGTERM"])
def test_a_late_child_is_killed_its_pid_named_and_the_rest_is_complete(collect, task):
    began = time.monotonic()
    found = collect(0.4, late=task, good=lambda: "whole")
    assert time.monotonic() - began < 10
    assert found["good"] == "whole"
    assert found["late"].why is Why.TIMEOUT
    assert found["late"].detail.startswith("late: no answer before the deadline; process ")
    assert ends(int(found["late"].detail.split()[-3]))


def ends(pid):
    """Whether a killed child ends; on a busy machine later than `collect` waits for it."""
    limit = time.monotonic() + 20
    while time.monotonic() < limit:
        try:
            if os.waitpid(pid, os.WNOHANG) != (0, 0):
                return True
        except ChildProcessError:  # `collect` has waited for it
            return True
        time.sleep(0.01)
    return False


def test_a_child_that_stops_in_the_middle_of_its_answer_is_late(collect):
    known = open_files()

    def half():
        os.write(answer_pipe(known), isolation._sent("half", True, b"x" * 100)[:50])
        hang()

    assert collect(0.4, half=half)["half"].why is Why.TIMEOUT


def test_a_child_that_dies_in_the_middle_of_its_answer_is_missing(collect):
    known = open_files()

    def half():
        os.write(answer_pipe(known), isolation._sent("half", True, b"x" * 100)[:50])
        os.kill(os.getpid(), signal.SIGKILL)

    assert collect(half=half) == {
        "half": Missing(Why.MALFORMED, "half: its process was ended by signal 9")
    }


def test_a_deadline_that_has_passed_makes_every_task_late(collect):
    found = collect(-1, one=hang, two=hang)
    assert {missing.why for missing in found.values()} == {Why.TIMEOUT}


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (lambda: lambda: 1, "a bug of rdmadiag: "),
        (TooDeep, "a bug of rdmadiag: RecursionError"),
        (BadState, "its answer cannot be read"),
    ],
    ids=["a function", "one without an end", "one that cannot be read back"],
)
def test_a_result_that_cannot_travel_is_missing_and_the_rest_is_complete(collect, result, reason):
    found = collect(stuck=result, good=lambda: "whole")
    assert found["good"] == "whole"
    assert found["stuck"].why is Why.MALFORMED
    assert found["stuck"].detail.startswith(f"stuck: {reason}")


def test_no_zombie_and_no_open_file_is_left(collect):
    before = open_files(), children()
    for _ in range(5):
        collect(one=lambda: 1, bad=lambda: raises(ValueError()), late=lambda: None)
    assert (open_files(), children()) == before
    late = collect(0.2, late=hang)["late"]
    assert open_files() == before[0]
    # A killed one may take longer to die than we wait for it; then it is init's to reap.
    assert set(children()) <= {*before[1], late.detail.split()[-3]}


def test_it_can_be_used_again():
    running = SideBySide()
    running.start("one", lambda: 1)
    assert running.collect(time.monotonic() + 20) == {"one": 1}
    running.start("two", lambda: 2)
    assert running.collect(time.monotonic() + 20) == {"two": 2}


def test_who_ignores_sigchld_gets_the_results_all_the_same(collect):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        found = collect(0.5, one=lambda: 1, bad=lambda: raises(ValueError("x")), late=hang)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert found["one"] == 1
    assert found["bad"] == Missing(Why.MALFORMED, "bad: a bug of rdmadiag: ValueError('x')")
    assert found["late"].why is Why.TIMEOUT


def test_a_child_that_lingers_after_its_answer_is_not_waited_for_without_end(collect):
    known = open_files()

    def linger():
        writer = answer_pipe(known)
        os.write(writer, isolation._sent("lingers", True, "early"))
        os.close(writer)
        hang()

    began = time.monotonic()
    found = collect(lingers=linger)
    os.kill(int(children()[-1]), signal.SIGKILL)
    os.wait()
    assert found == {"lingers": "early"}
    assert time.monotonic() - began < 20


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_tasks_beyond_the_limit_of_processes_are_missing_and_leave_nothing_open(collect):
    def crowded():
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        os.setresuid(65534, 65534, 0)
        before = open_files()
        running = SideBySide()
        running.start("one", lambda: 1)
        found = running.collect(time.monotonic() + 5), open_files() == before
        os.setresuid(0, 0, 0)
        return found

    assert collect(crowded=crowded)["crowded"] == (
        {
            "one": Missing(Why.EXHAUSTED, "one: no process could be started: EAGAIN"),
        },
        True,
    )


def test_tasks_that_no_process_can_be_started_for_are_missing(collect):
    def crowded():
        resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
        running = SideBySide()
        running.start("one", lambda: 1)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return running.collect(time.monotonic() + 5)

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert collect(crowded=crowded)["crowded"] == {
        "one": Missing(Why.EXHAUSTED, "one: no process could be started: EMFILE")
    }


@pytest.mark.parametrize("stream", [None, "closed"], ids=["no stdout", "a closed stdout"])
def test_it_works_without_a_stdout(collect, stream, monkeypatch, tmp_path):
    if stream:
        stream = (tmp_path / "out").open("w")
        stream.close()
    monkeypatch.setattr(sys, "stdout", stream)
    assert collect(one=lambda: 1) == {"one": 1}


@pytest.fixture
def on_ctrl_c():
    """Python's own handler; a program that runs tests may ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("on_ctrl_c")
def test_a_ctrl_c_during_the_fork_reaches_the_parent_and_not_the_childs_python(monkeypatch):
    fork = os.fork

    def interrupted_fork():
        signal.raise_signal(signal.SIGINT)  # of this thread
        return fork()

    monkeypatch.setattr(isolation.os, "fork", interrupted_fork)
    running = SideBySide()
    with pytest.raises(KeyboardInterrupt):
        running.start("one", lambda: "answer")
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.usefixtures("on_ctrl_c")
def test_a_child_ends_by_a_ctrl_c_as_programs_do(collect):
    killed = collect(one=lambda: os.kill(os.getpid(), signal.SIGINT))
    assert killed == {"one": Missing(Why.MALFORMED, "one: its process was ended by signal 2")}


# --- a few that share the tasks -----------------------------------------------------------------


def in_few(seconds=20.0, **tasks):
    running = InFewChildren()
    for name, task in tasks.items():
        running.start(name, task)
    return running.collect(time.monotonic() + seconds)


@pytest.fixture
def two_processors(monkeypatch):
    monkeypatch.setattr(isolation.os, "sched_getaffinity", lambda _: {0, 1})


@pytest.mark.usefixtures("two_processors")
def test_ten_quick_tasks_take_few_children(monkeypatch):
    monkeypatch.setattr(InFewChildren, "_patience", 20.0)
    found = in_few(**{f"task{number}": os.getpid for number in range(10)})
    assert len(found) == 10
    assert 1 <= len(set(found.values())) <= 2


@pytest.mark.usefixtures("two_processors")
def test_tasks_that_hang_hold_up_no_other_and_are_late_themselves():
    hanging = {f"late{number}": hang for number in range(5)}
    found = in_few(3.0, **hanging, **{f"task{number}": os.getpid for number in range(5)})
    assert all(isinstance(found[f"task{number}"], int) for number in range(5))
    assert {found[name].why for name in hanging} == {Why.TIMEOUT}
    assert len({found[name].detail.split()[-3] for name in hanging}) == 5


@pytest.mark.usefixtures("two_processors")
def test_tasks_that_end_their_children_cost_the_others_nothing():
    def dies():
        os.kill(os.getpid(), signal.SIGKILL)

    found = in_few(**{f"dead{number}": dies for number in range(5)}, good=lambda: "whole")
    assert found == {
        "good": "whole",
        **{
            f"dead{number}": Missing(
                Why.MALFORMED, f"dead{number}: its process was ended by signal 9"
            )
            for number in range(5)
        },
    }


@pytest.mark.usefixtures("two_processors")
def test_an_answer_that_cannot_be_read_costs_the_next_of_its_child_nothing():
    found = in_few(**{f"bad{number}": BadState for number in range(3)}, good=lambda: "whole")
    assert found.pop("good") == "whole"
    assert {each.detail.partition(": ")[2] for each in found.values()} == {
        "its answer cannot be read"
    }


def test_tasks_that_were_begun_run_while_the_caller_does_something_else():
    meeting = multiprocessing.get_context("fork").Event()
    running = InFewChildren()
    running.start("one", meeting.set)
    running.begin()
    assert meeting.wait(20)
    assert running.collect(time.monotonic() + 20) == {"one": None}


# --- of what a user names -----------------------------------------------------------------------


def in_two(seconds=20.0, **tasks):
    running = InFewChildren(isolation.MEMORY)
    for name, task in tasks.items():
        running.start(name, task)
    return running.collect(time.monotonic() + seconds)


def test_of_what_is_given_no_more_than_two_are_read_at_a_time():
    found = in_two(0.5, one=os.getpid, late=hang, more=hang, after=os.getpid)
    assert isinstance(found["one"], int)
    assert {found[name].why for name in ("late", "more", "after")} == {Why.TIMEOUT}
    assert all("was killed" in found[name].detail for name in ("late", "more"))
    assert found["after"].detail == "after: not read before the deadline"


def test_of_what_is_given_one_that_crashes_costs_nothing_of_the_others():
    def dies():
        faulthandler.disable()  # pytest's would write a trace into the output
        os.kill(os.getpid(), signal.SIGSEGV)

    found = in_two(dies=dies, falls=dies, after=lambda: 3)
    for name in ("dies", "falls"):
        assert found[name] == Missing(Why.MALFORMED, f"{name}: its process was ended by signal 11")
    assert found["after"] == 3


def test_of_what_is_given_no_more_than_so_much_memory_is_had(monkeypatch):
    monkeypatch.setattr(isolation, "MEMORY", 64 << 20)
    found = in_two(large=lambda: len(bytes(128 << 20)), small=lambda: len(bytes(1 << 20)))
    assert found["large"] == Missing(Why.EXHAUSTED, "large: takes more memory than it may")
    assert found["small"] == 1 << 20
