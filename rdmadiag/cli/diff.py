"""rdmadiag diff."""

import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from rdmadiag.cli import exits, page
from rdmadiag.cli.budget import budget
from rdmadiag.cli.exits import CannotTell
from rdmadiag.cli.options import (
    LEAST,
    Given,
    format_option,
    json_option,
    started,
    timeout_option,
)
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.precedence import form_wanted
from rdmadiag.cli.verdicts import exit_zero_option

if TYPE_CHECKING:
    from rdmadiag.cli.two_records import Record
    from rdmadiag.fleet.changed import Differences

FORMATS: Final = ("text", "json", "junit")
FAILS_ON: Final = ("differs", "worse")


@click.command(
    "diff",
    cls=Page,
    examples=(
        ("what changed between two records of a host", "rdmadiag diff monday/ tuesday.tar.gz"),
        ("two hosts that should be equal", "rdmadiag diff node1.json node2.json"),
        (
            "1 for new problems alone: for scripts",
            "rdmadiag diff before.json after.json --fail-on worse --quiet",
        ),
    ),
)
@click.argument("before", type=Given(), metavar="A")
@click.argument("after", type=Given(), metavar="B")
@page.option(
    "--hosts",
    type=click.Choice(("same", "two")),
    help="Of one host, or of two that should be equal.  [default: what GUIDs, MAC addresses and "
    "names show]",
)
@page.option(
    "--fail-on",
    type=click.Choice(FAILS_ON),
    default="differs",
    show_default=True,
    help="What gives exit code 1: any change, or only new problems.",
)
@exit_zero_option
@format_option(FORMATS)
@json_option
@timeout_option
@page.option("-q", "--quiet", is_flag=True, help="The answer alone.")
@page.option("-v", "--verbose", is_flag=True, help="Every fact that changed, or was not compared.")
def command(
    before: str,
    after: str,
    hosts: str | None,
    fail_on: str,
    exit_zero: bool,
    format: str | None,  # noqa: A002  # so that its variable is RDMADIAG_DIFF_FORMAT
    as_json: bool,
    timeout: float,
    quiet: bool,
    verbose: bool,
) -> int:
    """What changed from record A to record B: new problems, fixed ones, other changes.

    A and B are snapshots, reports of `preflight --json`, or samples of `counters --json`; of one
    host at two times, or of two hosts. Both are judged by this version's rules. What one of them
    could not look at is not known, and no change.

    Exits 0 the same, 1 differs, 3 a side could not be read.
    """
    from rdmadiag.cli.two_records import compared, read_record

    format = form_wanted(format, as_json=as_json)  # noqa: A001
    deadline = started() + timeout
    with budget(max(LEAST, deadline - time.monotonic()), CannotTell):
        first, second = (read_record(path, deadline) for path in (before, after))
        found = compared(first, second, None if hosts is None else hosts == "same")
        with printing():
            _show(found, first, second, format or "text", fail_on, quiet=quiet, verbose=verbose)
    return exits.OK if exit_zero else code_of(found, fail_on)


def code_of(found: "Differences", fail_on: str) -> int:
    """0 the same, 1 differs, 3 where what could not be compared may differ."""
    from rdmadiag.fleet.changed import ChangeKind

    counts = found.changes if fail_on == "differs" else found.of_kind(ChangeKind.WORSE)
    if counts:
        return exits.WARN
    return exits.OK if found.is_whole else exits.UNKNOWN


def _show(
    found: "Differences",
    before: "Record",
    after: "Record",
    form: str,
    fail_on: str,
    *,
    quiet: bool,
    verbose: bool,
) -> None:
    if form == "json":
        from rdmadiag.render.json import members, write

        ends = {"before": {"host": before.host}, "after": {"host": after.host}}
        write(ends | members(found))
    elif form == "junit":
        from rdmadiag.render.diff_junit import text

        when = datetime.now(UTC)
        sys.stdout.write(text(found, after.host, when, only_worse=fail_on == "worse"))
    else:
        from rdmadiag.render.diff import show

        show(found, before.host, after.host, quiet=quiet, verbose=verbose)
