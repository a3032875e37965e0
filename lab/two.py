"""Two guests with one cable between them; tests/lab/two runs on both at the same time."""

import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from lab import qemu, sshd, uml
from lab.boot import Boot, Guest, Job, watch
from lab.guest import AGAIN, pytest_argv, summary
from lab.image import image
from lab.kernel import stock_kernel
from lab.plan import Part, form
from lab.ports import wait_listening
from lab.results import claim, failed
from lab.rxe import Rxe
from lab.siw_module import add_siw
from lab.uml_kernel import uml_kernel

LISTEN_SECONDS = 60.0

# The interfaces are found by these addresses; the names they get differ between kernels.
MACS = {"left": "52:54:00:00:00:01", "right": "52:54:00:00:00:02"}
ROLES = tuple(MACS)

ALLOWED = ("--allow-rtr", "--device=rxe0")
ROCE = "match ip protocol 17 0xff match ip dport 4791 0xffff"
"""RoCE v2, as a u32 filter of tc takes it."""


def device(role: str, netdev: str) -> Rxe:
    """The one soft RoCE device of a guest."""
    number = 1 + list(MACS).index(role)
    return Rxe("rxe0", netdev, f"192.0.2.{number}", f"2001:db8::{number}")


def two(part: Part, pytest_args: Sequence[str], seconds: float) -> int:
    """Run tests/lab/two in both guests: 0 if both passed. Results are in lab/out/<part>.

    What fails at either end runs once more at both, and that counts.
    `seconds` is for both together, from the first boot to the last result.
    """
    deadline = time.monotonic() + seconds
    folder = claim(part.name)
    make = _uml if part.machine == "uml" else _qemu
    code = summary(watch(make(part, pytest_args, folder), deadline, side_by_side=len(ROLES)))
    wrong = [failed(folder / role) for role in ROLES]
    if code and None not in wrong:
        again = sorted({test for each in wrong for test in each or ()})
        starts = make(part, again, folder / AGAIN.removeprefix("-"))
        code = summary(watch(starts, deadline, side_by_side=len(ROLES)))
    return code


def _uml(part: Part, pytest_args: Sequence[str], folder: Path) -> list[Callable[[], Boot]]:
    kernel = uml_kernel(part.kernel)
    uml.compile_checkout()
    return [
        partial(
            uml.start,
            _guest(role, folder),
            kernel,
            _job(part, role, pytest_args),
            f"{end},mac={MACS[role]}",
        )
        for role, end in zip(ROLES, uml.cable(), strict=True)
    ]


def _qemu(part: Part, pytest_args: Sequence[str], folder: Path) -> list[Callable[[], Boot]]:
    kernel, files, port = stock_kernel(), image(), _free_port()
    add_siw(kernel)

    def start(role: str, end: str) -> Boot:
        options = (
            f"-netdev socket,id=n0,{end}=127.0.0.1:{port}"
            f" -device virtio-net-pci,netdev=n0,mac={MACS[role]}"
        )
        job = _job(part, role, pytest_args)
        boot = qemu.start(_guest(role, folder), kernel, files, job, options)
        if end == "listen":
            wait_listening(port, LISTEN_SECONDS)
        return boot

    return [partial(start, "left", "listen"), partial(start, "right", "connect")]


def _guest(role: str, folder: Path) -> Guest:
    return Guest(role, folder / role, cpus=1, prefix=f"{role:5} | ")


def _job(part: Part, role: str, pytest_args: Sequence[str]) -> Job:
    env = {"RDMADIAG_LAB": "two", "RDMADIAG_LAB_ROLE": role} | form(part, pytest_args)
    if part.tests:
        env |= sshd.settings()
        pytest_args = pytest_args or [f"tests/lab/two/{name}" for name in part.tests]
    return Job(pytest_argv(part, pytest_args), env)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
