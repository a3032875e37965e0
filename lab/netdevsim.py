"""Soft RoCE on the port of a simulated device, which has what hardware has."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.attempt import until
from lab.rxe import Rxe, add, wait_ready

BUS = Path("/sys/bus/netdevsim")
_SECONDS = 30.0


@contextmanager
def simulated(number: int) -> Iterator[Rxe]:
    """rxe0 on the one port of the new device netdevsim`number`."""
    (BUS / "new_device").write_text(f"{number} 1\n")
    ports = BUS / "devices" / f"netdevsim{number}" / "net"
    try:
        assert until(lambda: ports.exists() and len(os.listdir(ports)) == 1, _SECONDS)
        device = Rxe("rxe0", os.listdir(ports)[0], "192.0.2.1", "2001:db8::1")
        add(device)
        wait_ready(device)
        yield device
    finally:
        (BUS / "del_device").write_text(f"{number}\n")
