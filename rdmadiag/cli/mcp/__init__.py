"""rdmadiag mcp: this host and recorded ones, for programs that use language models."""

import os
import stat

import click

from rdmadiag.cli import exits, page
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import Given
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page


@click.command(
    "mcp",
    cls=Page,
    examples=(
        ("which tools there are", "rdmadiag mcp --tools"),
        ("serve this host, on stdin and stdout", "rdmadiag mcp"),
        ("and the records in one folder", "rdmadiag mcp --records /srv/rdma-records"),
    ),
)
@page.option(
    "--records",
    type=Given(),
    metavar="DIR",
    help="The folder whose records may be asked for, by their names in it; nothing outside it is "
    "read.  [default: this host alone]",
)
@page.option("--tools", is_flag=True, help="Print the tools, and serve nobody.")
def command(records: str | None, tools: bool) -> int:
    """Serve the Model Context Protocol on stdin and stdout: read-only tools.

    A client starts this command and ends it. The tools look at this host, and at the records of
    the folder; they change nothing, make no queue pair, and give no value of a variable of the
    environment. Each call has a deadline, and its answer a greatest size. Needs the extra
    rdmadiag[mcp]. docs/mcp.md has how to set it up.
    """
    from rdmadiag.cli.mcp.tools import TOOLS

    if records == "":  # --records "$DIR" without one
        raise click.UsageError("--records: names no folder")
    if tools:
        with printing():
            for name, about in TOOLS.items():
                click.echo(f"{name:<{max(map(len, TOOLS))}}  {about}")
        return exits.OK
    if records is not None:
        from rdmadiag.cli.writing import look

        look(f"--records {records}", lambda: _require_folder(records))
    try:
        from rdmadiag.cli.mcp.server import serve
    except ImportError as error:
        raise Refused(
            f"mcp needs the MCP SDK, which is not here ({error}): pip install 'rdmadiag[mcp]'"
        ) from error
    serve(records)
    return exits.OK


def _require_folder(path: str) -> None:
    """A client shows nobody what its calls would say of it. Raises Refused."""
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "no path"
        raise Refused(f"--records {path}: {said}") from error
    if not is_folder:
        raise Refused(f"--records {path}: is no folder")
