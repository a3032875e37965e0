"""The public Python API: a report of a host, the verdict on it, and what several come to.

>>> import rdmadiag
>>> report = rdmadiag.collect(sample="infiniband-two-hca")
>>> rdmadiag.judge(report, devices=["mlx5_0:1"]).ports[0].route_gid_index
0
"""

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final

from rdmadiag.host import Host
from rdmadiag.preflight.verdict import Verdict
from rdmadiag.report import Report, read_report
from rdmadiag.view.select import Selector

if TYPE_CHECKING:
    from rdmadiag.fleet.changed import Differences
    from rdmadiag.fleet.merged import Merged
    from rdmadiag.gid.registry import Chosen
    from rdmadiag.preflight.expectations import Expectations
    from rdmadiag.view.gid_tables import PortPicks

TIMEOUT: Final = 20.0  # seconds


def collect(
    from_: str | os.PathLike[str] | None = None,
    *,
    sample: str | None = None,
    sources: Collection[str] | None = None,
    modules: bool = False,
    timeout: float = TIMEOUT,
) -> Report:
    """The report of this host, of a recorded one, or of a sample that comes with rdmadiag.

    `from_` is a snapshot's folder or .tar.gz, any folder with sys/class/infiniband in it, or the
    .json of a saved report, which is read back as it was. `sources` are names of fields of
    Evidence, all that the system has by default; with `modules` also what transceivers say of
    themselves, which is slow on some firmware. After `timeout` seconds in all, what has not
    answered stands in the report as a Missing. Nothing on the host is changed.

    Raises ValueError where both `from_` and `sample` are given, and for a sample or a source
    that there is not; SnapshotError (rdmadiag.host.tree) and ReportError (rdmadiag.report)
    for a record that cannot be used. The message is one line.
    """
    if from_ is not None and sample is not None:
        raise ValueError("from_ and sample exclude each other")
    if not 0 < timeout < inf:
        raise ValueError(f"timeout: {timeout} is no number of seconds above 0")
    deadline = time.monotonic() + timeout
    path = None if from_ is None else os.fspath(from_)
    if path is not None and path.endswith(".json"):
        return read_report(path, deadline)
    from rdmadiag.sources.run import gather, sources_of
    from rdmadiag.sources.table import Depth

    host = _host(path, sample, deadline)
    known = sources_of(host.identity.platform)
    for name in sources or ():
        if name not in known:
            raise ValueError(f"no source {name!r} of {host.identity.platform}: {', '.join(known)}")
    identity = replace(host.identity, sample=sample)
    depth = Depth(modules=modules or None)
    return Report.of(host=identity, evidence=gather(host, deadline, sources, depth))


def _host(path: str | None, sample: str | None, deadline: float) -> Host:
    if path is None and sample is None:
        from rdmadiag.host.live import LiveHost

        return LiveHost()
    from rdmadiag.host.recorded import open_record, open_snapshot

    if sample is not None:
        from rdmadiag.samples import folder

        return open_snapshot(folder(sample))
    assert path is not None
    return open_record(path, deadline)


def judge(
    report: Report,
    *,
    devices: Iterable[str] = (),
    stacks: Iterable[str] = (),
    expect: str | os.PathLike[str] | None = None,
) -> Verdict:
    """The verdict on a report: its evidence alone counts, so any saved one is judged anew.

    `devices` are DEV or DEV:PORT, all by default; `stacks` NAME or NAME@VERSION, whose choice
    of a GID is judged as well; `expect` is a file as `rdmadiag expect` writes it. Raises
    ValueError for a device, port or stack that there is not, and TomlFileError
    (rdmadiag.facts.toml_file) for a file that cannot be used.
    """
    from rdmadiag.preflight.judge import judge as judged

    selectors = [Selector.parse(text) for text in devices]
    names = tuple(stacks)
    return judged(
        report.evidence,
        selectors,
        _stacks(names) if names else (),
        None if expect is None else _expectations(os.fspath(expect)),
    )


def _stacks(names: Sequence[str]) -> "tuple[Chosen, ...]":
    from rdmadiag.gid.registry import chosen

    return chosen(names)


def _expectations(path: str) -> "Expectations":
    from rdmadiag.host.toml_file import read_toml
    from rdmadiag.preflight.expectations.written import expectations

    return expectations(read_toml(path))


def gids(
    report: Report,
    *,
    devices: Iterable[str] = (),
    stacks: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
) -> "tuple[PortPicks, ...]":
    """Each port with its GID table, the route GID and what stacks would pick, by port.

    `devices` and `stacks` as `judge` takes them; without `stacks` those that are made for the
    port. `environment` has the variables that stacks read, without it those that the report
    carries. Raises ValueError for a device, port or stack that there is not.
    """
    from rdmadiag.facts.evidence import LINUX_ONLY
    from rdmadiag.view.gid_tables import tables
    from rdmadiag.view.reconcile import devices as seen
    from rdmadiag.view.select import select
    from rdmadiag.view.stack_picks import made_for, picks, variables

    names = tuple(stacks)
    rules = _stacks(names)
    found = variables(report.evidence) if environment is None else environment
    set_here = {} if found == LINUX_ONLY else found  # no stack of a Mac reads a variable
    selectors = [Selector.parse(text) for text in devices]
    return tables(
        select(seen(report.evidence), selectors),
        lambda port: picks(port, rules if names else made_for(rules, port), set_here),
    )


def differences(before: Report, after: Report, *, same_host: bool | None = None) -> "Differences":
    """What changed from one report to another: new problems, fixed ones, other changes.

    `same_host` says whether both are of one host, where what they say of themselves is not to
    decide that. What one of them could not look at is not known, and no change.
    """
    from rdmadiag.fleet.record_diff import differences as compared
    from rdmadiag.render.judged_record import judged

    sides = [judged(each.host, each.evidence) for each in (before, after)]
    return compared(sides[0], sides[1], same=same_host)


def merge(reports: Mapping[str, Report]) -> "Merged":
    """What the reports of many hosts, by the names of the nodes, add up to.

    Which are fit, in which groups the others fall, which kinds of hosts there are, and what is
    odd within a kind. Groups are written with ClusterShell (rdmadiag[fleet]); NoClusterShell
    (rdmadiag.fleet.nodes) where it is not there.
    """
    from rdmadiag.fleet.compare import compared
    from rdmadiag.fleet.host_report import HostReport
    from rdmadiag.fleet.merge import merge as merged
    from rdmadiag.render.judged_record import judged

    made = []
    for node, report in reports.items():
        one = judged(report.host, report.evidence)
        verdict = one.verdict
        made.append(
            HostReport(
                node,
                node,
                report.generated_at.isoformat(),
                report.tool.version,
                verdict.status,
                verdict.safe_to_attempt_rtr,
                verdict.findings,
                one.side.facts,
            )
        )
    return merged(made, (), found=compared(made, lambda each: reports[each.node].evidence))
