"""rdmadiag deploy."""

import click

from rdmadiag.cli import page
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page


def _names(context: click.Context, argument: click.Parameter, typed: str) -> list[str]:
    from rdmadiag.deploy import FILES

    return [name for name in FILES if name.startswith(typed)]


@click.command(
    "deploy",
    cls=Page,
    examples=(
        ("which files there are", "rdmadiag deploy"),
        ("what one of them is", "rdmadiag deploy slurm/prolog.sh"),
        (
            "install it",
            'sudo install -m 755 "$(rdmadiag deploy --path slurm/prolog.sh)" /etc/slurm/',
        ),
    ),
)
@click.argument("name", required=False, metavar="[NAME]", shell_complete=_names)
@page.option("--path", "show_path", is_flag=True, help="Where it is, instead of what it says.")
def command(name: str | None, show_path: bool) -> None:
    """Files to install: for Slurm, NHC, systemd, node_exporter, Kubernetes, Nagios, GitHub.

    Prints one; without NAME what there is, or with --path the folder of them all. Nothing is
    installed. docs/deploy/ has a page on each.
    """
    from rdmadiag.deploy import FILES, FOLDER, NoSuchFile, path

    with printing():
        if name is None:
            width = max(map(len, FILES))
            lines = (f"{each:<{width}}  {what}" for each, what in FILES.items())
            click.echo(FOLDER if show_path else "\n".join(lines))
            return
        try:
            found = path(name)
        except NoSuchFile as error:
            raise Refused(str(error)) from error
        if show_path:
            click.echo(found)
            return
        with open(found, encoding="utf-8") as file:
            click.echo(file.read(), nl=False)
