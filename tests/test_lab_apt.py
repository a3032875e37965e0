"""Another apt beside ours, and a folder of modules that the kernel's headers made."""

import stat
from pathlib import Path

import pytest

from lab import apt, kernel
from lab.failure import EX_LATE, LabFailure

pytestmark = pytest.mark.once

LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4711 (apt-get)"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An apt-get that is whatever the test writes into it; its runs are lines of `runs`."""
    found = tmp_path / "bin" / "apt-get"
    found.parent.mkdir()
    found.touch(mode=stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(found.parent), prepend=":")
    monkeypatch.setattr(apt, "_PAUSE_SECONDS", 0.01)
    return found


def script(program: Path, text: str) -> None:
    program.write_text(f'#!/bin/sh\necho "$@" >>{program.parent}/runs\n{text}\n')


def test_a_lock_is_waited_for_and_said(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script(
        program,
        f'[ "$(wc -l <{program.parent}/runs)" -ge 3 ] || {{ echo "{LOCKED}" >&2; exit 100; }}',
    )
    apt.apt_get(["update"], timeout=60.0)
    assert (program.parent / "runs").read_text().splitlines() == ["-qq update"] * 3
    assert capsys.readouterr().out == f"waiting for another apt: {LOCKED}\n"


def test_a_lock_that_stays_is_named_at_the_deadline(program: Path) -> None:
    script(program, f'echo "{LOCKED}" >&2; exit 100')
    with pytest.raises(LabFailure, match="process 4711") as failure:
        apt.apt_get(["update"], timeout=0.5)
    assert failure.value.exit_code == EX_LATE


def test_what_apt_says_is_shown(program: Path) -> None:
    script(program, "echo 'E: Unable to locate package nonesuch' >&2; exit 100")
    with pytest.raises(LabFailure, match="Unable to locate package nonesuch"):
        apt.apt_get(["-y", "install", "nonesuch"], timeout=60.0)


def test_modules_are_found_where_the_headers_have_made_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = kernel.Kernel("6.1.0-1-amd64", tmp_path / "cache")
    found.modules.mkdir(parents=True)
    (found.modules / "modules.dep").write_text("kernel/x.ko:\n")
    (found.modules / "kernel").mkdir()
    monkeypatch.setattr(kernel, "MODULES", tmp_path / "modules")
    folder = tmp_path / "modules" / found.release
    folder.mkdir(parents=True)
    (folder / "build").symlink_to("/usr/src/linux-headers-6.1.0-1-amd64")
    for _ in range(2):
        kernel.link_modules(found)
        assert (folder / "modules.dep").read_text() == "kernel/x.ko:\n"
        assert {each.name for each in folder.iterdir()} == {"build", "kernel", "modules.dep"}
    (found.modules / "updates").mkdir()  # of a module that was built since
    kernel.link_modules(found)
    assert (folder / "updates").is_dir()
