"""docs/commands.md: the help of every command."""

import click

from rdmadiag.cli import COMMANDS, rdmadiag

_WIDTH = 90


def commands_page() -> str:
    """The page."""
    parts = ["# Commands\n\nGenerated from the code by `make docs`.\n"]
    root = click.Context(rdmadiag, info_name="rdmadiag", terminal_width=_WIDTH)
    parts.append(f"\n```\n{rdmadiag.get_help(root)}\n```\n")
    for name in COMMANDS:
        command = rdmadiag.get_command(root, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=root, terminal_width=_WIDTH)
        parts.append(f"\n## {name}\n\n```\n{command.get_help(context)}\n```\n")
    return "".join(parts)
