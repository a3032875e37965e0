"""What commands that meet a peer share: where it is, the secret, and what is said meanwhile."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import click

from rdmadiag.cli import page
from rdmadiag.cli.addresses import host_and_port, is_unspecified, source_towards
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import Given, Seconds
from rdmadiag.cli.output import note
from rdmadiag.nearest import instead
from rdmadiag.preflight.safety import Reason
from rdmadiag.quoting import shell_word
from rdmadiag.verbs.secret import parse

if TYPE_CHECKING:
    from rdmadiag.verbs.attempt import Meeting
    from rdmadiag.verbs.records import Record

TCP_PORT: Final = 18519
WAIT: Final = 30.0
WAIT_MAX: Final = 3600.0
SECRET_LIMIT: Final = 64 * 1024  # bytes

listen_option = page.option(
    "--listen", metavar="ADDRESS[:PORT]", help="Wait for one peer at this address."
)
wait_option = page.option(
    "--wait",
    type=Seconds(0, WAIT_MAX, min_open=True),
    default=WAIT,
    show_default=True,
    metavar="SECONDS",
    help="For how long to wait for the peer; not part of --deadline.",
)
secret_option = page.option(
    "--secret-file",
    type=Given(),
    metavar="FILE",
    help="Both ends prove with every message that they know it; it is never sent.",
)


def meeting(peer: str | None, listen: str | None, wait: float) -> "Meeting | None":
    """Where the peer is; None without one. Raises UsageError."""
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


def as_asked(devices: Sequence[str], peer: str | None, listen: str | None) -> str:
    """What was asked for, for a line to paste: " --device mlx5_0 192.0.2.1"."""
    words = [word for each in devices for word in ("--device", shell_word(each))]
    words += ["--listen", shell_word(listen)] if listen else []
    words += [shell_word(peer)] if peer else []
    return "".join(f" {word}" for word in words)


def accepted(codes: Sequence[str]) -> frozenset[Reason]:
    """The reasons that --accept-risk names; raises Refused."""
    known = {reason.value: reason for reason in Reason}
    for code in codes:
        if code not in known:
            raise Refused(
                f"--accept-risk {code!r} is no reason of preflight; {instead(code, known)}"
            )
    return frozenset(known[code] for code in codes)


def secret_of(path: str, deadline: float) -> bytes:
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


def said(command: str, wait: float) -> "Callable[[Record], None]":
    """What there is to know while a peer is waited for, on stderr."""
    from rdmadiag.verbs.records import Listening, TurnedAway, Waiting

    def say(record: "Record") -> None:
        line = None
        if isinstance(record, Listening):
            host = record.address.removesuffix(f":{TCP_PORT}")
            line = (
                f"waiting {wait:g} s on {record.address}; on the other host: "
                f"rdmadiag {command} --allow-rtr {host}"
            )
        elif isinstance(record, TurnedAway):
            line = f"turned away {record.address}: {record.text}"
        elif isinstance(record, Waiting):
            ours = ", an address of this host itself" if record.is_this_host else ""
            line = f"nobody listens yet at {record.address}{ours}: waiting"
        if line:
            note(line)

    return say
