"""No variable that may be a secret is in what a person shares: a snapshot, a report."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py

CANARY = "c4n4ry"
SECRETS = (
    *("UCX_SECRET_TOKEN", "NCCL_IB_PASSWORD", "FI_VERBS_KEY", "OMPI_MCA_btl_openib_token"),
    *("MLX5_KEY", "container_password", "KUBERNETES_SERVICE_HOST_TOKEN", "LD_LIBRARY_PATH_KEY"),
)


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setitem(os.environ, name, CANARY)
    monkeypatch.setitem(os.environ, "NCCL_IB_HCA", "known_to_matter")


def test_a_snapshot_and_a_report_hold_none(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    rdmadiag("snapshot", str(tmp_path / "record"))
    written = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert b"known_to_matter" in written
    assert CANARY.encode() not in written
    for form in ("json", "text"):
        printed = rdmadiag("preflight", "-o", form, "--verbose")
        assert CANARY not in printed.out + printed.err


def test_nor_does_a_report_with_the_variables_of_a_file(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    (tmp_path / "env").write_text("".join(f"{name}={CANARY}\n" for name in SECRETS))
    sample = ("--sample", "roce-healthy", "--env-from", str(tmp_path / "env"))
    found = rdmadiag("preflight", "--json", *sample).document["evidence"]["process"]["environment"]
    assert found["UCX_SECRET_TOKEN"] == "(not recorded)", "that it is set may matter"
    assert CANARY not in found.values()
    assert CANARY not in rdmadiag("gids", "--explain", *sample).out


def test_nor_does_an_old_snapshot_that_held_one(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    rdmadiag("snapshot", "--sample", "roce-healthy", str(tmp_path / "old"))
    meta = tmp_path / "old" / "meta.json"
    meta.write_text(meta.read_text().replace('"environ": {', f'"environ": {{"UCX_T": "{CANARY}"'))
    assert CANARY in meta.read_text()
    assert CANARY not in rdmadiag("preflight", "--json", "--from", str(tmp_path / "old")).out
