"""Many hosts in one kernel whose rxe works in network namespaces: User Mode Linux 7.2.

    namespace h1: eth0 198.51.100.1/24, rxe1  ┐
    namespace h2: eth0 198.51.100.2/24, rxe2  ├ bridge fleet0 in the first namespace
    …                                         ┘

The mode is shared: every host sees every device, and gets its own by name.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lab.command import run
from lab.failure import LabFailure
from lab.rxe import Rxe, wait_ready

COMMAND_SECONDS = 30.0
BRIDGE = "fleet0"
CHILD = b"rdmadiag.verbs.pingpong_child"
"""In the command line of the process that has the device, in an attempt."""


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


# --- on a host's own ------------------------------------------------------------------------

_OWN_DEVICE = """\
device=$1
shift
place=$(readlink -f "/sys/class/infiniband/$device")
mount -t tmpfs none /sys/class/infiniband
ln -s "$place" "/sys/class/infiniband/$device"
exec "$@"
"""
"""In a mount namespace of its own: of all devices in shared mode it looks at its own alone."""

_NODE = """\
#!/bin/sh
export PATH={bin}:$PATH
exec nsenter -t 1 -m ip netns exec $NODE sh {own} rxe${{NODE#h}} sh -c "$SSH_ORIGINAL_COMMAND"
"""
"""sshd has a /run of its own, where no namespace has a name."""


def addresses(hosts: Sequence[Host], folder: Path) -> Path:
    """The table of them, for --addresses."""
    table = folder / "addresses"
    rows = (f"{host.namespace} {host.rxe.ipv4} {host.rxe.name}\n" for host in hosts)
    table.write_text("".join(rows))
    return table


def on_own_device(host: Host, folder: Path) -> tuple[str, ...]:
    """Before a command that shall run on a host and find no other's device."""
    return (*host.prefix, "sh", str(_own(folder)), host.rxe.name)


def reached(hosts: Sequence[Host], folder: Path) -> tuple[str, Path]:
    """The script of sshd, and the table of addresses."""
    script = _NODE.format(bin=Path(sys.executable).parent, own=_own(folder))
    return script, addresses(hosts, folder)


def _own(folder: Path) -> Path:
    path = folder / "own_device.sh"
    path.write_text(_OWN_DEVICE)
    return path


def pids(host: Host, word: bytes = b"") -> list[int]:
    """Processes of a host with that in their command line."""
    own = os.stat(f"/run/netns/{host.namespace}").st_ino
    found = []
    for each in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.stat(f"/proc/{each}/ns/net").st_ino != own:
                continue
            with open(f"/proc/{each}/cmdline", "rb") as file:
                if word in file.read():
                    found.append(int(each))
    return found


class PowerCut(threading.Thread):
    """Takes a host off the network, and ends all on it, once its second attempt is under way."""

    def __init__(self, host: Host) -> None:
        super().__init__(daemon=True)
        self._host = host
        self.done = False
        self.ending = threading.Event()

    def run(self) -> None:
        """Until then, or until `ending` is set."""
        first = self._next(None)
        second = self._next(first)
        if second is not None:
            _do(f"ip -n {self._host.namespace} link set {self._host.rxe.netdev} down")
            for pid in pids(self._host):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.done = True

    def _next(self, before: int | None) -> int | None:
        """Another process that has the device."""
        while not self.ending.is_set():
            for pid in pids(self._host, CHILD):
                if pid != before:
                    return pid
            time.sleep(0.1)
        return None
