"""rdmadiag fleet: its commands, one file each, imported when they run."""

from typing import Final

import click

from rdmadiag.cli import exits
from rdmadiag.cli.group import Group, give_defaults

SUBCOMMANDS: Final = {
    "merge": "What the reports of many hosts add up to, from any launcher.",
    "run": "A reading command on many nodes: by ssh, one srun, or any other program.",
    "pairs": "Which node, adapter or path is the odd one; refuses without --allow-rtr.",
    "archive": "One file with rdmadiag, for hosts that have Python and no pip.",
    "history": "Since when a node is as it is, and what changed the day before.",
}
"""Every one and its line in --help; its module is rdmadiag.cli.fleet.NAME."""


@click.group(
    "fleet",
    cls=Group,
    rows=SUBCOMMANDS,
    package=__name__,
    examples=(
        ("who is not fit, of all that reported", "rdmadiag fleet merge reports/"),
        (
            "the same as it comes from a job's nodes",
            "srun -l rdmadiag preflight --json | rdmadiag fleet merge -",
        ),
        ("all options of one of its commands", "rdmadiag help fleet merge"),
    ),
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
)
@click.pass_context
def command(context: click.Context) -> int | None:
    """Many hosts: what their reports add up to, and which of them is the odd one.

    Nothing is drained or cordoned: there are lists of nodes to do that with.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        return exits.USAGE
    give_defaults(context)
    return None
