"""Sources that cannot start, are late or are refused, on a live host: unknown, and never less."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from campaign.missing import Removed, broken, without
from lab.rxe import Rxe, wait_ready
from rdmadiag.facts import Why
from rdmadiag.facts.evidence import MACOS_ONLY, NO_OPTION
from rdmadiag.preflight.judge import judge
from rdmadiag.report import Report
from rdmadiag.sources.run import sources_of

NOBODY = 65534
Call = Callable[..., tuple[int, Any]]
Pair = tuple[Rxe, Rxe]
NODES = Path("/dev/infiniband")


def whys(document: Any) -> dict[str, str]:
    """Sources that gave nothing, and why; not those of Macs, or of an option."""
    evidence = document["evidence"]
    return {
        name: each["why"]
        for name, each in evidence.items()
        if set(each) == {"why", "detail"}
        and each["detail"] not in (MACOS_ONLY.detail, NO_OPTION.detail)
    }


def serious(document: Any) -> set[tuple[str, str]]:
    findings = document["verdict"]["findings"]
    return {(f["rule"], f["severity"]) for f in findings if f["severity"] != "info"}


def refusing(call: str, error: str, *paths: str) -> tuple[str, ...]:
    """strace, which has the kernel's answer to a system call replaced."""
    only = [option for path in paths for option in ("-P", path)]
    inject = ("-e", f"trace={call}", "-e", f"inject={call}:error={error}")
    return ("strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", *only, *inject)


def test_a_live_report_holds_the_order_without_each_of_its_sources(
    rxe_pair: Pair, rdmadiag: Callable[..., tuple[int, str, str]]
) -> None:
    _, text, _ = rdmadiag("preflight", "--json")
    evidence = Report.model_validate_json(text).evidence
    full = judge(evidence)
    assert full.skipped == ()
    for source in sources_of("linux"):
        for why in Why:
            part = judge(without(evidence, (source,), why))
            assert list(broken(full, part, Removed((source,), why))) == []


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_where_no_process_may_be_started_the_verdict_is_unknown(
    processes: int, rxe_pair: Pair, rdmadiag_json: Call
) -> None:
    """An ordinary user at his limit of processes, this one among them.

    What one child alone could read is judged as it is without a limit.
    """
    _, whole = rdmadiag_json("preflight", user=NOBODY)
    prefix = ("prlimit", f"--nproc={processes}")
    code, document = rdmadiag_json("preflight", prefix=prefix, user=NOBODY)
    assert (code, document["verdict"]["status"]) == (3, "unknown")
    lost = whys(document)
    assert lost
    assert set(lost.values()) == {"exhausted"}
    unknown = {each for each in serious(document) if each[1] == "unknown"}
    assert unknown
    assert set(serious(document)) - unknown <= set(serious(whole))
    assert {each["why"] for each in document["verdict"]["skipped"]} >= {"exhausted"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("files", [8, 10, 12, 14, 16, 20, 24])
def test_with_few_file_descriptors_nothing_is_milder_or_graver(
    files: int, rxe_pair: Pair, rdmadiag: Callable[..., tuple[int, str, str]]
) -> None:
    code, text, error = rdmadiag("preflight", "--json", prefix=("prlimit", f"--nofile={files}:"))
    assert code in (0, 3), error
    verdict = judge(Report.model_validate_json(text).evidence)
    assert verdict.status == ("ok" if code == 0 else "unknown"), verdict.findings
    if code == 0:
        assert verdict.skipped == ()


def test_a_node_folder_that_may_not_be_listed_is_denied_and_no_node_is_missing(
    rxe_pair: Pair, rdmadiag_json: Call
) -> None:
    mode = NODES.stat().st_mode
    NODES.chmod(0o700)
    try:
        code, document = rdmadiag_json("preflight", user=NOBODY)
        listed = rdmadiag_json("devices", user=NOBODY)
    finally:
        NODES.chmod(mode)
    assert code == 3
    assert not [rule for rule, severity in serious(document) if severity == "critical"]
    denied = {each["rule"] for each in document["verdict"]["skipped"] if each["why"] == "denied"}
    assert {"uverbs-node-missing", "uverbs-node-not-openable"} <= denied
    assert listed[1]["devices"][0]["seen_by"]["uverbs_node"]["why"] == "denied"


def test_netlink_that_is_refused_is_denied_in_every_document(
    rxe_pair: Pair, rdmadiag_json: Call, rdmadiag: Callable[..., tuple[int, str, str]]
) -> None:
    prefix = refusing("socket", "EACCES")
    code, document = rdmadiag_json("preflight", prefix=prefix)
    assert (code, document["verdict"]["status"]) == (3, "unknown")
    assert whys(document).items() >= {"nldev": "denied", "netdev": "denied"}.items()
    assert {severity for _, severity in serious(document)} == {"unknown"}
    _, listed = rdmadiag_json("devices", prefix=prefix)
    assert listed["missing"]["nldev"]["why"] == listed["missing"]["netdev"]["why"] == "denied"
    _, text, _ = rdmadiag("devices", prefix=prefix)
    assert "nldev could not be read: denied" in text


def test_sysfs_that_is_refused_is_no_host_without_rdma(rxe_pair: Pair, rdmadiag_json: Call) -> None:
    prefix = refusing("openat,open", "EACCES", "/sys/class/infiniband")
    for command in ("gids", "devices"):
        code, document = rdmadiag_json(command, prefix=prefix)
        assert code == 3
        assert document["missing"]["sysfs"]["why"] == "denied", document
    code, document = rdmadiag_json("preflight", prefix=prefix)
    assert code == 3
    assert {severity for _, severity in serious(document)} == {"unknown"}


@pytest.mark.long
def test_sources_that_are_late_are_unknown_and_named(rxe_pair: Pair, rdmadiag_json: Call) -> None:
    slow = "inject=openat:delay_enter=30s"
    prefix = ("strace", "-f", "-qq", "-o", "/dev/null", "-P", "/sys/class/infiniband", "-e", slow)
    code, document = rdmadiag_json("preflight", "--timeout", "10", prefix=prefix)
    assert code == 3
    assert "timeout" in whys(document).values()
    assert {severity for _, severity in serious(document)} == {"unknown"}


@pytest.fixture
def coming_and_going() -> Iterator[None]:
    """A device over lo that is made and removed without an end."""
    loop = "while :; do rdma link add rxe9 type rxe netdev lo; rdma link del rxe9; done"
    process = subprocess.Popen(
        ["sh", "-c", loop], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    yield
    process.kill()
    process.wait()
    subprocess.run(["rdma", "link", "del", "rxe9"], capture_output=True, check=False)


@pytest.mark.usefixtures("coming_and_going")
@pytest.mark.long
def test_devices_that_come_and_go_make_no_finding_of_what_nobody_read(
    rxe_pair: Pair, rdmadiag_json: Call
) -> None:
    for port in rxe_pair:
        wait_ready(port)
    for _ in range(4):
        _, document = rdmadiag_json("preflight")
        lost = whys(document)
        for finding in document["verdict"]["findings"]:
            for proof in finding["evidence"]:
                if proof["source"] in lost:
                    assert proof["value"].startswith(lost[proof["source"]]), finding
            steady = finding["device"] in ("rxe0", "rxe1")
            assert not (steady and finding["severity"] == "critical"), finding
