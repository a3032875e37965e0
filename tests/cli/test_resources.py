"""rdmadiag resources, end to end."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lab import counted
from lab.counted import Held
from lab.machine import Machine, with_counters
from rdmadiag.facts.ib import QpState

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py


@pytest.fixture
def host(roce: Machine, tmp_path: Path) -> str:
    """A job of 8 queue pairs, and 20 in ERR of a process that may not be named."""
    held = (*counted.KERNEL_OWN, *counted.job(4711), Held("qp", 20, 9999, state=QpState.ERR))
    machine = with_counters(roce).change(commands={4711: "python3"}).with_device(0, held=held)
    machine.write(str(tmp_path / "host"), "A host with a job.")
    return str(tmp_path / "host")


def test_the_answer_the_counts_the_holders_and_the_queue_pairs(
    host: str, rdmadiag: Rdmadiag
) -> None:
    code, out, err = rdmadiag("resources", "--from", host)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0].startswith("WARN  mlx5_0: a hidden process (9999) has 20 queue pairs in ERR")
    assert next(line.split() for line in lines if " 4711 " in line) == [
        *("mlx5_0", "4711", "python3", "1", "1", "2", "8", "4", "4", "GiB"),
    ]
    assert any(line.split()[:4] == ["mlx5_0", "rc", "err", "20"] for line in lines)
    assert any(line.split()[:2] == ["mlx5_0", "1"] and "29/131072" in line for line in lines)


def test_verbose_has_the_remedy_of_notes(host: str, rdmadiag: Rdmadiag) -> None:
    argv = ("resources", "--from", host, "--threshold", "error_queue_pairs=99")
    remedy = "\n    sudo rdmadiag resources\n"
    assert remedy not in rdmadiag(*argv).out
    assert remedy in rdmadiag(*argv, "--verbose").out


def test_the_document(host: str, rdmadiag: Rdmadiag) -> None:
    code, document, _ = (
        (found := rdmadiag("resources", "--from", host, "--json"))[0],
        found.document,
        0,
    )
    assert code == 1
    first, second = document["devices"]
    assert (first["device"], second["device"]) == ("mlx5_0", "mlx5_1")
    job = next(each for each in first["holders"] if each["pid"] == 4711)
    assert (job["kind"], job["command"], job["held"]["qp"]) == ("process", "python3", 8)
    pile = first["queue_pairs"][0]
    assert (pile["type"], pile["state"], pile["state_number"], pile["count"]) == (
        "rc",
        "err",
        6,
        20,
    )
    assert found.document["verdict"]["findings"][0]["rule"] == "queue-pairs-in-error"


def test_one_device_and_other_thresholds(host: str, rdmadiag: Rdmadiag) -> None:
    assert rdmadiag("resources", "--from", host, "--device", "mlx5_1").code == 0
    assert rdmadiag("resources", "--from", host, "--threshold", "error_queue_pairs=21").code == 0
    code, _, err = rdmadiag("resources", "--from", host, "--device", "mlx5_7")
    assert (code, err.count("\n")) == (64, 1)


def test_a_saved_report_has_counts_and_no_holders(
    host: str, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    report.write_text(rdmadiag("preflight", "--json", "--from", host).out)
    found = rdmadiag("resources", "--json", "--from", str(report))
    assert found.code == 3
    assert found.document["devices"][0]["holders"]["why"] == "not_collected"
    assert found.document["devices"][0]["uses"]


@pytest.mark.parametrize(
    ("name", "code"), [("mac-ready", 0), ("mac-wedged", None), ("roce-healthy", None)]
)
def test_samples_give_an_answer(name: str, code: int | None, rdmadiag: Rdmadiag) -> None:
    found = rdmadiag("resources", "--sample", name)
    assert found.err == ""
    assert code in (None, found.code)


def test_a_mac_names_the_programs_that_hold_a_device(rdmadiag: Rdmadiag) -> None:
    code, out, _ = rdmadiag("resources", "--from", "tests/fixtures/mac-queue-pairs-exhausted")
    assert code == 2
    assert "10 of 10 queue pairs are in use" in out.splitlines()[0]
