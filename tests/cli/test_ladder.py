"""preflight --ladder, end to end."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py
SAMPLE = ("preflight", "--sample", "roce-healthy")


def test_each_port_is_a_line_and_its_next_rung(rdmadiag: Rdmadiag) -> None:
    found = rdmadiag(*SAMPLE, "--ladder")
    assert "rxe0/1  permitted; not tried: proven\n" in found.out
    assert "    rdmadiag pingpong --allow-rtr --device rxe0:1 PEER\n" in found.out
    assert found.code == rdmadiag(*SAMPLE).code


def test_the_document_has_the_rungs_where_they_were_asked_for(rdmadiag: Rdmadiag) -> None:
    port = rdmadiag(*SAMPLE, "--ladder", "--json").document["verdict"]["ports"][0]
    assert [each["rung"] for each in port["ladder"]][-2:] == ["permitted", "proven"]
    assert port["ladder"][-1]["footing"] == "not_tried"
    assert rdmadiag(*SAMPLE, "--json").document["verdict"]["ports"][0]["ladder"] == []


def saved(rdmadiag: Rdmadiag, folder: Path) -> str:
    """An outcome of the sample's own host; without --allow-rtr it verified nothing."""
    document = json.loads(rdmadiag("pingpong", "--json").out)
    document["host"]["hostname"] = rdmadiag(*SAMPLE, "--json").document["host"]["hostname"]
    path = folder / "outcome.json"
    path.write_text(json.dumps(document))
    return str(path)


def test_an_outcome_that_verified_nothing_proves_nothing(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    out = rdmadiag(*SAMPLE, "--ladder", "--proven", saved(rdmadiag, tmp_path)).out
    assert "rxe0/1  permitted; not tried: proven\n" in out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"", "not a document of pingpong --json", id="nothing"),
        pytest.param(b"{}", "not a document of pingpong --json", id="another document"),
        pytest.param(b"\x00" * 2_000_000, "longer than", id="too long"),
    ],
)
def test_what_is_no_outcome_is_one_line(
    content: bytes, words: str, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    (tmp_path / "outcome.json").write_bytes(content)
    code, out, err = rdmadiag(*SAMPLE, "--ladder", "--proven", str(tmp_path / "outcome.json"))
    assert (code, out, err.count("\n")) == (64, "", 1)
    assert words in err


def test_an_outcome_of_another_host_is_refused(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    (tmp_path / "outcome.json").write_text(rdmadiag("pingpong", "--json").out)
    code, _, err = rdmadiag(*SAMPLE, "--ladder", "--proven", str(tmp_path / "outcome.json"))
    assert (code, "of another host" in err) == (64, True)


def test_proof_without_a_ladder_is_a_mistake(rdmadiag: Rdmadiag) -> None:
    code, _, err = rdmadiag(*SAMPLE, "--proven", "outcome.json")
    assert (code, "--proven is for --ladder" in err) == (64, True)
