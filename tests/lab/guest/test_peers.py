"""What we print of a real host is what rdma-core and iproute2 print of it."""

import ipaddress
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from lab.rxe import Rxe

Call = Callable[..., tuple[int, Any]]
Run = Callable[..., Any]

_GID = re.compile(r"GID\[\s*(\d+)\]:\s+([0-9a-f:.]+)(?:,\s*(.*))?$", re.MULTILINE)


def by_ibv_devinfo(run: Run, device: str) -> dict[int, tuple[ipaddress.IPv6Address, str]]:
    """`ibv_devinfo -v`: index → address and type as it words them."""
    output = run(["ibv_devinfo", "-v", "-d", device], timeout=60).stdout
    return {
        int(index): (ipaddress.IPv6Address(address), kind)
        for index, address, kind in _GID.findall(output)
    }


def by_rdmadiag(rdmadiag_json: Call, device: str) -> Any:
    code, document = rdmadiag_json("gids", "--device", device)
    assert code == 0
    (port,) = document["ports"]
    return port


def assert_same_table(rdmadiag_json: Call, run: Run, device: str) -> Any:
    port = by_rdmadiag(rdmadiag_json, device)
    ours = {
        row["index"]: (
            ipaddress.IPv6Address(row["raw"]),
            {"roce_v2": "RoCE v2", "roce_v1": "RoCE v1"}[row["type"]],
        )
        for row in port["gids"]
    }
    theirs = by_ibv_devinfo(run, device)
    assert len(theirs) > 0
    assert ours == theirs
    return port


class TestPair:
    @pytest.mark.parametrize("device", ["rxe0", "rxe1"])
    def test_gids_agree_with_ibv_devinfo(
        self, device: str, rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call, run: Run
    ) -> None:
        port = assert_same_table(rdmadiag_json, run, device)
        assert {row["netdev"] for row in port["gids"]} == {f"veth{device[-1]}"}

    def test_devices_agree_with_rdma(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call, run: Run
    ) -> None:
        links = json.loads(run(["rdma", "-j", "-d", "link"], timeout=30).stdout)
        devs = {
            row["ifname"]: row
            for row in json.loads(run(["rdma", "-j", "-d", "dev"], timeout=30).stdout)
        }
        code, document = rdmadiag_json("devices")
        assert code == 0
        ours = {
            (row["name"], port["port"]): (
                port["state"].upper(),
                port["phys_state"].upper(),
                port["netdev"],
                port["netdev_index"],
                row["node_guid"],
                row["sys_image_guid"],
                row["node_type"],
            )
            for row in document["devices"]
            for port in row["ports"]
        }
        theirs = {
            (row["ifname"], row["port"]): (
                row["state"],
                row["physical_state"],
                row["netdev"],
                row["netdev_index"],
                devs[row["ifname"]]["node_guid"],
                devs[row["ifname"]]["sys_image_guid"],
                devs[row["ifname"]]["node_type"],
            )
            for row in links
        }
        assert len(theirs) == 2
        assert ours == theirs

    def test_every_witness_sees_the_devices_and_the_driver_is_named(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call
    ) -> None:
        rows = rdmadiag_json("devices")[1]["devices"]
        assert len(rows) == 2
        for number, row in enumerate(rows):
            assert row["seen_by"] == dict.fromkeys(("sysfs", "nldev", "verbs", "uverbs_node"), True)
            assert (row["driver"], row["uverbs"]) == ("rxe", f"uverbs{number}")

    def test_counts_of_resources_agree_with_rdma(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call, run: Run
    ) -> None:
        theirs = json.loads(run(["rdma", "-j", "res"], timeout=30).stdout)
        devices = rdmadiag_json("preflight")[1]["evidence"]["nldev"]["devices"]
        ours = [
            {name: count["current"] for name, count in device["resources"].items()}
            for device in devices
        ]
        for row in theirs:
            del row["ifindex"], row["ifname"]
        assert ours == theirs


def test_a_hole_in_the_table_is_a_hole_in_both(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call, run: Run
) -> None:
    run(["ip", "address", "add", "198.51.100.1/24", "dev", "veth0"], timeout=30)
    run(["ip", "address", "del", "192.0.2.1/24", "dev", "veth0"], timeout=30)
    port = assert_same_table(rdmadiag_json, run, "rxe0")
    indexes = [row["index"] for row in port["gids"]]
    assert indexes != list(range(len(indexes))), "the table has no hole"
    chosen = {row["index"]: row["ipv4"] for row in port["gids"]}[port["route"]["index"]]
    assert chosen == "198.51.100.1"


def test_without_ipv4_the_route_is_the_routable_ipv6_address(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call, run: Run
) -> None:
    run(["ip", "address", "del", "192.0.2.1/24", "dev", "veth0"], timeout=30)
    port = assert_same_table(rdmadiag_json, run, "rxe0")
    assert port["route"]["gid"] == "2001:db8::1"


def test_the_route_is_one_that_a_queue_pair_connects_over(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call, run: Run
) -> None:
    run(["ip", "address", "del", "192.0.2.1/24", "dev", "veth0"], timeout=30)
    index = by_rdmadiag(rdmadiag_json, "rxe0")["route"]["index"]
    program = f"timeout 30 ibv_rc_pingpong -d rxe0 -g {index} -n 10"
    done = run(["bash", "-c", f"{program} & sleep 2; {program} 127.0.0.1 && wait $!"], timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
