"""rdmadiag help."""

import click

from rdmadiag.cli.exits import Refused
from rdmadiag.cli.group import Group, find
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page


def _names(context: click.Context, argument: click.Parameter, typed: str) -> list[str]:
    from rdmadiag.cli import rdmadiag

    group: click.Command = rdmadiag
    for word in context.params.get("names") or ():
        found = group.get_command(context, word) if isinstance(group, Group) else None
        if found is None:
            return []
        group = found
    rows = group.rows if isinstance(group, Group) else {}
    return [name for name in rows if name.startswith(typed)]


@click.command(
    "help",
    cls=Page,
    examples=(
        ("the commands", "rdmadiag help"),
        ("one of them; the same as rdmadiag gids --help", "rdmadiag help gids"),
        ("a command of a group", "rdmadiag help fleet merge"),
        ("its man page, where one is installed", "man rdmadiag-gids"),
    ),
)
@click.argument("names", nargs=-1, metavar="[COMMAND]...", shell_complete=_names)
@click.pass_context
def command(context: click.Context, names: tuple[str, ...]) -> None:
    """The help of a command: what it does, its options by purpose, and examples.

    Without COMMAND: the commands.
    """
    from rdmadiag.cli import rdmadiag

    try:
        found = find(rdmadiag, names)
    except click.UsageError as error:
        raise Refused(error.message) from error
    with printing():
        click.echo(found.get_help())
