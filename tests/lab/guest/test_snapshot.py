"""Records of this host, kept for the replay on another machine (tests/lab/replay)."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.recorded import comparable
from lab.rxe import Rxe

Rdmadiag = Callable[..., tuple[int, str, str]]
Run = Callable[..., Any]

OUT = Path(os.environ.get("RDMADIAG_LAB_OUT", "/nowhere")) / "recorded"


def assert_replays(name: str, rdmadiag: Rdmadiag, *, archive: bool = False, **how: Any) -> None:
    """A snapshot beside what the commands said live, all under the same name."""
    OUT.mkdir(parents=True, exist_ok=True)
    # An ordinary user cannot write to this machine's folder; root brings the record there.
    open_to_all = Path(tempfile.mkdtemp())
    open_to_all.chmod(0o777)
    target = open_to_all / (f"{name}.tar.gz" if archive else name)
    for command in ("preflight", "gids", "devices"):
        code, out, err = rdmadiag(command, "--json", **how)
        assert out, err
        live = {"exit_code": code, "document": json.loads(out)}
        (OUT / f"{name}.{command}.json").write_text(json.dumps(live, indent=1))
    code, _, err = rdmadiag("snapshot", str(target), **how)
    assert code == 0, err
    replayed = rdmadiag("preflight", "--json", "--from", str(target), **how)
    live = json.loads((OUT / f"{name}.preflight.json").read_text())
    found, wanted = comparable(json.loads(replayed[1])), comparable(live["document"])
    assert found["verdict"] == wanted["verdict"]
    assert replayed[0] == live["exit_code"]
    shutil.move(target, OUT / target.name)


def test_a_healthy_host(rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag) -> None:
    assert_replays("rxe-healthy", rdmadiag)


@pytest.mark.other_kernels(0)
def test_a_healthy_host_as_an_archive(rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag) -> None:
    assert_replays("rxe-healthy-archive", rdmadiag, archive=True)


@pytest.mark.other_kernels(0)
def test_a_host_whose_netdev_is_down(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag, run: Run
) -> None:
    run(["ip", "link", "set", "veth0", "down"], timeout=30)
    assert_replays("rxe-netdev-down", rdmadiag)


@pytest.mark.other_kernels(0)
def test_a_host_without_addresses(rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag, run: Run) -> None:
    run(["ip", "address", "flush", "dev", "veth0"], timeout=30)
    assert_replays("rxe-no-address", rdmadiag)


def test_a_host_with_a_hole_in_its_table(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag, run: Run
) -> None:
    run(["ip", "address", "add", "198.51.100.1/24", "dev", "veth0"], timeout=30)
    run(["ip", "address", "del", "192.0.2.1/24", "dev", "veth0"], timeout=30)
    assert_replays("rxe-hole-in-table", rdmadiag)


@pytest.mark.other_kernels(0)
def test_a_host_seen_by_an_ordinary_user_who_may_not_open_the_node(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag
) -> None:
    os.chmod("/dev/infiniband/uverbs0", 0)
    assert_replays("rxe-node-closed", rdmadiag, user=65534)


@pytest.mark.other_kernels(0)
def test_a_host_with_link_local_addresses_alone(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag, run: Run
) -> None:
    run(["ip", "-4", "address", "flush", "dev", "veth0"], timeout=30)
    run(["ip", "-6", "address", "flush", "dev", "veth0", "scope", "global"], timeout=30)
    time.sleep(2)
    assert_replays("rxe-link-local-only", rdmadiag)


@pytest.mark.other_kernels(0)
def test_a_host_without_ipv4(rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag, run: Run) -> None:
    run(["ip", "-4", "address", "flush", "dev", "veth0"], timeout=30)
    time.sleep(2)
    assert_replays("rxe-ipv6-only", rdmadiag)


@pytest.mark.other_kernels(0)
def test_a_host_with_two_mtus_on_one_cable(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag, run: Run
) -> None:
    run(["ip", "link", "set", "veth0", "mtu", "9000"], timeout=30)
    assert_replays("rxe-two-mtus", rdmadiag)


@pytest.mark.other_kernels(0)
def test_a_host_whose_environment_names_another_hosts_device(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag
) -> None:
    assert_replays("rxe-env-absent-device", rdmadiag, prefix=("env", "NCCL_IB_HCA==mlx5_0"))


@pytest.mark.other_kernels(0)
def test_a_host_with_a_low_limit_above_the_process(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag
) -> None:
    raised = 'prlimit --memlock=unlimited:unlimited "$@"; exit $?'
    above = ("prlimit", "--memlock=65536:unlimited", "bash", "-c", raised, "bash")
    assert_replays("rxe-launcher-limited", rdmadiag, prefix=above)
