"""Debian's stock kernel, unpacked in the cache: it has rdma_rxe, which few others build.

    CACHE/kernels/6.1.0-48-amd64/boot/vmlinuz-6.1.0-48-amd64
    CACHE/kernels/6.1.0-48-amd64/lib/modules/6.1.0-48-amd64/

The newest one that APT knows is taken; a cached one is used as it is, without a network.
"""

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.apt import apt_get
from lab.command import run
from lab.failure import LabFailure
from lab.places import cache

MODULES = Path("/lib/modules")
UPDATE_SECONDS = 300.0
DOWNLOAD_SECONDS = 600.0
UNPACK_SECONDS = 300.0

# Debian 12 and before number their builds, 13 and later do not: 6.1.0-48-amd64,
# 6.12.48+deb13-amd64. Where both are offered the second is a backport.
_NUMBERED = re.compile(r"(\d+(?:\.\d+)+)-(\d+)-amd64")
_PLAIN = re.compile(r"(\d+(?:\.\d+)+)\+deb(\d+)-amd64")
_AS_ROOT = ["-o", "APT::Sandbox::User=root"]  # the _apt user cannot write to our folder


@dataclass(frozen=True)
class Kernel:
    release: str  # what uname -r says in the guest
    root: Path  # the unpacked package

    @property
    def image(self) -> Path:
        return self.root / "boot" / f"vmlinuz-{self.release}"

    @property
    def modules(self) -> Path:
        return self.root / "lib" / "modules" / self.release


def newest(releases: list[str], series: str = "") -> str | None:
    """The newest stock release: ["6.1.0-9-amd64", "6.1.0-48-amd64"] → "6.1.0-48-amd64".

    Of a `series`, such as "6.12", alone where one is named. Flavours (rt, cloud, dbg, unsigned)
    are not stock: they lack modules or are older builds.
    """
    if series:
        releases = [release for release in releases if release.startswith(f"{series}.")]

    for pattern in (_NUMBERED, _PLAIN):
        stock = [match for release in releases if (match := pattern.fullmatch(release))]
        if stock:
            return max(stock, key=_order)[0]
    return None


def _order(match: re.Match[str]) -> tuple[list[int], int]:
    return [int(number) for number in match[1].split(".")], int(match[2])


def stock_kernel(series: str = "") -> Kernel:
    """The newest one, from the cache or from APT, with its modules where programs look for them.

    `series`: the newest of that, "6.12", which may be a backport.
    """
    kernel = _cached(series) or _download(series)
    link_modules(kernel)
    return kernel


def _cached(series: str) -> Kernel | None:
    """The newest kernel of the cache, complete or not there at all."""
    folder = cache() / "kernels"
    release = newest([p.name for p in folder.iterdir()] if folder.is_dir() else [], series)
    return Kernel(release, folder / release) if release else None


def _download(series: str) -> Kernel:
    """Fetch and unpack the newest kernel that APT knows; its lists are updated when stale."""
    release = _known_to_apt(series)
    updated = release is None
    if updated:
        _update_lists()
        release = _known_to_apt(series)
    if release is None:
        wanted = f"linux-image-{series or '…'}-amd64"
        raise LabFailure(f"APT offers no {wanted}: is this a Debian release?")
    folder = cache() / "kernels"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache()) as scratch:
        try:
            _download_package(release, Path(scratch))
        except LabFailure:
            if updated:
                raise
            # The lists name a build that the mirror has already replaced.
            _update_lists()
            release = _known_to_apt(series) or release
            _download_package(release, Path(scratch))
        return _unpack(release, Path(scratch), folder)


def link_modules(kernel: Kernel) -> None:
    """Let /lib/modules/RELEASE lead to the cache, unless something usable is there already.

    The package of the kernel's headers makes it a folder with links to them alone: what the
    cache has is linked beside those.
    """
    link = MODULES / kernel.release
    known = link / "modules.dep"
    ours = known.resolve() == (kernel.modules / known.name).resolve()
    if known.exists() and (link.is_symlink() or not ours):
        return
    link.parent.mkdir(exist_ok=True)
    if link.is_symlink():
        link.unlink()  # it led to a cache that has since been removed
    if not link.exists():
        link.symlink_to(kernel.modules)
        return
    for each in kernel.modules.iterdir():
        beside = link / each.name
        if beside.is_symlink() and not beside.exists():
            beside.unlink()
        if not beside.exists():
            beside.symlink_to(each)


def _known_to_apt(series: str) -> str | None:
    prefix = "linux-image-"
    listing = run(["apt-cache", "search", "--names-only", f"^{prefix}"], timeout=60.0)
    names = [line.split(" ", 1)[0] for line in listing.stdout.splitlines()]
    return newest([name.removeprefix(prefix) for name in names], series)


def _update_lists() -> None:
    apt_get(["update"], timeout=UPDATE_SECONDS)


def _download_package(release: str, into: Path) -> None:
    argv = [*_AS_ROOT, "download", f"linux-image-{release}"]
    apt_get(argv, timeout=DOWNLOAD_SECONDS, cwd=into)


def _unpack(release: str, scratch: Path, folder: Path) -> Kernel:
    """Unpack beside the cache and move the complete folder into it in one step."""
    package = next(scratch.glob("*.deb"))
    fresh = Kernel(release, scratch / release)
    for argv in (
        ["dpkg-deb", "-x", str(package), str(fresh.root)],
        ["depmod", "-b", str(fresh.root), release],
    ):
        done = run(argv, timeout=UNPACK_SECONDS)
        if done.returncode != 0:
            raise LabFailure(f"{argv[0]} failed on linux-image-{release}: {done.stderr.strip()}")
    if not any(fresh.modules.rglob("rdma_rxe.ko*")):
        raise LabFailure(f"linux-image-{release} has no rdma_rxe module")
    kept = Kernel(release, folder / release)
    if not kept.root.exists():
        fresh.root.rename(kept.root)
    return kept
