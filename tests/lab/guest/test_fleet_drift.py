"""Hosts that differ, made of one live kernel that is changed between its reports."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lab.guest.test_reads_only import CHANGES, OWN, STRACE, WRITES

Rdmadiag = Callable[..., tuple[int, str, str]]
Call = Callable[..., tuple[int, Any]]
FIRST = "adapter[0].port[1]."


def named(node: str, *argv: str) -> tuple[str, ...]:
    """Before a command: it runs under this host name, with these settings."""
    settings = "".join(f"{each}; " for each in argv)
    script = f'hostname {node}; {settings}exec "$@"'
    return ("unshare", "--uts", "bash", "-c", script, "named")


def ip(*argv: str) -> None:
    subprocess.run(("ip", *argv), check=True, timeout=60)


def test_what_is_changed_on_a_live_host_is_drift_and_keeps_its_stacks_from_the_others(
    rxe_pair: object, rdmadiag_json: Call, tmp_path: Path
) -> None:
    """rxe takes its MTU from the netdev: 1024 of 1500 bytes, 512 of 900 (eth_mtu_int_to_enum)."""

    def report(node: str, *argv: str) -> None:
        _, document = rdmadiag_json("preflight", prefix=named(node, *argv))
        (tmp_path / f"{node}.json").write_text(json.dumps(document))

    for node in ("n1", "n2", "n3"):
        report(node)
    ip("link", "set", "veth0", "mtu", "900")
    report("n4", "ulimit -l 64", "export NCCL_IB_GID_INDEX=0")
    _, merged = rdmadiag_json("fleet", "merge", str(tmp_path))
    found = {
        each["fact"]: (each["majority"], each["odd"][0]["value"], each["odd"][0]["nodes"])
        for each in merged["drift"]
    }
    assert found[f"{FIRST}netdev.mtu"] == ("1500", "900", "n4")
    assert found[f"{FIRST}active_mtu"] == ("1024", "512", "n4")
    assert found["memlock.soft"][1:] == ("65536", "n4")
    assert found["variable.NCCL_IB_GID_INDEX"] == ("(not set)", "0", "n4")
    picks = [fact for fact, (_, odd, _) in found.items() if ".pick." in fact and odd[0] == "0"]
    assert picks, "the stacks that read the variable, in one row"
    assert {each["odd"][0]["nodes"] for each in merged["drift"]} == {"n4"}


@pytest.mark.long
def test_a_history_says_what_changed_before_a_live_host_broke(
    rxe_pair: object, rdmadiag_json: Call, tmp_path: Path
) -> None:
    history = str(tmp_path / "fleet.db")

    def merge(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        _, document = rdmadiag_json("preflight", prefix=named("n1"))
        (folder / "n1.json").write_text(json.dumps(document))
        rdmadiag_json("fleet", "merge", str(folder), "--history", history)

    merge(1)
    ip("link", "set", "veth0", "down")
    merge(2)
    code, said = rdmadiag_json("fleet", "history", "n1", "--history", history)
    (node,) = said["nodes"]
    assert (node["merges"], node["trend"]) == (2, "worse")
    assert code != 0
    changed = {each["fact"]: (each["before"], each["after"]) for each in node["changed"]}
    assert changed[f"{FIRST}netdev.admin_up"] == ("yes", "no")
    assert changed["adapter[0-1].port[1].state"] == ("active", "down"), "both ends of its cable"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "argv",
    [
        ("merge", "IN", "--passed", "OUT/passed", "--failed", "OUT/failed", "--html", "OUT/html"),
        ("merge", "IN", "--history", "OUT/db"),
        ("merge", "IN", "--judge-again", "-o", "junit"),
        ("history", "n1", "--history", "IN/db"),
        ("run", "-w", "n[1-2]", "--via", "exec:env NODE=%h", "--", "preflight"),
    ],
    ids=["merge into files", "merge into a history", "judged again", "a history", "run"],
)
def test_a_fleet_command_writes_the_files_that_were_asked_for_and_no_other(
    argv: tuple[str, ...],
    rxe_pair: object,
    rdmadiag: Rdmadiag,
    rdmadiag_json: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin")
    given, out = tmp_path / "in", tmp_path / "out"
    given.mkdir(), out.mkdir()
    if argv[0] != "run":
        _, document = rdmadiag_json("preflight", prefix=named("n1"))
        (given / "n1.json").write_text(json.dumps(document))
    if argv[0] == "history":
        rdmadiag_json("fleet", "merge", str(given), "--history", str(given / "db"))
    before = {path: path.read_bytes() for path in given.iterdir()}
    words = [word.replace("IN", str(given)).replace("OUT", str(out)) for word in argv]
    log = tmp_path / "strace"
    code, _, err = rdmadiag("fleet", *words, prefix=(*STRACE, str(log)), timeout=400)
    lines = log.read_text().splitlines()
    assert code in (0, 1, 3), err
    assert len(lines) > 100, "strace saw nothing"
    asked = {Path(word).name for word in words if word.startswith(f"{out}/")}
    assert {path.name for path in out.iterdir()} == asked
    assert {path: path.read_bytes() for path in given.iterdir()} == before
    names = "|".join(map(re.escape, asked)) or "none"
    own = re.compile(
        rf'{OWN}|"({re.escape(str(out))}[/"]|/dev/null"|/dev/infiniband/)|'
        rf' openat\(\d+, "({names})(-journal|-wal|-shm)?", | fchmod\(\d+, 06'
    )
    touched = [line for line in lines if CHANGES.search(line)]
    touched += [line for line in lines if "open" in line and WRITES.search(line)]
    assert [line for line in touched if not own.search(line)] == []
