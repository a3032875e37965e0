"""The module of lab/dcbtest for a User Mode Linux kernel: built once, kept in the cache.

CACHE/uml/dcbtest-7.2.13-1-5d41…    by the version of the kernel's source and what it was built by
"""

import hashlib
from pathlib import Path

from lab.failure import LabFailure
from lab.places import CHECKOUT, cache
from lab.prepare import prepare_build
from lab.uml_kernel import SHARED, UmlKernel, keep, rows

FOLDER = CHECKOUT / "lab" / "dcbtest"
BUILD_SECONDS = 1200.0
VARIABLE = "RDMADIAG_LAB_DCBTEST"  # where the guest's tests find it; not set: there is none


def settings(kernel: UmlKernel) -> dict[str, str]:
    """For the environment of a guest's job; empty, and said, where it cannot be had."""
    try:
        return {VARIABLE: str(dcb_module(kernel))}
    except LabFailure as failure:
        print(f"no dcbtest module for kernel {kernel.version}: {failure}", flush=True)
        return {}


def dcb_module(kernel: UmlKernel) -> Path:
    """The module; LabFailure where the kernel's own source and settings cannot be had."""
    row = next(row for row in rows() if row.version == kernel.version)
    config = SHARED / row.file.replace(".xz", ".config")
    if row.sha256[:12] not in kernel.program.name or not config.exists():
        raise LabFailure("its settings are known of the packed kernel alone")
    recipe = hashlib.sha256(config.read_bytes())
    for name in ("dcbtest.c", "Kbuild", "build.sh"):
        recipe.update((FOLDER / name).read_bytes())
    kept = cache() / "uml" / f"dcbtest-{row.source}-{recipe.hexdigest()[:12]}"
    if kept.exists():
        return kept
    print(f"building dcbtest from {row.package}: some minutes", flush=True)
    prepare_build()
    script = str(FOLDER / "build.sh")
    argv = [script, f"{row.package}={row.source}", str(config)]
    return keep(kept, argv, BUILD_SECONDS)
