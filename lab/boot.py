"""Boot guests under QEMU's software emulation and watch them until they end or are late."""

import os
import selectors
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.command import stop
from lab.failure import EX_LATE, LabFailure
from lab.image import Image
from lab.kernel import Kernel
from lab.places import CHECKOUT

GUEST_OUT = "/run/lab/out"  # where guest.sh has the out folder, and RDMADIAG_LAB_OUT points
CONSOLE = "console.txt"  # in a guest's out folder: everything it printed


@dataclass(frozen=True)
class Guest:
    name: str
    out: Path  # the one folder of this machine that the guest can write to
    cpus: int
    qemu: str = ""  # more options for QEMU
    prefix: str = ""  # put before every line that it prints


class Boot:
    """A guest on its way: `argv` runs in it as root, in the checkout."""

    def __init__(
        self,
        guest: Guest,
        kernel: Kernel,
        image: Image,
        argv: Sequence[str],
        env: Mapping[str, str],
    ) -> None:
        self.guest = guest
        job = write_job(guest, image, argv, env)
        self.process = subprocess.Popen(
            [*vng(guest, kernel), "--exec", f"bash {shlex.quote(str(job))}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def exit_code(self) -> int:
        """That of what ran in the guest; LabFailure if it never came to an end there."""
        try:
            return int((self.guest.out / "exitcode").read_text())
        except FileNotFoundError:
            lines = (self.guest.out / CONSOLE).read_text(errors="replace").strip().splitlines()
            last = lines[-1] if lines else "it printed nothing"
            raise LabFailure(f"the guest {self.guest.name} did not boot or died: {last}") from None


def vng(guest: Guest, kernel: Kernel) -> list[str]:
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
        *([f"--qemu-opts={guest.qemu}"] if guest.qemu else []),
    ]


def write_job(guest: Guest, image: Image, argv: Sequence[str], env: Mapping[str, str]) -> Path:
    """The script that the guest starts with. A file: a kernel command line holds 2 kB only."""
    settings = dict(env) | {
        "LAB_OUT": str(guest.out),
        "LAB_CHECKOUT": str(CHECKOUT),
        "LAB_VENV": sys.prefix,
        "LAB_TARS": "\n".join(map(str, image.tars)),
        "LAB_MOUNTS": "\n".join(map(str, image.mounts)),
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in settings.items()]
    lines.append(shlex.join(["exec", "bash", str(CHECKOUT / "lab" / "guest.sh"), *argv]))
    guest.out.mkdir(parents=True, exist_ok=True)
    job = guest.out / "job.sh"
    job.write_text("\n".join(lines) + "\n")
    return job


def watch(boots: Sequence[Boot], deadline: float) -> None:
    """Pass on what the guests print until all have ended; at `deadline` (monotonic) end them.

    LabFailure when that was necessary: with exit code 124, or 69 if a guest had not even booted.
    """
    with selectors.DefaultSelector() as selector:
        for boot in boots:
            assert boot.process.stdout is not None
            selector.register(boot.process.stdout, selectors.EVENT_READ, _Printer(boot.guest))
        try:
            while selector.get_map():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise _late([key.data.guest for key in selector.get_map().values()])
                for key, _ in selector.select(left):
                    data = os.read(key.fd, 65536)
                    key.data.put(data)
                    if not data:
                        selector.unregister(key.fileobj)
        finally:
            for boot in boots:
                stop(boot.process)


def _late(guests: Sequence[Guest]) -> LabFailure:
    asleep = [guest.name for guest in guests if not (guest.out / "started").exists()]
    if asleep:
        return LabFailure(f"not booted at the deadline, killed: {', '.join(asleep)}")
    names = ", ".join(guest.name for guest in guests)
    return LabFailure(f"still running at the deadline, killed: {names}", EX_LATE)


class _Printer:
    """Writes a guest's lines to its console file and, with its prefix, to our stdout."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest
        self._rest = b""
        (guest.out / CONSOLE).write_bytes(b"")

    def put(self, data: bytes) -> None:
        """Some bytes as they came; none at the end."""
        with (self.guest.out / CONSOLE).open("ab") as file:
            file.write(data)
        if not self.guest.prefix:
            sys.stdout.buffer.write(data)
        else:
            *lines, self._rest = (self._rest + data).split(b"\n")
            if not data and self._rest:
                lines.append(self._rest)
            for line in lines:
                sys.stdout.buffer.write(self.guest.prefix.encode() + line + b"\n")
        sys.stdout.buffer.flush()
