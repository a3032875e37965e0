"""README.md: the output below each `$ rdmadiag …` is what the command prints."""

import os
import re
import subprocess
import sys

_BLOCK = re.compile(r"```\n\$ rdmadiag (.*)\n(?:.*\n)*?```")


def readme(text: str) -> str:
    """The README with every such block printed anew, 80 columns wide."""
    return _BLOCK.sub(lambda block: _printed(block[1]), text)


def _printed(arguments: str) -> str:
    output = subprocess.run(
        [sys.executable, "-m", "rdmadiag", *arguments.split()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    ).stdout
    lines = "\n".join(line.rstrip() for line in output.splitlines())
    return f"```\n$ rdmadiag {arguments}\n{lines}\n```"
