"""Files that a user names, and what is in them: no command takes longer, or more, than it may."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rdmadiag.cli import budget
from tests.cli.conftest import Outcome


@pytest.fixture
def record(tmp_path: Path, rdmadiag: Callable[..., Outcome]) -> str:
    """A small record that a user names."""
    path = str(tmp_path / "host.tar.gz")
    assert rdmadiag("snapshot", "--sample", "roce-healthy", path).code in (0, 3)
    return path


def spin(*_: object, **__: object) -> None:
    while True:
        try:
            sum(range(1000))  # processor time is what is counted
        except Exception:  # noqa: BLE001  # as what runs the rules catches their bugs
            continue


@pytest.mark.slow
def test_a_rule_that_takes_too_long_over_a_record_ends_the_command(
    record: str, rdmadiag: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rdmadiag.preflight.judge.judge", spin)
    outcome = rdmadiag("preflight", "--from", record, "--timeout", "1")
    assert (outcome.code, outcome.out) == (64, "")
    assert outcome.err == "rdmadiag: what is in the record takes more than 1 s (--timeout)\n"


@pytest.mark.parametrize("name", ["compat", "diff"])
def test_two_records_that_take_too_long_are_not_known(
    name: str, record: str, rdmadiag: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a side that could not be read: 3."""
    slow = {"compat": "view.compat.compat", "diff": "fleet.record_diff.differences"}
    monkeypatch.setattr(f"rdmadiag.{slow[name]}", spin)
    bounded = budget.budget
    monkeypatch.setattr(f"rdmadiag.cli.{name}.budget", lambda _, refusal: bounded(0.2, refusal))
    outcome = rdmadiag(name, record, record)
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err.startswith("rdmadiag: what is in the record takes more than ")


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not hold RLIMIT_AS")
def test_a_rule_that_takes_too_much_memory_over_a_record_ends_the_command(
    record: str, rdmadiag: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rdmadiag.preflight.judge.judge", lambda *_: bytes(2 * budget.MEMORY))
    outcome = rdmadiag("preflight", "--from", record)
    assert (outcome.code, outcome.out) == (64, "")
    assert outcome.err == "rdmadiag: what is in the record takes more memory than it may\n"


def test_after_a_record_nothing_of_the_budget_is_left(
    record: str, rdmadiag: Callable[..., Outcome]
) -> None:
    import resource
    import signal

    before = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGPROF)
    assert rdmadiag("gids", "--from", record).code == 0
    assert (resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGPROF)) == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gids", "--from", "PIPE"), "neither a folder nor a file"),
        (("gids", "--from", "PIPE.json"), "nothing was written"),
        (("counters", "--sample", "roce-healthy", "--since", "PIPE"), "nothing was written"),
        (("gids", "--sample", "roce-healthy", "--peer", "PIPE.json"), "nothing was written"),
        (("preflight", "--sample", "roce-healthy", "--expect", "PIPE"), "nothing was written"),
        (("pingpong", "--allow-rtr", "--secret-file", "PIPE"), "nothing was written"),
        (("explain", "--log", "PIPE", "--timeout", "0.3"), "nothing was written"),
        (("gids", "--explain", "--sample", "roce-healthy", "--env-from", "PIPE"), "not a regular"),
    ],
    ids=" ".join,
)
def test_a_pipe_that_nobody_writes_to_holds_no_command(
    arguments: tuple[str, ...], said: str, tmp_path: Path, rdmadiag: Callable[..., Outcome]
) -> None:
    for name in ("PIPE", "PIPE.json"):
        os.mkfifo(tmp_path / name)
    begun = time.monotonic()
    outcome = rdmadiag(*(str(tmp_path / each) if "PIPE" in each else each for each in arguments))
    assert outcome.code == 64
    assert said in outcome.err
    assert time.monotonic() - begun < 20


def test_a_failed_attempts_record_that_is_a_pipe_counts_as_one_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rdmadiag.verbs.rtr_record import failed_since_start

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "rdmadiag").mkdir()
    os.mkfifo(tmp_path / "rdmadiag" / "failed_rtr.json")
    assert failed_since_start("this boot") is True


GONE = [
    ("gids", "--from", "GONE/record", "--timeout", "2"),
    ("gids", "--from", "GONE/record.json", "--timeout", "2"),
    ("counters", "--from", "GONE/record.json", "--timeout", "2"),
    ("snapshot", "--from", "GONE/record", "copy", "--timeout", "2"),
    ("gids", "--sample", "roce-healthy", "--peer", "GONE/record.json", "--timeout", "2"),
    ("counters", "--sample", "roce-healthy", "--since", "GONE/record.json", "--timeout", "2"),
    ("preflight", "--sample", "roce-healthy", "--expect", "GONE/file", "--timeout", "2"),
    ("resources", "--sample", "roce-healthy", "--expect", "GONE/file", "--timeout", "2"),
    ("gids", "--explain", "--sample", "roce-healthy", "--env-from", "GONE/x", "--timeout", "2"),
    ("explain", "--log", "GONE/log", "--timeout", "2"),
    ("explain", "GONE/log", "--timeout", "2"),
    ("pingpong", "--allow-rtr", "--secret-file", "GONE/file", "--deadline", "2"),
    ("fleet", "archive", "new.pyz", "--wheels", "GONE/wheels"),
    ("preflight", "--sample", "roce-healthy", "-o", "json", "--output", "GONE/out"),
    ("snapshot", "--sample", "roce-healthy", "GONE/new.tar.gz"),
]


@pytest.fixture
def with_gone(
    request: pytest.FixtureRequest,
) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs a command line where a folder is a file system that never answers."""

    def call(gone: Path | str, *command: str) -> "subprocess.CompletedProcess[str]":
        ran = subprocess.run(
            [sys.executable, "-m", "lab.hung_files", str(gone), *command],
            cwd=request.config.rootpath,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if ran.returncode == 69:
            pytest.skip(ran.stderr.strip())
        return ran

    return call


@pytest.mark.slow
@pytest.mark.parametrize("arguments", GONE, ids=" ".join)
def test_a_file_system_that_has_gone_holds_no_command(
    arguments: tuple[str, ...],
    tmp_path: Path,
    with_gone: Callable[..., "subprocess.CompletedProcess[str]"],
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    named = [each.replace("GONE", str(gone)) for each in arguments]
    ran = with_gone(gone, sys.executable, "-m", "rdmadiag", *named)
    assert ran.returncode == (74 if {"GONE/out", "GONE/new.tar.gz"} & {*arguments} else 64)
    assert "no answer before the deadline" in ran.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="what hangs is below /proc")
def test_a_source_that_is_stuck_in_the_kernel_keeps_nothing_of_the_caller(
    with_gone: Callable[..., "subprocess.CompletedProcess[str]"],
) -> None:
    """The shell waits until nobody holds the pipe: it would wait for ever."""
    shell = 'document=$("$@"); printf %s "$document"'
    command = (sys.executable, "-m", "rdmadiag", "preflight", "--json", "--timeout", "8")
    ran = with_gone("/proc/sys/net", "sh", "-c", shell, "sh", *command)
    assert "cannot be killed" in ran.stdout  # it was stuck, as it was meant to be


@pytest.mark.slow
def test_a_home_folder_that_has_gone_holds_no_command_either(
    tmp_path: Path, with_gone: Callable[..., "subprocess.CompletedProcess[str]"]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = (sys.executable, "-m", "rdmadiag", "gids", "--sample", "roce-healthy")
    ran = with_gone(gone, "env", f"XDG_CONFIG_HOME={gone}", *command)
    assert ran.returncode == 64
    assert ran.stderr.count("\n") == 1
    assert "gave no answer within 3 s" in ran.stderr
    assert "XDG_CONFIG_HOME=/nonexistent" in ran.stderr
    assert with_gone(gone, "env", "XDG_CONFIG_HOME=/nonexistent", *command).returncode == 0
