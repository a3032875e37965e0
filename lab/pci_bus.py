"""What QEMU's guests have on PCI Express, and how its functions pass for an adapter and a GPU.

An emulated host has neither: over the real bus, with its real configuration space, are laid a
folder /sys/class/infiniband, and the ids of one function. Registers are those of QEMU's functions;
QEMU keeps Device Control at zero (pcie_cap_v1_fill of hw/pci/pcie.c), so that other values need
`settable`.

    root port ─ switch ┬ port ─ Ethernet, the adapter
                       └ port ─ Ethernet, the GPU
    root port ─ virtio-net with address translation
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.machine import Machine

_OPTIONS = (
    # The kernel's test of its timer through remapped interrupts fails on a busy machine.
    "-device intel-iommu,device-iotlb=on,intremap=off",
    "-device pcie-root-port,id=rp1,chassis=1,slot=1",
    "-device x3130-upstream,id=up1,bus=rp1",
    "-device xio3130-downstream,id=down1,bus=up1,chassis=2,slot=1",
    "-device xio3130-downstream,id=down2,bus=up1,chassis=2,slot=2",
    "-device e1000e,bus=down1",
    "-device e1000e,bus=down2",
    "-device pcie-root-port,id=rp2,chassis=3,slot=3",
    "-device virtio-net-pci,bus=rp2,disable-legacy=on,iommu_platform=on,ats=on",
)

OPTIONS = " ".join(_OPTIONS)
"""Of QEMU."""

APPEND = "intel_iommu=on"
"""Of the kernel: with it, it enables ACS of root ports, and ATS."""

DEVICES = Path("/sys/bus/pci/devices")
CLASS = Path("/sys/class/infiniband")
ETHERNET = ("0x8086", "0x10d3")  # e1000e


def functions(vendor: str, device: str) -> list[str]:
    """The addresses of those with these ids, in order."""
    return sorted(
        each.name
        for each in DEVICES.iterdir()
        if (each / "vendor").read_text().strip() == vendor
        and (each / "device").read_text().strip() == device
    )


def above(address: str) -> tuple[str, ...]:
    """The bridges, from the root."""
    parts = os.readlink(DEVICES / address).split("/")
    return tuple(part for part in parts[:-1] if part in os.listdir(DEVICES))


@contextmanager
def laid_over(machine: Machine, adapter: str, gpu: str, folder: Path) -> Iterator[None]:
    """The first device of `machine` stands on `adapter`, and `gpu` says that it is NVIDIA's."""
    machine.write_sysfs(str(folder / "tree"))
    shown = folder / "tree" / "sys" / "class" / "infiniband"
    name = machine.devices[0].name
    own = shown / name / "device"
    subprocess.run(["rm", "-rf", str(own)], check=True, timeout=30)
    own.symlink_to(os.path.relpath(os.path.realpath(DEVICES / adapter), CLASS / name))
    with ExitStack() as undo:
        subprocess.run(["chmod", "-R", "a+rX", str(shown)], check=True, timeout=30)
        mount(shown, CLASS, undo)
        for attribute, value in (("vendor", "0x10de"), ("class", "0x030200")):
            file = folder / f"gpu-{attribute}"
            file.write_text(f"{value}\n")
            file.chmod(0o644)
            mount(file, DEVICES / gpu / attribute, undo)
        yield


@contextmanager
def settable(address: str, folder: Path) -> Iterator[None]:
    """Over the function's configuration space lies a file with its bytes, which setpci writes."""
    file = folder / "config"
    file.write_bytes((DEVICES / address / "config").read_bytes())
    with ExitStack() as undo:
        mount(file, DEVICES / address / "config", undo)
        yield


def mount(source: Path, target: Path, undo: ExitStack) -> None:
    """Bind it, until `undo` is closed."""
    subprocess.run(["mount", "--bind", str(source), str(target)], check=True, timeout=30)
    undo.callback(subprocess.run, ["umount", str(target)], check=True, timeout=30)


def setpci(address: str, register: str) -> None:
    """ "CAP_EXP+8.w=0010:0010": write, or raise CalledProcessError."""
    subprocess.run(["setpci", "-s", address, register], check=True, timeout=30)
