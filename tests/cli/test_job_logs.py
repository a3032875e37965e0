"""Several logs, and a folder of reports: one story."""

import json
import os
import pickle
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rdmadiag.cli import job_logs
from rdmadiag.cli.job_logs import NotRead, files_below, reports_below
from tests.cli.conftest import Outcome
from tests.explain.job.planted import BROKE, Job, shown
from tests.explain.job.test_records import EVENTS, RAS, dump, ras_json, record

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")


def test_a_name_with_an_escape_reaches_no_terminal(
    tmp_path: Path, rdmadiag: Callable[..., Outcome]
) -> None:
    Job(8, 2, 1).files(tmp_path)
    (tmp_path / "\x1b[31mx").write_text("[2026-03-13 11:00:00] \x1b]0;x\x07 mlx5_0 port error\n")
    outcome = rdmadiag("explain", "--log", str(tmp_path))
    assert outcome.code == 2
    assert "\x1b" not in outcome.out + outcome.err


def test_a_folder_of_more_files_than_are_read_is_refused(
    tmp_path: Path, rdmadiag: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_logs, "MOST_FILES", 2)
    for name in "abc":
        (tmp_path / name).write_text("")
    outcome = rdmadiag("explain", "--log", str(tmp_path))
    assert (outcome.code, outcome.out) == (64, "")
    assert outcome.err.startswith(f"rdmadiag: {tmp_path}: more than 2 files: name the logs")


@pytest.mark.slow
def test_the_command_prints_the_story_of_a_pattern(
    tmp_path: Path, rdmadiag: Callable[..., Outcome]
) -> None:
    job = Job()
    job.files(tmp_path)
    outcome = rdmadiag("explain", "--log", f"{tmp_path}/*.log")
    assert outcome.code == 2
    assert "rank 6 on node1 (mlx5_2) could not reach node2 at 12:01:07" in " ".join(
        outcome.out.split()
    )
    document = rdmadiag("explain", "--log", f"{tmp_path}/*.log", "--json").document
    assert document["first"]["who"]["rank"] == 6
    assert document["common_end"]["host"] == "node2"
    assert document["first"]["at"].startswith("2026-03-13T12:01:07")


def test_what_a_shell_makes_of_a_pattern_is_the_same(
    tmp_path: Path, rdmadiag: Callable[..., Outcome]
) -> None:
    Job().files(tmp_path)
    paths = sorted(map(str, tmp_path.glob("*.log")))
    document = rdmadiag("explain", "--json", "--log", *paths).document
    assert document["first"]["who"]["rank"] == 6
    assert len(document["sources"]) == 16


def test_one_stream_of_many_ranks_is_a_job_with_the_flag(
    tmp_path: Path, rdmadiag: Callable[..., Outcome]
) -> None:
    path = tmp_path / "job.out"
    path.write_text(Job().together("srun"))
    assert "failures" in rdmadiag("explain", "--log", str(path), "--json").document
    document = rdmadiag("explain", "--job", "--log", str(path), "--json").document
    assert document["first"]["who"]["rank"] == 6


def test_healthy_logs_are_ok_and_nothing_at_all_is_not_known(
    tmp_path: Path, rdmadiag: Callable[..., Outcome]
) -> None:
    for rank in range(4):
        text = "".join(f"{line}\n" for at, line in Job(4, 2, 9).stamped(rank) if at < BROKE)
        (tmp_path / f"rank{rank}").write_text(text)
    assert rdmadiag("explain", "--log", str(tmp_path)).code == 0
    for path in tmp_path.iterdir():
        path.write_text("")
    assert rdmadiag("explain", "--log", str(tmp_path)).code == 3


def test_a_folder_of_reports_is_known_by_its_content(
    tmp_path: Path, rdmadiag: Callable[..., Outcome]
) -> None:
    logs, reports = tmp_path / "logs", tmp_path / "reports"
    logs.mkdir()
    reports.mkdir()
    good = rdmadiag("preflight", "--json", "--sample", "roce-healthy").document
    bad = rdmadiag("preflight", "--json", "--sample", "roce-empty-gid-table").document
    good["host"]["hostname"], bad["host"]["hostname"] = "node1", "node2"
    (reports / "one").write_text(json.dumps(good))
    (reports / "b.txt").write_text(json.dumps(bad))
    (reports / "notes").write_text("not a report\n")
    line = (
        "[{}] node1:1:2 [0] p2p.cc:688 NCCL WARN NET/IB: Got completion from peer 198.51.100.9<7> "
        "with status=IBV_WC_RETRY_EXC_ERR(12) opcode=0 vendor_err=129  localGid "
        "::ffff:192.0.2.1 remoteGids::ffff:198.51.100.9 hca rxe0\n"
    )
    (logs / "x").write_text(
        line.format(shown(0)) + "node2:5:6 [0] NCCL INFO NET/IB : Using "
        "[0]mlx5_0:1/RoCE [RO]; OOB eth0:198.51.100.9<0>\n"
    )
    outcome = rdmadiag("explain", "--log", str(logs), "--from", str(reports), "--json")
    document = outcome.document
    assert [each["host"] for each in document["reports"]] == ["node1", "node2"]
    assert len(document["unused_reports"]) == 1
    assert document["first"]["whom"]["host"] == "node2"
    assert document["first"]["who"]["gid_index"] == 1
    assert document["common_end"]["host"] == "node2"
    assert document["common_end"]["findings"]


def test_a_report_says_whose_an_address_is(
    tmp_path: Path, rdmadiag: Callable[..., Outcome]
) -> None:
    report = rdmadiag("preflight", "--json", "--sample", "roce-healthy").document
    report["host"]["hostname"] = "node7"
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "r.json").write_text(json.dumps(report))
    (tmp_path / "log").write_text(
        f"[{shown(0)}] node1:1:2 [0] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 "
        "Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index "
        "3, local GID ::ffff:192.0.2.77, remote GID ::ffff:192.0.2.1\n"
    )
    outcome = rdmadiag(
        "explain", "--log", str(tmp_path / "log"), "--from", str(tmp_path / "reports")
    )
    shown_text = " ".join(outcome.out.split())
    assert "node1 (mlx5_0, GID 3) could not reach node7 (rxe0, GID 1) at 12:00:00" in shown_text


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(("--here",), id="the report of this host"),
        pytest.param(("--sample", "roce-healthy"), id="a sample"),
        pytest.param(("--device", "mlx5_0"), id="a device"),
    ],
)
def test_of_a_job_options_of_one_host_are_refused(
    argv: tuple[str, ...], tmp_path: Path, rdmadiag: Callable[..., Outcome]
) -> None:
    Job(8, 2, 1).files(tmp_path)
    assert rdmadiag("explain", "--log", str(tmp_path), *argv).code == 64


def test_a_pattern_that_matches_nothing_is_refused(
    tmp_path: Path, rdmadiag: Callable[..., Outcome]
) -> None:
    outcome = rdmadiag("explain", "--log", f"{tmp_path}/*.log")
    assert outcome.code == 64
    assert "no file there is called so" in outcome.err


def test_records_that_are_no_logs_are_known_by_their_content(
    tmp_path: Path, rdmadiag: Callable[..., Outcome]
) -> None:
    for rank, begun in enumerate((7, 7, 6)):
        content = pickle.dumps(dump(6, begun, "[0, 1, 2, 3]"), 2)
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(content)
    (tmp_path / "ras.txt").write_text(RAS)
    (tmp_path / "ras.json").write_text(json.dumps(ras_json()))
    (tmp_path / "watched.txt").write_text(EVENTS)
    (tmp_path / "node2-pid811.log").write_text(record(2, 1407) + "\n")
    (tmp_path / "bad_rank_9").write_bytes(b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R.")
    (tmp_path / "nameless").write_bytes(pickle.dumps(dump(6, 7), 4))
    outcome = rdmadiag("explain", "--log", str(tmp_path), "--json")
    assert outcome.code == 3
    kinds = {Path(each["name"]).name: each["kind"] for each in outcome.document["sources"]}
    assert kinds == {
        "nccl_trace_rank_0": "flight-recorder",
        "nccl_trace_rank_1": "flight-recorder",
        "nccl_trace_rank_2": "flight-recorder",
        "bad_rank_9": "flight-recorder",
        "nameless": "flight-recorder",
        "ras.txt": "ras",
        "ras.json": "ras",
        "watched.txt": "ras",
        "node2-pid811.log": "inspector",
    }
    problems = {each["problem"] for each in outcome.document["sources"]} - {None}
    assert any("would run code" in each for each in problems)
    assert any("does not end in a rank" in each for each in problems)
    (of_dumps,) = (
        each for each in outcome.document["behind"] if each["source"] == "flight-recorder"
    )
    assert of_dumps["ranks"] == [2]
    assert {(each["why"], *each["ranks"]) for each in outcome.document["silent"]} >= {
        ("dead", 21),
        ("unresponsive", 4),
        ("no-dump", 3),
    }
    text = rdmadiag("explain", "--log", str(tmp_path)).out
    assert "UNKNOWN" in text
    assert "Not at the same operation:" in text
    assert "Not read, or not whole:" in text


def test_snapshots_and_counters_are_reports_too(
    tmp_path: Path, rdmadiag: Callable[..., Outcome]
) -> None:
    from rdmadiag.samples import folder

    reports = tmp_path / "reports"
    shutil.copytree(folder("roce-healthy"), reports / "snapshot")
    several = [
        rdmadiag("preflight", "--json", "--sample", "roce-healthy").document for _ in range(2)
    ]
    for number, each in enumerate(several):
        each["host"]["hostname"] = f"n{number}"
    lines = [f"n{number}: {json.dumps(each)}" for number, each in enumerate(several)]
    (reports / "all.txt").write_text("\n".join(["torn {", *lines]))
    Job(8, 2, 1).files(tmp_path)
    argv = ("explain", "--json", "--log", f"{tmp_path}/*.log", "--from", str(reports))
    document = rdmadiag(*argv).document
    assert [each["host"] for each in document["reports"]] == ["guest", "n0", "n1"]


def test_from_a_file_or_a_snapshot_is_of_one_host_as_before(
    tmp_path: Path, rdmadiag: Callable[..., Outcome]
) -> None:
    from rdmadiag.samples import folder

    log = tmp_path / "log"
    log.write_text("mlx5_0: Call to ibv_modify_qp failed with 110 Connection timed out\n")
    document = rdmadiag(
        "explain", "--log", str(log), "--from", str(folder("roce-healthy")), "--json"
    ).document
    assert document["host"]["hostname"] == "guest"
    refused = rdmadiag(
        "explain", "--log", str(log), "--from", str(tmp_path), "--sample", "roce-healthy"
    )
    assert refused.code == 64


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_told_of(
    tmp_path: Path, rdmadiag: Callable[..., Outcome]
) -> None:
    Job(8, 2, 1).files(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    document = rdmadiag("explain", "--log", str(tmp_path), "--json", "--timeout", "1").document
    problems = [each["name"] for each in document["sources"] if each["problem"]]
    assert problems == [str(tmp_path / "pipe")]
    assert document["first"]["who"]["rank"] is not None


# --- in this process: what the command does in a child ------------------------------------------


def test_files_below_a_folder_and_of_a_pattern_are_named_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("a/2", "a/1", "b", ".hidden"):
        (tmp_path / name).write_text("x")
    paths = (str(tmp_path), f"{tmp_path}/*", str(tmp_path / "b"))
    found = [os.path.relpath(each, tmp_path) for each in files_below(paths)]
    assert found == ["b", "a/1", "a/2"]
    with pytest.raises(NotRead, match="No such file"):
        list(files_below((str(tmp_path / "c"),)))


def test_of_a_snapshot_no_file_is_a_log(tmp_path: Path) -> None:
    for name in ("node1/meta.json", "node1/root/proc/1/limits", "job.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert list(files_below((str(tmp_path),))) == [str(tmp_path / "job.log")]
    with pytest.raises(NotRead, match="a snapshot, and no log: rdmadiag preflight --from"):
        list(files_below((str(tmp_path / "node1"),)))


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_logs, "MOST_FILES", 1)
    for name in "ab":
        (tmp_path / name).write_text("x")
    with pytest.raises(NotRead, match="more than 1 files: name the logs alone"):
        list(files_below((str(tmp_path),)))


def test_a_folder_that_takes_too_long_to_list_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b/c").write_text("x")
    here = f"{tmp_path}/a b"
    with pytest.raises(NotRead) as refused:
        list(files_below((here,), time.monotonic() - 1))
    assert str(refused.value) == (
        f"{here}: more files than can be looked at in time, 1 so far: "
        f"name the logs alone, such as '{here}/*.log'"
    )


def test_reports_are_read_from_documents_lines_and_snapshots(
    tmp_path: Path, rdmadiag: Callable[..., Outcome]
) -> None:
    from rdmadiag.samples import folder

    report = rdmadiag("preflight", "--json", "--sample", "roce-healthy").document
    report["host"]["hostname"] = "n1"
    counters = rdmadiag("capabilities", "--json", "--sample", "roce-healthy").document
    (tmp_path / "lines").write_text(f"torn\nn1: {json.dumps(report)}\nn2: {{\n")
    (tmp_path / "other.json").write_text(json.dumps(counters))
    (tmp_path / "empty").write_text("")
    (tmp_path / "damaged.tar.gz").write_bytes(b"x")
    shutil.copytree(folder("roce-healthy"), tmp_path / "snapshot")
    with (tmp_path / "long").open("wb") as file:
        file.truncate(40 << 20)
    hosts, unused = reports_below(str(tmp_path), time.monotonic() + 60)
    assert sorted(each.name for each in hosts) == ["guest", "n1"]
    assert all(each.places for each in hosts)
    assert {os.path.basename(each.partition(":")[0]) for each in unused} >= {
        *("other.json", "empty", "damaged.tar.gz", "long"),
    }
    with pytest.raises(NotRead):
        reports_below(str(tmp_path / "none"), time.monotonic() + 60)
