"""rdmadiag snapshot."""

import os
import re
import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Final

import click

from rdmadiag.cli import exits, page
from rdmadiag.cli.budget import budget
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import LEAST, host_of, started, timeout_option
from rdmadiag.cli.output import note, printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.redaction import key_of, key_option, said
from rdmadiag.cli.writing import create, look
from rdmadiag.quoting import printable, shell_word

ARCHIVES: Final = (".tar.gz", ".tgz")
_OTHER_ARCHIVES: Final = re.compile(
    r"\.(?:tar|t?gz|t?bz2?|tbz2|t?xz|t?zst|t?lz4?|lzma|tlz|Z|zip|7z|rar|cpio|deb|rpm|dmg|iso)/?",
    re.IGNORECASE,
)


@click.command(
    "snapshot",
    cls=Page,
    examples=(
        ("this host, into a new folder", "rdmadiag snapshot /tmp/this-host"),
        (
            "into one file, without counters of a device that pays for being read",
            "rdmadiag snapshot --exclude-device mlx5_0 this-host.tar.gz",
        ),
        (
            "what any command says of it, on another machine",
            "rdmadiag preflight --from this-host.tar.gz",
        ),
    ),
)
@click.argument("target", metavar="DIR|FILE.tar.gz")
@page.option("--from", "snapshot", metavar="SNAPSHOT", help="Record a recorded host again.")
@page.option("--sample", metavar="NAME", help="Copy a recorded machine of ours.")
@page.option(
    "--exclude-device",
    metavar="DEV",
    multiple=True,
    help="Read no counter of this device. Can be repeated.",
)
@page.option(
    "--modules",
    is_flag=True,
    help="Record what transceivers and cables say of themselves, too; slow on some firmware.",
)
@page.option(
    "--redact",
    is_flag=True,
    help="Replace names by pseudonyms as rdmadiag redact does; what is left in is listed.",
)
@key_option
@timeout_option
def command(
    target: str,
    snapshot: str | None,
    sample: str | None,
    exclude_device: tuple[str, ...],
    modules: bool,
    redact: bool,
    key_file: str | None,
    timeout: float,
) -> int:
    """Record this host, so that every command can be run on the record.

    Writes exactly what the other commands read, refusals included, into a new folder or
    .tar.gz file, for its user alone. It names hosts, addresses and GUIDs: look before you
    share it, or give --redact.
    Exits 0, or 3 where a source gave nothing.
    """
    start = started()
    deadline = start + timeout
    from rdmadiag.cli.progress import progress
    from rdmadiag.host.recording import documents
    from rdmadiag.sources.record import record

    if key_file is not None and not redact:
        raise click.UsageError("--key-file is of --redact")
    # Before anything is read: a name that cannot be written to should not cost a minute.
    look(target, lambda: require_new(target, archive=is_archive(target)))
    host = host_of(snapshot, sample, deadline)
    key = key_of(key_file)
    with progress(start, deadline) as waiting:
        recording, late = record(host, deadline, exclude_device, waiting, modules=modules)
    with budget(max(LEAST, deadline - time.monotonic())) if snapshot else nullcontext():
        if redact:
            from rdmadiag.redact.record import redact_record

            redacted = redact_record(recording, host.identity, late, key)
            manifest = redacted.manifest()
            files = documents(
                redacted.recording, redacted.identity, redacted.late, redacted=manifest
            )
        else:
            manifest = None
            files = documents(recording, host.identity, late)

    save(files, target, manifest)
    lost = [*late.values(), *recording.timed_out()]
    for missing in lost:
        note(str(missing))
    return exits.UNKNOWN if lost or (manifest and manifest["left_out"]) else exits.OK


def save(files: Mapping[str, bytes], place: str, manifest: Mapping[str, Any] | None) -> None:
    """Write a snapshot, and print where it is and what was replaced in it."""
    from rdmadiag.host.recording import write_archive, write_folder

    create(place, lambda: (write_archive if is_archive(place) else write_folder)(files, place))
    with printing():
        how = f"rdmadiag preflight --from {shell_word(place)}"
        click.echo(f"{printable(place)}: {len(files)} files. Read it with: {how}")
        for line in said(manifest) if manifest else ():
            click.echo(line)


def is_archive(place: str) -> bool:
    """Whether a name is that of one file, not of a folder."""
    return place.endswith(ARCHIVES)


def require_new(target: str, *, archive: bool) -> None:
    """Raises Refused for what is there already, but for an empty folder; also for other archives,
    and below what is no folder."""
    ending = _OTHER_ARCHIVES.fullmatch(os.path.splitext(target.rstrip("/"))[1])
    if ending and not archive:
        raise Refused(f"{target}: a record is a folder or {' or '.join(ARCHIVES)}, not {ending[0]}")
    if os.path.lexists(target) and (archive or not os.path.isdir(target) or os.listdir(target)):
        raise Refused(f"{target} is there already; a snapshot never overwrites")
    above = os.path.dirname(os.path.abspath(target))
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise Refused(f"{target}: {above} is no folder: nothing can be written below it")
