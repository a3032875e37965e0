"""The values of a TOML file that a person wrote, and how a mistake in them is named."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

from rdmadiag.frozen import dataclass
from rdmadiag.late import late
from rdmadiag.nearest import instead

_BARE: Final = late(r"[A-Za-z0-9_-]+")


class TomlFileError(Exception):
    """A file that cannot be used; the message is one line, with file and key."""


class NoTomlFile(TomlFileError):
    """Nothing is at its path."""


@dataclass(frozen=True, slots=True)
class TomlFile:
    """What stands in the file."""

    name: str
    values: dict[str, Any]

    def table(self, path: Sequence[str | int]) -> str:
        """The file and one of its tables: expect.toml [device."mlx5_*"]."""
        return f"{self.name} [{dotted(path)}]"

    def refuse(self, path: Sequence[str | int], problem: str) -> NoReturn:
        """Raises TomlFileError that names file and key."""
        raise TomlFileError(f"{self.name}: {dotted(path)}: {problem}")

    def refuse_name(self, path: Sequence[str | int], what: str, known: Iterable[str]) -> NoReturn:
        """The same of a name that is none of those known."""
        self.refuse(path, f"no such {what}; {instead(str(path[-1]), known)}")


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
