"""A packed kernel is used where its checksum is the recorded one, and no other."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from lab import uml_kernel
from lab.failure import LabFailure
from lab.uml_kernel import Row

pytestmark = pytest.mark.skipif(shutil.which("xz") is None, reason="xz unpacks it")

CONTENT = b"a kernel"


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In ../shared/lab; nothing can be built, and the cache is empty."""
    shared = tmp_path / "shared"
    shared.mkdir()
    file = shared / "linux.xz"
    packed = subprocess.run(["xz"], input=CONTENT, capture_output=True, check=True)
    file.write_bytes(packed.stdout)
    monkeypatch.setattr(uml_kernel, "SHARED", shared)
    monkeypatch.setattr(uml_kernel, "_known_to_apt", lambda package: False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return file


def table(monkeypatch: pytest.MonkeyPatch, *sums: str) -> None:
    rows = [Row(f"7.{n}", "none", (), "linux.xz", sha256) for n, sha256 in enumerate(sums)]
    monkeypatch.setattr(uml_kernel, "rows", lambda: rows)


def test_one_whose_checksum_fits_is_unpacked_and_kept(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(monkeypatch, hashlib.sha256(packed.read_bytes()).hexdigest())
    found = uml_kernel.uml_kernel("7.0")
    assert found.program.read_bytes() == CONTENT
    assert found.program.stat().st_mode & 0o111
    packed.unlink()
    assert uml_kernel.uml_kernel("7.0") == found


def test_one_whose_checksum_differs_is_not_used(
    packed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table(monkeypatch, "0" * 64)
    with pytest.raises(LabFailure):
        uml_kernel.uml_kernel("7.0")
    assert "not used" in capsys.readouterr().out


def test_the_next_of_the_table_takes_the_place_of_one_that_cannot_be_had(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(monkeypatch, "0" * 64, hashlib.sha256(packed.read_bytes()).hexdigest())
    assert uml_kernel.uml_kernel("7.0").version == "7.1"
