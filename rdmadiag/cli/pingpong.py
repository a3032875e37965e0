"""rdmadiag pingpong."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from rdmadiag.cli import exits
from rdmadiag.cli.addresses import host_and_port, is_unspecified, source_towards
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import Given, Seconds, format_option, json_option
from rdmadiag.cli.output import note, printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.selectors import selectors
from rdmadiag.facts import Identity
from rdmadiag.facts.attempt import Outcome
from rdmadiag.facts.ib import MTU_BYTES, QpType
from rdmadiag.nearest import instead
from rdmadiag.preflight.safety import Reason
from rdmadiag.preflight.x_rdma import RtrUnsafe, require_rtr_attempt_allowed
from rdmadiag.verbs.secret import made, parse
from rdmadiag.view.select import Selector

if TYPE_CHECKING:
    from rdmadiag.verbs.attempt import Meeting, Result
    from rdmadiag.verbs.records import Record

TCP_PORT: Final = 18519
DEADLINE: Final = 15.0
DEADLINE_MAX: Final = 60.0
WAIT: Final = 30.0
WAIT_MAX: Final = 3600.0
BYTES_MAX: Final = 1 << 20
ITERATIONS_MAX: Final = 10_000
SECRET_LIMIT: Final = 64 * 1024  # bytes


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
            "from one port to another, with more data",
            "rdmadiag pingpong --allow-rtr --device mlx5_0 --device mlx5_1 --bytes 65536",
        ),
        ("by the connection manager, as iWARP needs it", "rdmadiag pingpong --cm --allow-rtr"),
    ),
)
@click.argument("peer", required=False, metavar="[PEER[:PORT]]")
@click.option(
    "--allow-rtr",
    is_flag=True,
    allow_from_autoenv=False,  # to be passed, each time
    help="Attempt it: once, INIT → RTR → RTS.",
)
@click.option(
    "--cm",
    is_flag=True,
    help="By the connection manager (librdmacm), which chooses GID, MTU and PSN; iWARP's only way.",
)
@click.option("--listen", metavar="ADDRESS[:PORT]", help="Wait for one peer at this address.")
@click.option(
    "--wait",
    type=Seconds(0, WAIT_MAX, min_open=True),
    default=WAIT,
    show_default=True,
    metavar="SECONDS",
    help="For how long to wait for the peer; not part of --deadline.",
)
@click.option(
    "--device",
    metavar="DEV[:PORT]",
    multiple=True,
    help="The port to use. Twice, without a peer: from one to the other.",
)
@click.option("--port", type=click.IntRange(1, 255), metavar="N", help="The same as DEV:N.")
@click.option(
    "--gid-index",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Instead of the route GID that gids shows.",
)
@click.option(
    "--pkey-index",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    metavar="N",
    help="InfiniBand: of the partition key to use.",
)
@click.option(
    "--bytes",
    "payload",
    type=click.IntRange(1, BYTES_MAX),
    default=64,
    show_default=True,
    metavar="N",
    help=f"Of each message, at most {BYTES_MAX}.",
)
@click.option(
    "--iterations",
    type=click.IntRange(1, ITERATIONS_MAX),
    default=100,
    show_default=True,
    metavar="N",
    help=f"Round trips that are timed, at most {ITERATIONS_MAX}.",
)
@click.option(
    "--qp", type=click.Choice(("rc", "uc")), help="Queue pair type.  [default: rc; Thunderbolt: uc]"
)
@click.option(
    "--mtu",
    type=click.Choice([str(size) for size in MTU_BYTES.values()]),
    help="Of the path, in bytes.  [default: the smaller of both ports' active MTU]",
)
@click.option(
    "--deadline",
    type=Seconds(1, DEADLINE_MAX),
    default=DEADLINE,
    show_default=True,
    metavar="SECONDS",
    help=f"For the whole run, preflight and all, at most {DEADLINE_MAX:.0f}.",
)
@click.option(
    "--secret-file",
    type=Given(),
    metavar="FILE",
    help="Both ends prove with every message that they know it; it is never sent.",
)
@click.option(
    "--new-secret",
    type=click.Path(),
    metavar="FILE",
    allow_from_autoenv=False,
    help="Write a new random secret to FILE, for --secret-file, and do nothing else.",
)
@click.option(
    "--accept-risk",
    metavar="CODE",
    allow_from_autoenv=False,
    multiple=True,
    help="Attempt it in spite of this reason of the preflight. Can be repeated.",
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
    port: int | None,
    gid_index: int | None,
    pkey_index: int,
    payload: int,
    iterations: int,
    qp: str | None,
    mtu: str | None,
    deadline: float,
    secret_file: str | None,
    new_secret: str | None,
    accept_risk: tuple[str, ...],
    format: str,  # noqa: A002  # so that its variable is RDMADIAG_PINGPONG_FORMAT
    as_json: bool,
) -> int:
    """One bounded attempt at a connection: INIT → RTR → RTS and verified data, once.

    With --cm the connection manager makes the steps: address, route, connection, and each
    that fails is named with its event. The other end is then one of --cm too.

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
    meeting = _meeting(peer, listen, wait)
    if len(device) > (1 if meeting else 2):
        raise click.UsageError("--device: one, or two where there is no peer")
    if cm:
        _only_by_hand(gid_index=gid_index, pkey_index=pkey_index or None, mtu=mtu, qp=qp)
    wanted = Wanted(
        payload_bytes=payload,
        iterations=iterations,
        gid_index=gid_index,
        pkey_index=pkey_index,
        qp_type=QpType[qp.upper()] if qp else None,
        mtu=int(mtu) if mtu else None,
        accepted=accepted(accept_risk),
        by_cm=cm,
    )
    chosen = _with_port(selectors(device), port)
    secret = None if secret_file is None else _secret(secret_file, start + deadline)
    host = LiveHost()
    form = "json" if as_json else format
    try:
        require_rtr_attempt_allowed(allow_rtr)
        result = attempt.run(
            host, wanted, chosen, meeting, secret, start, deadline, _say(wait, cm=cm)
        )
    except RtrUnsafe as error:
        refused = attempt.not_allowed(str(error), host.identity.platform)
        result = attempt.Result(refused, (), ())
    except NoSuchDevice as error:
        raise Refused(str(error)) from error
    return _show(replace(result, by_cm=cm), host.identity, form)


def _meeting(peer: str | None, listen: str | None, wait: float) -> "Meeting | None":
    from rdmadiag.verbs.attempt import Meeting

    if "" in (peer, listen):  # a variable of the caller's that is not set
        raise click.UsageError("the address is empty")
    if peer and listen:
        raise click.UsageError("--listen and a PEER exclude each other")
    if listen:
        host, port = host_and_port(listen, TCP_PORT)
        if is_unspecified(host):
            raise click.UsageError("--listen: one address of this host, never all of them")
        return Meeting("listen", host, port, wait, near=host)
    if peer:
        host, port = host_and_port(peer, TCP_PORT)
        return Meeting("connect", host, port, wait, near=source_towards(host))
    return None


def accepted(codes: Sequence[str]) -> frozenset[Reason]:
    """The reasons that --accept-risk names; raises Refused."""
    known = {reason.value: reason for reason in Reason}
    for code in codes:
        if code not in known:
            raise Refused(
                f"--accept-risk {code!r} is no reason of preflight; {instead(code, known)}"
            )
    return frozenset(known[code] for code in codes)


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


def _secret(path: str, deadline: float) -> bytes:
    """What both ends know; white space around it is an editor's."""
    from rdmadiag.host.given_file import read_given, understood
    from rdmadiag.host.trust import not_secret

    def read() -> bytes:
        try:
            if why := not_secret(path):
                raise Refused(f"--secret-file {path}: no secret: {why}")
            return read_given(path, SECRET_LIMIT, deadline)
        except OSError as error:
            raise Refused(f"--secret-file {path}: {error.strerror}") from error

    content = understood(path, read, Refused, deadline)
    if len(content) > SECRET_LIMIT:
        raise Refused(f"--secret-file {path} has more than {SECRET_LIMIT} bytes")
    try:
        return parse(content)
    except ValueError as error:
        raise Refused(
            f"--secret-file {path}: {error}; make one: rdmadiag pingpong --new-secret FILE"
        ) from error


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
        raise click.UsageError("--cm connects RC queue pairs: leave --qp out")
    for name, value in options.items():
        if value is not None:
            option = name.replace("_", "-")
            raise click.UsageError(f"--cm: the connection manager chooses what --{option} names")


def _say(wait: float, *, cm: bool) -> "Callable[[Record], None]":
    """What there is to know while a peer is waited for, on stderr."""
    from rdmadiag.verbs.records import Listening, TurnedAway, Waiting

    def say(record: "Record") -> None:
        line = None
        if isinstance(record, Listening):
            host = record.address.removesuffix(f":{TCP_PORT}")
            line = (
                f"waiting {wait:g} s on {record.address}; on the other host: "
                f"rdmadiag pingpong --allow-rtr {'--cm ' if cm else ''}{host}"
            )
        elif isinstance(record, TurnedAway):
            line = f"turned away {record.address}: {record.text}"
        elif isinstance(record, Waiting):
            ours = ", an address of this host itself" if record.is_this_host else ""
            line = f"nobody listens yet at {record.address}{ours}: waiting"
        if line:
            note(line)

    return say


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
