"""Two records that were redacted with one key differ, and fit each other, as the originals do."""

import json
from collections.abc import Sequence
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from rdmadiag.cli import run
from rdmadiag.host.recording import documents
from rdmadiag.redact.record import redact_record
from rdmadiag.samples import samples
from tests.redact.records import FAULTS, TREE, host_of, recording_of, unpacked, written
from tests.redact.test_same_answer import is_bijection, require_alike

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

FOLDER = TREE / "rdmadiag" / "samples"
FEW = [
    ("infiniband-no-subnet-manager", "infiniband-two-hca"),
    ("mac-bridged", "mac-ready"),
    ("roce-healthy", "gpu-four-rails"),
]
PAIRS = [
    pair if number % 2 else pair[::-1]  # half of them in the other order
    for number, pair in enumerate(sorted({*combinations(samples(), 2)}))
]


def redacted(ends: tuple[Path, Path], folder: Path) -> list[Path]:
    """Both, with one key by which no pseudonym is a name of theirs by chance."""
    for number in range(100):
        key = sha256(f"{' '.join(each.name for each in ends)} {number}".encode()).digest()
        every = []
        for path in ends:
            recording, late = recording_of(path)
            every.append(redact_record(recording, host_of(path).identity, late, key))
        if not any(each.by_chance for each in every):
            break
    assert not any(each.by_chance or each.left_out for each in every)
    paths = [folder / "first", folder / "second"]
    for path, made in zip(paths, every, strict=True):
        files = documents(made.recording, made.identity, made.late, redacted=made.manifest())
        written(files, path)
    return paths


def printed_of_two(
    command: str, paths: Sequence[Path], capsys: pytest.CaptureFixture[str]
) -> tuple[int, Any]:
    code = run([command, *map(str, paths), "--json"])
    return code, json.loads(capsys.readouterr().out)


def require_the_same(
    ends: tuple[Path, Path], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = redacted(ends, folder)
    said: dict[str, str] = {}
    for command in ("diff", "compat"):
        before = printed_of_two(command, ends, capsys)
        after = printed_of_two(command, made, capsys)
        assert before[0] == after[0], command
        require_alike(before[1], after[1], command, said)
    assert is_bijection({one: other for one, other in said.items() if one != other})


@pytest.mark.once
@pytest.mark.parametrize(
    "names",
    [pair if pair in FEW else pytest.param(pair, marks=pytest.mark.slow) for pair in PAIRS],
    ids=" ".join,
)
def test_diff_and_compat_say_the_same(
    names: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (FOLDER / name for name in names)
    require_the_same((first, second), tmp_path, capsys)


@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("neighbour-wrong-entry", "ends-neighbour-wrong"),
        pytest.param("mtu-left-jumbo", "ends-mtu-differs", marks=pytest.mark.slow),
        pytest.param("neighbour-duplicate", "ends-peer-address-here", marks=pytest.mark.slow),
    ],
)
def test_so_it_is_of_what_only_both_records_show(
    name: str, rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left, right = (
        unpacked(FAULTS / f"{name}.{end}.tar.gz", tmp_path / end) for end in ("left", "right")
    )
    found = printed_of_two("compat", (left, right), capsys)[1]["findings"]
    assert rule in [each["finding"]["rule"] for each in found]
    require_the_same((left, right), tmp_path, capsys)
