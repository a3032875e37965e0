"""Hosts with NVIDIA GPUs: whether adapters reach their memory, and by which way."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.system import Gpus, PciPath, SystemFacts
from rdmadiag.late import late
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.stack_picks import variables

DMABUF_SINCE: Final = (5, 12)
"""The kernel's version from which verbs can register a DMA-BUF (ibv_reg_dmabuf_mr)."""

_VERSION: Final = late(r"([0-9]{1,4})\.([0-9]{1,4})")
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
    needs=("devices", "GPUs", "PCI function", "ways to GPU memory"),
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
    if isinstance(gpus.open_driver, Missing):
        return seen(gpus.open_driver)
    return "yes" if gpus.open_driver else "no"


PEERMEM_SINCE: Final = (2, 23)
"""NCCL's version from which /sys/module/nvidia_peermem counts: src/transport/net_ib.cc."""

_NCCL_DMABUF_SINCE: Final = (2, 13)
"""Of NCCL_DMABUF_ENABLE: NVIDIA's page of NCCL's environment variables."""


@rule(
    "gdr-version-gap",
    Severity.WARN,
    "This version of NCCL does not see nvidia_peermem",
    "nvidia_peermem is loaded, and this NCCL looks for it in a folder that kernels from 5.6 on do "
    "not have (/sys/kernel/mm/memory_peers): before 2.23 it does not look at "
    "/sys/module/nvidia_peermem. It says GPU Direct RDMA Disabled, and data goes through main "
    "memory, at a tenth of the rate. A note where DMA-BUF may serve instead. The version is that "
    "of --stack nccl@VERSION, or of the library that the process of --pid has mapped.",
    (
        "https://github.com/NVIDIA/nccl/issues/1676",
        "https://github.com/NVIDIA/nccl/issues/1939",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    ),
    remedy=(
        "# run NCCL 2.23 or newer: pip install -U nvidia-nccl-cu12, or a newer container",
        _LOOK,
    ),
    needs=(
        *("devices", "GPUs", "PCI function", "ways to GPU memory"),
        "libraries of the process of --pid",
        "versions of these libraries",
    ),
)
def gdr_version_gap(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding for the host: the oldest version that is too old."""
    system = _system(case)
    if system is None or isinstance(system.gpus.peermem, Missing):
        return
    peers = system.gpus.memory_peers
    if isinstance(peers, Missing) and peers.why is not Why.ABSENT:
        return
    if any(name.startswith("nv_mem") for name in present(peers)):
        return
    old = sorted(_old_nccl(case))
    if not old:
        return
    numbers, named, proof = old[0]
    dmabuf = has_dmabuf(system) and numbers >= _NCCL_DMABUF_SINCE
    result = (
        "DMA-BUF may serve instead" if dmabuf else "GPU Direct RDMA stays off, data goes by memory"
    )
    yield this.finding(
        f"NCCL {named} does not see nvidia_peermem, which is loaded: {result}",
        severity=Severity.INFO if dmabuf else None,
        evidence=[
            proof,
            Proof("system", "/sys/module/nvidia_peermem/version", seen(system.gpus.peermem)),
            Proof("system", "/sys/kernel/mm/memory_peers", _listed(system.gpus)),
            Proof("system", "/proc/driver/nvidia/version: open kernel module", _open(system.gpus)),
            Proof("system", "/proc/sys/kernel/osrelease", seen(system.kernel)),
        ],
    )


def _old_nccl(case: Case) -> Iterator[tuple[tuple[int, ...], str, Proof]]:
    """Versions before PEERMEM_SINCE that are known to be used: numbers, name, where from."""
    found = case.evidence.libraries
    for library in () if isinstance(found, Missing) else found.mapped:
        if library.name != "nccl" or isinstance(library.version, Missing):
            continue
        numbers = tuple(int(each) for each in library.version.split("."))
        if numbers < PEERMEM_SINCE:
            assert not isinstance(found, Missing)
            proof = Proof("libraries", f"/proc/{found.pid}/maps", library.path)
            yield numbers, library.version, proof
    for stack, version in case.stacks:
        if stack.name == "nccl" and version.until is not None and version.until <= PEERMEM_SINCE:
            yield version.since, version.name, Proof("stack", "--stack", f"nccl@{version.name}")


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


_FALSE: Final = ("", "0", "n", "no", "f", "false", "off")
_OPTIONS: Final = 'NVreg_EnableStreamMemOPs=1 NVreg_RegistryDwords="PeerMappingOverride=1;"'


@rule(
    "ibgda-not-possible",
    Severity.WARN,
    "NVSHMEM is set to have GPUs post work themselves, and they cannot",
    "NVSHMEM_IB_ENABLE_IBGDA is set: GPUs are to write the adapter's queues and doorbells (IBGDA). "
    "For that the adapters' driver must be mlx5, and NVIDIA's driver be loaded with "
    "PeerMappingOverride=1, or else NVSHMEM_IBGDA_NIC_HANDLER=cpu and GDRCopy's driver gdrdrv, by "
    "which the processor rings the doorbell. Without one of the two, initialisation fails. A note "
    "where the handler is auto, which newer releases of NVSHMEM then take for the processor: that "
    "works, and is slower.",
    (
        "https://github.com/deepseek-ai/DeepEP/issues/36",
        "https://github.com/deepseek-ai/DeepEP/issues/202",
        "https://github.com/sgl-project/sglang/issues/12533",
    ),
    remedy={
        "where the GPU cannot ring the doorbell": (
            f"echo 'options nvidia {_OPTIONS}' | sudo tee /etc/modprobe.d/nvidia-ibgda.conf",
            "# then update the initial RAM disk (sudo update-initramfs -u), and boot anew",
        ),
        "where GDRCopy's driver is not loaded": (
            "sudo modprobe gdrdrv   # of GDRCopy: https://github.com/NVIDIA/gdrcopy",
        ),
        "where no adapter is driven by mlx5": ("unset NVSHMEM_IB_ENABLE_IBGDA",),
    },
    needs=(
        "devices",
        "parameters of the GPUs' driver",
        "driver of the PCI function",
        "environment",
    ),
)
def ibgda_not_possible(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding for the host; of the first reason."""
    system, values = _system(case), variables(case.evidence)
    if system is None or isinstance(values, Missing):
        return
    asked = values.get("NVSHMEM_IB_ENABLE_IBGDA", "")
    if asked.lower() in _FALSE:
        return
    handler = values.get("NVSHMEM_IBGDA_NIC_HANDLER", "auto").lower()
    parameters, gdrdrv = system.gpus.parameters, system.gpus.gdrdrv
    mapping = parameters if isinstance(parameters, Missing) else parameters.peer_mapping
    drivers = {each.pci.driver for each in case.devices if not isinstance(each.pci, Missing)}
    known = not any(isinstance(each, Missing) for each in drivers)
    severity = None
    if known and not case.selected and "mlx5_core" not in drivers:
        when, why = "where no adapter is driven by mlx5", "no adapter is driven by mlx5"
    elif handler == "cpu" and gdrdrv is False:
        when, why = "where GDRCopy's driver is not loaded", "gdrdrv is not loaded"
    elif handler in ("auto", "gpu") and mapping is False:
        when = "where the GPU cannot ring the doorbell"
        why = "PeerMappingOverride is not set, so the GPU cannot ring the adapter's doorbell"
        severity = Severity.INFO if handler == "auto" else None
    else:
        return
    yield this.finding(
        f"NVSHMEM_IB_ENABLE_IBGDA={asked}: {why}",
        severity=severity,
        when=when,
        evidence=[
            Proof("process", "environment: NVSHMEM_IB_ENABLE_IBGDA", asked),
            Proof("process", "environment: NVSHMEM_IBGDA_NIC_HANDLER", handler),
            Proof("system", "/proc/driver/nvidia/params: PeerMappingOverride=1", seen(mapping)),
            Proof("system", "/sys/module/gdrdrv", seen(gdrdrv)),
        ],
    )


RULES: Final[tuple[Rule, ...]] = (
    gpu_memory_unreachable,
    gdr_version_gap,
    ibgda_not_possible,
    iommu_translates,
)
