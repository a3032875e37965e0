"""rdmadiag.host.target: what is written to a path that a user names."""

import errno
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from rdmadiag.host.target import create_file, create_folder, replace_file

ANOTHER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")

WRITERS: dict[str, Callable[[str], None]] = {
    "file": lambda path: replace_file(path, b"new\n", 0o600),
    "archive": lambda path: create_file(path, lambda file: file.write(b"new\n")),  # type: ignore[arg-type,return-value]
    "folder": lambda path: create_folder(path, {"a/b": b"new\n", "meta.json": b"{}"}, "meta.json"),
}
each_writer = pytest.mark.parametrize("write", WRITERS.values(), ids=list(WRITERS))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder such as /tmp, of root's, in which another user was first."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "file").write_text("old\n")
    return folder


@needs_root
@each_writer
@pytest.mark.parametrize(
    ("link", "path"),
    [("out", "out"), ("out", "out/below"), ("out", "../shared/./out")],
    ids=["the name itself", "a folder on the way", "by a detour"],
)
def test_another_users_link_in_a_folder_for_all_is_not_followed(
    write: Callable[[str], None], link: str, path: str, shared: Path
) -> None:
    (shared / link).symlink_to(shared.parent / "victim")
    os.lchown(shared / link, ANOTHER, ANOTHER)
    with pytest.raises(PermissionError, match="a symbolic link of uid 65534 stands in a folder"):
        write(str(shared / path))
    assert [each.name for each in (shared.parent / "victim").iterdir()] == ["file"]
    assert [each.name for each in shared.iterdir()] == [link]


@needs_root
@pytest.mark.parametrize(
    ("owner", "sticky"), [(ANOTHER, False), (0, True)], ids=["not for all", "one's own"]
)
def test_other_links_are_followed(owner: int, sticky: bool, shared: Path) -> None:
    shared.chmod(0o1777 if sticky else 0o755)
    (shared / "out").symlink_to("../victim/file")
    os.lchown(shared / "out", owner, owner)
    replace_file(str(shared / "out"), b"new\n", 0o600)
    assert (shared.parent / "victim" / "file").read_text() == "new\n"
    assert (shared / "out").is_symlink()


@needs_root
def test_another_users_file_in_a_folder_for_all_is_not_replaced(shared: Path) -> None:
    """It would keep its mode: what is written there would be his to read."""
    (shared / "out").write_text("his\n")
    os.chown(shared / "out", ANOTHER, ANOTHER)
    with pytest.raises(PermissionError, match="a file of uid 65534"):
        replace_file(str(shared / "out"), b"new\n", 0o600)
    assert (shared / "out").read_text() == "his\n"


@pytest.mark.parametrize("before", [0o600, 0o640, 0o644, 0o400])
def test_a_file_that_is_replaced_keeps_its_mode(before: int, tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("old\n")
    target.chmod(before)
    replace_file(str(target), b"new\n", 0o644)
    assert (target.read_text(), mode(target)) == ("new\n", before)


@needs_root
def test_a_file_that_root_replaces_stays_its_owners(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old\n")
    os.chown(tmp_path / "out", ANOTHER, ANOTHER)
    replace_file(str(tmp_path / "out"), b"new\n", 0o600)
    assert (tmp_path / "out").stat().st_uid == ANOTHER


@each_writer
@pytest.mark.parametrize("umask", [0, 0o077])
def test_what_is_new_is_for_its_user_alone(
    write: Callable[[str], None], umask: int, tmp_path: Path
) -> None:
    before = os.umask(umask)
    try:
        write(str(tmp_path / "out"))
    finally:
        os.umask(before)
    for each in tmp_path.rglob("*"):
        assert mode(each) == (0o700 if each.is_dir() else 0o600), each


@each_writer
@pytest.mark.parametrize("call", ["rename", "write"])
def test_what_cannot_be_written_leaves_nothing(
    write: Callable[[str], None], call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def read_only(path: str, flags: int, *args: int, **at: int) -> int:
        """As if the disk were full: the descriptor takes no write."""
        descriptor = real(path, flags, *args, **at)
        if not flags & os.O_CREAT:
            return descriptor
        os.close(descriptor)
        return real("/dev/full", os.O_WRONLY)

    if call == "rename":
        monkeypatch.setattr(os, "rename", full)
    else:
        monkeypatch.setattr(os, "open", read_only)
        monkeypatch.setattr(os, "fchmod", lambda *_: None)
    with pytest.raises(OSError, match=r"No space left|Invalid argument"):
        write(str(tmp_path / "out"))
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_and_empty_is_filled_and_its_meta_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed: list[str] = []
    real = os.rename
    monkeypatch.setattr(
        os, "rename", lambda old, new, **at: (renamed.append(new), real(old, new, **at))
    )
    files = {"meta.json": b"{}", "root/sys/x": b"1", "cmd/a.out": b""}
    create_folder(str(tmp_path), files, "meta.json")
    assert renamed == ["cmd", "root", "meta.json"]
    found = {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()}
    assert found == set(files)


@needs_root
def test_another_users_folder_is_not_filled(tmp_path: Path) -> None:
    os.chown(tmp_path, ANOTHER, ANOTHER)
    with pytest.raises(PermissionError, match="the folder is of uid 65534"):
        create_folder(str(tmp_path), {"meta.json": b"{}"}, "meta.json")
    assert list(tmp_path.iterdir()) == []


@each_writer
def test_a_folder_that_may_be_passed_through_and_not_read_is_no_obstacle(
    write: Callable[[str], None], tmp_path: Path
) -> None:
    (tmp_path / "closed" / "open").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o311)
    write(str(tmp_path / "closed" / "open" / "out"))
    (tmp_path / "closed").chmod(0o755)
    assert (tmp_path / "closed" / "open" / "out").exists()


def test_an_archive_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old\n")
    with pytest.raises(FileExistsError):
        WRITERS["archive"](str(tmp_path / "out"))
    assert (tmp_path / "out").read_text() == "old\n"


def test_a_signal_waits_until_the_file_is_whole(tmp_path: Path) -> None:
    came = []
    before = signal.signal(signal.SIGTERM, lambda *_: came.append(os.listdir(tmp_path)))
    try:
        create_file(str(tmp_path / "file"), lambda _: signal.raise_signal(signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert came == [["file"]]
