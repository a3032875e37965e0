"""rdmadiag pingpong."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import click

from rdmadiag.cli import exits
from rdmadiag.cli.addresses import host_and_port, is_unspecified, source_towards
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import Given, Seconds, format_option, json_option
from rdmadiag.cli.output import printing
from rdmadiag.cli.selectors import selectors
from rdmadiag.facts import Identity
from rdmadiag.facts.attempt import Outcome
from rdmadiag.facts.ib import MTU_BYTES, QpType
from rdmadiag.preflight.safety import Reason
from rdmadiag.preflight.x_rdma import RtrUnsafe, require_rtr_attempt_allowed
from rdmadiag.view.select import Selector

if TYPE_CHECKING:
    from rdmadiag.verbs.attempt import Meeting, Result

TCP_PORT: Final = 18519
DEADLINE: Final = 15.0
DEADLINE_MAX: Final = 60.0
WAIT: Final = 30.0
WAIT_MAX: Final = 3600.0
BYTES_MAX: Final = 1 << 20
ITERATIONS_MAX: Final = 10_000
SECRET_LIMIT: Final = 64 * 1024  # bytes


@click.command("pingpong")
@click.argument("peer", required=False, metavar="[PEER[:PORT]]")
@click.option(
    "--allow-rtr",
    is_flag=True,
    allow_from_autoenv=False,  # to be passed, each time
    help="Attempt it: once, INIT → RTR → RTS.",
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
    help="Both ends prove that they know its content; it is never sent.",
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
    accept_risk: tuple[str, ...],
    format: str,  # noqa: A002  # so that its variable is RDMADIAG_PINGPONG_FORMAT
    as_json: bool,
) -> int:
    """One bounded attempt at a connection: INIT → RTR → RTS and verified data, once.

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
    meeting = _meeting(peer, listen, wait)
    if len(device) > (1 if meeting else 2):
        raise click.UsageError("--device: one, or two where there is no peer")
    wanted = Wanted(
        payload_bytes=payload,
        iterations=iterations,
        gid_index=gid_index,
        pkey_index=pkey_index,
        qp_type=QpType[qp.upper()] if qp else None,
        mtu=int(mtu) if mtu else None,
        accepted=_accepted(accept_risk),
    )
    chosen = _with_port(selectors(device), port)
    secret = None if secret_file is None else _secret(secret_file, start + deadline)
    host = LiveHost()
    form = "json" if as_json else format
    try:
        require_rtr_attempt_allowed(allow_rtr)
        result = attempt.run(
            host, wanted, chosen, meeting, secret, start, deadline, _listening(wait)
        )
    except RtrUnsafe as error:
        refused = attempt.not_allowed(str(error), host.identity.platform)
        result = attempt.Result(refused, (), ())
    except NoSuchDevice as error:
        raise Refused(str(error)) from error
    return _show(result, host.identity, form)


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


def _accepted(codes: Sequence[str]) -> frozenset[Reason]:
    known = {reason.value: reason for reason in Reason}
    for code in codes:
        if code not in known:
            raise Refused(f"--accept-risk {code!r} is no reason that preflight gives")
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

    def read() -> bytes:
        try:
            return read_given(path, SECRET_LIMIT, deadline)
        except OSError as error:
            raise Refused(f"--secret-file {path}: {error.strerror}") from error

    content = understood(path, read, Refused, deadline)
    if len(content) > SECRET_LIMIT:
        raise Refused(f"--secret-file {path} has more than {SECRET_LIMIT} bytes")
    if not (secret := content.strip()):
        raise Refused(f"--secret-file {path} is empty")
    return secret


def _listening(wait: float) -> Callable[[str], None]:
    def say(address: str) -> None:
        host = address.removesuffix(f":{TCP_PORT}")
        click.echo(
            f"rdmadiag: waiting {wait:g} s on {address}; on the other host: "
            f"rdmadiag pingpong --allow-rtr {host}",
            err=True,
        )

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
