"""What a campaign found: inputs, what was held, and where it was not."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Held(NamedTuple):
    """One property, on how many inputs it was tried, and each that broke it."""

    property: str
    tried: int
    violations: list[str]  # one line each, with what repeats it: the input or its file


@dataclass(frozen=True)
class Result:
    """One campaign's outcome."""

    name: str
    inputs: int
    held: Sequence[Held]
    seconds: float

    @property
    def violations(self) -> list[str]:
        """Of all properties."""
        return [f"{held.property}: {each}" for held in self.held for each in held.violations]


def table(results: Sequence[Result]) -> str:
    """Markdown: a row for each property."""
    rows = [
        ("Campaign", "What must hold", "Inputs", "Violations", "Seconds"),
        *(
            (each.name, held.property, f"{held.tried:,}", str(len(held.violations)), seconds)
            for each in results
            for held, seconds in zip(
                each.held, [f"{each.seconds:.0f}", *[""] * (len(each.held) - 1)], strict=True
            )
        ),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines) + "\n"
