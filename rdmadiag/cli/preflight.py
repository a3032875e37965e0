"""rdmadiag preflight."""

import click

from rdmadiag.cli import exits
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import Reading, reading
from rdmadiag.cli.output import printing
from rdmadiag.cli.selectors import selectors

_FAILS_ON = {
    "warn": {"warn", "unknown", "critical"},
    "unknown": {"unknown", "critical"},
    "critical": {"critical"},
}


@click.command("preflight")
@reading
@click.option(
    "--fail-on",
    type=click.Choice(tuple(_FAILS_ON)),
    default="warn",
    show_default=True,
    help="The mildest status that gives an exit code other than 0.",
)
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever the verdict.")
def command(reading: Reading, fail_on: str, exit_zero: bool) -> int:
    """The report on this host and the verdict.

    Exits 0 ok, 1 warn, 2 critical, 3 unknown (also: no RDMA device).
    """
    from datetime import UTC, datetime

    from rdmadiag.preflight.judge import judge
    from rdmadiag.preflight.select import NoSuchDevice

    wanted = selectors(reading.devices)
    evidence = reading.evidence()
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
