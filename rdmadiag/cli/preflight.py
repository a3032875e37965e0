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
    """What `log show --last` takes, and the kernel's log too."""
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
    help="How far back to read the log: 30s, 1m, 2h, 1d.  [default: 10m of the kernel's log on "
    "Linux, 1m of a Mac's]",
)
@click.option(
    "--log-lines",
    type=click.IntRange(1, 10000),
    metavar="N",
    help="Lines of it to keep; of a Mac's, a failed RTR whatever its age.  [default: 100 on "
    "Linux, 20 on a Mac]",
)
@click.option(
    "--pid",
    type=click.IntRange(1, 2**22),
    metavar="PID",
    help="Whose limit on locked memory to look at, with its parents': the daemon that starts "
    "your jobs, such as slurmd or kubelet.  [default: the parents of this process]",
)
@click.option(
    "--stack",
    "names",
    metavar="NAME[@VERSION]",
    multiple=True,
    help="Judge what this stack would pick, too: nccl, ucx@1.18. Can be repeated.",
)
@click.option(
    "--env-from",
    metavar="PID|FILE",
    help="Its variables instead of this process's: a running job's, or NAME=VALUE lines.",
)
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever the verdict.")
def command(
    reading: Reading,
    fail_on: str,
    gid_scan_limit: int | None,
    log_last: str | None,
    log_lines: int | None,
    pid: int | None,
    names: tuple[str, ...],
    env_from: str | None,
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
    if pid and reading.identity.recorded:
        raise click.UsageError("--pid is for a live host: a record has its own processes")
    from rdmadiag.cli.environment import with_environment
    from rdmadiag.cli.stacks import chosen_stacks

    stacks = chosen_stacks(names) if names else ()
    wanted = selectors(reading.devices)
    evidence = reading.evidence(depth=Depth(log_last, log_lines, pid, gid_scan_limit))
    if env_from:
        evidence = with_environment(evidence, env_from)
    try:
        verdict = judge(evidence, wanted, stacks)
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
