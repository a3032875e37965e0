"""Plain text, for terminals and for forms that programs read: nothing of rich is loaded for it."""

from rdmadiag.facts import Missing
from rdmadiag.quoting import printable

__all__ = ("counted", "printable", "shown")


def shown(value: object, missing: str = "-") -> str:
    """A cell: the value, or why there is none."""
    if isinstance(value, Missing):
        return {"absent": missing, "unsupported": missing}.get(value.why, f"({value.why})")
    return missing if value is None else str(value)


def counted(number: int, noun: str) -> str:
    """ "1 port", "2 ports"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
