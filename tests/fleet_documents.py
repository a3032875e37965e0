"""Documents of `preflight --json` as JSON reads them back, and reports of hosts made of them."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import rdmadiag
from rdmadiag.facts import Missing
from rdmadiag.fleet.fact_table import facts_of
from rdmadiag.fleet.host_report import HostReport
from rdmadiag.preflight.verdict import Status
from rdmadiag.render.judged import PreflightDocument


@cache
def _written(sample: str) -> str:
    report = rdmadiag.collect(sample=sample)
    verdict = rdmadiag.judge(report)
    return PreflightDocument.of(
        host=report.host, evidence=report.evidence, verdict=verdict
    ).model_dump_json()


def document(sample: str = "infiniband-two-hca") -> dict[str, Any]:
    """One of its own, to change."""
    read: dict[str, Any] = json.loads(_written(sample))
    return read


def changed(value: Any, *changes: tuple[str, Any]) -> dict[str, Any]:
    """The document with other values at places as "evidence.sysfs.devices.0.firmware"."""
    for place, new in changes:
        *steps, last = place.split(".")
        inner = value
        for step in steps:
            inner = inner[int(step)] if isinstance(inner, list) else inner[step]
        inner[int(last) if isinstance(inner, list) else last] = new
    assert isinstance(value, dict)
    return value


def host(node: str, facts: Mapping[str, str | Missing] | dict[str, Any]) -> HostReport:
    """A report of a healthy host with these facts, or with those of a document."""
    found = facts_of(facts) if "schema_version" in facts else facts
    when = "2026-11-02T06:00:00Z"
    return HostReport(node, f"{node}.json", when, "0.1.0", Status.OK, True, (), found)


def hosts(facts: Mapping[str, str | Missing], nodes: Iterable[str]) -> list[HostReport]:
    """Several that are alike."""
    return [host(node, facts) for node in nodes]
