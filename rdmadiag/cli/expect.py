"""rdmadiag expect."""

import click

from rdmadiag.cli import exits, page
from rdmadiag.cli.options import Given, Reading, reading
from rdmadiag.cli.output import note, printing
from rdmadiag.cli.page import Page


@click.command(
    "expect",
    cls=Page,
    examples=(
        ("on a host that is known to be good", "rdmadiag expect --output good.toml"),
        ("then on its like", "rdmadiag preflight --expect good.toml"),
        ("of a recorded host, as JSON", "rdmadiag expect --from good-host.tar.gz --json"),
    ),
)
@reading
@page.option(
    "--output",
    type=Given(),
    metavar="FILE",
    help="Write there instead of to stdout: whole or not at all. A new file has mode 0644; one "
    "that is replaced keeps its own.",
)
def command(reading: Reading, output: str | None) -> int:
    """Write down what a host that is known to be good is, for preflight --expect.

    With --from: of a recorded one. What it writes is a beginning: read it, and take out what
    may differ between hosts. Exits as preflight does of the same host: a host that is not ok
    is no example, and stderr says so.
    """
    from datetime import UTC, datetime

    from rdmadiag.cli.exits import Refused
    from rdmadiag.cli.selectors import selectors
    from rdmadiag.preflight.expectations.derive import derived
    from rdmadiag.preflight.judge import judge
    from rdmadiag.view.reconcile import devices
    from rdmadiag.view.select import NoSuchDevice, select

    if output is not None:
        from rdmadiag.cli.output_file import check_output

        check_output(output)
    wanted = selectors(reading.devices)
    evidence = reading.evidence()
    try:
        verdict = judge(evidence, wanted)
        chosen = select(devices(evidence), wanted)
    except NoSuchDevice as error:
        raise Refused(str(error)) from error
    tables = derived(chosen, evidence)
    when = datetime.now(UTC)
    if reading.form == "json":
        from io import StringIO

        from rdmadiag.render.json import write

        whole = StringIO()
        parts = {"host": reading.identity, "status": verdict.status, "expectations": tables}
        write(parts, when, whole)
        text = whole.getvalue()
    else:
        from rdmadiag.render import expectations

        text = expectations.text(tables, reading.identity, verdict, when)
    if output:
        from rdmadiag.cli.output_file import FOR_OTHERS, write_output

        write_output(output, text, FOR_OTHERS)
    else:
        with printing():
            click.echo(text, nl=False)
    if verdict.status != "ok":
        from rdmadiag.render.answer import answer

        note(f"is this host good? {verdict.status.upper()}: {answer(verdict)}")
    return exits.OF_STATUS[verdict.status]
