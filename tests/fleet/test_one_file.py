"""`fleet archive`: one file that a Python without any package runs, and what it leaves behind."""

import io
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rdmadiag import __version__
from rdmadiag.fleet import one_file as module
from rdmadiag.fleet.one_file import OneFile, one_file
from rdmadiag.fleet.wheels import NoArchive
from tests.fleet.test_wheels import wheels_in

pytestmark = pytest.mark.once

HERE = f"3.{sys.version_info[1]}"


@pytest.fixture(scope="module")
def made() -> OneFile:
    return one_file(None)


@pytest.fixture(scope="module")
def file(made: OneFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("a host") / "rdmadiag.pyz"
    place.write_bytes(made.data)
    return place


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """Where it unpacks itself; empty again at the end of each test."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    yield folder
    assert os.listdir(folder) == []


def ran(
    file: Path, scratch: Path, *arguments: str, fed: str = ""
) -> "subprocess.CompletedProcess[str]":
    """With nothing of this environment: -S, so that no package of this Python is found either."""
    return subprocess.run(
        [sys.executable, "-S", str(file), *arguments],
        env={"TMPDIR": str(scratch)},
        cwd="/",
        input=fed,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_it_is_the_same_bytes_and_holds_what_commands_import(made: OneFile) -> None:
    assert one_file(None) == made
    with zipfile.ZipFile(io.BytesIO(made.data)) as archive:
        names = archive.namelist()
    assert names == sorted(names)
    assert {"__main__.py", "rdmadiag/__main__.py", "click/__init__.py"} <= set(names)
    assert [name for name in names if name.startswith("rdmadiag/samples/roce-healthy/")]
    assert not [name for name in names if "__pycache__" in name]
    assert not [name for name in names if name.startswith("rdmadiag/") and name.endswith(".so")]
    assert made.pythons.startswith(f"Python {HERE} on ")


@pytest.mark.slow
def test_it_runs_without_an_environment_and_without_a_package(file: Path, scratch: Path) -> None:
    found = ran(file, scratch, "--version")
    assert (found.returncode, found.stdout, found.stderr) == (0, f"rdmadiag {__version__}\n", "")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
def test_a_python_that_does_not_know_where_it_is_runs_it_too(file: Path, scratch: Path) -> None:
    """As by `env -i python3 FILE`: no PATH to find itself in."""
    found = subprocess.run(
        ["python3", "-S", str(file), "--version"],
        executable=sys.executable,
        env={"TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (found.returncode, found.stdout) == (0, f"rdmadiag {__version__}\n"), found.stderr


@pytest.mark.slow
def test_the_exit_code_is_that_of_the_command(file: Path, scratch: Path) -> None:
    found = ran(file, scratch, "preflight", "--sample", "roce-empty-gid-table")
    assert found.returncode == 2
    assert "[sample roce-empty-gid-table]" in found.stdout


@pytest.mark.slow
def test_its_standard_input_is_that_of_the_command(file: Path, scratch: Path) -> None:
    found = ran(file, scratch, "explain", "--log", "-", fed="nothing of RDMA\n")
    assert (found.returncode, "1 line" in found.stdout) == (0, True)


@pytest.mark.slow
def test_a_signal_ends_the_command_too(file: Path, scratch: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-S", str(file), "watch", "--lines", "--for", "120"],
        env={"TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as child:
        assert child.stdout is not None
        if sys.platform == "linux":
            assert "watching" in child.stdout.readline()
        began = time.monotonic()
        child.send_signal(signal.SIGTERM)
        child.wait(60)
        assert time.monotonic() - began < 30


def test_a_python_that_it_is_not_for_is_answered_with_one_line(
    scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "pydantic_core/_pydantic_core.cpython-312-aarch64-linux-gnu.so"
    monkeypatch.setattr(module, "compiled_here", lambda _: [{name: b"elf"}])
    monkeypatch.setattr(module, "modules", lambda parts, **_: dict(*parts))
    other = one_file(None)
    assert other.pythons == "Python 3.12 on aarch64-linux-gnu"
    file = tmp_path / "other.pyz"
    file.write_bytes(other.data)
    found = ran(file, scratch, "--version")
    assert (found.returncode, found.stdout) == (64, "")
    said = f"rdmadiag: {file} is for Python 3.12 on aarch64-linux-gnu; this is Python {HERE}, "
    assert found.stderr.startswith(said)
    assert found.stderr.count("\n") == 1


@pytest.mark.slow
def test_each_wheel_adds_its_python(tmp_path: Path) -> None:
    from importlib.metadata import version

    for kind in ("312-cp312", "314-cp314t"):
        name = f"pydantic_core-{version('pydantic-core')}-cp{kind}-manylinux_2_17_aarch64.whl"
        tag = kind.partition("-cp")[2]
        with zipfile.ZipFile(tmp_path / name, "w") as wheel:
            inside = f"pydantic_core/_pydantic_core.cpython-{tag}-aarch64-linux-gnu.so"
            wheel.writestr(inside, "elf")
            wheel.writestr("pydantic_core-2.dist-info/RECORD", "")
    (tmp_path / "pydantic_core-1.0-cp312-cp312-manylinux_2_17_aarch64.whl").write_bytes(b"")
    said = one_file(wheels_in(tmp_path)).pythons
    assert {HERE, "3.12", "3.14t"} == set(
        said.removeprefix("Python ").partition(" on ")[0].split(", ")
    )
    assert "aarch64-linux-gnu" in said


def test_a_folder_without_such_a_wheel_is_none(tmp_path: Path) -> None:
    with pytest.raises(NoArchive, match="no wheel of pydantic-core"):
        one_file(wheels_in(tmp_path))
    with pytest.raises(NoArchive, match="No such file"):
        one_file(wheels_in(tmp_path / "none"))
