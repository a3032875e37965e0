"""rdmadiag.fleet.run_from_file: what an archive unpacks, by itself."""

import sys
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from rdmadiag.fleet.run_from_file import COMPILED, PYTHONS, USAGE, Failed, own_python, unpack


def archive(folder: Path, suffixes: list[str]) -> str:
    file = folder / "rdmadiag.pyz"
    with zipfile.ZipFile(file, "w") as made:
        made.writestr(PYTHONS, "3.11 and 3.13")
        made.writestr("rdmadiag/__init__.py", "")
        for suffix in suffixes:
            made.writestr(COMPILED + suffix, suffix)
    return str(file)


def test_of_compiled_files_that_of_this_python_alone_is_unpacked(tmp_path: Path) -> None:
    own, folder = EXTENSION_SUFFIXES[0], tmp_path / "out"
    unpack(archive(tmp_path, [own, ".of-another.so"]), str(folder))
    found = {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}
    assert found == {PYTHONS, "rdmadiag/__init__.py", COMPILED + own}


def test_without_one_for_this_python_it_says_for_which_it_is(tmp_path: Path) -> None:
    with pytest.raises(Failed) as failed:
        unpack(archive(tmp_path, [".of-another.so"]), str(tmp_path / "out"))
    assert failed.value.code == USAGE
    assert "is for 3.11 and 3.13; this is Python" in failed.value.line
    assert not (tmp_path / "out").exists()


def test_the_program_that_runs_it_is_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_python() == sys.executable
    monkeypatch.setattr(sys, "executable", "")
    assert Path(own_python()).is_absolute()
