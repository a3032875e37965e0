"""The wheel for all: what is in it, what it says of itself, and that it is the same each time."""

import email
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import Final

import pytest

import rdmadiag
from rdmadiag.cli import COMMANDS
from rdmadiag.deploy import FILES

pytestmark = pytest.mark.once

pytest.importorskip("hatchling")

CHECKOUT: Final = Path(__file__).parents[2]
COMPLETIONS: Final = {
    "completion/rdmadiag": "share/bash-completion/completions/rdmadiag",
    "completion/_rdmadiag": "share/zsh/site-functions/_rdmadiag",
    "completion/rdmadiag.fish": "share/fish/vendor_completions.d/rdmadiag.fish",
}


def _built(folder: Path) -> Path:
    """As release/dist.sh has it built."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=CHECKOUT,
        env={**os.environ, "HATCH_BUILD_NO_HOOKS": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _built(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def content(wheel: Path) -> Callable[[str], bytes]:
    """By the end of a name."""

    def read(end: str) -> bytes:
        with zipfile.ZipFile(wheel) as archive:
            (name,) = [each for each in archive.namelist() if each.endswith(end)]
            return archive.read(name)

    return read


@pytest.fixture(scope="module")
def metadata(content: Callable[[str], bytes]) -> Message:
    return email.message_from_bytes(content(".dist-info/METADATA"))


def test_it_is_for_every_platform_and_has_nothing_compiled(
    wheel: Path, content: Callable[[str], bytes]
) -> None:
    assert wheel.name == f"rdmadiag-{rdmadiag.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        compiled = (".so", ".dylib", ".o", ".pyc")
        assert [name for name in archive.namelist() if name.endswith(compiled)] == []
    said = content(".dist-info/WHEEL").decode()
    assert "Root-Is-Purelib: true\n" in said
    assert "Tag: py3-none-any\n" in said


def test_it_names_the_command(content: Callable[[str], bytes]) -> None:
    lines = content(".dist-info/entry_points.txt").decode().split()
    assert lines == ["[console_scripts]", "rdmadiag", "=", "rdmadiag.__main__:main"]


def test_it_says_what_it_is(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("rdmadiag", rdmadiag.__version__)
    assert (metadata["Requires-Python"], metadata["License-Expression"]) == (">=3.11", "MIT")
    assert metadata.get_all("Provides-Extra") == ["fleet", "mcp"]


def test_each_dependency_has_a_lower_bound(metadata: Message) -> None:
    required = metadata.get_all("Requires-Dist") or []
    assert len(required) == 7
    assert [each for each in required if ">=" not in each] == []


def test_it_has_the_files_of_the_package_and_nothing_of_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"rdmadiag/deploy/{name}" for name in FILES} <= names
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"rdmadiag"}
    assert "rdmadiag/samples/roce-healthy/ABOUT" in names


def test_it_has_a_man_page_for_each_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        pages = {Path(name).name for name in archive.namelist() if "/share/man/man1/" in name}
    assert pages == {path.name for path in (CHECKOUT / "man").iterdir()}
    assert {f"rdmadiag-{name}.1" for name in COMMANDS} <= pages


@pytest.mark.parametrize("name", COMPLETIONS)
def test_it_has_the_completion_of_each_shell(name: str, content: Callable[[str], bytes]) -> None:
    assert content(f"/{COMPLETIONS[name]}") == (CHECKOUT / name).read_bytes()


@pytest.mark.slow
def test_the_same_tree_gives_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    assert _built(tmp_path).read_bytes() == wheel.read_bytes()


def test_the_completion_that_is_installed_completes(tmp_path: Path) -> None:
    (tmp_path / "rdmadiag").write_text(f'#!/bin/sh\nexec {sys.executable} -m rdmadiag "$@"\n')
    (tmp_path / "rdmadiag").chmod(0o755)
    script = f"""
        . {CHECKOUT}/completion/rdmadiag
        COMP_WORDS=(rdmadiag pre) COMP_CWORD=1
        _rdmadiag_completion rdmadiag
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["preflight"]
