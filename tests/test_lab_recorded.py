"""What the lab compares a host's answer and its record's by."""

from typing import Any

from lab.recorded import comparable


def document(pid: int, seconds: float) -> dict[str, Any]:
    return {
        "verdict": {"remedy": [f"systemctl status {pid}", f"sudo prlimit --pid {pid}"]},
        "evidence": {
            "system": {"ancestors": [{"pid": pid, "name": "bash"}, {"pid": 1, "name": "init"}]},
            "kernel_log": {"events": [{"seconds": seconds}]},
        },
    }


def test_two_runs_of_a_command_are_equal_though_each_is_another_process() -> None:
    assert comparable(document(387, 12.5)) == comparable(document(444, 12.5))


def test_a_time_that_begins_with_a_process_number_is_left_as_it_is() -> None:
    assert comparable(document(387, 387.12)) == comparable(document(444, 387.12))


def test_a_time_that_moved_is_a_difference() -> None:
    assert comparable(document(387, 387.12)) != comparable(document(387, 388.12))
