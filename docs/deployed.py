"""docs/deploy/*.md: each file of rdmadiag/deploy/ below the link to it, and what commands print."""

import re
from pathlib import Path

from docs.blocks import printed_anew

CHECKOUT = Path(__file__).parents[1]
FOLDER = CHECKOUT / "docs" / "deploy"

_FILE = re.compile(
    r"(\[[^\]]+\]\(\.\./\.\./(rdmadiag/deploy/[^)]+)\):\n\n```\w*\n)(?:.*\n)*?(```\n)"
)


def deployed(page: str, text: str) -> str:
    """A page with its files and outputs as they are now."""

    def file(block: re.Match[str]) -> str:
        return f"{block[1]}{(CHECKOUT / block[2]).read_text(encoding='utf-8')}{block[3]}"

    return printed_anew(page, _FILE.sub(file, text))
