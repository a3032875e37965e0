"""What Access Control Services of PCI bridges must be for GPUs and adapters to reach each other.

It depends on how the two are joined. With ConnectX-8, Grace and Vera some bits must be on: as
rdma-core's kernel-boot/rdma_topo has it (691953d8d502, compute_acs). Below the switch of another
maker, requests between the two must not be redirected; where translated requests may pass
directly, and the sender translates, they are not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, StrEnum
from typing import Final

from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.pci import ACS_BITS, AcsBit, Part, PciConfig, PciFacts, Role
from rdmadiag.frozen import dataclass


class Layout(StrEnum):
    """How GPUs and adapters are joined."""

    DATA_DIRECT = "data_direct"  # Grace, and ConnectX-8 with a function on the GPU's bus
    INLINE = "inline"  # the GPU below the switch in a ConnectX-8
    INLINE_VIRTUAL = "inline_virtual"  # the same, for virtual machines: the adapter has ATS
    ROOT_PORTS = "root_ports"  # GPUs right below root ports of Grace or Vera
    SWITCH = "switch"  # any other


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the bits of a bridge must be; the others may be either."""

    on: tuple[AcsBit, ...] = ()
    off: tuple[AcsBit, ...] = ()

    @property
    def text(self) -> str:
        """ "xx110x1", as the kernel's pci=config_acs= takes it: bit 6 first."""
        return "".join(
            "1" if bit in self.on else "0" if bit in self.off else "x" for bit in ACS_BITS[::-1]
        )

    @property
    def value_and_mask(self) -> tuple[int, int]:
        """For setpci."""
        value = _number(self.on)
        return value, value | _number(self.off)


def _number(bits: Iterable[AcsBit]) -> int:
    return sum(1 << ACS_BITS.index(bit) for bit in bits)


@dataclass(frozen=True, slots=True)
class WrongBridge:
    """A bridge whose bits are not what they must be."""

    bridge: PciConfig
    enabled: tuple[AcsBit, ...]
    wanted: Wanted

    @property
    def missing(self) -> tuple[AcsBit, ...]:
        """Those that must be on and are not."""
        return tuple(bit for bit in self.wanted.on if bit not in self.enabled)

    @property
    def excess(self) -> tuple[AcsBit, ...]:
        """Those that must be off and are not."""
        return tuple(bit for bit in self.wanted.off if bit in self.enabled)


@dataclass(frozen=True, slots=True)
class WrongGroups:
    """Functions that must share an IOMMU group and do not, or the other way round."""

    functions: tuple[PciConfig, ...]
    must_share: bool


@dataclass(frozen=True, slots=True)
class AccessControl:
    """One host."""

    layout: Layout
    bridges: tuple[WrongBridge, ...]
    groups: tuple[WrongGroups, ...]
    translating: tuple[PciConfig, ...] = ()  # adapters with ATS, which there must have none


_SV, _RR, _CR, _UF, _DT = (
    AcsBit.SOURCE_VALIDATION,
    AcsBit.REQUEST_REDIRECT,
    AcsBit.COMPLETION_REDIRECT,
    AcsBit.UPSTREAM_FORWARDING,
    AcsBit.DIRECT_TRANSLATED,
)
_ISOLATED: Final = Wanted(on=(_SV, _RR, _CR, _UF))
_ISOLATED_VERA: Final = Wanted(on=(_SV, _RR, _UF), off=(_CR,))  # it has no completion redirect
_OPEN: Final = Wanted(off=(_SV, _RR, _CR, _UF))
_DIRECT: Final = Wanted(off=(_RR, _CR))
_ROOTS: Final = (Part.GRACE_ROOT_PORT, Part.VERA_ROOT_PORT)
_OF_LAYOUT: Final = (*_ROOTS, Part.CONNECTX_SWITCH, Part.BLUEFIELD_SWITCH)
_NVIDIA: Final = "0x10de"

_Bridges = Mapping[str, PciConfig]
_Plan = dict[str, Wanted]


def access_control(facts: PciFacts) -> AccessControl:
    """Of the functions that were read; a bridge that was not is not judged."""
    functions = tuple(present(facts.functions))
    bridges = {each.address: each for each in functions if each.role is Role.BRIDGE}
    layout = _layout(functions, bridges)
    if layout is Layout.SWITCH:
        plan: _Plan | None = _below_switches(functions, bridges)
        return AccessControl(layout, tuple(_wrong(plan or {}, bridges)), ())
    groups: tuple[WrongGroups, ...] = ()
    translating: tuple[PciConfig, ...] = ()
    if layout is Layout.ROOT_PORTS:
        plan, groups, translating = {}, *_root_ports(functions)
    elif layout is Layout.DATA_DIRECT:
        plan, groups = _data_direct(functions, bridges)
    else:
        layout, plan, groups = _inline(functions, bridges)
    if plan is None:  # joined in a way that is not known
        return AccessControl(layout, (), ())
    for address, each in bridges.items():
        if each.part in _OF_LAYOUT:
            plan.setdefault(address, _OPEN if layout is Layout.INLINE else _isolated(each))
    return AccessControl(layout, tuple(_wrong(plan, bridges)), groups, translating)


def _wrong(plan: _Plan, bridges: _Bridges) -> Iterator[WrongBridge]:
    for address, wanted in sorted(plan.items()):
        acs = bridges[address].acs
        if isinstance(acs, Missing):
            continue
        found = WrongBridge(bridges[address], acs.enabled, wanted)
        if found.missing or found.excess:
            yield found


def _isolated(bridge: PciConfig) -> Wanted:
    """What the kernel sets where there is an IOMMU: pci_std_enable_acs of drivers/pci/pci.c."""
    return _ISOLATED_VERA if bridge.part is Part.VERA_ROOT_PORT else _ISOLATED


def _layout(functions: Sequence[PciConfig], bridges: _Bridges) -> Layout:
    parts = {each.part for each in functions}
    if any(each.role is Role.DATA_DIRECT for each in functions):
        return Layout.DATA_DIRECT
    gpus = [each for each in functions if _is_nvidia_gpu(each)]
    if any(_parts(each, bridges)[-1:] in [(root,) for root in _ROOTS] for each in gpus):
        return Layout.ROOT_PORTS
    if gpus and {Part.CONNECTX_SWITCH, Part.CONNECTX} <= parts:
        return Layout.INLINE
    return Layout.SWITCH


def _is_nvidia_gpu(each: PciConfig) -> bool:
    return each.role is Role.GPU and each.vendor == _NVIDIA


def _parts(each: PciConfig, bridges: _Bridges) -> tuple[Part | None, ...]:
    """Of the bridges above it, from the root."""
    return tuple(bridges[at].part if at in bridges else None for at in each.place.bridges)


# --- how they are joined ---------------------------------------------------------------------


def _data_direct(
    functions: Sequence[PciConfig], bridges: _Bridges
) -> tuple[_Plan | None, tuple[WrongGroups, ...]]:
    """Root port → switch → data direct function, and → switch → switch → GPU."""
    plan: _Plan = {}
    groups = []
    switch = Part.CONNECTX_SWITCH
    for direct in (each for each in functions if each.role is Role.DATA_DIRECT):
        way = direct.place.bridges
        below = [
            gpu for gpu in functions if _is_nvidia_gpu(gpu) and gpu.place.bridges[:1] == way[:1]
        ]
        if _parts(direct, bridges) != (Part.GRACE_ROOT_PORT, switch, switch) or len(below) != 1:
            return None, ()
        (gpu,) = below
        over = gpu.place.bridges
        if _parts(gpu, bridges)[1:] != (switch,) * 4 or over[:2] != way[:2]:
            return None, ()
        plan[way[2]] = Wanted(on=(_SV, _CR, _UF), off=(_RR,))
        plan[over[2]] = Wanted(on=(_SV, _RR, _UF), off=(_CR,))
        # Without source validation there, the kernel forms one group of all that is below.
        plan[way[0]] = Wanted(on=(_RR, _CR, _UF), off=(_SV,))
        if _groups(direct, gpu) not in (_Groups.ONE, _Groups.UNKNOWN):
            groups.append(WrongGroups((direct, gpu), must_share=True))
    return plan, tuple(groups)


def _root_ports(
    functions: Sequence[PciConfig],
) -> tuple[tuple[WrongGroups, ...], tuple[PciConfig, ...]]:
    """Each GPU and adapter in an IOMMU group of its own, and no adapter with ATS."""
    adapters = [each for each in functions if each.part is Part.CONNECTX]
    ends = [*adapters, *(each for each in functions if _is_nvidia_gpu(each))]
    held: dict[str, list[PciConfig]] = {}
    groups = []
    for each in ends:
        if isinstance(each.iommu_group, str):
            held.setdefault(each.iommu_group, []).append(each)
        elif _is_absent(each.iommu_group):
            groups.append(WrongGroups((each,), must_share=False))
    shared = (tuple(each) for each in held.values() if len(each) > 1)
    groups += [WrongGroups(each, must_share=False) for each in shared]
    return tuple(groups), tuple(each for each in adapters if isinstance(each.ats, bool))


def _inline(
    functions: Sequence[PciConfig], bridges: _Bridges
) -> tuple[Layout, _Plan | None, tuple[WrongGroups, ...]]:
    """Root port → … → switch → adapter, and → switch → GPU, all switches ConnectX's own."""
    pairs: list[tuple[PciConfig, PciConfig]] = []
    plan: _Plan = {}
    unknown = (Layout.INLINE, None, ())
    for gpu in filter(_is_nvidia_gpu, functions):
        over = gpu.place.bridges
        if _parts(gpu, bridges)[-4:] != (Part.CONNECTX_SWITCH,) * 4 or len(over) < 5:
            return unknown
        shared = over[-4]
        near = [each for each in functions if each.part is Part.CONNECTX and _next(each, shared)]
        ports = {_next(each, shared) for each in near}
        others = {_next(each, shared) for each in functions if each.role is Role.GPU}
        if len(ports) != 1 or others - {None} != {over[-3]}:
            return unknown
        pairs.append((near[0], gpu))
    ats = [adapter.ats for adapter, _ in pairs]
    virtual = not any(isinstance(each, Missing) for each in ats)
    if not virtual and any(not _is_absent(each) for each in ats):
        return unknown  # not read, or of some adapters alone
    for adapter, gpu in pairs:
        root, shared = gpu.place.bridges[0], gpu.place.bridges[-4]
        plan[str(_next(adapter, shared))] = Wanted(on=(*_ISOLATED.on, _DT)) if virtual else _OPEN
        for address in (gpu.place.bridges[-3], root):
            plan[address] = _isolated(bridges[address]) if virtual else _OPEN
    fit = (_Groups.TWO,) if virtual else (_Groups.ONE, _Groups.NONE)
    groups = tuple(
        WrongGroups(pair, must_share=not virtual)
        for pair in pairs
        if _groups(*pair) not in (*fit, _Groups.UNKNOWN)
    )
    return Layout.INLINE_VIRTUAL if virtual else Layout.INLINE, plan, groups


def _is_absent(found: object) -> bool:
    return isinstance(found, Missing) and found.why is Why.ABSENT


def _next(each: PciConfig, bridge: str) -> str | None:
    """The bridge below `bridge` on the way to it."""
    way = each.place.bridges
    if bridge not in way[:-1]:
        return None
    return way[way.index(bridge) + 1]


class _Groups(Enum):
    ONE, TWO, NONE, PARTLY, UNKNOWN = range(5)


def _groups(one: PciConfig, other: PciConfig) -> _Groups:
    """Whether two functions are in one IOMMU group, in two, or in none; one of them in none."""
    groups = [each.iommu_group for each in (one, other)]
    missing = [each for each in groups if isinstance(each, Missing)]
    if any(each.why is not Why.ABSENT for each in missing):
        return _Groups.UNKNOWN
    if missing:
        return _Groups.NONE if len(missing) == 2 else _Groups.PARTLY
    return _Groups.ONE if groups[0] == groups[1] else _Groups.TWO


def _below_switches(functions: Sequence[PciConfig], bridges: _Bridges) -> _Plan:
    """The ports of a shared switch by which GPU and adapter would reach each other."""
    plan: _Plan = {}
    for gpu in (each for each in functions if each.role is Role.GPU):
        for adapter in (each for each in functions if each.role is Role.ADAPTER):
            shared = 0
            for one, other in zip(gpu.place.bridges, adapter.place.bridges, strict=False):
                if one != other:
                    break
                shared += 1
            if shared < 2:  # the root port at most: no switch joins them
                continue
            for end in (gpu, adapter):
                port = bridges.get("".join(end.place.bridges[shared : shared + 1]))
                if port and _redirects(port, end):
                    plan[port.address] = _DIRECT
    return plan


def _redirects(port: PciConfig, sender: PciConfig) -> bool:
    """Whether requests of `sender` to a neighbour are sent up to the root."""
    enabled = () if isinstance(port.acs, Missing) else port.acs.enabled
    return _RR in enabled and not (_DT in enabled and sender.ats is True)
