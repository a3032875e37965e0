"""rdmadiag fleet history."""

import time
from typing import TYPE_CHECKING, Final

import click

from rdmadiag.cli import page
from rdmadiag.cli.exits import CannotTell, Refused
from rdmadiag.cli.options import Given, format_option, json_option, started, timeout_option
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.precedence import form_wanted
from rdmadiag.cli.verdicts import code_of, exit_zero_option, fail_on_option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rdmadiag.fleet.trend import NodeHistory

_MOST: Final = 10_000
"""Nodes at once."""


@click.command(
    "history",
    cls=Page,
    examples=(
        ("keep what a merge says", "rdmadiag fleet merge reports/ --history fleet.db"),
        (
            "since when two nodes are as they are, and what changed before",
            'rdmadiag fleet history "node[017,203]" --history fleet.db',
        ),
        ("for a program", "rdmadiag fleet history node017 --history fleet.db --json"),
    ),
)
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@page.option(
    "--history",
    "path",
    type=Given(),
    required=True,
    metavar="FILE",
    help="What `fleet merge --history FILE` added to.",
)
@fail_on_option
@exit_zero_option
@format_option()
@json_option
@timeout_option
@page.option("-q", "--quiet", is_flag=True, help="The answer alone, a line for each node.")
@page.option("-v", "--verbose", is_flag=True, help="All of every list.")
def command(
    nodes: tuple[str, ...],
    path: str,
    fail_on: str,
    exit_zero: bool,
    format: str | None,  # noqa: A002  # so that its variable is RDMADIAG_FLEET_HISTORY_FORMAT
    as_json: bool,
    timeout: float,
    quiet: bool,
    verbose: bool,
) -> int:
    """Since when a node is as it is, how often it was, and what changed the day before.

    NODE is a name or a set of names, node[001-512]. Trends are of the newest 30 merges that the
    node was in: flapping is at least four changes between fit and not; getting worse is a worse
    status or more reasons than before, or pairs that have become slower by a tenth.

    Exits with the worst of the nodes' newest verdicts: 0 ok, 1 warn, 2 critical, 3 unknown (also:
    a node that is not in the history, or did not report).
    """
    from rdmadiag.preflight.verdict import Status, worse

    format = form_wanted(format, as_json=as_json)  # noqa: A001
    names = _names(nodes)
    found = _read(path, names, started() + timeout)
    unknown = [name for name in names if name not in found]
    status = Status.UNKNOWN if unknown else Status.OK
    for each in found.values():
        status = worse(status, each.status or Status.UNKNOWN)
    listed = [found[name] for name in names if name in found]
    with printing():
        if format == "json":
            from rdmadiag.render.json import write

            write({"status": status, "nodes": listed, "unknown": unknown})
        else:
            from rdmadiag.fleet.nodes import fold
            from rdmadiag.render.fleet_history import show

            show(listed, fold(unknown) if unknown else "", quiet=quiet, verbose=verbose)
    return code_of(status, fail_on, exit_zero)


def _names(texts: "Sequence[str]") -> "tuple[str, ...]":
    from rdmadiag.fleet.nodes import NoClusterShell, NotNodes, spread

    try:
        names = tuple(dict.fromkeys(name for text in texts for name in spread(text)))
    except (NotNodes, NoClusterShell) as error:
        raise Refused(str(error)) from error
    if len(names) > _MOST:
        raise Refused(f"{len(names)} nodes: at most {_MOST} at once")
    return names


def _read(path: str, names: "Sequence[str]", deadline: float) -> "Mapping[str, NodeHistory]":
    """In a child: the file is named by the user, and others may write to it."""
    from rdmadiag.cli.fleet.store import NotThere, histories
    from rdmadiag.fleet.history import HistoryError
    from rdmadiag.host.given_file import understood

    wait = max(0.1, deadline - time.monotonic())
    try:
        return understood(path, lambda: histories(path, names, wait), HistoryError, deadline)
    except NotThere as error:
        raise Refused(str(error)) from error
    except HistoryError as error:
        raise CannotTell(str(error)) from error
