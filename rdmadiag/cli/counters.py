"""rdmadiag counters."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from rdmadiag.cli import exits, page
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import Reading, Seconds, Whole, reading_samples, saved
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.selectors import selectors
from rdmadiag.cli.verdicts import (
    code_of,
    exit_zero_option,
    expect_option,
    fail_on_option,
    threshold_option,
    thresholds,
)
from rdmadiag.facts import Identity
from rdmadiag.view.select import NoSuchDevice

if TYPE_CHECKING:
    from rdmadiag.cli.comparing import Sampler
    from rdmadiag.facts.counters import Wanted
    from rdmadiag.preflight.judge_counters import Compared

INTERVAL: Final = 1.0
INTERVAL_MAX: Final = 86_400.0


@click.command(
    "counters",
    cls=Page,
    examples=(
        ("what rose within a second", "rdmadiag counters"),
        ("redrawn each five seconds, until Ctrl-C", "rdmadiag counters --watch --interval 5"),
        ("a sample to keep", "rdmadiag counters --interval 0 --json > monday.json"),
        (
            "what rose since, with another threshold",
            "rdmadiag counters --since monday.json --threshold retransmissions=100",
        ),
    ),
)
@reading_samples
@page.option(
    "--interval",
    type=Seconds(0, INTERVAL_MAX),
    metavar="SECONDS",
    help=f"Between the two samples that are compared; 0 takes one.  [default: {INTERVAL:.0f}]",
)
@page.option(
    "--since",
    metavar="FILE",
    help="Compare with the sample in this file, which counters --json printed on this host.",
)
@page.option("--watch", is_flag=True, help="A sample each interval, until stopped (Ctrl-C).")
@page.option("--count", type=Whole(1), metavar="N", help="With --watch: stop after N intervals.")
@page.option(
    "--exclude-device",
    metavar="DEV",
    multiple=True,
    help="Read no counter of this device. Can be repeated.",
)
@page.option("--all", "show_all", is_flag=True, help="Show counters that stand still too.")
@expect_option
@threshold_option
@fail_on_option
@exit_zero_option
def command(
    reading: Reading,
    interval: float | None,
    since: str | None,
    watch: bool,
    count: int | None,
    exclude_device: tuple[str, ...],
    show_all: bool,
    expect: str | None,
    threshold: tuple[str, ...],
    fail_on: str,
    exit_zero: bool,
) -> int:
    """Errors and congestion: how far counters rose, and what a rise means.

    Takes two samples and shows the differences; with --since, one. --json prints one
    document a comparison, with --watch one each line. --timeout is for each sample.
    Exits 0 ok, 1 warn, 2 critical, 3 unknown (also: no RDMA device); of --watch, the worst.
    """
    limits = thresholds(threshold, expect, reading.deadline)
    if reading.identity.recorded or since is not None:
        # What the configuration file says of comparisons over time is not of this one.
        interval = None if _of_the_file("interval") else interval
        watch, count = watch and not _of_the_file("watch"), None if _of_the_file("count") else count
    _check(reading, interval, since, count, watch=watch)
    wanted = _wanted(reading.devices, exclude_device)
    silent = reading.quiet or watch  # a watch is drawn where the line would stand
    sampler = _sampler(reading, wanted, quiet=silent)
    from rdmadiag.preflight.judge_counters import compare

    judge = partial(compare, thresholds=limits, steady=show_all)
    pause = INTERVAL if interval is None else interval
    if since is not None:
        compared = _since(sampler, since, reading.deadline, reading.identity, judge)
    elif reading.identity.recorded or not pause:
        compared = (judge(sampler.first()) for _ in range(1))
    else:
        from rdmadiag.cli.comparing import over

        compared = over(sampler, pause, (count if watch else 1), judge)
    worst = exits.OK
    with printing(), _shown(reading, pause, watch=watch, show_all=show_all) as show:
        try:
            for each in compared:
                show(each)
                code = code_of(each.verdict.status, fail_on, exit_zero)
                worst = max(worst, code, key=exits.MILDEST_FIRST.index)
        except NoSuchDevice as error:
            raise Refused(str(error)) from error
        except KeyboardInterrupt:  # how a watch ends
            if not watch:
                raise
    return worst


def _of_the_file(option: str) -> bool:
    source = click.get_current_context().get_parameter_source(option)
    return source is ParameterSource.DEFAULT_MAP


def _check(
    reading: Reading, interval: float | None, since: str | None, count: int | None, *, watch: bool
) -> None:
    """Options that exclude each other."""
    if reading.identity.recorded and (watch or interval):
        raise click.UsageError("a record is one sample: compare it with --since, not over time")
    if since is not None and (watch or interval is not None):
        raise click.UsageError("--since compares one sample: without --watch and --interval")
    if count and not watch:
        raise click.UsageError("--count is for --watch")
    if watch and interval == 0:
        raise click.UsageError("--watch takes an interval above 0")


def _wanted(devices: tuple[str, ...], excluded: tuple[str, ...]) -> "Wanted":
    from rdmadiag.facts.counters import Wanted

    chosen: dict[str, frozenset[int] | None] = {}
    for each in selectors(devices):
        before = chosen.get(each.device, frozenset())
        whole = each.port is None or before is None
        chosen[each.device] = None if whole else (before or frozenset()) | {each.port or 0}
    return Wanted(chosen or None, excluded)


def _sampler(reading: Reading, wanted: "Wanted", *, quiet: bool) -> "Sampler":
    from rdmadiag.cli.comparing import Sampler

    facts = getattr(reading.source, "sample", None)  # of a saved one
    return Sampler(reading.source if facts is None else facts, wanted, reading.timeout, quiet)  # type: ignore[arg-type]


def _since(
    sampler: "Sampler", path: str, deadline: float, host: Identity, judge: "Callable[..., Compared]"
) -> "Iterator[Compared]":
    from rdmadiag.host.saved_sample import BaselineError, require_comparable

    earlier = saved(path, deadline)
    after = sampler.first()
    if not after.failed:
        try:
            require_comparable(earlier.sample, earlier.host, after, host)
        except BaselineError as error:
            raise Refused(f"--since {path}: {error}") from error
    yield judge(after, earlier.sample, since=earlier.generated_at)


@contextmanager
def _shown(
    reading: Reading, interval: float, *, watch: bool, show_all: bool
) -> "Iterator[Callable[[Compared], None]]":
    """What prints a comparison: a line of JSON, a table, or a table that is drawn anew."""
    if reading.form == "json":
        yield partial(_write, reading.identity)
        return
    from rdmadiag.render.counters import Watch, show

    if not watch:
        yield lambda each: show(
            each,
            reading.identity,
            show_all=show_all,
            quiet=reading.quiet,
            verbose=reading.verbose,
        )
        return
    with Watch(reading.identity, interval, show_all=show_all, quiet=reading.quiet) as drawn:
        yield drawn.show


def _write(host: Identity, each: "Compared") -> None:
    import sys

    from rdmadiag.render.json import write

    changes = each.changes
    write(
        {
            "host": host,
            "seconds": each.seconds,
            "since": None if each.since is None else each.since.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "verdict": each.verdict,
            "changes": changes,
            "sample": each.sample,
        }
    )
    sys.stdout.flush()
