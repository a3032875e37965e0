"""Text that a host, a record or a peer chose, made fit for a terminal and for a shell."""

import re
from typing import Final


def printable(text: str) -> str:
    r"""Text of a host's own making as a terminal may see it: ESC becomes \x1b."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def shell_word(text: str) -> str:
    r"""One word of a line for a shell: `mlx5_0` as it is, `$(id)` within quotes.

    Always one line: a newline becomes \n, which names no device, but ends no comment either.
    Words of a comment are quoted too: an interactive zsh reads `#` as a command's name.
    The same in sh, bash, zsh and fish, which unlike the others reads \\ and \' within quotes, and
    in csh, where ! is an event within them.
    """
    shown = printable(text)
    if _PLAIN.fullmatch(shown):
        return shown
    return (
        "".join(f"'{run}'" if run else rf"\{mark}" for run, mark in re.findall(_RUNS, shown))
        or "''"
    )


def plain_comment(line: str) -> str:
    """A line for a shell, without an apostrophe between letters of its comment.

    zsh, the shell of macOS, knows no comments at its prompt (zshoptions(1),
    INTERACTIVE_COMMENTS): there one would begin a word that swallows the lines that follow. What
    is quoted stays: it is a host's own name, and zsh would run what is in it.
    """
    command, mark, comment = ("", "", line) if line[:1] == "#" else line.partition("   # ")
    return f"{command}{mark}{_APOSTROPHE.sub(_RIGHT_QUOTE, comment)}"


_APOSTROPHE: Final = re.compile(r"(?<=[A-Za-z])'(?=[a-z])")
_RIGHT_QUOTE: Final = "\u2019"
_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+:,./-][A-Za-z0-9_@%+=:,./-]*")  # zsh has =COMMAND
_RUNS: Final = r"([^'\\!]+)|(['\\!])"  # of few words: it is compiled where one comes
