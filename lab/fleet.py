"""Many hosts in one kernel whose rxe works in network namespaces: User Mode Linux 7.2.

    namespace h1: eth0 198.51.100.1/24, rxe1  ┐
    namespace h2: eth0 198.51.100.2/24, rxe2  ├ bridge fleet0 in the first namespace
    …                                         ┘

The mode is shared: every host sees every device, and gets its own by name.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.command import run
from lab.failure import LabFailure
from lab.rxe import Rxe, wait_ready

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
def fleet(number: int) -> Iterator[list[Host]]:
    """So many hosts, ready; they go with the block."""
    hosts = [
        Host(f"h{n}", Rxe(f"rxe{n}", "eth0", f"198.51.100.{n}", f"2001:db8:f::{n:x}"))
        for n in range(1, number + 1)
    ]
    try:
        _do(f"ip link add {BRIDGE} type bridge")
        _do(f"ip link set {BRIDGE} up")
        for n, host in enumerate(hosts, 1):
            _add(host, f"leg{n}")
        for host in hosts:
            wait_ready(host.rxe)
        yield hosts
    finally:
        for host in hosts:
            run(["rdma", "link", "del", host.rxe.name], timeout=COMMAND_SECONDS)
            run(["ip", "netns", "del", host.namespace], timeout=COMMAND_SECONDS)
        run(["ip", "link", "del", BRIDGE], timeout=COMMAND_SECONDS)


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


# --- by ssh ---------------------------------------------------------------------------------

_NODE = """\
#!/bin/sh
export PATH={bin}:$PATH
exec nsenter -t 1 -m ip netns exec $NODE sh {folder}/host.sh
"""
"""sshd has a /run of its own, where no namespace has a name."""


_HOST_SCRIPT = """\
rxe=rxe${NODE#h}
place=$(readlink -f /sys/class/infiniband/$rxe)
mount -t tmpfs none /sys/class/infiniband
ln -s $place /sys/class/infiniband/$rxe
exec sh -c "$SSH_ORIGINAL_COMMAND"
"""
"""In a mount namespace of its own: of sixteen devices in shared mode it looks at its own alone."""


def reached(hosts: list[Host], folder: Path) -> tuple[str, Path]:
    """The script of sshd, and the table of addresses."""
    table = folder / "addresses"
    rows = (f"{host.namespace} {host.rxe.ipv4} {host.rxe.name}\n" for host in hosts)
    table.write_text("".join(rows))
    (folder / "host.sh").write_text(_HOST_SCRIPT)
    return _NODE.format(bin=Path(sys.executable).parent, folder=folder), table
