"""rdmadiag fleet pairs."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

import click

from rdmadiag.cli import page
from rdmadiag.cli.exits import NOT_WRITTEN, CannotTell, Refused
from rdmadiag.cli.fleet.merge import check_files, write_nodes
from rdmadiag.cli.fleet.options import (
    file_options,
    node_options,
    output_option,
    program_options,
    talk_options,
)
from rdmadiag.cli.fleet.reaching import (
    CONNECTING,
    DEADLINE_MAX,
    SLACK,
    check_words,
    chosen_nodes,
    how_reached,
    of_stderr,
    refused,
    waiting_for_nodes,
    way_to,
)
from rdmadiag.cli.options import Given, Seconds, Whole, format_option, json_option, started
from rdmadiag.cli.output import note, printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.precedence import form_wanted
from rdmadiag.cli.verdicts import code_of, exit_zero_option, fail_on_option
from rdmadiag.facts import Missing
from rdmadiag.preflight.x_rdma import RtrUnsafe, require_rtr_attempt_allowed
from rdmadiag.quoting import printable
from rdmadiag.verbs.protocol import BANDWIDTH_SECONDS_MAX

if TYPE_CHECKING:
    from rdmadiag.fleet.copy import Copy
    from rdmadiag.fleet.launch import Launch
    from rdmadiag.fleet.merged import NodeRow
    from rdmadiag.fleet.node_answer import NodeAnswer
    from rdmadiag.fleet.pair_job import Job
    from rdmadiag.fleet.pair_results import Tournament
    from rdmadiag.fleet.rounds import Round
    from rdmadiag.fleet.tournament import Standing

T = TypeVar("T")

ROUNDS: Final = 3
RETESTS: Final = 8
WAIT: Final = 30.0
ATTEMPT: Final = 15.0
COPYING: Final = 20.0
_FILE_LIMIT: Final = 16 << 20
_FILE_SECONDS: Final = 10.0
_MEASURED: Final = 1 << 16  # bytes of each message where the bandwidth is asked for
_RETESTED: Final = 3  # rounds of a retest, as they are counted for the deadline of the whole


class Rounds(click.IntRange):
    """A number, or all."""

    name = "rounds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """0 for all."""
        if value == "all":
            return 0
        number: int = super().convert(value, param, ctx)
        return number


@click.command(
    "pairs",
    cls=Page,
    examples=(
        ("three rounds of pairs", "rdmadiag fleet pairs -w node[001-064] --allow-rtr"),
        ("within a job, bandwidth for two seconds, too",
         "rdmadiag fleet pairs --allow-rtr --bandwidth 2"),
        ("two rails, and every two nodes meet",
         "rdmadiag fleet pairs -a --rounds all --device ib0 --device ib1 --allow-rtr"),
        ("where no rdmadiag is installed",
         "rdmadiag fleet pairs -w n[1-8] --allow-rtr --copy"),
        ("a page with the heat map",
         "rdmadiag fleet pairs -w n[1-8] --allow-rtr --html pairs.html"),
    ),
)  # fmt: skip
@node_options
@page.option(
    "--allow-rtr", is_flag=True, allow_from_autoenv=False,
    help="Attempt it: on each node once a round, INIT → RTR → RTS.",
)  # fmt: skip
@page.option(
    "--rounds", type=Rounds(1, 100_000), default=str(ROUNDS), show_default=True, metavar="K|all",
    help="Of each rail; each node meets so many others. All: every two nodes meet.",
)  # fmt: skip
@page.option(
    "--device", "devices", multiple=True, metavar="DEV[:PORT]",
    help="Of each node; repeated, one for each rail.  [default: one rail, of the port that "
    "preflight ranks first]",
)  # fmt: skip
@page.option(
    "--across", type=Whole(0, 10_000), default=0, show_default=True, metavar="N",
    help="Rounds from one rail to another, after those.",
)  # fmt: skip
@page.option(
    "--topology", type=Given(), metavar="FILE",
    help="Leaf switches: Slurm's topology.conf, or lines of LEAF: NODES. Adds rounds from leaf "
    "to leaf.",
)  # fmt: skip
@page.option(
    "--seed", type=Whole(0, (1 << 63) - 1), default=0, show_default=True, metavar="N",
    help="Who meets whom: the same pairs for the same nodes and seed.",
)  # fmt: skip
@page.option(
    "--retests", type=Whole(0, 100), default=RETESTS, show_default=True, metavar="N",
    help="How often at most suspects are tried again, with partners that passed.",
)  # fmt: skip
@page.option(
    "--suffix", default="", show_default=False, metavar="TEXT",
    help="Peers reach a node at its name and this: -ib, .mgmt.example.",
)  # fmt: skip
@page.option(
    "--addresses", type=Given(), metavar="FILE",
    help="Lines of NODE ADDRESS[:PORT] [DEVICE...]: where peers reach it, its devices by rail.",
)  # fmt: skip
@page.option(
    "--bytes", "payload", type=Whole(1, 1 << 20), metavar="N",
    help=f"Of each message.  [default: 64; with --bandwidth {_MEASURED}]",
)  # fmt: skip
@page.option(
    "--iterations", type=Whole(1, 10_000), default=100, show_default=True, metavar="N",
    help="Round trips that are timed.",
)  # fmt: skip
@page.option(
    "--bandwidth", type=Seconds(0, BANDWIDTH_SECONDS_MAX), default=0.0, show_default="not measured",
    metavar="SECONDS", help="Also WRITEs as fast as they go, for so long, of each pair.",
)  # fmt: skip
@page.option(
    "--expect-latency", type=click.FloatRange(0, min_open=True), metavar="US",
    help="Half a round trip of a fleet in order, in µs: is the whole of it slow?",
)  # fmt: skip
@page.option(
    "--expect-bandwidth", type=click.FloatRange(0, min_open=True), metavar="GBPS",
    help="The same in Gb/s, with --bandwidth.",
)  # fmt: skip
@page.option(
    "--busy", is_flag=True,
    help="Also ports that programs have queue pairs on; those are left alone without it.",
)  # fmt: skip
@page.option(
    "--accept-risk", metavar="CODE", multiple=True, allow_from_autoenv=False,
    help="Attempt it in spite of this reason of a node's preflight. Can be repeated.",
)  # fmt: skip
@program_options
@page.option(
    "--wait", type=Seconds(1, 3600), default=WAIT, show_default=True, metavar="SECONDS",
    help="For its partner, at each node: what starting takes longer on one than on another.",
)  # fmt: skip
@page.option(
    "--attempt-deadline", type=Seconds(1, 60), metavar="SECONDS",
    help=f"Of each attempt, preflight and all.  [default: {ATTEMPT:g}, and --bandwidth]",
)  # fmt: skip
@page.option(
    "--host-deadline", type=Seconds(1, DEADLINE_MAX), metavar="SECONDS",
    help="For each node in each round, from its start.  [default: --wait, --attempt-deadline "
    f"and {CONNECTING:g}; with --copy {COPYING:g} more]",
)  # fmt: skip
@page.option(
    "--deadline", type=Seconds(1, DEADLINE_MAX), metavar="SECONDS",
    help="For everything: no round begins that could not end by then.  [default: what all "
    "rounds take if all nodes take their time]",
)  # fmt: skip
@file_options
@page.option(
    "--history", type=Given(), metavar="FILE",
    help="Add how each node stands and what its pairs measured to a history, for `fleet history`: "
    "one of its own, beside that of merges.",
)  # fmt: skip
@fail_on_option
@exit_zero_option
@format_option()
@json_option
@output_option
@talk_options
def command(
    nodes: tuple[str, ...],
    everything: bool,
    exclude: tuple[str, ...],
    via: str | None,
    ssh_options: str,
    fanout: int,
    allow_rtr: bool,
    rounds: int,
    devices: tuple[str, ...],
    across: int,
    topology: str | None,
    seed: int,
    retests: int,
    suffix: str,
    addresses: str | None,
    payload: int | None,
    iterations: int,
    bandwidth: float,
    expect_latency: float | None,
    expect_bandwidth: float | None,
    busy: bool,
    accept_risk: tuple[str, ...],
    copy: bool,
    wheels: str | None,
    python: str,
    program: str,
    wait: float,
    attempt_deadline: float | None,
    host_deadline: float | None,
    deadline: float | None,
    passed: str | None,
    failed: str | None,
    html: str | None,
    history: str | None,
    fail_on: str,
    exit_zero: bool,
    format: str,  # noqa: A002  # so that its variable is RDMADIAG_FLEET_PAIRS_FORMAT
    as_json: bool,
    output: str | None,
    quiet: bool,
    verbose: bool,
) -> int:
    """Which node, adapter, path or boundary is the odd one: rounds of disjoint pairs.

    Each node does a pingpong with another one in each round, once, and refuses where its own
    preflight forbids it. A port where RTR failed, or a node that did not report, takes no part
    in later rounds; suspects are tried again with partners that passed. Nothing is drained or
    cordoned. Refuses without --allow-rtr.

    Exits with the worst verdict: 0 none is odd, 1 one is slow, 2 one fails, 3 unknown (also: a
    node that never reported, or was left alone).
    """
    from rdmadiag.cli.meeting import accepted
    from rdmadiag.cli.selectors import selectors
    from rdmadiag.fleet.launch import CannotLaunch, Launch, Stopped, at_once
    from rdmadiag.fleet.matrix import Expected
    from rdmadiag.fleet.nodes import NoClusterShell, NotNodes
    from rdmadiag.fleet.of_pairs import node_rows
    from rdmadiag.fleet.pair_job import Job
    from rdmadiag.fleet.rounds import plan
    from rdmadiag.fleet.tournament import Seating, Standing
    from rdmadiag.fleet.ways import Srun
    from rdmadiag.verbs.secret import made

    try:
        require_rtr_attempt_allowed(allow_rtr)
    except RtrUnsafe as error:
        raise CannotTell(str(error)) from error
    form = form_wanted(format, as_json=as_json)
    targets = {"--output": output, "--passed": passed, "--failed": failed, "--html": html}
    check_files(targets)
    selectors(devices)
    codes = sorted(str(each) for each in accepted(accept_risk))
    if expect_bandwidth and not bandwidth:
        raise click.UsageError("--expect-bandwidth: with --bandwidth, which measures it")
    attempt = attempt_deadline or ATTEMPT + bandwidth
    each_host = host_deadline or wait + attempt + CONNECTING + COPYING * copy
    if each_host < wait + attempt:
        raise click.UsageError("--host-deadline: less than --wait and --attempt-deadline")
    size = payload or (_MEASURED if bandwidth else 64)
    leaves = _leaves(topology)
    seating = Seating(_addresses(addresses), suffix, devices)
    if across and seating.rails < 2:
        raise click.UsageError(
            "--across: of two rails: --device twice, or --addresses with devices"
        )
    with refused(NotNodes, NoClusterShell, CannotLaunch):
        chosen = chosen_nodes(nodes, exclude, everything=everything)
        if len(chosen) < 2:
            raise click.UsageError("a pair needs two nodes")
        way = way_to(via, ssh_options, chosen)
        risks = [word for code in codes for word in ("--accept-risk", code)]
        words = ("pingpong", "--allow-rtr", "--json", *risks, "--job=")
        argv = words if copy else (program, *words)
        check_words(way, argv)
        planned = tuple(
            plan(
                chosen,
                seed,
                rails=seating.rails,
                rounds=rounds or None,
                across=across,
                leaves=leaves,
            )
        )
        together = len(chosen) if isinstance(way, Srun) else at_once(fanout)
        turns = -(-len(chosen) // max(2, together))
        every = (len(planned) + _RETESTED * retests + copy) * turns
        whole = deadline or min(DEADLINE_MAX, every * each_host + SLACK)
        job = Job(made(), (), size, iterations, bandwidth, wait, attempt, busy)
        launch = Launch(chosen, argv, way, fanout, each_host, whole, named=True)
        if not quiet:
            note(_said(launch, len(planned), copy=copy))
        played = _Played(
            Standing(seating), job, launch, together, started() + whole, quiet, verbose
        )
        try:
            if copy:
                played.send(python, wheels)
            played.all(planned, retests, leaves)
        except Stopped as stopped:
            note("stopped; all that was started here has been ended")
            return 128 + stopped.number
    found = played.standing.judged(
        leaves, Expected(expect_latency, expect_bandwidth), played.unplayed
    )
    rows = node_rows(chosen, found, played.standing.results)
    not_kept = _not_kept(history, rows, played.standing) if history else None
    code = _write(found, rows, targets, form, fail_on, exit_zero, quiet=quiet, verbose=verbose)
    if not_kept:
        note(f"--history {not_kept}")
        return NOT_WRITTEN
    return code


@dataclass(slots=True)
class _Played:
    """The rounds as they are played: a launch for each, or more where not all fit into one."""

    standing: "Standing"
    job: "Job"  # without pairs
    launch: "Launch"  # of all nodes
    together: int  # nodes that may run at once
    until: float  # no round begins that could not end by then
    quiet: bool
    verbose: bool
    copied: "Copy | None" = None
    unplayed: int = 0
    said: set[str] = field(default_factory=set)

    def send(self, python: str, wheels: str | None) -> None:
        """What runs there comes along in each launch; nodes that cannot run it are left out.

        Raises what `all` raises.
        """
        from rdmadiag.cli.fleet.wheels import wheels_of
        from rdmadiag.fleet.copy import copy_for_all

        nodes = self.launch.nodes
        what = replace(self.launch, deadline=self.until - time.monotonic())
        during = " for its Python"
        with waiting_for_nodes(len(nodes), self.until, during=during, quiet=self.quiet) as seen:
            held = wheels_of(wheels, self.until)
            self.copied, without = copy_for_all(what, python, held, seen)
        for node, answer in without.items():
            self.standing.leave_out(node, printable(answer.why or ""))

    def all(self, planned: "tuple[Round, ...]", retests: int, leaves: Mapping[str, str]) -> None:
        """Raises Stopped, CannotLaunch and NoClusterShell."""
        last = len(planned)
        if not self._rounds(planned):
            return
        for _ in range(retests):
            more = self.standing.again(last + 1, leaves)
            if not more or not self._rounds(more):
                return
            last = more[-1].number

    def _rounds(self, rounds: "tuple[Round, ...]") -> bool:
        """Whether all of them could be played; what was found before is kept."""
        from rdmadiag.fleet.launch import CannotLaunch
        from rdmadiag.fleet.tournament import waves

        for index, each in enumerate(rounds):
            for pairs in waves(self.standing.pairs(each), self.together):
                if time.monotonic() + self.launch.host_deadline > self.until:
                    self.unplayed += len(rounds) - index
                    return False
                try:
                    answers = self._start(each, replace(self.job, pairs=pairs))
                except CannotLaunch as error:
                    if not self.standing.results:
                        raise
                    note(str(error))
                    self.unplayed += len(rounds) - index
                    return False
                for pair in pairs:
                    self.standing.take(each, pair, answers)
        return True

    def _start(self, each: "Round", job: "Job") -> "Mapping[str, NodeAnswer]":
        from rdmadiag.fleet.launch import CannotLaunch, launch

        nodes = tuple(node for pair in job.pairs for node in (pair.sender, pair.receiver))
        left = self.until - time.monotonic()
        what = replace(self.launch, nodes=nodes, fed=job.line(), deadline=left)
        during = f" in round {each.number}"
        with waiting_for_nodes(len(nodes), self.until, during=during, quiet=self.quiet) as seen:
            answers = self.copied.launch(what, seen) if self.copied else launch(what, seen)
        if self._job_has_ended(answers):  # which says nothing of the nodes it was on
            raise CannotLaunch(f"the Slurm job ended in round {each.number}")
        if self.verbose:
            for line in of_stderr(answers):
                if line not in self.said:
                    note(line)
            self.said.update(of_stderr(answers))
        return answers

    def _job_has_ended(self, answers: "Mapping[str, NodeAnswer]") -> bool:
        from rdmadiag.fleet.launch import nodes_of_job
        from rdmadiag.fleet.node_answer import Ending
        from rdmadiag.fleet.ways import Srun

        if not isinstance(self.launch.way, Srun):
            return False
        killed = {Ending.UNREACHABLE, Ending.KILLED}
        if not any(each.ending in killed for each in answers.values()):
            return False
        return nodes_of_job() == frozenset()


def _said(what: "Launch", rounds: int, *, copy: bool) -> str:
    """How it is done."""
    sent = ", with a copy of rdmadiag" if copy else ""
    how = how_reached(what.way, len(what.nodes), what.fanout)
    number = f"{rounds} round{'s' if rounds > 1 else ''}"
    return (
        f"{number}, in each {how}{sent}; at most {what.host_deadline:g} s each and "
        f"{what.deadline:g} s in all; one RTR a round on each port, nothing is drained or cordoned"
    )


def _addresses(path: str | None) -> Mapping[str, tuple[str, ...]]:
    from rdmadiag.cli.addresses import host_and_port
    from rdmadiag.cli.meeting import TCP_PORT
    from rdmadiag.cli.selectors import selectors
    from rdmadiag.fleet.pair_job import parse_addresses

    if path is None:
        return {}
    found = _read(path, "--addresses", parse_addresses)
    for address, *devices in found.values():
        host_and_port(address, TCP_PORT)
        selectors(devices)
    return found


def _leaves(path: str | None) -> Mapping[str, str]:
    from rdmadiag.fleet.leaves import parse_topology

    return {} if path is None else _read(path, "--topology", parse_topology)


def _read(path: str, option: str, parse: Callable[[bytes], T | Missing]) -> T:
    """What is in a file of the user's; raises Refused."""
    from rdmadiag.host.given_file import read_given, understood

    deadline = started() + _FILE_SECONDS

    def read() -> T:
        try:
            content = read_given(path, _FILE_LIMIT, deadline)
        except OSError as error:
            raise Refused(f"{option} {path}: {error.strerror}") from error
        if len(content) > _FILE_LIMIT:
            raise Refused(f"{option} {path}: more than {_FILE_LIMIT} bytes")
        found = parse(content)
        if isinstance(found, Missing):
            raise Refused(f"{option} {path}: {found.detail}")
        return found

    return understood(path, read, Refused, deadline)


def _write(
    found: "Tournament",
    rows: "tuple[NodeRow, ...]",
    files: Mapping[str, str | None],
    form: str,
    fail_on: str,
    exit_zero: bool,
    *,
    quiet: bool,
    verbose: bool,
) -> int:
    """All that was asked for; the exit code."""
    from rdmadiag.cli.output_file import write_output
    from rdmadiag.fleet.matrix import status
    from rdmadiag.fleet.of_pairs import passed as passed_of

    when = datetime.now(UTC)
    good = set(passed_of(rows))
    nodes = [row.node for row in rows]
    for option, names in (
        ("--passed", [each for each in nodes if each in good]),
        ("--failed", [each for each in nodes if each not in good]),
    ):
        if path := files[option]:
            write_nodes(path, names, option)
    if html := files["--html"]:
        write_output(html, _page(found, rows, when), option="--html")
    if output := files["--output"]:
        from io import StringIO

        whole = StringIO()
        _to(whole, found, form, when, quiet=quiet, verbose=verbose)
        write_output(output, whole.getvalue())
    else:
        with printing():
            _to(None, found, form, when, quiet=quiet, verbose=verbose)
    return code_of(status(found), fail_on, exit_zero)


def _not_kept(path: str, rows: "tuple[NodeRow, ...]", standing: "Standing") -> str | None:
    """Adds it to a history; why that could not be done."""
    from rdmadiag.cli.fleet.store import WAIT as FOR_OTHERS
    from rdmadiag.cli.fleet.store import add_said
    from rdmadiag.fleet.history import HistoryError
    from rdmadiag.fleet.of_merge import said_of_pairs
    from rdmadiag.host.given_file import understood

    said = said_of_pairs(rows, standing.results)
    deadline = time.monotonic() + FOR_OTHERS + _FILE_SECONDS
    try:
        understood(path, lambda: add_said(path, int(time.time()), said), HistoryError, deadline)
    except HistoryError as error:
        return str(error)
    return None


def _page(found: "Tournament", rows: "tuple[NodeRow, ...]", when: datetime) -> str:
    from rdmadiag.fleet.of_pairs import merged_of
    from rdmadiag.render.fleet_page import page

    return page(merged_of(found, rows), found, when)


def _to(
    out: IO[str] | None,
    found: "Tournament",
    form: str,
    when: datetime,
    *,
    quiet: bool,
    verbose: bool,
) -> None:
    """`out` is None for stdout."""
    if form == "json":
        from rdmadiag.render.fleet_pairs import document
        from rdmadiag.render.json import write as write_json

        write_json(document(found), when, out)
        return
    from rdmadiag.render.console import console
    from rdmadiag.render.fleet_pairs import show

    show(found, console(out), quiet=quiet, verbose=verbose)
