"""rdmadiag help."""

import click

from rdmadiag.cli.exits import Refused
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page
from rdmadiag.nearest import instead


def _names(context: click.Context, argument: click.Parameter, typed: str) -> list[str]:
    from rdmadiag.cli import COMMANDS

    return [name for name in COMMANDS if name.startswith(typed)]


@click.command(
    "help",
    cls=Page,
    examples=(
        ("the commands", "rdmadiag help"),
        ("one of them; the same as rdmadiag gids --help", "rdmadiag help gids"),
        ("its man page, where one is installed", "man rdmadiag-gids"),
    ),
)
@click.argument("name", required=False, metavar="[COMMAND]", shell_complete=_names)
@click.pass_context
def command(context: click.Context, name: str | None) -> None:
    """The help of a command: what it does, its options by purpose, and examples.

    Without COMMAND: the commands.
    """
    group = context.find_root()
    asked = group
    if name is not None:
        from rdmadiag.cli import COMMANDS, rdmadiag

        found = rdmadiag.get_command(group, name)
        if found is None:
            raise Refused(f"no command {name!r}; {instead(name, COMMANDS)}")
        asked = click.Context(found, info_name=name, parent=group)
    with printing():
        click.echo(asked.get_help())
