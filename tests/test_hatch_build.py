"""The installation compiles the timed loop where it can, and is none the worse where it cannot."""

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rdmadiag.deploy import FILES

pytestmark = pytest.mark.once

CHECKOUT = Path(__file__).parents[1]
LOOP = "rdmadiag/verbs/_loop.c"
LIBRARY = "rdmadiag/verbs/_loop.so"
PAGE = ("css", "html", "js", "py")


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """hatch_build.py; what it takes of hatchling is there while an installation is made."""
    if importlib.util.find_spec("hatchling") is None:
        stand_in = ModuleType("interface")
        stand_in.BuildHookInterface = object  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "hatchling.builders.hooks.plugin.interface", stand_in)
    spec = importlib.util.spec_from_file_location("hatch_build", CHECKOUT / "hatch_build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with the C file, and nothing else of the checkout."""
    (tmp_path / LOOP).parent.mkdir(parents=True)
    shutil.copy(CHECKOUT / LOOP, tmp_path / LOOP)
    return tmp_path


@pytest.fixture
def compiler() -> None:
    """The machine has one, or a skip."""
    if not shutil.which("cc"):
        reason = "no C compiler: cc"
        if os.environ.get("RDMADIAG_REQUIRE_COMPILER"):
            pytest.fail(f"{reason}, and RDMADIAG_REQUIRE_COMPILER is set")
        pytest.skip(reason)


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A PATH with nothing on it."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CC", raising=False)


# --- the compiler ------------------------------------------------------------------------


def test_the_loop_is_compiled(hook: Any, root: Path, compiler: None) -> None:
    made = hook.compile_library(root, hook.LOOP)
    assert made == root / LIBRARY
    assert ctypes.CDLL(str(made)).rdmadiag_loop_run


@pytest.mark.skipif(sys.platform != "linux", reason="ELF")
@pytest.mark.parametrize("source", ["LOOP", "SIEVE"])
def test_what_is_compiled_is_hardened(
    hook: Any, root: Path, compiler: None, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = getattr(hook, source)
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(CHECKOUT / path, root / path)
    made = hook.compile_library(root, path)
    if not shutil.which("readelf"):
        pytest.skip("no readelf here")
    dynamic = subprocess.run(
        ["readelf", "--wide", "-l", "-d", str(made)], capture_output=True, text=True, check=True
    ).stdout
    assert "GNU_RELRO" in dynamic
    assert "NOW" in dynamic
    assert not [line for line in dynamic.splitlines() if "GNU_STACK" in line and "RWE" in line]


def _without(flag: str, folder: Path) -> str:
    """A compiler that does not know a flag."""
    lines = f"""#!/bin/sh
for each; do case $each in {flag}*) echo "unknown argument: $each" >&2; exit 1; esac; done
exec cc "$@"
"""
    (folder / "older").write_text(lines)
    (folder / "older").chmod(0o755)
    return str(folder / "older")


@pytest.mark.parametrize("flag", ["-Wl,-z", "-fstack-protector-strong", "-D_FORTIFY_SOURCE"])
def test_a_compiler_that_does_not_know_a_flag_compiles_without(
    hook: Any,
    root: Path,
    tmp_path: Path,
    compiler: None,
    flag: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CC", _without(flag, tmp_path))
    made = hook.compile_library(root, hook.LOOP)
    assert ctypes.CDLL(str(made)).rdmadiag_loop_run


def test_a_compiler_may_be_named_with_options(
    hook: Any, root: Path, compiler: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "cc -Wall '-DA B=1'")
    assert hook.compile_library(root, hook.LOOP)


def test_what_an_earlier_version_left_is_replaced(hook: Any, root: Path, compiler: None) -> None:
    (root / LIBRARY).write_text("of an earlier version")
    os.utime(root / LIBRARY, (2**32, 2**32))
    made = hook.compile_library(root, hook.LOOP)
    assert ctypes.CDLL(str(made)).rdmadiag_loop_run


def test_without_a_compiler_there_is_no_library(hook: Any, root: Path, no_compiler: None) -> None:
    assert hook.compile_library(root, hook.LOOP) is None
    assert not (root / LIBRARY).exists()


def test_without_a_compiler_nothing_of_an_earlier_version_stays(
    hook: Any, root: Path, no_compiler: None
) -> None:
    (root / LIBRARY).write_text("of an earlier version")
    assert hook.compile_library(root, hook.LOOP) is None
    assert not (root / LIBRARY).exists()


@pytest.mark.parametrize(
    "named", ["false", "true", "/nonexistent/cc", "/", "cc 'unbalanced", "cc -no-such-option"]
)
def test_a_compiler_that_makes_nothing_is_done_without(
    hook: Any, root: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("CC", named)
    assert hook.compile_library(root, hook.LOOP) is None
    assert not (root / LIBRARY).exists()


def test_source_that_does_not_compile_is_done_without(
    hook: Any, root: Path, compiler: None, capfd: pytest.CaptureFixture[str]
) -> None:
    (root / LOOP).write_text("#error no\n")
    assert hook.compile_library(root, hook.LOOP) is None
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("environment", "tag"),
    [
        pytest.param({}, "macosx_26_0_arm64", id="this machine's own"),
        pytest.param({"MACOSX_DEPLOYMENT_TARGET": "11.0"}, "macosx_11_0_arm64", id="an older one"),
        pytest.param({"MACOSX_DEPLOYMENT_TARGET": "14"}, "macosx_14_0_arm64", id="no minor"),
        pytest.param(
            {"MACOSX_DEPLOYMENT_TARGET": "10.13", "ARCHFLAGS": "-arch x86_64"},
            "macosx_10_13_x86_64",
            id="another processor",
        ),
        pytest.param(
            {"MACOSX_DEPLOYMENT_TARGET": "11.0", "ARCHFLAGS": "-arch arm64 -arch x86_64"},
            "macosx_11_0_universal2",
            id="both processors",
        ),
    ],
)
def test_the_tag_of_a_mac_is_by_configuration(
    hook: Any, environment: dict[str, str], tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook.platform, "mac_ver", lambda: ("26.1", ("", "", ""), "arm64"))
    monkeypatch.setattr(hook.platform, "machine", lambda: "arm64")
    assert hook.wheel_platform("darwin", environment) == tag


def test_on_a_mac_the_compiler_is_told_the_processors(
    hook: Any, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "compiler").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/argv\nexit 1\n')
    (tmp_path / "compiler").chmod(0o755)
    monkeypatch.setenv("CC", str(tmp_path / "compiler"))
    monkeypatch.setenv("ARCHFLAGS", "-arch arm64 -arch x86_64")
    monkeypatch.setattr(hook.sys, "platform", "darwin")
    hook.compile_library(root, hook.LOOP)
    assert (tmp_path / "argv").read_text().startswith("-arch arm64 -arch x86_64 -O3 ")


# --- what hatchling makes of it ----------------------------------------------------------


@pytest.fixture
def build(tmp_path: Path) -> Callable[[str], Path]:
    """`build("wheel" | "editable" | "sdist")` → what hatchling made of a copy of the checkout."""
    pytest.importorskip("hatchling")
    copy = tmp_path / "checkout"
    package = shutil.ignore_patterns("__pycache__", "*.so", "samples")
    shutil.copytree(CHECKOUT / "rdmadiag", copy / "rdmadiag", ignore=package)
    for name in ("completion", "man"):
        shutil.copytree(CHECKOUT / name, copy / name)
    for name in (".gitignore", "LICENSE", "README.md", "hatch_build.py", "pyproject.toml"):
        shutil.copy(CHECKOUT / name, copy / name)

    def built(kind: str) -> Path:
        program = (
            "import sys; from hatchling import build as b; print(getattr(b, sys.argv[1])('dist'))"
        )
        argv = [sys.executable, "-c", program, f"build_{kind}"]
        ran = subprocess.run(argv, cwd=copy, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return copy / "dist" / ran.stdout.strip()

    return built


@pytest.mark.slow
def test_a_wheel_has_the_library_and_is_for_this_platform(
    build: Callable[[str], Path], compiler: None
) -> None:
    wheel = build("wheel")
    version, tag = wheel.stem.split("-", 2)[1:]
    assert version
    assert tag.startswith("py3-none-")
    assert tag != "py3-none-any"
    with zipfile.ZipFile(wheel) as archive:
        assert LIBRARY in archive.namelist()
        assert {f"rdmadiag/deploy/{name}" for name in FILES} <= set(archive.namelist())
        assert {f"rdmadiag/render/fleet_page.{kind}" for kind in PAGE} <= set(archive.namelist())
        metadata = next(name for name in archive.namelist() if name.endswith("/WHEEL"))
        assert f"Tag: {tag}\n" in archive.read(metadata).decode()
        assert "Root-Is-Purelib: false\n" in archive.read(metadata).decode()


@pytest.mark.slow
def test_a_wheel_without_the_library_is_for_every_platform(
    build: Callable[[str], Path], no_compiler: None
) -> None:
    wheel = build("wheel")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert LIBRARY not in archive.namelist()
        assert "rdmadiag/verbs/loop.py" in archive.namelist()


def test_an_editable_installation_has_the_library_in_the_checkout(
    build: Callable[[str], Path], compiler: None
) -> None:
    pytest.importorskip("editables")
    wheel = build("editable")
    assert (wheel.parents[1] / LIBRARY).exists()


@pytest.mark.slow
def test_a_source_archive_has_what_compiles_it_and_no_library(
    build: Callable[[str], Path], compiler: None
) -> None:
    archive = build("sdist")
    (archive.parents[1] / LIBRARY).write_text("made before")
    with tarfile.open(build("sdist")) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {LOOP, "hatch_build.py", "pyproject.toml"} <= names
    assert LIBRARY not in names
