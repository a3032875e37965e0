"""64 names by real ssh to a real sshd, each with a record of its own: which of them says what."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.sshd import Sshd, free_port
from rdmadiag.samples import folder as sample
from tests.fleet.test_launch import running
from tests.schema.described import assert_described

Rdmadiag = Callable[..., tuple[int, str, str]]

PROGRAM = str(Path(sys.executable).with_name("rdmadiag"))
OBEYING = ("env", "--default-signal=INT")  # which a shell in the background has ignored
HEALTHY = tuple(f"n{number:02}" for number in range(1, 53))
SICK = ("n53", "n54", "n55", "n56")
REFUSES, SILENT, HANGS = ("n57", "n58"), "n59", "n60"
GARBAGE, FLOOD, TORN, WITHOUT = "n61", "n62", "n63", "n64"
COPIED = ("c1", "c2")

SCRIPT = """\
#!/bin/sh
export TMPDIR={folder}/tmp PATH={bin}:$PATH
case $NODE in
n60) echo $$ > {folder}/hanging; exec sleep 1000;;
n61) echo 'Last login: Mon'; head -c 3000 /dev/urandom;;
n62) exec cat /dev/zero;;
n63) rdmadiag preflight --json --from {folder}/n63 | head -c 5000; kill -9 $$;;
n64) exec sh -c 'no-such-rdmadiag preflight';;
c*) exec sh -c "$SSH_ORIGINAL_COMMAND";;
*) exec $SSH_ORIGINAL_COMMAND --from {folder}/$NODE;;
esac
"""


@dataclass(frozen=True)
class Fleet:
    """How to reach it."""

    options: tuple[str, ...]
    scratch: Path  # where --copy unpacks
    hanging: Path  # the process that hangs, by its number


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """sshd, a port that accepts and says nothing, and one where nothing listens."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "tmp").mkdir()
    for node in (*HEALTHY, *SICK, TORN):
        record(folder / node, "roce-empty-gid-table" if node in SICK else "roce-healthy", node)
    nobody = free_port()
    with socket.create_server(("127.0.0.1", 0), backlog=50) as silent:
        names = dict.fromkeys((*HEALTHY, *SICK, HANGS, GARBAGE, FLOOD, TORN, WITHOUT, *COPIED))
        ports = names | dict.fromkeys(REFUSES, nobody) | {SILENT: silent.getsockname()[1]}
        script = SCRIPT.format(folder=folder, bin=Path(PROGRAM).parent)
        with Sshd(script, ports) as sshd:
            options = ("fleet", "run", "--ssh-options", f"-F {sshd.config}")
            yield Fleet(options, folder / "tmp", folder / "hanging")


def record(folder: Path, of: str, hostname: str) -> None:
    """A host of its own."""
    shutil.copytree(sample(of), folder)
    meta = json.loads((folder / "meta.json").read_text())
    meta["identity"]["hostname"] = hostname
    (folder / "meta.json").write_text(json.dumps(meta))


def test_each_of_64_names_is_accounted_for_within_the_deadline(
    fleet: Fleet, rdmadiag: Rdmadiag
) -> None:
    begun = time.monotonic()
    limits = ("--host-deadline", "30", "--deadline", "150", "--fanout", "16")
    argv = (*fleet.options, "-w", "n[01-64]", *limits, "--json", "--", "preflight")
    code, out, _ = rdmadiag(*argv, timeout=240)
    found = json.loads(out)
    assert_described(found)
    assert time.monotonic() - begun < 230, "the deadline, and what starting and adding up take"
    assert code == 2
    assert found["hosts"] == {"expected": 64, "reported": 56, "fit": 52}
    status = {each["node"]: each["status"] for each in found["rows"]}
    assert [node for node in status if status[node] in ("ok", "warn")] == list(HEALTHY)
    assert [node for node in status if status[node] == "critical"] == list(SICK)
    reasons = {each["reason"]: each["nodes"] for each in found["groups"]}
    assert reasons["no-usable-gid"] == "n[53-56]"
    whys: dict[str, str] = {}
    for each in found["unused"]:
        whys[each["node"]] = f"{whys.get(each['node'], '')} {each['gap']}: {each['detail']}"
    assert set(whys) == {*REFUSES, SILENT, HANGS, GARBAGE, FLOOD, TORN, WITHOUT}
    for node in REFUSES:
        assert "Connection refused" in whys[node]
    assert "not reached" in whys[SILENT]
    assert "did not end before its deadline" in whys[HANGS]
    assert "foreign: Last login: Mon" in whys[GARBAGE]
    assert "wrote more than is kept" in whys[FLOOD]
    assert "torn: ends in its middle, after 5000 bytes" in whys[TORN]
    assert "no rdmadiag there" in whys[WITHOUT]
    assert running("ssh -F") == []


def test_other_commands_print_what_each_node_did(fleet: Fleet, rdmadiag: Rdmadiag) -> None:
    _, out, err = rdmadiag(*fleet.options, "-w", "n[01-08,53]", "--", "gids", "--stack", "nccl")
    assert out.splitlines()[0] == "9 of 9 nodes answered gids"
    assert [line for line in out.splitlines() if line in ("n01:", "n53:")] == ["n01:", "n53:"]
    assert "nothing is changed there, drained or cordoned" in err


def test_nothing_is_left_of_it_after_a_signal(fleet: Fleet) -> None:
    argv = [PROGRAM, *fleet.options, "-w", f"n[01-16],{HANGS},{SILENT}", "--", "preflight"]
    with subprocess.Popen(
        [*OBEYING, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        until = time.monotonic() + 60
        while len(running("ssh -F")) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(1)
        os.kill(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=30)
    assert (child.returncode, out) == (130, b"")
    assert err.endswith(b"stopped; all that was started here has been ended\n")
    assert running("ssh -F") == []


def left(scratch: Path) -> list[str]:
    """What is in it after five seconds, or before if there is nothing."""
    until = time.monotonic() + 5
    while os.listdir(scratch) and time.monotonic() < until:
        time.sleep(0.05)
    return os.listdir(scratch)


def test_a_copy_runs_where_nothing_is_installed_and_goes(fleet: Fleet, rdmadiag: Rdmadiag) -> None:
    argv = ("-w", "c[1-2]", "--copy", "--python", sys.executable, "--json")
    _, out, _ = rdmadiag(*fleet.options, *argv, "--", "gids", "--sample", "x y; $(id)")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(each["node"], each["ending"]) for each in rows] == [
        ("c1", "answered"),
        ("c2", "answered"),
    ]
    assert all("x y; $(id)" in each["stderr"] for each in rows), "an argument is one word there"
    _, out, _ = rdmadiag(*fleet.options, *argv, "--", "devices")
    assert [json.loads(line)["document"]["devices"] for line in out.splitlines()] == [[], []]
    assert left(fleet.scratch) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_copy_goes_also_where_ssh_is_lost(fleet: Fleet, number: int, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hangs")  # a command that waits until its own timeout
    options = ("-w", "c[1-2]", "--copy", "--python", sys.executable)
    words = ("gids", "--env-from", str(tmp_path / "hangs"))
    argv = [PROGRAM, *fleet.options, *options, "--", *words]
    with subprocess.Popen(
        [*OBEYING, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        until = time.monotonic() + 150
        while not copies(fleet.scratch):  # the other may still be on its way
            assert time.monotonic() < until
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(child.pid, number)
        child.communicate(timeout=30)
    assert left(fleet.scratch) == []
    assert running(str(tmp_path / "hangs")) == []


def copies(scratch: Path) -> list[Path]:
    """Those that are unpacked whole."""
    return list(scratch.glob("rdmadiag-copy-*/typing_inspection/__init__.py"))


def test_a_command_that_is_killed_there_is_named(fleet: Fleet, rdmadiag: Rdmadiag) -> None:
    fleet.hanging.unlink(missing_ok=True)

    def kill() -> None:
        until = time.monotonic() + 60
        while not (fleet.hanging.exists() and fleet.hanging.read_text()):
            assert time.monotonic() < until
            time.sleep(0.1)
        os.kill(int(fleet.hanging.read_text()), signal.SIGKILL)

    killing = threading.Thread(target=kill)
    killing.start()
    code, out, _ = rdmadiag(*fleet.options, "-w", f"n01,{HANGS}", "--", "preflight")
    killing.join()
    assert code == 3
    assert "n60 failed" in out
    assert "Hosts: 2 expected, 1 reported, 1 fit." in out
