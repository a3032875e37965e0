"""rdmadiag snapshot."""

import os
import time
from contextlib import nullcontext

import click

from rdmadiag.cli import exits
from rdmadiag.cli.budget import budget
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import LEAST, host_of, started, timeout_option


@click.command("snapshot")
@click.argument("target", metavar="DIR|FILE.tar.gz")
@click.option("--from", "snapshot", metavar="SNAPSHOT", help="Record a recorded host again.")
@click.option("--sample", metavar="NAME", help="Copy a recorded machine of ours.")
@click.option(
    "--exclude-device",
    metavar="DEV",
    multiple=True,
    help="Read no counter of this device. Can be repeated.",
)
@timeout_option
def command(
    target: str,
    snapshot: str | None,
    sample: str | None,
    exclude_device: tuple[str, ...],
    timeout: float,
) -> int:
    """Record this host, so that every command can be run on the record.

    Writes exactly what the other commands read, refusals included, into a new folder or
    .tar.gz file. It names hosts, addresses and GUIDs: look before you share it.
    Exits 0, or 3 where a source gave nothing.
    """
    start = started()
    deadline = start + timeout
    from rdmadiag.cli.progress import progress
    from rdmadiag.host.recording import documents, write_archive, write_folder
    from rdmadiag.sources.record import record

    archive = target.endswith((".tar.gz", ".tgz"))
    # Before anything is read: a name that cannot be written to should not cost a minute.
    if os.path.lexists(target) and (archive or not os.path.isdir(target) or os.listdir(target)):
        raise Refused(f"{target} is there already; a snapshot never overwrites")
    host = host_of(snapshot, sample, deadline)
    with progress(start, deadline) as waiting:
        recording, late = record(host, deadline, exclude_device, waiting)
    with budget(max(LEAST, deadline - time.monotonic())) if snapshot else nullcontext():
        files = documents(recording, host.identity, late)
    try:
        (write_archive if archive else write_folder)(files, target)
    except OSError as error:
        raise Refused(f"{target}: {error.strerror}") from error
    click.echo(f"{target}: {len(files)} files. Read it with: rdmadiag preflight --from {target}")
    for missing in late.values():
        click.echo(f"rdmadiag: {missing}", err=True)
    return exits.UNKNOWN if late else exits.OK
