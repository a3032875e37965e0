"""How commands get to the nodes of a fleet: which ones, by which program, and how that is said."""

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from rdmadiag.cli.exits import CannotTell, Refused
from rdmadiag.cli.options import started

if TYPE_CHECKING:
    from rdmadiag.fleet.launch import Seen
    from rdmadiag.fleet.node_answer import NodeAnswer
    from rdmadiag.fleet.ways import Way

DEADLINE_MAX: Final = 24 * 3600.0
SLACK: Final = 5.0
"""Seconds of a whole run that are for starting and ending."""
HOST_DEADLINE: Final = 60.0
CONNECTING: Final = 10.0
"""Seconds of a node's that are not for the command."""


def chosen_nodes(
    texts: tuple[str, ...], exclude: tuple[str, ...], *, everything: bool
) -> tuple[str, ...]:
    """Those of -w and -a without those of -x, else the job's; raises NotNodes, UsageError."""
    from rdmadiag.fleet.launch import all_nodes, nodes_of

    found: dict[str, None] = {}
    for text in texts:
        found |= dict.fromkeys(nodes_of(text))
    if everything:
        found |= dict.fromkeys(all_nodes())
    if not texts and not everything:
        found = dict.fromkeys(_of_job())
        if not found:
            raise click.UsageError("which nodes? -w NODES, -w @group, or -a")
    for text in exclude:
        for node in nodes_of(text):
            found.pop(node, None)
    if not found:
        raise click.UsageError("--exclude leaves no node")
    return tuple(found)


def _of_job() -> tuple[str, ...]:
    """The nodes of the Slurm job that this runs in."""
    from rdmadiag.fleet.nodes import spread

    text = os.environ.get("SLURM_JOB_NODELIST", "")
    return spread(text) if os.environ.get("SLURM_JOB_ID") and text else ()


def way_to(via: str | None, ssh_options: str, nodes: tuple[str, ...]) -> "Way":
    """--via, or what fits; raises UsageError, and Refused where its program is not here."""
    from rdmadiag.fleet.ways import NoSuchWay, Srun, way_of

    of_job = set(_of_job()) if via in (None, "srun") else set()
    try:
        way = way_of(via or ("srun" if of_job.issuperset(nodes) else "ssh"), ssh_options)
    except NoSuchWay as error:
        raise click.UsageError(f"--via {error}") from error
    if isinstance(way, Srun) and not of_job.issuperset(nodes):
        raise click.UsageError("--via srun: within a job that has these nodes; salloc gives one")
    if shutil.which(program_of(way)) is None:
        raise Refused(f"{program_of(way)}: no such program here")
    return way


def program_of(way: "Way") -> str:
    """Of which there is one for each node, or one in all."""
    from rdmadiag.fleet.ways import Exec, Srun

    return way.words[0] if isinstance(way, Exec) else "srun" if isinstance(way, Srun) else "ssh"


def check_words(way: "Way", argv: tuple[str, ...]) -> None:
    """Before another program is given a command; raises UsageError."""
    from rdmadiag.fleet.ways import Exec, not_plain

    if isinstance(way, Exec) and (odd := not_plain(argv)):
        raise click.UsageError(
            f"--via exec takes plain words alone: a shell may read {odd[0]!r} as something else"
        )


def how_reached(way: "Way", count: int, fanout: int) -> str:
    """ "ssh to 5 nodes, 2 at once"."""
    from rdmadiag.fleet.launch import gateways
    from rdmadiag.fleet.ways import Exec, Srun

    nodes = f"{count} node{'s' if count > 1 else ''}"
    if isinstance(way, Srun):
        return f"one srun on {nodes} of job {os.environ['SLURM_JOB_ID']}"
    if isinstance(way, Exec):
        return f"{way.words[0]} for each of {nodes}, {min(count, fanout)} at once"
    if through := gateways():
        return f"ssh to {nodes} through {through} of ClusterShell's gateways"
    return f"ssh to {nodes}, {min(count, fanout)} at once"


@contextmanager
def waiting_for_nodes(
    count: int, until: float, *, during: str = "", quiet: bool
) -> Iterator["Seen | None"]:
    """What is seen of a launch on so many nodes, in a terminal; `until` is absolute."""
    from heapq import nsmallest

    from rdmadiag.cli.progress import progress

    with progress(started(), until, quiet=quiet) as waiting:
        if waiting is None:
            yield None
            return

        def seen(_ended: int, left: Collection[str]) -> None:
            first = ", ".join(nsmallest(3, left))
            more = ", …" if len(left) > 3 else ""
            waiting((f"{len(left)} of {count} nodes ({first}{more}){during}",))

        yield seen


@contextmanager
def refused(*kinds: type[Exception]) -> Iterator[None]:
    """What cannot be done, as one line: exit 64, or 3 where this machine has too little."""
    from rdmadiag.fleet.launch import CannotLaunch

    try:
        yield
    except kinds as error:
        kind = CannotTell if isinstance(error, CannotLaunch) else Refused
        raise kind(str(error)) from error


_STDERR_LINES: Final = 5
_STDERR_GROUPS: Final = 50


def of_stderr(answers: "Mapping[str, NodeAnswer]") -> Iterator[str]:
    """What nodes with an answer wrote on stderr, where equal once; of the others it is the why."""
    from rdmadiag.fleet.nodes import fold

    alike: dict[bytes, list[str]] = {}
    for node, answer in answers.items():
        if answer.stderr.strip() and answer.why is None:
            alike.setdefault(answer.stderr, []).append(node)
    for number, (text, nodes) in enumerate(alike.items()):
        if number == _STDERR_GROUPS:
            yield f"stderr of {len(alike) - number} more nodes or groups of them is left out"
            return
        lines = text.decode("utf-8", "backslashreplace").strip().splitlines()
        for line in lines[-_STDERR_LINES:]:
            yield f"{fold(nodes)}: {line}"
