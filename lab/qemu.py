"""Guests under QEMU's software emulation: Debian's stock kernel, booted by virtme-ng."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from lab.boot import Boot, Guest, Job
from lab.failure import LabFailure
from lab.image import Image
from lab.kernel import Kernel

CPU = "-cpu max,-erms"
"""Else glibc and the kernel copy by `rep movsb`, which QEMU does byte by byte: preflight took
4.5 s, and 3.7 s without."""


def start(
    guest: Guest, kernel: Kernel, image: Image, job: Job, options: str = "", append: str = ""
) -> Boot:
    """`options` are more of QEMU's own, `append` of the kernel's."""
    script = write_job(guest, image, job)
    run = ("--exec", f"bash {shlex.quote(str(script))}")
    return Boot(guest, [*vng(guest, kernel, options, append), *run])


def vng(guest: Guest, kernel: Kernel, options: str = "", append: str = "") -> list[str]:
    """virtme-ng's command line, without what the guest shall run."""
    program = Path(sys.executable).parent / "vng"
    if not program.exists():
        raise LabFailure("virtme-ng is not installed: pip install --group lab")
    # virtme-ng looks for its other programs on the PATH.
    path = f"{program.parent}:{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    return [
        *("env", f"PATH={path}", str(program), "-r", str(kernel.image), "--name", guest.name),
        "--disable-kvm",  # nested /dev/kvm may exist and hang
        "--force-9p",
        *("--cpus", str(guest.cpus), "--memory", "2G", f"--rwdir={guest.out}"),
        f"--qemu-opts={CPU} {options}".rstrip(),
        *(["--append", append] if append else []),
    ]


def write_job(guest: Guest, image: Image, job: Job) -> Path:
    """A file: a kernel command line holds 2 kB only."""
    settings = {
        "LAB_MACHINE": "qemu",
        "LAB_TARS": "\n".join(map(str, image.tars)),
        "LAB_PLACES": "\n".join(map(str, image.mounts)),
    }
    return job.write(guest, settings)


def shell(guest: Guest, kernel: Kernel, image: Image, job: Job) -> int:
    """The same on this terminal, until the person leaves it."""
    script = write_job(guest, image, job)
    return subprocess.run([*vng(guest, kernel), "--shell", str(script)], check=False).returncode
