"""Names of records: confined to one folder."""

import os
from pathlib import Path

import pytest

from rdmadiag.cli.mcp.folder import NoSuchRecord, RecordFolder


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path / "records"
    (top / "rack1" / "node1").mkdir(parents=True)
    (top / "rack1" / "node1" / "meta.json").write_text("{}")
    (top / "bare" / "sys" / "class" / "infiniband").mkdir(parents=True)
    (top / "report.json").write_text("{}")
    (top / "node2.tar.gz").write_bytes(b"")
    (top / "notes.txt").write_text("no record")
    (tmp_path / "outside.json").write_text("{}")
    (top / "out.json").symlink_to(tmp_path / "outside.json")
    (top / "up").symlink_to(tmp_path)
    os.mkfifo(top / "pipe.json")
    return top


def test_records_are_listed_and_what_is_no_record_is_not(top: Path) -> None:
    names, more = RecordFolder(str(top)).names(10)
    assert names == ("bare", "node2.tar.gz", "rack1/node1", "report.json")
    assert not more


def test_logs_are_listed_beside_them_and_those_inside_a_snapshot_are_not(top: Path) -> None:
    (top / "rack1" / "slurm-7.out").write_text("")
    (top / "rack1" / "node1" / "kernel.log").write_text("")
    assert RecordFolder(str(top)).logs(10) == (("notes.txt", "rack1/slurm-7.out"), False)
    assert RecordFolder(str(top)).logs(1) == (("notes.txt",), True)


def test_a_long_list_is_cut_and_says_so(top: Path) -> None:
    assert RecordFolder(str(top)).names(2) == (("bare", "node2.tar.gz"), True)
    assert RecordFolder(str(top)).names(4)[1] is False


@pytest.mark.parametrize("name", ["report.json", "rack1/node1", "node2.tar.gz", "bare"])
def test_a_listed_name_is_a_path_below_the_folder(top: Path, name: str) -> None:
    assert RecordFolder(str(top)).path(name) == f"{os.path.realpath(top)}/{name}"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../outside.json", "not the name"),
        ("rack1/../../outside.json", "not the name"),
        ("..", "not the name"),
        (".", "not the name"),
        ("", "not the name"),
        ("/etc/passwd", "not the name"),
        ("rack1//node1", "not the name"),
        ("report.json\0", "not the name"),
        ("out.json", "symbolic link"),
        ("up/outside.json", "symbolic link"),
        ("pipe.json", "neither a folder nor a regular file"),
        ("nothing", "no such record"),
        ("report.json/x", "no such record"),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(top: Path, name: str, why: str) -> None:
    with pytest.raises(NoSuchRecord, match=why) as refused:
        RecordFolder(str(top)).path(name)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["", "nowhere", "report.json"])
def test_what_is_no_folder_holds_no_records(top: Path, name: str) -> None:
    with pytest.raises(NoSuchRecord, match="no such folder"):
        RecordFolder(name and str(top / name))


def test_a_folder_that_may_not_be_listed_lists_nothing(top: Path) -> None:
    folder = RecordFolder(str(top))
    for path in (top / "up", top / "out.json", top / "pipe.json"):
        path.unlink()
    top.rename(top.parent / "gone")
    assert folder.names(10) == ((), False)
