"""Health of devices by devlink: each rule beside a healthy neighbour, one change away."""

import pytest

from lab.linked import Devlink
from lab.machine import Machine
from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.verdict import Verdict

PCI = "0000:08:00.0"
HEALTH, RESET = "device-health-error", "firmware-waits-for-reset"


def verdict(devlink: Devlink | Missing | None) -> Verdict:
    machine: Machine = roce_host().change(devlink=None if devlink is None else {PCI: devlink})
    return judge(machine.evidence())


@pytest.mark.parametrize(("name", "severity"), [("fw_fatal", "critical"), ("tx", "warn")])
def test_a_reporter_in_error_is_found(name: str, severity: str) -> None:
    (finding,) = verdict(Devlink(reporters=(("fw", 0, 0, 0), (name, 1, 2, 1)))).findings
    assert (finding.rule, finding.severity, finding.device) == (HEALTH, severity, "mlx5_0")
    assert finding.summary == f"mlx5_0: health reporter {name}, pci/{PCI}, is in error"
    assert finding.remedy[0] == f"devlink health show pci/{PCI} reporter {name}"
    assert [each.value for each in finding.evidence] == ["1: error", "2", "1"]


@pytest.mark.parametrize(
    "devlink",
    [
        Devlink(),
        Devlink(reporters=(("tx", 0, 9, 9),)),
        Devlink(reporters=()),
        Missing(Why.UNSUPPORTED, "EOPNOTSUPP"),
        None,
    ],
    ids=["healthy", "recovered", "no reporters", "a driver without devlink", "an older record"],
)
def test_what_is_healthy_or_not_known_is_no_finding(devlink: Devlink | Missing | None) -> None:
    said = verdict(devlink)
    assert said.findings == ()
    assert said.status == "ok"


def test_a_stored_firmware_that_does_not_run_is_a_note() -> None:
    stored = (("fw.version", "22.41.1000"), ("fw", "22.41.1000"))
    said = verdict(Devlink(stored=stored))
    (finding,) = said.findings
    assert (finding.rule, finding.severity) == (RESET, "info")
    assert finding.summary == "mlx5_0: fw.version 22.31.1014 runs, and 22.41.1000 waits for a reset"
    assert said.status == "ok"


@pytest.mark.parametrize(
    "stored", [(), (("fw.other", "1"),), (("board.id", "other"),)], ids=["none", "other", "board"]
)
def test_what_is_not_in_both_lists_is_not_compared(stored: tuple[tuple[str, str], ...]) -> None:
    assert verdict(Devlink(stored=stored)).findings == ()
