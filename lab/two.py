"""Two guests with one cable between them; tests/lab/two runs on both at the same time."""

import socket
import time
from collections.abc import Sequence

from lab.boot import Boot, Guest, watch
from lab.command import stop
from lab.guest import pytest_argv
from lab.image import image
from lab.ports import wait_listening
from lab.prepare import prepare
from lab.results import claim
from lab.rxe import Rxe

LISTEN_SECONDS = 60.0

# The interfaces are found by these addresses; the names they get differ between kernels.
MACS = {"left": "52:54:00:00:00:01", "right": "52:54:00:00:00:02"}


def device(role: str, netdev: str) -> Rxe:
    """The one soft RoCE device of a guest."""
    number = 1 + list(MACS).index(role)
    return Rxe("rxe0", netdev, f"192.0.2.{number}", f"2001:db8::{number}")


def two(pytest_args: Sequence[str], seconds: float) -> int:
    """Run tests/lab/two in both guests: 0 if both passed. Results are in lab/out/two.

    `seconds` is for both together, from the first boot to the last result.
    """
    late = time.monotonic() + seconds
    kernel, files, argv = prepare(), image(), pytest_argv("two", pytest_args)
    folder = claim("two")
    port = _free_port()
    boots: list[Boot] = []
    try:
        for role, end in (("left", "listen"), ("right", "connect")):
            guest = Guest(
                role,
                folder / role,
                cpus=1,
                qemu=f"-netdev socket,id=n0,{end}=127.0.0.1:{port}"
                f" -device virtio-net-pci,netdev=n0,mac={MACS[role]}",
                prefix=f"{role:5} | ",
            )
            env = {"RDMADIAG_LAB": "two", "RDMADIAG_LAB_ROLE": role}
            boots.append(Boot(guest, kernel, files, argv, env))
            if end == "listen":
                wait_listening(port, LISTEN_SECONDS)
        watch(boots, late)
    finally:
        for boot in boots:
            stop(boot.process)
    return max(boot.exit_code() for boot in boots)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
