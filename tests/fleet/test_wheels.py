"""Wheels in a folder: what is taken of them, and how much."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from rdmadiag.fleet.wheels import NoArchive, Wheels

T = TypeVar("T")


def wheels_in(folder: Path) -> Wheels:
    """Read in this process: tests/cli/fleet/test_archive.py has the child."""

    def within(_path: str, read: Callable[[], T]) -> T:
        return read()

    return Wheels(str(folder), within)


def write(path: Path, files: dict[str, bytes], packed: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", packed) as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)


FILES = {
    "pydantic_core/__init__.py": b"x = 1",
    "pydantic_core/core.so": b"elf" * 30,
    "pydantic_core-2.dist-info/RECORD": b"of pip",
}


def test_its_modules_are_taken_and_what_pip_wrote_is_not(tmp_path: Path) -> None:
    write(tmp_path / "a.whl", FILES)
    write(tmp_path / "b.whl", {})
    found = wheels_in(tmp_path)
    assert found.names() == ["a.whl", "b.whl"]
    assert found.unpacked("a.whl", 95) == {
        name: content for name, content in FILES.items() if name.startswith("pydantic_core/")
    }
    assert found.unpacked("b.whl", 95) == {}


def test_a_wheel_of_more_bytes_than_are_left_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.whl", FILES)
    with pytest.raises(NoArchive, match=r"a\.whl: the wheels unpack to more than"):
        wheels_in(tmp_path).unpacked("a.whl", 94)


@pytest.mark.parametrize("packed", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA], ids=["bzip2", "LZMA"])
def test_what_unpacks_more_at_once_than_is_asked_for_is_refused(
    tmp_path: Path, packed: int
) -> None:
    write(tmp_path / "a.whl", FILES, packed)
    with pytest.raises(NoArchive, match="not packed as wheels are"):
        wheels_in(tmp_path).unpacked("a.whl", 1000)


@pytest.mark.parametrize("name", ["none", "folder"])
def test_what_is_no_file_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(NoArchive, match=f"{name}: is no regular file"):
        wheels_in(tmp_path).unpacked(name, 1000)
