"""Compiles rdmadiag/verbs/_loop.c and rdmadiag/sieve/_sieve.c while a wheel or an editable
installation is made.

Where there is no compiler, or it fails, rdmadiag is installed without: lines.py then does the
same in Python, and pingpong verifies data without timing it. HATCH_BUILD_NO_HOOKS=true, hatchling's
own variable, makes that wheel (py3-none-any) where there is a compiler too.

On macOS ARCHFLAGS ("-arch arm64 -arch x86_64") and MACOSX_DEPLOYMENT_TARGET are obeyed, as by
setuptools: the compiler reads the second itself, and both decide the wheel's tag.
"""

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import mac_platforms, platform_tags

LOOP = Path("rdmadiag", "verbs", "_loop.c")
SIEVE = Path("rdmadiag", "sieve", "_sieve.c")


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """What hatchling calls before it collects the files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the library to the wheel, which is then for this platform alone."""
        if self.target_name != "wheel":
            return
        for source in (LOOP, SIEVE):
            compiled = compile_library(Path(self.root), source)
            if compiled and version != "editable":
                build_data["artifacts"].append(source.with_suffix(".so").as_posix())
                build_data["pure_python"] = False
                build_data["tag"] = f"py3-none-{wheel_platform(sys.platform, os.environ)}"


HARDENED = ("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fstack-protector-strong")
LINKED = ("-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack")  # of ELF alone


def compile_library(root: Path, of: Path) -> Path | None:
    """The library that was made below `root`; None where there is none now.

    Hardened as far as the compiler knows how.
    """
    source = root / of
    target = source.with_suffix(".so")
    # What an earlier version left must not be taken for this one's.
    target.unlink(missing_ok=True)
    for flags in ((*HARDENED, *LINKED), HARDENED, ()):
        try:
            compiler = shlex.split(os.environ.get("CC") or "cc")
            if sys.platform == "darwin":
                compiler += shlex.split(os.environ.get("ARCHFLAGS", ""))
            built = ["-O3", *flags, "-shared", "-fPIC", "-o", str(target), str(source)]
            subprocess.run([*compiler, *built], check=True, capture_output=True)  # noqa: S603
        except (OSError, ValueError, subprocess.CalledProcessError):
            target.unlink(missing_ok=True)
            continue
        if target.exists():
            return target
    return None


def wheel_platform(system: str, environment: Mapping[str, str]) -> str:
    """linux_x86_64, macosx_11_0_universal2: that of the compiled parts.

    On Linux it is this machine's, and no manylinux: auditwheel finds that by what was linked.
    """
    if system == "darwin":
        release = environment.get("MACOSX_DEPLOYMENT_TARGET") or platform.mac_ver()[0]
        major, minor = map(int, f"{release}.0".split(".")[:2])
        named = shlex.split(environment.get("ARCHFLAGS", ""))
        built = {arch for flag, arch in pairwise(named) if flag == "-arch"} or {platform.machine()}
        arch = built.pop() if len(built) == 1 else "universal2"
        return next(iter(mac_platforms((major, minor), arch)))
    return next(tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))
