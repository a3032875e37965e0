"""Hosts with NVIDIA GPUs: whether adapters reach their memory, and by which way."""

import re
from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.system import Gpus, PciPath, SystemFacts
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity

DMABUF_SINCE: Final = (5, 12)
"""The kernel's version from which verbs can register a DMA-BUF (ibv_reg_dmabuf_mr)."""

_VERSION: Final = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")
_GPUS: Final = "/sys/bus/pci/drivers/nvidia"


def _system(case: Case) -> SystemFacts | None:
    """Of a host with a GPU and an adapter; software devices do not reach GPU memory anyway."""
    system = case.evidence.system
    if isinstance(system, Missing) or not system.gpus.functions:
        return None
    return system if any(not isinstance(device.pci, Missing) for device in case.devices) else None


def _paths(case: Case, system: SystemFacts) -> Iterator[PciPath]:
    chosen = {device.name for device in case.devices}
    for path in present(system.paths):
        if path.device in chosen:
            yield path


def has_dmabuf(system: SystemFacts) -> bool:
    """Whether GPU memory can perhaps be registered without nvidia_peermem."""
    match = None if isinstance(system.kernel, Missing) else _VERSION.match(system.kernel)
    if match is None or system.gpus.open_driver is not True:
        return False
    return (int(match[1]), int(match[2])) >= DMABUF_SINCE


def _is_registered(gpus: Gpus) -> bool | Missing:
    """Whether nvidia_peermem is registered with ib_core; Missing where the kernel does not say."""
    peers = gpus.memory_peers
    return peers if isinstance(peers, Missing) else any(n.startswith("nv_mem") for n in peers)


_LOOK: Final = "NCCL_DEBUG=INFO PROGRAM 2>&1 | grep -e GDR -e DMABUF -e peermem   # what it uses"


@rule(
    "gpu-memory-unreachable",
    Severity.WARN,
    "GPU memory is perhaps out of the adapters' reach",
    "There is an NVIDIA GPU, and nvidia_peermem is not loaded, or is loaded and has not "
    "registered with the RDMA stack: it was loaded before it, or is of another build. Data then "
    "goes through main memory (GPU Direct RDMA disabled). A note where DMA-BUF may serve "
    "instead, which needs the open GPU driver, kernel 5.12 or newer, and a program that uses it.",
    (
        "https://github.com/NVIDIA/nccl/issues/1939",
        "https://github.com/NVIDIA/nccl/issues/1537",
        "https://github.com/deepseek-ai/DeepEP/issues/55",
    ),
    remedy={
        "where nvidia_peermem is not loaded": ("sudo modprobe nvidia_peermem", _LOOK),
        "where it is loaded": (
            "sudo rmmod nvidia_peermem; sudo modprobe nvidia_peermem",
            _LOOK,
        ),
    },
    needs=("devices", "GPUs", "PCI function"),
)
def gpu_memory_unreachable(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding for the host."""
    system = _system(case)
    if system is None:
        return
    gpus = system.gpus
    registered = _is_registered(gpus)
    loaded = not isinstance(gpus.peermem, Missing)
    if registered is True or (loaded and isinstance(registered, Missing)):
        return
    if isinstance(gpus.peermem, Missing) and gpus.peermem.why is not Why.ABSENT:
        return
    dmabuf = has_dmabuf(system)
    state = (
        "nvidia_peermem is loaded and has not registered"
        if loaded
        else "nvidia_peermem is not loaded"
    )
    instead = "; DMA-BUF may serve instead" if dmabuf else ", and DMA-BUF seems not to be possible"
    yield this.finding(
        f"{len(gpus.functions)} NVIDIA GPUs: {state}{instead}",
        severity=Severity.INFO if dmabuf else None,
        evidence=[
            Proof("system", _GPUS, " ".join(gpus.functions[:8])),
            Proof("system", "/sys/module/nvidia_peermem/version", seen(gpus.peermem)),
            Proof("system", "/sys/kernel/mm/memory_peers", _listed(gpus)),
            Proof("system", "/proc/driver/nvidia/version: open kernel module", _open(gpus)),
            Proof("system", "/proc/sys/kernel/osrelease", seen(system.kernel)),
        ],
        when="where it is loaded" if loaded else "where nvidia_peermem is not loaded",
    )


def _listed(gpus: Gpus) -> str:
    peers = gpus.memory_peers
    return seen(peers) if isinstance(peers, Missing) else " ".join(peers) or "none"


def _open(gpus: Gpus) -> str:
    return {True: "yes", False: "no"}.get(gpus.open_driver, seen(gpus.open_driver))  # type: ignore[arg-type]


@rule(
    "iommu-translates",
    Severity.INFO,
    "The IOMMU translates the adapters' addresses",
    "The adapters' DMA is translated by the IOMMU. On a host with GPUs that can cost bandwidth, "
    "and keeps peer-to-peer traffic from the short way. With iommu=pt the host's own devices are "
    "passed through untranslated, and virtual machines can still be given theirs.",
    (
        "https://github.com/NVIDIA/nccl/issues/606",
        "https://github.com/NVIDIA/nccl/issues/1737",
    ),
    remedy=("# on the kernel's command line: iommu=pt",),
    needs=("devices", "GPUs", "PCI function", "way to the root complex"),
)
def iommu_translates(this: Rule, case: Case) -> Iterator[Finding]:
    """By the type of the IOMMU group; the kernel's command line is only shown beside it."""
    system = _system(case)
    if system is None:
        return
    translated = [
        path
        for path in _paths(case, system)
        if not isinstance(path.iommu_domain, Missing) and path.iommu_domain.startswith("DMA")
    ]
    if not translated:
        return
    options = system.iommu_options
    shown = seen(options) if isinstance(options, Missing) else " ".join(options) or "none"
    yield this.finding(
        f"the IOMMU translates the DMA of {' '.join(path.device for path in translated)}: GPU "
        "Direct may be slower for it",
        evidence=[
            *(
                Proof(
                    "system",
                    f"/sys/bus/pci/devices/{path.function}/iommu_group/type",
                    seen(path.iommu_domain),
                )
                for path in translated[:8]
            ),
            Proof("system", "/proc/cmdline: iommu options", shown),
        ],
    )


RULES: Final[tuple[Rule, ...]] = (gpu_memory_unreachable, iommu_translates)
