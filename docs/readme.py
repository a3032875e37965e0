"""README.md: the output below each `$ rdmadiag …` is what the command prints."""

import re

from docs.printed import printed

_BLOCK = re.compile(r"```\n\$ rdmadiag (.*)\n(?:.*\n)*?```")


def readme(text: str) -> str:
    """The README with every such block printed anew."""
    return _BLOCK.sub(lambda block: f"```\n$ rdmadiag {block[1]}\n{printed(block[1])}\n```", text)
