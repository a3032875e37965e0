"""Tables and indented words: no frame, no blanks at the ends of lines."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table

from rdmadiag.render.console import Text


class Grid(Table):
    """Columns alone; a line that is copied or compared ends with its last cell."""

    def __init__(
        self, *, show_header: bool = True, padding: tuple[int, int, int, int] = (0, 1, 0, 1)
    ) -> None:
        super().__init__(
            box=None,
            pad_edge=False,
            padding=padding,
            header_style="bold",
            show_header=show_header,
        )

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Each line of it, without what fills its last column."""
        for line in Segment.split_lines(super().__rich_console__(console, options)):  # type: ignore[arg-type]
            while line and not line[-1].text.strip(" "):
                line.pop()
            *kept, last = line or [Segment("")]
            yield from kept
            yield Segment(last.text.rstrip(" "), last.style)
            yield Segment.line()


class Indented:
    """Words that are wrapped, with each line `by` spaces from the edge."""

    def __init__(self, words: str, by: int, style: str = "") -> None:
        self._words, self._by = Text(words, style), by

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Each line of it."""
        for line in self._words.wrap(console, max(1, options.max_width - self._by)):
            line.rstrip()
            yield Text(" " * self._by).append_text(line)
