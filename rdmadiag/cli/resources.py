"""rdmadiag resources."""

from typing import Final

import click

from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import Reading, reading
from rdmadiag.cli.output import printing
from rdmadiag.cli.selectors import selectors
from rdmadiag.cli.verdicts import (
    code_of,
    exit_zero_option,
    expect_option,
    fail_on_option,
    threshold_option,
    thresholds,
)

_LEAST_SECONDS: Final = 2.0
"""For the dumps, where a provider that hangs has used up the rest."""


@click.command("resources")
@reading
@expect_option
@threshold_option
@fail_on_option
@exit_zero_option
def command(
    reading: Reading, expect: str | None, threshold: tuple[str, ...], fail_on: str, exit_zero: bool
) -> int:
    """Who holds queue pairs, memory regions, protection domains and the rest, and of how many.

    Counts beside the device's limits, holders by process, queue pairs by type and state; on
    a Mac, what the registry shows. Nothing is allocated to find out.
    Exits 0 ok, 1 warn, 2 critical, 3 unknown (also: no RDMA device).
    """
    from rdmadiag.preflight.judge_resources import judge
    from rdmadiag.view.reconcile import devices
    from rdmadiag.view.select import NoSuchDevice, select

    limits = thresholds(threshold, expect, reading.deadline)
    wanted = selectors(reading.devices)
    darwin = reading.identity.platform == "darwin"
    evidence = reading.evidence(("verbs", "ioreg") if darwin else ("nldev", "verbs"))
    # After the verbs query, whose own context is then gone.
    facts = reading.resources(_LEAST_SECONDS)
    try:
        chosen = select(devices(evidence), wanted)
    except NoSuchDevice as error:
        raise Refused(str(error)) from error
    usages, verdict = judge(chosen, facts, evidence, limits)
    if reading.form == "json":
        from rdmadiag.render.json import write

        with printing():
            write({"host": reading.identity, "verdict": verdict, "devices": usages})
    else:
        from rdmadiag.render.resources import show

        with printing():
            host = reading.identity
            show(usages, verdict, host, quiet=reading.quiet, verbose=reading.verbose)
    return code_of(verdict.status, fail_on, exit_zero)
