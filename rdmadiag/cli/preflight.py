"""rdmadiag preflight."""

import functools
import importlib
import re
from typing import TYPE_CHECKING, Any, Final

import click

from rdmadiag.cli import exits, page
from rdmadiag.cli.exits import CannotTell, Refused
from rdmadiag.cli.options import PREFLIGHT_FORMATS, Given, Reading, Whole, gid_scan_option, reading
from rdmadiag.cli.output import in_utf8, note, printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.selectors import not_there, selectors
from rdmadiag.facts import Missing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rdmadiag.cli.two_records import Record
    from rdmadiag.facts.evidence import Evidence
    from rdmadiag.facts.modules import NetdevModule
    from rdmadiag.fleet.changed import Differences
    from rdmadiag.preflight.expectations import Expectations
    from rdmadiag.preflight.verdict import Verdict
    from rdmadiag.view.select import Selector


def _window(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """What `log show --last` takes, and the kernel's log too."""
    if value is not None and not re.fullmatch(r"[1-9][0-9]{0,5}[smhd]", value):
        raise click.BadParameter("a number and one of s, m, h, d, such as 30s or 2h")
    return value


@click.command(
    "preflight",
    cls=Page,
    examples=(
        ("this host: the verdict, what is wrong, what to do", "rdmadiag preflight"),
        (
            "a recorded host, or what --json printed elsewhere",
            "rdmadiag preflight --from report.json",
        ),
        (
            "one line, and 0 but for a critical verdict: for scripts",
            "rdmadiag preflight --quiet --fail-on critical",
        ),
        ("is it what its like are?", "rdmadiag preflight --expect good.toml --expect-rate 400G"),
    ),
)
@functools.partial(reading, formats=PREFLIGHT_FORMATS)
@page.option(
    "--output",
    type=Given(),
    metavar="FILE",
    help="Write there instead of to stdout: whole or not at all. A new file has mode 0600, for "
    "prometheus 0644; one that is replaced keeps its own.",
)
@page.option(
    "--expect",
    type=Given(),
    metavar="FILE",
    help="What this host should be, as `rdmadiag expect` writes it; what it is not is a finding.",
)
@page.option("--expect-devices", type=Whole(0), metavar="N", help="So many RDMA devices.")
@page.option("--expect-active", type=Whole(0), metavar="N", help="So many active ports.")
@page.option(
    "--expect-rate",
    metavar="RATE",
    help='Of every active port: "400 Gb/sec", or ">=200 Gb/sec".',
)
@page.option(
    "--profile",
    type=click.Choice(tuple(exits.PROFILES)),
    help="Exit codes, and the default form, for what runs this; see docs/exit_codes.md.",
)
@page.option(
    "--fail-on",
    type=click.Choice(tuple(exits.FAILS_ON)),
    help="The mildest status that gives an exit code other than 0.  [default: warn; with "
    "--profile npd or k8s unknown, slurm critical]",
)
@gid_scan_option
@page.option(
    "--log-last",
    metavar="TIME",
    callback=_window,
    help="How far back to read the log: 30s, 1m, 2h, 1d.  [default: 10m of the kernel's log on "
    "Linux, 1m of a Mac's]",
)
@page.option(
    "--log-lines",
    type=Whole(1, 10000),
    metavar="N",
    help="Lines of it to keep; of a Mac's, a failed RTR whatever its age.  [default: 100 on "
    "Linux, 20 on a Mac]",
)
@page.option(
    "--pid",
    type=Whole(1, 2**22),
    metavar="PID",
    help="Whose limit on locked memory to look at, with its parents': the daemon that starts "
    "your jobs, such as slurmd or kubelet.  [default: the parents of this process]  Of a job's "
    "own process, also which NCCL it has mapped.",
)
@page.option(
    "--stack",
    "names",
    metavar="NAME[@VERSION]",
    multiple=True,
    help="Judge what this stack would pick, too: nccl, ucx@1.18. Can be repeated.",
)
@page.option(
    "--fleet-size",
    type=Whole(2, 10**6),
    metavar="N",
    help="Are this host's limits enough for N hosts: neighbours, ports, files, rdma cgroup?",
)
@page.option(
    "--modules",
    is_flag=True,
    help="Read transceivers and cables, too: type, temperature, light, and their own thresholds. "
    "Needs CAP_NET_ADMIN; slow on some firmware.",
)
@page.option(
    "--env-from",
    metavar="PID|FILE",
    help="Its variables instead of this process's: a running job's, or NAME=VALUE lines.",
)
@page.option(
    "--ladder",
    is_flag=True,
    help="Of each port how far it gets: seen, opened, link, addressed, routable, lossless, "
    "permitted, proven; and what the next rung takes.",
)
@page.option(
    "--proven",
    type=Given(),
    metavar="FILE",
    multiple=True,
    help="With --ladder: what `pingpong --json` printed on this host. Can be repeated.",
)
@page.option(
    "--since",
    type=Given(),
    metavar="RECORD",
    help="What changed since this record of the host, as `rdmadiag diff` says it. The verdict and "
    "the exit code are of now alone.",
)
@page.option("--exit-zero", is_flag=True, help="Exit 0 whatever the verdict.")
def command(
    reading: Reading,
    output: str | None,
    expect: str | None,
    expect_devices: int | None,
    expect_active: int | None,
    expect_rate: str | None,
    profile: str | None,
    fail_on: str | None,
    gid_scan_limit: int | None,
    log_last: str | None,
    log_lines: int | None,
    pid: int | None,
    names: tuple[str, ...],
    fleet_size: int | None,
    modules: bool,
    env_from: str | None,
    ladder: bool,
    proven: tuple[str, ...],
    since: str | None,
    exit_zero: bool,
) -> int:
    """The report on this host and the verdict.

    Exits 0 ok, 1 warn, 2 critical, 3 unknown (also: no RDMA device).
    """
    from datetime import UTC, datetime

    from rdmadiag.preflight.judge import judge
    from rdmadiag.sources.table import Depth
    from rdmadiag.view.select import NoSuchDevice

    if log_last and reading.identity.recorded:
        raise click.UsageError("--log-last is for a live host: a record has its own log")
    if pid and reading.identity.recorded:
        raise click.UsageError("--pid is for a live host: a record has its own processes")
    if proven and not ladder:
        raise click.UsageError("--proven is for --ladder")
    from rdmadiag.cli.environment import with_environment
    from rdmadiag.cli.stacks import chosen_stacks

    if output is not None:
        from rdmadiag.cli.output_file import check_output

        check_output(output)
    stacks = chosen_stacks(names) if names else ()
    wanted = selectors(reading.devices)
    options = {"devices": expect_devices, "active_ports": expect_active, "rate": expect_rate}
    expectations = _expectations(expect, options, reading.deadline)
    codes = exits.PROFILES[profile] if profile else exits.PLAIN
    form = reading.form or codes.form
    earlier = None if since is None else _earlier(since, form, reading)
    ports = _proven(proven, reading)
    evidence = reading.evidence(
        depth=Depth(log_last, log_lines, pid, gid_scan_limit, modules=modules or None),
        # Beside the sources, which run in children.
        meanwhile=functools.partial(importlib.import_module, _RENDERERS[form]),
    )
    if env_from is not None:
        evidence = with_environment(evidence, env_from, reading.deadline)
    try:
        verdict = judge(evidence, wanted, stacks, expectations, fleet_size)
    except NoSuchDevice as error:
        raise not_there(error, evidence) from error
    if ladder:
        from rdmadiag.preflight.ladder import with_ladders
        from rdmadiag.view.reconcile import devices

        verdict = with_ladders(verdict, devices(evidence), evidence, ports)
    counts = exits.FAILS_ON[fail_on or codes.fail_on]
    changes = _changes(earlier, reading, evidence)
    shown = _Shown(reading, verdict, evidence, wanted, counts, datetime.now(UTC), changes)
    code = exits.OK if exit_zero else codes.code(verdict.status, fail_on)
    try:
        shown.write(form, output)
    except exits.NotWritten as error:
        if codes.failed is None or code == exits.OK:
            raise
        # What runs this knows its codes alone, and one of them is of this verdict.
        note(error.message)
    return code


_RENDERERS = {
    "text": "rdmadiag.render.preflight",
    "json": "rdmadiag.render.json",
    "nagios": "rdmadiag.render.nagios",
    "prometheus": "rdmadiag.render.prometheus",
    "junit": "rdmadiag.render.junit",
    "github": "rdmadiag.render.github",
}

_WITH_CHANGES = ("text", "json")
"""Forms that have room for what changed; the others are read by programs that know a verdict."""


def _earlier(path: str, form: str, reading: Reading) -> "Record":
    from rdmadiag.cli.two_records import read_record

    if form not in _WITH_CHANGES:
        raise click.UsageError(f"--since is for -o {' and '.join(_WITH_CHANGES)}")
    try:
        found = read_record(path, reading.deadline)
    except CannotTell as error:  # of a side of `diff`; here it is an option, as --from is
        raise Refused(f"--since {error}") from error
    if found.evidence is None:
        raise Refused(f"--since {path}: a sample of counters; `rdmadiag counters --since` takes it")
    return found


def _changes(
    earlier: "Record | None", reading: Reading, evidence: "Evidence"
) -> "tuple[Record, Differences] | None":
    if earlier is None:
        return None
    from rdmadiag.cli.two_records import Record, compared

    now = Record("", reading.identity, evidence, None)
    return earlier, compared(earlier, now, None)


_OPTION_OF = {
    "devices": "--expect-devices",
    "active_ports": "--expect-active",
    "rate": "--expect-rate",
}


def _proven(paths: "Sequence[str]", reading: Reading) -> "frozenset[tuple[str, int]]":
    """The ports of this host that saved outcomes have verified."""
    if not paths:
        return frozenset()
    from rdmadiag.render.saved_run import SavedRunError, read_pingpong

    found: set[tuple[str, int]] = set()
    for path in paths:
        try:
            saved = read_pingpong(path, reading.deadline)
        except SavedRunError as error:
            raise Refused(f"--proven {error}") from error
        if saved.hostname != reading.identity.hostname:
            raise Refused(f"--proven {path} is of another host: {saved.hostname!r}")
        found.update(saved.verified)
    return frozenset(found)


def _expectations(
    path: str | None, options: "dict[str, Any]", deadline: float
) -> "Expectations | None":
    """Of the file and of the options together; None where neither was given."""
    given = {key: value for key, value in options.items() if value is not None}
    if path is None and not given:
        return None
    from rdmadiag.facts.toml_file import NoTomlFile, TomlFileError
    from rdmadiag.host.toml_file import read_toml
    from rdmadiag.preflight.expectations import Expectations
    from rdmadiag.preflight.expectations.keys import NotThis
    from rdmadiag.preflight.expectations.written import expectations, from_option

    found = Expectations()
    try:
        if path is not None:
            found = expectations(read_toml(path, deadline))
            if not found.expected:  # a file that was cut short would be met by every host
                raise Refused(f"{path}: expects nothing of a host: no key in [host] or [device]")
    except NoTomlFile as error:
        raise Refused(f"--expect {error}{_NO_EXPECTATIONS}") from error
    except TomlFileError as error:
        raise Refused(str(error)) from error
    for key, value in given.items():
        try:
            found += from_option(key, value, _OPTION_OF[key])
        except NotThis as error:
            raise Refused(f"{_OPTION_OF[key]} {value!r}: expected {error}") from error
    return found


_NO_EXPECTATIONS: Final = (
    "; `rdmadiag expect > FILE` writes one, and single values are for --expect-rate, "
    "--expect-active and --expect-devices"
)


class _Shown:
    """A verdict in whatever form."""

    def __init__(
        self,
        reading: Reading,
        verdict: "Verdict",
        evidence: "Evidence",
        wanted: "Sequence[Selector]",
        counts: "frozenset[str]",
        when: "datetime",
        changes: "tuple[Record, Differences] | None" = None,
    ) -> None:
        self.reading, self.verdict, self.evidence = reading, verdict, evidence
        self.changes = changes
        self.wanted, self.counts, self.when = wanted, counts, when

    def write(self, form: str, output: str | None) -> None:
        """To stdout, or into the file."""
        import sys

        if output:
            from io import StringIO

            from rdmadiag.cli.output_file import FOR_OTHERS, OWN, write_output

            whole = StringIO()
            self._to(form, whole)
            write_output(output, whole.getvalue(), FOR_OTHERS if form == "prometheus" else OWN)
            return
        if form == "prometheus":
            in_utf8()
        with printing():
            self._to(form, None if form == "text" else sys.stdout)

    def _modules(self) -> "tuple[NetdevModule, ...]":
        """Those of the selected ports, where they were read."""
        if isinstance(self.evidence.modules, Missing):
            return ()
        from rdmadiag.view.modules import selected_modules
        from rdmadiag.view.reconcile import devices
        from rdmadiag.view.select import select

        return selected_modules(select(devices(self.evidence), self.wanted), self.evidence)

    def _changed_since(self) -> "dict[str, Any]":
        """A member of the document, with --since."""
        if self.changes is None:
            return {}
        from rdmadiag.render.json import members

        earlier, found = self.changes
        return {"changed_since": {"before": {"host": earlier.host}} | members(found)}

    def _to(self, form: str, out: Any) -> None:
        host = self.reading.identity
        if form == "text":
            from rdmadiag.render.console import console
            from rdmadiag.render.preflight import show

            to = console(out)
            quiet, verbose = self.reading.quiet, self.reading.verbose
            show(self.verdict, host, to, self._modules(), quiet=quiet, verbose=verbose)
            if self.changes is not None and not quiet:
                from rdmadiag.render.diff import show_since

                earlier, found = self.changes
                show_since(found, earlier.path, earlier.host, host, to, verbose=verbose)
        elif form == "json":
            from rdmadiag.render.json import write

            parts = {"host": host, "verdict": self.verdict, "evidence": self.evidence}
            write(parts | self._changed_since(), self.when, out)
        elif form == "nagios":
            from rdmadiag.render import nagios

            out.write(nagios.line(self.verdict, host))
        elif form == "github":
            from rdmadiag.render import github

            out.write(github.text(self.verdict, host))
        elif form == "junit":
            from rdmadiag.render import junit

            out.write(junit.text(self.verdict, host, self.counts, self.when))
        else:
            from rdmadiag.render import prometheus
            from rdmadiag.view.reconcile import devices
            from rdmadiag.view.select import select

            chosen = select(devices(self.evidence), self.wanted)
            out.write(prometheus.text(self.verdict, chosen, self.when))
