"""The hardened unit under a systemd of its own: it sees what root sees without it."""

import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from lab.deployed import DEPLOY
from lab.places import CHECKOUT
from lab.rxe import Rxe

Rdmadiag = Callable[..., tuple[int, str, str]]
SYSTEMD: Final = Path("/lib/systemd/systemd")
PYTHON: Final = Path("/usr/bin/python3")  # ProtectHome hides one in /root
PROGRAM: Final = Path("/usr/local/bin/rdmadiag")
UNITS: Final = Path("/run/systemd/system")
FOLDER: Final = Path("/var/lib/prometheus/node-exporter")

pytestmark = pytest.mark.skipif(
    not SYSTEMD.exists() or not PYTHON.exists(), reason="no systemd, or no Python, of the system"
)

# As process 1 of a namespace, with the unit alone: nothing else of the machine is started.
BOOT: Final = f"""
set -e
mount -t tmpfs none /run
mkdir -p {UNITS}/rdmadiag-textfile.service.d
cp {DEPLOY}/systemd/rdmadiag-textfile.service {UNITS}/
printf '[Unit]\\nDefaultDependencies=no\\n' > {UNITS}/rdmadiag-textfile.service.d/alone.conf
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
export container=lab SYSTEMD_LOG_TARGET=console
exec {SYSTEMD} --system --unit=rdmadiag-textfile.service --show-status=no
"""


@pytest.fixture
def program() -> Iterator[None]:
    """The program with the system's interpreter, where the unit looks for it."""
    minor = subprocess.run([PYTHON, "-V"], capture_output=True, text=True, check=True).stdout
    if minor.split()[1].rpartition(".")[0] != "{}.{}".format(*sys.version_info):
        pytest.skip("the system's Python is of another version: its packages are not ours")
    packages = sysconfig.get_paths()["purelib"]
    before = PROGRAM.read_bytes() if PROGRAM.exists() else None
    PROGRAM.unlink(missing_ok=True)
    PROGRAM.write_text(
        f'#!/bin/sh\nPYTHONPATH={CHECKOUT}:{packages} exec {PYTHON} -m rdmadiag "$@"\n'
    )
    PROGRAM.chmod(0o755)
    yield
    PROGRAM.unlink()
    if before is not None:
        PROGRAM.write_bytes(before)


def statuses(text: str) -> set[str]:
    """What each rule says, and of each port; not when it was said, nor how long it took."""
    kept = re.compile(r"^rdmadiag_(?:check_status|port_|device_info|status)")
    return {line for line in text.splitlines() if kept.match(line)}


def test_the_hardened_unit_sees_what_root_sees(
    program: None, rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag
) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    shutil.chown(FOLDER, "nobody")  # the collector's user owns it
    written = FOLDER / "rdmadiag.prom"
    written.unlink(missing_ok=True)
    argv = [
        "unshare",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount",
        "--mount-proc",
        "sh",
        "-c",
        BOOT,
    ]
    booted = subprocess.Popen(argv, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True)
    try:
        until = time.monotonic() + 240
        while not written.exists() and time.monotonic() < until and booted.poll() is None:
            time.sleep(0.5)
        time.sleep(1)
        found = written.exists()
    finally:
        booted.send_signal(signal.SIGKILL)
        said, _ = booted.communicate(timeout=60)
    assert found, said[-3000:]
    text = written.read_text()
    assert written.stat().st_mode & 0o777 == 0o644
    code, live, _ = rdmadiag("preflight", "-o", "prometheus", "--exit-zero")
    assert code == 0
    # LimitMEMLOCK is the unit's own.
    different = {line for line in statuses(text) ^ statuses(live) if "memlock" not in line}
    assert different == set(), said[-3000:]
