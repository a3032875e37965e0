"""Commands: one file each, imported when they run. Flags in, exit code out."""

import os
import re
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from rdmadiag.cli import exits, page
from rdmadiag.cli.failure import CommandLine, failed
from rdmadiag.cli.group import Group, give_defaults
from rdmadiag.cli.output import note, prepare_streams, printing

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
    "job": "Whether a running job is on RDMA at all, and why not.",
    "explain": "What an errno, a status, a state or a variable means; what failed in a log.",
    "pingpong": "One bounded attempt at a connection; refuses without --allow-rtr.",
    "exercise": "Every operation of verbs once, verified; refuses without --allow-rtr.",
    "diff": "What changed between two records: new problems, fixed ones, others.",
    "compat": "Whether two recorded hosts can talk, and what differs between them.",
    "watch": "What happens to devices, links and addresses, as it happens; a ring of it.",
    "fleet": "Many hosts: what their reports add up to, and which is the odd one.",
    "expect": "Write down what a good host is, for preflight --expect.",
    "snapshot": "Record this host, so that every command can be run on the record.",
    "redact": "A record without the names of hosts, addresses and people, to share.",
    "samples": "The recorded machines that come with rdmadiag.",
    "deploy": "Files to install: for Slurm, systemd, Kubernetes, Nagios and others.",
    "mcp": "This host and recorded ones, read-only, for programs that use language models.",
    "schema": "The JSON Schema of every document that rdmadiag prints.",
    "help": "The help of a command: options by purpose, and examples.",
}
"""Every command and its line in --help; its module is rdmadiag.cli.NAME."""


@click.group(
    cls=Group,
    rows=COMMANDS,
    package=__name__,
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
@page.option("--debug", is_flag=True, help="Show the traceback of a bug of ours.")
@click.pass_context
def rdmadiag(context: click.Context, debug: bool) -> int | None:
    """Diagnostics and preflight for RDMA hosts. Reads everything, changes nothing.

    Exit codes: 0 ok, 1 warn, 2 critical, 3 unknown or no RDMA device, 64 usage, 70 a bug,
    74 output that cannot be written, 77 what this user may not do. preflight --profile changes
    them for what runs it.
    """
    if context.invoked_subcommand is None:
        return _without_command(context)
    give_defaults(context)
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
