"""Guests that are User Mode Linux kernels: processes of this machine, up in half a second.

Their root is this machine's own files, read-only; what a test changes is on an overlay in the
guest's memory (lab/uml.sh). Results come out through the out folder.
"""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from functools import cache

from lab.boot import Boot, Guest, Job
from lab.command import run
from lab.failure import LabFailure
from lab.image import places
from lab.places import CHECKOUT
from lab.uml_kernel import UmlKernel

MEMORY = "1536M"
COMPILE_SECONDS = 120.0
PROBE_SECONDS = 10.0
# In a mount namespace of its own, so that nothing is left: the kernel's memory is a file there.
IN_MEMORY = 'mount -t tmpfs -o mode=700 lab "$TMPDIR" && exec "$@"'


def start(guest: Guest, kernel: UmlKernel, job: Job, network: str = "") -> Boot:
    """A guest on its way; `network` is what `cable` gave for it."""
    resources = ExitStack()
    command, env = _command(guest, kernel, job, network, resources)
    return Boot(guest, command, env=env, resources=resources)


def shell(guest: Guest, kernel: UmlKernel, job: Job) -> int:
    """The same on this terminal, until the person leaves it."""
    with ExitStack() as resources:
        command, env = _command(guest, kernel, job, "", resources)
        return subprocess.run(command, env=env, check=False).returncode


def compile_checkout() -> None:
    """Once here, and not in every guest, which would lose it."""
    folders = [str(CHECKOUT / name) for name in ("rdmadiag", "lab", "tests")]
    run([sys.executable, "-m", "compileall", "-q", *folders], timeout=COMPILE_SECONDS)


def cable() -> tuple[str, str]:
    """Options for two guests that make the vec0 of each one end of a cable between them.

    Ethernet in L2TPv3 over UDP on the loopback interface, at ports that are free now.
    """
    with ExitStack() as both:
        ports = []
        for _ in range(2):
            end = both.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            end.bind(("127.0.0.1", 0))
            ports.append(end.getsockname()[1])
    # A datagram of another cable that had one of these ports is no frame of this one.
    cookie = f"0x{secrets.randbits(32):08x}"
    link = (
        "vec0:transport=l2tpv3,udp=1,src=127.0.0.1,dst=127.0.0.1,srcport={},dstport={},"
        f"rx_session=1,tx_session=1,rx_cookie={cookie},tx_cookie={cookie},depth=64"
    )
    return link.format(*ports), link.format(*reversed(ports))


def _command(
    guest: Guest, kernel: UmlKernel, job: Job, network: str, resources: ExitStack
) -> tuple[list[str], dict[str, str]]:
    script = job.write(guest, {"LAB_MACHINE": "uml", "LAB_PLACES": "\n".join(map(str, places()))})
    if any(character.isspace() for character in str(script)):
        raise LabFailure(f"a kernel's command line takes no path with a space: {script}")
    area = tempfile.mkdtemp(prefix="rdmadiag-lab-", dir="/var/tmp")  # /dev/shm may be noexec
    resources.callback(shutil.rmtree, area, ignore_errors=True)
    command = [
        *(["unshare", "--mount", "sh", "-c", IN_MEMORY, "sh"] if _mounts() else []),
        *on_one(guest, resources),
        *("setpriv", "--pdeathsig", "KILL"),  # its own processes end with it
        *(("env", f"LD_PRELOAD={kernel.preload}") if kernel.preload else ()),
        *(str(kernel.program), f"mem={MEMORY}", *kernel.arguments),
        *((f"ncpus={guest.cpus}",) if kernel.smp else ()),
        f"umid={guest.name}",
        f"uml_dir={area}/",
        *("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={script}"),
        *("quiet", "loglevel=3", "con=null", "con0=fd:0,fd:1"),
    ]
    if network:
        command.append(network)
    return command, dict(os.environ, TMPDIR=area)


_guests: Counter[int] = Counter()
"""How many guests of this process each processor has."""


def on_one(guest: Guest, resources: ExitStack) -> list[str]:
    """The start of a command that keeps a guest of one processor on one of this machine's.

    Each system call and page fault of a guest goes from a process to its kernel and back. Between
    two processors each of them wakes the other one: tests/lab/guest/test_rules.py takes 42 s of
    processor time on one, 60 s on two.
    """
    if guest.cpus > 1:
        return []
    processor = min(sorted(os.sched_getaffinity(0)), key=_guests.__getitem__)
    _guests[processor] += 1
    resources.callback(_guests.subtract, [processor])
    return ["taskset", "--cpu-list", str(processor)]


@cache
def _mounts() -> bool:
    """Whether this process may mount; a container's root may not."""
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "lab", "/mnt"]
    return run(probe, timeout=PROBE_SECONDS).returncode == 0
