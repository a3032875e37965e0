"""Guests that are late are killed with all their processes; those that end give their exit code."""

import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from lab.attempt import until
from lab.boot import Boot, Guest, watch
from lab.failure import EX_LATE, EX_UNAVAILABLE, LabFailure

pytestmark = pytest.mark.once

STUBBORN = "trap '' TERM; echo $$; sleep 300 & echo $!; touch started; wait"


def start(name: str, folder: Path, script: str) -> Boot:
    out = folder / name
    out.mkdir()
    return Boot(Guest(name, out), ["sh", "-c", f"cd {out} && {script}"])


def gone(pid: int) -> bool:
    """Or dead, and not reaped by whoever inherited it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


@pytest.mark.slow
def test_a_late_guest_is_killed_with_its_children(tmp_path: Path) -> None:
    starts = [partial(start, name, tmp_path, STUBBORN) for name in ("one", "two")]
    with pytest.raises(LabFailure) as failure:
        watch(starts, time.monotonic() + 5.0, side_by_side=2)
    assert failure.value.exit_code == EX_LATE
    pids = [
        int(line)
        for name in ("one", "two")
        for line in (tmp_path / name / "console.txt").read_text().split()
    ]
    try:
        assert len(pids) == 4
        assert until(lambda: all(map(gone, pids)), 10.0)
    finally:
        for pid in pids:
            if not gone(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_one_that_never_booted_is_told_from_one_that_runs(tmp_path: Path) -> None:
    with pytest.raises(LabFailure, match="not booted") as failure:
        watch(
            [partial(start, "one", tmp_path, "sleep 300")],
            time.monotonic() + 0.5,
            side_by_side=1,
        )
    assert failure.value.exit_code == EX_UNAVAILABLE


def test_so_many_run_at_a_time_and_each_has_its_exit_code(tmp_path: Path) -> None:
    count = f"ls {tmp_path}/running/* 2>/dev/null | wc -l"
    (tmp_path / "running").mkdir()
    script = f"touch {tmp_path}/running/$$; {count}; sleep 0.2; rm {tmp_path}/running/$$"
    starts = [
        partial(start, str(code), tmp_path, f"{script}; echo {code} > exitcode")
        for code in range(4)
    ]
    boots = watch(starts, time.monotonic() + 30.0, side_by_side=2)
    assert [boot.exit_code() for boot in boots] == [0, 1, 2, 3]
    assert max(int((boot.guest.out / "console.txt").read_text()) for boot in boots) == 2


def test_the_processor_time_of_each_guest_is_its_own(tmp_path: Path) -> None:
    counts = "i=0; while [ $i -lt {} ]; do i=$((i + 1)); done"
    scripts = {"one": "true", "two": counts.format(300_000)}
    starts = [partial(start, name, tmp_path, script) for name, script in scripts.items()]
    one, two = watch(starts, time.monotonic() + 60.0, side_by_side=1)
    assert one.processor < two.processor <= two.seconds + 0.1


def test_one_that_does_not_power_off_ends_with_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.boot.POWER_OFF_SECONDS", 0.2)
    script = "trap '' TERM; echo 3 > exitcode; sleep 300 & wait"
    (boot,) = watch(
        [partial(start, "one", tmp_path, script)], time.monotonic() + 60.0, side_by_side=1
    )
    assert boot.exit_code() == 3


def test_one_that_dies_is_no_exit_code(tmp_path: Path) -> None:
    (boot,) = watch(
        [partial(start, "one", tmp_path, "echo Kernel panic")],
        time.monotonic() + 30.0,
        side_by_side=1,
    )
    with pytest.raises(LabFailure, match="died: Kernel panic"):
        boot.exit_code()
