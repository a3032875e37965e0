"""Options that more than one command of a fleet has."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from rdmadiag.cli import page
from rdmadiag.cli.options import Given, Whole

F = TypeVar("F", bound=Callable[..., Any])

_NODES: Final = (
    page.option(
        "-w", "--nodes", multiple=True, metavar="NODES",
        help="Which: node[001-512], @group, @source:group. Can be repeated.  [default: within a "
        "Slurm job all of its nodes]",
    ),
    page.option(
        "-a", "--all", "everything", is_flag=True, help="All nodes of the default source of groups."
    ),
    page.option(
        "-x", "--exclude", multiple=True, metavar="NODES", help="But not these. Can be repeated."
    ),
    page.option(
        "--via", metavar="ssh|srun|exec:…",
        help='How to get there: ssh; srun; or a program for each node, "exec:docker exec %h".  '
        "[default: within a Slurm job that has the nodes srun, else ssh]",
    ),
    page.option(
        "--ssh-options", metavar="TEXT", default="", show_default=False,
        help='For ssh, before the node: "-p 2222 -l admin".',
    ),
    page.option(
        "--fanout", type=Whole(1, 4096), default=64, show_default=True, metavar="N",
        help="So many nodes at once; srun starts all of them.",
    ),
)  # fmt: skip

_PROGRAM: Final = (
    page.option(
        "--copy", is_flag=True,
        help="Send rdmadiag there: into a temporary folder that is removed at the end. Needs "
        "Python 3.11 there, and no pip.",
    ),
    page.option(
        "--wheels", type=Given(), metavar="DIR",
        help="With --copy: wheels of pydantic-core, for other Pythons and processors than here.",
    ),
    page.option(
        "--python", default="python3", show_default=True, metavar="PROGRAM",
        help="With --copy: the Python there.",
    ),
    page.option(
        "--program", default="rdmadiag", show_default=True, metavar="PATH",
        help="rdmadiag there, where it is not in the PATH of a shell without a login.",
    ),
)  # fmt: skip

_FILES: Final = (
    page.option(
        "--passed", type=Given(), metavar="FILE", help="Write the nodes that are fit, as one set."
    ),
    page.option(
        "--failed", type=Given(), metavar="FILE",
        help="Write those that are not, or not known to be, for srun --exclude.",
    ),
    page.option(
        "--html", type=Given(), metavar="FILE",
        help="Write one page with everything, which needs no network and no other file.",
    ),
)  # fmt: skip

_TALK: Final = (
    page.option("-q", "--quiet", is_flag=True, help="The answer alone, and no progress."),
    page.option("-v", "--verbose", is_flag=True, help="Notes, and all of every list."),
)

output_option: Final = page.option(
    "--output", type=Given(), metavar="FILE",
    help="Write there instead of to stdout: whole or not at all.",
)  # fmt: skip


def node_options(function: F) -> F:
    """Which nodes, and how they are reached."""
    return _with(_NODES, function)


def program_options(function: F) -> F:
    """Which rdmadiag runs on the nodes."""
    return _with(_PROGRAM, function)


def file_options(function: F) -> F:
    """What is written beside the answer."""
    return _with(_FILES, function)


def talk_options(function: F) -> F:
    """How much is said."""
    return _with(_TALK, function)


def _with(options: tuple[Callable[[F], F], ...], function: F) -> F:
    for option in reversed(options):
        function = option(function)
    return function
