"""fleet run by an ssh that is a script: which node said what, and what is refused."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rdmadiag.cli.fleet.run import READING
from tests.fleet.fake_fleet import Fleet
from tests.fleet.test_launch import linux, running

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py

DOCUMENT = ("preflight", "--sample", "roce-healthy", "--json")
WORD = f"rdmadiag-of-this-run-{os.getpid()}"


@pytest.fixture
def documents(fleet: Fleet, rdmadiag: Rdmadiag) -> Fleet:
    """Every node prints a report: n1, n2, … are healthy, bad1, … are not."""
    (fleet.folder / "healthy").write_text(rdmadiag(*DOCUMENT).out)
    sick = rdmadiag("preflight", "--sample", "roce-empty-gid-table", "--json")
    (fleet.folder / "sick").write_text(sick.out)
    fleet.program(
        "rdmadiag",
        '#!/bin/sh\nif [ -f "$FAKE_FLEET/$NODE" ]; then . "$FAKE_FLEET/$NODE"; fi\n'
        'case $NODE in bad*) cat "$FAKE_FLEET/sick"; exit 2;; esac\ncat "$FAKE_FLEET/healthy"\n',
    )
    return fleet


def test_all_nodes_are_fit(documents: Fleet, rdmadiag: Rdmadiag) -> None:
    found = rdmadiag("fleet", "run", "-w", "n[1-5]", "--", "preflight")
    assert found.code == 0
    assert found.out.splitlines()[0] == "OK 5 of 5 are fit"
    assert len(documents.log) == 5
    assert documents.log[0].endswith("rdmadiag preflight --json")


def test_how_it_is_done_and_that_nothing_is_drained_is_said_on_stderr(
    documents: Fleet, rdmadiag: Rdmadiag
) -> None:
    argv = ("fleet", "run", "-w", "n[1-5]", "--fanout", "2", "--host-deadline", "40")
    said = rdmadiag(*argv, "--", "preflight").err
    assert said == (
        "rdmadiag: ssh to 5 nodes, 2 at once; at most 40 s each and 125 s in all; "
        "nothing is changed there, drained or cordoned\n"
    )
    assert rdmadiag(*argv, "--quiet", "--", "preflight").err == ""


def test_each_node_without_a_report_is_named_with_its_reason(
    documents: Fleet, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    documents.does("n3", "exit 127")
    documents.does("n4", "sleep 60")
    documents.does("n5", "echo 'Welcome to n5'; exit 0")
    documents.does("n6", 'head -c 3000 "$FAKE_FLEET/healthy"; kill -9 $$')
    documents.does("n7", "echo 'Permission denied (publickey).' >&2; exit 255")
    documents.does("n8", "echo 'rdmadiag: no such option --x' >&2; exit 64")
    passed, failed = tmp_path / "passed", tmp_path / "failed"
    argv = ["-w", "n[1-8],bad1", "--host-deadline", "8", "--passed", str(passed)]
    found = rdmadiag("fleet", "run", *argv, "--failed", str(failed), "--json", "--", "preflight")
    assert found.code == 2, "critical is worse than unknown"
    assert passed.read_text() == "n[1-2]\n"
    assert failed.read_text() == "bad1,n[3-8]\n"
    reasons = {each["reason"]: each["nodes"] for each in found.document["groups"]}
    assert reasons["no-usable-gid"] == "bad1"
    whys = {
        each["node"]: each["detail"] for each in found.document["unused"] if each["gap"] == "failed"
    }
    assert whys["n3"] == "no rdmadiag there, or not in its PATH"
    assert whys["n4"] == "did not end before its deadline"
    assert whys["n7"] == "not reached: Permission denied (publickey)."
    assert whys["n8"] == "exit code 64 and no report: rdmadiag: no such option --x"
    others = {each["node"]: each["gap"] for each in found.document["unused"]}
    assert others["n5"] == "foreign"
    assert others["n6"] in ("torn", "failed")
    assert found.document["hosts"]["expected"] == 9
    assert "no rdmadiag on n3" in found.err


def test_a_report_is_the_nodes_that_printed_it_whatever_name_stands_in_it(
    documents: Fleet, rdmadiag: Rdmadiag
) -> None:
    sick = json.loads((documents.folder / "sick").read_text())
    sick["host"]["hostname"] = "n1"
    (documents.folder / "liar").write_text(json.dumps(sick))
    documents.does("n2", 'cat "$FAKE_FLEET/liar"; exit 2')
    plays = {"plays": [{"tasks": [{"hosts": {"n1": {"stdout": json.dumps(sick)}}}]}]}
    (documents.folder / "ansible").write_text(json.dumps(plays))
    documents.does("n3", 'cat "$FAKE_FLEET/ansible"')
    found = rdmadiag("fleet", "run", "-w", "n[1-3]", "--json", "--", "preflight").document
    rows = {each["node"]: each["status"] for each in found["rows"]}
    assert rows == {"n1": "ok", "n2": "critical", "n3": None}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pingpong",), "fleet run starts no 'pingpong'"),
        (("exercise",), "fleet run starts no 'exercise'"),
        (("snapshot", "x"), "fleet run starts no 'snapshot'"),
        (("fleet", "run"), "fleet run starts no 'fleet'"),
        (("reboot",), "fleet run starts no 'reboot'"),
        (("preflight", "--output", "x"), "--output of preflight"),
        (("preflight", "--output=x"), "--output of preflight"),
        (("counters", "--watch"), "--watch of counters"),
        (("gids", "--no-such"), "No such option"),
        (("gids", "a\nb"), "is no argument for a node"),
    ],
)
def test_what_is_no_reading_command_is_refused_before_anything_is_started(
    fleet: Fleet, rdmadiag: Rdmadiag, words: tuple[str, ...], said: str
) -> None:
    found = rdmadiag("fleet", "run", "-w", "n1", "--", *words)
    assert (found.code, found.out) == (64, "")
    assert said in found.err
    assert fleet.log == []


def test_every_reading_command_is_one_and_has_the_options_that_are_refused() -> None:
    from importlib import import_module

    from rdmadiag.cli import COMMANDS

    assert set(READING) <= set(COMMANDS)
    for name, refused in READING.items():
        options = {each.name for each in import_module(f"rdmadiag.cli.{name}").command.params}
        assert options >= {*refused, "as_json", "format", "timeout"}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((), "which nodes?"),
        (("-w", "n1;reboot"), "n1;reboot"),
        (("-w", "-oProxyCommand=x"), "ProxyCommand"),
        (("-w", "n1", "-x", "n1"), "leaves no node"),
        (("-w", "n1", "--via", "rsh"), "ssh, srun, or"),
        (("-w", "n1", "--via", "exec:ssh n1"), "has no %h"),
        (("-w", "n1", "--via", "exec:%h x"), "no program to run"),
        (("-w", "n1", "--via", "exec:ssh %h %x"), "'%x' stands for nothing"),
        (("-w", "n1", "--via", "srun"), "within a job"),
        (("-w", "n1", "--via", "exec:no-such-program %h"), "no such program here"),
    ],
)
def test_nodes_and_ways_that_are_none_are_refused(
    fleet: Fleet, rdmadiag: Rdmadiag, argv: tuple[str, ...], said: str
) -> None:
    found = rdmadiag("fleet", "run", *argv, "--", "gids")
    assert found.code == 64
    assert said in found.err
    assert fleet.log == []


def test_another_program_gets_the_command_as_words_of_its_own(
    fleet: Fleet, rdmadiag: Rdmadiag
) -> None:
    fleet.program("kubectl", '#!/bin/sh\nprintf "%s|" "$@"\n')
    via = ("--via", "exec:kubectl exec %h -c 'a b' --")
    found = rdmadiag("fleet", "run", "-w", "pod1", *via, "--", "gids", "--stack", "nccl")
    assert "exec|pod1|-c|a b|--|rdmadiag|gids|--stack|nccl|" in found.out
    refused = rdmadiag("fleet", "run", "-w", "pod1", *via, "--", "gids", "--device", "$(id)")
    assert refused.code == 64
    assert "plain words alone" in refused.err


def test_equal_texts_stand_once_with_their_nodes(fleet: Fleet, rdmadiag: Rdmadiag) -> None:
    for number in range(1, 6):
        fleet.does(f"n{number}", "echo one; echo two; exit 0")
    fleet.does("n2", "printf 'one\\033[2J\\n'; echo note of n2 >&2; exit 1")
    fleet.does("n4", "exit 127")
    found = rdmadiag("fleet", "run", "-w", "n[1-5]", "--", "gids")
    assert found.code == 3
    assert found.out.splitlines() == [
        "4 of 5 nodes answered gids",
        "no answer from n4: no rdmadiag there, or not in its PATH",
        "",
        "n[1,3,5] (3):",
        "  one",
        "  two",
        "",
        "n2:",
        r"  one\x1b[2J",
    ]
    assert "rdmadiag: n2: note of n2\n" in found.err


def test_json_is_a_line_for_each_node(fleet: Fleet, rdmadiag: Rdmadiag) -> None:
    fleet.does("n1", "echo '{\"a\": 1}'; exit 0")
    fleet.does("n2", "echo '{\"a\": 1'; echo torn >&2; exit 2")
    fleet.does("n3", "exit 127")
    found = rdmadiag("fleet", "run", "-w", "n[1-3]", "--json", "--", "gids")
    rows = [json.loads(line) for line in found.out.splitlines()]
    assert [(each["node"], each["ending"], each["exit_code"]) for each in rows] == [
        ("n1", "answered", 0),
        ("n2", "answered", 2),
        ("n3", "not_installed", 127),
    ]
    assert (rows[0]["document"], rows[0]["text"]) == ({"a": 1}, None)
    assert (rows[1]["document"], rows[1]["text"]) == (None, '{"a": 1\n')
    assert rows[1]["stderr"] == "torn\n"
    assert all(line.endswith("rdmadiag gids --json") for line in fleet.log)
    assert found.code == 2


def test_a_short_deadline_of_a_node_is_the_commands_too(fleet: Fleet, rdmadiag: Rdmadiag) -> None:
    rdmadiag("fleet", "run", "-w", "n1", "--host-deadline", "6", "--", "gids")
    assert fleet.log[0].endswith("rdmadiag gids --timeout=3")


def test_without_clustershell_one_line_says_what_to_install(fleet: Fleet) -> None:
    code = (
        "import sys; sys.modules['ClusterShell'] = None; from rdmadiag.__main__ import main; main()"
    )
    argv = ["fleet", "run", "-w", "n1", "--", "gids"]
    done = subprocess.run(
        [sys.executable, "-c", code, *argv], capture_output=True, text=True, check=False
    )
    assert done.returncode == 64
    assert done.stderr.splitlines() == [
        "rdmadiag: a fleet is reached with ClusterShell: pip install 'rdmadiag[fleet]'"
    ]


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_with_all_it_started(fleet: Fleet, number: int) -> None:
    for name in ("n1", "n2", "n3"):
        fleet.does(name, f"echo > $FAKE_FLEET/begun-$NODE; sh -c 'sleep 60; : {WORD}'; exit 0")
    program = str(Path(sys.executable).with_name("rdmadiag"))
    child = subprocess.Popen(
        [program, "fleet", "run", "-w", "n[1-3]", "--", "gids"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 30
    while not all((fleet.folder / f"begun-n{each}").exists() for each in (1, 2, 3)):
        assert time.monotonic() < until
        time.sleep(0.05)
    os.kill(child.pid, number)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out) == (128 + number, "")
    assert err.splitlines()[-1] == "rdmadiag: stopped; all that was started here has been ended"
    assert running(WORD) == []


@linux
def test_within_a_job_one_srun_reaches_all_of_its_nodes(
    documents: Fleet, rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents.program(
        "srun",
        '#!/bin/sh\nprintf "%s\\n" "$*" >> "$FAKE_FLEET/log"\n'
        'while [ "$1" != -- ]; do shift; done; shift\n'
        "for task in 0 1 2; do\n"
        '  NODE=n$((task + 1)) SLURMD_NODENAME=n$((task + 1)) "$@" | sed "s/^/$task: /"\n'
        "done\n",
    )
    documents.does("n3", "exit 127")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-3]")
    found = rdmadiag("fleet", "run", "--json", "--", "preflight")
    assert found.err.startswith("rdmadiag: one srun on 3 nodes of job 17; at most 60 s each")
    assert len(documents.log) == 1
    assert documents.log[0].startswith(
        "--nodelist=n[1-3] --nodes=3 --ntasks=3 --ntasks-per-node=1 --label"
    )
    rows = {each["node"]: each["status"] for each in found.document["rows"]}
    assert rows == {"n1": "ok", "n2": "ok", "n3": None}
    assert found.code == 3
    of_ssh = rdmadiag("fleet", "run", "--via", "ssh", "-w", "n1", "--", "preflight")
    assert "ssh to 1 node" in of_ssh.err
    outside = rdmadiag("fleet", "run", "-w", "n[1-4]", "--", "preflight")
    assert "ssh to 4 nodes" in outside.err
