"""Commands: one file each, imported when they run. Flags in, exit code out."""

import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from rdmadiag import __version__
from rdmadiag.cli import exits
from rdmadiag.cli.failure import CommandLine, failed
from rdmadiag.cli.output import printing

COMMANDS: Final = {
    "preflight": "The report on this host and the verdict.",
    "gids": "GID tables, the route GID of each port, and why.",
    "devices": "Devices and ports, where each is seen, and why one is not.",
    "capabilities": "What each device says it can do, and which stack needs it.",
    "counters": "How far error counters rose, and what a rise means.",
    "resources": "Who holds queue pairs, memory regions and the rest, and of how many.",
    "explain": "What an errno, a status, a state or a variable means; what failed in a log.",
    "pingpong": "One bounded attempt at a connection; refuses without --allow-rtr.",
    "expect": "Write down what a good host is, for preflight --expect.",
    "snapshot": "Record this host, so that every command can be run on the record.",
    "samples": "The recorded machines that come with rdmadiag.",
    "schema": "The JSON Schema of every document that rdmadiag prints.",
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
        _name_variables(command, cmd_name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Names of commands without importing their modules, and the group's own options."""
        from click.shell_completion import CompletionItem

        named = [
            CompletionItem(name, help=line)
            for name, line in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(
                f"no command {args[0]!r}; there are: {', '.join(COMMANDS)}", ctx
            ) from error
        line: CommandLine = ctx.obj
        line.command, line.arguments = command, tuple(rest)
        return name, command, rest


def _name_variables(command: click.Command, name: str) -> None:
    """RDMADIAG_COMMAND_OPTION by an option's long name, where its argument has another one."""
    for option in command.params:
        if isinstance(option, click.Option) and option.allow_from_autoenv:
            long = next(each for each in option.opts if each.startswith("--")).removeprefix("--")
            option.envvar = f"RDMADIAG_{name}_{long.replace('-', '_')}".upper()


@click.group(
    cls=_Lazy,
    context_settings={"auto_envvar_prefix": "RDMADIAG", "help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", message="rdmadiag %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of a bug of ours.")
@click.pass_context
def rdmadiag(context: click.Context, debug: bool) -> None:
    """Diagnostics and preflight for RDMA hosts. Reads everything, changes nothing.

    Exit codes: 0 ok, 1 warn, 2 critical, 3 unknown or no RDMA device, 64 usage, 70 a bug.
    preflight --profile changes them for what runs it.
    """
    line: CommandLine = context.obj
    name = context.invoked_subcommand
    if name not in COMMANDS or "--help" in line.arguments or "-h" in line.arguments:
        return
    from rdmadiag.cli.config import config_path, defaults, read_config

    path = config_path(os.environ)
    file = read_config(path, COMMANDS) if os.path.lexists(path) else None
    if file is not None:
        assert line.command is not None
        line.defaults = defaults(file, line.command, name)
        context.default_map = {name: line.defaults}


def run(argv: Sequence[str]) -> int:
    """The exit code of a command line; prints what there is to print."""
    debug = "--debug" in argv or bool(os.environ.get("RDMADIAG_DEBUG"))
    # Started with a closed stdout: a document for nobody. Each takes the lowest number that is
    # free, which is its own.
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # until the end
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # until the end
    line = CommandLine()
    try:
        code = rdmadiag.main(list(argv), prog_name="rdmadiag", standalone_mode=False, obj=line)
        with printing():
            sys.stdout.flush()
    except click.UsageError as error:
        context: Any = error.ctx
        name = context.command_path if context else "rdmadiag"
        message = f"{error.format_message()} (see '{name} --help')"
        return failed(line, message, exits.USAGE)
    except click.ClickException as error:
        return failed(line, error.format_message(), error.exit_code)
    except click.Abort:
        return 130
    except Exception as error:
        if debug:
            raise
        return failed(line, f"a bug of ours: {error!r} (--debug shows where)", exits.BUG)
    return code if isinstance(code, int) else exits.OK
