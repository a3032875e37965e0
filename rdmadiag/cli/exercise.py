"""rdmadiag exercise."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from rdmadiag.cli import exits, page
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.meeting import (
    accepted,
    as_asked,
    listen_option,
    meeting,
    said,
    secret_of,
    secret_option,
    wait_option,
)
from rdmadiag.cli.options import Seconds, format_option, json_option
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.selectors import selectors
from rdmadiag.facts.exercise import CellState, Operation, RunOutcome
from rdmadiag.preflight.x_rdma import RtrUnsafe, require_rtr_attempt_allowed
from rdmadiag.verbs.matrix import NAMED_ALONE, QP_TYPES, wanted

if TYPE_CHECKING:
    from rdmadiag.facts import Identity
    from rdmadiag.verbs.exercise import Ran

DEADLINE: Final = 30.0
DEADLINE_MAX: Final = 120.0


@click.command(
    "exercise",
    cls=Page,
    examples=(
        ("every operation, both ends on one port", "rdmadiag exercise --allow-rtr"),
        (
            "some of them, from one device to another",
            "rdmadiag exercise --allow-rtr --only read --device mlx5_0 --device mlx5_1",
        ),
        (
            "two hosts: first on one of them, by its own address",
            "rdmadiag exercise --allow-rtr --listen 192.0.2.1",
        ),
        ("then on the other", "rdmadiag exercise --allow-rtr 192.0.2.1"),
        ("by the connection manager, as iWARP needs it", "rdmadiag exercise --cm --allow-rtr"),
        (
            "kept for `rdmadiag capabilities --exercised run.json`",
            "rdmadiag exercise --allow-rtr --json > run.json",
        ),
    ),
)
@click.argument("peer", required=False, metavar="[PEER[:PORT]]")
@page.option(
    "--allow-rtr",
    is_flag=True,
    allow_from_autoenv=False,  # to be passed, each time
    help="Try it: queue pairs are made, connected, used and destroyed.",
)
@page.option(
    "--cm",
    is_flag=True,
    help="RC alone, connected by the connection manager (librdmacm): iWARP's only way.",
)
@listen_option
@wait_option
@page.option(
    "--device",
    metavar="DEV[:PORT]",
    multiple=True,
    help="The port to use; without a peer, as both ends. Twice: from one to the other.",
)
@page.option(
    "--only",
    metavar="OPERATION,…",
    help="These operations: send,write,read. Tried only so: "
    f"{', '.join(each for each in Operation if each in NAMED_ALONE)}.",
)
@page.option("--qp", metavar="TYPE,…", help=f"These queue pair types: {','.join(QP_TYPES)}.")
@page.option(
    "--even-if-busy",
    is_flag=True,
    help="Also where other processes hold queue pairs on the port, or nobody can tell.",
)
@page.option(
    "--deadline",
    type=Seconds(5, DEADLINE_MAX),
    default=DEADLINE,
    show_default=True,
    metavar="SECONDS",
    help=f"For the whole run, preflight and all, at most {DEADLINE_MAX:.0f}.",
)
@secret_option
@page.option(
    "--accept-risk",
    metavar="CODE",
    allow_from_autoenv=False,
    multiple=True,
    help="Try it in spite of this reason of the preflight. Can be repeated.",
)
@format_option()
@json_option
def command(
    peer: str | None,
    allow_rtr: bool,
    cm: bool,
    listen: str | None,
    wait: float,
    device: tuple[str, ...],
    only: str | None,
    qp: str | None,
    even_if_busy: bool,
    deadline: float,
    secret_file: str | None,
    accept_risk: tuple[str, ...],
    format: str,  # noqa: A002  # so that its variable is RDMADIAG_EXERCISE_FORMAT
    as_json: bool,
) -> int:
    """Every operation of verbs once, on each kind of queue pair, bounded and verified.

    Without a peer both ends are on this host. Refuses without --allow-rtr, where the
    preflight forbids RTR, and where others use the port. Each cell is verified by comparing
    what arrived at the target, or says what the device does not claim, who refused, or what
    failed. Both hosts: --listen ADDRESS on one, then ADDRESS on the other; what both name by
    --only and --qp is tried, and each looks after its own preflight and port.

    With --cm every RC queue pair is made and connected by librdmacm, of both ends.

    Exits 0 all that was tried is verified, 2 a cell was refused or failed, 3 nothing was
    tried, 124 a call never returned and the watchdog ended it.
    """
    from rdmadiag.host.live import LiveHost
    from rdmadiag.verbs import exercise
    from rdmadiag.view.select import NoSuchDevice

    start = time.monotonic()
    where = meeting(peer, listen, wait)
    if len(device) > (1 if where else 2):
        raise click.UsageError("--device: one, or two where there is no peer")
    operations = _named(only, [each.value for each in Operation], "--only")
    kinds = _named(qp, QP_TYPES, "--qp")
    cells = wanted(operations, kinds)
    if not cells:
        raise click.UsageError(f"--qp {qp} has none of --only {only}")
    secret = None if secret_file is None else secret_of(secret_file, start + deadline)
    host = LiveHost()
    try:
        require_rtr_attempt_allowed(allow_rtr)
        ran = exercise.run(
            host,
            cells,
            selectors(device),
            accepted(accept_risk),
            start,
            deadline,
            said("exercise --cm" if cm else "exercise", wait),
            named=operations,
            even_if_busy=even_if_busy,
            meeting=where,
            secret=secret,
            by_cm=cm,
        )
    except RtrUnsafe as error:
        ran = exercise.not_allowed(str(error), host.identity.platform)
    except NoSuchDevice as error:
        raise Refused(str(error)) from error
    exercised = replace(ran.exercise, by_cm=cm)
    ran = replace(ran, exercise=exercised, asked=as_asked(device, peer, listen))
    _show(ran, host.identity, "json" if as_json else format)
    return _code(ran)


def _named(text: str | None, known: "tuple[str, ...] | list[str]", option: str) -> frozenset[str]:
    if text is None:
        return frozenset()
    names = frozenset(filter(None, (each.strip() for each in text.split(","))))
    for name in sorted(names):
        if name not in known:
            raise click.UsageError(f"{option}: no {name!r}; there are: {', '.join(known)}")
    return names


def _show(ran: "Ran", host: "Identity", form: str) -> None:
    with printing():
        if form == "json":
            from rdmadiag.render.exercise import document
            from rdmadiag.render.json import write

            write({"host": host} | document(ran))
        else:
            from rdmadiag.render.exercise import show

            show(ran)


def _code(ran: "Ran") -> int:
    run = ran.exercise
    if run.outcome is RunOutcome.WATCHDOG:
        return exits.WATCHDOG
    if not run.touched:
        return exits.CRITICAL if run.outcome is RunOutcome.CALL_FAILED else exits.NOT_ATTEMPTED
    bad = any(each.state in (CellState.REFUSED, CellState.FAILED) for each in run.cells)
    if bad or run.outcome is not RunOutcome.DONE:
        return exits.CRITICAL
    tried = any(each.state is CellState.VERIFIED for each in run.cells)
    return exits.OK if tried else exits.NOT_ATTEMPTED
