"""Kernel modules of the lab's own for a User Mode Linux kernel: built once, kept in the cache.

CACHE/uml/dcbtest-7.2.13-1-5d41…    by the version of the kernel's source and what it was built by
"""

import hashlib
from pathlib import Path

from lab.failure import LabFailure
from lab.places import CHECKOUT, cache
from lab.prepare import prepare_build
from lab.uml_kernel import SHARED, UmlKernel, keep, rows

LAB = CHECKOUT / "lab"
SCRIPT = LAB / "build-module.sh"
BUILD_SECONDS = 1200.0


def setting(variable: str, kernel: UmlKernel, folder: str) -> dict[str, str]:
    """For the environment of a guest's job; empty, and said, where it cannot be had."""
    try:
        return {variable: str(module(kernel, folder))}
    except LabFailure as failure:
        print(f"no module of lab/{folder} for kernel {kernel.version}: {failure}", flush=True)
        return {}


def module(kernel: UmlKernel, folder: str) -> Path:
    """That of lab/FOLDER; LabFailure where the kernel's own source and settings cannot be had."""
    row = next(row for row in rows() if row.version == kernel.version)
    config = SHARED / row.file.replace(".xz", ".config")
    if row.sha256[:12] not in kernel.program.name or not config.exists():
        raise LabFailure("its settings are known of the packed kernel alone")
    recipe = hashlib.sha256(config.read_bytes() + SCRIPT.read_bytes())
    for source in sorted((LAB / folder).iterdir()):
        recipe.update(source.read_bytes())
    kept = cache() / "uml" / f"{folder}-{row.source}-{recipe.hexdigest()[:12]}"
    if kept.exists():
        return kept
    print(f"building lab/{folder} from {row.package}: some minutes", flush=True)
    prepare_build()
    argv = [str(SCRIPT), f"{row.package}={row.source}", str(config), str(LAB / folder)]
    return keep(kept, argv, BUILD_SECONDS)
