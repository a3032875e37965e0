"""docs/commands.md: the help of every command."""

from docs.printed import printed
from rdmadiag.cli import rdmadiag


def commands_page() -> str:
    """The page."""
    parts = ["# Commands\n\nGenerated from the code by `make docs`.\n"]
    parts.append(f"\n```text\n{printed('--help')}\n```\n")
    parts += [
        f"\n## {name}\n\n```text\n{printed(f'{name} --help')}\n```\n" for name in rdmadiag.every()
    ]
    return "".join(parts)
