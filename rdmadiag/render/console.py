"""The terminal: one console for all text, colours by severity, tables that fit."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Final, Self

import rich.text
from rich.console import Console

from rdmadiag.quoting import printable
from rdmadiag.render.plain import pasted

STYLE: Final = {
    "ok": "bold green",
    "info": "cyan",
    "warn": "bold yellow",
    "unknown": "bold magenta",
    "critical": "bold red",
}
"""By status or severity; the word itself is always printed, colour only helps."""


class Text(rich.text.Text):
    """Text of which nothing is a terminal's to obey: all that is drawn is made of it.

    rich itself drops some control characters, which makes two names look like one, and lets
    ESC and line ends pass.
    """

    def __init__(self, text: str = "", style: str = "", **layout: Any) -> None:
        super().__init__(printable(text), style, **layout)

    def append(self, text: rich.text.Text | str, style: Any = None) -> Self:
        """The same with more behind it."""
        super().append(printable(text) if isinstance(text, str) else text, style)
        return self

    def append_text(self, text: rich.text.Text) -> Self:
        """The same with that behind it, and its styles."""
        super().append_text(text)
        return self


class _Terminal(Console):
    def render_str(self, text: str, **layout: Any) -> rich.text.Text:
        """What stands in a cell, or is printed, without being a Text."""
        return super().render_str(printable(text), **layout)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit with 1, which here means a warning


def console(out: IO[str] | None = None) -> Console:
    """stdout; nothing but words where it is no terminal, and with NO_COLOR.

    Of NO_COLOR rich keeps bold and dim, which a person who set it cannot read either.
    Or `out`, which is a file: no colour then, and room for a row.
    """
    plain = bool(os.environ.get("NO_COLOR"))
    return _Terminal(
        file=out,
        width=None if out is None else _FILE_WIDTH,
        color_system=None if plain else "auto",
        highlight=False,
        soft_wrap=False,
        emoji=False,
        markup=False,
    )


_FILE_WIDTH: Final = 140


def say(out: Console, line: Text | str) -> None:
    """A sentence: wrapped between words in a terminal, one line for whatever reads a pipe.

    Where it is indented, all lines of it are.
    """
    plain = str(line)
    by = len(plain) - len(plain.lstrip(" "))
    if not by or not out.is_terminal:
        out.print(line, soft_wrap=not out.is_terminal)
        return
    words = (Text(line) if isinstance(line, str) else line)[by:]
    for each in words.wrap(out, max(1, out.width - by)):
        each.rstrip()
        out.print(Text(" " * by).append_text(each), soft_wrap=True)


def verbatim(out: Console, line: Text | str) -> None:
    """A line to paste or to search for: never wrapped."""
    out.print(line, soft_wrap=True)


def steps(out: Console, lines: Iterable[str]) -> None:
    """What to do next."""
    for line in pasted(lines):
        verbatim(out, f"    {line}")


@contextmanager
def in_view(out: Console, line: Text) -> Iterator[None]:
    """Around what a command prints: above the prompt stands `line` again where it has left the
    screen."""
    if not out.is_terminal:
        yield
        return
    with out.capture() as captured:
        yield
    text = captured.get()
    out.file.write(text)
    rows = sum(1 + len(_STEERING.sub("", each)) // (out.width + 1) for each in text.splitlines())
    if rows >= out.height:
        out.print()
        say(out, line)


_STEERING: Final = re.compile(r"\x1b\[[0-9;]*m")


def word(status: str) -> Text:
    """A status as the first word of a line."""
    return Text(status.upper(), style=STYLE[status])
