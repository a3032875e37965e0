"""rdmadiag redact."""

import os
import time
from typing import Any, Final

import click

from rdmadiag.cli import exits, page
from rdmadiag.cli.budget import budget
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import LEAST, Given, host_of, started, timeout_option
from rdmadiag.cli.output import note, printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.redaction import key_of, key_option, said
from rdmadiag.cli.snapshot import ARCHIVES, is_archive, require_new, save
from rdmadiag.cli.writing import create, look
from rdmadiag.quoting import printable, shell_word

DOCUMENTS: Final = (".json", ".jsonl", ".ndjson")
"""Names of files of JSON end so."""


@click.command(
    "redact",
    cls=Page,
    examples=(
        (
            "a snapshot, into a new file beside it",
            "rdmadiag redact this-host.tar.gz --output to-share.tar.gz",
        ),
        ("what preflight --json printed, to stdout", "rdmadiag redact report.json"),
        (
            "records of one site, with the same pseudonyms",
            "rdmadiag redact node7.tar.gz --key-file ~/site.key",
        ),
        ("what watch --ring has kept", "rdmadiag redact /var/lib/rdmadiag/ring"),
    ),
)
@click.argument("record", metavar="RECORD", type=Given())
@page.option(
    "--output",
    type=Given(),
    metavar="FILE",
    help="Write there: of a snapshot a new folder or .tar.gz, RECORD-redacted.tar.gz here by "
    "default; of a ring a new folder, RING-redacted; of a report instead of to stdout. For its "
    "user alone, whole or not at all.",
)
@key_option
@timeout_option
def command(record: str, output: str | None, key_file: str | None, timeout: float) -> int:
    """Replace names in a record by pseudonyms, so that it can be shared.

    RECORD is a snapshot's folder or .tar.gz, JSON that rdmadiag printed (.json; .jsonl for the
    lines of watch --json), or the folder that watch --ring writes. Hosts, addresses, GUIDs,
    serial numbers, users and commands have pseudonyms that keep their structure: networks stay
    networks, what is equal stays equal, and a GID that derives from a MAC still does, so that
    every command says the same of it but for names. Of a snapshot only what rdmadiag reads is
    taken. What is left in is listed, in meta.json too.
    Exits 0, or 3 where a part was left out.
    """
    deadline = started() + timeout
    if record.endswith(DOCUMENTS):
        return _document(record, output, key_of(key_file), deadline)
    from rdmadiag.host.given_file import understood
    from rdmadiag.host.ring_file import is_ring

    if understood(record, lambda: is_ring(record), Refused, deadline):
        return _ring(record, output, key_file, deadline)
    return _snapshot(record, output, key_file, deadline)


def _snapshot(record: str, output: str | None, key_file: str | None, deadline: float) -> int:
    from rdmadiag.cli.progress import progress
    from rdmadiag.host.recording import documents
    from rdmadiag.redact.record import redact_record
    from rdmadiag.sources.record import record as read

    place = _beside(record) if output is None else output
    if not place:
        raise Refused("--output: names no file")
    look(place, lambda: require_new(place, archive=is_archive(place)))
    host = host_of(record, None, deadline)
    key = key_of(key_file)
    with progress(started(), deadline) as waiting:
        recording, late = read(host, deadline, (), waiting, modules=True)
    late.pop("modules", None)  # most records have none of them
    with budget(max(LEAST, deadline - time.monotonic())):
        redacted = redact_record(recording, host.identity, late, key)
        manifest = redacted.manifest()
        files = documents(redacted.recording, redacted.identity, redacted.late, redacted=manifest)
    save(files, place, manifest)
    lost = [*late.values(), *recording.timed_out()]
    for missing in lost:
        note(str(missing))
    return exits.UNKNOWN if lost or manifest["left_out"] else exits.OK


def _ring(record: str, output: str | None, key_file: str | None, deadline: float) -> int:
    import json

    from rdmadiag.cli.progress import meanwhile
    from rdmadiag.host.given_file import understood
    from rdmadiag.host.ring_file import ALIVE, name, open_ring
    from rdmadiag.host.target import create_folder
    from rdmadiag.redact.ring import redact_ring

    place = _stem(record) if output is None else output
    if not place or is_archive(place):
        raise Refused("--output: a ring is a folder")
    look(place, lambda: require_new(place, archive=False))

    def read() -> tuple[tuple[bytes, ...], bytes]:
        try:
            with open_ring(record) as ring:
                return tuple(ring.files()), ring.alive
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) else "no path"
            raise Refused(f"{record}: {said}") from error

    contents, alive = understood(record, read, Refused, deadline)
    key = key_of(key_file)
    with (
        budget(max(LEAST, deadline - time.monotonic())),
        meanwhile(lambda seconds: f"replacing names for {seconds:.0f} s"),
    ):
        try:
            made = redact_ring(contents, alive, key)
        except (ValueError, RecursionError) as error:
            raise Refused(f"{record}: {error}") from error
    files = {name(number): content for number, content in enumerate(made.files, start=1)}
    manifest = json.dumps(made.manifest, indent=2) + "\n"
    files |= {ALIVE: made.alive, "redacted.json": manifest.encode()}

    create(place, lambda: create_folder(place, files, ALIVE))
    with printing():
        how = f"rdmadiag explain --ring {shell_word(place)}"
        click.echo(f"{printable(place)}: {made.events} events. Read it with: {how}")
        for line in said(made.manifest):
            click.echo(line)
    return exits.UNKNOWN if made.manifest["left_out"] else exits.OK


def _beside(record: str) -> str:
    return f"{_stem(record)}.tar.gz"


def _stem(record: str) -> str:
    name = os.path.basename(os.path.normpath(record))
    for suffix in ARCHIVES:
        name = name.removesuffix(suffix)
    return f"{name}-redacted"


def _document(record: str, output: str | None, key: bytes | None, deadline: float) -> int:
    from rdmadiag.host.given_file import understood

    if output is not None:
        from rdmadiag.cli.output_file import check_output

        check_output(output)
    text, manifest = understood(record, lambda: _redacted(record, key, deadline), Refused, deadline)
    if output is not None:
        from rdmadiag.cli.output_file import write_output

        write_output(output, text)
    else:
        with printing():
            click.echo(text, nl=False)
    for line in said(manifest):
        note(line)
    return exits.UNKNOWN if manifest["left_out"] else exits.OK


def _redacted(record: str, key: bytes | None, deadline: float) -> tuple[str, dict[str, Any]]:
    """The document without names, and what was left in it; raises Refused."""
    import json

    from rdmadiag.host.given_file import read_given
    from rdmadiag.redact.record import redact_document
    from rdmadiag.report import MOST_BYTES

    try:
        content = read_given(record, MOST_BYTES, deadline)
    except OSError as error:
        raise Refused(f"{record}: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise Refused(f"{record}: longer than {MOST_BYTES // 1024**2} MiB")
    every, torn = _documents(record, content)
    try:
        redacted = redact_document(every, key, _names if _is_of_fleet(every[0]) else None)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{record}: {error}") from error
    manifest = redacted.manifest()
    if torn:
        manifest["left_out"] = [f"lines that are no whole document of rdmadiag: {torn}"]
    first, *others = redacted.document
    first["redacted"] = manifest
    if others or torn:
        return "".join(f"{json.dumps(each)}\n" for each in (first, *others)), manifest
    return json.dumps(first, indent=2) + "\n", manifest


def _documents(record: str, content: bytes) -> tuple[list[dict[str, Any]], int]:
    """The document, or one a line, and how many lines are none; raises Refused."""
    import json

    try:
        whole = json.loads(content)
    except (ValueError, RecursionError) as error:
        every = [_line(each) for each in content.splitlines() if each.strip()]
        found = [each for each in every if each is not None]
        if not every or every[0] is None:
            raise Refused(f"{record}: no JSON: {error}"[:200]) from error
        return found, len(every) - len(found)
    if not _is_ours(whole):
        raise Refused(f"{record}: not a document that rdmadiag printed: no schema_version")
    return [whole], 0


def _line(line: bytes) -> dict[str, Any] | None:
    import json

    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return document if _is_ours(document) else None


def _is_ours(document: Any) -> bool:
    return isinstance(document, dict) and "schema_version" in document


def _is_of_fleet(document: dict[str, Any]) -> bool:
    """Whether `fleet merge`, `fleet pairs` or `fleet history` printed it."""
    return document.keys() >= {"nodes", "unknown"} or not document.keys().isdisjoint(
        ("drift", "matrix")
    )


def _names(nodes: str) -> tuple[str, ...]:
    """Of a set of nodes; raises Refused."""
    from rdmadiag.fleet.nodes import NoClusterShell, NotNodes, spread

    if "[" not in nodes:
        return tuple(nodes.split(","))
    try:
        return spread(nodes)
    except NotNodes:
        return tuple(nodes.split(","))
    except NoClusterShell as error:
        raise Refused(str(error)) from error
