"""What a source that could not be read does to each command's documents, text and exit code."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Outcome

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

LATE = {"why": "timeout", "detail": "no answer before the deadline"}
DENIED = {"why": "denied", "detail": "netlink: EACCES"}
Rdmadiag = Callable[..., Outcome]
Report = Callable[..., str]


@pytest.fixture
def report(rdmadiag: Rdmadiag, tmp_path: Path) -> Report:
    """The file of a report of roce-healthy in which some sources are missing."""

    def write(**missing: Any) -> str:
        document = json.loads(rdmadiag("preflight", "--sample", "roce-healthy", "--json").out)
        document["evidence"] |= missing
        path = tmp_path / "report.json"
        path.write_text(json.dumps(document))
        return str(path)

    return write


@pytest.mark.parametrize("command", ["gids", "devices"])
def test_a_document_without_devices_says_why(
    command: str, rdmadiag: Rdmadiag, report: Report
) -> None:
    blind = report(sysfs=LATE, nldev=DENIED, verbs=LATE)
    done = rdmadiag(command, "--json", "--from", blind)
    document = json.loads(done.out)
    assert done.code == 3
    assert document["ports" if command == "gids" else "devices"] == []
    assert document["missing"] == {"sysfs": LATE, "nldev": DENIED, "verbs": LATE}


@pytest.mark.parametrize("command", ["gids", "devices"])
def test_a_document_of_a_host_that_was_read_says_that_nothing_is_missing(
    command: str, rdmadiag: Rdmadiag
) -> None:
    done = rdmadiag(command, "--json", "--sample", "roce-healthy")
    assert json.loads(done.out)["missing"] == {}
    assert done.code == 0


def test_on_a_mac_no_source_of_linux_is_missing_and_the_call_that_hung_is(
    rdmadiag: Rdmadiag,
) -> None:
    for command in ("gids", "devices"):
        done = rdmadiag(command, "--json", "--sample", "mac-wedged")
        missing = json.loads(done.out)["missing"]
        assert set(missing) == {"verbs"}
        assert missing["verbs"]["why"] == "timeout"
        assert "ibv_query_port" in missing["verbs"]["detail"]
        assert done.code == 3
    ready = rdmadiag("devices", "--json", "--sample", "mac-ready")
    assert json.loads(ready.out)["missing"] == {}


def test_the_text_of_devices_says_which_witness_could_not_be_asked(
    rdmadiag: Rdmadiag, report: Report
) -> None:
    first, *rest = rdmadiag("devices", "--from", report(verbs=LATE, nldev=DENIED)).out.split("\n")
    assert "nldev, verbs could not be read; seen by sysfs, /dev" in first
    assert "verbs could not be read: timeout: no answer before the deadline" in rest
    assert "nldev could not be read: denied: netlink: EACCES" in rest


def test_devices_without_the_source_that_lists_them_are_shown_and_exit_3(
    rdmadiag: Rdmadiag, report: Report
) -> None:
    done = rdmadiag("devices", "--from", report(sysfs=LATE))
    assert done.code == 3
    assert "2 RDMA devices" in done.out
    assert "sysfs could not be read" in done.out.splitlines()[0]


def test_a_bare_sysfs_tree_raises_no_alarm_about_what_it_does_not_hold(
    rdmadiag: Rdmadiag,
) -> None:
    tree = str(Path(__file__).parents[1] / "fixtures" / "ibsim-after-sweep")
    done = rdmadiag("devices", "--from", tree)
    assert done.code == 0
    assert "could not be read" not in done.out


@pytest.mark.parametrize("command", ["preflight", "gids", "devices"])
def test_a_device_that_may_be_there_is_no_mistake_of_the_user(
    command: str, rdmadiag: Rdmadiag, report: Report
) -> None:
    blind = report(sysfs=LATE, nldev=LATE, verbs=LATE)
    done = rdmadiag(command, "--device", "rxe0", "--from", blind)
    assert done.code == 3
    assert "sysfs timeout: no answer before the deadline" in done.err
    known = rdmadiag(command, "--device", "rxe7", "--sample", "roce-healthy")
    assert known.code == 64


def test_checks_that_could_not_run_are_counted_in_the_text_and_named_if_asked_for(
    rdmadiag: Rdmadiag, report: Report
) -> None:
    path = report(process=LATE)
    text = rdmadiag("preflight", "--from", path).out
    (line,) = [each for each in text.splitlines() if "could not run" in each]
    document = json.loads(rdmadiag("preflight", "--json", "--from", path).out)
    verdict = document["verdict"]
    count = len({each["rule"] for each in verdict["skipped"]})
    every = len(verdict["rules_asked"])
    assert line == (
        f"{count} of {every} checks could not run, or not everywhere (timed out: process)."
    )
    assert {each["source"] for each in verdict["skipped"]} == {"process"}
    assert {each["detail"] for each in verdict["skipped"]} == {LATE["detail"]}
    verbose = rdmadiag("preflight", "--verbose", "--from", path).out
    assert "    uverbs-node-missing: device node" in verbose.splitlines()
    assert "could not run" not in rdmadiag("preflight", "--sample", "roce-healthy").out
