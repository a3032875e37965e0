"""rdmadiag fleet merge end to end: what is read, each form, each file, each exit code."""

import gzip
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rdmadiag.samples import samples
from tests.fleet_reports import finding, text

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py

PROGRAM = (sys.executable, "-m", "rdmadiag", "fleet", "merge")


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """n1 is fine, n2 critical, n3 has a warning, n4 is torn."""
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "n1.json").write_text(text("n1"))
    (folder / "n2.json").write_text(text("n2", "critical", [finding()]))
    (folder / "n3.json").write_text(text("n3", "warn", [finding("x", "warn")]))
    (folder / "n4.json").write_text(text("n4")[:60])
    return folder


def test_the_first_line_is_the_answer(reports: Path, rdmadiag: Rdmadiag) -> None:
    code, out, err = rdmadiag("fleet", "merge", str(reports), "--expect-hosts", "n[1-5]")
    assert (code, err) == (2, "")
    assert out.splitlines()[0] == (
        "CRITICAL 3 of 5: n2 no-subnet-manager; n5 never reported; n4 sent a torn report"
    )
    assert "Hosts: 5 expected, 3 reported, 2 fit." in out
    quiet = rdmadiag("fleet", "merge", str(reports), "--expect-hosts", "n[1-5]", "--quiet")
    assert quiet.out == out.splitlines()[0] + "\n"


def test_a_folder_an_archive_a_file_and_a_stream_come_to_the_same(
    reports: Path, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    def said(*argv: str) -> object:
        document = rdmadiag("fleet", "merge", "--json", "--expect-hosts", "n[1-4]", *argv).document
        return document["status"], document["groups"], document["hosts"], document["rows"]

    archive = tmp_path / "all.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(reports, "reports")
    lines = "\n".join(path.read_text() for path in sorted(reports.iterdir()))
    jsonl = tmp_path / "all.jsonl"
    jsonl.write_text(lines)
    (tmp_path / "all.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    files = [str(path) for path in sorted(reports.iterdir())]
    first = said(str(reports))
    assert said(str(archive)) == said(*files) == first
    # On one line each nobody says whose the torn one is.
    status, _, hosts, _ = said(str(jsonl))
    assert (status, hosts) == (first[0], first[2])  # type: ignore[index]
    assert said(str(jsonl)) == said(f"{jsonl}.gz")
    done = subprocess.run(
        [*PROGRAM, "-", "--json", "--expect-hosts", "n[1-4]"],
        input=lines.encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, b"")
    assert json.loads(done.stdout)["groups"] == said(str(jsonl))[1]  # type: ignore[index]


def test_node_sets_for_a_batch_system(reports: Path, rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    (reports / "odd.json").write_text(text("a b;reboot", "critical", [finding()]))
    good, bad = tmp_path / "good", tmp_path / "bad"
    arguments = ("--expect-hosts", "n[1-6]", "--passed", str(good), "--failed", str(bad))
    done = rdmadiag("fleet", "merge", str(reports), *arguments)
    assert done.code == 2
    assert good.read_text() == "n[1,3]\n"
    assert bad.read_text() == "n[2,4-6]\n"
    assert (
        done.err == f"rdmadiag: --failed {bad}: left out 'a b;reboot', which is no name of a node\n"
    )


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 2),
        (("--fail-on", "critical"), 2),
        (("--exit-zero",), 0),
    ],
)
def test_the_exit_code_is_the_worst_verdict(
    options: tuple[str, ...], code: int, reports: Path, rdmadiag: Rdmadiag
) -> None:
    assert rdmadiag("fleet", "merge", str(reports), *options).code == code
    (reports / "n2.json").unlink()
    assert rdmadiag("fleet", "merge", str(reports)).code == 3
    assert rdmadiag("fleet", "merge", str(reports), "--fail-on", "critical").code == 0
    (reports / "n4.json").unlink()
    assert rdmadiag("fleet", "merge", str(reports)).code == 1
    assert rdmadiag("fleet", "merge", str(reports), "--expect-hosts", "n[1,3-4]").code == 3
    (reports / "n3.json").unlink()
    assert rdmadiag("fleet", "merge", str(reports)).code == 0


def test_junit_has_a_test_a_host(reports: Path, rdmadiag: Rdmadiag) -> None:
    (reports / "n6.json").write_text(text("n6", "unknown", [finding("u", "unknown")]))
    done = rdmadiag("fleet", "merge", str(reports), "--expect-hosts", "n[1-6]", "-o", "junit")
    root = fromstring(done.out)
    (suite,) = root
    counted = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counted == {"tests": "6", "failures": "2", "errors": "2", "skipped": "1"}
    results = {case.get("name"): [each.tag for each in case] for case in suite.iter("testcase")}
    assert results == {
        "n1": [],
        "n2": ["failure"],
        "n3": ["failure"],
        "n4": ["error"],
        "n5": ["error"],
        "n6": ["skipped", "system-out"],
    }


def test_prometheus_reads_it(reports: Path, rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    path = tmp_path / "fleet.prom"
    options = ("--expect-hosts", "n[1-5]", "-o", "prometheus", "--output", str(path))
    assert rdmadiag("fleet", "merge", str(reports), *options).out == ""
    assert path.stat().st_mode & 0o777 == 0o644
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }
    assert found["rdmadiag_fleet_status",] == 2
    assert found["rdmadiag_fleet_hosts", "expected"] == 5
    assert found["rdmadiag_fleet_hosts", "fit"] == 2
    assert found["rdmadiag_fleet_host_status", "n5"] == 3
    assert found["rdmadiag_fleet_reason_hosts", "critical", "no-subnet-manager"] == 1


def test_verdicts_are_those_recorded_unless_they_are_made_again(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    report = rdmadiag("preflight", "--sample", "infiniband-no-subnet-manager", "--json").document
    report["verdict"] |= {"status": "ok", "findings": []}
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    assert rdmadiag("fleet", "merge", str(path)).code == 0
    again = rdmadiag("fleet", "merge", str(path), "--judge-again")
    assert again.code == 2
    assert "ib-no-subnet-manager link-not-up" in again.out
    del report["verdict"]
    path.write_text(json.dumps(report))
    assert rdmadiag("fleet", "merge", str(path)).code == 3
    assert rdmadiag("fleet", "merge", str(path), "--judge-again").code == 2
    report["evidence"]["sysfs"] = 7
    path.write_text(json.dumps(report))
    refused = rdmadiag("fleet", "merge", str(path), "--judge-again")
    assert refused.code == 3
    assert "cannot be judged again" in refused.out


def test_every_sample_is_read_and_differs_from_nobody_of_another_kind(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    for name in samples():
        out = rdmadiag("preflight", "--sample", name, "--json").out
        (tmp_path / f"{name}.json").write_text(out)
    document = rdmadiag("fleet", "merge", str(tmp_path), "--json").document
    assert document["hosts"]["reported"] == len(samples())
    assert document["unused"] == []
    shown = rdmadiag("fleet", "merge", str(tmp_path), "--verbose").out
    assert "Kinds of hosts" in shown


def attempt(node: str, peer: str, role: str, outcome: str, median: float | None) -> str:
    def end(name: str) -> dict[str, object]:
        return {"device": "mlx5_0", "gid": f"fe80::{name[1:]}", "queue_pair": 7, "psn": 9}

    made = {
        "schema_version": "1.1",
        "tool": {"name": "rdmadiag", "version": "0.1.0"},
        "generated_at": "2026-11-23T07:00:00Z",
        "host": {"hostname": node},
        "role": role,
        "outcome": outcome,
        "local": end(node),
        "remote": end(peer),
        "teardown": [],
    }
    return json.dumps(made | ({"latency_us": {"median": median}} if median else {}))


def test_outcomes_of_pingpong_are_judged_as_pairs_beside_the_reports(
    reports: Path, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    for name in ("n2.json", "n4.json"):
        (reports / name).unlink()
    lines = [
        attempt("n1", "n3", "connect", "verified", 2.5),
        attempt("n3", "n1", "listen", "verified", None),
    ]
    (reports / "pairs.jsonl").write_text("\n".join(lines))
    done = rdmadiag("fleet", "merge", str(reports), "--json")
    assert done.code == 1, "n3 has a warning, and the pair is fine"
    (cell,) = done.document["tournament"]["matrix"]["cells"]
    assert (cell["outcome"], cell["latency_us"]) == ("verified", 2.5)
    assert done.document["unused"] == []
    assert "1 pair of 2 nodes" in rdmadiag("fleet", "merge", str(reports)).out
    page = tmp_path / "x.html"
    assert rdmadiag("fleet", "merge", str(reports), "--html", str(page)).code == 1
    assert "mlx5_0" in page.read_text()


def test_outcomes_of_pairs_alone_are_the_answer_themselves(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    file = tmp_path / "pairs.jsonl"
    listens = attempt("n3", "n1", "listen", "verified", None)
    file.write_text("\n".join((attempt("n1", "n3", "connect", "verified", 2.5), listens)))
    done = rdmadiag("fleet", "merge", str(file))
    assert (done.code, done.out.splitlines()[0]) == (
        0,
        "OK  1 pair of 2 nodes, 1 round: none is odd",
    )
    assert rdmadiag("fleet", "merge", str(file), "--quiet").out == done.out.splitlines()[0] + "\n"
    assert rdmadiag("fleet", "merge", str(file), "--expect-hosts", "n1").code == 3


def test_outcomes_of_pairs_alone_are_added_to_a_history_once(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    file, path = tmp_path / "pairs.jsonl", str(tmp_path / "pairs.db")
    listens = attempt("n3", "n1", "listen", "verified", None)
    file.write_text("\n".join((attempt("n1", "n3", "connect", "verified", 2.5), listens)))
    for _ in range(2):
        assert rdmadiag("fleet", "merge", str(file), "--history", path).code == 0
    past = rdmadiag("fleet", "history", "n[1,3]", "--history", path, "--json").document
    assert [each["status"] for each in past["nodes"]] == ["ok", "ok"]
    for each in past["nodes"]:
        (figures,) = each["pairs"]
        assert figures["at"].startswith("2026-11-23T07:00:00")
        assert (figures["tried"], figures["failed"], figures["latency_us"]) == (1, 0, 2.5)


def test_a_node_that_printed_no_report_is_in_the_history_and_a_note_beside_them_is_not(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    (reports / "n1.json").write_text(rdmadiag("preflight", "--sample", "mac-ready", "--json").out)
    for name in ("n4.json", "README.txt"):
        (reports / name).write_text("bash: rdmadiag: command not found\n")
    path = str(tmp_path / "fleet.db")
    rdmadiag("fleet", "merge", str(reports), "--expect-hosts", "n4", "--history", path)
    past = rdmadiag("fleet", "history", "n4", "README", "--history", path, "--json").document
    assert [each["node"] for each in past["nodes"]] == ["n4"]


def test_each_merge_is_added_to_a_history(
    reports: Path, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    report = rdmadiag("preflight", "--sample", "roce-healthy", "--json").out
    (reports / "guest.json").write_text(report)
    path = tmp_path / "fleet.db"
    assert rdmadiag("fleet", "merge", str(reports), "--history", str(path)).code == 2
    past = rdmadiag("fleet", "history", "n2", "guest", "--history", str(path), "--json")
    assert {each["node"]: each["status"] for each in past.document["nodes"]} == {
        "n2": "critical",
        "guest": "ok",
    }
    (tmp_path / "no.db").write_bytes(b"x" * 5000)
    refused = rdmadiag("fleet", "merge", str(reports), "--history", str(tmp_path / "no.db"))
    assert refused.code == 74
    assert refused.err.startswith(f"rdmadiag: --history {tmp_path}/no.db: ")
    assert refused.out.startswith("CRITICAL "), "the answer is said all the same"
    argv = ("--history", str(tmp_path / "no.db"), "--json")
    assert rdmadiag("fleet", "merge", str(reports), *argv).document["status"] == "critical"


def test_a_page_is_written(reports: Path, rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    path = tmp_path / "fleet.html"
    assert rdmadiag("fleet", "merge", str(reports), "--html", str(path)).code == 2
    assert "no-subnet-manager" in path.read_text()


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("/nowhere",), 64, "/nowhere: No such file or directory"),
        ((), 64, "Missing argument 'PATH...'"),
        ((".", "--expect-hosts", "@all"), 64, "groups are not looked up here"),
        ((".", "--expect-hosts", "n[1-"), 64, "missing bracket"),
        ((".", "--passed", "/nowhere/x"), 64, "--passed /nowhere/x: there is no folder /nowhere"),
        ((".", "--failed", "/dev/stdout"), 64, "--failed /dev/stdout: is what is open already"),
    ],
)
def test_a_mistake_is_one_line(
    argv: tuple[str, ...], code: int, message: str, rdmadiag: Rdmadiag
) -> None:
    done = rdmadiag("fleet", "merge", *argv)
    assert (done.code, done.out) == (code, "")
    assert done.err.count("\n") == 1
    assert message in done.err


def test_a_mistake_is_a_document_too_where_one_is_wanted(rdmadiag: Rdmadiag) -> None:
    done = rdmadiag("fleet", "merge", "/nowhere", "--json")
    assert done.document["error"]["exit_code"] == done.code == 64


@pytest.mark.parametrize("package", ["ClusterShell.NodeSet", "jinja2"])
def test_without_the_extra_one_line_says_what_to_install(
    package: str, reports: Path, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    blocked = tmp_path / "sitecustomize.py"
    blocked.write_text(
        "import sys\n"
        "class Blocked:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] == {package.partition('.')[0]!r}:\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Blocked())\n"
    )
    done = subprocess.run(
        [*PROGRAM, str(reports), "--html", str(tmp_path / "x.html")],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{os.getcwd()}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 64
    assert done.stderr.count("\n") == 1
    assert "pip install 'rdmadiag[fleet]'" in done.stderr


def test_a_stream_that_does_not_end_is_judged_at_the_deadline_and_named() -> None:
    reader, writer = os.pipe()
    os.write(writer, f"n1: {text('n1')}\nn2: {text('n2')[:40]}".encode())
    done = subprocess.run(
        [*PROGRAM, "-", "--timeout", "1"], stdin=reader, capture_output=True, text=True, check=False
    )
    os.close(writer)
    os.close(reader)
    assert done.returncode == 3
    assert done.stdout.startswith("UNKNOWN 1 of 2: n2 sent a torn report\n")
    assert "stdin: had not ended at the deadline (--timeout)" in done.stdout


def test_hostile_text_of_a_host_reaches_no_terminal(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x9b2J\u202e"
    made = [finding(summary=evil, device=evil, remedy=[f"echo {evil}"])]
    (tmp_path / "a").write_text(text(f"h{evil}", "critical", made))
    (tmp_path / "b").write_text(f"n1: {evil}\n{evil}: {evil}\n")
    for form in ("text", "json", "junit", "prometheus"):
        out = rdmadiag("fleet", "merge", str(tmp_path), "-o", form, "--verbose").out
        assert all(line.isprintable() for line in out.splitlines())
