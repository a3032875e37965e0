"""rdmadiag fleet history."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from rdmadiag.cli.fleet.store import add_merge
from rdmadiag.fleet.history import HistoryError
from rdmadiag.fleet.host_report import HostReport
from rdmadiag.fleet.merged import Gap, Unused
from rdmadiag.preflight.verdict import Finding, Severity, Status
from tests.fleet_documents import host

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

DOWN = Finding("link-not-up", Severity.CRITICAL, None, None, "", (), (), ())


def day(number: int, *reports: HostReport) -> list[HostReport]:
    return [replace(each, generated_at=f"2026-01-{number:02}T06:00:00Z") for each in reports]


def bad(report: HostReport) -> HostReport:
    return replace(report, status=Status.CRITICAL, findings=(DOWN,))


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Three hosts on three days: one breaks after an update, one does not report any more."""
    path = str(tmp_path / "fleet.db")
    old = {"kernel": "6.1", "adapter[0].firmware": "28", "adapter[1].firmware": "28"}
    new = {"kernel": "6.1", "adapter[0].firmware": "29", "adapter[1].firmware": "29"}
    names = ("node1", "node2", "node3")
    assert add_merge(path, day(1, *(host(name, old) for name in names)))
    assert add_merge(path, day(2, host("node1", old), bad(host("node2", new)), host("node3", old)))
    odd = {"node2": {"adapter[0-1].firmware": "29"}}
    gone = [Unused(Gap.NEVER_REPORTED, "node3", None, "")]
    reports = day(3, host("node1", old), bad(host("node2", new)))
    assert add_merge(path, reports, gone, odd)
    assert not add_merge(path, reports, gone, odd)
    return path


def test_text_says_since_when_and_what_changed_before(rdmadiag, file) -> None:
    done = rdmadiag("fleet", "history", "node[1-4]", "--history", file)
    assert (done.code, done.err) == (2, "")
    assert done.out.splitlines() == [
        "OK  node1  in all 3 merges since 2026-01-01 06:00",
        "CRITICAL  node2  since 2026-01-02 06:00, ok before; getting worse",
        "  not fit in 2 of 3 merges, became so once",
        "  link-not-up  since 2026-01-02 06:00, in 2 of 3",
        "  unlike most: adapter[0-1].firmware is 29, since 2026-01-03 06:00",
        "  changed in the day before that:",
        "    2026-01-02 06:00  adapter[0-1].firmware  28 → 29",
        "UNKNOWN  node3  never reported since 2026-01-03 06:00, ok before; getting worse",
        "  not fit in 1 of 3 merges, became so once",
        "  never reported  since 2026-01-03 06:00, in 1 of 3",
        "  no fact that is known changed in the day before that",
        "UNKNOWN  no merge had node4",
    ]


def test_quiet_is_a_line_a_node(rdmadiag, file) -> None:
    done = rdmadiag("fleet", "history", "node1", "node2", "--history", file, "-q")
    assert len(done.out.splitlines()) == 2


def test_json(rdmadiag, file) -> None:
    found = rdmadiag("fleet", "history", "node2", "node9", "--history", file, "--json").document
    assert found["status"] == "critical"
    assert found["unknown"] == ["node9"]
    (node,) = found["nodes"]
    assert node["since"] == "2026-01-02T06:00:00Z"
    assert node["trend"] == "worse"
    assert node["changed"][0]["fact"] == "adapter[0-1].firmware"


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("node1",), 0),
        (("node2",), 2),
        (("node3",), 3),
        (("node9",), 3),
        (("node2", "--exit-zero"), 0),
        (("node3", "--fail-on", "critical"), 0),
    ],
)
def test_exit_codes_are_those_of_the_newest_verdicts(rdmadiag, file, argv, code) -> None:
    assert rdmadiag("fleet", "history", *argv, "--history", file).code == code


@pytest.mark.parametrize(
    ("nodes", "code", "said"),
    [
        (("@group",), 64, "groups are not looked up here"),
        (("node[1-99999]",), 64, "at most 10000 at once"),
        (("a;b",), 64, "no set of at most"),
    ],
)
def test_names_that_are_none_are_refused(rdmadiag, file, nodes, code, said) -> None:
    done = rdmadiag("fleet", "history", *nodes, "--history", file)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096),
        lambda path: path.write_text("node1 ok\n"),
        lambda path: path.mkdir(),
        os.mkfifo,
        lambda path: path.touch(),
        lambda path: path.symlink_to("/dev/zero"),
    ],
    ids=["damaged", "a text", "a folder", "a pipe", "empty", "a device"],
)
def test_what_is_no_history_is_one_line_and_exit_3(rdmadiag, tmp_path, make) -> None:
    path = tmp_path / "x.db"
    make(path)
    done = rdmadiag("fleet", "history", "node1", "--history", str(path))
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith(f"rdmadiag: {path}: ")
    assert done.err.count("\n") == 1


def test_hostile_names_of_facts_cannot_obey_a_terminal(rdmadiag, tmp_path) -> None:
    path = str(tmp_path / "x.db")
    for number, value in enumerate(["a", "\x1b[2J\r\n\u202e"], 1):
        add_merge(path, day(number, host("n1", {"variable.\x1b]0;x\x07": value})))
    done = rdmadiag("fleet", "history", "n1", "--history", path)
    assert "changed in the newest day" in done.out
    assert all(letter.isprintable() or letter == "\n" for letter in done.out)
    again = rdmadiag("fleet", "history", "n1", "--history", path, "--json")
    assert again.document["nodes"][0]["changed"][0]["after"] == "\x1b[2J\r\n\u202e"


def test_a_merge_that_cannot_be_added_is_one_line_with_the_path(tmp_path) -> None:
    with pytest.raises(HistoryError, match=r"/none/x\.db: No such file"):
        add_merge(str(tmp_path / "none" / "x.db"), day(1, host("n1", {})))
