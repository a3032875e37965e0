"""sysfs: configuration space of adapters, GPUs, and the bridges above them.

    /sys/bus/pci/devices/0000:1b:00.0/config                    see rdmadiag.host.pci_config
    /sys/bus/pci/devices/0000:1b:00.0/power/runtime_status      active
    /sys/devices/system/cpu/modalias                            cpu:type:x86,ven0002fam0019mod0001:…

Reading wakes a function in D3cold, and the bridge above any that it reads
(pci_config_pm_runtime_get of drivers/pci/pci-sysfs.c): what is suspended is not read.
Vital Product Data, which names a card, is not read either: for that the kernel writes to a
register (pci_vpd_read of drivers/pci/vpd.c).
"""

import struct
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.pci import (
    ACS_BITS,
    PARTS,
    Acs,
    AcsBit,
    Cpu,
    Express,
    Part,
    PciConfig,
    PciFacts,
    PortKind,
    Role,
)
from rdmadiag.facts.topology import Place, TopologyFacts
from rdmadiag.host import Host
from rdmadiag.host.pci_config import (
    ACS,
    ATS,
    EXPRESS,
    HEADER_BYTES,
    capabilities,
    extended_capabilities,
    has_capabilities,
)
from rdmadiag.late import late
from rdmadiag.sources.sysfs import PCI_DEVICES
from rdmadiag.sources.text import attribute, malformed, parse_text
from rdmadiag.sources.topology import parse_id, parse_place, read_topology

MOST: Final = 1024
"""Functions that are read; eight GPUs and eight adapters below two layers of switches are 60."""

_CPU: Final = "/sys/devices/system/cpu/modalias"
_X86: Final = late(r"cpu:type:x86,ven([0-9A-F]{4})fam([0-9A-F]{4})mod([0-9A-F]{4}):")
_ASLEEP: Final = ("suspended", "suspending")
_NO_ANSWER: Final = b"\xff\xff"  # PCI_VENDOR_ID of a function that is gone, or in D3cold

# linux/pci_regs.h, from the start of the capability
_FLAGS, _DEVCAP, _DEVCTL = 2, 4, 8
_TYPE: Final = 0x00F0
_PAYLOAD_SUPPORTED: Final = 0x7
_RELAXED, _EXTENDED_TAGS, _NO_SNOOP = 0x0010, 0x0100, 0x0800
_ENABLED: Final = 0x8000  # PCI_ATS_CTRL_ENABLE


def parse_express(config: bytes) -> Express | Missing:
    """The PCI Express capability."""
    at = _at(config, EXPRESS)
    if isinstance(at, Missing):
        return at
    if at + _DEVCTL + 2 > len(config):
        return Missing(Why.MALFORMED, "the PCI Express capability is cut off")
    (flags,) = struct.unpack_from("<H", config, at + _FLAGS)
    (can,) = struct.unpack_from("<I", config, at + _DEVCAP)
    (control,) = struct.unpack_from("<H", config, at + _DEVCTL)
    number = (flags & _TYPE) >> 4
    kind = PortKind.from_number(number)
    return Express(
        kind=kind or Missing(Why.MALFORMED, f"{number:#x} is no type of PCI Express port"),
        payload_supported=_size(can & _PAYLOAD_SUPPORTED),
        payload=_size(control >> 5 & 7),
        read_request=_size(control >> 12 & 7),
        relaxed_ordering=bool(control & _RELAXED),
        no_snoop=bool(control & _NO_SNOOP),
        extended_tags=bool(control & _EXTENDED_TAGS),
    )


def parse_acs(config: bytes) -> Acs | Missing:
    """Access Control Services."""
    at = _at(config, ACS)
    if isinstance(at, Missing):
        return at
    if at + 8 > len(config):
        return Missing(Why.MALFORMED, "the ACS capability is cut off")
    can, control = struct.unpack_from("<HH", config, at + 4)
    return Acs(_bits(can), _bits(control))


def parse_ats(config: bytes) -> bool | Missing:
    """Address Translation Services: whether the function uses them."""
    at = _at(config, ATS)
    if isinstance(at, Missing):
        return at
    if at + 8 > len(config):
        return Missing(Why.MALFORMED, "the ATS capability is cut off")
    (control,) = struct.unpack_from("<H", config, at + 6)
    return bool(control & _ENABLED)


def parse_cpu(raw: bytes) -> Cpu | Missing:
    """modalias of the CPUs; other architectures give neither family nor model."""
    text = raw.decode("latin-1")
    found = _X86.match(text)
    if found:
        return Cpu(*(int(each, 16) for each in found.groups()))
    if text.startswith("cpu:type:") and not text.startswith("cpu:type:x86"):
        return Missing(Why.UNSUPPORTED, "not an x86 processor")
    return malformed(raw, "a modalias of CPUs")


def _at(config: bytes, wanted: int) -> int | Missing:
    """Where a capability is; why there is none."""
    if len(config) < HEADER_BYTES:
        return malformed(config, "configuration space")
    if config[:2] == _NO_ANSWER:
        return Missing(Why.MALFORMED, "the function does not answer: all bits are set")
    absent = Missing(Why.ABSENT, f"no {_NAMES[wanted]} capability")
    if not has_capabilities(config):
        return absent
    if len(config) == HEADER_BYTES:
        return Missing(Why.DENIED, f"configuration space behind {HEADER_BYTES} bytes is for root")
    walk = capabilities if wanted == EXPRESS else extended_capabilities
    for number, at in walk(lambda count, start: config[start : start + count]):
        if number == wanted:
            return at
    return absent


_NAMES: Final = {EXPRESS: "PCI Express", ACS: "ACS", ATS: "ATS"}


def _size(code: int) -> int | Missing:
    """Of payloads and read requests: 128 to 4096 bytes."""
    return 128 << code if code < 6 else Missing(Why.MALFORMED, f"{code} is no size of PCI Express")


def _bits(register: int) -> tuple[AcsBit, ...]:
    return tuple(bit for number, bit in enumerate(ACS_BITS) if register >> number & 1)


# --- reading -----------------------------------------------------------------------------------


_Ends = dict[str, tuple[Role, Place]]


def read_pci(host: Host) -> PciFacts:
    """Everything above; nothing of a host whose RDMA devices are none of the bus."""
    topology = read_topology(host)
    cpu = attribute(host, _CPU, parse_cpu)
    if isinstance(topology.adapters, Missing):
        return PciFacts(topology.adapters, cpu)
    ends = dict(_adapters(host, topology))
    if not ends:
        return PciFacts((), cpu)
    ends |= dict(_gpus(topology))
    function = partial(_function, host, {})
    wanted = ends | {at: each for at, each in _above(ends) if at not in ends}
    if len(wanted) > MOST:
        return PciFacts(Missing(Why.MALFORMED, f"{PCI_DEVICES}: more than {MOST} functions"), cpu)
    found = [function(address, *each) for address, each in wanted.items()]
    grace = {each.address for each in found if each.part is Part.GRACE_ROOT_PORT}
    direct = dict(_data_direct(host, grace))
    more = direct | {at: each for at, each in _above(direct) if at not in wanted}
    found += [function(address, *each) for address, each in more.items()]
    return PciFacts(tuple(found), cpu)


def _adapters(host: Host, topology: TopologyFacts) -> Iterator[tuple[str, tuple[Role, Place]]]:
    for each in present(topology.adapters):
        physical = each.physical_function
        if isinstance(physical, str):
            found = _place(host, physical)
            if found:
                yield physical, (Role.ADAPTER, found)
        elif not isinstance(each.address, Missing) and not isinstance(each.place, Missing):
            yield each.address, (Role.ADAPTER, each.place)


def _gpus(topology: TopologyFacts) -> Iterator[tuple[str, tuple[Role, Place]]]:
    for each in present(topology.gpus):
        if not isinstance(each.place, Missing):
            yield each.address, (Role.GPU, each.place)


def _above(ends: _Ends) -> Iterator[tuple[str, tuple[Role, Place]]]:
    """The bridges between each of `ends` and the root."""
    for _, place in ends.values():
        for depth, address in enumerate(place.bridges):
            yield address, (Role.BRIDGE, Place(place.root, place.bridges[:depth]))


def _data_direct(host: Host, roots: set[str]) -> Iterator[tuple[str, tuple[Role, Place]]]:
    """Functions of ConnectX-8 below these root ports; no RDMA device is theirs."""
    names = host.list(PCI_DEVICES) if roots else ()
    for name in present(names):
        place = _place(host, name)
        if place and roots & set(place.bridges[:1]):
            folder = f"{PCI_DEVICES}/{name}"
            ids = (
                attribute(host, f"{folder}/vendor", parse_id),
                attribute(host, f"{folder}/device", parse_id),
            )
            if PARTS.get(ids) is Part.DATA_DIRECT:
                yield name.lower(), (Role.DATA_DIRECT, place)


def _place(host: Host, address: str) -> Place | None:
    target = host.readlink(f"{PCI_DEVICES}/{address}")
    found = target if isinstance(target, Missing) else parse_place(target)
    return None if isinstance(found, Missing) else found[0]


def _function(
    host: Host, states: dict[str, str | Missing], address: str, role: Role, place: Place
) -> PciConfig:
    folder = f"{PCI_DEVICES}/{address}"
    group = host.readlink(f"{folder}/iommu_group")
    asleep = _asleep(host, states, (address, *place.bridges[-1:]))
    config = asleep or host.pci_config(f"{folder}/config")
    if isinstance(config, Missing) and config.why is Why.ABSENT:
        # Each function has the file: an older record has not.
        config = Missing(Why.NOT_COLLECTED, config.detail)
    return PciConfig(
        address=address,
        role=role,
        place=place,
        vendor=attribute(host, f"{folder}/vendor", parse_id),
        device=attribute(host, f"{folder}/device", parse_id),
        express=config if isinstance(config, Missing) else parse_express(config),
        acs=config if isinstance(config, Missing) else parse_acs(config),
        ats=config if isinstance(config, Missing) else parse_ats(config),
        iommu_group=group if isinstance(group, Missing) else group.rstrip("/").rpartition("/")[2],
    )


def _asleep(
    host: Host, states: dict[str, str | Missing], addresses: Iterable[str]
) -> Missing | None:
    """Why a function is not read: it, or the bridge above it, would be woken."""
    for address in addresses:
        if address not in states:
            path = f"{PCI_DEVICES}/{address}/power/runtime_status"
            states[address] = attribute(host, path, parse_text)
        state = states[address]
        if isinstance(state, Missing):
            if state.why not in (Why.ABSENT, Why.NOT_COLLECTED):  # a kernel without CONFIG_PM
                return state
        elif state in _ASLEEP:
            return Missing(Why.NOT_COLLECTED, f"{address} is {state}, and is not woken")
    return None
