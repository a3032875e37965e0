"""Two faults of the benchmark and a healthy twin; all of them: make faults."""

from pathlib import Path

import pytest

from faults import inside, warm
from faults.table import faults

pytestmark = pytest.mark.needs("rxe in namespaces")

SOME = ("memlock-zero", "nodes-none", "healthy-rxe-rc_pingpong")


@pytest.mark.parametrize("name", SOME)
def test_it_takes_effect_and_is_recorded(name: str, tmp_path: Path) -> None:
    warm.load()
    record = inside.one(inside.known()[name], tmp_path / name)
    assert record["took_effect"], record
    assert {each.name for each in (tmp_path / name).iterdir()} == {
        *("left.tar.gz", "left.after.tar.gz", "record.json", "right.tar.gz", "right.after.tar.gz"),
    }
    assert set(record["checklist"]) == {"left", "right"}


def test_the_names_of_this_file_are_of_the_tables() -> None:
    assert set(SOME[:-1]) <= {each.name for each in faults()}
