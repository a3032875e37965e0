"""Remedies are for pasting into a shell: a name of the host's is one word there, whatever it is."""

import dataclasses
import os
import re
import subprocess
import time
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from rdmadiag.facts import Missing, present
from rdmadiag.facts.evidence import Evidence
from rdmadiag.gid.registry import chosen
from rdmadiag.host.recorded import open_snapshot
from rdmadiag.preflight.judge import judge
from rdmadiag.samples import folder, samples
from rdmadiag.sources.run import gather
from rdmadiag.view.reconcile import devices

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
RECORDED = {path.name: path for path in FIXTURES.iterdir()} | {
    name: Path(folder(name)) for name in samples()
}
HOSTILE = "a'$(>ran)`>ran`\";>ran; #"
NO_NAME = f"{HOSTILE}\n>ran\x1b"


def renamed(value: Any, names: "re.Pattern[str]", by: str) -> Any:
    """The same value, with `by` behind each of the names wherever it stands."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return names.sub(lambda found: found[0] + by, value)
    if isinstance(value, tuple | list):
        return type(value)(renamed(each, names, by) for each in value)
    if isinstance(value, dict):
        return {renamed(key, names, by): renamed(each, names, by) for key, each in value.items()}
    if isinstance(value, Enum) or not dataclasses.is_dataclass(value):
        return value
    if isinstance(value, type) or not dataclasses.fields(value):
        return value
    return dataclasses.replace(
        value,
        **{
            field.name: renamed(getattr(value, field.name), names, by)
            for field in dataclasses.fields(value)
            if field.init
        },
    )


def names_in(evidence: Evidence) -> "re.Pattern[str]":
    """Devices and netdevs of the host, and the PCI addresses behind them."""
    found = {device.name for device in devices(evidence)}
    found |= {name.removeprefix("rdma_") for name in found}
    if not isinstance(evidence.netdev, Missing):
        found |= {netdev.name for netdev in evidence.netdev.netdevs}
    if not isinstance(evidence.sysfs, Missing):
        found |= {netdev.name for netdev in evidence.sysfs.netdevs}
        found |= {each.address for each in present(evidence.sysfs.candidates)}
    if not isinstance(evidence.mac_network, Missing):
        found |= {each.name for each in present(evidence.mac_network.interfaces)}
    longest_first = sorted(found or {"\0"}, key=len, reverse=True)
    return re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest_first))})(?!\w)")


@pytest.mark.once
@pytest.mark.parametrize("name", sorted(RECORDED))
def test_no_name_of_a_recorded_machine_runs_in_a_shell(name: str, tmp_path: Path) -> None:
    """No program is found there, so that what would run is what stands in the name alone."""
    evidence = gather(open_snapshot(str(RECORDED[name])), time.monotonic() + 20)
    lines = [
        line
        for by in (HOSTILE, NO_NAME)
        for finding in judge(renamed(evidence, names_in(evidence), by), stacks=chosen(())).findings
        for line in finding.remedy
    ]
    assert all(line.isprintable() for line in lines)
    script = 'kill() { :; }; for line; do (eval "$line"); done'
    subprocess.run(
        ["/bin/sh", "-c", script, "sh", *lines],
        cwd=tmp_path,
        env={"PATH": "/nowhere"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=20,
    )
    assert os.listdir(tmp_path) == []
