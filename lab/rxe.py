"""Soft RoCE devices on the machine this runs on: a guest. `python -m lab.rxe` adds a pair.

    rxe0 on veth0, 192.0.2.1/24 and 2001:db8::1/64  ┐ one cable
    rxe1 on veth1, 192.0.2.2/24 and 2001:db8::2/64  ┘

Kernel 6.1's rxe lives in the initial network namespace only, and packets between two addresses of
one namespace do not leave it: traffic has both its ends on one device. See lab/two.py for two.
"""

import os
import time
from dataclasses import dataclass

from lab.command import run
from lab.failure import EX_LATE, LabFailure

COMMAND_SECONDS = 30.0
READY_SECONDS = 60.0


@dataclass(frozen=True)
class Rxe:
    name: str
    netdev: str
    ipv4: str
    ipv6: str


PAIR = (
    Rxe("rxe0", "veth0", "192.0.2.1", "2001:db8::1"),
    Rxe("rxe1", "veth1", "192.0.2.2", "2001:db8::2"),
)


def add_pair() -> tuple[Rxe, Rxe]:
    """Both devices, ready: ports ACTIVE, GIDs of their three addresses in the table."""
    remove_pair()
    left, right = PAIR
    _do(f"ip link add {left.netdev} type veth peer name {right.netdev}")
    for device in PAIR:
        add(device)
    for device in PAIR:
        wait_ready(device)
    return PAIR


def remove_pair() -> None:
    """Remove the pair if it is there; the devices go away with their interfaces."""
    if os.path.exists(f"/sys/class/net/{PAIR[0].netdev}"):
        _do(f"ip link del {PAIR[0].netdev}")


def add(device: Rxe) -> None:
    """Addresses, link up, and an rxe device on an interface that exists."""
    _do("modprobe rdma_rxe")
    _do(f"ip address add {device.ipv4}/24 dev {device.netdev}")
    _do(f"ip address add {device.ipv6}/64 dev {device.netdev} nodad")
    _do(f"ip link set {device.netdev} up")
    _do(f"rdma link add {device.name} type rxe netdev {device.netdev}")


def wait_ready(device: Rxe, timeout: float = READY_SECONDS) -> None:
    """Until the port is ACTIVE, GIDs 0 (link-local), 1 (IPv4) and 2 (IPv6) are there, and
    duplicate address detection, which a slow kernel ends seconds later, is over."""
    port = f"/sys/class/infiniband/{device.name}/ports/1"
    late = time.monotonic() + timeout
    while True:
        gids = [_read(f"{port}/gids/{index}").replace(":", "").strip("0") for index in range(3)]
        if _read(f"{port}/state") == "4: ACTIVE" and all(gids) and not is_tentative(device.netdev):
            return
        if time.monotonic() > late:
            raise LabFailure(f"{device.name} was not ready within {timeout:g} s", EX_LATE)
        time.sleep(0.05)


def is_tentative(netdev: str) -> bool:
    """Whether an IPv6 address of it still is: IFA_F_TENTATIVE, 0x40, in /proc/net/if_inet6."""
    rows = [line.split() for line in _read("/proc/net/if_inet6").splitlines()]
    return any(row[5] == netdev and int(row[4], 16) & 0x40 for row in rows)


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""  # not there yet


def _do(command: str) -> None:
    done = run(command.split(), timeout=COMMAND_SECONDS)
    if done.returncode != 0:
        raise LabFailure(f"{command}: {done.stderr.strip()}")


if __name__ == "__main__":
    add_pair()
