"""A TOML file that a person wrote: its values, and on which line each key stands.

tomllib gives values without lines, and a mistake should name its line. `key_lines` walks
a text that tomllib has accepted, so it needs to tell apart only what delimits keys.

>>> text = '[host]\\ndevices = 8\\n\\n[device."mlx5_*"]\\npci.width = 16\\n'
>>> key_lines(text)[("host", "devices")], key_lines(text)[("device", "mlx5_*", "pci", "width")]
(2, 5)
"""

import re
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from rdmadiag.given_file import WAIT, read_given

LIMIT: Final = 256 * 1024  # bytes; a table for each of 64 adapters is 40 KiB

LINE_LIMIT: Final = 8 * 1024  # characters; tomllib takes quadratic time for a key of many dots

Path = tuple[str | int, ...]
"""From the top: names of tables and keys; a number within an array of tables."""


class TomlFileError(Exception):
    """A file that cannot be used; the message is one line, with file, line and key."""


@dataclass(frozen=True, slots=True)
class TomlFile:
    """What stands in the file."""

    name: str
    values: dict[str, Any]
    lines: dict[Path, int]

    def line(self, path: Sequence[str | int]) -> int | None:
        """Of a key or a table: where it is first named."""
        return self.lines.get(tuple(path))

    def refuse(self, path: Sequence[str | int], problem: str) -> NoReturn:
        """Raises TomlFileError that names file, line and key."""
        line = self.line(path)
        at = self.name if line is None else f"{self.name}:{line}"
        raise TomlFileError(f"{at}: {dotted(path)}: {problem}")

    def refuse_name(self, path: Sequence[str | int], what: str, known: Iterable[str]) -> NoReturn:
        """The same of a name that is none of those known."""
        import difflib

        every = list(known)
        near = difflib.get_close_matches(str(path[-1]), every, n=1)
        hint = f"; do you mean {near[0]}?" if near else f"; there are: {', '.join(every)}"
        self.refuse(path, f"no such {what}{hint}")


def dotted(path: Sequence[str | int]) -> str:
    """The key as TOML writes it: device."mlx5_*".rate."""
    return ".".join(
        part if isinstance(part, str) and _BARE.fullmatch(part) else quoted(str(part))
        for part in path
    )


def quoted(text: str) -> str:
    """A basic string of TOML."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    shown = (letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in escaped)
    return f'"{"".join(shown)}"'


def read_toml(path: str) -> TomlFile:
    """The file's values and lines; raises TomlFileError for whatever is wrong with it."""
    try:
        content = read_given(path, LIMIT, time.monotonic() + WAIT)
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
        lines = key_lines(text)
    except tomllib.TOMLDecodeError as error:
        raise TomlFileError(_located(str(error), name, text)) from error
    except RecursionError as error:
        raise TomlFileError(f"{name}: is nested too deeply") from error
    except ValueError as error:  # more digits than Python converts
        raise TomlFileError(f"{name}:{_line_of_digits(text)}: {_TOO_LARGE}") from error
    file = TomlFile(name, values, lines)
    _require_64_bits(file)
    return file


_TOO_LARGE: Final = "a number of more than 64 bits"
_DIGITS: Final = re.compile(r"[0-9_]{4000}")  # sys.get_int_max_str_digits() is 4300


def _line_of_digits(text: str) -> int:
    found = _DIGITS.search(text)
    return text.count("\n", 0, found.start() if found else 0) + 1


def _require_64_bits(file: TomlFile) -> None:
    """As TOML has it; in hexadecimal digits tomllib takes numbers that str() does not."""
    left: list[tuple[Path, Any]] = [((), file.values)]
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
    told = f"{name}:{found[2] or last}: {found[1]}" if found else f"{name}: {message}"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in told)


# --- lines ------------------------------------------------------------------------------------

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_BLANK: Final = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_STRING: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'  # five: two quotes of the text's own before the closing three
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_PLAIN: Final = re.compile(r"[^,\]}\n#]+")  # a number, a date, true


def key_lines(text: str) -> dict[Path, int]:
    """Every key and table of a valid text, with the line where it is first named, from 1."""
    return _Walk(text).lines


class _Walk:
    """From the beginning of the text to its end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines: dict[Path, int] = {}
        self._counts: dict[Path, int] = {}  # tables in each array of tables
        self._counted, self._line = 0, 1  # how far newlines were counted, and the line there
        self._at = 0
        table: Path = ()
        while self._skip(_BLANK) < len(text):
            if text.startswith("[[", self._at):
                table = self._header(2)
            elif text.startswith("[", self._at):
                table = self._header(1)
            else:
                self._pair(table)

    def _skip(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self.text, self._at)
        assert match is not None, "a text that tomllib accepts"
        self._at = match.end()
        return self._at

    def _here(self) -> int:
        self._line += self.text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def _note(self, path: Path, line: int) -> None:
        self.lines.setdefault(path, line)

    def _header(self, brackets: int) -> Path:
        line = self._here()
        self._at += brackets
        keys = self._key()
        self._at += brackets
        path: Path = ()
        for number, name in enumerate(keys):
            path = (*path, name)
            self._note(path, line)
            if brackets == 2 and number == len(keys) - 1:
                self._counts[path] = self._counts.get(path, 0) + 1
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
                self._note(path, line)
        return path

    def _pair(self, table: Path) -> None:
        line = self._here()
        path = table
        for name in self._key():
            path = (*path, name)
            self._note(path, line)
        self._at += 1  # "="
        self._value(path)

    def _key(self) -> tuple[str, ...]:
        """Names with dots between; stands at what follows them."""
        names = []
        while True:
            self._skip(_SPACE)
            start = self._at
            if self.text[start] in "\"'":
                self._skip(_STRING)
                names.append(str(tomllib.loads(f"k = {self.text[start : self._at]}")["k"]))
            else:
                self._skip(_BARE)
                names.append(self.text[start : self._at])
            self._skip(_SPACE)
            if self.text[self._at] != ".":
                return tuple(names)
            self._at += 1

    def _value(self, path: Path) -> None:
        self._skip(_SPACE)
        letter = self.text[self._at]
        if letter in "\"'":
            self._skip(_STRING)
        elif letter == "[":
            for number in self._members("]"):
                self._note((*path, number), self._here())
                self._value((*path, number))
        elif letter == "{":
            for _ in self._members("}"):
                self._pair(path)
        else:
            self._skip(_PLAIN)

    def _members(self, closing: str) -> Iterator[int]:
        """Stands at each member in turn; at last behind the closing bracket."""
        self._at += 1
        number = 0
        while self.text[self._skip(_BLANK)] != closing:
            yield number
            number += 1
            if self.text[self._skip(_BLANK)] == ",":
                self._at += 1
        self._at += 1
