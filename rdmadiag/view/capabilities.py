"""What a device says that it can do: ibv_query_device and ibv_query_device_ex in words."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.capability import (
    AtomicCap,
    DeviceCap,
    HashField,
    OdpCap,
    PciAtomicSize,
    PortCap,
    PortCap2,
    QpTypeBit,
    RawPacketCap,
    words,
)
from rdmadiag.facts.ib import Numbered
from rdmadiag.facts.verbs import Numbers, VerbsDevice, VerbsFacts, VerbsPort
from rdmadiag.frozen import dataclass
from rdmadiag.view.capability_needs import NEEDS, Need

Claim = bool | int | str | tuple[str, ...] | Missing
"""Whether, how much, which word, or which ones."""

_64_BITS: Final = 32  # from this bit on a flag is in device_cap_flags_ex alone


class Group(StrEnum):
    """What a capability is about."""

    FLAG = "flag"
    ATOMICS = "atomics"
    ODP = "odp"
    RAW_PACKET = "raw_packet"
    OFFLOAD = "offload"
    OPERATION = "operation"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Capability:
    """One row."""

    name: str
    group: Group
    claimed: Claim
    source: str  # field of ibv_device_attr or ibv_device_attr_ex, or the function's name
    needed_by: tuple[Need, ...] = ()
    proven: bool | None = None  # by `exercise`, here; None: not tried

    @property
    def is_there(self) -> bool | None:
        """Whether the device has it; None where that is not known."""
        if isinstance(self.claimed, Missing):
            return None
        return bool(self.claimed) and self.claimed != AtomicCap.NONE

    @property
    def said(self) -> str:
        """The claim as a proof has it."""
        if isinstance(self.claimed, tuple):
            return " ".join(self.claimed) or "none"
        return str(self.claimed).lower() if isinstance(self.claimed, bool) else str(self.claimed)


@dataclass(frozen=True, slots=True)
class PortCapabilities:
    """What one port says: ibv_query_port."""

    port: int
    flags: tuple[str, ...] | Missing  # port_cap_flags
    flags2: tuple[str, ...] | Missing  # port_cap_flags2
    virtual_lanes: str | Missing  # max_vl_num; of Ethernet 0, "none"
    subnet_timeout: int | Missing  # 4.096 µs * 2 to this power
    bad_pkey_count: int | Missing  # P_Key violations
    bad_qkey_count: int | Missing  # Q_Key violations


@dataclass(frozen=True, slots=True)
class DeviceCapabilities:
    """One device."""

    name: str
    capabilities: tuple[Capability, ...]
    ports: tuple[PortCapabilities, ...] | Missing


@dataclass(frozen=True, slots=True)
class Difference:
    """What a device of the same name says on two hosts; None: it is on the other one alone."""

    device: str
    capability: str
    here: Claim | None
    there: Claim | None


def unanswered(verbs: VerbsFacts | Missing, name: str) -> Missing | None:
    """Why nothing is known of a device; None where it answered."""
    if isinstance(verbs, Missing):
        return verbs
    device = verbs.device(name)
    if device is None:
        return Missing(Why.ABSENT, "the verbs library does not list it")
    return device.attributes if isinstance(device.attributes, Missing) else None


def of_library(verbs: VerbsFacts | Missing) -> list[DeviceCapabilities]:
    """Every device that answered."""
    if isinstance(verbs, Missing):
        return []
    names = [each.name for each in verbs.devices]
    return [device_capabilities(verbs, name) for name in names if not unanswered(verbs, name)]


def for_stack(device: DeviceCapabilities, stack: str) -> DeviceCapabilities:
    """With the rows that a stack needs or uses alone."""
    kept = (
        replace(row, needed_by=tuple(each for each in row.needed_by if each.stack == stack))
        for row in device.capabilities
    )
    return replace(device, capabilities=tuple(row for row in kept if row.needed_by))


def required(device: DeviceCapabilities, stack: str, *, there: bool | None) -> list[Capability]:
    """What a stack cannot do without and the device has, has not, or (None) may have."""
    return [
        row
        for row in device.capabilities
        if row.is_there is there
        and any(each.stack == stack and each.strength == "required" for each in row.needed_by)
    ]


def lacking(device: DeviceCapabilities, stack: str) -> list[Capability]:
    """What a stack cannot do without, and the device has not."""
    return required(device, stack, there=False)


def differences(
    here: Sequence[DeviceCapabilities], there: Sequence[DeviceCapabilities]
) -> list[Difference]:
    """Where devices of the same name differ, and those that one host alone has."""
    ours, theirs = ({each.name: each for each in side} for side in (here, there))
    found = []
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in ours or name not in theirs:
            found.append(Difference(name, "device", name in ours or None, name in theirs or None))
            continue
        other = {row.name: row.claimed for row in theirs[name].capabilities}
        found += [
            Difference(name, row.name, row.claimed, other.get(row.name))
            for row in ours[name].capabilities
            if other.get(row.name) != row.claimed
        ]
    return found


def device_capabilities(verbs: VerbsFacts | Missing, name: str) -> DeviceCapabilities:
    """Every row of a device that answered; raises ValueError for one that did not."""
    device = None if isinstance(verbs, Missing) else verbs.device(name)
    if device is None:
        raise ValueError(f"{name} did not answer")
    ports = device.ports
    return DeviceCapabilities(
        device.name,
        tuple(_rows(device)),
        ports if isinstance(ports, Missing) else tuple(map(_port, ports)),
    )


def has(device: VerbsDevice, capability: DeviceCap | RawPacketCap) -> bool | Missing:
    """hascapability of InfinibandVerbs.jl: whether the device claims it."""
    if isinstance(capability, RawPacketCap):
        return _bit(_number(device.extended, "raw_packet_caps"), capability)
    return _flag(device, capability)


def _number(numbers: Numbers | Missing, name: str) -> int | Missing:
    if isinstance(numbers, Missing):
        return numbers
    return numbers.get(name, Missing(Why.NOT_COLLECTED, f"{name}: not in this record"))


def _bit(bits: int | Missing, flag: Numbered) -> bool | Missing:
    return bits if isinstance(bits, Missing) else bool(bits & flag.number)


def _flag(device: VerbsDevice, flag: DeviceCap) -> bool | Missing:
    low = _number(device.attributes, "device_cap_flags")
    all_bits = _number(device.extended, "device_cap_flags_ex")
    if flag.number >> _64_BITS:
        return _bit(all_bits, flag)
    # mlx4 and others leave device_cap_flags_ex at 0.
    return _bit(
        low if isinstance(low, Missing) or isinstance(all_bits, Missing) else low | all_bits, flag
    )


def _words_of(table: type[Numbered]) -> Callable[[int], Claim]:
    return lambda bits: words(bits, table)


def _atomic(number: int) -> Claim:
    found = AtomicCap.from_number(number)
    return Missing(Why.MALFORMED, f"{number} is no ibv_atomic_cap") if found is None else found


def _plain(number: int) -> Claim:
    return number


def _is_set(bit: int) -> Callable[[int], Claim]:
    return lambda number: bool(number & bit)


_ODP_GENERAL: Final = "odp_caps.general_caps"
_EXTENDED: Final[tuple[tuple[str, Group, str, Callable[[int], Claim]], ...]] = (
    ("odp", Group.ODP, _ODP_GENERAL, _is_set(1)),  # IBV_ODP_SUPPORT
    ("odp_implicit", Group.ODP, _ODP_GENERAL, _is_set(2)),  # IBV_ODP_SUPPORT_IMPLICIT
    ("odp_rc", Group.ODP, "odp_caps.rc_odp_caps", _words_of(OdpCap)),
    ("odp_uc", Group.ODP, "odp_caps.uc_odp_caps", _words_of(OdpCap)),
    ("odp_ud", Group.ODP, "odp_caps.ud_odp_caps", _words_of(OdpCap)),
    ("odp_xrc", Group.ODP, "xrc_odp_caps", _words_of(OdpCap)),
    ("pci_atomic_fetch_add", Group.ATOMICS, "pci_atomic_caps.fetch_add", _words_of(PciAtomicSize)),
    ("pci_atomic_swap", Group.ATOMICS, "pci_atomic_caps.swap", _words_of(PciAtomicSize)),
    (
        "pci_atomic_compare_swap",
        Group.ATOMICS,
        "pci_atomic_caps.compare_swap",
        _words_of(PciAtomicSize),
    ),
    ("tso_max_bytes", Group.OFFLOAD, "tso_caps.max_tso", _plain),
    ("tso_qp_types", Group.OFFLOAD, "tso_caps.supported_qpts", _words_of(QpTypeBit)),
    ("rss_qp_types", Group.OFFLOAD, "rss_caps.supported_qpts", _words_of(QpTypeBit)),
    ("rss_toeplitz", Group.OFFLOAD, "rss_caps.rx_hash_function", _is_set(1)),
    ("rss_hash_fields", Group.OFFLOAD, "rss_caps.rx_hash_fields_mask", _words_of(HashField)),
    ("rss_max_tables", Group.OFFLOAD, "rss_caps.max_rwq_indirection_tables", _plain),
    ("rss_max_table_rows", Group.OFFLOAD, "rss_caps.max_rwq_indirection_table_size", _plain),
    ("max_wq_type_rq", Group.OFFLOAD, "max_wq_type_rq", _plain),
    ("pacing_qp_types", Group.OFFLOAD, "packet_pacing_caps.supported_qpts", _words_of(QpTypeBit)),
    ("pacing_min_kbps", Group.OFFLOAD, "packet_pacing_caps.qp_rate_limit_min", _plain),
    ("pacing_max_kbps", Group.OFFLOAD, "packet_pacing_caps.qp_rate_limit_max", _plain),
    ("tag_matching_rc", Group.OFFLOAD, "tm_caps.flags", _is_set(1)),  # IBV_TM_CAP_RC
    ("tag_matching_max_tags", Group.OFFLOAD, "tm_caps.max_num_tags", _plain),
    ("tag_matching_max_ops", Group.OFFLOAD, "tm_caps.max_ops", _plain),
    ("tag_matching_max_sge", Group.OFFLOAD, "tm_caps.max_sge", _plain),
    ("tag_matching_max_header_bytes", Group.OFFLOAD, "tm_caps.max_rndv_hdr_size", _plain),
    ("cq_moderation_max_count", Group.OFFLOAD, "cq_mod_caps.max_cq_count", _plain),
    ("cq_moderation_max_us", Group.OFFLOAD, "cq_mod_caps.max_cq_period", _plain),
    ("max_dm_size", Group.OFFLOAD, "max_dm_size", _plain),
    ("completion_timestamps", Group.OFFLOAD, "completion_timestamp_mask", bool),
    ("hca_core_clock_khz", Group.OFFLOAD, "hca_core_clock", _plain),
)
"""Name, group, field of ibv_device_attr_ex, and what its number says."""

_LIMITS: Final = (
    "max_mr_size", "page_size_cap", "max_qp", "max_qp_wr", "max_sge", "max_sge_rd",
    "max_cq", "max_cqe", "max_mr", "max_pd", "max_qp_rd_atom", "max_ee_rd_atom",
    "max_res_rd_atom", "max_qp_init_rd_atom", "max_ee_init_rd_atom", "max_ee", "max_rdd",
    "max_mw", "max_raw_ipv6_qp", "max_raw_ethy_qp", "max_mcast_grp", "max_mcast_qp_attach",
    "max_total_mcast_qp_attach", "max_ah", "max_fmr", "max_map_per_fmr", "max_srq",
    "max_srq_wr", "max_srq_sge", "max_pkeys", "local_ca_ack_delay",
)  # fmt: skip
"""Fields of ibv_device_attr in their order."""


def _rows(device: VerbsDevice) -> Iterator[Capability]:
    for flag in DeviceCap:
        yield _row(flag, Group.FLAG, _flag(device, flag), "device_cap_flags")
    atomic = _number(device.attributes, "atomic_cap")
    claim = atomic if isinstance(atomic, Missing) else _atomic(atomic)
    yield _row("atomic_cap", Group.ATOMICS, claim, "atomic_cap")
    caps = _number(device.extended, "raw_packet_caps")
    for packet in RawPacketCap:
        name = f"raw_packet_{packet}"
        yield _row(name, Group.RAW_PACKET, _bit(caps, packet), "raw_packet_caps")
    for name, group, source, worded in _EXTENDED:
        number = _number(device.extended, source)
        claim = number if isinstance(number, Missing) else worded(number)
        yield _row(name, group, claim, source)
    yield from _operations(device)
    for name in _LIMITS:
        yield _row(name, Group.LIMIT, _number(device.attributes, name), name)


def _operations(device: VerbsDevice) -> Iterator[Capability]:
    found = device.operations
    if isinstance(found, Missing):
        yield _row("operations", Group.OPERATION, found, "struct verbs_context")
        return
    for each in found:
        claimed, source = each.provider is not None, each.provider or "libibverbs alone"
        yield _row(f"op_{each.name}", Group.OPERATION, claimed, source)


def _row(name: str, group: Group, claimed: Claim, source: str) -> Capability:
    needs = tuple(each for each in NEEDS if each.capability == name)
    return Capability(str(name), group, claimed, source, needs)


_LANES: Final = {0: "none", 1: "VL0", 2: "VL0-1", 3: "VL0-3", 4: "VL0-7", 5: "VL0-14"}
"""max_vl_num as the PortInfo of the InfiniBand specification has VLCap."""


def _port(port: VerbsPort) -> PortCapabilities:
    def number(name: str) -> int | Missing:
        return _number(port.attributes, name)

    flags, flags2, lanes = number("port_cap_flags"), number("port_cap_flags2"), number("max_vl_num")
    return PortCapabilities(
        port=port.number,
        flags=flags if isinstance(flags, Missing) else words(flags, PortCap),
        flags2=flags2 if isinstance(flags2, Missing) else words(flags2, PortCap2),
        virtual_lanes=(
            lanes
            if isinstance(lanes, Missing)
            else _LANES.get(lanes, Missing(Why.MALFORMED, f"{lanes} is no VLCap"))
        ),
        subnet_timeout=number("subnet_timeout"),
        bad_pkey_count=number("bad_pkey_cntr"),
        bad_qkey_count=number("qkey_viol_cntr"),
    )
