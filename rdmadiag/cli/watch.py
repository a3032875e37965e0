"""rdmadiag watch."""

import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

import click

from rdmadiag.cli import exits, page
from rdmadiag.cli.exits import CannotTell, NotWritten, Refused
from rdmadiag.cli.options import Given, Seconds, Whole, complete_devices, format_option, json_option
from rdmadiag.cli.output import note, printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.ring import local_routes_option
from rdmadiag.facts import Identity

if TYPE_CHECKING:
    from rdmadiag.cli.watching import Run
    from rdmadiag.host.notifications import Subscription
    from rdmadiag.host.on_change import OnChange
    from rdmadiag.host.ring_file import RingFile
    from rdmadiag.watch.ring import Encoded

Show = Callable[["Sequence[Encoded]"], None]

_DAYS: Final = 366 * 86_400.0
_RING_SIZE, _RING_MOST = 16, 64  # MiB; of the most, explain reads all within its time
_SOURCES: Final = ("rdma", "uevent", "route", "devlink", "kernel")


@click.command(
    "watch",
    cls=Page,
    examples=(
        ("what happens from now on, until Ctrl-C", "rdmadiag watch"),
        (
            "a record of the last events on disk, as the systemd unit keeps it",
            "rdmadiag watch --quiet --ring /var/lib/rdmadiag/ring",
        ),
        ("events of RDMA devices for a program, for a minute",
         "rdmadiag watch --source rdma --for 60 --json"),
        ("a program for each, with the event on its standard input",
         "rdmadiag watch --on-change /usr/local/sbin/on-rdma-event"),
    ),
)  # fmt: skip
@page.option(
    "--source",
    type=click.Choice(_SOURCES),
    multiple=True,
    help="Listen to this one alone. Can be repeated.  [default: all]",
)
@page.option(
    "--ring",
    metavar="DIR",
    type=Given(),
    help="Write all events to this folder too, for explain --ring; made if it is not there.",
)
@page.option(
    "--ring-size",
    type=Whole(1, _RING_MOST),
    default=_RING_SIZE,
    show_default=True,
    metavar="MIB",
    help="What the ring may take; then the oldest events go.",
)
@page.option(
    "--on-change",
    metavar="CMD",
    help="Run this for each event, without a shell, one at a time; JSON on its standard input.",
)
@page.option(
    "--on-change-timeout",
    type=Seconds(0, 3600, min_open=True),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="For one run of that command; then it is killed.",
)
@page.option(
    "--counters",
    type=Seconds(1, 86_400),
    metavar="SECONDS",
    help="Sample what each port sends and receives this often, and draw it.",
)
@page.option(
    "--async-events",
    metavar="DEV",
    multiple=True,
    shell_complete=complete_devices,
    help="Open this device, for its asynchronous events too. Can be repeated.",
)
@page.option(
    "--for",
    "seconds",
    type=Seconds(0, _DAYS),
    metavar="SECONDS",
    help="Stop after this time.  [default: SIGINT, SIGTERM]",
)
@local_routes_option
@page.option("--lines", is_flag=True, help="Lines, not a screen, on a terminal too.")
@format_option()
@json_option
@page.option("-q", "--quiet", is_flag=True, help="Print nothing but events; with --ring nothing.")
def command(
    source: tuple[str, ...],
    ring: str | None,
    ring_size: int,
    on_change: str | None,
    on_change_timeout: float,
    counters: float | None,
    async_events: tuple[str, ...],
    seconds: float | None,
    local_routes: bool,
    lines: bool,
    format: str,  # noqa: A002  # so that its variable is RDMADIAG_WATCH_FORMAT
    as_json: bool,
    quiet: bool,
) -> int:
    """What happens to RDMA devices, links, addresses, routes and firmware, as it happens.

    Listens to what the kernel reports: RDMA netlink's monitor (Linux 6.12), uevents, rtnetlink
    (links, addresses, routes, neighbours, rules), devlink's health reporters, the kernel's log.
    Nothing is polled, no device is opened (but by --async-events), nothing is
    changed. A terminal gets a
    screen, a pipe lines, --json one document a line. explain --ring shows what was before.

    Exits 0 where it was ended, 3 where events were lost or nothing can be listened to, 74
    where the ring could not be written, 124 where whoever reads its output held it up to the end.
    """
    if sys.platform != "linux":
        raise CannotTell("watch: the notifications of Linux are what it listens to")
    from rdmadiag.host.live import LiveHost

    end = None if seconds is None else time.monotonic() + seconds
    host = LiveHost()
    command = _command(on_change, on_change_timeout)
    with ExitStack() as closing, printing():
        kept = closing.enter_context(_ring(ring, ring_size)) if ring is not None else None
        if command:
            closing.callback(command.close)
        form = "json" if as_json else format
        form = "none" if quiet and kept is not None else form
        shown = _shown(host.identity, form, lines=lines, quiet=quiet, local_routes=local_routes)
        show, tick = closing.enter_context(shown)
        run = _run(host, source, show, tick, kept, command, counters, async_events)
        run.until(end)
    # Here too where stdout was closed meanwhile, which `printing` ends quietly.
    return _code(run, ring)


def _code(run: "Run", ring: str | None) -> int:
    if run.ring_error is not None:
        raise NotWritten(f"--ring {ring}: {run.ring_error.strerror}")
    if run.nothing_heard:
        raise CannotTell(f"nothing can be listened to: {run.why_nothing()}")
    return exits.UNKNOWN if run.lost else exits.OK


def _run(
    host: object,
    source: tuple[str, ...],
    show: "Show",
    tick: Callable[[], float | None],
    ring: "RingFile | None",
    command: "OnChange | None",
    counters: float | None,
    async_events: tuple[str, ...],
) -> "Run":
    from rdmadiag.cli.traffic import Sampled
    from rdmadiag.cli.watching import Run
    from rdmadiag.host.live import LiveHost
    from rdmadiag.render.watch import document
    from rdmadiag.watch.event import Source

    assert isinstance(host, LiveHost)
    return Run(
        host,
        tuple(map(Source, source or _SOURCES)),
        show,
        tick,
        ring,
        command,
        lambda encoded: f"{document(host.identity, encoded.text)}\n".encode(),
        None if counters is None else Sampled(host, counters),
        (_opened(async_events),) if async_events else (),
    )


def _opened(devices: tuple[str, ...]) -> "Subscription":
    from rdmadiag.facts import Missing
    from rdmadiag.host.async_events import follow_async_events
    from rdmadiag.watch.event import Source

    found = follow_async_events(Source.ASYNC, devices)
    if isinstance(found, Missing):
        raise CannotTell(f"--async-events: {found}")
    return found


def _command(given: str | None, seconds: float) -> "OnChange | None":
    if given is None:
        return None
    from rdmadiag.cli.writing import look
    from rdmadiag.host.on_change import OnChange

    try:
        argv = shlex.split(given)
    except ValueError as error:
        raise click.UsageError(f"--on-change {given!r}: {error}") from error
    if not argv:
        raise click.UsageError("--on-change: names no command")
    look(f"--on-change {argv[0]}", lambda: _require_command(argv[0]))
    return OnChange(argv, seconds)


def _require_command(name: str) -> None:
    """It would be missed at the first event, which may come at night."""
    if shutil.which(name) is None:
        raise Refused(f"--on-change {name}: there is no such command that may be run")


@contextmanager
def _ring(path: str, size: int) -> "Iterator[RingFile]":
    from rdmadiag.host.ring_file import RingFile

    try:
        ring = RingFile(path, size << 20)
    except OSError as error:
        raise Refused(f"--ring {path}: {error.strerror}") from error
    try:
        yield ring
    finally:
        ring.close()


@contextmanager
def _shown(
    host: Identity, form: str, *, lines: bool, quiet: bool, local_routes: bool
) -> "Iterator[tuple[Show, Callable[[], float | None]]]":
    """What shows events, and what is called while nothing comes."""
    if form == "none":
        yield lambda _: None, lambda: None
        return
    if form == "json":
        yield lambda encoded: _write(host, encoded), lambda: None
        return
    from rdmadiag.render.watch import Lines, Screen, unheard

    if lines or quiet or not sys.stdout.isatty():
        plain = Lines(quiet=quiet, local_routes=local_routes)

        def show(encoded: "Sequence[Encoded]") -> None:
            plain.show([each.event for each in encoded])
            for each in encoded if not quiet else ():
                for line in unheard(each.event):
                    note(line)

        yield show, lambda: None
        return
    with Screen(host, local_routes=local_routes) as screen:
        yield lambda encoded: screen.show([each.event for each in encoded]), screen.tick


def _write(host: Identity, encoded: "Sequence[Encoded]") -> None:
    from rdmadiag.render.watch import document

    sys.stdout.write("".join(f"{document(host, each.text)}\n" for each in encoded))
    sys.stdout.flush()
