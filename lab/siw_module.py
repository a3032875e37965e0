"""Soft iWARP for Debian's stock kernel, which is configured without it: built once, in the cache.

    CACHE/kernels/6.1.0-48-amd64/lib/modules/6.1.0-48-amd64/updates/siw.ko

There `rdma link add … type siw` loads it, by the alias that the module has.
"""

import shutil

from lab.command import run
from lab.failure import LabFailure
from lab.kernel import UNPACK_SECONDS, Kernel, link_modules
from lab.places import CHECKOUT, cache
from lab.prepare import prepare_headers
from lab.uml_kernel import keep

BUILD_SECONDS = 600.0
SCRIPT = CHECKOUT / "lab" / "build-siw.sh"


def add_siw(kernel: Kernel) -> None:
    """Put it where the guest's modprobe finds it; says so where it cannot be had."""
    module = kernel.modules / "updates" / "siw.ko"
    if module.exists():
        return
    print(f"building siw for {kernel.release}: half a minute", flush=True)
    try:
        prepare_headers(kernel.release)
        built = cache() / "kernels" / f"siw-{kernel.release}.ko"
        keep(built, [str(SCRIPT), kernel.release], BUILD_SECONDS)
    except LabFailure as failure:
        print(f"no siw for {kernel.release}: {failure}", flush=True)
        return
    module.parent.mkdir(exist_ok=True)
    shutil.move(built, module)
    done = run(["depmod", "-b", str(kernel.root), kernel.release], timeout=UNPACK_SECONDS)
    if done.returncode != 0:
        module.unlink()
        print(f"no siw for {kernel.release}: depmod: {done.stderr.strip()}", flush=True)
    link_modules(kernel)  # the package of the headers may have made a folder of it
