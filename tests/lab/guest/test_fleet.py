"""Several hosts in one kernel, each in a network namespace with a device of its own."""

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lab.attempt import until
from lab.fleet import Host, fleet

pytestmark = pytest.mark.needs("rxe in namespaces")

PORT = 18603
SECONDS = 60.0

Call = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[Host]]:
    """Four of them."""
    with fleet(4) as ready:
        yield ready


def test_each_host_finds_its_device_by_name(hosts: list[Host], rdmadiag_json: Call) -> None:
    for host in hosts:
        device = host.rxe
        _, document = rdmadiag_json("gids", "--device", device.name, prefix=host.prefix)
        (port,) = document["ports"]
        assert port["route"]["gid"] == f"::ffff:{device.ipv4}"


def test_queue_pairs_of_two_hosts_exchange_data(hosts: list[Host], run: Callable[..., Any]) -> None:
    server, client = hosts[0], hosts[-1]

    def command(host: Host) -> list[str]:
        program = ["timeout", "60", "ibv_rc_pingpong", "-g", "1", "-n", "20", "-p", str(PORT)]
        return [*host.prefix, *program, "-d", host.rxe.name]

    def listens() -> bool:
        return f":{PORT} " in run([*server.prefix, "ss", "-ltn"], timeout=SECONDS).stdout

    with subprocess.Popen(command(server), stdout=subprocess.DEVNULL) as listener:
        assert until(listens, SECONDS)
        done = run([*command(client), server.rxe.ipv4], timeout=SECONDS)
        assert (done.returncode, listener.wait(SECONDS)) == (0, 0), done.stdout + done.stderr
