"""What surrounds the devices: PCI, CPUs, the IOMMU, GPUs, and who started this process.

    /sys/bus/pci/devices/0000:08:00.0 -> ../../../devices/pci0000:00/0000:00:01.0/0000:08:00.0
    /sys/bus/pci/devices/0000:08:00.0/local_cpulist    0-15,32-47
    /sys/bus/pci/devices/0000:08:00.0/iommu_group/type    identity
    /proc/1200/limits    Max locked memory         8388608              8388608              bytes

A few small files for each device, and nothing for each GID.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.system import (
    IN_PCI,
    Ancestor,
    Bridge,
    Gpus,
    NvidiaParameters,
    PciPath,
    SystemFacts,
)
from rdmadiag.host import Host
from rdmadiag.late import late
from rdmadiag.sources.limits import read_limits
from rdmadiag.sources.process import STATUS, parse_memlock
from rdmadiag.sources.text import (
    CPU_LIST,
    PCI_ADDRESS,
    attribute,
    malformed,
    parse_number,
    parse_text,
)

_CLASS: Final = "/sys/class/infiniband"
_PCI: Final = "/sys/bus/pci/devices"
_NVIDIA: Final = "/sys/bus/pci/drivers/nvidia"
_GDRDRV: Final = "/sys/module/gdrdrv"
_PEERMEM: Final = ("nvidia_peermem", "nv_peer_mem")

_PARAMETER: Final = late(r"^(\w{1,64}): (.{0,4096})$", re.MULTILINE)
_PEER_MAPPING: Final = late(r'(?:^"?|;)\s*PeerMappingOverride\s*=\s*(?:0x)?0*1\s*(?:;|"?$)')

_PARENT: Final = late(r"^PPid:\s+([0-9]{1,10})$", re.MULTILINE)
_NAME: Final = late(r"^Name:\t(.*)$", re.MULTILINE)
_ANCESTORS: Final = 32  # a chain of parents is rarely longer than ten


def parse_pci_path(target: str) -> tuple[str, ...] | Missing:
    """The link of a function in /sys/bus/pci/devices → the addresses from the root to it."""
    found = tuple(part.lower() for part in target.split("/") if PCI_ADDRESS.fullmatch(part))
    return found or malformed(target.encode("utf-8", "replace"), "the path of a PCI function")


def parse_cpu_list(raw: bytes) -> str | Missing:
    """ "0-15,32-47"."""
    text = raw.decode("latin-1").strip()
    return text if CPU_LIST.fullmatch(text) else malformed(raw, "a list of CPUs")


def parse_iommu_options(raw: bytes) -> tuple[str, ...]:
    """/proc/cmdline → the words that concern the IOMMU."""
    words = raw.decode("utf-8", "replace").split()
    return tuple(word for word in words if "iommu" in word.lower() and word.isprintable())


def parse_parent(raw: bytes) -> int | Missing:
    """/proc/PID/status: PPid; 0 is the kernel's word for "none in this namespace"."""
    match = _PARENT.search(raw.decode("latin-1"))
    return int(match[1]) if match else malformed(raw, "a process status with PPid")


def parse_name(raw: bytes) -> str | Missing:
    """/proc/PID/status: Name, in which the kernel has escaped what is not printable."""
    match = _NAME.search(raw.decode("utf-8", "replace"))
    name = match[1].strip() if match else ""
    if not name or not name.isprintable():
        return malformed(raw, "a process status with Name")
    return name


def parse_open_driver(raw: bytes) -> bool | Missing:
    """/proc/driver/nvidia/version: whether it is the open kernel module."""
    text = raw.decode("utf-8", "replace")
    if "NVIDIA" not in text:
        return malformed(raw, "the version of NVIDIA's driver")
    return "Open Kernel Module" in text


def parse_nvidia_parameters(raw: bytes) -> NvidiaParameters | Missing:
    """/proc/driver/nvidia/params: what the module was loaded with."""
    rows = dict(_PARAMETER.findall(raw.decode("utf-8", "replace")))
    if "RegistryDwords" not in rows and "EnableStreamMemOPs" not in rows:
        return malformed(raw, "parameters of NVIDIA's driver")
    older = Missing(Why.ABSENT, "this driver has no such parameter")
    words, stream = rows.get("RegistryDwords"), rows.get("EnableStreamMemOPs")
    return NvidiaParameters(
        stream_mem_ops=older if stream is None else stream == "1",
        peer_mapping=older if words is None else _PEER_MAPPING.search(words) is not None,
    )


def read_system(host: Host, pid: int | None = None) -> SystemFacts:
    """Everything above; the parents of the process that calls, or `pid` and its own."""
    first = attribute(host, STATUS, parse_parent) if pid is None else pid
    return SystemFacts(
        paths=_paths(host),
        cpus_online=attribute(host, "/sys/devices/system/cpu/online", parse_cpu_list),
        iommu_options=attribute(host, "/proc/cmdline", parse_iommu_options),
        kernel=attribute(host, "/proc/sys/kernel/osrelease", parse_text),
        gpus=_gpus(host),
        ancestors=first if isinstance(first, Missing) else tuple(_ancestors(host, first)),
        asked_pid=pid,
        limits=read_limits(host, pid),
    )


def _ancestors(host: Host, first: int) -> Iterator[Ancestor]:
    """`first` and its parents up to init; each is read once, and a circle ends it."""
    pid: int | Missing = first
    seen: set[int] = set()
    while not isinstance(pid, Missing) and pid > 0 and pid not in seen and len(seen) < _ANCESTORS:
        seen.add(pid)
        folder = f"/proc/{pid}"
        status = host.read(f"{folder}/status")
        if isinstance(status, Missing) and status.why is Why.ABSENT and pid != first:
            return  # it ended while we looked
        yield Ancestor(
            pid=pid,
            name=status if isinstance(status, Missing) else parse_name(status),
            memlock=attribute(host, f"{folder}/limits", parse_memlock),
        )
        pid = status if isinstance(status, Missing) else parse_parent(status)


def _paths(host: Host) -> tuple[PciPath, ...] | Missing:
    names = host.list(_CLASS)
    if isinstance(names, Missing):
        return names
    found = []
    for name in names:
        target = host.readlink(f"{_CLASS}/{name}/device")
        address = "" if isinstance(target, Missing) else target.rstrip("/").rpartition("/")[2]
        if PCI_ADDRESS.fullmatch(address):
            found.append(_path(host, name, address.lower()))
    return tuple(found)


def _path(host: Host, device: str, address: str) -> PciPath:
    folder = f"{_PCI}/{address}"
    target = host.readlink(folder)
    chain = target if isinstance(target, Missing) else parse_pci_path(target)
    above: tuple[Bridge, ...] | Missing
    if isinstance(chain, Missing):
        above, slot = chain, None
    else:
        above = tuple(Bridge(each, IN_PCI) for each in chain[:-1])
        slot = f"{_PCI}/{chain[-2]}" if len(chain) > 1 else None
    unknown = Missing(Why.ABSENT, "no bridge above the function")
    return PciPath(
        device=device,
        function=address,
        bridges=above,
        slot_max_link_speed=(
            attribute(host, f"{slot}/max_link_speed", parse_text) if slot else unknown
        ),
        slot_max_link_width=(
            attribute(host, f"{slot}/max_link_width", parse_number) if slot else unknown
        ),
        local_cpus=attribute(host, f"{folder}/local_cpulist", parse_cpu_list),
        iommu_domain=attribute(host, f"{folder}/iommu_group/type", parse_text),
    )


def _gpus(host: Host) -> Gpus:
    names = host.list(_NVIDIA)
    bound = () if isinstance(names, Missing) else tuple(filter(PCI_ADDRESS.fullmatch, names))
    if not bound:
        none = Missing(Why.NOT_COLLECTED, "no NVIDIA GPU")
        if isinstance(names, Missing) and names.why is not Why.ABSENT:
            none = names
        return Gpus((), none, none, none, none, none)
    parameters = attribute(host, "/proc/driver/nvidia/params", parse_nvidia_parameters)
    return Gpus(
        functions=bound,
        peermem=_first(
            attribute(host, f"/sys/module/{module}/version", parse_text) for module in _PEERMEM
        ),
        memory_peers=host.list("/sys/kernel/mm/memory_peers"),
        open_driver=attribute(host, "/proc/driver/nvidia/version", parse_open_driver),
        parameters=parameters,
        # Every NVIDIA driver has the file before: an older record has neither.
        gdrdrv=parameters if isinstance(parameters, Missing) else _is_there(host, _GDRDRV),
    )


def _is_there(host: Host, folder: str) -> bool | Missing:
    found = host.list(folder)
    if isinstance(found, Missing):
        return False if found.why is Why.ABSENT else found
    return True


def _first(answers: Iterable[str | Missing]) -> str | Missing:
    """The first that is there; else the last reason."""
    answer: str | Missing = Missing(Why.ABSENT)
    for answer in answers:
        if not isinstance(answer, Missing):
            return answer
    return answer
