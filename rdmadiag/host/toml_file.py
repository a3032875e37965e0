"""A TOML file that the user names: read within bounds, and parsed by tomllib."""

import re
import time
import tomllib
from typing import Any, Final

from rdmadiag.facts.toml_file import NoTomlFile, TomlFile, TomlFileError
from rdmadiag.host.given_file import WAIT, read_given, understood

LIMIT: Final = 256 * 1024  # bytes; a table for each of 64 adapters is 40 KiB

LINE_LIMIT: Final = 8 * 1024  # characters; tomllib takes quadratic time for a key of many dots


def read_toml(path: str, deadline: float | None = None) -> TomlFile:
    """The file's values; raises TomlFileError for whatever is wrong with it.

    `deadline` is absolute on time.monotonic's clock, WAIT seconds from now by default.
    """
    until = time.monotonic() + WAIT if deadline is None else deadline
    return understood(path, lambda: _read(path, until), TomlFileError, until)


def _read(path: str, deadline: float) -> TomlFile:
    try:
        content = read_given(path, LIMIT, deadline)
    except FileNotFoundError as error:
        raise NoTomlFile(f"{path}: {error.strerror}") from error
    except OSError as error:
        raise TomlFileError(f"{path}: {error.strerror}") from error
    return parse_toml(content, path)


def parse_toml(content: bytes, name: str) -> TomlFile:
    """The same of what was read; `name` is the file's, for messages."""
    if len(content) > LIMIT:
        raise TomlFileError(f"{name}: has more than {LIMIT // 1024} KiB")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise TomlFileError(f"{name}:{line}: is not UTF-8") from error
    text = text.replace("\r\n", "\n")
    for number, each in enumerate(text.split("\n"), start=1):
        if len(each) > LINE_LIMIT:
            raise TomlFileError(f"{name}:{number}: the line has more than {LINE_LIMIT} characters")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TomlFileError(_located(str(error), name, text)) from error
    except RecursionError as error:
        raise TomlFileError(f"{name}: is nested too deeply") from error
    except ValueError as error:  # more digits than Python converts
        raise TomlFileError(f"{name}:{_line_of_digits(text)}: {_TOO_LARGE}") from error
    file = TomlFile(name, values)
    _require_64_bits(file)
    return file


_TOO_LARGE: Final = "a number of more than 64 bits"
_DIGITS: Final = re.compile(r"[0-9_]{4000}")  # sys.get_int_max_str_digits() is 4300


def _line_of_digits(text: str) -> int:
    found = _DIGITS.search(text)
    return text.count("\n", 0, found.start() if found else 0) + 1


def _require_64_bits(file: TomlFile) -> None:
    """As TOML has it; in hexadecimal digits tomllib takes numbers that str() does not."""
    left: list[tuple[tuple[str | int, ...], Any]] = [((), file.values)]
    while left:
        path, value = left.pop()
        if isinstance(value, dict):
            left += [((*path, name), each) for name, each in value.items()]
        elif isinstance(value, list):
            left += [((*path, number), each) for number, each in enumerate(value)]
        elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            file.refuse(path, _TOO_LARGE)


_AT: Final = re.compile(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", re.DOTALL)


def _located(message: str, name: str, text: str) -> str:
    """ "Expected '=' after a key (at line 3, column 5)" with the line in front."""
    found = _AT.fullmatch(message)
    last = text.rstrip("\n").count("\n") + 1
    shown = f"{name}:{found[2] or last}: {found[1]}" if found else f"{name}: {message}"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in shown)
