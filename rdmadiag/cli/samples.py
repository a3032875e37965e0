"""rdmadiag samples."""

import click

from rdmadiag.cli import page
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page


@click.command(
    "samples",
    cls=Page,
    examples=(
        ("their names, and what each is", "rdmadiag samples"),
        ("what a command says of one", "rdmadiag gids --sample roce-healthy"),
        ("a copy to look into", "rdmadiag snapshot --sample roce-healthy /tmp/roce-healthy"),
    ),
)
@page.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(as_json: bool) -> None:
    """The recorded machines that come with rdmadiag, for --sample NAME."""
    from rdmadiag.samples import samples

    found = samples()
    with printing():
        if as_json:
            from rdmadiag.render.json import write

            write({"samples": [{"name": name, "about": about} for name, about in found.items()]})
            return
        width = max(map(len, found))
        for name, about in found.items():
            click.echo(f"{name:<{width}}  {about.splitlines()[0]}")
