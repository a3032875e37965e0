"""The terminal: one console for all text, colours by severity, tables that fit."""

from typing import IO, Final

from rich.console import Console
from rich.text import Text

STYLE: Final = {
    "ok": "bold green",
    "info": "cyan",
    "warn": "bold yellow",
    "unknown": "bold magenta",
    "critical": "bold red",
}
"""By status or severity; the word itself is always printed, colour only helps."""


class _Terminal(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit with 1, which here means a warning


def console(out: IO[str] | None = None) -> Console:
    """stdout; rich obeys NO_COLOR, and drops colour where stdout is no terminal.

    Or `out`, which is a file: no colour then, and room for a row.
    """
    if out is None:
        return _Terminal(highlight=False, soft_wrap=False, emoji=False, markup=False)
    return _Terminal(
        file=out, width=_FILE_WIDTH, highlight=False, soft_wrap=False, emoji=False, markup=False
    )


_FILE_WIDTH: Final = 140


def say(out: Console, line: Text | str) -> None:
    """A sentence: wrapped between words in a terminal, one line for whatever reads a pipe."""
    out.print(line, soft_wrap=not out.is_terminal)


def verbatim(out: Console, line: Text | str) -> None:
    """A line to paste or to search for: never wrapped."""
    out.print(line, soft_wrap=True)


def word(status: str) -> Text:
    """A status as the first word of a line."""
    return Text(status.upper(), style=STYLE[status])
