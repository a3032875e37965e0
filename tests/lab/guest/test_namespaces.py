"""Devices of other network namespaces, in shared and in exclusive mode."""

import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import until

Call = Callable[..., tuple[int, Any]]
Run = Callable[..., Any]
READY_SECONDS = 30.0

pytestmark = pytest.mark.needs("rxe in namespaces")


@pytest.fixture
def do(run: Run) -> Callable[..., str]:
    def call(*commands: str) -> str:
        for command in commands:
            done = run(command.split(), timeout=READY_SECONDS)
            assert done.returncode == 0, f"{command}: {done.stderr}"
        return str(done.stdout)

    return call


@pytest.fixture
def hosts(do: Callable[..., str], run: Run) -> Iterator[None]:
    """h1 and h2, each with an eth0 and an rxe device on it."""
    do("ip link add leg1 type veth peer name leg2")
    try:
        for number in (1, 2):
            host = f"h{number}"
            do(f"ip netns add {host}", f"ip link set leg{number} netns {host} name eth0")
            do(f"ip -n {host} address add 192.0.2.{number}/24 dev eth0")
            do(f"ip -n {host} link set eth0 up", f"ip -n {host} link set lo up")
            do(f"ip netns exec {host} rdma link add rxe{number} type rxe netdev eth0")
        for host in ("h1", "h2"):  # duplicate address detection takes a second
            tentative = f"ip -n {host} -6 address show tentative"
            assert until(partial(lambda command: not do(command), tentative), READY_SECONDS)
        yield
    finally:
        # `ip netns del` returns before the namespace has gone, and whoever makes one meanwhile gets
        # ENODEV: rdma_dev_init_net asks every device for its port, and rxe_query_port finds no
        # netdev any more. `rdma link del` returns when the device has gone.
        for number in (1, 2):
            run(["rdma", "link", "del", f"rxe{number}"], timeout=READY_SECONDS)
        for number in (1, 2):
            run(["ip", "netns", "del", f"h{number}"], timeout=READY_SECONDS)


def found(document: Any) -> set[tuple[str, str, str]]:
    return {
        (each["rule"], each["severity"], each["device"])
        for each in document["verdict"]["findings"]
        if each["device"]
    }


@pytest.mark.usefixtures("hosts")
class TestShared:
    def test_another_namespaces_eth0_is_not_ours(
        self, do: Callable[..., str], rdmadiag_json: Call
    ) -> None:
        do("ip link add eth0 type dummy")
        try:
            for change in ("ip link set eth0 down", "ip link set eth0 up"):
                do(change)
                code, document = rdmadiag_json("preflight")
                assert code == 1
                assert found(document) == {
                    ("route-netdev-absent", "warn", "rxe1"),
                    ("route-netdev-absent", "warn", "rxe2"),
                }
                assert document["verdict"]["safe_to_attempt_rtr"] is True
            code, document = rdmadiag_json("counters", "--interval", "0")
            assert [each for each in document["sample"]["sets"] if each["netdev"]] == []
        finally:
            do("ip link del eth0")

    def test_what_changes_at_our_eth0_is_no_change_of_theirs(
        self,
        do: Callable[..., str],
        rdmadiag: Callable[..., Any],
        rdmadiag_json: Call,
        tmp_path: Path,
    ) -> None:
        before, after = str(tmp_path / "before"), str(tmp_path / "after")
        do("ip link add eth0 type dummy", "ip link set eth0 up")
        try:
            assert rdmadiag("snapshot", before)[0] == 0
            do("ip link set eth0 mtu 1400")
            assert rdmadiag("snapshot", after)[0] == 0
        finally:
            do("ip link del eth0")
        _, document = rdmadiag_json("diff", before, after)
        assert [each for each in document["changes"] if each["device"]] == [], document

    def test_in_its_own_namespace_a_device_has_its_netdev(self, rdmadiag_json: Call) -> None:
        _, document = rdmadiag_json("preflight", prefix=("ip", "netns", "exec", "h1"))
        assert found(document) == {("route-netdev-absent", "warn", "rxe2")}

    def test_a_queue_pair_reaches_from_one_to_the_other_from_a_third(self) -> None:
        argv = ["timeout", "60", "ibv_rc_pingpong", "-g", "1", "-n", "20", "-d"]
        with subprocess.Popen([*argv, "rxe1"], stdout=subprocess.DEVNULL) as server:
            for _ in range(30):
                done = subprocess.run(
                    [*argv, "rxe2", "127.0.0.1"], capture_output=True, text=True, check=False
                )
                if done.returncode == 0:
                    break
            assert done.returncode == 0, done.stderr
            assert server.wait(30) == 0


@pytest.fixture
def exclusive(do: Callable[..., str], run: Run) -> Iterator[None]:
    """The mode cannot be changed while another namespace is there, or still on its way out."""

    def change(mode: str) -> bool:
        argv = ["rdma", "system", "set", "netns", mode]
        return bool(run(argv, timeout=READY_SECONDS).returncode == 0)

    assert until(lambda: change("exclusive"), READY_SECONDS)
    try:
        yield
    finally:
        assert until(lambda: change("shared"), READY_SECONDS)


def test_in_exclusive_mode_a_host_without_a_device_hears_of_the_mode(
    exclusive: None, do: Callable[..., str], rdmadiag_json: Call
) -> None:
    do("ip link add veth0 type veth peer name veth1", "ip netns add pod")
    try:
        do("ip link set veth0 up", "rdma link add rxe0 type rxe netdev veth0")
        code, document = rdmadiag_json("preflight", prefix=("ip", "netns", "exec", "pod"))
    finally:
        do("ip netns del pod", "ip link del veth0")
    assert code == 3
    (finding,) = document["verdict"]["findings"]
    assert finding["rule"] == "no-rdma-device"
    assert "exclusive netns mode; another network namespace has rxe0" in finding["summary"]
    assert not any("lspci" in line for line in finding["remedy"])
