"""Plain text, for terminals and for forms that programs read: nothing of rich is loaded for it."""

from collections.abc import Iterable, Iterator
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.quoting import plain_comment, printable

__all__ = ("NO_DEVICE", "counted", "excerpt", "link", "pasted", "printable", "shown", "speed")


def shown(value: object, missing: str = "-") -> str:
    """A cell: the value, or why there is none."""
    if isinstance(value, Missing):
        return {"absent": missing, "unsupported": missing}.get(
            value.why, f"({value.why.replace('_', ' ')})"
        )
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


NO_DEVICE: Final = "no RDMA device"

_EXCERPT: Final = 100  # characters of a line that stands in an answer


def excerpt(text: str) -> str:
    """The beginning of a line that is quoted in a sentence."""
    text = printable(text)
    return text if len(text) <= _EXCERPT else f"{text[: _EXCERPT - 1]}…"


def pasted(lines: Iterable[str]) -> Iterator[str]:
    """Lines for a shell: each command alone on its line, below what is said of it.

    Where a shell knows no comments they would be arguments behind a command.
    """
    said = ""
    for line in lines:
        command, _, comment = plain_comment(line).partition("   # ")
        if comment and comment != said:
            yield f"# {comment}"
        said = comment
        yield command
