"""Make this machine able to run the labs: Debian packages. Safe to repeat."""

import os
import platform
from collections.abc import Sequence

from lab.apt import apt_get
from lab.command import run
from lab.failure import LabFailure

INSTALL_SECONDS = 900.0

PACKAGES = (
    "busybox-static",  # the guest's first programs
    "ethtool",
    "file",  # how virtme-ng reads a kernel's version
    "fish",  # completion
    "ibsim-utils",
    "ibverbs-providers",
    "ibverbs-utils",
    "infiniband-diags",
    "iproute2",
    "jq",  # reads every document
    "kmod",
    "libfabric-bin",
    "nftables",
    "opensm",
    "pciutils",  # lspci, setpci
    "perftest",
    "procps",
    "qemu-system-x86",
    "rdma-core",
    "rdmacm-utils",
    "strace",
    "ucx-utils",
    "systemd",  # systemd-analyze verify
    "util-linux",
    "xz-utils",
    "zsh",  # completion
)


BUILD_PACKAGES = (  # for a User Mode Linux kernel
    *("bc", "bison", "dpkg-dev", "flex", "gcc", "libc6-dev", "libelf-dev", "make"),
)

BROWSER_PACKAGES = ("chromium", "fonts-dejavu-core")  # 500 MB on the disk: for one part alone


def prepare() -> None:
    """Install what is missing; LabFailure says what cannot be done."""
    _require_debian()
    _install(PACKAGES)


def prepare_build() -> None:
    """What lab/build-uml.sh needs beyond that."""
    _install(BUILD_PACKAGES)


def prepare_browser() -> None:
    """What lab/chromium.py drives."""
    _install(BROWSER_PACKAGES)


def prepare_headers(release: str) -> None:
    """What lab/build-siw.sh needs: the compiler of that stock kernel comes with its headers."""
    _install((f"linux-headers-{release}", "make"))


def _require_debian() -> None:
    if platform.machine() != "x86_64":
        raise LabFailure(f"the lab boots an x86_64 kernel; this machine is {platform.machine()}")
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        system = {"ID": platform.system()}
    if system["ID"] != "debian":
        raise LabFailure(f"the lab needs Debian's packages; this is {system['ID']}")
    if os.geteuid() != 0:
        raise LabFailure("the lab must run as root: it installs packages and boots their files")


def _installed() -> frozenset[str]:
    listing = run(["dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package}\n"], timeout=60.0)
    return frozenset(line[3:].strip() for line in listing.stdout.splitlines() if line[:2] == "ii")


def _install(packages: Sequence[str]) -> None:
    installed = _installed()
    missing = [name for name in packages if name not in installed]
    if not missing:
        return
    wanted = " ".join(missing)
    print(f"installing {wanted}", flush=True)
    try:
        for argv in (["update"], ["-y", "install", "--no-install-recommends", *missing]):
            apt_get(argv, timeout=INSTALL_SECONDS)
    except LabFailure as failure:
        missed = f"missing packages; install them with: apt-get install {wanted}"
        raise LabFailure(f"{failure}\n{missed}", failure.exit_code) from None
