"""What the lab compares a host's answer and its record's by."""

from typing import Any

import pytest

from lab.recorded import comparable, differences

pytestmark = pytest.mark.once


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


def test_neighbours_come_and_go_between_two_runs() -> None:
    def limits(entries: int, most: int = 1024) -> dict[str, Any]:
        table = {"most": most, "entries": entries, "overflows": 0}
        return {"evidence": {"system": {"limits": {"ipv6_neighbours": table}}}}

    assert comparable(limits(1)) == comparable(limits(2))
    assert comparable(limits(1)) != comparable(limits(1, most=512))


def test_an_entry_of_a_multicast_group_comes_with_its_first_report() -> None:
    def neighbours(*states: str) -> dict[str, Any]:
        entries = [{"address": "ff02::16", "state": state} for state in states]
        return {"evidence": {"routing": {"neighbours": entries}}}

    assert comparable(neighbours("noarp")) == comparable(neighbours())
    assert comparable(neighbours("stale")) != comparable(neighbours())


def test_a_difference_is_a_field_with_both_its_values() -> None:
    found = {"a": [{"b": 1}, {"b": 2}], "c": None}
    wanted = {"a": [{"b": 1}, {"b": 3}], "c": None, "d": [1]}
    assert differences(found, wanted) == [
        ".a[1].b: 2 instead of 3",
        ".d: None instead of [1]",
    ]
