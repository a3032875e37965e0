"""Many hosts in Prometheus' text format, as rdmadiag.render.prometheus has one."""

from collections.abc import Iterable
from datetime import datetime

from rdmadiag import __version__
from rdmadiag.fleet.merged import Merged
from rdmadiag.fleet.nodes import shown
from rdmadiag.render.prometheus import NUMBER_OF_STATUS, STATUS_HELP, family


def text(merged: Merged, when: datetime) -> str:
    """The file."""
    return "".join(_families(merged, when))


def _families(merged: Merged, when: datetime) -> Iterable[str]:
    yield family("build_info", "The version that wrote this.", ("version",), [((__version__,), 1)])
    yield family(
        "last_run_timestamp_seconds", "When this was written.", (), [((), when.timestamp())]
    )
    yield family(
        "fleet_status",
        f"The worst verdict: {STATUS_HELP}",
        (),
        [((), NUMBER_OF_STATUS[merged.status])],
    )
    hosts = merged.hosts
    yield family(
        "fleet_hosts",
        "Hosts that were expected, reported, and are fit.",
        ("state",),
        [(("expected",), hosts.expected), (("reported",), hosts.reported), (("fit",), hosts.fit)],
    )
    yield family(
        "fleet_host_status",
        f"The verdict on each host, 3 where there is no report: {STATUS_HELP}",
        ("node",),
        (((shown(row.node),), NUMBER_OF_STATUS[row.status or "unknown"]) for row in merged.rows),
    )
    yield family(
        "fleet_reason_hosts",
        "Hosts with each reason: a check's name, or why there is no report.",
        ("reason", "severity"),
        (((each.reason, str(each.severity)), each.count) for each in merged.groups),
    )
    yield family(
        "fleet_drift_hosts",
        "Hosts whose value of a fact is not that of most of their kind.",
        ("fact", "kind"),
        (
            ((each.fact, each.hardware_class), sum(odd.count for odd in each.odd))
            for each in merged.drift
        ),
    )
