"""Compiles rdmadiag/verbs/_loop.c and rdmadiag/sieve/_sieve.c while a wheel or an editable
installation is made.

Where there is no compiler, or it fails, rdmadiag is installed without: lines.py then does the
same in Python, and pingpong verifies data without timing it.
"""

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

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
                build_data["tag"] = f"py3-none-{_platform()}"


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
            built = ["-O3", *flags, "-shared", "-fPIC", "-o", str(target), str(source)]
            subprocess.run([*compiler, *built], check=True, capture_output=True)  # noqa: S603
        except (OSError, ValueError, subprocess.CalledProcessError):
            target.unlink(missing_ok=True)
            continue
        if target.exists():
            return target
    return None


def _platform() -> str:
    """linux_x86_64, macosx_26_0_arm64; it was made for this machine, and for no manylinux."""
    return next(tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))
