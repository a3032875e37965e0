"""The hardened units under a systemd of their own: they see what root sees without it."""

import json
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from lab.attempt import until
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
mkdir -p {UNITS}/$0.d
cp {DEPLOY}/systemd/$0 {UNITS}/
printf '[Unit]\\nDefaultDependencies=no\\n' > {UNITS}/$0.d/alone.conf
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
export container=lab SYSTEMD_LOG_TARGET=console
exec {SYSTEMD} --system --unit=$0 --show-status=no
"""


def boot(unit: str) -> "subprocess.Popen[str]":
    """A systemd with this unit alone."""
    argv = [
        *("unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"),
        *("sh", "-c", BOOT, unit),
    ]
    return subprocess.Popen(argv, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True)


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


@pytest.mark.other_kernels(0)
def test_the_hardened_unit_sees_what_root_sees(
    program: None, rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag
) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    shutil.chown(FOLDER, "nobody")  # the collector's user owns it
    written = FOLDER / "rdmadiag.prom"
    written.unlink(missing_ok=True)
    booted = boot("rdmadiag-textfile.service")
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


def test_the_hardened_watch_hears_what_root_hears(
    program: None, run: Callable[..., Any], rdmadiag: Rdmadiag
) -> None:
    ring = Path("/var/lib/rdmadiag/ring")
    shutil.rmtree(ring.parent, ignore_errors=True)
    run(["modprobe", "ib_core"], timeout=60)
    booted = boot("rdmadiag-watch.service")
    try:
        assert until(lambda: booted.poll() is not None or (ring / "alive").exists(), 240)
        time.sleep(2)
        run(["ip", "link", "add", "watch0", "type", "veth"], timeout=60)
        run(["ip", "link", "del", "watch0"], timeout=60)
        Path("/dev/kmsg").write_text("infiniband watched\n")
        time.sleep(3)
    finally:
        booted.send_signal(signal.SIGKILL)
        said, _ = booted.communicate(timeout=60)
    code, out, err = rdmadiag("explain", "--ring", str(ring), "--json")
    assert code in (0, 3), said[-3000:] + err
    document = json.loads(out)
    live, printed = rdmadiag("watch", "--for", "0", "--json")[:2]
    (began,) = [each for each in document["events"] if each["action"] == "began"]
    root = json.loads(printed.splitlines()[0])["event"]
    assert live == 0
    assert began["details"]["heard"] == root["details"]["heard"], said[-3000:]
    found = {(each["kind"], each["action"]) for each in document["events"]}
    assert found >= {("link", "added"), ("link", "removed"), ("line", "logged")}
    assert ring.stat().st_mode & 0o777 == 0o700
