"""rdmadiag pingpong."""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address
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
from rdmadiag.cli.options import Seconds, Whole, format_option, json_option
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.pair_end import LINE_SECONDS, end_of_pair, end_with, job_option, read_job
from rdmadiag.cli.selectors import selectors
from rdmadiag.facts import Identity
from rdmadiag.facts.attempt import Outcome
from rdmadiag.facts.ib import MTU_BYTES, DataOp, QpType
from rdmadiag.preflight.x_rdma import RtrUnsafe, require_rtr_attempt_allowed
from rdmadiag.verbs.protocol import BANDWIDTH_BYTES_MAX, BANDWIDTH_SECONDS_MAX
from rdmadiag.verbs.records import DEFAULT_SIZES, Sizes
from rdmadiag.verbs.secret import made
from rdmadiag.view.select import Selector

if TYPE_CHECKING:
    from rdmadiag.verbs.attempt import Result

DEADLINE: Final = 15.0
DEADLINE_MAX: Final = 60.0
BYTES_MAX: Final = 1 << 20
ITERATIONS_MAX: Final = 10_000
DEPTH_MAX: Final = 4096
SGE_MAX: Final = 32
INLINE_MAX: Final = 1024


@click.command(
    "pingpong",
    cls=Page,
    examples=(
        ("both ends on this host", "rdmadiag pingpong --allow-rtr"),
        (
            "two hosts: first on one of them, by its own address",
            "rdmadiag pingpong --allow-rtr --listen 192.0.2.1",
        ),
        ("then on the other", "rdmadiag pingpong --allow-rtr 192.0.2.1"),
        (
            "one-sided, and how much passes in two seconds",
            "rdmadiag pingpong --allow-rtr --op write --bandwidth 2 --bytes 1048576",
        ),
        (
            "from one port to another, with more data",
            "rdmadiag pingpong --allow-rtr --device mlx5_0 --device mlx5_1 --bytes 65536",
        ),
        ("by the connection manager, as iWARP needs it", "rdmadiag pingpong --cm --allow-rtr"),
        (
            "datagrams to a multicast group",
            "rdmadiag pingpong --cm --allow-rtr --multicast 239.255.7.7",
        ),
    ),
)
@click.argument("peer", required=False, metavar="[PEER[:PORT]]")
@page.option(
    "--allow-rtr",
    is_flag=True,
    allow_from_autoenv=False,  # to be passed, each time
    help="Attempt it: once, INIT → RTR → RTS.",
)
@page.option(
    "--cm",
    is_flag=True,
    help="By the connection manager (librdmacm), which chooses GID, MTU and PSN; iWARP's only way.",
)
@listen_option
@wait_option
@page.option(
    "--device",
    metavar="DEV[:PORT]",
    multiple=True,
    help="The port to use. Twice, without a peer: from one to the other.",
)
@page.option("--port", type=Whole(1, 255), metavar="N", help="The same as DEV:N.")
@page.option(
    "--gid-index",
    type=Whole(0, 65535),
    metavar="N",
    help="Instead of the route GID that gids shows.",
)
@page.option(
    "--pkey-index",
    type=Whole(0, 65535),
    default=0,
    show_default=True,
    metavar="N",
    help="InfiniBand: of the partition key to use.",
)
@page.option(
    "--bytes",
    "payload",
    type=Whole(1, BYTES_MAX),
    default=64,
    show_default=True,
    metavar="N",
    help=f"Of each message, at most {BYTES_MAX}.",
)
@page.option(
    "--iterations",
    type=Whole(1, ITERATIONS_MAX),
    default=100,
    show_default=True,
    metavar="N",
    help=f"Round trips that are timed, at most {ITERATIONS_MAX}.",
)
@page.option(
    "--qp",
    type=click.Choice(("rc", "uc", "ud")),
    help="Queue pair type; UD with --cm alone.  [default: rc; Thunderbolt: uc]",
)
@page.option(
    "--multicast",
    metavar="GROUP",
    help="With --cm: UD data goes to this multicast group, an IP address that both ends join.",
)
@page.option(
    "--op",
    type=click.Choice([each.value for each in DataOp]),
    default=DataOp.SEND.value,
    show_default=True,
    help="What moves the data: RDMA WRITE and READ have no receiver.",
)
@page.option(
    "--events", is_flag=True, help="Wait on a completion channel, not by polling; not for WRITE."
)
@page.option(
    "--bandwidth",
    type=Seconds(0, BANDWIDTH_SECONDS_MAX, min_open=True),
    metavar="SECONDS",
    help="Also a window of WRITEs or READs, as fast as they go: for so long, at most "
    f"{BANDWIDTH_SECONDS_MAX:.0f}, and at most {BANDWIDTH_BYTES_MAX >> 30} GiB.",
)
@page.option(
    "--sq-depth",
    type=Whole(1, DEPTH_MAX),
    default=DEFAULT_SIZES.sq_depth,
    show_default=True,
    metavar="N",
    help="Work requests of the send queue; the window of --bandwidth.",
)
@page.option(
    "--rq-depth",
    type=Whole(1, DEPTH_MAX),
    default=DEFAULT_SIZES.rq_depth,
    show_default=True,
    metavar="N",
    help="Work requests of the receive queue.",
)
@page.option(
    "--cq-depth",
    type=Whole(2, 2 * DEPTH_MAX),
    metavar="N",
    help="Entries of the completion queue.  [default: those of both queues]",
)
@page.option(
    "--sge",
    type=Whole(1, SGE_MAX),
    default=DEFAULT_SIZES.sge,
    show_default=True,
    metavar="N",
    help="Buffers that a message is gathered from, and scattered over.",
)
@page.option(
    "--inline",
    type=Whole(0, INLINE_MAX),
    default=DEFAULT_SIZES.inline,
    show_default=True,
    metavar="N",
    help="Bytes up to which a message is put into the work request itself.",
)
@page.option(
    "--mtu",
    type=click.Choice([str(size) for size in MTU_BYTES.values()]),
    help="Of the path, in bytes.  [default: the smaller of both ports' active MTU]",
)
@page.option(
    "--deadline",
    type=Seconds(1, DEADLINE_MAX),
    default=DEADLINE,
    show_default=True,
    metavar="SECONDS",
    help=f"For the whole run, preflight and all, at most {DEADLINE_MAX:.0f}.",
)
@secret_option
@page.option(
    "--new-secret",
    type=click.Path(),
    metavar="FILE",
    allow_from_autoenv=False,
    help="Write a new random secret to FILE, for --secret-file, and do nothing else.",
)
@page.option(
    "--accept-risk",
    metavar="CODE",
    allow_from_autoenv=False,
    multiple=True,
    help="Attempt it in spite of this reason of the preflight. Can be repeated.",
)
@job_option
@format_option()
@json_option
def command(
    peer: str | None,
    allow_rtr: bool,
    cm: bool,
    listen: str | None,
    wait: float,
    device: tuple[str, ...],
    port: int | None,
    gid_index: int | None,
    pkey_index: int,
    payload: int,
    iterations: int,
    qp: str | None,
    multicast: str | None,
    op: str,
    events: bool,
    bandwidth: float | None,
    sq_depth: int,
    rq_depth: int,
    cq_depth: int | None,
    sge: int,
    inline: int,
    mtu: str | None,
    deadline: float,
    secret_file: str | None,
    new_secret: str | None,
    accept_risk: tuple[str, ...],
    job: str | None,
    format: str,  # noqa: A002  # so that its variable is RDMADIAG_PINGPONG_FORMAT
    as_json: bool,
) -> int:
    """One bounded attempt at a connection: INIT → RTR → RTS and verified data, once.

    With --cm the connection manager makes the steps: address, route, connection, and each
    that fails is named with its event. The other end is then one of --cm too. With --qp ud it
    is asked for by SIDR, and each message is one datagram.

    Without a peer both ends are on this host; a Mac then needs two --device, since no
    Thunderbolt port can be both. Refuses without --allow-rtr, and where the preflight
    forbids it. Both hosts: --listen ADDRESS on one, then ADDRESS on the other.

    Exits 0 data verified both ways, 2 attempted and failed, 3 not attempted, 124 a call
    never returned and the watchdog ended it.
    """
    from rdmadiag.host.live import LiveHost
    from rdmadiag.preflight.candidate import Wanted
    from rdmadiag.verbs import attempt
    from rdmadiag.view.select import NoSuchDevice

    start = time.monotonic()
    if new_secret is not None:
        _new_secret(new_secret)
        return exits.OK
    if job is not None:
        return _of_job(job, allow_rtr, accept_risk, "json" if as_json else format)
    where = meeting(peer, listen, wait)
    if len(device) > (1 if where else 2):
        raise click.UsageError("--device: one, or two where there is no peer")
    if cm:
        _only_by_hand(gid_index=gid_index, pkey_index=pkey_index or None, mtu=mtu, qp=qp)
    kind = _kind(qp, multicast, cm=cm)
    name = "pingpong --cm" if cm else "pingpong"
    wanted = Wanted(
        payload_bytes=payload,
        iterations=iterations,
        gid_index=gid_index,
        pkey_index=pkey_index,
        qp_type=kind,
        mtu=int(mtu) if mtu else None,
        accepted=accepted(accept_risk),
        by_cm=cm,
        group=multicast,
        op=_op(op, kind, bandwidth, events=events),
        bandwidth_seconds=bandwidth or 0.0,
    )
    sizes = Sizes(sq_depth, rq_depth, sge, inline, cq_depth or sq_depth + rq_depth)
    how = attempt.How(sizes, events)
    chosen = _with_port(selectors(device), port)
    secret = None if secret_file is None else secret_of(secret_file, start + deadline)
    host = LiveHost()
    form = "json" if as_json else format
    try:
        require_rtr_attempt_allowed(allow_rtr)
        result = attempt.run(
            host, wanted, chosen, where, secret, start, deadline, said(name, wait), how
        )
    except RtrUnsafe as error:
        refused = attempt.not_allowed(str(error), host.identity.platform)
        result = attempt.Result(refused, (), ())
    except NoSuchDevice as error:
        raise Refused(str(error)) from error
    result = replace(result, by_cm=cm, asked=as_asked(device, peer, listen))
    return _show(result, host.identity, form)


def _of_job(job: str, allow_rtr: bool, accept_risk: tuple[str, ...], form: str) -> int:
    """The end of a pair that `fleet pairs` has described on stdin."""
    from rdmadiag.host.live import LiveHost
    from rdmadiag.verbs import attempt
    from rdmadiag.view.select import NoSuchDevice

    host = LiveHost()
    stdin = sys.stdin.fileno()
    try:
        require_rtr_attempt_allowed(allow_rtr)
        pair = read_job(stdin, time.monotonic() + LINE_SECONDS)
        end_with(stdin)
        result = end_of_pair(pair, job, accepted(accept_risk))
    except RtrUnsafe as error:
        refused = attempt.not_allowed(str(error), host.identity.platform)
        result = attempt.Result(refused, (), ())
    except NoSuchDevice as error:
        raise Refused(str(error)) from error
    return _show(result, host.identity, form)


def _op(op: str, kind: QpType | None, bandwidth: float | None, *, events: bool) -> DataOp:
    """What moves the data, if that can be so; raises UsageError."""
    found = DataOp(op)
    if found is not DataOp.SEND and kind is QpType.UD:
        raise click.UsageError(f"--op {op}: UD has SEND alone")
    if found is DataOp.READ and kind is QpType.UC:
        raise click.UsageError("--op read: UC has no READ")
    if found is DataOp.WRITE and events:
        raise click.UsageError("--events: a WRITE makes no completion where it arrives")
    if found is DataOp.SEND and bandwidth:
        raise click.UsageError("--bandwidth: of --op write or read")
    return found


def _kind(qp: str | None, multicast: str | None, *, cm: bool) -> QpType | None:
    """The queue pair type, None for the port's own; raises UsageError."""
    if (qp == "ud" or multicast is not None) and not cm:
        option = "--qp ud" if multicast is None else "--multicast"
        raise click.UsageError(f"{option}: with --cm, which knows the way of a datagram")
    if multicast is None:
        return QpType[qp.upper()] if qp else None
    if qp not in (None, "ud"):
        raise click.UsageError(f"--multicast: of UD queue pairs, not with --qp {qp}")
    try:
        is_group = ip_address(multicast).is_multicast
    except ValueError:
        is_group = False
    if not is_group:
        raise click.UsageError(
            f"--multicast {multicast!r}: no multicast address (224.0.0.0/4, or ff00::/8)"
        )
    return QpType.UD


def _with_port(chosen: Sequence[Selector], port: int | None) -> tuple[Selector, ...]:
    """`--port` for every device that names none."""
    if port is None:
        return tuple(chosen)
    if not chosen:
        raise click.UsageError("--port needs a --device")
    for each in chosen:
        if each.port not in (None, port):
            raise click.UsageError(f"--device {each.device}:{each.port} and --port {port}")
    return tuple(Selector(each.device, port) for each in chosen)


def _new_secret(path: str) -> None:
    """A file that its owner alone may read, and that was not there before."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(handle, "w", encoding="ascii") as file:
            file.write(f"{made()}\n")
    except OSError as error:
        raise Refused(f"--new-secret {path}: {error.strerror}") from error
    with printing():
        click.echo(f"{path}: copy it to the other host, and give both ends --secret-file")


def _only_by_hand(*, qp: str | None, **options: object) -> None:
    """What the connection manager chooses cannot be given."""
    if qp == "uc":
        raise click.UsageError("--cm has RC and UD queue pairs: leave --qp out")
    for name, value in options.items():
        if value is not None:
            option = name.replace("_", "-")
            raise click.UsageError(f"--cm: not with --{option}")


def _show(result: "Result", host: Identity, form: str) -> int:
    if form == "json":
        from rdmadiag.render.json import write
        from rdmadiag.render.pingpong import document

        with printing():
            write({"host": host} | document(result))
    else:
        from rdmadiag.render.pingpong import show

        with printing():
            show(result, host)
    outcome = result.attempt.outcome
    if outcome in _OF_OUTCOME:
        return _OF_OUTCOME[outcome]
    return exits.CRITICAL if result.attempt.touched else exits.NOT_ATTEMPTED


_OF_OUTCOME: Final = {
    Outcome.VERIFIED: exits.OK,
    Outcome.WATCHDOG: exits.WATCHDOG,
    Outcome.CALL_FAILED: exits.CRITICAL,
    Outcome.DIED: exits.CRITICAL,
}
"""Where the exit code does not depend on whether the device was touched."""
