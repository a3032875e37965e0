"""Small recorded machines that come with the package; each says in ABOUT what it is."""

import os
from typing import Final

from rdmadiag.nearest import instead

FOLDER: Final = os.path.dirname(__file__)


class NoSuchSample(ValueError):
    """A name that is not among the samples; the message has the nearest, or lists them."""


def samples() -> dict[str, str]:
    """Name → the text of ABOUT, sorted by name."""
    found = {}
    for name in sorted(os.listdir(FOLDER)):
        try:
            with open(f"{FOLDER}/{name}/ABOUT", encoding="utf-8") as about:
                found[name] = about.read().strip()
        except (FileNotFoundError, NotADirectoryError):
            continue
    return found


def folder(name: str) -> str:
    """The snapshot folder of a sample; raises NoSuchSample."""
    found = samples()
    if name not in found:
        raise NoSuchSample(f"no sample {name!r}; {instead(name, found)}")
    return f"{FOLDER}/{name}"
