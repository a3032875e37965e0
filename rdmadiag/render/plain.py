"""Plain text, for terminals and for forms that programs read: nothing of rich is loaded for it."""

from rdmadiag.facts import Missing


def printable(text: str) -> str:
    r"""Text of a host's own making as a terminal may see it: ESC becomes \x1b."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def shown(value: object, missing: str = "-") -> str:
    """A cell: the value, or why there is none."""
    if isinstance(value, Missing):
        return {"absent": missing, "unsupported": missing}.get(value.why, f"({value.why})")
    return missing if value is None else str(value)


def counted(number: int, noun: str) -> str:
    """ "1 port", "2 ports"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
