"""campaign.surroundings: that rows meet, and that it sees what it is there to see."""

import itertools
import random
from pathlib import Path

import pytest

from campaign.surroundings import Ended, Row, _held, _pairs

FACTORS = [("a", "b", "c"), ("d", "e"), ("f", "g", "h", "i"), ("j",)] + [("k", "l")] * 4
GOOD = Ended(2, b"CRITICAL  x\n", b"")
PLAIN = Row("text", "pipe", "pipe", "C.UTF-8", "roomy", "", "", "")


def test_every_two_levels_of_two_factors_meet() -> None:
    rows = list(_pairs(FACTORS, random.Random(1)))
    for one, other in itertools.combinations(range(len(FACTORS)), 2):
        met = {(row[one], row[other]) for row in rows}
        assert met == set(itertools.product(FACTORS[one], FACTORS[other]))
    assert len(rows) < 30, "hardly more than the largest two factors need"


def broken(row: Row, ended: Ended, folder: Path) -> list[str]:
    return [what for what, problem in _held(row, ended, GOOD, folder) if problem]


@pytest.mark.parametrize(
    ("changes", "ended", "what"),
    [
        ({}, Ended(1, b"", b""), "the documented exit code"),
        ({"memory": "80"}, Ended(0, b"OK\n", b""), "the documented exit code"),
        ({"stdout": "full"}, Ended(2, None, b""), "the documented exit code"),
        ({}, Ended(70, b"", b"Traceback (most recent call last):\n"), "no traceback"),
        (
            {},
            Ended(2, b"CRITICAL  x\n", b"ERROR:root:code for hash md5\nTraceback"),
            "no traceback",
        ),
        ({"asked": "a mistake"}, Ended(64, b"", b"rdmadiag: a\nb\n"), "a failure is one line"),
        ({}, Ended(2, b"CRITICAL  x\nend", b""), "a document is whole"),
        ({"asked": "JSON"}, Ended(2, b'{"a":\n', b""), "a document is whole"),
    ],
    ids=lambda each: str(each)[:40],
)
def test_what_does_not_hold_is_seen(
    changes: dict[str, str], ended: Ended, what: str, tmp_path: Path
) -> None:
    assert any(each.startswith(what) for each in broken(PLAIN._replace(**changes), ended, tmp_path))
    assert broken(PLAIN, GOOD, tmp_path) == []


def test_a_file_that_is_left_or_cut_is_seen(tmp_path: Path) -> None:
    row = PLAIN._replace(asked="a file")
    (tmp_path / "made").write_text('{"half":')
    assert "what is written is whole, and nothing else" in broken(row, GOOD, tmp_path)
    (tmp_path / "made").write_text("{}\n")
    assert broken(row, GOOD, tmp_path) == []
    (tmp_path / ".rdmadiag.x.tmp").write_text("")
    assert "what is written is whole, and nothing else" in broken(row, GOOD, tmp_path)
