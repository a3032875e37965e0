"""rdmadiag job."""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from rdmadiag.cli import exits, page
from rdmadiag.cli.exits import CannotTell, Refused
from rdmadiag.cli.options import Given, Reading, Seconds, Whole, reading
from rdmadiag.cli.output import note, printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.progress import meanwhile
from rdmadiag.cli.selectors import not_there, selectors
from rdmadiag.cli.verdicts import code_of, exit_zero_option, fail_on_option
from rdmadiag.frozen import dataclass

if TYPE_CHECKING:
    from rdmadiag.facts.evidence import Evidence
    from rdmadiag.facts.job import AskedJob, JobFacts
    from rdmadiag.host import Host
    from rdmadiag.preflight.judge_job import Because, JobVerdict
    from rdmadiag.render.saved_run import SavedJob
    from rdmadiag.view.job import JobView
    from rdmadiag.view.job_peer import JobPeer
    from rdmadiag.view.reconcile import DeviceView
    from rdmadiag.view.select import Selector

INTERVAL: Final = 1.0
INTERVAL_MAX: Final = 3600.0
_LEAST_SECONDS: Final = 2.0
_SOURCES: Final = ("sysfs", "nldev", "netdev", "process")


@click.command(
    "job",
    cls=Page,
    examples=(
        ("is this process on RDMA at all?", "rdmadiag job 4711"),
        (
            "a launcher and all its ranks, over five seconds",
            "rdmadiag job 4711 --children --interval 5",
        ),
        (
            "all of a Slurm step or a container, anew each second",
            "rdmadiag job 4711 --cgroup --watch",
        ),
        (
            "with its other half: what job --json printed on that host",
            "rdmadiag job 4711 --children --peer node2-job.json",
        ),
    ),
)
@reading
@click.argument("pid", metavar="PID", type=Whole(1, 2**31 - 1))
@page.option("--children", is_flag=True, help="With all processes that descend from it.")
@page.option("--cgroup", is_flag=True, help="With all processes of its control group.")
@page.option(
    "--peer",
    type=Given(),
    metavar="JOB.json",
    help="Its part on another host, which `job --json` printed there: do both lead to each other?",
)
@page.option(
    "--interval",
    type=Seconds(0, INTERVAL_MAX),
    default=INTERVAL,
    show_default=True,
    metavar="SECONDS",
    help="Between the two samples that are compared; 0 takes one, and reads no counter.",
)
@page.option("--watch", is_flag=True, help="An answer each interval, until stopped (Ctrl-C).")
@page.option("--count", type=Whole(1), metavar="N", help="With --watch: stop after N intervals.")
@fail_on_option
@exit_zero_option
def command(
    reading: Reading,
    pid: int,
    children: bool,
    cgroup: bool,
    peer: str | None,
    interval: float,
    watch: bool,
    count: int | None,
    fail_on: str,
    exit_zero: bool,
) -> int:
    """Is this job on RDMA at all, and why not.

    Its queue pairs by RDMA netlink, the bytes of its TCP connections by sock_diag (where tcp_diag
    is there already: no module is loaded), and the counters of the ports that it uses. These count
    for all that use a port: a share is claimed only where nobody else has a queue pair there.
    Nothing is traced. --timeout is without the interval.
    Exits 0 on RDMA, 1 wholly or partly by TCP, 2 with queue pairs in the error state, 3 where
    that is not known.
    """
    from rdmadiag.facts.job import AskedJob, Extent

    if children and cgroup:
        raise click.UsageError("--children and --cgroup exclude each other")
    if count and not watch:
        raise click.UsageError("--count is for --watch")
    if watch and not interval:
        raise click.UsageError("--watch takes an interval above 0")
    if reading.identity.recorded and watch:
        raise click.UsageError("a record is one sample: nothing in it moves")
    if watch and peer:
        raise click.UsageError("--peer is one sample of another host: --watch has many")
    other = None if peer is None else _part(peer, reading.deadline)
    wanted = selectors(reading.devices)
    extent = Extent.CHILDREN if children else Extent.CGROUP if cgroup else Extent.PROCESS
    pause = 0.0 if reading.identity.recorded else interval
    worst = exits.OK
    with printing():
        try:
            for found in _answers(reading, AskedJob(pid, extent), pause, count if watch else 1):
                answer = found if other is None else _beside(found, other)
                _show(reading, answer, wanted)
                code = code_of(answer.verdict.status, fail_on, exit_zero)
                worst = max(worst, code, key=exits.MILDEST_FIRST.index)
        except KeyboardInterrupt:  # how a watch ends
            if not watch:
                raise
    return worst


@dataclass(frozen=True, slots=True)
class _Answer:
    """One judgement, and what it is of."""

    facts: "JobFacts"
    devices: "tuple[DeviceView, ...]"
    evidence: "Evidence"
    view: "JobView"
    verdict: "JobVerdict"
    causes: "tuple[Because, ...]"
    other: "SavedJob | None" = None  # its part on another host
    both: "JobPeer | None" = None


def _part(path: str, deadline: float) -> "SavedJob":
    """What was saved on the other host."""
    from rdmadiag.render.saved_run import SavedRunError, read_job

    try:
        return read_job(path, deadline)
    except SavedRunError as error:
        raise Refused(f"--peer {error}") from error


def _beside(found: _Answer, other: "SavedJob") -> _Answer:
    from rdmadiag.preflight.judge_job import judge_both
    from rdmadiag.view.job_peer import beside

    both = beside(found.facts, found.view, other.facts, other.view)
    verdict = judge_both(found.verdict, other.verdict, both, other.host.hostname)
    return replace(found, verdict=verdict, other=other, both=both)


def _answers(
    reading: Reading, asked: "AskedJob", pause: float, count: int | None
) -> Iterator[_Answer]:
    """`count` of them, or without end while the job is there."""
    host = reading.host
    if host is None:
        raise CannotTell("a report of preflight names no process")
    done = 0
    while count is None or done < count:
        deadline = reading.deadline if not done else time.monotonic() + reading.timeout
        found = _answer(reading, host, asked, deadline, pause, first=not done)
        if found is None:
            note(f"job {asked.pid} has ended")
            return
        yield found
        done += 1


def _answer(
    reading: Reading, host: "Host", asked: "AskedJob", deadline: float, pause: float, *, first: bool
) -> _Answer | None:
    """None of a job that was there, and has ended."""
    from rdmadiag.facts import Missing, Why
    from rdmadiag.preflight.judge_job import because, judge
    from rdmadiag.sources import sampling
    from rdmadiag.sources.run import gather
    from rdmadiag.view.job import job_view, sampled
    from rdmadiag.view.reconcile import devices

    facts = sampling.job(host, deadline, asked)
    if isinstance(facts, Missing):
        if facts.why is not Why.ABSENT or reading.identity.recorded:
            raise CannotTell(f"job {asked.pid}: {facts.detail or facts.why}")
        if first:
            raise Refused(f"job {asked.pid}: no such process")
        return None
    evidence = gather(host, deadline, _SOURCES)
    netdevs = sampling.netdevs(host, deadline)
    held = sampling.resources(host, max(deadline, time.monotonic() + _LEAST_SECONDS))
    wanted = sampled(facts, held)
    if not pause:
        wanted = replace(wanted, ports=())
    before = sampling.job_sample(host, deadline, wanted)
    after = None
    if pause:
        with meanwhile(lambda so_far: _waiting(so_far, pause), quiet=reading.quiet):
            time.sleep(pause)
        after = sampling.job_sample(host, time.monotonic() + reading.timeout, wanted)
    views = devices(evidence)
    view = job_view(facts, held, views, evidence, netdevs, before, after)
    causes = because(facts, view, views)
    verdict = judge(facts, view, causes)
    if reading.identity.recorded:
        verdict = replace(verdict, next=())  # they look at the host that they are run on
    return _Answer(facts, views, evidence, view, verdict, causes)


def _waiting(so_far: float, pause: float) -> str:
    return f"waiting for the second sample: {so_far:.0f} of {pause:g} s"


def _show(reading: Reading, found: _Answer, wanted: "Sequence[Selector]") -> None:
    view = found.view
    if wanted:
        from rdmadiag.view.select import NoSuchDevice, select

        try:
            chosen = select(found.devices, wanted)
        except NoSuchDevice as error:
            raise not_there(error, found.evidence) from error
        from rdmadiag.view.job import narrowed

        view = narrowed(view, {port.name for device in chosen for port in device.ports})
    if reading.form == "json":
        from rdmadiag.render.json import write

        write(
            {
                "host": reading.identity,
                "job": found.facts,
                "verdict": found.verdict,
                "because": found.causes,
                "peer": _at_peer(found),
            }
            | {name: getattr(view, name) for name in view.__dataclass_fields__}
        )
        sys.stdout.flush()
        return
    from rdmadiag.render.job import show

    show(
        found.facts,
        view,
        found.verdict,
        found.causes if found.verdict.status == "warn" else (),
        reading.identity,
        (found.other.host, found.other.verdict, found.both) if found.other and found.both else None,
        quiet=reading.quiet,
        verbose=reading.verbose,
    )


def _at_peer(found: _Answer) -> "dict[str, object] | None":
    if found.other is None:
        return None
    return {"host": found.other.host, "verdict": found.other.verdict, "both": found.both}
