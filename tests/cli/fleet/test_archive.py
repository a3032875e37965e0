"""fleet archive: what it says, what it refuses, and how the file is written."""

import importlib.metadata
import os
import stat
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rdmadiag import __version__

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py


@pytest.mark.slow
def test_one_line_says_for_whom_it_is_and_how_to_start_it(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    file = tmp_path / "a file.pyz"
    before = os.umask(0o077)
    try:
        found = rdmadiag("fleet", "archive", str(file))
    finally:
        os.umask(before)
    assert (found.code, found.err, found.out.count("\n")) == (0, "", 1)
    here = f"Python 3.{sys.version_info[1]} on "
    assert found.out.startswith(f"{file}: rdmadiag {__version__} for {here}")
    assert found.out.endswith("Start it there with: python3 'a file.pyz' preflight\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["a file.pyz"]
    first = file.read_bytes()
    assert rdmadiag("fleet", "archive", str(file)).code == 0
    assert file.read_bytes() == first


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("",), "names no file"),
        (("none/x.pyz",), "there is no folder"),
        (("x.pyz", "--wheels", "nowhere"), "nowhere: No such file or directory"),
        (("x.pyz", "--wheels", "."), "no wheel of pydantic-core"),
    ],
)
def test_what_cannot_be_is_one_line_and_no_file(
    rdmadiag: Rdmadiag,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    found = rdmadiag("fleet", "archive", *arguments)
    assert (found.code, found.out) == (64, "")
    assert said in found.err
    assert found.err.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_a_wheel_that_is_damaged_inside_is_named_and_no_file_is_written(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    version, name = importlib.metadata.version("pydantic-core"), "pydantic_core/any.so"
    wheel = tmp_path / f"pydantic_core-{version}-cp399-cp399-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, b"a module " * 1000)
    data = bytearray(wheel.read_bytes())
    begin = 30 + len(name)  # behind the header of its first member
    data[begin : begin + 4] = b"\xff" * 4  # a kind of block that deflate does not have
    wheel.write_bytes(data)
    file = tmp_path / "x.pyz"
    found = rdmadiag("fleet", "archive", str(file), "--wheels", str(tmp_path))
    assert (found.code, found.out) == (64, "")
    assert found.err.startswith(f"rdmadiag: {wheel.name}: ")
    assert not file.exists()


def test_a_wheel_that_is_no_file_is_not_waited_for(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    version = importlib.metadata.version("pydantic-core")
    os.mkfifo(tmp_path / f"pydantic_core-{version}-cp399-cp399-any.whl")
    found = rdmadiag("fleet", "archive", str(tmp_path / "x.pyz"), "--wheels", str(tmp_path))
    assert (found.code, found.out) == (64, "")
    assert "cp399-any.whl: is no regular file" in found.err


@pytest.mark.slow
def test_the_wheels_are_read_within_a_size(
    rdmadiag: Rdmadiag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all of them together: each alone would be small enough."""
    version = importlib.metadata.version("pydantic-core")
    for tag in ("cp398", "cp399"):
        wheel = tmp_path / f"pydantic_core-{version}-{tag}-{tag}-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"pydantic_core/{tag}.so", b"a module")
    monkeypatch.setattr("rdmadiag.fleet.archive.MOST_UNPACKED", 15)
    file = tmp_path / "x.pyz"
    found = rdmadiag("fleet", "archive", str(file), "--wheels", str(tmp_path))
    assert (found.code, found.out) == (64, "")
    assert "cp399-cp399-any.whl: the wheels unpack to more than" in found.err
    monkeypatch.setattr("rdmadiag.fleet.archive.MOST_UNPACKED", 16)
    assert rdmadiag("fleet", "archive", str(file), "--wheels", str(tmp_path)).code == 0


def test_a_folder_of_wheels_is_read_within_a_time(
    rdmadiag: Rdmadiag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of a file system that has gone: tests/cli/test_budget.py."""
    monkeypatch.setattr("rdmadiag.cli.fleet.wheels.WAIT", 0.1)
    listed = os.listdir
    hangs = str(tmp_path)
    monkeypatch.setattr(
        "os.listdir", lambda path: time.sleep(60) if path == hangs else listed(path)
    )
    begun = time.monotonic()
    found = rdmadiag("fleet", "archive", str(tmp_path / "x.pyz"), "--wheels", str(tmp_path))
    assert time.monotonic() - begun < 20
    assert (found.code, found.out) == (64, "")
    assert "no answer before the deadline" in found.err
