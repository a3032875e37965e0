"""rdmadiag explain."""

import io
import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

import click

from rdmadiag.cli import exits
from rdmadiag.cli.budget import budget
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import Reading, reading
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.selectors import selectors

if TYPE_CHECKING:
    from rdmadiag.explain.log.account import Account
    from rdmadiag.facts.errnos import Platform

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
        ("a rule that preflight named", "rdmadiag explain link-not-up"),
    ),
)
@click.argument("what", nargs=-1, metavar="[WHAT]...")
@click.option("--log", metavar="FILE|-", help="A job's output to explain; - is standard input.")
@click.option(
    "--platform",
    type=click.Choice(("linux", "darwin")),
    help="Whose errno it is.  [default: this host's]",
)
@click.option("--stage", type=click.Choice(_STAGES), help="Where the errno was seen.")
@click.option(
    "--vendor-err",
    "vendor_error",
    metavar="N",
    callback=_number,
    help="Of a completion: 129, 0x81.",
)
@click.option(
    "--here",
    is_flag=True,
    help="The log is of this host: read it, and rank the causes by what it shows.",
)
@click.option(
    "--stack",
    "names",
    metavar="NAME[@VERSION]",
    multiple=True,
    help="With --from or --here: what this stack would pick there counts too. Can be repeated.",
)
@reading
def command(
    reading: Reading,
    what: tuple[str, ...],
    log: str | None,
    platform: "Platform | None",
    stage: str | None,
    vendor_error: int | None,
    here: bool,
    names: tuple[str, ...],
) -> int:
    """What an errno, a status, a state, a variable or a rule means; what failed in a log.

    \b
    WHAT is
      errno NUMBER|NAME     errno 110, ETIMEDOUT; --platform, --stage
      wc STATUS|NAME        wc 12, RETRY_EXC_ERR; --vendor-err
      state NUMBER|WORD     INIT, POLLING, ARMED; of a queue pair: RTR, IBV_QPS_ERR
      env NAME[=VALUE]      NCCL_IB_GID_INDEX=3
      reject NUMBER|NAME    reject 8, STALE_CONN: the status of RDMA_CM_EVENT_REJECTED
      constant NAME         IBV_EVENT_PORT_ERR, RDMA_CM_EVENT_REJECTED, IBV_MTU_4096
      CODE                  a rule, a reason against RTR, a cause's label
      a file                the same as --log FILE

    --log finds what failed first in the output of a job (NCCL, RCCL, UCX, libfabric, Open MPI,
    perftest, Mooncake, NIXL, MLX, a kernel log), with causes and what to look at next. With
    --from, --sample or --here the causes are ranked by that host's report; without, no host
    is read: a log is rarely of the host that it is looked at on.

    Of a log it exits 0 nothing of RDMA failed, 2 a failure was found, 3 a line names
    RDMA and trouble and is not understood, or the log is empty; else 0, and 64 for what it does not
    understand.
    """
    recorded = reading.identity.recorded
    if here and recorded:
        raise click.UsageError("--here excludes --from and --sample")
    stream, name = _stream(log, what, reading.deadline)
    if stream is None:
        if here or recorded:
            raise click.UsageError("--from, --sample and --here are for --log")
        return _look_up(reading.form, what, platform or _own_platform(), stage, vendor_error)
    with stream:
        account = _read(stream, name, quiet=reading.quiet)
    if here or recorded:
        with budget(reading.left) if recorded else nullcontext():
            account = _rank(account, reading, names)
    elif reading.devices:
        account = _only(account, reading)
    host = reading.identity if here or recorded else None
    with printing():
        if reading.form == "json":
            from rdmadiag.render.explain import log_document
            from rdmadiag.render.json import write

            write({"host": host, **log_document(account, name)})
        else:
            from rdmadiag.render.explain import show_log

            show_log(account, name, host, quiet=reading.quiet)
    if account.first:
        from rdmadiag.explain.log.kind import IN_WORDS

        return exits.UNKNOWN if account.first.what == IN_WORDS else exits.CRITICAL
    return exits.UNKNOWN if account.unknown or not account.bytes else exits.OK


def _own_platform() -> "Platform":
    return "darwin" if sys.platform == "darwin" else "linux"


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
        from rdmadiag.explain.log.recognise import recognise
        from rdmadiag.explain.log.vocabulary import is_candidate

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
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error


def _read(stream: Stream, name: str, *, quiet: bool) -> "Account":
    from rdmadiag.cli.progress import meanwhile
    from rdmadiag.explain.log.scan import collect
    from rdmadiag.explain.log.vocabulary import NARROW, NEEDLES
    from rdmadiag.sieve.lines import Sieve

    sieve = Sieve(NEEDLES)
    what = "standard input" if name == "-" else name

    def say(seconds: float) -> str:
        return f"reading {what}: {sieve.bytes / 1e6:.1f} MB in {seconds:.0f} s"

    typing = name == "-" and sys.stdin.isatty()  # the line would stand where they type
    try:
        with meanwhile(say, quiet=quiet or typing):
            collector = collect(sieve.segments(stream), lambda: sieve.look_for(NARROW))
    except OSError as error:
        raise Refused(f"{name}: {error.strerror}") from error
    return collector.account(sieve.lines, sieve.bytes)


def _rank(account: "Account", reading: Reading, names: tuple[str, ...]) -> "Account":
    from rdmadiag.cli.stacks import chosen_stacks
    from rdmadiag.explain.log.rank import ranked
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
