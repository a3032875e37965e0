"""rdmadiag fleet archive."""

import os
from typing import Final

import click

from rdmadiag.cli import page
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import Given, started
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page

SECONDS: Final = 60.0
"""For all the wheels: unpacking one takes a tenth of a second."""


@click.command(
    "archive",
    cls=Page,
    examples=(
        ("for hosts with the Python of this one", "rdmadiag fleet archive rdmadiag.pyz"),
        ("then, on such a host, nothing installed", "python3 rdmadiag.pyz preflight"),
        ("for other Pythons and processors too",
         "rdmadiag fleet archive rdmadiag.pyz --wheels wheels/"),
    ),
)  # fmt: skip
@click.argument("file", type=Given(), metavar="FILE")
@page.option(
    "--wheels", type=Given(), metavar="DIR",
    help="Wheels of pydantic-core, as pip download brings them: each Python and processor that "
    "one of them is for can run the file, too.",
)  # fmt: skip
def command(file: str, wheels: str | None) -> None:
    """One file with rdmadiag and what it imports, for hosts that have Python and no pip.

    `python3 FILE COMMAND` is `rdmadiag COMMAND` there: it unpacks itself into a folder of its own
    below TMPDIR, which is gone when the command ends. The same bytes for the same modules; written
    whole or not at all, for all to read. It is for this Python and processor, and for those
    of --wheels. Not in it: fleet merge, mcp, and what is compiled for speed.
    """
    from rdmadiag import __version__
    from rdmadiag.cli.fleet.wheels import wheels_of
    from rdmadiag.cli.output_file import FOR_OTHERS, check_output, write_output
    from rdmadiag.fleet.one_file import one_file
    from rdmadiag.fleet.wheels import NoArchive
    from rdmadiag.quoting import printable, shell_word

    check_output(file, "FILE")
    try:
        made = one_file(wheels_of(wheels, started() + SECONDS))
    except NoArchive as error:
        raise Refused(str(error)) from error
    write_output(file, made.data, FOR_OTHERS, "FILE")
    with printing():
        click.echo(
            f"{printable(file)}: rdmadiag {__version__} for {made.pythons}. "
            f"Start it there with: python3 {shell_word(os.path.basename(file))} preflight"
        )
