"""Soft RoCE on a simulated network device, which has what hardware has: devlink, health."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.netdevsim import BUS, simulated
from lab.rxe import Rxe
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.vfs import VfFacts
from rdmadiag.host.live import LiveHost
from rdmadiag.sources.vfs import read_vfs

pytestmark = pytest.mark.needs("netdevsim")

NUMBER = 10
SECONDS = 30.0

Call = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def rxe() -> Iterator[Rxe]:
    """rxe0 on the port of a simulated device."""
    with simulated(NUMBER) as device:
        yield device


def test_the_host_is_ready_over_the_simulated_port(rxe: Rxe, rdmadiag_json: Call) -> None:
    code, document = rdmadiag_json("preflight")
    assert (code, document["verdict"]["status"]) == (0, "ok"), document["verdict"]["findings"]
    (row,) = document["verdict"]["ports"]
    assert (row["device"], row["route_gid"]) == (rxe.name, f"::ffff:{rxe.ipv4}")
    assert row["safe_to_attempt_rtr"] is True


def test_devices_and_gids_name_its_netdev(rxe: Rxe, rdmadiag_json: Call) -> None:
    (device,) = rdmadiag_json("devices")[1]["devices"]
    assert [port["netdev"] for port in device["ports"]] == [rxe.netdev]
    (port,) = rdmadiag_json("gids")[1]["ports"]
    assert {row["netdev"] for row in port["gids"]} == {rxe.netdev}


def test_the_device_is_one_that_devlink_has(rxe: Rxe, run: Callable[..., Any]) -> None:
    said = run(["devlink", "-j", "health", "show"], timeout=SECONDS)
    assert f"netdevsim/netdevsim{NUMBER}" in json.loads(said.stdout)["health"], said.stderr


@pytest.fixture
def two(rxe: Rxe) -> Iterator[None]:
    """Two virtual functions of it."""
    count = BUS / "devices" / f"netdevsim{NUMBER}" / "sriov_numvfs"
    count.write_text("2\n")
    yield
    count.write_text("0\n")


class TestVirtualFunctions:
    """netdevsim has them, without GUIDs."""

    def read(self) -> VfFacts:
        found = read_vfs(LiveHost(), time.monotonic() + SECONDS)
        assert isinstance(found, VfFacts)
        return found

    def test_without_one_nothing_is_sent(self, rxe: Rxe) -> None:
        assert self.read() == VfFacts((), {})

    def test_every_field_is_that_of_ip(
        self, rxe: Rxe, two: None, run: Callable[..., Any], rdmadiag_json: Call
    ) -> None:
        for words in (
            "vf 0 mac 02:00:00:00:00:77 ",
            "vf 0 vlan 42",
            "vf 0 trust on",
            "vf 1 spoofchk on",
            "vf 1 state disable",
        ):
            done = run(["ip", "link", "set", "dev", rxe.netdev, *words.split()], timeout=SECONDS)
            assert done.returncode == 0, done.stderr
        shown = run(["ip", "-j", "link", "show", "dev", rxe.netdev], timeout=SECONDS)
        rows = json.loads(shown.stdout)[0]["vfinfo_list"]
        (physical,) = self.read().physical
        assert physical.netdev == rxe.netdev
        assert not isinstance(physical.functions, Missing)
        assert len(rows) == len(physical.functions) == 2
        for row, found in zip(rows, physical.functions, strict=True):
            assert found.number == row["vf"]
            assert found.mac == row["address"]
            assert found.vlan == row["vlan_list"][0].get("vlan", 0)
            assert found.link == row["link_state"]
            assert found.trust is row["trust"]
            assert found.spoof_check is row["spoofchk"]
            for value in (found.node_guid, found.port_guid):
                assert isinstance(value, Missing), "netdevsim has no ndo_get_vf_guid"
                assert value.why is Why.UNSUPPORTED
        _, document = rdmadiag_json("preflight")
        finding = next(
            each
            for each in document["verdict"]["findings"]
            if each["rule"] == "vf-link-policy-down"
        )
        assert finding["severity"] == "info"
        assert finding["remedy"] == [f"sudo ip link set dev {rxe.netdev} vf 1 state auto"]
        done = run(finding["remedy"][0].removeprefix("sudo ").split(), timeout=SECONDS)
        assert done.returncode == 0, done.stderr
        _, document = rdmadiag_json("preflight")
        rules = {each["rule"] for each in document["verdict"]["findings"]}
        assert "vf-link-policy-down" not in rules

    @pytest.mark.other_kernels(0)
    def test_looking_sends_one_get_for_them_and_sets_nothing(
        self, rxe: Rxe, two: None, rdmadiag: Callable[..., Any], tmp_path: Path
    ) -> None:
        log = tmp_path / "strace"
        calls = "trace=socket,sendto,sendmsg,init_module,finit_module"
        options = ("-f", "--seccomp-bpf", "-qq", "-v", "-s", "256", "-e", calls, "-o", str(log))
        strace = ("strace", *options)
        code, out, err = rdmadiag(
            "preflight", "--exit-zero", "--timeout", "30", prefix=strace, timeout=300
        )
        assert code == 0, err or out
        lines = log.read_text().splitlines()
        links = [line for line in lines if re.search(r"nlmsg_type=(RTM_GETLINK|0x12)\b", line)]
        alone = [line for line in links if "NLM_F_DUMP" not in line and "0x300" not in line]
        assert len(alone) == 1, links
        assert [line for line in lines if re.search(r"RTM_(SET|NEW|DEL)LINK|_module\(", line)] == []
