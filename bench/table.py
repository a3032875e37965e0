"""A table of text: the same in a terminal and in Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isinf

from bench.pairs import Spread

MB = 1e6  # bytes


@dataclass
class Section:
    """A table with what is to be known before reading it."""

    title: str
    about: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)  # what could not run

    def text(self) -> str:
        """Markdown whose columns line up."""
        parts = [f"## {self.title}", self.about]
        if self.rows:
            parts.append(_table(self.columns, self.rows))
        parts += [f"Could not run: {failure}." for failure in self.failures]
        return "\n\n".join(parts)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    lines = [
        "| " + " | ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) + " |"
        for row in (columns, *rows)
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def code(name: str) -> str:
    """A command line in a cell."""
    return f"`{name}`"


def spread(figures: Spread) -> str:
    """A ratio as median (least to most)."""
    return f"{factor(figures.median)} ({factor(figures.least)} to {factor(figures.most)})"


def factor(figure: float) -> str:
    """A ratio with three digits that say something."""
    if isinf(figure):
        return "∞"
    return f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"


def limit(figure: float | None, most: float | None, unit: str = "") -> tuple[str, str]:
    """The cells "limit" and "holds"; `most` None: the figure has no limit."""
    if most is None or figure is None:
        return "", ""
    return f"≤ {most:g}{unit}", "yes" if figure <= most else "NO"


def ms(seconds: float) -> str:
    """Seconds as milliseconds."""
    return f"{seconds * 1000:.1f}" if seconds < 0.1 else f"{seconds * 1000:.0f}"


def mb(size: float) -> str:
    """Bytes as megabytes of 10^6."""
    return f"{size / MB:.1f}"
