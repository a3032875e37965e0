"""`explain --ring`: what happened before a moment, of what watch has written."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from rdmadiag.cli import exits, page
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import Given, Reading, Seconds
from rdmadiag.cli.output import printing

if TYPE_CHECKING:
    from rdmadiag.watch.span import Span

F = TypeVar("F", bound=Callable[..., Any])

BEFORE: Final = 30.0
"""Seconds."""


local_routes_option: Final = page.option(
    "--local-routes",
    is_flag=True,
    help="Show routes of the table `local` too, which the kernel makes with each address. "
    "--json has them.",
)


def ring_options(function: F) -> F:
    """--ring, --at, --before and --local-routes."""
    for option in (
        local_routes_option,
        page.option(
            "--before",
            type=Seconds(0, 366 * 86_400.0),
            default=BEFORE,
            show_default=True,
            metavar="SECONDS",
            help="With --ring: how long before.",
        ),
        page.option(
            "--at",
            metavar="TIME",
            help="With --ring: the moment, 2026-11-23T14:02:03Z or seconds since 1970; UTC "
            "without an offset.  [default: the last that the ring knows of]",
        ),
        page.option(
            "--ring",
            metavar="DIR",
            type=Given(),
            help="What happened on this host, of the folder that watch --ring writes.",
        ),
    ):
        function = option(function)
    return function


def explain_ring(
    reading: Reading,
    path: str | None,
    at: str | None,
    before: float,
    *,
    local_routes: bool,
    alone: bool,
) -> int:
    """Prints it; the exit code. `alone`: nothing else is asked for."""
    if path is None:
        raise click.UsageError("--at and --local-routes are for --ring")
    if not alone:
        raise click.UsageError("--ring excludes WHAT, --log, --from, --sample and --here")
    from rdmadiag.explain.watched import causes_of
    from rdmadiag.host.given_file import understood

    moment = _moment(at)
    found = understood(path, lambda: _span(path, before, moment), Refused, reading.deadline)
    causes = causes_of(found.events)
    with printing():
        if reading.form == "json":
            from rdmadiag.render.json import write
            from rdmadiag.render.watch import span_members

            write(span_members(found, path, causes))
        else:
            from rdmadiag.render.watch import show_span

            show_span(found, path, causes, quiet=reading.quiet, local_routes=local_routes)
    return exits.UNKNOWN if found.unknown else exits.OK


def _moment(at: str | None) -> float | None:
    if at is None:
        return None
    from rdmadiag.watch.event import seconds_of

    try:
        return seconds_of(at)
    except ValueError:
        raise click.UsageError(f"--at {at!r}: no time such as 2026-11-23T14:02:03Z") from None


def _span(path: str, before: float, at: float | None) -> "Span":
    from rdmadiag.host.ring_file import open_ring
    from rdmadiag.watch.ring import decode, last_event
    from rdmadiag.watch.span import last_time, span

    try:
        with open_ring(path) as ring:
            alive = last_event(ring.alive)
            end = last_time(decode(ring.last()), alive) if at is None else at
            if end is None:
                raise Refused(f"--ring {path}: it holds no event")
            return span(decode(ring.files()), alive, end - before, end)
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "no path"
        raise Refused(f"--ring {path}: {said}") from error
