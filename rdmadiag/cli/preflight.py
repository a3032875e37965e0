"""rdmadiag preflight."""

import re

import click

from rdmadiag.cli import exits
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import Reading, gid_scan_option, reading
from rdmadiag.cli.output import printing
from rdmadiag.cli.selectors import selectors

_FAILS_ON = {
    "warn": {"warn", "unknown", "critical"},
    "unknown": {"unknown", "critical"},
    "critical": {"critical"},
}


def _window(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """What `log show --last` takes."""
    if value is not None and not re.fullmatch(r"[1-9][0-9]{0,5}[smhd]", value):
        raise click.BadParameter("a number and one of s, m, h, d, such as 30s or 2h")
    return value


@click.command("preflight")
@reading
@click.option(
    "--fail-on",
    type=click.Choice(tuple(_FAILS_ON)),
    default="warn",
    show_default=True,
    help="The mildest status that gives an exit code other than 0.",
)
@gid_scan_option
@click.option(
    "--log-last",
    metavar="TIME",
    callback=_window,
    help="How far back to read the log of a Mac: 30s, 1m, 2h, 1d.  [default: 1m]",
)
@click.option(
    "--log-lines",
    type=click.IntRange(1, 10000),
    metavar="N",
    help="Lines of it to keep; a failed RTR is kept whatever its age.  [default: 20]",
)
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever the verdict.")
def command(
    reading: Reading,
    fail_on: str,
    gid_scan_limit: int | None,
    log_last: str | None,
    log_lines: int | None,
    exit_zero: bool,
) -> int:
    """The report on this host and the verdict.

    Exits 0 ok, 1 warn, 2 critical, 3 unknown (also: no RDMA device).
    """
    from datetime import UTC, datetime

    from rdmadiag.preflight.gather import Depth
    from rdmadiag.preflight.judge import judge
    from rdmadiag.preflight.select import NoSuchDevice

    if log_last and reading.identity.recorded:
        raise click.UsageError("--log-last is for a live host: a record has its own log")
    wanted = selectors(reading.devices)
    evidence = reading.evidence(depth=Depth(log_last, log_lines, gid_scan_limit))
    try:
        verdict = judge(evidence, wanted)
    except NoSuchDevice as error:
        raise Refused(str(error)) from error
    when = datetime.now(UTC)
    if reading.form == "json":
        from rdmadiag.render.json import write

        with printing():
            write(
                {"host": reading.identity, "verdict": verdict, "evidence": evidence},
                generated_at=when,
            )
    else:
        from rdmadiag.render.preflight import show

        with printing():
            show(verdict, reading.identity)
    if exit_zero or verdict.status not in _FAILS_ON[fail_on]:
        return exits.OK
    return exits.OF_STATUS[verdict.status]
