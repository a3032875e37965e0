"""Hosts that differ, made of one live kernel that is changed between its reports."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
