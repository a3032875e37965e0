"""A saved report is the evidence, and the verdict on it is the same."""

import json
import os
from pathlib import Path

import pytest

from lab.machine import Machine
from lab.samples import samples
from rdmadiag.preflight.judge import judge
from rdmadiag.render.json import document
from rdmadiag.report import Report, ReportError, read_report

MACHINES = {name: machine for name, (machine, _) in samples().items()}


def saved(machine: Machine) -> str:
    return json.dumps(document({"host": machine.identity(), "evidence": machine.evidence()}))


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_evidence_comes_back_as_it_was(name: str) -> None:
    machine = MACHINES[name]
    report = Report.model_validate_json(saved(machine))
    assert report.host == machine.identity()
    assert report.evidence == machine.evidence()
    assert judge(report.evidence) == judge(machine.evidence())


def test_unknown_fields_of_a_newer_version_are_passed_over(tmp_path: Path) -> None:
    machine = MACHINES["infiniband-two-hca"]
    newer = json.loads(saved(machine))
    newer["schema_version"] = "1.7"
    newer["news"] = newer["evidence"]["sysfs"]["news"] = {"a": 1}
    path = tmp_path / "report.json"
    path.write_text(json.dumps(newer))
    assert read_report(str(path)).evidence == machine.evidence()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("", "not a report", id="an empty file"),
        pytest.param("[1]", "not a report", id="another document"),
        pytest.param('{"schema_version": "1.0"}', "Field required at host", id="no evidence"),
        pytest.param("\0\1", "not a report", id="binary"),
    ],
)
def test_what_is_no_report_is_refused_in_one_line(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(content)
    with pytest.raises(ReportError) as caught:
        read_report(str(path))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_report_of_another_major_version_is_refused(tmp_path: Path) -> None:
    newer = json.loads(saved(MACHINES["infiniband-two-hca"])) | {"schema_version": "2.0"}
    path = tmp_path / "report.json"
    path.write_text(json.dumps(newer))
    with pytest.raises(ReportError, match=r"2\.0 is not 1\.x"):
        read_report(str(path))


def test_a_report_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="No such file"):
        read_report(str(tmp_path / "none.json"))


def test_a_pipe_that_nobody_writes_to_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "report.json"
    os.mkfifo(pipe)
    with pytest.raises(ReportError, match="a pipe that nothing was written to"):
        read_report(str(pipe))
