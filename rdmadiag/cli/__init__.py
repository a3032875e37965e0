"""Commands: one file each, imported when they run. Flags in, exit code out."""

import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from rdmadiag import __version__
from rdmadiag.cli import exits
from rdmadiag.cli.output import printing

COMMANDS: Final = {
    "preflight": "The report on this host and the verdict.",
    "gids": "GID tables, the route GID of each port, and why.",
    "devices": "Devices and ports, where each is seen, and why one is not.",
    "counters": "How far error counters rose, and what a rise means.",
    "resources": "Who holds queue pairs, memory regions and the rest, and of how many.",
    "explain": "What an errno, a status, a state or a variable means; what failed in a log.",
    "pingpong": "One bounded attempt at a connection; refuses without --allow-rtr.",
    "snapshot": "Record this host, so that every command can be run on the record.",
    "samples": "The recorded machines that come with rdmadiag.",
}
"""Every command and its line in --help; its module is rdmadiag.cli.NAME."""


class _Lazy(click.Group):
    """Imports a command's module only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        from importlib import import_module

        module = import_module(f"rdmadiag.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(
                f"no command {args[0]!r}; there are: {', '.join(COMMANDS)}", ctx
            ) from error


@click.group(
    cls=_Lazy,
    context_settings={"auto_envvar_prefix": "RDMADIAG", "help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", message="rdmadiag %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of a bug of ours.")
def rdmadiag(debug: bool) -> None:
    """Diagnostics and preflight for RDMA hosts. Reads everything, changes nothing.

    Exit codes: 0 ok, 1 warn, 2 critical, 3 unknown or no RDMA device, 64 usage, 70 a bug.
    """


def run(argv: Sequence[str]) -> int:
    """The exit code of a command line; prints what there is to print."""
    debug = "--debug" in argv or bool(os.environ.get("RDMADIAG_DEBUG"))
    if sys.stdout is None:  # started with a closed stdout: a document for nobody
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # until the end
    try:
        code = rdmadiag.main(list(argv), prog_name="rdmadiag", standalone_mode=False)
        with printing():
            sys.stdout.flush()
    except click.UsageError as error:
        return _usage(error)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130
    except Exception as error:
        if debug:
            raise
        click.echo(f"rdmadiag: a bug of ours: {error!r} (--debug shows where)", err=True)
        return exits.BUG
    return code if isinstance(code, int) else exits.OK


def _usage(error: click.UsageError) -> int:
    context: Any = error.ctx
    name = context.command_path if context else "rdmadiag"
    click.echo(f"rdmadiag: {error.format_message()} (see '{name} --help')", err=True)
    return exits.USAGE
