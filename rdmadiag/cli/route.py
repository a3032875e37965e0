"""rdmadiag route."""

import ipaddress
from typing import TYPE_CHECKING, Any, Final

import click

from rdmadiag.cli import page
from rdmadiag.cli.addresses import host_and_port
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import Reading, reading
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.selectors import not_there, selectors
from rdmadiag.cli.verdicts import code_of, exit_zero_option, fail_on_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rdmadiag.facts.evidence import Evidence
    from rdmadiag.view.peer_route import PeerRoute
    from rdmadiag.view.peer_stacks import StackWay
    from rdmadiag.view.reconcile import DeviceView

_LEAST_SECONDS: Final = 1.0
"""For the kernel's answer, where sources that hang have used up the rest."""


@click.command(
    "route",
    cls=Page,
    examples=(
        ("which device and GID a connection to a peer would use", "rdmadiag route 192.0.2.2"),
        ("from another address of this host", "rdmadiag route 192.0.2.2 --source 198.51.100.1"),
        (
            "over IPv6, on one link, and from a record",
            "rdmadiag route '[fe80::2%eth0]:7471' --from HOST.tar.gz",
        ),
    ),
)
@reading
@click.argument("peer", metavar="PEER")
@page.option("--source", metavar="ADDR", help="The address to send from: rping -I, rdma_bind_addr.")
@page.option(
    "--resolve",
    is_flag=True,
    help="Ask the resolver for a name that /etc/hosts has not: that may send packets.",
)
@fail_on_option
@exit_zero_option
def command(
    reading: Reading,
    peer: str,
    source: str | None,
    resolve: bool,
    fail_on: str,
    exit_zero: bool,
) -> int:
    """Which device, port, GID and netdev rdma_cm would take towards PEER. No packet is sent.

    PEER is an address, ADDRESS:PORT, [ADDRESS]:PORT or a name in /etc/hosts. The kernel is queried
    for its route; of a recorded host its rules and routes are looked up. Beside it stands what
    each stack that does not use rdma_cm would take on that port. --device says which one it
    should be.
    Exits 0 ok, 1 warn, 2 critical (rdma_cm comes to no device), 3 unknown.
    """
    from rdmadiag.preflight.judge_route import judge
    from rdmadiag.view.peer_route import peer_route, questions
    from rdmadiag.view.reconcile import devices
    from rdmadiag.view.select import NoSuchDevice, select

    wanted = selectors(reading.devices)
    host, port = host_and_port(peer, 0)
    destination, scope = _address(host, reading, resolve=resolve)
    own = _source(source)
    evidence = reading.evidence(("sysfs", "nldev", "netdev", "process", "routing"))
    towards = reading.towards(_LEAST_SECONDS, questions(evidence, destination, own, scope))
    views = devices(evidence)
    try:
        chosen = select(views, wanted) if wanted else ()
    except NoSuchDevice as error:
        raise not_there(error, evidence) from error
    found = peer_route(evidence, views, destination, own, scope, towards)
    expected = tuple(each.name for view in chosen for each in view.ports)
    verdict = judge(found, views, expected)
    stacks = _stacks(found, views, evidence)
    with printing():
        if reading.form == "json":
            from rdmadiag.render.json import write

            asked = {"asked": peer, "address": destination, "port": port or None, "scope": scope}
            parts = {"peer": asked, "verdict": verdict, "route": found, "stacks": stacks}
            write({"host": reading.identity} | parts)
        else:
            from rdmadiag.render.route import show

            show(
                found,
                stacks,
                verdict,
                reading.identity,
                quiet=reading.quiet,
                verbose=reading.verbose,
            )
    return code_of(verdict.status, fail_on, exit_zero)


def _address(host: str, reading: Reading, *, resolve: bool) -> tuple[str, str | None]:
    """The address and its scope of what the user wrote."""
    text, _, scope = host.partition("%")
    try:
        return str(ipaddress.ip_address(text)), scope or None
    except ValueError:
        pass
    from rdmadiag.facts import Missing

    found = reading.addresses_of(host)
    if not isinstance(found, Missing):
        return found[0], None
    if not resolve:
        raise Refused(
            f"{host!r} is no address, and /etc/hosts gives none for it ({found.detail}); "
            "--resolve asks the resolver"
        )
    answers = _resolved(host, reading.left / 2)
    text, _, scope = str(answers[0][4][0]).partition("%")
    return text, scope or None


def _resolved(host: str, seconds: float) -> "Sequence[tuple[Any, ...]]":
    """getaddrinfo's answers; Refused where there are none in time (resolv.conf's own is 10 s)."""
    import socket
    from queue import Empty, SimpleQueue
    from threading import Thread

    came: SimpleQueue[Sequence[tuple[Any, ...]] | Exception] = SimpleQueue()

    def ask() -> None:
        try:
            came.put(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            came.put(error)

    Thread(target=ask, daemon=True).start()  # left behind where the resolver hangs
    try:
        found = came.get(timeout=seconds)
    except Empty:
        raise Refused(f"{host!r}: the resolver gave no answer within {seconds:.1f} s") from None
    if isinstance(found, Exception):
        raise Refused(f"{host!r}: {found}") from found
    return found


def _source(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return str(ipaddress.ip_address(text.partition("%")[0].strip("[]")))
    except ValueError as error:
        raise Refused(f"--source {text!r} is no address") from error


def _stacks(
    found: "PeerRoute", views: "Sequence[DeviceView]", evidence: "Evidence"
) -> "tuple[StackWay, ...]":
    taken = found.taken
    if taken is None:
        return ()
    from rdmadiag.gid.registry import every
    from rdmadiag.view.peer_stacks import ways
    from rdmadiag.view.reconcile import ports
    from rdmadiag.view.stack_picks import variables

    port = next(
        each for each in ports(views) if (each.device, each.number) == (taken.device, taken.port)
    )
    return tuple(ways(port, taken, every(), variables(evidence)))
