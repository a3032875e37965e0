"""rdmadiag samples."""

import click

from rdmadiag.cli.output import printing


@click.command("samples")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
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
