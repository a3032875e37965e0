"""rdmadiag.quoting: text of somebody else's for a terminal and a shell."""

import os
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.cli.options import complete_devices
from rdmadiag.facts.ib import is_device_name
from rdmadiag.quoting import plain_comment, printable, shell_word


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1))
def test_a_word_is_one_line_and_one_word_of_a_shell(text: str) -> None:
    word = shell_word(text)
    assert word.isprintable()
    if text.isprintable() and "\0" not in text:
        ran = subprocess.run(
            ["sh", "-c", f'printf "%s|" {word} {word}'], capture_output=True, check=True, timeout=10
        )
        assert ran.stdout.decode() == f"{text}|{text}|"


@pytest.mark.parametrize("name", ["mlx5_0", "rdma_en1", "mlx5_0:1", "/sys/class/infiniband/rxe0"])
def test_a_plain_name_stays_as_it_is(name: str) -> None:
    assert shell_word(name) == printable(name) == name


def test_what_a_terminal_would_obey_is_shown() -> None:
    assert printable("a\nb\x1b[2J") == r"a\nb\x1b[2J"
    assert shell_word("a\nb\x1b[2J") == r"'a'\\'nb'\\'x1b[2J'"


SHELLS = {
    "sh": ("sh", "-c"),
    "bash": ("bash", "--norc", "-c"),
    "zsh": ("zsh", "-f", "-c"),
    "fish": ("fish", "--no-config", "-c"),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_reads_the_same_word_and_runs_nothing(shell: str, tmp_path: Path) -> None:
    """fish reads a backslash within quotes as the others do not, zsh takes =NAME for a path."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    marks = ["\\'", "'", '"', "\\", "!", "=", "$", "`", "#", ";", "*"]
    words = [
        before + middle + after
        for before in marks
        for middle in ("(touch ran)", "=ls", "$(touch ran)")
        for after in (*marks, "\\'\"")
    ]
    words += [f"\\'\\'(touch ran)\\'{mark}" for mark in marks]  # was run by fish
    line = f"printf '%s\\n' {' '.join(map(shell_word, words))}"
    ran = subprocess.run(
        [*SHELLS[shell], line], capture_output=True, check=True, timeout=30, cwd=tmp_path
    )
    assert ran.stdout.decode().splitlines() == words
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("mlx5_0", True),
        ("rocep8s0f0", True),
        ("a b$(c)", True),
        ("m" * 63, True),
        ("m" * 64, False),
        ("é" * 32, False),
        ("", False),
        (".", False),
        ("..", False),
        ("a/b", False),
        ("a\n", False),
        ("a\x7f", False),
        ("a\udcff", False),
    ],
)
def test_names_that_a_kernel_gives_a_device(name: str, is_one: bool) -> None:
    """uapi/rdma/rdma_netlink.h: IB_DEVICE_NAME_MAX is 64 with the NUL; a folder of sysfs."""
    assert is_device_name(name) is is_one


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ("# the switch port's log", "# the switch port\u2019s log"),
        ("ls 'a'b   # the host's own", "ls 'a'b   # the host\u2019s own"),
        ("grep 'x'y z", "grep 'x'y z"),
        ("# 'a b' is the host's", "# 'a b' is the host\u2019s"),
        ("", ""),
    ],
)
def test_a_comment_begins_no_word_where_a_shell_knows_none(line: str, plain: str) -> None:
    assert plain_comment(line) == plain


def test_a_name_that_a_shell_would_expand_is_not_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["mlx5_0", "mlx5_1; id", "mlx5_$(id)", "mlx5_2\nid"]
    monkeypatch.setattr(os, "listdir", lambda path: names)
    command = click.Command("gids")
    found = complete_devices(click.Context(command), click.Option(["--device"]), "mlx5")
    assert found == ["mlx5_0"]
