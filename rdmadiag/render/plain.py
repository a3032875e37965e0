"""Plain text, for terminals and for forms that programs read: nothing of rich is loaded for it."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.quoting import printable

__all__ = ("counted", "link", "pasted", "printable", "shown", "speed")


def shown(value: object, missing: str = "-") -> str:
    """A cell: the value, or why there is none."""
    if isinstance(value, Missing):
        return {"absent": missing, "unsupported": missing}.get(value.why, f"({value.why})")
    return missing if value is None else str(value)


def link(layer: LinkLayer | Missing) -> str:
    """ "IB", "Eth": a column must leave room for GIDs."""
    return shown(layer if isinstance(layer, Missing) else _LINK.get(layer, str(layer)), "?")


_LINK: Final = {LinkLayer.INFINIBAND: "IB", LinkLayer.ETHERNET: "Eth", LinkLayer.THUNDERBOLT: "TB"}


def speed(gbps: float | Missing) -> str:
    """ "200G"."""
    return "-" if isinstance(gbps, Missing) else f"{gbps:g}G"


def counted(number: int, noun: str) -> str:
    """ "1 port", "2 ports"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def pasted(lines: Iterable[str]) -> Iterator[str]:
    """Lines for a shell: each command alone on its line, below what is said of it.

    zsh, the shell of macOS, knows no comments at its prompt (zshoptions(1),
    INTERACTIVE_COMMENTS): behind a command they would be arguments, and an apostrophe in one
    would swallow the lines that follow.
    """
    said = ""
    for line in lines:
        command, _, comment = line.partition("   # ")
        if comment and comment != said:
            yield f"# {_typographic(comment)}"
        said = comment
        yield _typographic(command) if command.startswith("#") else command


def _typographic(comment: str) -> str:
    """Of words alone: what is quoted is a host's own name, and zsh would run what is in it."""
    return _APOSTROPHE.sub("\N{RIGHT SINGLE QUOTATION MARK}", comment)


_APOSTROPHE: Final = re.compile(r"(?<=[A-Za-z])'(?=[a-z])")
