"""Two records that the user names, each read as what it is."""

import time
from typing import TYPE_CHECKING

import click

from rdmadiag.cli.exits import CannotTell, Refused
from rdmadiag.cli.options import Reading, recorded, saved
from rdmadiag.facts import Identity
from rdmadiag.frozen import dataclass

if TYPE_CHECKING:
    from rdmadiag.facts.evidence import Evidence
    from rdmadiag.fleet.changed import Differences
    from rdmadiag.host.saved_sample import Saved


@dataclass(frozen=True, slots=True)
class Record:
    """One side: the facts of a host, or a sample of its counters."""

    path: str
    host: Identity
    evidence: "Evidence | None"
    counters: "Saved | None"


def read_record(path: str, deadline: float) -> Record:
    """A snapshot, a report of preflight, or a sample of counters."""
    if not path:
        raise click.UsageError("a record has an empty name")
    try:
        return _evidence(path, recorded(path, deadline))
    except Refused as error:
        sample = _sample(path, deadline)
        if sample is not None:
            return sample
        raise CannotTell(f"{error}{_of_ours(path)}") from None


def _of_ours(path: str) -> str:
    """How a sample becomes a record, where one was named as if it were a path."""
    from rdmadiag.samples import samples

    if path not in samples():
        return ""
    return (
        f"; that is a sample, and this makes a record of it: rdmadiag snapshot --sample {path} DIR"
    )


def _evidence(path: str, reading: Reading) -> Record:
    return Record(path, reading.identity, reading.evidence(), None)


def _sample(path: str, deadline: float) -> Record | None:
    if not path.endswith(".json"):
        return None
    try:
        found = saved(path, max(deadline, time.monotonic() + 1.0))
    except Refused:
        return None
    return Record(path, found.host, None, found)


def compared(before: Record, after: Record, same: bool | None) -> "Differences":
    """What changed; raises Refused for two records of different kinds."""
    if before.evidence is not None and after.evidence is not None:
        from rdmadiag.fleet.record_diff import differences
        from rdmadiag.render.judged_record import judged

        sides = (judged(each.host, each.evidence) for each in (before, after) if each.evidence)
        return differences(*sides, same=same)
    if before.counters is not None and after.counters is not None:
        return _counters(before.counters, after.counters, same)
    sample, other = (before, after) if before.counters else (after, before)
    raise Refused(
        f"{sample.path} is a sample of counters, and {other.path} is none: "
        "compare it with what `counters --json` printed"
    )


def _counters(before: "Saved", after: "Saved", same: bool | None) -> "Differences":
    from rdmadiag.cli.output import note
    from rdmadiag.facts import Missing
    from rdmadiag.fleet.changed import Sameness
    from rdmadiag.fleet.counter_diff import counter_differences
    from rdmadiag.host.saved_sample import BaselineError, require_comparable

    boots = before.sample.boot, after.sample.boot
    if not isinstance(boots[0], Missing) and boots[0] == boots[1]:
        hosts = Sameness(is_same=True, by="one boot")
    else:
        alike = before.host.hostname == after.host.hostname
        hosts = Sameness(is_same=alike, by="their names")
    if same is not None and same is not hosts.is_same:
        hosts = Sameness(same, "as was said")
    try:
        require_comparable(before.sample, before.host, after.sample, after.host)
        comparable = True
    except BaselineError as error:
        note(f"{error}; each is judged alone")
        comparable = False
    return counter_differences(before.sample, after.sample, hosts, comparable=comparable)
