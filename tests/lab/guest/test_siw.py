"""Soft iWARP: devices that connect through rdma_cm, never by a manual RTR."""

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lab.attempt import until
from lab.resources import cm_listeners

pytestmark = [pytest.mark.needs("siw"), pytest.mark.stock]

ADDRESS = "192.0.2.1"
READY_SECONDS = 30.0

Call = Callable[..., tuple[int, Any]]
Run = Callable[..., Any]


@pytest.fixture(scope="module", autouse=True)
def pair(run: Run) -> Iterator[None]:
    """siw0 on veth0 (192.0.2.1) and siw1 on veth1, in a subnet of its own."""

    def do(command: str) -> None:
        done = run(command.split(), timeout=READY_SECONDS)
        assert done.returncode == 0, f"{command}: {done.stderr}"

    # Which User Mode Linux has built in; elsewhere the system loads it with the first device.
    run(["modprobe", "rdma_ucm"], timeout=READY_SECONDS)
    do("ip link add veth0 type veth peer name veth1")
    try:
        for number, address in enumerate((ADDRESS, "198.51.100.1")):
            do(f"ip address add {address}/24 dev veth{number}")
            do(f"ip link set veth{number} up")
        for number in (0, 1):
            do(f"rdma link add siw{number} type siw netdev veth{number}")
        yield
    finally:
        do("ip link del veth0")


def test_preflight_permits_no_rtr_and_says_why(rdmadiag_json: Call) -> None:
    code, document = rdmadiag_json("preflight")
    verdict = document["verdict"]
    assert (code, verdict["status"], verdict["safe_to_attempt_rtr"]) == (0, "ok", False)
    for row in verdict["ports"]:
        assert (row["state"], row["route_gid"]) == ("active", None)
        assert row["reasons"] == ["iwarp_needs_rdma_cm"]
    rules = {(each["rule"], each["device"]) for each in verdict["findings"]}
    assert {("iwarp-device", "siw0"), ("iwarp-device", "siw1")} <= rules


def test_devices_agree_with_rdma(rdmadiag_json: Call, run: Run) -> None:
    code, document = rdmadiag_json("devices")
    assert code == 0
    ours = [
        (row["name"], port["port"], port["state"].upper(), port["netdev"], row["node_guid"])
        for row in document["devices"]
        for port in row["ports"]
    ]
    guids = {
        row["ifname"]: row["node_guid"]
        for row in json.loads(run(["rdma", "-j", "dev"], timeout=READY_SECONDS).stdout)
    }
    links = json.loads(run(["rdma", "-j", "link"], timeout=READY_SECONDS).stdout)
    assert len(links) == 2
    assert ours == [
        (row["ifname"], row["port"], row["state"], row["netdev"], guids[row["ifname"]])
        for row in links
    ]
    assert {row["driver"] for row in document["devices"]} == {"siw"}


def test_gids_choose_no_row(rdmadiag_json: Call) -> None:
    code, document = rdmadiag_json("gids")
    assert code == 0
    for port in document["ports"]:
        assert port["protocol"] == "iwarp"
        assert [row["index"] for row in port["gids"]] == [0]
        assert port["route"] is None


def test_pingpong_refuses_before_anything_is_made(rdmadiag_json: Call) -> None:
    code, document = rdmadiag_json("pingpong", "--allow-rtr", "--device", "siw0")
    assert (code, document["outcome"]) == (3, "not_safe")
    assert document["steps"] == []


def test_the_refusal_names_what_connects_instead(rdmadiag: Any) -> None:
    code, out, _ = rdmadiag("pingpong", "--allow-rtr", "--device", "siw0")
    assert code == 3
    assert "\n    rdmadiag pingpong --cm --allow-rtr\n" in out
    assert "--accept-risk" not in out


def test_a_stack_that_connects_by_gid_is_not_well_here(rdmadiag_json: Call) -> None:
    code, document = rdmadiag_json("preflight", "--stack", "nccl", "--stack", "rdmacm")
    assert (code, document["verdict"]["status"]) == (2, "critical")
    critical = [each for each in document["verdict"]["findings"] if each["severity"] == "critical"]
    assert {(each["rule"], each["device"]) for each in critical} == {
        ("stack-cannot-use-iwarp", "siw0"),
        ("stack-cannot-use-iwarp", "siw1"),
    }
    code, document = rdmadiag_json("gids", "--stack", "nccl@2.27", "--stack", "rdmacm")
    for port in document["ports"]:
        assert {(row["stack"], row["outcome"]) for row in port["stacks"]} == {
            ("nccl", "unsupported"),
            ("rdmacm", "address"),
        }


def test_counters_are_those_of_the_netdev_that_rdma_netlink_names(rdmadiag_json: Call) -> None:
    code, document = rdmadiag_json("counters", "--interval", "0")
    assert code == 0
    sets = {
        (each["device"], each["netdev"])
        for each in document["sample"]["sets"]
        if each["source"] == "netdev" and "rx_bytes" in each["values"]
    }
    assert sets == {("siw0", "veth0"), ("siw1", "veth1")}


def test_what_connects_through_rdma_cm_works(run: Run) -> None:
    command = ["rping", "-a", ADDRESS, "-C", "2", "-v"]
    with subprocess.Popen(
        ["timeout", "60", *command, "-s"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as server:
        assert until(lambda: cm_listeners() == 1, READY_SECONDS)
        client = run([*command, "-c"], timeout=60.0)
        server.kill()
    assert (client.returncode, client.stdout.count("ping data")) == (0, 2), client.stderr
