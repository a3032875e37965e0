"""A folder as a tree: what stands there, read without following a link."""

import os

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.host.tree import FolderTree


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "b").touch()
    (tmp_path / "folder" / "a").touch()
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "fifo")
    return FolderTree(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("", "folder"),
        ("file", "file"),
        ("folder", "folder"),
        ("link", "link"),
        ("fifo", "other"),
        ("nothing", None),
        ("file/below", None),
        ("nul\0", None),
        ("\ud800", None),
    ],
    ids=[
        "the top",
        "a file",
        "a folder",
        "a link",
        "a FIFO",
        "nothing",
        "below a file",
        "a name with a NUL",
        "a name that no text encodes",
    ],
)
def test_it_says_what_stands_there(tree, name, kind):
    assert tree.kind(name) == kind


def test_names_are_in_order(tree):
    assert tree.names("folder") == ("a", "b")


def test_a_folder_is_listed_with_what_its_names_are(tree):
    kinds = {"file": "file", "folder": "folder", "link": "link", "fifo": "other"}
    assert tree.kinds("") == kinds
    for none in ("file", "nothing", "link", "nul\0"):
        assert tree.kinds(none) == {}


def test_a_file_is_read_up_to_the_limit(tree):
    assert tree.read("file", 7) == b"content"
    assert tree.read("file", 6) == Missing(Why.MALFORMED, "/file: longer than 6 bytes")


def test_a_link_is_told_and_not_followed(tree):
    assert tree.target("link") == "file"
    assert tree.read("link", 100) == Missing(Why.MALFORMED, "/link: ELOOP")


def test_a_fifo_is_not_waited_for(tree):
    assert tree.read("fifo", 100) == Missing(Why.MALFORMED, "/fifo: not a regular file")


@pytest.mark.parametrize("name", ["nothing", "file", "nul\0"])
def test_what_is_no_link_has_no_target(tree, name):
    assert tree.target(name) == ""


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("nothing", Missing(Why.ABSENT, "/nothing: ENOENT")),
        ("file", Missing(Why.ABSENT, "/file: ENOTDIR")),
        ("nul\0", Missing(Why.MALFORMED, r"'/nul\x00': not a path")),
    ],
    ids=["nothing", "a file", "a name with a NUL"],
)
def test_what_is_no_folder_has_no_names(tree, name, missing):
    assert tree.names(name) == missing


def test_a_name_with_a_nul_is_not_read(tree):
    assert tree.read("nul\0", 100) == Missing(Why.MALFORMED, r"'/nul\x00': not a path")


def test_a_name_that_is_not_utf8_can_be_printed(tree, tmp_path):
    os.close(os.open(os.fsencode(tmp_path) + b"/folder/\xff", os.O_CREAT))
    os.symlink(b"\xfe", os.fsencode(tmp_path) + b"/odd")
    assert tree.names("folder") == (r"\xff", "a", "b")
    assert tree.target("odd") == r"\xfe"
