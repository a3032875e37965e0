"""Commands: one file each, imported when they run. Flags in, exit code out."""

import os
import re
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from rdmadiag.cli import exits
from rdmadiag.cli.failure import CommandLine, failed
from rdmadiag.cli.output import note, prepare_streams, printing
from rdmadiag.cli.page import Page
from rdmadiag.nearest import instead

COMMANDS: Final = {
    "preflight": "The report on this host and the verdict.",
    "gids": "GID tables, the route GID of each port, and why.",
    "devices": "Devices and ports, where each is seen, and why one is not.",
    "route": "Which device, port and GID rdma_cm would take towards a peer, and why none.",
    "lossless": "Whether the NIC keeps each stack's packets from loss, and what breaks it.",
    "topology": "Which adapter is near which GPU, and the lines to export.",
    "capabilities": "What each device says it can do, and which stack needs it.",
    "counters": "How far error counters rose, and what a rise means.",
    "resources": "Who holds queue pairs, memory regions and the rest, and of how many.",
    "explain": "What an errno, a status, a state or a variable means; what failed in a log.",
    "pingpong": "One bounded attempt at a connection; refuses without --allow-rtr.",
    "exercise": "Every operation of verbs once, verified; refuses without --allow-rtr.",
    "expect": "Write down what a good host is, for preflight --expect.",
    "snapshot": "Record this host, so that every command can be run on the record.",
    "samples": "The recorded machines that come with rdmadiag.",
    "deploy": "Files to install: for Slurm, systemd, Kubernetes, Nagios and others.",
    "schema": "The JSON Schema of every document that rdmadiag prints.",
    "help": "The help of a command: options by purpose, and examples.",
}
"""Every command and its line in --help; its module is rdmadiag.cli.NAME."""


class _Lazy(Page, click.Group):
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

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Commands first: options of the group are few."""
        self.format_commands(ctx, formatter)
        Page.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Their names and lines, without importing their modules."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(
                f"no command {args[0]!r}; {instead(args[0], COMMANDS)}", ctx
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
    examples=(
        ("is this host fit for RDMA jobs?", "rdmadiag preflight"),
        ("the same of a recorded machine", "rdmadiag preflight --sample roce-empty-gid-table"),
        ("which GID index to use, and what NCCL would take", "rdmadiag gids --stack nccl"),
        ("what failed first in a job's output", "rdmadiag explain --log job.out"),
        ("all options of a command", "rdmadiag help preflight"),
    ),
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"auto_envvar_prefix": "RDMADIAG", "help_option_names": ["-h", "--help"]},
)
@click.option("--debug", is_flag=True, help="Show the traceback of a bug of ours.")
@click.pass_context
def rdmadiag(context: click.Context, debug: bool) -> int | None:
    """Diagnostics and preflight for RDMA hosts. Reads everything, changes nothing.

    Exit codes: 0 ok, 1 warn, 2 critical, 3 unknown or no RDMA device, 64 usage, 70 a bug,
    74 output that cannot be written, 77 what this user may not do. preflight --profile changes
    them for what runs it.
    """
    line: CommandLine = context.obj
    name = context.invoked_subcommand
    if name is None:
        return _without_command(context)
    if name not in COMMANDS or "--help" in line.arguments or "-h" in line.arguments:
        return None
    from rdmadiag.cli.config import config_path, defaults, read_config

    file = read_config(config_path(os.environ), COMMANDS)
    if file is not None:
        assert line.command is not None
        line.defaults = defaults(file, line.command, name)
        context.default_map = {name: line.defaults}
    return None


def _without_command(context: click.Context) -> int:
    """The help; on stderr and as a mistake, since a script has lost its arguments and 0 is OK."""
    click.echo(context.get_help(), err=True)
    if sys.platform == "linux" and not _has_device():
        click.echo(_NO_DEVICE, err=True)
    return exits.USAGE


_NO_DEVICE: Final = """
This host has no RDMA device. Where to start:
  # why there is none
  rdmadiag preflight
  # recorded machines, to see what each command says of them
  rdmadiag samples
  rdmadiag preflight --sample roce-healthy"""


def _has_device() -> bool:
    try:
        return bool(os.listdir("/sys/class/infiniband"))
    except OSError:
        return False


def run(argv: Sequence[str]) -> int:
    """The exit code of a command line; prints what there is to print."""
    debug = "--debug" in argv or bool(os.environ.get("RDMADIAG_DEBUG"))
    prepare_streams()
    line = CommandLine(arguments=tuple(argv))
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
        return failed(line, error.format_message(), exits.code_of(error))
    except click.Abort:
        return 130
    except SystemExit as error:  # of click: after a completion, or a closed pipe behind a --help
        return error.code if _COMPLETION in os.environ and isinstance(error.code, int) else exits.OK
    except Exception as error:  # noqa: BLE001  # every ending is one line
        if isinstance(error, OSError) and _is_of_echo(error):
            return failed(line, f"stdout: {error.strerror}", exits.NOT_WRITTEN)
        if limit := _limit(error):
            return failed(line, f"{limit}: this process may have no more of it", exits.UNKNOWN)
        if debug:
            from traceback import format_exception

            for each in "".join(format_exception(error)).splitlines():
                note(each)
        return failed(line, f"a bug of ours: {error!r} (--debug shows where)", exits.BUG)
    return code if isinstance(code, int) else exits.OK


_COMPLETION: Final = "_RDMADIAG_COMPLETE"


def _is_of_echo(error: OSError) -> bool:
    """Whether click could not print a --help, a --version or a completion."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code is click.echo.__code__


def _limit(error: BaseException | None) -> str | None:
    """What the system refused this process, where that is what ended it: ulimit -v, -n, -u."""
    while error is not None:
        # A SyntaxError of a source that has been compiled before is the compiler's, and no code
        # of ours raises a SystemError: CPython has no memory for what it would raise.
        if isinstance(error, MemoryError | SystemError) or type(error) is SyntaxError:
            return "out of memory"
        if isinstance(error, OSError) and error.errno in exits.SHORTAGE:
            return exits.SHORTAGE[error.errno]
        if isinstance(error, ImportError) and _NOT_MAPPED.search(str(error)):
            return "out of memory"
        if type(error) is ValueError and _NOT_COMPILED.fullmatch(str(error)):
            return "out of memory"
        error = error.__cause__ or error.__context__
    return None


_NOT_MAPPED: Final = re.compile("failed to map segment|cannot allocate memory", re.IGNORECASE)
"""As the dynamic linker says it of a library of Python's: elf/dl-load.c, dl-map-segments.h."""

_NOT_COMPILED: Final = re.compile(r"field '\w+' is required for \w+")
"""CPython's parser, of a node that it had no memory for: Python/Python-ast.c."""
