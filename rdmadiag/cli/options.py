"""Options that reading commands share: which host, which ports, which form, how long."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from math import isnan
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from rdmadiag.cli.exits import Refused
from rdmadiag.facts import Identity, Missing, Why
from rdmadiag.gid.scan import MAX_ROUTE_GID_SCAN
from rdmadiag.host import Host, LiveHost
from rdmadiag.preflight.evidence import Evidence

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from rdmadiag.counters.baseline import Saved
    from rdmadiag.facts.resources import ResourceFacts
    from rdmadiag.preflight.gather import Depth
    from rdmadiag.preflight.report import Report

TIMEOUT: Final = 20.0
TIMEOUT_MAX: Final = 30.0
FORMATS: Final = ("text", "json")

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Reading:
    """What the shared options come to."""

    source: "Host | Report | Saved"
    devices: tuple[str, ...]
    form: str
    deadline: float  # absolute, time.monotonic
    timeout: float  # seconds that the deadline was away

    @property
    def identity(self) -> Identity:
        """The host that is looked at, or was."""
        if _is_host(self.source):
            return self.source.identity
        return replace(self.source.host, recorded=True)

    def evidence(
        self, sources: Collection[str] | None = None, depth: "Depth | None" = None
    ) -> Evidence:
        """What `sources` find, all of them by default; of a saved report, what it holds."""
        if _is_report(self.source):
            return self.source.evidence
        from rdmadiag.preflight.gather import Depth, gather

        assert _is_host(self.source)
        return gather(self.source, self.deadline, sources, depth or Depth())

    def resources(self, least: float) -> "ResourceFacts | Missing":
        """Every tracked object, within what is left of the time, and within `least` seconds."""
        if not _is_host(self.source):
            return Missing(Why.NOT_COLLECTED, "a report of preflight does not name the holders")
        from rdmadiag.sampling import resources

        return resources(self.source, max(self.deadline, time.monotonic() + least))


def reading(function: F) -> F:
    """Adds the shared options to a command, which gets them as its `reading` argument."""
    return _reading(function, _report)


def reading_samples(function: F) -> F:
    """The same for samples of counters: a .json that --from names holds one of those."""
    return _reading(function, saved)


def _reading(function: F, read_json: "Callable[[str], Report | Saved]") -> F:
    import functools

    @functools.wraps(function)
    def command(
        *args: Any,
        snapshot: str | None,
        sample: str | None,
        device: tuple[str, ...],
        output: str,
        as_json: bool,
        timeout: float,
        **rest: Any,
    ) -> Any:
        deadline = time.monotonic() + timeout
        form = "json" if as_json else output
        source = _source(snapshot, sample, read_json)
        chosen = Reading(source, device, form, deadline, timeout)
        return function(*args, reading=chosen, **rest)

    for option in reversed(_OPTIONS):
        command = option(command)
    return command  # type: ignore[return-value]  # click's decorators keep the callable


def _is_report(source: "Host | Report | Saved") -> "TypeIs[Report]":
    return hasattr(source, "evidence")


def _is_host(source: "Host | Report | Saved") -> "TypeIs[Host]":
    return hasattr(source, "identity")


def _source(
    snapshot: str | None, sample: str | None, read_json: "Callable[[str], Report | Saved]"
) -> "Host | Report | Saved":
    """A host, or what `read_json` makes of a .json file that --from names."""
    if not snapshot or sample or not snapshot.endswith(".json"):
        return host_of(snapshot, sample)
    return read_json(snapshot)


def _report(path: str) -> "Report":
    """What preflight --json printed."""
    from rdmadiag.preflight.report import ReportError, read_report

    try:
        return read_report(path)
    except ReportError as error:
        raise Refused(str(error)) from error


def recorded(path: str, deadline: float) -> Reading:
    """Another host than the one that is looked at: a snapshot, or a saved report."""
    timeout = max(0.0, deadline - time.monotonic())
    return Reading(_source(path, None, _report), (), "text", deadline, timeout)


def saved(path: str) -> "Saved":
    """What counters --json printed."""
    from rdmadiag.counters.baseline import BaselineError, read_saved

    try:
        return read_saved(path)
    except BaselineError as error:
        raise Refused(str(error)) from error


def host_of(snapshot: str | None, sample: str | None) -> Host:
    """The live host, or the recorded one that was asked for."""
    if snapshot and sample:
        raise click.UsageError("--from and --sample exclude each other")
    if not (snapshot or sample):
        return LiveHost()
    from rdmadiag.snapshot.replay import open_snapshot
    from rdmadiag.snapshot.tree import SnapshotError

    try:
        if sample:
            from rdmadiag.samples import NoSuchSample, folder

            try:
                return open_snapshot(folder(sample))
            except NoSuchSample as error:
                raise Refused(str(error)) from error
        assert snapshot
        return open_snapshot(snapshot)
    except SnapshotError as error:
        raise Refused(str(error)) from error


class Seconds(click.FloatRange):
    """A time; "nan" is within every range, and is none."""

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number, or a usage error."""
        number: float = super().convert(value, param, ctx)
        if isnan(number):
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        return number


timeout_option: Final = click.option(
    "--timeout",
    type=Seconds(0, TIMEOUT_MAX, min_open=True),
    default=TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help=f"For everything together, at most {TIMEOUT_MAX:.0f}.",
)

gid_scan_option: Final = click.option(
    "--gid-scan-limit",
    type=click.IntRange(0, MAX_ROUTE_GID_SCAN),
    metavar="N",
    help="GIDs to ask a port for where each is a call of the library (macOS, old libibverbs).  "
    f"[default: {MAX_ROUTE_GID_SCAN}, which is the most]",
)

_OPTIONS: Final = (
    click.option(
        "--from",
        "snapshot",
        metavar="SNAPSHOT",
        help="Read a recorded host: a snapshot's folder or .tar.gz, any folder with "
        "sys/class/infiniband in it, or the .json that preflight --json printed (for counters: "
        "counters --json).",
    ),
    click.option("--sample", metavar="NAME", help="Read a recorded machine of ours; see samples."),
    click.option(
        "--device",
        metavar="DEV[:PORT]",
        multiple=True,
        help="Only this device or port. Can be repeated.",
    ),
    click.option(
        "-o",
        "--output",
        "output",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help="Form of the document on stdout.",
    ),
    click.option("--json", "as_json", is_flag=True, help="The same as -o json."),
    timeout_option,
)
