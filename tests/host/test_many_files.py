"""Files of many hosts: folders, archives and streams, each bounded, each oddity named."""

import gzip
import io
import os
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.host import many_files
from rdmadiag.host.many_files import NotRead, Text, texts


def deadline(seconds: float = 30) -> float:
    return time.monotonic() + seconds


def whole(found: Iterator[Text]) -> dict[str, bytes | str | None]:
    """By the last part of its place: what is in it, or why it cannot be read."""
    read: dict[str, bytes | str | None] = {}
    for each in found:
        content = b"".join(each.chunks) if each.chunks is not None else each.content
        read[each.where.rpartition("/")[2]] = content if each.refused is None else each.refused
    return read


def test_a_folder_with_folders_is_read_in_order(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "n2/report.json", "n10/report.json", ".hidden", ".git/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    found = list(texts(str(tmp_path), deadline()))
    assert [each.content for each in found] == [
        b"a.json",
        b"b.json",
        b"n10/report.json",
        b"n2/report.json",
    ]
    assert found[2].names == ("report.json", "report", "n10")


def test_names_of_a_file_may_be_its_nodes_with_dots_in_it(tmp_path: Path) -> None:
    (tmp_path / "n1.cluster.example.json").write_text("x")
    (found,) = texts(str(tmp_path), deadline())
    assert "n1.cluster.example" in found.names


def test_what_is_no_file_or_cannot_be_opened_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "outside").symlink_to(tmp_path)
    start = time.monotonic()
    found = whole(texts(str(tmp_path), deadline()))
    assert time.monotonic() - start < 5
    no_file = "neither a regular file nor a folder"
    loop = "Too many levels of symbolic links"
    assert found == {"pipe": no_file, "outside": no_file, "loop": loop}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_nothing_of_proc_is_read() -> None:
    (only,) = texts("/proc", time.monotonic() + 5)
    assert only.where == "/proc"
    assert "copy what it holds" in str(only.refused)


def test_a_path_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotRead, match="No such file"):
        list(texts(str(tmp_path / "none"), deadline()))
    with pytest.raises(NotRead):
        list(texts("a\0b", deadline()))


@pytest.mark.parametrize("ending", ["tar.gz", "tgz", "tar"])
def test_an_archive_is_read_without_being_unpacked(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"all.{ending}"
    with tarfile.open(path, "w" if ending == "tar" else "w:gz") as archive:
        for name, content in (("run/n1.json", b"1"), ("../../n2.json", b"2"), ("run/.x", b"3")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("run/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    found = list(texts(str(path), deadline()))
    assert [(each.content, each.names) for each in found] == [
        (b"1", ("n1.json", "n1", "run")),
        (b"2", ("n2.json", "n2")),
    ]
    assert sorted(os.listdir(tmp_path)) == [path.name]


def test_a_snapshot_is_one_thing_that_is_no_report(tmp_path: Path) -> None:
    for name in ("run/n1/root/proc/1/status", "run/n1/meta.json", "run/n2.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("Name: systemd")
    found = {each.where: each for each in texts(str(tmp_path), deadline())}
    assert set(found) == {f"{tmp_path}/run/n1", f"{tmp_path}/run/n2.json"}
    snapshot = found[f"{tmp_path}/run/n1"]
    assert (snapshot.content, snapshot.names) == (None, ("n1", "run"))
    assert str(snapshot.refused).startswith("a snapshot")


def test_an_archive_that_breaks_off_gives_what_came_before(tmp_path: Path) -> None:
    whole_one = io.BytesIO()
    with tarfile.open(fileobj=whole_one, mode="w:gz", compresslevel=0) as archive:
        for name in ("n1", "n2"):
            member = tarfile.TarInfo(name)
            member.size = 40_000
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    path = tmp_path / "torn.tar.gz"
    path.write_bytes(whole_one.getvalue()[:50_000])
    found = whole(texts(str(path), deadline()))
    assert found["n1"] == b"x" * 40_000
    assert isinstance(found["torn.tar.gz"], str)


@given(st.binary(max_size=2000))
def test_no_archive_raises(content: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.tar.gz", "b.json.gz"):
            Path(folder, name).write_bytes(content)
        assert set(whole(texts(folder, deadline()))) <= {"a.tar.gz", "b.json.gz"}


def test_a_packed_file_and_a_long_one_come_in_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_files, "HELD", 10)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"x" * 100))
    (tmp_path / "b.jsonl").write_bytes(b"y" * 100)
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(b"z" * 100)[:-12])
    found = list(texts(str(tmp_path), deadline()))
    assert all(each.chunks is not None for each in found[:2])
    read = whole(texts(str(tmp_path), deadline()))
    assert read["a.jsonl.gz"] == b"x" * 100
    assert read["b.jsonl"] == b"y" * 100
    assert isinstance(read["c.jsonl.gz"], str), "it breaks off"


def test_all_that_is_read_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        (tmp_path / f"{number}").write_bytes(b"x" * 100)
    monkeypatch.setattr(many_files, "MOST_BYTES", 250)
    found = whole(texts(str(tmp_path), deadline()))
    assert [isinstance(each, bytes) for each in found.values()] == [True, True, False, False, False]
    monkeypatch.setattr(many_files, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(many_files, "MOST_FILES", 2)
    found = whole(texts(str(tmp_path), deadline()))
    assert len(found) == 3
    assert "more than 2 files" in str(list(found.values())[-1])


@pytest.mark.slow
def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_files, "MOST_BYTES", 1 << 20)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"\0" * (64 << 20)))
    with tarfile.open(tmp_path / "bomb.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("n1")
        member.size = 64 << 20
        archive.addfile(member, io.BytesIO(b"\0" * member.size))
    for name in ("bomb.gz", "bomb.tar.gz"):
        found = texts(str(tmp_path / name), deadline())
        assert sum(len(b"".join(each.chunks)) for each in found if each.chunks) <= 2 << 20
    assert "more than" in str(whole(texts(str(tmp_path / "bomb.tar.gz"), deadline())))


def test_a_pipe_is_read_until_its_end_or_the_deadline(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"a\nb")
    start = time.monotonic()
    found = whole(texts(f"/dev/fd/{reader}", deadline(0.3)))
    assert time.monotonic() - start < 5
    assert "had not ended at the deadline" in str(found[str(reader)])
    os.write(writer, b"c\n")
    os.close(writer)
    assert whole(texts(f"/dev/fd/{reader}", deadline())) == {str(reader): b"c\n"}
    os.close(reader)
