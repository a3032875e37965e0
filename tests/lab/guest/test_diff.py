"""A live host before and after a fault: `diff` of two snapshots names it, and so does --since."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.rxe import Rxe

Rdmadiag = Callable[..., tuple[int, str, str]]
Call = Callable[..., tuple[int, Any]]

FAULTS = {
    "the link is down": (
        ("link", "set", "veth0", "down"),
        ("worse", "link-not-up", "rxe0", 1),
        {"netdev.admin_up: yes > no", "state: active > down"},
    ),
    "the MTU changed": (
        ("link", "set", "veth0", "mtu", "900"),
        ("worse", "mtu-differs-in-subnet", "rxe0", 1),
        {"netdev.mtu: 1500 > 900", "active_mtu: 1024 > 512"},
    ),
    "the address of the route GID was removed": (
        ("address", "del", "192.0.2.1/24", "dev", "veth0"),
        None,
        {"gid_index: 1 > 2"},
    ),
}


def facts(document: Any, device: str) -> set[str]:
    """Of its port: "netdev.mtu: 1500 > 900"."""
    return {
        f"{each['fact'].rpartition(']')[2][1:]}: {each['before']} > {each['after']}"
        for each in document["changes"]
        if each["fact"] and each["device"] == device and each["port"] == 1
    }


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fault", FAULTS)
def test_diff_names_a_fault_of_a_live_host(
    fault: str,
    rxe_pair: tuple[Rxe, Rxe],
    rdmadiag: Rdmadiag,
    rdmadiag_json: Call,
    tmp_path: Path,
) -> None:
    argv, finding, wanted = FAULTS[fault]
    before, after = str(tmp_path / "before"), str(tmp_path / "after.tar.gz")
    assert rdmadiag("snapshot", before)[0] == 0
    assert rdmadiag_json("diff", before, before)[0] == 0
    subprocess.run(("ip", *argv), check=True, timeout=60)
    code, live = rdmadiag_json("preflight", "--since", before)
    assert rdmadiag("snapshot", after)[0] == 0
    differs, document = rdmadiag_json("diff", before, after)
    assert differs == 1, document
    assert document["hosts"]["is_same"] is True
    assert wanted <= facts(document, "rxe0")
    if finding is not None:
        found = {
            (each["kind"], each["rule"], each["device"], each["port"])
            for each in document["changes"]
            if each["fact"] is None
        }
        assert finding in found
    assert wanted <= facts(live["changed_since"], "rxe0")
    assert code == rdmadiag_json("preflight")[0], "what changed is no part of the verdict"


def test_two_records_of_an_untouched_host_are_the_same(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag, rdmadiag_json: Call, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        assert rdmadiag("snapshot", str(tmp_path / name))[0] == 0
    code, document = rdmadiag_json("diff", str(tmp_path / "one"), str(tmp_path / "two"))
    assert (code, document["changes"]) == (0, []), document
    record = str(tmp_path / "one")
    _, live = rdmadiag_json("preflight", "--since", record, "--timeout", "30")
    since = live["changed_since"]
    assert since["changes"] == []
    assert {each["why"] for each in since["not_compared"]} == set()
