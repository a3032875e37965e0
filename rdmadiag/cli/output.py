"""stdout and stderr: text that they can take, and what happens when one takes none."""

import codecs
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import Final

from rdmadiag.cli.exits import NotWritten

_ASCII: Final = str.maketrans({"→": ">", "≥": ">=", "≤": "<=", "…": "...", "µ": "u", "█": "#"})
_ERRORS: Final = "rdmadiag"
_NOT_OF_OUTPUT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def prepare_streams() -> None:
    """Both are there, and no locale ends a document in the middle."""
    # Started with a closed one: text for nobody. Each takes the lowest number that is free,
    # which is its own.
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # until the end
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # until the end
    codecs.register_error(_ERRORS, _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a program that calls us may put another there
            stream.reconfigure(errors=_ERRORS)


def in_utf8() -> None:
    """For a form that is UTF-8 by its specification, and has no escapes for anything else."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors=_ERRORS)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """What the encoding of the locale lacks, in letters that every one has."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].translate(_ASCII)
    return text.encode("ascii", "backslashreplace").decode(), error.end


@contextmanager
def printing() -> Iterator[None]:
    """Around all printing of a command: a closed pipe ends quietly, with the command's code.

    Raises NotWritten where stdout cannot take what there is to say.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _leave()
    except OSError as error:
        if error.errno in _NOT_OF_OUTPUT:
            raise
        _leave()
        raise NotWritten(f"stdout: {error.strerror}") from error


def _leave() -> None:
    """What is still buffered, and the flush at exit, must not fail again."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(line: str) -> None:
    """One line on stderr. A stderr that cannot take it changes nothing."""
    if not line.isprintable():  # a name with a line's end in it, or bytes that are not UTF-8
        from rdmadiag.quoting import printable

        line = printable(line)
    with suppress(OSError, ValueError):
        sys.stderr.write(f"rdmadiag: {line}\n")
        sys.stderr.flush()
