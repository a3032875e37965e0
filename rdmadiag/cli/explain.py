"""rdmadiag explain."""

import functools
import io
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from rdmadiag.cli import exits, page
from rdmadiag.cli.budget import budget
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import Given, Reading, reading, started
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.ring import explain_ring, ring_options
from rdmadiag.cli.selectors import selectors

if TYPE_CHECKING:
    from rdmadiag.explain.log.account import Account
    from rdmadiag.explain.log.collector import Collector
    from rdmadiag.facts.errnos import Platform
    from rdmadiag.sieve.lines import Sieve

F = TypeVar("F", bound=Callable[..., Any])
Stream = io.FileIO | io.BytesIO

_STAGES: Final = (
    "connect", "open", "alloc_pd", "reg_mr", "create_cq", "create_qp",
    "init", "rtr", "rts", "data", "teardown",
)  # fmt: skip


def _number(context: click.Context, option: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else int(value, 0)
    except ValueError:
        raise click.BadParameter("a number, such as 129 or 0x81") from None


def _or_folder(function: F) -> F:
    """--from of a folder of reports, which is no record of one host, comes as `reports`."""

    @functools.wraps(function)
    def command(*args: Any, snapshot: str | None, sample: str | None, **rest: Any) -> Any:
        reports = None
        if snapshot and not snapshot.endswith(".json"):
            from rdmadiag.cli.log_paths import is_folder

            if is_folder(snapshot, started() + rest["timeout"]):
                reports, snapshot = snapshot, None
        if reports and sample:
            raise click.UsageError("--from and --sample exclude each other")
        return function(*args, snapshot=snapshot, sample=sample, reports=reports, **rest)

    return command  # type: ignore[return-value]  # functools.wraps keeps the callable


@click.command(
    "explain",
    cls=Page,
    examples=(
        ("an errno where it was seen, on this platform", "rdmadiag explain errno 110 --stage rtr"),
        ("a completion status with the vendor's error", "rdmadiag explain wc 12 --vendor-err 129"),
        (
            "what failed first in a job's output, ranked by what this host shows",
            "rdmadiag explain --log job.out --here",
        ),
        (
            "with threads of the field whose logs are like it",
            "rdmadiag explain --log job.out --similar",
        ),
        (
            "all ranks of a job as one story, with the reports of its hosts",
            "rdmadiag explain --log 'logs/*' --from reports/",
        ),
        ("a rule that preflight named", "rdmadiag explain link-not-up"),
        (
            "what happened before a job failed, of the ring that watch keeps",
            "rdmadiag explain --ring /var/lib/rdmadiag/ring --at 2026-11-23T14:02:03Z",
        ),
    ),
)
@click.argument("what", nargs=-1, metavar="[WHAT]...")
@page.option(
    "--log",
    type=Given(),
    multiple=True,
    metavar="FILE|-",
    help="A job's output to explain; - is standard input. Several, a folder or a pattern: those "
    "of one job, as one story.",
)
@page.option(
    "--job",
    is_flag=True,
    help="The log is of many ranks, as srun -l or kubectl logs --prefix prints them.",
)
@ring_options
@page.option(
    "--platform",
    type=click.Choice(("linux", "darwin")),
    help="Whose errno it is.  [default: this host's]",
)
@page.option("--stage", type=click.Choice(_STAGES), help="Where the errno was seen.")
@page.option(
    "--vendor-err",
    "vendor_error",
    metavar="N",
    callback=_number,
    help="Of a completion: 129, 0x81.",
)
@page.option(
    "--here",
    is_flag=True,
    help="The log is of this host: read it, and rank the causes by what it shows.",
)
@page.option(
    "--stack",
    "names",
    metavar="NAME[@VERSION]",
    multiple=True,
    help="With --from or --here: what this stack would pick there counts too. Can be repeated.",
)
@page.option(
    "--similar",
    is_flag=True,
    help="Known cases whose lines are like the log's, with the addresses of their threads.",
)
@_or_folder
@reading
def command(
    reading: Reading,
    what: tuple[str, ...],
    log: tuple[str, ...],
    job: bool,
    platform: "Platform | None",
    stage: str | None,
    vendor_error: int | None,
    here: bool,
    names: tuple[str, ...],
    similar: bool,
    ring: str | None,
    at: str | None,
    before: float,
    local_routes: bool,
    reports: str | None = None,
) -> int:
    """What an errno, a status, a state, a variable or a rule means; what failed in a log.

    \b
    WHAT is
      errno NUMBER|NAME     errno 110, ETIMEDOUT; --platform, --stage
      wc STATUS|NAME        wc 12, RETRY_EXC_ERR; --vendor-err
      state NUMBER|WORD     INIT, POLLING; of a queue pair: RTR, IBV_QPS_ERR
      env NAME[=VALUE]      NCCL_IB_GID_INDEX=3
      reject NUMBER|NAME    8, STALE_CONN: the status of RDMA_CM_EVENT_REJECTED
      constant NAME         IBV_EVENT_PORT_ERR, RDMA_CM_EVENT_REJECTED
      CODE                  a rule, a reason against RTR, a cause's label
      a file                the same as --log FILE

    --log finds what failed first in the output of a job (NCCL, RCCL, UCX, libfabric, Open MPI,
    perftest, Mooncake, NIXL, MLX, a kernel log), with causes and what to look at next. With
    --from, --sample or --here the causes are ranked by that host's report; without, no host
    is read: a log is rarely of the host that it is looked at on. How likely the first cause is,
    is counted on logs that nothing was tuned to; where it is less than likely, a line follows
    that separates the first causes. --similar looks in a table of the package, and nowhere else.

    --ring shows what happened before a moment, of the ring that watch writes. Exits 0, and 3 where
    something may have happened that is not in it.

    Several logs, or one with --job, are read as one story: the first failing pair, what followed,
    who is silent. Answers of ncclras, dumps of PyTorch's flight recorder and lines of NCCL
    Inspector count too. --from then takes a folder of reports, snapshots and counters.

    Logs may be packed by gzip, bzip2 or xz, or be UTF-16, as Windows writes it. What is no text
    is refused, or named where other logs are read.

    Of a log it exits 0 no line says that RDMA failed, 2 a failure was found, 3 a line names
    RDMA, or what a job stands on, and trouble and is not understood, or a line of a short text
    sounds like it (a table of words that was learned; texts of 60 lines or fewer), a test printed
    its addresses and then nothing, or the log is empty; else 0, and 64 for what it does not
    understand. Where it exits 0 and the log ends with another failure, the answer is OTHER, not
    OK, and has that line.
    """
    recorded = reading.identity.recorded
    if here and recorded:
        raise click.UsageError("--here excludes --from and --sample")
    if ring is not None or at is not None or local_routes:
        alone = not (what or log or here or recorded)
        return explain_ring(reading, ring, at, before, local_routes=local_routes, alone=alone)
    if similar and (job or reports or len(log) > 1 or _names_many(log, what)):
        raise click.UsageError("--similar is for one log")
    if job or reports or len(log) > 1 or _names_many(log, what):
        return _job(reading, (*log, *what) if log else ("-",), reports, here=here)
    try:
        stream, name = _stream(log[0] if log else None, what, reading.deadline)
    except IsADirectoryError:
        if similar:
            raise click.UsageError("--similar is for one log") from None
        return _job(reading, log, reports, here=here)
    if stream is None:
        if here or recorded:
            raise click.UsageError("--from, --sample and --here are for --log")
        if similar:
            raise click.UsageError("--similar is for --log")
        return _look_up(reading.form, what, platform or _own_platform(), stage, vendor_error)
    return _one_log(reading, stream, name, names, here=here, alike=similar)


def _one_log(
    reading: Reading,
    stream: Stream,
    name: str,
    names: tuple[str, ...],
    *,
    here: bool,
    alike: bool,
) -> int:
    recorded = reading.identity.recorded
    with stream:
        account = read_log(stream, name, quiet=reading.quiet)
    if here or recorded:
        with budget(reading.left) if recorded else nullcontext():
            account = _rank(account, reading, names)
    elif reading.devices:
        account = _only(account, reading)
    if alike:
        from dataclasses import replace

        from rdmadiag.explain.log.ranking.learned.threads import similar

        account = replace(account, similar=similar(account.said))
    host = reading.identity if here or recorded else None
    with printing():
        if reading.form == "json":
            from rdmadiag.render.json import write
            from rdmadiag.render.log_documents import log_document

            write({"host": host, **log_document(account, name)})
        else:
            from rdmadiag.render.explain import show_log

            show_log(account, name, host, quiet=reading.quiet)
    if account.first:
        from rdmadiag.explain.log.kind import UNSURE

        return exits.UNKNOWN if account.first.what in UNSURE else exits.CRITICAL
    return exits.UNKNOWN if account.unknown or not account.bytes else exits.OK


def _own_platform() -> "Platform":
    return "darwin" if sys.platform == "darwin" else "linux"


# --- a job ------------------------------------------------------------------------------


def _names_many(log: tuple[str, ...], what: tuple[str, ...]) -> bool:
    """A pattern, or what a shell has made of one."""
    from rdmadiag.cli.log_paths import is_pattern

    if log and what and all(os.sep in each or "." in each for each in what):
        return True
    return bool(log) and not what and is_pattern(log[0]) and not os.path.exists(log[0])


def _job(reading: Reading, logs: tuple[str, ...], reports: str | None, *, here: bool) -> int:
    from rdmadiag.cli.job_logs import beside, ranked, read_job, read_reports
    from rdmadiag.explain.job.place import with_place

    if here or reading.identity.recorded or reading.devices:
        raise click.UsageError(
            "of several logs --here, --sample and --device say nothing: --from takes a folder"
        )
    known = read_reports(reports, reading.deadline, quiet=reading.quiet) if reports else None
    tale = read_job(logs, known, reading.deadline, quiet=reading.quiet)
    if known:
        tale = ranked(tale, known[0], reading.deadline)
        tale = beside(tale, known[0], reading.deadline)
    findings = {each.name: each.findings for each in known[0] if each.has_evidence} if known else {}
    tale = with_place(tale, findings)
    with printing():
        if reading.form == "json":
            from rdmadiag.render.explain_job import job_document
            from rdmadiag.render.json import write

            write(job_document(tale))
        else:
            from rdmadiag.render.explain_job import show_job

            show_job(tale, quiet=reading.quiet)
    if tale.has_failed or tale.is_proven:
        return exits.CRITICAL
    unsure = tale.first or tale.not_understood or tale.is_stuck or tale.silent
    nothing = not any(each.bytes for each in tale.sources)
    return exits.UNKNOWN if unsure or nothing or tale.unread else exits.OK


# --- which log ---------------------------------------------------------------------------


def _stream(log: str | None, what: tuple[str, ...], deadline: float) -> tuple[Stream | None, str]:
    """The log that is meant, and its name; None where it is a word to look up."""
    if log is not None:
        if what:
            raise click.UsageError("either --log or something to look up")
        return _open(log, deadline)
    if not what:
        if sys.stdin is not None and not sys.stdin.isatty():
            return _open("-", deadline)
        raise click.UsageError("explain what? A word, or --log FILE")
    if len(what) == 1 and what[0] == "-":
        return _open("-", deadline)
    if len(what) == 1 and _is_file(what[0], deadline):
        return _open(what[0], deadline)
    line = " ".join(what).encode("utf-8", "surrogateescape")
    if len(line.split()) > _WORDS:  # a line of a log, pasted?
        from rdmadiag.explain.log.recognition.recognise import recognise
        from rdmadiag.explain.log.recognition.vocabulary import is_candidate

        if is_candidate(line) and recognise(line):
            return io.BytesIO(line), "the line"
    return None, ""


_WORDS: Final = 4


def _is_file(path: str, deadline: float) -> bool:
    from rdmadiag.host.given_file import understood

    return understood(path, lambda: os.path.isfile(path), Refused, deadline)


def _open(path: str, deadline: float) -> tuple[Stream, str]:
    if path == "-":
        if sys.stdin is None:
            raise Refused("there is no standard input")
        if sys.stdin.isatty():
            click.echo(
                "rdmadiag: paste the log here; Ctrl-D on a line of its own ends it", err=True
            )
        return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False), "-"
    from rdmadiag.host.given_file import begin, open_log, understood

    def readable() -> None:
        try:
            begin(path)
        except OSError as error:
            raise Refused(f"{path}: {error.strerror}") from error

    understood(path, readable, Refused, deadline)
    try:
        return open_log(path, deadline), path
    except IsADirectoryError:
        raise
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error


def read_log(stream: Stream, name: str, *, quiet: bool) -> "Account":
    """What its lines come to; raises Refused where it cannot be read."""
    from rdmadiag.cli.progress import meanwhile
    from rdmadiag.cli.text_stream import as_text, reason
    from rdmadiag.explain.log.recognition.vocabulary import NARROW, NEEDLES
    from rdmadiag.explain.log.scan import collect
    from rdmadiag.explain.log.text.beside_candidates import read_rest
    from rdmadiag.sieve.lines import Sieve

    sieve = Sieve(NEEDLES)
    what = "standard input" if name == "-" else name

    def say(seconds: float) -> str:
        return f"reading {what}: {sieve.bytes / 1e6:.1f} MB in {seconds:.0f} s"

    typing = name == "-" and sys.stdin.isatty()  # the line would stand where they type
    try:
        with meanwhile(say, quiet=quiet or typing):
            text = as_text(stream)
            collector = collect(sieve.segments(text), lambda: sieve.look_for(NARROW))
    except OSError as error:
        raise Refused(f"{name}: {reason(error, name)}") from error
    if text.damage:
        if not collector.says_trouble:  # what failed may stand behind it
            raise Refused(f"{name}: {text.damage}")
        click.echo(f"rdmadiag: {name}: {text.damage}: this is what stands before", err=True)
    collector = put_together(sieve, collector)
    read_rest(collector, sieve)
    account = collector.account(sieve.lines, sieve.bytes)
    return _by_hosts(account, sieve.paste) if sieve.paste else account


def _by_hosts(account: "Account", text: bytes) -> "Account":
    """Of several hosts, by their labels: each is read alone, where all together say of nothing, or
    of what a listing shows.
    """
    from rdmadiag.explain.log.line.launchers import by_host
    from rdmadiag.explain.log.text.of_hosts import is_of_one_text, put_side_by_side

    if is_of_one_text(account):
        return account
    each = {host: (lines, _alone(lines)) for host, lines in by_host(text).items()}
    return put_side_by_side(account, each)


def _alone(text: bytes) -> "Account":
    from rdmadiag.explain.log.recognition.vocabulary import NEEDLES
    from rdmadiag.explain.log.scan import collect
    from rdmadiag.explain.log.text.beside_candidates import read_rest
    from rdmadiag.sieve.lines import Sieve

    sieve = Sieve(NEEDLES)
    collector = collect(sieve.segments(io.BytesIO(text)))
    read_rest(collector, sieve)
    return collector.account(sieve.lines, sieve.bytes)


def put_together(sieve: "Sieve", collector: "Collector") -> "Collector":
    """What the sieve has read, read again where it was short and wrapped."""
    from rdmadiag.explain.log.recognition.vocabulary import NEEDLES
    from rdmadiag.explain.log.scan import collect
    from rdmadiag.explain.log.text.wrapped import unwrapped
    from rdmadiag.sieve.lines import WHOLE

    text = sieve.whole or b""
    whole = unwrapped(text)
    if whole == text or len(whole) > WHOLE:
        return collector
    sieve.look_for(NEEDLES)  # all of them again
    return collect(sieve.segments(io.BytesIO(whole)))


def _rank(account: "Account", reading: Reading, names: tuple[str, ...]) -> "Account":
    from rdmadiag.cli.stacks import chosen_stacks
    from rdmadiag.explain.log.ranking.by_report import ranked
    from rdmadiag.preflight.judge import judge
    from rdmadiag.view.reconcile import devices
    from rdmadiag.view.select import NoSuchDevice, select

    wanted = selectors(reading.devices)
    evidence = reading.evidence()
    try:
        verdict = judge(evidence, wanted, chosen_stacks(names) if names else ())
        chosen = select(devices(evidence), wanted)
    except NoSuchDevice as error:
        raise Refused(str(error)) from error
    account = ranked(account, verdict.findings, chosen, reading.identity.platform)
    return _only(account, reading) if reading.devices else account


def _only(account: "Account", reading: Reading) -> "Account":
    """Of the devices that were asked for, and of lines that name none."""
    from dataclasses import replace

    wanted = selectors(reading.devices)

    def is_wanted(device: str | None, port: int | None) -> bool:
        return device is None or any(
            each.device == device and (each.port == port or None in (each.port, port))
            for each in wanted
        )

    return replace(
        account,
        failures=tuple(f for f in account.failures if is_wanted(f.device, f.port)),
        consequences=tuple(f for f in account.consequences if is_wanted(f.device, f.port)),
    )


# --- words -------------------------------------------------------------------------------


def _look_up(
    form: str | None,
    what: tuple[str, ...],
    platform: "Platform",
    stage: str | None,
    vendor_error: int | None,
) -> int:
    from rdmadiag.explain.lookup import NotUnderstood, lookup

    try:
        answers = lookup(what, platform, stage, vendor_error)
    except NotUnderstood as error:
        raise Refused(str(error)) from error
    with printing():
        if form == "json":
            from rdmadiag.render.json import write

            write({"asked": " ".join(what), "answers": answers})
        else:
            from rdmadiag.render.explain import show_answers

            show_answers(answers)
    return exits.OK
