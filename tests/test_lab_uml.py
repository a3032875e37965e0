"""A guest of one processor is kept on the machine's least taken one; others are not kept."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from lab import guest, uml
from lab.boot import Guest
from lab.plan import shards

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3, 5})


def of(cpus: int) -> Guest:
    return Guest("one", Path("out"), cpus=cpus)


def test_guests_of_one_processor_are_spread_and_make_room_when_they_end() -> None:
    with ExitStack() as first, ExitStack() as second:
        assert uml.on_one(of(1), first) == ["taskset", "--cpu-list", "3"]
        with ExitStack() as ended:
            assert uml.on_one(of(1), ended) == ["taskset", "--cpu-list", "5"]
        assert uml.on_one(of(1), second) == ["taskset", "--cpu-list", "5"]


def test_a_guest_of_two_processors_is_left_to_the_machine() -> None:
    with ExitStack() as resources:
        assert uml.on_one(of(2), resources) == []
        assert uml.on_one(of(1), resources) == ["taskset", "--cpu-list", "3"]


def test_files_named_on_the_command_line_have_as_many_as_their_shard() -> None:
    of_two = next(shard for shard in shards() if shard.cpus == 2).tests[0]
    of_one = next(shard for shard in shards() if shard.cpus == 1).tests[0]
    folder = "tests/lab/guest"
    assert guest.cpus_of(["pytest", f"{folder}/{of_two}::test_x", f"{folder}/{of_one}"]) == 2
    assert guest.cpus_of(["pytest", f"{folder}/{of_one}"]) == 1
    assert guest.cpus_of(["pytest", "-k", "anything"]) == 1
