"""The lab's plan: every test of tests/lab has its part, and each file of guest its shard."""

from collections import Counter
from pathlib import Path

import pytest

from lab.plan import SHORT, in_short, long_form, parts, shards, shards_of
from lab.uml_kernel import rows

pytestmark = pytest.mark.once

LABS = Path(__file__).parent / "lab"


def test_each_file_of_guest_is_in_one_shard_or_part() -> None:
    files = {path.name for path in (LABS / "guest").glob("test_*.py")}
    of_guest = [part for part in parts() if part.lab == "guest"]
    planned = Counter(name for each in (*shards(), *of_guest) for name in each.tests)
    assert planned == Counter(files)


def test_each_lab_is_in_the_short_form_but_for_those_that_cost_it_minutes() -> None:
    folders = {path.name for path in LABS.iterdir() if list(path.glob("test_*.py"))}
    after_all = {"witnesses"}  # which judges what every part ran
    slow = {"page", "launchers"}  # a browser to install; real daemons that are waited for
    assert {part.lab for part in parts() if part.short} == folders - after_all - slow
    assert parts()[-1].lab in after_all


def test_each_kernel_of_the_plan_is_one_that_is_recorded() -> None:
    known = {row.version for row in rows()}
    assert {part.kernel for part in parts() if part.machine == "uml"} == known


def test_a_part_beside_another_stands_after_it_and_in_every_form_that_has_it() -> None:
    before: dict[str, bool] = {}
    for part in parts():
        if part.beside:
            assert before[part.beside] or not part.short
        before[part.name] = part.short


def test_what_the_long_form_leaves_out_is_within_a_part_of_the_same_lab_and_machine() -> None:
    taken = {part.name: part for part in long_form()}
    for part in parts():
        if part.name not in taken:
            whole = taken[part.within]
            assert (part.lab, part.machine, part.kernel) == (whole.lab, whole.machine, whole.kernel)
            assert part.only in whole.only.split(" or ")


def test_every_case_runs_on_one_kernel_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SHORT, raising=False)
    whole = [part for part in long_form() if not part.sampled]
    assert {part.lab for part in whole} == {part.lab for part in parts()}
    (guest,) = [part for part in whole if part.name == "guest"]
    assert shards_of(guest) == shards()


def test_an_older_kernel_has_the_shards_that_are_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SHORT, raising=False)
    (older,) = [part for part in parts() if part.name == "guest-6.1"]
    assert shards_of(older) == [shard for shard in shards() if shard.each_kernel] != shards()


def test_the_short_form_takes_one_in_two_of_the_cases_and_each_value_of_two_tables() -> None:
    cases = [(row, column) for row in range(3) for column in range(2)]
    taken = [case for case in cases if in_short(long=False, one_in=2, places=case)]
    assert taken == [(0, 0), (1, 1), (2, 0)]


def test_the_short_form_takes_what_is_not_marked_and_nothing_that_is_long() -> None:
    assert in_short(long=False, one_in=1, places=(3,))
    assert not in_short(long=True, one_in=1, places=())
