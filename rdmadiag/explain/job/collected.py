"""All that was read of a job: its logs, its records, its hosts' reports."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rdmadiag.explain.job.hosts import KnownHost
from rdmadiag.explain.job.part import Part
from rdmadiag.explain.job.progress import Progress
from rdmadiag.explain.job.ras import OfProcess
from rdmadiag.explain.job.stamps import Stamp
from rdmadiag.explain.job.story import JobSource
from rdmadiag.explain.job.writers import Writer


@dataclass(slots=True)
class Collected:
    """All that was read."""

    parts: list[Part] = field(default_factory=list)
    hosts: Mapping[str, KnownHost] = field(default_factory=dict)
    progress: list[Progress] = field(default_factory=list)
    processes: list[OfProcess] = field(default_factory=list)  # of RAS
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)  # flight recorder
    dumped: set[int] = field(default_factory=set)  # ranks with a dump
    meetings: dict[str, list[tuple[Writer, Stamp]]] = field(default_factory=dict)
    sources: list[JobSource] = field(default_factory=list)
    unused_reports: list[str] = field(default_factory=list)
