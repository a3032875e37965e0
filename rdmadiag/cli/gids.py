"""rdmadiag gids."""

import click

from rdmadiag.cli import exits
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import Reading, gid_scan_option, reading
from rdmadiag.cli.output import printing
from rdmadiag.cli.selectors import selectors


@click.command("gids")
@reading
@click.option(
    "--gid-index",
    type=click.IntRange(0, 65535),
    metavar="INDEX",
    help="Route by this entry instead of choosing one; it must not be empty.",
)
@gid_scan_option
def command(reading: Reading, gid_index: int | None, gid_scan_limit: int | None) -> int:
    """GID tables, the route GID of each port, and why.

    Exits 0; 2 where --gid-index names no entry of a port; 3 where there is no RDMA device
    or a table could not be read.
    """
    from rdmadiag.preflight.gather import Depth, cheap_sources
    from rdmadiag.preflight.gid_tables import tables
    from rdmadiag.preflight.reconcile import devices
    from rdmadiag.preflight.select import NoSuchDevice, select
    from rdmadiag.preflight.unshown import without_ports

    wanted = selectors(reading.devices)
    evidence = reading.evidence(
        cheap_sources(reading.identity.platform), Depth(gid_rows=gid_scan_limit)
    )
    try:
        chosen = select(devices(evidence, gid_index), wanted)
    except NoSuchDevice as error:
        raise Refused(str(error)) from error
    listed, unread = tables(chosen), without_ports(chosen, evidence)
    if reading.form == "json":
        from rdmadiag.render.json import write

        with printing():
            write({"host": reading.identity, "ports": listed, "unread": unread})
    else:
        from rdmadiag.render.gids import show

        with printing():
            show(listed, unread, evidence, quiet=reading.quiet)
    if not listed or unread or any(table.missing for table in listed):
        return exits.UNKNOWN
    wrong = gid_index is not None and any(table.route is None for table in listed)
    return exits.CRITICAL if wrong else exits.OK
