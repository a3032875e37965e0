"""Plain text, for terminals and for forms that programs read: nothing of rich is loaded for it."""

from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.quoting import printable

__all__ = ("counted", "link", "printable", "shown", "speed")


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
