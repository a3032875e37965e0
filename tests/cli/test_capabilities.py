"""rdmadiag capabilities, end to end."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.machine import Machine

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py


def test_the_first_line_is_the_answer_and_devices_alike_share_a_table(rdmadiag: Rdmadiag) -> None:
    code, out, err = rdmadiag("capabilities", "--sample", "roce-healthy")
    assert (code, err) == (0, "")
    first, _, rest = out.partition("\n")
    assert first.startswith("rxe0, rxe1: atomics, shared receive queues, fast registration")
    assert "; no XRC" in first
    assert rest.count("CAPABILITY") == 1
    assert "max_qp " not in out
    everything = rdmadiag("capabilities", "--sample", "roce-healthy", "--all").out
    assert "max_qp " in everything


def test_the_document_names_stacks_and_where_each_claim_stands(rdmadiag: Rdmadiag) -> None:
    document = rdmadiag("capabilities", "--sample", "roce-healthy", "--json").document
    first, _ = document["devices"]
    row = next(row for row in first["capabilities"] if row["name"] == "atomic_cap")
    assert (row["claimed"], row["group"], row["source"]) == ("hca", "atomics", "atomic_cap")
    assert {"nvshmem", "ucx"} <= {need["stack"] for need in row["needed_by"]}
    assert document["unanswered"] == {}


@pytest.mark.parametrize(
    ("stack", "code", "answer"),
    [
        ("nvshmem", 0, "has what nvshmem cannot do without"),
        ("dpdk", 2, "lacks what dpdk cannot do without: rss_qp_types"),
    ],
    ids=["all of it", "not all of it"],
)
def test_a_stack(stack: str, code: int, answer: str, rdmadiag: Rdmadiag) -> None:
    found = rdmadiag("capabilities", "--sample", "roce-healthy", "--stack", stack)
    assert found.code == code
    assert answer in found.out.splitlines()[0]


def test_a_stack_whose_need_is_not_there_is_2(rdmadiag: Rdmadiag) -> None:
    found = rdmadiag("capabilities", "--sample", "mac-ready", "--stack", "nvshmem")
    assert found.code == 2
    assert "lacks what nvshmem cannot do without: atomic_cap" in found.out.splitlines()[0]


def test_a_stack_that_nobody_knows_is_refused(rdmadiag: Rdmadiag) -> None:
    code, _, err = rdmadiag("capabilities", "--sample", "mac-ready", "--stack", "nosuch")
    assert (code, err.count("\n")) == (64, 1)
    assert "nvshmem" in err


def test_devices_that_verbs_does_not_show_are_named_and_it_is_3(rdmadiag: Rdmadiag) -> None:
    found = rdmadiag("capabilities", "--sample", "container-without-uverbs")
    assert found.code == 3
    assert "not known: " in found.out
    document = rdmadiag("capabilities", "--sample", "container-without-uverbs", "--json").document
    assert document["devices"] == []
    assert document["unanswered"]


def test_two_hosts_beside_each_other(rdmadiag: Rdmadiag, roce: Machine, tmp_path: Path) -> None:
    roce.write(str(tmp_path / "one"), "A host.")
    argv = ("capabilities", "--from", str(tmp_path / "one"), "--peer")
    assert "the same" in rdmadiag(*argv, str(tmp_path / "one")).out
    report = tmp_path / "other.json"
    report.write_text(rdmadiag("preflight", "--json", "--sample", "roce-healthy").out)
    found = rdmadiag(*argv, str(report), "--json")
    names = {each["device"] for each in found.document["differences"]}
    assert {"mlx5_0", "rxe0"} <= names
    assert "mlx5_0" in rdmadiag(*argv, str(report)).out


@pytest.mark.parametrize("unread", [("verbs",), ("sysfs", "nldev", "verbs")], ids=" ".join)
def test_a_peer_that_was_not_read_is_not_known_and_no_difference(
    unread: tuple[str, ...], rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    document = json.loads(rdmadiag("preflight", "--json", "--sample", "roce-healthy").out)
    whole, part = tmp_path / "whole.json", tmp_path / "part.json"
    whole.write_text(json.dumps(document))
    for name in unread:
        document["evidence"][name] = {"why": "denied", "detail": "EACCES"}
    part.write_text(json.dumps(document))
    assert rdmadiag("capabilities", "--from", str(whole), "--peer", str(whole)).code == 0
    for one, other in ((whole, part), (part, whole), (part, part)):
        code, out, err = rdmadiag("capabilities", "--from", str(one), "--peer", str(other))
        assert code == 3
        assert "the same" not in out
        assert "rxe0" not in out  # no row says that a host has not the device
        assert "known: " in err


@pytest.mark.parametrize(
    ("content", "word"),
    [(b"", "not a document"), (b"{}", "not a document"), (b"\x00" * 64, "not a document")],
    ids=["nothing", "another document", "bytes"],
)
def test_what_is_no_saved_run_is_one_line(
    content: bytes, word: str, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_bytes(content)
    argv = ("capabilities", "--sample", "mac-ready", "--exercised", str(tmp_path / "run.json"))
    code, _, err = rdmadiag(*argv)
    assert (code, err.count("\n")) == (64, 1)
    assert word in err


def test_a_run_of_another_host_proves_nothing_here(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(rdmadiag("exercise", "--json").out)
    argv = ("capabilities", "--sample", "mac-ready", "--exercised", str(tmp_path / "run.json"))
    code, _, err = rdmadiag(*argv)
    assert (code, "another host" in err) == (64, True)
