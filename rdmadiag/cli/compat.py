"""rdmadiag compat."""

import time
from typing import TYPE_CHECKING

import click

from rdmadiag.cli import exits, page
from rdmadiag.cli.budget import budget
from rdmadiag.cli.exits import CannotTell, Refused
from rdmadiag.cli.options import (
    LEAST,
    Given,
    format_option,
    json_option,
    started,
    timeout_option,
)
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.precedence import form_wanted
from rdmadiag.cli.verdicts import exit_zero_option

if TYPE_CHECKING:
    from rdmadiag.cli.two_records import Record
    from rdmadiag.facts.evidence import Evidence
    from rdmadiag.preflight.judge_ends import EndsVerdict
    from rdmadiag.view.compat import Compat
    from rdmadiag.view.ends import HostEnd
    from rdmadiag.view.peer_picks import Side


@click.command(
    "compat",
    cls=Page,
    examples=(
        ("can these two talk, and why not", "rdmadiag compat node1.json node2.json"),
        ("would NCCL do?", "rdmadiag compat node1/ node2.tar.gz --stack nccl"),
        ("all that was held against each other", "rdmadiag compat a.json b.json --verbose"),
    ),
)
@click.argument("here", type=Given(), metavar="A")
@click.argument("there", type=Given(), metavar="B")
@page.option(
    "--stack",
    "names",
    metavar="NAME[@VERSION]",
    multiple=True,
    help="Only this one beside the ports: nccl, ucx@1.18. Can be repeated; one that cannot talk "
    "on any pair of ports decides.",
)
@exit_zero_option
@format_option()
@json_option
@timeout_option
@page.option("-q", "--quiet", is_flag=True, help="The answer alone.")
@page.option("-v", "--verbose", is_flag=True, help="All rows, of every pair of ports.")
def command(
    here: str,
    there: str,
    names: tuple[str, ...],
    exit_zero: bool,
    format: str,  # noqa: A002  # so that its variable is RDMADIAG_COMPAT_FORMAT
    as_json: bool,
    timeout: float,
    quiet: bool,
    verbose: bool,
) -> int:
    """Can these two ends talk: ports, partitions, GIDs, subnets, MTUs, cables, ways, stacks.

    A and B are snapshots or reports of `preflight --json`, of two hosts. Each active port of A is
    held against that of its name at B, else against each of its kind; then the ways between their
    addresses: routes, neighbour entries, ARP, rp_filter; and what each host has of its own, as
    `preflight` finds it. No packet is sent.

    Exits 0 they can, by a router too; 1 they cannot; 3 that is not known, or a side could not be
    read.
    """
    from rdmadiag.cli.stacks import chosen_stacks
    from rdmadiag.cli.two_records import read_record
    from rdmadiag.preflight.each_end import beside_ways, each_end, with_each_end
    from rdmadiag.preflight.judge_ends import judge, with_ways
    from rdmadiag.view.compat import compat, of_stacks

    format = form_wanted(format, as_json=as_json)  # noqa: A001
    stacks = chosen_stacks(names)
    deadline = started() + timeout
    with budget(max(LEAST, deadline - time.monotonic()), CannotTell):
        first, second = (read_record(path, deadline) for path in (here, there))
        here_end, there_end = _end(first), _end(second)
        ends, own = judge(here_end, there_end), each_end(here_end, there_end)
        found = with_each_end(compat(_side(first), _side(second), stacks), own)
        found = with_ways(found, ends)
        ends = beside_ways(ends, found, here_end, there_end, own)
        if names:
            found = of_stacks(found, stacks)
        with printing():
            _show(found, ends, first, second, format, quiet=quiet, verbose=verbose)
    return exits.OK if exit_zero else code_of(found)


def code_of(found: "Compat") -> int:
    """0 they can talk, 1 they cannot, 3 where that is not known."""
    from rdmadiag.view.peer_picks import Talks

    if found.talks is Talks.NO:
        return exits.WARN
    return exits.UNKNOWN if found.talks is Talks.UNKNOWN else exits.OK


def _end(record: "Record") -> "HostEnd":
    from rdmadiag.view.ends import HostEnd
    from rdmadiag.view.reconcile import devices

    evidence = _evidence(record)
    return HostEnd(record.host.hostname, evidence, tuple(devices(evidence)))


def _evidence(record: "Record") -> "Evidence":
    if record.evidence is None:
        raise Refused(f"{record.path}: a sample of counters says nothing of ports")
    return record.evidence


def _side(record: "Record") -> "Side":
    from rdmadiag.facts.evidence import LINUX_ONLY
    from rdmadiag.view.ends import at_home
    from rdmadiag.view.peer_picks import Side
    from rdmadiag.view.reconcile import devices, ports
    from rdmadiag.view.stack_picks import variables

    evidence = _evidence(record)
    found = variables(evidence)
    # No stack of a Mac reads a variable for its GID.
    environment = {} if found == LINUX_ONLY else found
    every = tuple(ports(devices(evidence)))
    return Side(at_home(every) or every, evidence, environment)


def _show(
    found: "Compat",
    ends: "EndsVerdict",
    first: "Record",
    second: "Record",
    form: str,
    *,
    quiet: bool,
    verbose: bool,
) -> None:
    if form == "json":
        from rdmadiag.render.json import write
        from rdmadiag.render.peer_documents import beside

        hosts = {"here": {"host": first.host}, "there": {"host": second.host}}
        answer = {"talks": found.talks, "why": found.why, "rows": found.rows}
        ways = {"findings": ends.findings, "not_looked_at": ends.unknown}
        write(hosts | answer | {"beside": beside(found.ports)} | ways)
    else:
        from rdmadiag.render.compat import show

        show(found, ends, first.host, second.host, quiet=quiet, verbose=verbose)
