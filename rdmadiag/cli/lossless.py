"""rdmadiag lossless."""

from typing import TYPE_CHECKING, Final

import click

from rdmadiag.cli import page
from rdmadiag.cli.exits import UNKNOWN, Refused
from rdmadiag.cli.options import Reading, reading, recorded
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.selectors import selected
from rdmadiag.cli.verdicts import code_of, exit_zero_option, fail_on_option

if TYPE_CHECKING:
    from rdmadiag.facts.evidence import Evidence
    from rdmadiag.preflight.case import Case
    from rdmadiag.view.lossless import LosslessPort

_SOURCES: Final = ("sysfs", "nldev", "netdev", "process", "routing", "dcb")


@click.command(
    "lossless",
    cls=Page,
    examples=(
        ("class → DSCP → priority → PFC of every stack on every port", "rdmadiag lossless"),
        (
            "of one stack, with the variables of a running job",
            "rdmadiag lossless --stack nccl --env-from 4711",
        ),
        ("beside another host, by its report", "rdmadiag lossless --peer other-host.json"),
    ),
)
@reading
@page.option(
    "--stack",
    "names",
    metavar="NAME",
    multiple=True,
    help="Only this one: nccl, ucx, rdmacm. Can be repeated.",
)
@page.option(
    "--env-from",
    metavar="PID|FILE",
    help="Its variables instead of this process's: a running job's, or NAME=VALUE lines.",
)
@page.option(
    "--peer",
    metavar="SNAPSHOT|REPORT.json",
    help="The other host: its chains too, and what is not the same there.",
)
@fail_on_option
@exit_zero_option
def command(
    reading: Reading,
    names: tuple[str, ...],
    env_from: str | None,
    peer: str | None,
    fail_on: str,
    exit_zero: bool,
) -> int:
    """Whether the NIC keeps each stack's packets from loss: class, DSCP, priority, PFC, buffer.

    For each RoCE port and stack: the traffic class that it sends with (its variable, its default,
    the driver's, rdma_cm's), the priority that the NIC gives it, whether that priority has
    priority flow control (PFC), and its buffer; the cell that breaks the chain is named. Read by
    DCB netlink: nothing is set. Switches between the hosts are not seen, but for what one of them
    says by DCBX.
    Exits 0 ok, 1 warn (a stack's packets can be dropped), 3 unknown (a driver without DCB), or no
    active RoCE port.
    """
    from rdmadiag.facts import Missing
    from rdmadiag.preflight.judge_lossless import judge
    from rdmadiag.preflight.verdict import Status, worse
    from rdmadiag.view.lossless import differences
    from rdmadiag.view.unshown import unread_sources

    stacks = _stacks(names)
    evidence = _evidence(reading, env_from)
    case, own = _side(reading, evidence, stacks)
    verdict = judge(case)
    other = None
    if peer is not None:
        there = recorded(peer, reading.deadline)
        theirs, their_ports = _side(there, _evidence(there, env_from), stacks)
        other = there.identity, judge(theirs), their_ports
    differ = tuple(differences(own, other[2])) if other else ()
    missing = unread_sources(evidence)
    if not own and not missing and isinstance(evidence.sysfs, Missing) and not evidence.is_mac:
        missing = {"sysfs": evidence.sysfs}
    with printing():
        if reading.form == "json":
            from rdmadiag.render.json import write

            beside = (
                {"host": other[0], "verdict": other[1], "ports": other[2], "differences": differ}
                if other
                else None
            )
            parts = {"stacks": stacks, "verdict": verdict, "ports": own, "peer": beside}
            write({"host": reading.identity} | parts | {"missing": missing})
        else:
            from rdmadiag.render.lossless import show

            show(
                own,
                verdict,
                reading.identity,
                other,
                differ,
                missing,
                quiet=reading.quiet,
                verbose=reading.verbose,
            )
    if not own:
        return UNKNOWN
    status = verdict.status
    if other:
        status = worse(status, other[1].status if other[2] else Status.UNKNOWN)
    return code_of(status, fail_on, exit_zero)


def _stacks(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those with a row that says what they send with; all without names."""
    from rdmadiag.cli.stacks import chosen_stacks
    from rdmadiag.gid.traffic_class import BY_STACK

    if not names:
        return tuple(BY_STACK)
    wanted = dict.fromkeys(stack.name for stack, _ in chosen_stacks(names))
    known = tuple(name for name in wanted if name in BY_STACK)
    if not known:
        raise Refused(
            f"which traffic class {' '.join(wanted)} sends with is not known here; "
            f"it is of: {' '.join(BY_STACK)}"
        )
    return known


def _evidence(reading: Reading, env_from: str | None) -> "Evidence":
    found = reading.evidence(_SOURCES)
    if env_from is None:
        return found
    from rdmadiag.cli.environment import with_environment

    return with_environment(found, env_from, reading.deadline)


def _side(
    reading: Reading, evidence: "Evidence", stacks: tuple[str, ...]
) -> "tuple[Case, tuple[LosslessPort, ...]]":
    """What there is to judge of one host, and its chains."""
    from rdmadiag.gid.registry import stacks as every
    from rdmadiag.preflight.case import Case
    from rdmadiag.preflight.rules.lossless import chains

    table = every()
    chosen = tuple((table[name], table[name].versions[0]) for name in stacks)
    case = Case(evidence, selected(reading.devices, evidence), stacks=chosen)
    return case, chains(case)
