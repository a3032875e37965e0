"""A report is a model: what it dumps is what is printed, and it reads that back as it was."""

import json
import os
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from pydantic import ValidationError

import rdmadiag
from lab.machine import Machine
from lab.samples import roce_host, samples
from lab.transceivers import JUNIPER_OSFP_DR4, Fitted
from rdmadiag.preflight.judge import judge
from rdmadiag.render.json import write
from rdmadiag.render.judged import PreflightDocument
from rdmadiag.report import Report, ReportError, read_report

pytestmark = pytest.mark.usefixtures("in_this_process")

MACHINES = {name: machine for name, (machine, _) in samples().items()}
MACHINES["with a transceiver"] = roce_host().change(
    fitted={"ens1f0np0": Fitted(JUNIPER_OSFP_DR4, policy=2, mode=2)}
)
OF_1_0 = sorted((Path(__file__).parent / "schema" / "saved").glob("preflight-1.0-*.json"))


def report(machine: Machine) -> Report:
    return Report.of(host=machine.identity(), evidence=machine.evidence())


def saved(machine: Machine) -> str:
    return report(machine).model_dump_json()


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_evidence_comes_back_as_it_was(name: str) -> None:
    made = report(MACHINES[name])
    again = Report.model_validate_json(made.model_dump_json())
    assert again == made
    assert type(again.evidence) is type(made.evidence)
    assert judge(again.evidence) == judge(made.evidence)


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_what_preflight_prints_is_what_the_model_dumps_and_reads_back(name: str) -> None:
    machine = MACHINES[name]
    evidence = machine.evidence()
    parts = {"host": machine.identity(), "verdict": judge(evidence), "evidence": evidence}
    made = PreflightDocument.of(**parts)
    out = StringIO()
    write(parts, made.generated_at, out)
    assert out.getvalue() == made.model_dump_json() + "\n"
    again = PreflightDocument.model_validate_json(out.getvalue())
    assert again == made
    assert isinstance(again, Report)


@pytest.mark.parametrize("path", OF_1_0, ids=lambda path: path.stem)
def test_a_report_of_1_0_is_read_and_judged_as_it_was(path: Path) -> None:
    document = json.loads(path.read_text())
    assert document["schema_version"] == "1.0"
    verdict = rdmadiag.judge(read_report(str(path)))
    assert verdict.status == document["verdict"]["status"]
    assert [each.rule for each in verdict.findings] == [
        each["rule"] for each in document["verdict"]["findings"]
    ]


def test_a_document_says_when_to_the_second_in_utc() -> None:
    machine = MACHINES["infiniband-two-hca"]
    when = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    made = Report.of(when, host=machine.identity(), evidence=machine.evidence())
    assert json.loads(made.model_dump_json())["generated_at"] == "2026-01-02T03:04:05Z"
    text = made.model_dump_json().replace("03:04:05Z", "05:04:05.5+02:00")
    assert Report.model_validate_json(text) == made


def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    document = json.loads(saved(MACHINES["infiniband-two-hca"]))
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document | {"generated_at": "0001-01-01T00:00:00+23:00"}))
    with pytest.raises(ReportError, match="no time in UTC at generated_at"):
        read_report(str(path))
    path.write_text(json.dumps(document | {"generated_at": "2026-01-02T03:04:05"}))
    assert read_report(str(path)).generated_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_report_does_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        report(MACHINES["infiniband-two-hca"]).schema_version = "1.9"  # type: ignore[misc]


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
        pytest.param('{"schema_version": "1.0"}', "Field required at tool", id="a version alone"),
        pytest.param('{"schema_version": 1}', "valid string at schema_version", id="a number"),
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


def test_a_report_without_evidence_is_refused(tmp_path: Path) -> None:
    cut = json.loads(saved(MACHINES["infiniband-two-hca"]))
    del cut["evidence"]
    path = tmp_path / "report.json"
    path.write_text(json.dumps(cut))
    with pytest.raises(ReportError, match="Field required at evidence"):
        read_report(str(path))


@pytest.mark.parametrize("version", ["2.0", "2.0\nx", "1", "one"])
def test_a_report_of_another_major_version_is_refused(version: str, tmp_path: Path) -> None:
    newer = json.loads(saved(MACHINES["infiniband-two-hca"])) | {"schema_version": version}
    path = tmp_path / "report.json"
    path.write_text(json.dumps(newer))
    with pytest.raises(ReportError, match=r"schema version .* is not 1\.x") as caught:
        read_report(str(path))
    assert "\n" not in str(caught.value)


def test_a_report_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="No such file"):
        read_report(str(tmp_path / "none.json"))


def test_a_pipe_that_nobody_writes_to_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "report.json"
    os.mkfifo(pipe)
    with pytest.raises(ReportError, match="a pipe that nothing was written to"):
        read_report(str(pipe))
