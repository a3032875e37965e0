"""rdmadiag fleet run."""

import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from rdmadiag.cli import exits, page
from rdmadiag.cli.fleet.merge import FORMATS, check_files, write
from rdmadiag.cli.fleet.options import (
    file_options,
    node_options,
    output_option,
    program_options,
    talk_options,
)
from rdmadiag.cli.fleet.reaching import (
    CONNECTING,
    DEADLINE_MAX,
    HOST_DEADLINE,
    SLACK,
    check_words,
    chosen_nodes,
    how_reached,
    of_stderr,
    program_of,
    refused,
    waiting_for_nodes,
    way_to,
)
from rdmadiag.cli.options import Seconds, format_option, json_option, started
from rdmadiag.cli.output import note, printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.precedence import form_wanted
from rdmadiag.cli.verdicts import code_of, exit_zero_option, fail_on_option
from rdmadiag.nearest import instead

if TYPE_CHECKING:
    from rdmadiag.cli.fleet.reading import AddedUp
    from rdmadiag.fleet.collect import Collected
    from rdmadiag.fleet.launch import Launch
    from rdmadiag.fleet.node_answer import NodeAnswer
    from rdmadiag.fleet.ways import Way
    from rdmadiag.preflight.verdict import Status

READING: Final[Mapping[str, tuple[str, ...]]] = {
    "preflight": ("output",),
    "gids": (),
    "devices": (),
    "counters": ("watch",),
    "resources": (),
    "route": (),
    "lossless": (),
    "topology": (),
    "capabilities": (),
}
"""Commands that change nothing on a node → their options that write there, or never end."""

_MERGING: Final = 60.0  # seconds
_OWN: Final = 20.0  # seconds that a reading command gives itself


@dataclass(frozen=True, slots=True)
class _Inner:
    """The command for the nodes."""

    name: str
    words: tuple[str, ...]
    is_merged: bool  # it prints reports


@click.command(
    "run",
    cls=Page,
    context_settings={"allow_interspersed_args": False},
    examples=(
        ("which nodes are fit, and why the others are not",
         "rdmadiag fleet run -w node[001-512] -- preflight"),
        ("a group of ClusterShell's: Slurm's partitions, an Ansible inventory, genders",
         "rdmadiag fleet run -w @compute -- preflight --expect /etc/rdmadiag/good.toml"),
        ("within a job: one srun on all of its nodes", "rdmadiag fleet run -- counters"),
        ("by another program; nothing need be installed there",
         'rdmadiag fleet run -w p[1-8] --via "exec:docker exec -i %h" --copy -- gids'),
    ),
)  # fmt: skip
@node_options
@program_options
@page.option(
    "--host-deadline", type=Seconds(1, DEADLINE_MAX), default=HOST_DEADLINE, show_default=True,
    metavar="SECONDS", help="For each node, from its start.",
)  # fmt: skip
@page.option(
    "--deadline", type=Seconds(1, DEADLINE_MAX), metavar="SECONDS",
    help="For everything together.  [default: what that takes if all nodes take their time]",
)  # fmt: skip
@file_options
@fail_on_option
@exit_zero_option
@format_option(FORMATS)
@json_option
@output_option
@talk_options
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(
    nodes: tuple[str, ...],
    everything: bool,
    exclude: tuple[str, ...],
    via: str | None,
    ssh_options: str,
    fanout: int,
    copy: bool,
    wheels: str | None,
    python: str,
    program: str,
    host_deadline: float,
    deadline: float | None,
    passed: str | None,
    failed: str | None,
    html: str | None,
    fail_on: str,
    exit_zero: bool,
    format: str | None,  # noqa: A002  # so that its variable is RDMADIAG_FLEET_RUN_FORMAT
    as_json: bool,
    output: str | None,
    quiet: bool,
    verbose: bool,
    words: tuple[str, ...],
) -> int:
    """A reading command on many nodes, and what their answers add up to.

    Nothing is changed there, and nothing is drained or cordoned. Exits with the worst verdict;
    a node that gave no answer is 3.
    """
    from rdmadiag.fleet.launch import CannotLaunch, Launch, Stopped, launch
    from rdmadiag.fleet.node_answer import Ending
    from rdmadiag.fleet.nodes import NoClusterShell, NotNodes

    form = form_wanted(format, as_json=as_json) or "text"
    inner = _inner(words, host_deadline, as_json=form == "json")
    files = {"--output": output, "--passed": passed, "--failed": failed, "--html": html}
    if not inner.is_merged and (form not in ("text", "json") or any(files.values())):
        raise click.UsageError(f"of {inner.name} there is no more than -o text and -o json")
    check_files(files)
    with refused(NotNodes, NoClusterShell, CannotLaunch):
        chosen = chosen_nodes(nodes, exclude, everything=everything)
        way = way_to(via, ssh_options, chosen)
        whole = deadline or _whole(len(chosen), fanout, host_deadline, way, copy=copy)
        argv = (inner.name, *inner.words) if copy else (program, inner.name, *inner.words)
        check_words(way, argv)
        what = Launch(chosen, argv, way, fanout, host_deadline, whole)
        if not quiet:
            note(_said(what, copy=copy))
        try:
            with waiting_for_nodes(len(chosen), started() + whole, quiet=quiet) as seen:
                if copy:
                    from rdmadiag.cli.fleet.wheels import wheels_of
                    from rdmadiag.fleet.copy import launch_copied

                    held = wheels_of(wheels, started() + whole)
                    answers = launch_copied(what, python, held, seen)
                else:
                    answers = launch(what, seen)
        except Stopped as stopped:
            note("stopped; all that was started here has been ended")
            return 128 + stopped.number
    for line in of_stderr(answers):
        note(line)
    if inner.is_merged:
        merged = _merged(what, answers, quiet=quiet)
        if lost := [each for each in answers.values() if each.ending is Ending.NOT_INSTALLED]:
            note(_install(lost, copy=copy))
        return write(merged, files, form, fail_on, exit_zero, quiet=quiet, verbose=verbose)
    from rdmadiag.render import node_answers

    with printing():
        if form == "json":
            node_answers.write(answers.values())
        else:
            node_answers.show(answers.values(), inner.name, _with_copy() if not copy else "")
    return code_of(_status(answers.values()), fail_on, exit_zero)


def _inner(words: tuple[str, ...], host_deadline: float, *, as_json: bool) -> _Inner:
    """What the nodes are to run, read as they will; raises click's own exceptions."""
    name, *arguments = words
    if name not in READING:
        known = f"of what changes nothing there; {instead(name, READING)}"
        raise click.UsageError(f"fleet run starts no {name!r}, but one {known}")
    if odd := [word for word in arguments if not word.isprintable()]:
        raise click.UsageError(f"{odd[0]!r} is no argument for a node")
    from importlib import import_module

    read: click.Command = import_module(f"rdmadiag.cli.{name}").command
    context = read.make_context(f"rdmadiag {name}", list(arguments))
    given = {
        option
        for option in context.params
        if context.get_parameter_source(option) is ParameterSource.COMMANDLINE
    }
    if refused := given.intersection(READING[name]):
        raise click.UsageError(f"--{min(refused)} of {name} is not for a fleet")
    chosen = "json" if context.params["as_json"] else context.params["format"]
    if not given & {"as_json", "format"} and (as_json or name == "preflight"):
        arguments.append("--json")
        chosen = "json"
    if "timeout" not in given and host_deadline - CONNECTING < _OWN:
        arguments.append(f"--timeout={max(1.0, host_deadline / 2):g}")
    return _Inner(name, tuple(arguments), name == "preflight" and chosen == "json")


def _whole(count: int, fanout: int, host_deadline: float, way: "Way", *, copy: bool) -> float:
    """Seconds that all nodes take, if each takes all of its own."""
    from rdmadiag.fleet.ways import Srun

    turns = 1 if isinstance(way, Srun) else ceil(count / fanout)
    return min(DEADLINE_MAX, (turns + turns * copy) * host_deadline + SLACK)


def _said(what: "Launch", *, copy: bool) -> str:
    """How it is done."""
    sent = ", with a copy of rdmadiag" if copy else ""
    return (
        f"{how_reached(what.way, len(what.nodes), what.fanout)}{sent}; at most "
        f"{what.host_deadline:g} s each and {what.deadline:g} s in all; "
        "nothing is changed there, drained or cordoned"
    )


def _merged(what: "Launch", answers: "Mapping[str, NodeAnswer]", *, quiet: bool) -> "AddedUp":
    """What preflight's documents add up to."""
    from rdmadiag.cli.fleet.reading import added_up
    from rdmadiag.fleet.document import NoReport
    from rdmadiag.fleet.merged import Gap
    from rdmadiag.fleet.nodes import Expected
    from rdmadiag.fleet.streams import read_node

    by = program_of(what.way)

    def fill(to: "Collected") -> None:
        for node, answer in answers.items():
            if answer.stdout.strip():
                read_node(to, node, by, answer.stdout)
            elif answer.why is None:
                said = f"exit code {answer.code} and no report: {answer.said}"
                to.odd(node, by, NoReport(Gap.FAILED, said))
            if answer.why is not None:
                to.odd(node, by, NoReport(Gap.FAILED, answer.why))

    deadline = time.monotonic() + _MERGING
    expected = Expected(what.nodes)
    return added_up("the answers", fill, expected, deadline, quiet=quiet)


def _install(lost: "list[NodeAnswer]", *, copy: bool) -> str:
    from rdmadiag.fleet.nodes import fold

    how = _with_copy()
    to_do = f"; {how}" if how and not copy else ""
    return f"no rdmadiag on {fold(each.node for each in lost)}, or not in its PATH{to_do}"


def _with_copy() -> str:
    """The command line that needs no rdmadiag there."""
    from rdmadiag.quoting import shell_word

    words = sys.argv[1:] if sys.argv[1:3] == ["fleet", "run"] else []
    return " ".join(["rdmadiag fleet run --copy", *map(shell_word, words[2:])]) if words else ""


def _status(answers: "Collection[NodeAnswer]") -> "Status":
    """The worst of all nodes."""
    from functools import reduce

    from rdmadiag.preflight.verdict import Status, worse

    of_code = {code: Status(name) for name, code in exits.OF_STATUS.items()}
    found = (
        of_code.get(each.code if each.code is not None else exits.UNKNOWN, Status.UNKNOWN)
        if each.why is None
        else Status.UNKNOWN
        for each in answers
    )
    return reduce(worse, found, Status.OK)
