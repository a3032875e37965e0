"""GPUs of a described host, and what lets an adapter reach their memory."""

from dataclasses import dataclass

from rdmadiag.facts import Missing, Why
from rdmadiag.host.recording import Recording


@dataclass(frozen=True)
class Gpu:
    """NVIDIA GPUs, and what lets a NIC reach their memory."""

    functions: tuple[str, ...] = ("0000:17:00.0",)
    peermem: str | None = "580.65.06"
    memory_peers: tuple[str, ...] | None = ("nv_mem",)
    open_driver: bool = True
    parameters: str | None = 'EnableStreamMemOPs: 0\nRegistryDwords: ""\n'  # None: not recorded
    gdrdrv: bool = False


@dataclass(frozen=True)
class Card:
    """A GPU's PCI function."""

    address: str
    ids: tuple[str, str, str] = ("0x10de", "0x2330", "0x030200")
    numa_node: int = 0
    root: str = "pci0000:00"
    bridges: tuple[str, ...] = ()
    link: tuple[str, str] = ("32.0 GT/s PCIe", "16")
    is_suspended: bool = False
    physical: str | None = None  # physfn of a virtual function


def card_files(card: Card) -> dict[str, str]:
    """Its attributes: path → content."""
    folder = f"/sys/bus/pci/devices/{card.address}"
    vendor, number, pci_class = card.ids
    return {
        f"{folder}/vendor": f"{vendor}\n",
        f"{folder}/device": f"{number}\n",
        f"{folder}/class": f"{pci_class}\n",
        f"{folder}/numa_node": f"{card.numa_node}\n",
        f"{folder}/power/runtime_status": "suspended\n" if card.is_suspended else "active\n",
        f"{folder}/current_link_speed": f"{card.link[0]}\n",
        f"{folder}/current_link_width": f"{card.link[1]}\n",
        f"{folder}/max_link_speed": "32.0 GT/s PCIe\n",
        f"{folder}/max_link_width": "16\n",
    }


def record_gpus(gpus: Gpu | None, recording: Recording) -> None:
    """Their driver's files and folders; refusals where there are none."""
    drivers = "/sys/bus/pci/drivers/nvidia"
    peers = "/sys/kernel/mm/memory_peers"
    if gpus is None:
        recording.refuse("list", drivers, Missing(Why.ABSENT, f"{drivers}: ENOENT"))
        return
    recording.listings[drivers] = ("bind", *gpus.functions)
    if gpus.peermem:
        recording.files["/sys/module/nvidia_peermem/version"] = gpus.peermem.encode()
    if gpus.memory_peers is None:
        recording.refuse("list", peers, Missing(Why.ABSENT, f"{peers}: ENOENT"))
    else:
        recording.listings[peers] = gpus.memory_peers
    if gpus.parameters is not None:
        recording.files["/proc/driver/nvidia/params"] = gpus.parameters.encode()
    if gpus.gdrdrv:
        recording.listings["/sys/module/gdrdrv"] = ("version",)
    kind = "Open Kernel Module" if gpus.open_driver else "Kernel Module"
    recording.files["/proc/driver/nvidia/version"] = f"NVIDIA UNIX {kind}  580.65\n".encode()
