"""TOML files: whatever is wrong with one is a line that names the file and the key."""

import contextlib
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts.toml_file import TomlFileError, dotted, quoted
from rdmadiag.host.toml_file import LIMIT, parse_toml, read_toml

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = TEXT | st.text("ab.#=[]\"'\\", max_size=4)
VALUES = st.recursive(
    st.integers(-(1 << 63), (1 << 63) - 1)
    | st.booleans()
    | TEXT
    | st.text("\"'\\#=[]{},\n", max_size=6),
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


@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_names_and_texts_are_written_so_that_they_are_read_back(table: dict[str, Any]) -> None:
    text = "".join(f"{dotted([key])} = {written(value)}\n" for key, value in table.items())
    assert parse_toml(text.encode(), "x.toml").values == table


@given(st.binary(max_size=80) | st.text("[]{}=\"'.,#\n ab1\\", max_size=60).map(str.encode))
def test_any_content_is_read_or_refused_by_name(content: bytes) -> None:
    refusal = "x.toml:"
    try:
        parse_toml(content, "x.toml")
    except TomlFileError as error:
        refusal = str(error)
    assert refusal.startswith("x.toml:")
    assert "\n" not in refusal


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"a = 1\nb 2\n", "x.toml:2: Expected '='", id="no equals sign"),
        pytest.param(b"a = 1\n\xff\n", "x.toml:2: is not UTF-8", id="not UTF-8"),
        pytest.param(b"a = 1\na = 2\n", "x.toml:2: Cannot overwrite a value", id="a key twice"),
        pytest.param(b"\n" + b"[" * 9000, "x.toml:2: the line has more than", id="a long line"),
        pytest.param(b"a = " + b"[\n" * 9000, "x.toml: is nested too deeply", id="deep arrays"),
        pytest.param(b"a = " + b"9" * 5000, "x.toml:1: a number of", id="five thousand digits"),
        pytest.param(
            b"[t]\nn = [1, 0x" + b"f" * 5000 + b"]", 'x.toml: t.n."1": a number', id="and in hex"
        ),
        pytest.param(b"x" * (10 << 20), "x.toml: has more than 256 KiB", id="10 MB"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(content: bytes, message: str) -> None:
    with pytest.raises(TomlFileError) as caught:
        parse_toml(content, "x.toml")
    assert str(caught.value).startswith(message)
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
