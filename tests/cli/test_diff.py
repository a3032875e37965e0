"""rdmadiag diff and preflight --since, end to end on described hosts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from lab.machine import Machine
from lab.samples import at_work, infiniband_host
from rdmadiag.facts.ib import PhysState, PortState
from rdmadiag.samples import folder

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py

HEALTHY, NO_SM = folder("infiniband-two-hca"), folder("infiniband-no-subnet-manager")


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, Machine], str]:
    def write(name: str, machine: Machine) -> str:
        machine.write(str(tmp_path / name), "Of a test.")
        return str(tmp_path / name)

    return write


def saved(rdmadiag: Rdmadiag, to: Path, *argv: str) -> str:
    to.write_text(rdmadiag(*argv, "--json").out)
    return str(to)


def test_a_record_and_itself_are_the_same(rdmadiag: Rdmadiag) -> None:
    code, out, err = rdmadiag("diff", HEALTHY, HEALTHY)
    assert (code, err) == (0, "")
    assert out.startswith("SAME  ")
    assert out.count("\n") == 2


def test_what_is_newly_wrong_stands_first_with_its_facts_and_what_to_do(
    rdmadiag: Rdmadiag,
) -> None:
    code, out, err = rdmadiag("diff", HEALTHY, NO_SM)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0] == (
        "WORSE  new: mlx5_1/1 has no link: physical state polling (and 1 more); 1 other change"
    )
    assert lines[1].startswith("ib-no-subnet-manager at two times, by ")
    assert lines[3] == "New problems:"
    at = lines.index("      mlx5_1/1  state: active → down")
    assert lines[at - 1].split()[:2] == ["critical", "link-not-up"]
    assert "    ibstat mlx5_1 1" in lines
    assert "  hostname: ib-two-hca → ib-no-subnet-manager" in lines


def test_the_reverse_is_better(rdmadiag: Rdmadiag) -> None:
    code, out, _ = rdmadiag("diff", NO_SM, HEALTHY)
    assert code == 1
    assert out.startswith(
        "BETTER  fixed: mlx5_1/1 has no link: physical state polling (and 1 more)"
    )
    assert "  was critical  link-not-up  mlx5_1/1 has no link" in out
    assert "ibstat" not in out
    assert rdmadiag("diff", NO_SM, HEALTHY, "--fail-on", "worse")[0] == 0
    assert rdmadiag("diff", HEALTHY, NO_SM, "--fail-on", "worse")[0] == 1
    assert rdmadiag("diff", HEALTHY, NO_SM, "--exit-zero")[0] == 0


def test_quiet_is_the_answer_alone(rdmadiag: Rdmadiag) -> None:
    assert rdmadiag("diff", "-q", HEALTHY, NO_SM).out.count("\n") == 1


def test_the_document(rdmadiag: Rdmadiag) -> None:
    document = rdmadiag("diff", HEALTHY, NO_SM, "--json").document
    assert document["hosts"]["is_same"] is True
    assert document["status"] == {"before": "ok", "after": "critical"}
    assert document["before"]["host"]["hostname"] == "ib-two-hca"
    kinds = {(each["kind"], each["rule"]) for each in document["changes"] if not each["fact"]}
    assert kinds == {("worse", "link-not-up"), ("worse", "no-subnet-manager")}
    states = [each for each in document["changes"] if each["fact"] == "adapter[1].port[1].state"]
    assert [(each["rule"], each["before"], each["after"]) for each in states] == [
        ("link-not-up", "active", "down")
    ]


def test_reports_and_snapshots_are_records_alike(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    report = saved(rdmadiag, tmp_path / "a.json", "preflight", "--from", HEALTHY)
    assert rdmadiag("diff", report, HEALTHY)[0] == 0
    assert rdmadiag("diff", report, NO_SM)[0] == 1


def test_junit_has_a_case_for_each_change(rdmadiag: Rdmadiag) -> None:
    code, out, _ = rdmadiag("diff", HEALTHY, NO_SM, "-o", "junit", "--fail-on", "worse")
    (suite,) = ET.fromstring(out)
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert code == 1
    assert cases["worse link-not-up mlx5_1/1"].find("failure") is not None
    assert cases["changed hostname"].find("failure") is None
    assert suite.get("tests") == str(len(cases))
    same = ET.fromstring(rdmadiag("diff", HEALTHY, HEALTHY, "-o", "junit").out)
    assert [case.get("name") for case in same.iter("testcase")] == ["same"]
    assert same.get("failures") == "0"
    every = ET.fromstring(rdmadiag("diff", HEALTHY, NO_SM, "-o", "junit").out)
    assert every.get("failures") == every.get("tests")


def test_a_side_that_cannot_be_read_is_an_error_of_junit(rdmadiag: Rdmadiag) -> None:
    code, out, err = rdmadiag("diff", HEALTHY, "/nowhere", "-o", "junit")
    root = ET.fromstring(out)
    assert code == 3
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("1", "0", "1")
    (error,) = root.iter("error")
    assert f"rdmadiag: {error.get('message')}" == err.strip()


def test_the_name_of_a_sample_is_answered_with_how_to_compare_it(rdmadiag: Rdmadiag) -> None:
    for command in ("diff", "compat"):
        code, _, err = rdmadiag(command, "roce-healthy", HEALTHY)
        assert code == 3
        assert err.endswith("rdmadiag snapshot --sample roce-healthy DIR\n")
    assert "--sample" not in rdmadiag("diff", "roce-health", HEALTHY).err


def test_of_an_object_the_keys_that_differ_are_shown(rdmadiag: Rdmadiag) -> None:
    document = rdmadiag("diff", folder("roce-healthy"), folder("roce-empty-gid-table"), "--json")
    changes = {each["fact"]: each for each in document.document["changes"]}
    providers = {each["name"]: each for each in changes["verbs.providers"]["parts"]}
    assert providers["cxgb4"]["after"] is None
    assert providers["bnxt_re"]["before"] != providers["bnxt_re"]["after"]
    assert None not in (providers["bnxt_re"]["before"], providers["bnxt_re"]["after"])
    out = rdmadiag("diff", folder("roce-healthy"), folder("roce-empty-gid-table")).out
    assert "gone: cxgb4, " in " ".join(out.split())


def test_adapters_that_changed_alike_share_a_line(
    rdmadiag: Rdmadiag, written: Callable[[str, Machine], str]
) -> None:
    host = infiniband_host()
    newer = host.with_device(0, firmware="20.43").with_device(1, firmware="20.43")
    out = rdmadiag("diff", written("a", host), written("b", newer)).out
    assert "  mlx5_0, mlx5_1  firmware: 20.35.2000 → 20.43\n" in out


def test_two_hosts_can_be_said_to_be_so(rdmadiag: Rdmadiag) -> None:
    document = rdmadiag("diff", HEALTHY, NO_SM, "--hosts", "two", "--json").document
    assert document["hosts"] == {"is_same": False, "by": "as was said"}
    assert document["folded"]["identity"] > 0
    assert "hostname" not in {each["fact"] for each in document["changes"]}


def test_what_one_side_does_not_hold_is_not_the_same(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    bare = str(Path(HEALTHY) / "root")
    code, out, _ = rdmadiag("diff", HEALTHY, bare, "--hosts", "same", "--verbose")
    assert code == 3
    assert out.startswith("UNKNOWN  what both records have is the same; ")
    assert "in the second record: " in out
    assert "the snapshot holds sysfs files alone" in " ".join(out.split())
    assert rdmadiag("diff", HEALTHY, bare, "--hosts", "same", "--fail-on", "worse")[0] == 3
    junit = ET.fromstring(rdmadiag("diff", HEALTHY, bare, "--hosts", "same", "-o", "junit").out)
    assert junit.get("failures") == "0"
    assert junit[0].get("skipped") == junit.get("tests")


@pytest.mark.parametrize("content", [None, "", "{}", "not JSON", '{"schema_version": "1.1"}'])
def test_a_side_that_cannot_be_read_is_3(
    content: str | None, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    path = tmp_path / "odd.json"
    if content is not None:
        path.write_text(content)
    for argv in ((str(path), HEALTHY), (HEALTHY, str(path))):
        code, out, err = rdmadiag("diff", *argv)
        assert (code, out, err.count("\n")) == (3, "", 1)
        assert str(path) in err


def test_a_folder_that_is_no_record_is_3_and_no_name_is_64(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    assert rdmadiag("diff", HEALTHY, str(tmp_path))[0] == 3
    assert rdmadiag("diff", HEALTHY, "")[0] == 64
    assert rdmadiag("diff", HEALTHY)[0] == 64


def test_names_of_a_hostile_record_are_shown_and_not_obeyed(
    rdmadiag: Rdmadiag, written: Callable[[str, Machine], str]
) -> None:
    host = infiniband_host()
    odd = host.change(hostname="a\x1b[31mb").with_device(0, firmware="\x1b]0;x\x07\n; rm")
    out = rdmadiag("diff", written("a", host), written("b", odd)).out
    assert "\x1b" not in out
    assert "\x07" not in out


# --- counters -----------------------------------------------------------------------------------


def sample(rdmadiag: Rdmadiag, written: Any, to: Path, machine: Machine) -> str:
    record = written(to.stem, machine)
    return saved(rdmadiag, to, "counters", "--from", record)


@pytest.fixture
def counted(
    rdmadiag: Rdmadiag, written: Callable[[str, Machine], str], tmp_path: Path
) -> Callable[..., str]:
    def count(name: str, boot: str = "b1", uptime: float = 1000.0, **changes: int) -> str:
        host = at_work(infiniband_host()).change(boot_id=boot, uptime=uptime)
        values = dict(host.devices[0].ports[0].counters or {}) | changes
        host = host.with_port(0, counters=values)
        return sample(rdmadiag, written, tmp_path / f"{name}.json", host)

    return count


def test_counters_that_rise_with_traffic_are_noise(
    counted: Callable[..., str], rdmadiag: Rdmadiag
) -> None:
    before = counted("a")
    after = counted("b", uptime=1060.0, port_xmit_packets=60_000_000_000)
    document = rdmadiag("diff", before, after, "--json").document
    assert document["hosts"] == {"is_same": True, "by": "one boot"}
    assert document["changes"] == []
    assert document["folded"]["noise"] >= 1
    assert rdmadiag("diff", before, after)[0] == 0


def test_what_a_rise_means_is_newly_wrong(counted: Callable[..., str], rdmadiag: Rdmadiag) -> None:
    before = counted("a")
    code, out, _ = rdmadiag("diff", before, counted("b", uptime=1060.0, link_downed=9))
    assert code == 1
    assert out.startswith("WORSE  new: ")
    assert "link" in out.splitlines()[4]


def test_after_a_start_each_sample_is_judged_alone(
    counted: Callable[..., str], rdmadiag: Rdmadiag
) -> None:
    code, _, err = rdmadiag("diff", counted("a"), counted("b", boot="b2", link_downed=9))
    assert code == 0
    assert "each is judged alone" in err


def test_a_sample_and_a_report_have_nothing_in_common(
    counted: Callable[..., str], rdmadiag: Rdmadiag
) -> None:
    code, _, err = rdmadiag("diff", counted("a"), HEALTHY)
    assert code == 64
    assert "a sample of counters" in err


# --- preflight --since --------------------------------------------------------------------------


def test_since_shows_what_changed_below_the_verdict(rdmadiag: Rdmadiag) -> None:
    code, out, err = rdmadiag("preflight", "--from", NO_SM, "--since", HEALTHY)
    assert (code, err) == (2, "")
    verdict, since = out.split(f"Since {HEALTHY}: ")
    assert verdict.startswith("CRITICAL  mlx5_1/1 has no link")
    assert since.startswith("WORSE  new: mlx5_1/1 has no link")
    assert "      mlx5_1/1  state: active → down\n" in since
    assert "ibstat" not in since, "remedies stand in the verdict"
    assert "Since" not in rdmadiag("preflight", "--from", NO_SM, "--since", HEALTHY, "-q").out


def test_since_does_not_change_the_exit_code(
    rdmadiag: Rdmadiag, written: Callable[[str, Machine], str]
) -> None:
    host = infiniband_host().with_port(0, state=PortState.DOWN, phys=PhysState.POLLING)
    record = written("was-bad", host)
    assert rdmadiag("preflight", "--from", HEALTHY, "--since", record)[0] == 0


def test_since_as_json(rdmadiag: Rdmadiag) -> None:
    document = rdmadiag("preflight", "--from", NO_SM, "--since", HEALTHY, "--json").document
    since = document["changed_since"]
    assert since["before"]["host"]["hostname"] == "ib-two-hca"
    alone = rdmadiag("diff", HEALTHY, NO_SM, "--json").document
    assert since["changes"] == alone["changes"]
    assert "changed_since" not in rdmadiag("preflight", "--from", NO_SM, "--json").document


def test_since_refuses_what_has_no_room_for_it(
    counted: Callable[..., str], rdmadiag: Rdmadiag
) -> None:
    argv = ("preflight", "--from", HEALTHY, "--since")
    assert rdmadiag(*argv, HEALTHY, "-o", "prometheus")[0] == 64
    assert rdmadiag(*argv, counted("a"))[0] == 64
    assert rdmadiag(*argv, "/nowhere")[0] == 64


def test_a_document_that_others_have_edited_is_read(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    path = Path(saved(rdmadiag, tmp_path / "a.json", "preflight", "--from", HEALTHY))
    document = json.loads(path.read_text())
    document["evidence"]["sysfs"]["devices"] *= 2
    path.write_text(json.dumps(document))
    assert rdmadiag("diff", str(path), HEALTHY)[0] in (0, 1, 3)
