"""Many hosts in one kernel whose rxe works in network namespaces: User Mode Linux 7.2.

    namespace h1: eth0 198.51.100.1/24, rxe1  ┐
    namespace h2: eth0 198.51.100.2/24, rxe2  ├ bridge fleet0 in the first namespace
    …                                         ┘

In shared mode every host sees every device, and gets its own by name. In exclusive mode it sees
that alone, as a machine of its own would.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lab.attempt import until
from lab.command import run
from lab.failure import EX_LATE, LabFailure
from lab.rxe import READY_SECONDS, Rxe, wait_ready

COMMAND_SECONDS = 30.0
BRIDGE = "fleet0"


@dataclass(frozen=True)
class Host:
    """One of a fleet."""

    namespace: str
    rxe: Rxe

    @property
    def prefix(self) -> tuple[str, ...]:
        """Before a command that shall run on it."""
        return ("ip", "netns", "exec", self.namespace)


@contextmanager
def fleet(number: int, *, exclusive: bool = False) -> Iterator[list[Host]]:
    """So many hosts, ready; they go with the block."""
    hosts = [
        Host(f"h{n}", Rxe(f"rxe{n}", "eth0", f"198.51.100.{n}", f"2001:db8:f::{n:x}"))
        for n in range(1, number + 1)
    ]
    if exclusive:
        _mode("exclusive")
    try:
        _do(f"ip link add {BRIDGE} type bridge")
        _do(f"ip link set {BRIDGE} up")
        for n, host in enumerate(hosts, 1):
            _add(host, f"leg{n}")
        for host in hosts:
            if exclusive:
                _wait_within(host)
            else:
                wait_ready(host.rxe)
        yield hosts
    finally:
        for host in hosts:
            within = host.prefix if exclusive else ()
            run([*within, "rdma", "link", "del", host.rxe.name], timeout=COMMAND_SECONDS)
            run(["ip", "netns", "del", host.namespace], timeout=COMMAND_SECONDS)
        run(["ip", "link", "del", BRIDGE], timeout=COMMAND_SECONDS)
        if exclusive:
            _mode("shared")


def _mode(name: str) -> None:
    """It cannot be changed while another namespace is there, or still on its way out."""
    argv = ["rdma", "system", "set", "netns", name]
    if not until(lambda: run(argv, timeout=COMMAND_SECONDS).returncode == 0, READY_SECONDS):
        raise LabFailure(f"the mode cannot be changed to {name}", EX_LATE)


def _wait_within(host: Host) -> None:
    """As wait_ready, of a device that only its own namespace shows."""
    port = f"/sys/class/infiniband/{host.rxe.name}/ports/1"
    argv = [*host.prefix, "cat", f"{port}/state", *(f"{port}/gids/{n}" for n in range(3))]

    def is_ready() -> bool:
        lines = run(argv, timeout=COMMAND_SECONDS).stdout.split("\n")
        gids = [line.replace(":", "").strip("0") for line in lines[1:4]]
        return lines[0] == "4: ACTIVE" and len(gids) == 3 and all(gids)

    if not until(is_ready, READY_SECONDS):
        raise LabFailure(f"{host.rxe.name} was not ready in time", EX_LATE)


def _add(host: Host, leg: str) -> None:
    inside, device = f"ip -n {host.namespace}", host.rxe
    _do(f"ip netns add {host.namespace}")
    _do(f"ip link add {leg} type veth peer name {device.netdev} netns {host.namespace}")
    _do(f"ip link set {leg} master {BRIDGE} up")
    _do(f"{inside} link set lo up")
    _do(f"{inside} address add {device.ipv4}/24 dev {device.netdev}")
    _do(f"{inside} address add {device.ipv6}/64 dev {device.netdev} nodad")
    _do(f"{inside} link set {device.netdev} up")
    rdma = f"rdma link add {device.name} type rxe netdev {device.netdev}"
    _do(" ".join((*host.prefix, rdma)))


def _do(command: str) -> None:
    done = run(command.split(), timeout=COMMAND_SECONDS)
    if done.returncode != 0:
        raise LabFailure(f"{command}: {done.stderr.strip()}")
