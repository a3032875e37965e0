"""The public Python API: one call for a report, one for the verdict; lazy, and documented."""

import doctest
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import rdmadiag
from rdmadiag import api, report
from rdmadiag.cli import run
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.toml_file import TomlFileError
from rdmadiag.host.tree import SnapshotError
from rdmadiag.samples import samples
from tests.schema.documents import problems

ROOT = Path(__file__).parents[1]
FIXTURES = sorted((Path(__file__).parent / "fixtures").iterdir())


def printed(capfd: pytest.CaptureFixture[str], *argv: str) -> str:
    capfd.readouterr()
    run(argv)
    return capfd.readouterr().out


@pytest.mark.parametrize("name", samples())
def test_a_sample_is_collected_and_judged_as_the_command_does_it(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    made = rdmadiag.collect(sample=name)
    verdict = rdmadiag.judge(made)
    document = json.loads(printed(capfd, "preflight", "--json", "--sample", name))
    own = json.loads(made.model_dump_json())
    assert own == {each: document[each] for each in own} | {"generated_at": own["generated_at"]}
    assert verdict.status == document["verdict"]["status"]
    assert [each.rule for each in verdict.findings] == [
        each["rule"] for each in document["verdict"]["findings"]
    ]
    assert problems("report", own) == []


def test_a_recorded_host_is_collected_by_its_path() -> None:
    for path in (FIXTURES[0], str(FIXTURES[0])):
        assert rdmadiag.collect(path).host.recorded


def test_a_saved_report_is_read_back_by_the_same_class(tmp_path: Path) -> None:
    made = rdmadiag.collect(sample="roce-healthy")
    path = tmp_path / "report.json"
    path.write_text(made.model_dump_json())
    again = rdmadiag.collect(path)
    assert type(again) is type(made) is rdmadiag.Report
    assert again == made
    assert isinstance(rdmadiag.judge(again), rdmadiag.Verdict)


def test_what_preflight_prints_is_read_back_as_a_report(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    path.write_text(printed(capfd, "preflight", "--json", "--sample", "mac-wedged"))
    again = rdmadiag.collect(path)
    assert again.evidence == rdmadiag.collect(sample="mac-wedged").evidence


def test_this_host_is_collected() -> None:
    made = rdmadiag.collect(sources=["process"], timeout=10)
    assert not made.host.recorded
    assert abs(made.generated_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert not isinstance(made.evidence.process, Missing)
    assert isinstance(made.evidence.sysfs, Missing)
    assert made.evidence.sysfs.why is Why.NOT_COLLECTED


def test_a_verdict_is_on_the_ports_asked_for() -> None:
    made = rdmadiag.collect(sample="infiniband-two-hca")
    verdict = rdmadiag.judge(made, devices=["mlx5_0:1"])
    assert [(each.device, each.port) for each in verdict.ports] == [("mlx5_0", 1)]


def test_stacks_and_expectations_are_judged_too(tmp_path: Path) -> None:
    made = rdmadiag.collect(sample="roce-healthy")
    wish = tmp_path / "expect.toml"
    wish.write_text("[host]\ndevices = 9\n")
    verdict = rdmadiag.judge(made, expect=wish)
    assert verdict.expectations is not None
    assert verdict.status != rdmadiag.judge(made).status
    more = rdmadiag.judge(made, stacks=["nccl"])
    assert set(more.rules_asked) >= set(rdmadiag.judge(made).rules_asked)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: rdmadiag.collect("x", sample="y"), ValueError, "exclude each other"),
        (lambda: rdmadiag.collect(sample="none"), ValueError, "no sample 'none'"),
        (lambda: rdmadiag.collect("/nowhere"), SnapshotError, "/nowhere"),
        (lambda: rdmadiag.collect("/nowhere.json"), report.ReportError, "No such file"),
        (lambda: rdmadiag.collect(sources=["magic"]), ValueError, "no source 'magic'"),
        (lambda: rdmadiag.collect(timeout=0), ValueError, "timeout"),
        (lambda: rdmadiag.collect(timeout=float("nan")), ValueError, "timeout"),
        (lambda: judged(devices=["none"]), ValueError, "no RDMA device 'none'"),
        (lambda: judged(devices=["a/b"]), ValueError, "'a/b' is not DEV or DEV:PORT"),
        (lambda: judged(stacks=["none"]), ValueError, "none"),
        (lambda: judged(expect="/nowhere"), TomlFileError, "/nowhere"),
        (lambda: rdmadiag.nothing, AttributeError, "has no attribute 'nothing'"),
    ],
)
def test_what_cannot_be_done_is_one_line(call, error, words) -> None:
    with pytest.raises(error, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def judged(**options):
    return rdmadiag.judge(rdmadiag.collect(sample="roce-healthy"), **options)


def test_importing_rdmadiag_imports_nothing_of_it() -> None:
    code = (
        "import sys; before = set(sys.modules); import rdmadiag; "
        "print(*{each.partition('.')[0] for each in set(sys.modules) - before - {'rdmadiag'}})"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert set(ran.stdout.split()).isdisjoint(("rdmadiag", "click", "pydantic", "pydantic_core"))


@pytest.mark.parametrize("module", [rdmadiag, api, report], ids=lambda module: module.__name__)
def test_examples_in_the_code_are_true(module) -> None:
    assert doctest.testmod(module).failed == 0


def test_the_page_on_python_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = str(ROOT / "docs" / "python.md")
    result = doctest.testfile(page, module_relative=False, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 5
    assert result.failed == 0


def test_from_python_in_the_readme_runs(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## From Python\n")[2].partition("\n## ")[0]
    code = section.partition("```python\n")[2].partition("```")[0]
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout


def test_gids_without_names_are_of_every_port_and_stack() -> None:
    tables = rdmadiag.gids(rdmadiag.collect(sample="roce-healthy"))
    assert [table.port.device for table in tables] == ["rxe0", "rxe1"]
    assert len(tables[0].stacks) > 10


def test_gids_of_a_mac_ask_for_no_variable() -> None:
    (pick,) = rdmadiag.gids(rdmadiag.collect(sample="mac-ready"), stacks=["jaccl"])[0].stacks[:1]
    assert not any("variable" in each for each in pick.assumed)


@pytest.mark.parametrize("options", [{"devices": ["nope"]}, {"stacks": ["nope"]}])
def test_gids_of_what_there_is_not_are_refused(options) -> None:
    with pytest.raises(ValueError, match="nope"):
        rdmadiag.gids(rdmadiag.collect(sample="roce-healthy"), **options)


def test_a_report_does_not_differ_from_itself() -> None:
    report = rdmadiag.collect(sample="infiniband-two-hca")
    found = rdmadiag.differences(report, report)
    assert (found.changes, found.hosts.is_same) == ((), True)


def test_whether_it_is_one_host_may_be_said() -> None:
    report = rdmadiag.collect(sample="infiniband-two-hca")
    found = rdmadiag.differences(report, report, same_host=False)
    assert (found.hosts.is_same, found.hosts.by) == (False, "as was said")


def test_no_reports_add_up_to_unknown() -> None:
    assert rdmadiag.merge({}).status == "unknown"
