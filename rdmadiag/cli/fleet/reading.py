"""Reports of many hosts, read and merged in a child: others have written what is in them."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from rdmadiag.cli.exits import CannotTell, Refused
from rdmadiag.cli.options import started
from rdmadiag.facts import Missing, Why
from rdmadiag.fleet.collect import Collected
from rdmadiag.fleet.compare import Compared, compared
from rdmadiag.fleet.document import Judge, Judged, Reader
from rdmadiag.fleet.fact_table import facts_of
from rdmadiag.fleet.host_report import HostReport
from rdmadiag.fleet.matrix import judge as judge_pairs
from rdmadiag.fleet.matrix import status as status_of_pairs
from rdmadiag.fleet.merge import merge
from rdmadiag.fleet.merged import Merged
from rdmadiag.fleet.nodes import Expected
from rdmadiag.fleet.pair_document import paired
from rdmadiag.fleet.pair_results import PairResult, Tournament
from rdmadiag.fleet.streams import file_node, read_lines, read_text
from rdmadiag.preflight.verdict import worse

if TYPE_CHECKING:
    from rdmadiag.facts.evidence import Evidence

_AFTERWARDS: Final = 300.0
"""Seconds for what is thought of all that was read; --judge-again takes most of them."""


class AddedUp(NamedTuple):
    """What all that was read says."""

    merged: Merged
    tournament: Tournament | None  # of outcomes of pingpong, where there are some
    not_kept: str | None  # why it could not be added to the history


class _NotMerged(Exception):
    """What was named could not be read within the time and memory that there are."""


class _NotThere(_NotMerged):
    """There is nothing at a path."""


def read_named(
    paths: Sequence[str],
    expected: Expected | None,
    timeout: float,
    *,
    judge_again: bool,
    history: str | None,
    quiet: bool,
) -> AddedUp:
    """All that the user named; raises Refused where there is nothing at a path, and CannotTell."""
    deadline = started() + timeout

    def fill(to: Collected) -> None:
        for path in paths:
            _collect(to, path, deadline)

    judge = _judge_again if judge_again else None
    return added_up(paths[0], fill, expected, deadline, judge=judge, history=history, quiet=quiet)


def added_up(
    name: str,
    fill: Callable[[Collected], None],
    expected: Expected | None,
    deadline: float,
    *,
    judge: Judge | None = None,
    history: str | None = None,
    quiet: bool,
) -> AddedUp:
    """What `fill` collects by `deadline`; in a child, since it is what others have written.

    `name` is what the failure of that child is said of. Raises Refused and CannotTell.
    """
    from rdmadiag.cli.progress import progress
    from rdmadiag.host.given_file import understood

    def task() -> AddedUp:
        to = Collected(Reader(facts_of, judge), expected)
        fill(to)
        return _sum(to, history)

    end = deadline + _AFTERWARDS
    with nullcontext() if quiet else progress(started(), end, quiet=quiet) as waiting:
        try:
            return understood(name, task, _NotMerged, end, waiting)
        except _NotThere as error:
            raise Refused(str(error)) from error.__cause__
        except _NotMerged as error:
            raise CannotTell(str(error)) from error


def _sum(to: Collected, history: str | None) -> AddedUp:
    reports, unused = to.result()
    found = compared(reports, lambda report: _evidence(to.wholes.get(report)))
    merged = merge(reports, unused, to.expected, found)
    results = paired(to.attempts)
    tournament = None
    if results:
        tournament = judge_pairs(results)
        of_pairs = status_of_pairs(tournament)
        # Outcomes of pairs alone, of which no report was to be expected.
        alone = not merged.rows and not unused
        merged = replace(merged, status=of_pairs if alone else worse(merged.status, of_pairs))
    if history is None:
        return AddedUp(merged, tournament, None)
    if tournament and not merged.rows and not unused:
        keep = partial(_keep_pairs, history, to, tournament, results)
    else:
        keep = partial(_keep, history, reports, merged, found, results)
    return AddedUp(merged, tournament, _not_kept(keep))


def _collect(to: Collected, path: str, deadline: float) -> None:
    from rdmadiag.host.many_files import NotRead, texts

    try:
        for each in texts(path, deadline):
            if each.content is not None:
                read_text(to, each.where, each.content, each.names)
            elif each.chunks is not None:
                read_lines(to, each.where, each.chunks, each.names)
            elif each.refused is not None:
                to.unreadable(file_node(to, each.names), each.where, each.refused)
    except NotRead as error:
        raise _NotThere(str(error)) from error.__cause__


def _not_kept(keep: Callable[[], None]) -> str | None:
    """Why it could not be added to the history."""
    from rdmadiag.fleet.history import HistoryError

    try:
        keep()
    except HistoryError as error:
        return str(error)
    return None


def _keep(
    path: str,
    reports: Sequence[HostReport],
    merged: Merged,
    found: Compared,
    results: Sequence[PairResult],
) -> None:
    from rdmadiag.cli.fleet.store import add_merge
    from rdmadiag.fleet.merged import Gap
    from rdmadiag.fleet.of_merge import figures_of

    nodes = {row.node for row in merged.rows}
    # A file beside the reports, such as a README, is no node that printed none.
    unused = [each for each in merged.unused if each.gap is not Gap.FOREIGN or each.node in nodes]
    add_merge(path, reports, unused, found.odd, figures_of(results))


def _keep_pairs(
    path: str, to: Collected, tournament: Tournament, results: Sequence[PairResult]
) -> None:
    """Outcomes of pairs alone: how each node that said one stands in them."""
    from rdmadiag.cli.fleet.store import add_said
    from rdmadiag.fleet.of_merge import middle_time, said_of_pairs
    from rdmadiag.fleet.of_pairs import node_rows

    nodes = tuple(dict.fromkeys(node for node, _ in to.attempts))
    at = middle_time((str(each.get("generated_at")) for _, each in to.attempts), time.time())
    add_said(path, at, said_of_pairs(node_rows(nodes, tournament, results), results))


def _evidence(content: bytes | None) -> "Evidence | Missing":
    """Of a report as it was read."""
    from pydantic import ValidationError

    from rdmadiag.report import Report

    if content is None:
        return Missing(Why.NOT_COLLECTED, "of so many kinds of hosts not all are held")
    try:
        return Report.model_validate_json(content).evidence
    except ValidationError as error:
        return Missing(Why.MALFORMED, f"not as this version has it: {error.errors()[0]['msg']}")


def _judge_again(content: bytes) -> Judged:
    """By this version's rules; raises ValueError for what is no report."""
    from rdmadiag.preflight.judge import judge
    from rdmadiag.report import Report

    verdict = judge(Report.model_validate_json(content).evidence)
    return verdict.status, verdict.safe_to_attempt_rtr, verdict.findings
