"""What hosts have answered: the files of the recorded machines, as seeds of inputs."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

CHECKOUT: Final = Path(__file__).resolve().parent.parent
_MOST: Final = 64 * 1024  # bytes of one


def machines() -> tuple[Path, ...]:
    """Folders of recorded machines: the samples and the tests' fixtures."""
    places = (CHECKOUT / "rdmadiag" / "samples", CHECKOUT / "tests" / "fixtures")
    return tuple(sorted(meta.parent for place in places for meta in place.glob("*/meta.json")))


def files(machine: Path) -> dict[str, bytes]:
    """Its files by name; links are left out."""
    return {
        str(each.relative_to(machine)): each.read_bytes()
        for each in sorted(machine.rglob("*"))
        if each.is_file() and not each.is_symlink()
    }


@cache
def blobs() -> tuple[bytes, ...]:
    """Each content of the machines once, those of the answers before those of small files."""
    return tuple(dict.fromkeys(_blobs()))


def _blobs() -> Iterator[bytes]:
    for machine in machines():
        for name, content in files(machine).items():
            if len(content) <= _MOST and name != "meta.json" and content:
                yield content
        meta: dict[str, Any] = json.loads((machine / "meta.json").read_bytes())
        for row in meta.get("repeated", ()):
            yield row["content"].encode()
        for target in meta.get("links", {}).values():
            yield target.encode()


@cache
def logs() -> tuple[bytes, ...]:
    """Lines of the logs that explain is tested with."""
    found: dict[bytes, None] = {}
    for path in sorted((CHECKOUT / "tests" / "explain").rglob("*.txt")):
        found |= dict.fromkeys(path.read_bytes().splitlines())
    return tuple(found)
