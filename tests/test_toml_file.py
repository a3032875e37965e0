"""TOML files: every key has its line, and whatever is wrong is one line that names it."""

import contextlib
import os
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.toml_file import (
    LIMIT,
    TomlFileError,
    dotted,
    key_lines,
    parse_toml,
    quoted,
    read_toml,
)

TRICKY = '''\
# [not.a.table]
title = "a # b = c"   # trailing

[host]
"devices" = 8
text = """
devices = 9
[fake]
\\""" quote ""and two"""
raw = \'\'\'
fake = 1\'\'\'
many = [
  1,   # one ]
  [2, "]"],
  { a = 1, b.c = "}" },
]
when = 1979-05-27 07:32:00

[ device . "mlx5_\\u002a" ]
pci.width = 16
'port' = {}
  [[rows]]
  x = 1
[[rows]]
x = 2
[rows.below]
y = 3
[[rows.inner]]
z = 1
'''


def test_each_key_of_a_tricky_text_is_on_its_line() -> None:
    lines = key_lines(TRICKY)
    expected = {
        ("title",): 2,
        ("host",): 4,
        ("host", "devices"): 5,
        ("host", "text"): 6,
        ("host", "raw"): 10,
        ("host", "many"): 12,
        ("host", "many", 1): 14,
        ("host", "many", 2, "b", "c"): 15,
        ("host", "when"): 17,
        ("device", "mlx5_*"): 19,
        ("device", "mlx5_*", "pci", "width"): 20,
        ("device", "mlx5_*", "port"): 21,
        ("rows", 0, "x"): 23,
        ("rows", 1, "x"): 25,
        ("rows", 1, "below", "y"): 27,
        ("rows", 1, "inner", 0, "z"): 29,
    }
    assert {path: lines.get(path) for path in expected} == expected
    assert ("host", "fake") not in lines
    assert ("fake",) not in lines


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every path that tomllib's answer has."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield (*path, name)
            yield from paths(each, (*path, name))
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield (*path, number)
            yield from paths(each, (*path, number))


def test_no_key_of_a_tricky_text_is_forgotten_or_made_up() -> None:
    assert set(key_lines(TRICKY)) == set(paths(tomllib.loads(TRICKY)))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = TEXT | st.text("ab.#=[]\"'\\", max_size=4)
VALUES = st.recursive(
    st.integers() | st.booleans() | TEXT | st.text("\"'\\#=[]{},\n", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)


def written(value: Any) -> str:
    """As TOML, in one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    return "{ " + ", ".join(f"{dotted([k])} = {written(v)}" for k, v in value.items()) + " }"


@given(st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, max_size=4), max_size=4))
def test_of_any_tables_all_keys_are_found_in_their_order(tables: dict[str, Any]) -> None:
    text, expected, line = "", {}, 0
    for name, table in tables.items():
        line += 2
        text += f"# [{quoted(name)}]\n[{dotted([name])}]\n"
        expected[(name,)] = line
        for key, value in table.items():
            line += 1
            text += f"{dotted([key])} = {written(value)} # x = [\n"
            for path in ((), *paths(value)):
                expected[(name, key, *path)] = line
    assert tomllib.loads(text) == tables
    assert key_lines(text) == expected


@given(st.binary(max_size=80) | st.text("[]{}=\"'.,#\n ab1\\", max_size=60).map(str.encode))
def test_any_content_is_read_or_refused_by_name(content: bytes) -> None:
    try:
        read = parse_toml(content, "x.toml")
    except TomlFileError as error:
        told = str(error)
    else:
        assert set(read.lines) == set(paths(read.values))
        return
    assert told.startswith("x.toml:")
    assert "\n" not in told


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"a = 1\nb 2\n", "x.toml:2: Expected '='", id="no equals sign"),
        pytest.param(b"a = 1\n\xff\n", "x.toml:2: is not UTF-8", id="not UTF-8"),
        pytest.param(b"a = 1\na = 2\n", "x.toml:2: Cannot overwrite a value", id="a key twice"),
        pytest.param(b"\n" + b"[" * 9000, "x.toml:2: the line has more than", id="a long line"),
        pytest.param(b"a = " + b"[\n" * 9000, "x.toml: is nested too deeply", id="deep arrays"),
        pytest.param(b"a = " + b"9" * 5000, "x.toml:1: a number of", id="five thousand digits"),
        pytest.param(
            b"[t]\nn = [1, 0x" + b"f" * 5000 + b"]", 'x.toml:2: t.n."1": a number', id="and in hex"
        ),
        pytest.param(b"x" * (10 << 20), "x.toml: has more than 256 KiB", id="10 MB"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(content: bytes, told: str) -> None:
    with pytest.raises(TomlFileError) as caught:
        parse_toml(content, "x.toml")
    assert str(caught.value).startswith(told)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "unit",
    [
        b"a.",
        b"a." * 4000 + b"a=1\n",
        b"#",
        b"a='",
        b'a="\\',
        b"[[a]]\n",
        b"a=[[1],",
        b"a={b=",
        b"\n",
        b"a=[1,\n",
    ],
    ids=repr,
)
def test_no_content_of_the_largest_size_takes_long(unit: bytes) -> None:
    content = unit * (LIMIT // len(unit))
    before = time.process_time()
    with contextlib.suppress(TomlFileError):
        parse_toml(content, "x.toml")
    assert time.process_time() - before < 5


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(TomlFileError, match=reason):
            read_toml(str(path))


def test_endless_files_and_pipes_without_a_writer_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", str(tmp_path / "pipe")):
        with pytest.raises(TomlFileError, match="pipe"):
            read_toml(path)


def test_lines_that_end_as_on_windows_count_once(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a = 1\r\n\r\nb = 2\r\n")
    assert read_toml(str(tmp_path / "x")).line(["b"]) == 3
