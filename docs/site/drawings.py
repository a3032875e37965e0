"""Drawings, written by hand in docs/site/drawings/*.svg, put into the pages that name them.

They are inline, so that `currentColor` is the colour of the page's text, light or dark.
"""

import re
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "drawings"

_NAMED: Final = re.compile(r"^!\[\[([a-z-]+)\]\]$", re.MULTILINE)


def with_drawings(text: str) -> str:
    """The page, with the drawing in the place of each line `![[NAME]]`."""

    def drawing(found: re.Match[str]) -> str:
        svg = (FOLDER / f"{found[1]}.svg").read_text(encoding="utf-8").strip()
        return f'<figure class="drawing">\n{svg}\n</figure>'

    return _NAMED.sub(drawing, text)
