"""Soft RoCE on a simulated network device, which has what hardware has: devlink, health."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import until
from lab.rxe import Rxe, add, wait_ready

pytestmark = pytest.mark.needs("netdevsim")

BUS = Path("/sys/bus/netdevsim")
NUMBER = 10
SECONDS = 30.0

Call = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def rxe() -> Iterator[Rxe]:
    """rxe0 on the port of a simulated device."""
    (BUS / "new_device").write_text(f"{NUMBER} 1\n")
    ports = BUS / "devices" / f"netdevsim{NUMBER}" / "net"
    try:
        assert until(lambda: ports.exists() and len(os.listdir(ports)) == 1, SECONDS)
        device = Rxe("rxe0", os.listdir(ports)[0], "192.0.2.1", "2001:db8::1")
        add(device)
        wait_ready(device)
        yield device
    finally:
        (BUS / "del_device").write_text(f"{NUMBER}\n")


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
