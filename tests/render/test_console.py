"""Lines to paste, as they stand in the terminal."""

import io
import shutil
import subprocess

import pytest
from rich.console import Console

from rdmadiag.quoting import shell_word
from rdmadiag.render.console import Text, console, say, steps


def shown(*lines: str) -> str:
    out = io.StringIO()
    steps(console(out), lines)
    return out.getvalue()


def test_a_command_stands_alone_below_what_is_said_of_it() -> None:
    assert shown("ip link   # who's up?", "rdma link") == (
        "    # who\N{RIGHT SINGLE QUOTATION MARK}s up?\n    ip link\n    rdma link\n"
    )


def test_what_is_said_of_two_commands_is_said_once() -> None:
    assert shown("sminfo -P 1   # it answers", "sminfo -P 2   # it answers") == (
        "    # it answers\n    sminfo -P 1\n    sminfo -P 2\n"
    )


@pytest.mark.parametrize("name", ["$(touch ran)", "it's$(touch ran)", "a;touch ran", "s' $(id)"])
def test_a_name_in_a_comment_stays_quoted(name: str) -> None:
    """At zsh's prompt `#` is a command, and what follows are its arguments."""
    quoted = shell_word(name)
    assert shown(f"# the host's {quoted} is gone") == (
        f"    # the host\N{RIGHT SINGLE QUOTATION MARK}s {quoted} is gone\n"
    )


@pytest.mark.parametrize("kind", [str, Text])
def test_a_line_that_is_indented_is_so_as_a_whole_where_a_terminal_wraps_it(kind) -> None:
    line = kind("  fails: brpc, ds4: ends with an error")
    wrapped, one = io.StringIO(), io.StringIO()
    say(Console(file=wrapped, force_terminal=True, width=24, color_system=None), line)
    say(console(one), line)
    assert wrapped.getvalue() == "  fails: brpc, ds4: ends\n  with an error\n"
    assert one.getvalue() == f"{line}\n"


@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh")
def test_all_commands_run_when_pasted_into_a_zsh_that_knows_no_comments() -> None:
    pasted = shown("echo one   # isn't (that) so?", "# don't; do", "echo two   # then: *")
    zsh = ["zsh", "-f", "-i", "-s", "+o", "interactive_comments", "+o", "zle"]
    ran = subprocess.run(zsh, input=pasted, capture_output=True, text=True, timeout=30, check=False)
    assert ran.stdout.split() == ["one", "two"]
