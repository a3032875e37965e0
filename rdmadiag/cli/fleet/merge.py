"""rdmadiag fleet merge."""

import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from rdmadiag.cli import page
from rdmadiag.cli.exits import NOT_WRITTEN, Refused
from rdmadiag.cli.fleet.options import file_options, output_option, talk_options
from rdmadiag.cli.options import Given, Seconds, format_option, json_option
from rdmadiag.cli.output import in_utf8, note, printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.precedence import form_wanted
from rdmadiag.cli.verdicts import code_of, exit_zero_option, fail_on_option

if TYPE_CHECKING:
    from rdmadiag.cli.fleet.reading import AddedUp
    from rdmadiag.fleet.nodes import Expected

FORMATS: Final = ("text", "json", "junit", "prometheus")
TIMEOUT: Final = 600.0
_MOST_SECONDS: Final = 86400.0


@click.command(
    "merge",
    cls=Page,
    examples=(
        ("a folder with a report of each host", "rdmadiag fleet merge reports/"),
        (
            "what nodes print; those that print nothing are named, too",
            'srun -l … preflight --json | rdmadiag fleet merge - --expect-hosts "n[1-9]"',
        ),
        (
            "leave out who is not fit; then: srun --exclude=$(cat bad) …",
            "rdmadiag fleet merge reports/ --failed bad",
        ),
        ("a page to look at", "rdmadiag fleet merge reports.tar.gz --html fleet.html"),
    ),
)
@click.argument("paths", nargs=-1, required=True, type=Given(), metavar="PATH...")
@page.option(
    "--expect-hosts",
    metavar="NODESET",
    help="Who ought to report, as node[001-512]: those of which nothing was read are named.",
)
@page.option(
    "--judge-again",
    is_flag=True,
    help="By this version's rules, from the evidence; slower. Else the verdicts are those that "
    "stand in the reports.",
)
@file_options
@page.option(
    "--history",
    type=Given(),
    metavar="FILE",
    help="Add this merge to a history, for `fleet history`: whole or not at all.",
)
@fail_on_option
@exit_zero_option
@format_option(FORMATS)
@json_option
@output_option
@page.option(
    "--timeout",
    type=Seconds(0, _MOST_SECONDS, min_open=True),
    default=TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="For all that is read. What came by then is judged, and what had not ended is named.",
)
@talk_options
def command(
    paths: tuple[str, ...],
    expect_hosts: str | None,
    judge_again: bool,
    passed: str | None,
    failed: str | None,
    html: str | None,
    history: str | None,
    fail_on: str,
    exit_zero: bool,
    format: str | None,  # noqa: A002  # so that its variable is RDMADIAG_FLEET_MERGE_FORMAT
    as_json: bool,
    output: str | None,
    timeout: float,
    quiet: bool,
    verbose: bool,
) -> int:
    """What the reports of many hosts add up to, from any launcher.

    PATH is a folder, a .tar.gz, a file, or - for stdin, with what `preflight --json` and
    `counters --json` print: one document a file or a line, or as `srun -l`, `clush`, `pdsh`,
    `kubectl logs --prefix` and Ansible's JSON callback write it. Lines that are no report are
    named with their node.

    Exits with the worst verdict: 0 ok, 1 warn, 2 critical, 3 unknown (also: a host without a
    report).
    """
    from rdmadiag.cli.fleet.reading import read_named

    format = form_wanted(format, as_json=as_json)  # noqa: A001
    targets = {"--output": output, "--passed": passed, "--failed": failed, "--html": html}
    check_files(targets)
    expected = _expected(expect_hosts)
    found = read_named(
        paths, expected, timeout, judge_again=judge_again, history=history, quiet=quiet
    )
    form = format or "text"
    return write(found, targets, form, fail_on, exit_zero, quiet=quiet, verbose=verbose)


def write(
    found: "AddedUp",
    files: Mapping[str, str | None],
    form: str,
    fail_on: str,
    exit_zero: bool,
    *,
    quiet: bool,
    verbose: bool,
) -> int:
    """All that was asked for, `files` by their option; the exit code."""
    from rdmadiag.fleet.merge import fit

    merged = found.merged
    good, bad = fit(merged)
    for option, names in (("--passed", good), ("--failed", bad)):
        if path := files[option]:
            write_nodes(path, names, option)
    if html := files["--html"]:
        _write_page(html, found)
    _show(found, form, files["--output"], fail_on, quiet=quiet, verbose=verbose)
    if found.not_kept:  # not raised: of JSON a failure would be a second document
        note(f"--history {found.not_kept}")
        return NOT_WRITTEN
    return code_of(merged.status, fail_on, exit_zero)


def check_files(targets: Mapping[str, str | None]) -> None:
    """Before anything is read. Raises Refused and NotWritten."""
    from rdmadiag.cli.output_file import check_output

    if targets["--html"] is not None:
        try:
            import jinja2  # noqa: F401
        except ImportError as error:
            raise Refused("--html needs Jinja2: pip install 'rdmadiag[fleet]'") from error
    for option, path in targets.items():
        if path is not None:
            check_output(path, option)


def _expected(text: str | None) -> "Expected | None":
    """Raises Refused; also where sets of nodes cannot be written at all."""
    from rdmadiag.fleet.nodes import Expected, NoClusterShell, NotNodes, fold, spread

    try:
        fold(("a1", "a2"))  # every answer needs it
        return None if text is None else Expected(spread(text))
    except NotNodes as error:
        raise Refused(f"--expect-hosts {error}") from error
    except NoClusterShell as error:
        raise Refused(str(error)) from error


def write_nodes(path: str, names: Iterable[str], option: str) -> None:
    """One set on one line, for a command line; names that are none would be options there."""
    from rdmadiag.cli.output_file import write_output
    from rdmadiag.fleet.nodes import fold, is_name, shown

    names = tuple(names)
    for name in names:
        if not is_name(name):
            note(f"{option} {path}: left out {shown(name)}, which is no name of a node")
    write_output(path, f"{fold(filter(is_name, names))}\n", option=option)


def _write_page(path: str, found: "AddedUp") -> None:
    from rdmadiag.cli.output_file import write_output
    from rdmadiag.render.fleet_page import page

    write_output(path, page(found.merged, found.tournament, datetime.now(UTC)), option="--html")


def _show(
    found: "AddedUp", form: str, output: str | None, fail_on: str, *, quiet: bool, verbose: bool
) -> None:
    when = datetime.now(UTC)
    if output:
        from io import StringIO

        from rdmadiag.cli.output_file import FOR_OTHERS, OWN, write_output

        whole = StringIO()
        _to(whole, found, form, fail_on, when, quiet=quiet, verbose=verbose)
        write_output(output, whole.getvalue(), FOR_OTHERS if form == "prometheus" else OWN)
        return
    if form == "prometheus":
        in_utf8()
    with printing():
        _to(None, found, form, fail_on, when, quiet=quiet, verbose=verbose)


def _to(
    out: Any,
    found: "AddedUp",
    form: str,
    fail_on: str,
    when: datetime,
    *,
    quiet: bool,
    verbose: bool,
) -> None:
    """`out` is None for stdout."""
    if form == "text":
        from rdmadiag.render.console import console
        from rdmadiag.render.fleet_merge import show

        to = console(out)
        of_pairs = bool(found.tournament) and not found.merged.rows and not found.merged.unused
        if not of_pairs:
            show(found.merged, to, quiet=quiet, verbose=verbose)
        if found.tournament and (of_pairs or not quiet):
            from rdmadiag.render.fleet_pairs import show as show_pairs

            if not of_pairs:
                to.print()
            show_pairs(found.tournament, to, quiet=quiet, verbose=verbose)
    elif form == "json":
        from rdmadiag.render.json import members
        from rdmadiag.render.json import write as write_json

        write_json(members(found.merged) | {"tournament": found.tournament}, when, out)
    elif form == "junit":
        from rdmadiag.cli.exits import FAILS_ON
        from rdmadiag.render.fleet_junit import text

        (out or sys.stdout).write(text(found.merged, FAILS_ON[fail_on], when))
    else:
        from rdmadiag.render.fleet_prometheus import text as families

        (out or sys.stdout).write(families(found.merged, when))
