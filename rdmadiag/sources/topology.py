"""sysfs: where GPUs and RDMA devices stand on the PCI bus.

    /sys/bus/pci/devices/0000:1b:00.0/class    0x030200
    /sys/bus/pci/devices/0000:1b:00.0 -> ../../../devices/pci0000:16/0000:16:01.0/…/0000:1b:00.0
    /sys/bus/auxiliary/devices/mlx5_core.sf.2 -> ../../../devices/pci0000:16/…/mlx5_core.sf.2

Of each function of the bus its class, and of few more. Nothing of configuration space: what is
suspended stays so (pci_config_pm_runtime_get of drivers/pci/pci-sysfs.c).
"""

from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.topology import Adapter, GpuFunction, GpuKind, Place, TopologyFacts
from rdmadiag.host import Host
from rdmadiag.late import late
from rdmadiag.sources.sysfs import CLASS, PCI_DEVICES
from rdmadiag.sources.text import PCI_ADDRESS, attribute, malformed, parse_number, parse_text

AUXILIARY: Final = "/sys/bus/auxiliary/devices"

MOST: Final = 256
"""GPUs that are looked at: the largest hosts have 16, each of up to seven functions."""

_ROOT: Final = late(r"pci[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}")
_DEEPEST: Final = 32  # bridges above a function; hosts with two layers of switches have six
_PATH_BYTES: Final = 4096
_ID: Final = late(r"0x[0-9a-fA-F]{4}")
_CLASS: Final = late(r"0x[0-9a-fA-F]{6}")

_AMD, _NVIDIA, _INTEL = "0x1002", "0x10de", "0x8086"
_ANY: Final = None
_GPUS: Final = {
    "0x0300": (_NVIDIA, _AMD),  # VGA; a server's own is of the management controller's maker
    "0x0302": (_NVIDIA, _AMD),  # 3D
    "0x0380": (_AMD, _INTEL),  # other display: Instinct MI200, Data Center GPU Max
    "0x1200": _ANY,  # processing accelerators: Instinct MI300, Gaudi
}


def parse_place(target: str) -> tuple[Place, str] | Missing:
    """The link of a function, or of a part of one → its place, and its address."""
    parts = target.split("/") if len(target) <= _PATH_BYTES else []
    root = next((part for part in parts if _ROOT.fullmatch(part)), None)
    chain = [part.lower() for part in parts if PCI_ADDRESS.fullmatch(part)]
    if root is None or not 0 < len(chain) <= _DEEPEST:
        return malformed(target[:_PATH_BYTES].encode("utf-8", "replace"), "a path on the PCI bus")
    return Place(root.lower(), tuple(chain[:-1])), chain[-1]


def parse_id(raw: bytes) -> str | Missing:
    """vendor, device: "0x10de"."""
    text = raw.decode("latin-1").strip()
    return text.lower() if _ID.fullmatch(text) else malformed(raw, "a number of PCI")


def parse_class(raw: bytes) -> str | Missing:
    """class: "0x030200"."""
    text = raw.decode("latin-1").strip()
    return text.lower() if _CLASS.fullmatch(text) else malformed(raw, "a PCI class")


def read_topology(host: Host) -> TopologyFacts:
    """Everything above."""
    return TopologyFacts(gpus=_gpus(host), adapters=_adapters(host))


def _gpus(host: Host) -> tuple[GpuFunction, ...] | Missing:
    names = host.list(PCI_DEVICES)
    if isinstance(names, Missing):
        return names
    found: list[GpuFunction] = []
    for name in filter(PCI_ADDRESS.fullmatch, names):
        folder = f"{PCI_DEVICES}/{name}"
        number = attribute(host, f"{folder}/class", parse_class)
        if isinstance(number, Missing):
            continue
        makers = _GPUS.get(number[:6], ())
        if makers == ():
            continue
        vendor = attribute(host, f"{folder}/vendor", parse_id)
        if isinstance(vendor, Missing):
            return vendor  # of an older record, or of a function that went while we looked
        if makers is not _ANY and vendor not in makers:
            continue
        if not isinstance(host.readlink(f"{folder}/physfn"), Missing):
            continue  # a part of a GPU, for a virtual machine
        if len(found) == MOST:
            return Missing(Why.MALFORMED, f"{PCI_DEVICES}: more than {MOST} GPUs")
        own = number[:6] != "0x1200" or vendor in (_NVIDIA, _AMD)
        found.append(_gpu(host, name, GpuKind.GPU if own else GpuKind.ACCELERATOR, vendor))
    return tuple(found)


def _gpu(host: Host, name: str, kind: GpuKind, vendor: str) -> GpuFunction:
    folder = f"{PCI_DEVICES}/{name}"
    driver = host.readlink(f"{folder}/driver")
    target = host.readlink(folder)
    place = target if isinstance(target, Missing) else parse_place(target)
    state = attribute(host, f"{folder}/power/runtime_status", parse_text)
    asleep = Missing(Why.NOT_COLLECTED, f"{name} is suspended, and is not woken")
    link = (
        (asleep, asleep, asleep, asleep)
        if state == "suspended"
        else (
            attribute(host, f"{folder}/current_link_speed", parse_text),
            attribute(host, f"{folder}/current_link_width", parse_number),
            attribute(host, f"{folder}/max_link_speed", parse_text),
            attribute(host, f"{folder}/max_link_width", parse_number),
        )
    )
    return GpuFunction(
        name.lower(),
        kind,
        vendor,
        attribute(host, f"{folder}/device", parse_id),
        driver if isinstance(driver, Missing) else driver.rstrip("/").rpartition("/")[2],
        attribute(host, f"{folder}/numa_node", parse_number),
        place if isinstance(place, Missing) else place[0],
        *link,
    )


def _adapters(host: Host) -> tuple[Adapter, ...] | Missing:
    names = host.list(CLASS)
    if isinstance(names, Missing):
        return names
    return tuple(_adapter(host, name) for name in names if not name.startswith("."))


def _adapter(host: Host, name: str) -> Adapter:
    folder = f"{CLASS}/{name}/device"
    target = host.readlink(folder)
    if isinstance(target, Missing):
        return Adapter(name, target, target, target)
    last = target.rstrip("/").rpartition("/")[2]
    own = f"{PCI_DEVICES if PCI_ADDRESS.fullmatch(last) else AUXILIARY}/{last}"
    link = host.readlink(own)
    found = link if isinstance(link, Missing) else parse_place(link)
    if isinstance(found, Missing):
        address = last.lower() if PCI_ADDRESS.fullmatch(last) else found
        return Adapter(name, address, found, found)
    place, address = found
    above = host.readlink(f"{PCI_DEVICES}/{address}/physfn")
    if isinstance(above, Missing):
        is_none = above.why in (Why.ABSENT, Why.NOT_COLLECTED)
        return Adapter(name, address, place, None if is_none else above)
    physical = above.rstrip("/").rpartition("/")[2].lower()
    is_address = PCI_ADDRESS.fullmatch(physical) is not None
    bad = malformed(above.encode("utf-8", "replace"), "a physical function")
    return Adapter(name, address, place, physical if is_address else bad)
