"""Options that reading commands share: which host, which ports, which form, how long."""

import os
import time
from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from rdmadiag.cli import page
from rdmadiag.cli.budget import budget
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.failure import CommandLine
from rdmadiag.cli.output import note
from rdmadiag.cli.precedence import nearer
from rdmadiag.facts import Identity, Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.frozen import dataclass
from rdmadiag.gid.scan import MAX_ROUTE_GID_SCAN
from rdmadiag.host import Host
from rdmadiag.host.live import LiveHost

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from rdmadiag.facts.resources import ResourceFacts
    from rdmadiag.facts.routing import Asked, TowardsFacts
    from rdmadiag.host.saved_sample import Saved
    from rdmadiag.report import Report
    from rdmadiag.sources.table import Depth

TIMEOUT: Final = 20.0
TIMEOUT_MAX: Final = 30.0
LEAST: Final = 1.0  # seconds for what is thought of a record that took all the others
FORMATS: Final = ("text", "json")
PREFLIGHT_FORMATS: Final = (*FORMATS, "nagios", "prometheus", "junit", "github")

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Reading:
    """What the shared options come to."""

    source: "Host | Report | Saved"
    devices: tuple[str, ...]
    form: str | None  # None: not asked for, where the command chooses
    deadline: float  # absolute, time.monotonic
    timeout: float  # seconds that the deadline was away
    quiet: bool = False
    verbose: bool = False
    sample: str | None = None  # its name

    @property
    def identity(self) -> Identity:
        """The host that is looked at, or was."""
        if _is_host(self.source):
            found = self.source.identity
            return replace(found, sample=self.sample) if self.sample else found
        return replace(self.source.host, recorded=True)

    @property
    def host(self) -> "Host | None":
        """What answers; None of a saved report, which answers nothing more."""
        return self.source if _is_host(self.source) else None

    @property
    def left(self) -> float:
        """Seconds for what is thought of a record that the user named."""
        return max(LEAST, self.deadline - time.monotonic())

    def evidence(
        self,
        sources: Collection[str] | None = None,
        depth: "Depth | None" = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> Evidence:
        """What `sources` find, all of them by default; of a saved report, what it holds.

        While they work, `meanwhile` may do what will be needed afterwards.
        """
        if _is_report(self.source):
            return self.source.evidence
        from rdmadiag.cli.progress import progress
        from rdmadiag.sources.run import gather
        from rdmadiag.sources.table import Depth

        assert _is_host(self.source)
        start = time.monotonic()
        with progress(start, self.deadline, quiet=self.quiet) as waiting:
            evidence = gather(
                self.source, self.deadline, sources, depth or Depth(), waiting, meanwhile
            )
        if self.verbose:
            _account(evidence, time.monotonic() - start)
        return evidence

    def resources(self, least: float) -> "ResourceFacts | Missing":
        """Every tracked object, within what is left of the time, and within `least` seconds."""
        if not _is_host(self.source):
            return Missing(Why.NOT_COLLECTED, "a report of preflight does not name the holders")
        from rdmadiag.cli.progress import progress
        from rdmadiag.sources.sampling import resources

        start = time.monotonic()
        deadline = max(self.deadline, start + least)
        with progress(start, deadline, quiet=self.quiet) as waiting:
            return resources(self.source, deadline, waiting)

    def towards(self, least: float, asked: "tuple[Asked, ...]") -> "TowardsFacts | Missing":
        """The kernel's answers to what is asked, and the neighbours; the time as above."""
        if not _is_host(self.source):
            return Missing(Why.NOT_COLLECTED, "a report of preflight knows no peer")
        from rdmadiag.sources.sampling import towards

        deadline = max(self.deadline, time.monotonic() + least)
        return towards(self.source, deadline, asked)

    def addresses_of(self, name: str) -> "tuple[str, ...] | Missing":
        """Those that /etc/hosts of the host has for a name."""
        if not _is_host(self.source):
            return Missing(Why.NOT_COLLECTED, "a report of preflight has no /etc/hosts")
        from rdmadiag.sources.hosts import addresses_of

        return addresses_of(self.source, name)


def _account(evidence: Evidence, seconds: float) -> None:
    """What each source gave, on stderr."""
    from dataclasses import fields

    from rdmadiag.facts import Missing, Why

    for each in fields(evidence):
        found = getattr(evidence, each.name)
        if not isinstance(found, Missing):
            note(f"{each.name}: read")
        elif found.why not in (Why.NOT_COLLECTED, Why.UNSUPPORTED):
            note(f"{each.name}: {found}")
    note(f"all sources took {seconds:.2f} s")


def reading(function: F, formats: tuple[str, ...] = FORMATS) -> F:
    """Adds the shared options to a command, which gets them as its `reading` argument.

    With more `formats` than usual the command chooses the default: `form` is None then.
    """
    return _reading(function, _report, formats)


def reading_samples(function: F) -> F:
    """The same for samples of counters: a .json that --from names holds one of those."""
    return _reading(function, saved, FORMATS)


def _reading(function: F, read_json: "_ReadJson", formats: tuple[str, ...]) -> F:
    import functools

    @functools.wraps(function)
    def command(
        *args: Any,
        snapshot: str | None,
        sample: str | None,
        device: tuple[str, ...],
        format: str | None,  # noqa: A002  # so that its variable is RDMADIAG_COMMAND_FORMAT
        as_json: bool,
        timeout: float,
        quiet: bool,
        verbose: bool,
        **rest: Any,
    ) -> Any:
        deadline = started() + timeout
        # Of two that exclude each other, the one from nearer the command line stays.
        if as_json and nearer("format", "as_json"):
            as_json = False
        if quiet and nearer("verbose", "quiet"):
            quiet = False
        elif verbose and nearer("quiet", "verbose"):
            verbose = False
        if snapshot is not None and nearer("sample", "snapshot"):
            snapshot = None
        elif sample is not None and nearer("snapshot", "sample"):
            sample = None
        if quiet and verbose:
            raise click.UsageError("--quiet and --verbose exclude each other")
        chosen = Reading(
            _source(snapshot, sample, read_json, deadline, quiet=quiet),
            device,
            "json" if as_json else format,
            deadline,
            timeout,
            quiet,
            verbose,
            sample,
        )
        given = (snapshot, rest.get("peer"), rest.get("since"))
        # A log is read for as long as it is long: explain has its record's budget to itself.
        bounded = any(given) and "log" not in rest
        with budget(chosen.left) if bounded else nullcontext():
            return function(*args, reading=chosen, **rest)

    for option in reversed((*_HOST_OPTIONS, format_option(formats), *_FORM_OPTIONS)):
        command = option(command)
    return command  # type: ignore[return-value]  # click's decorators keep the callable


def _is_report(source: "Host | Report | Saved") -> "TypeIs[Report]":
    return hasattr(source, "evidence")


def _is_host(source: "Host | Report | Saved") -> "TypeIs[Host]":
    return hasattr(source, "identity")


_ReadJson = Callable[[str, float], "Report | Saved"]


def _source(
    snapshot: str | None,
    sample: str | None,
    read_json: _ReadJson,
    deadline: float,
    *,
    quiet: bool = False,
) -> "Host | Report | Saved":
    """A host, or what `read_json` makes of a .json file that --from names."""
    if snapshot is None or sample is not None or not snapshot.endswith(".json"):
        return host_of(snapshot, sample, deadline, quiet=quiet)
    return read_json(snapshot, deadline)


def started() -> float:
    """When the command line was read: what a deadline counts from, on time.monotonic's clock."""
    line = click.get_current_context().find_object(CommandLine)
    return time.monotonic() if line is None else line.start


def _report(path: str, deadline: float) -> "Report":
    """What preflight --json printed."""
    from rdmadiag.report import ReportError, read_report

    try:
        return read_report(path, deadline)
    except ReportError as error:
        raise Refused(str(error)) from error


def recorded(path: str, deadline: float) -> Reading:
    """Another host than the one that is looked at: a snapshot, or a saved report."""
    timeout = max(0.0, deadline - time.monotonic())
    return Reading(_source(path, None, _report, deadline), (), "text", deadline, timeout)


def saved(path: str, deadline: float) -> "Saved":
    """What counters --json printed."""
    from rdmadiag.host.saved_sample import BaselineError, read_saved

    try:
        return read_saved(path, deadline)
    except BaselineError as error:
        raise Refused(str(error)) from error


def host_of(
    snapshot: str | None, sample: str | None, deadline: float, *, quiet: bool = False
) -> Host:
    """The live host, or the recorded one that was asked for."""
    if snapshot is not None and sample is not None:
        raise click.UsageError("--from and --sample exclude each other")
    if snapshot is None and sample is None:
        return LiveHost()
    if snapshot == "":  # --from "$RECORD" without one must not be about this host
        raise Refused("--from: names no record")
    from rdmadiag.host.recorded import open_record, open_snapshot
    from rdmadiag.host.tree import NoSnapshot, SnapshotError

    try:
        if sample is not None:
            from rdmadiag.samples import NoSuchSample, folder

            try:
                return open_snapshot(folder(sample))
            except NoSuchSample as error:
                raise Refused(str(error)) from error
        assert snapshot is not None
        from rdmadiag.cli.progress import progress

        with progress(started(), deadline, quiet=quiet) as waiting:
            return open_record(snapshot, deadline, waiting)
    except NoSnapshot as error:
        from rdmadiag.samples import samples

        hint = f"; did you mean --sample {snapshot}?" if snapshot in samples() else ""
        raise Refused(f"{error}{hint}") from error
    except SnapshotError as error:
        raise Refused(str(error)) from error


class Given(click.Path):
    """A file that the user names, for shells to complete; it is looked at in a child alone.

    click.Path.convert calls stat(2), which a file system that has gone holds for ever.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name."""
        return value


class Whole(click.IntRange):
    """A whole number; click calls a wrong one "not a valid integer range"."""

    name = "whole number"


class Seconds(click.FloatRange):
    """A time; "nan" is within every range, and is none."""

    name = "number of seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number, or a usage error."""
        number: float = super().convert(value, param, ctx)
        if isnan(number):
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        return number


def complete_samples(context: click.Context, option: click.Parameter, typed: str) -> list[str]:
    """Names of samples, for shells."""
    from rdmadiag.samples import samples

    return [name for name in samples() if name.startswith(typed)]


def complete_devices(context: click.Context, option: click.Parameter, typed: str) -> list[str]:
    """Devices and ports of this host, for shells: names of folders, nothing in them is read.

    A shell puts what it is given on the command line: a name that it would expand is left out.
    """
    from rdmadiag.quoting import shell_word

    found = []
    with suppress(OSError):
        names = sorted(os.listdir("/sys/class/infiniband"))
        found = list(names)
        for name in names:
            if typed.startswith(f"{name}:"):
                numbers = sorted(os.listdir(f"/sys/class/infiniband/{name}/ports"))
                found += [f"{name}:{number}" for number in numbers]
    return [each for each in found if each.startswith(typed) and shell_word(each) == each]


timeout_option: Final = page.option(
    "--timeout",
    type=Seconds(0, TIMEOUT_MAX, min_open=True),
    default=TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help=f"For everything together, at most {TIMEOUT_MAX:.0f}.",
)

gid_scan_option: Final = page.option(
    "--gid-scan-limit",
    type=Whole(0, MAX_ROUTE_GID_SCAN),
    metavar="N",
    help="GIDs to ask a port for where each is a call of the library (macOS, old libibverbs).  "
    f"[default: {MAX_ROUTE_GID_SCAN}, which is the most]",
)


def format_option(formats: tuple[str, ...] = FORMATS) -> Callable[[F], F]:
    """-o; a command with a profile decides on the default itself."""
    plain = "nagios" not in formats
    return page.option(
        "-o",
        "--format",
        type=click.Choice(formats),
        default="text" if plain else None,
        show_default="text" if plain else "text; with --profile nagios: nagios",
        help="Form of the document on stdout.",
    )


json_option: Final = page.option("--json", "as_json", is_flag=True, help="The same as -o json.")

_HOST_OPTIONS: Final = (
    page.option(
        "--from",
        "snapshot",
        metavar="SNAPSHOT",
        type=Given(),
        help="Read a recorded host: a snapshot's folder or .tar.gz, any folder with "
        "sys/class/infiniband in it, or the .json that preflight --json printed (for counters: "
        "counters --json).",
    ),
    page.option(
        "--sample",
        metavar="NAME",
        shell_complete=complete_samples,
        help="Read a recorded machine of ours; see samples.",
    ),
    page.option(
        "--device",
        metavar="DEV[:PORT]",
        multiple=True,
        shell_complete=complete_devices,
        help="Only this device or port. Can be repeated.",
    ),
)
_FORM_OPTIONS: Final = (
    json_option,
    timeout_option,
    page.option("-q", "--quiet", is_flag=True, help="The answer alone, and no progress."),
    page.option(
        "-v", "--verbose", is_flag=True, help="All of every note; on stderr what each source gave."
    ),
)
