"""How adapters may use PCI Express: order, and the size of requests and payloads."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.pci import Cpu, Express, PciConfig
from rdmadiag.frozen import dataclass
from rdmadiag.gid.variables import RELAXED_ORDERING
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.pci import bridges_above, function_of
from rdmadiag.view.stack_picks import variables

_PCI: Final = "/sys/bus/pci/devices"
_FEW: Final = 8
_LOOK: Final = "sudo lspci -vv -s {first:0000:08:00.0} | grep -A2 DevCtl:"

NO_RELAXED_ORDERING: Final = frozenset(
    {("0x8086", f"{base + low:#06x}") for base in (0x6F00, 0x2F00) for low in range(0x1, 0xF)}
    | {("0x1022", f"{number:#06x}") for number in (0x1A00, 0x1A01, 0x1A02)}
)
"""Root ports below which Linux turns it off: quirk_relaxedordering_disable of
drivers/pci/quirks.c (Haswell, Broadwell, AMD A1100)."""

_INTEL, _AMD = 0, 2  # X86_VENDOR_* of the kernel's processor.h
_EMERALD_RAPIDS: Final = Cpu(_INTEL, 6, 0xCF)
_ZEN: Final = (0x17, 0x19, 0x1A)  # families: from Naples to Turin

_LEAST_READ: Final = 512  # bytes: Max_Read_Request_Size after reset
_LEAST_PAYLOAD: Final = 256  # what any server's root port of this decade can do


@dataclass(frozen=True, slots=True)
class _Own:
    """A device, and what its function says of how it sends."""

    device: str
    function: PciConfig
    express: Express

    @property
    def kind(self) -> tuple[object, object]:
        """Vendor and device."""
        return self.function.vendor, self.function.device

    @property
    def read_request(self) -> int:
        """Bytes; 0 where the register's value has no meaning."""
        size = self.express.read_request
        return 0 if isinstance(size, Missing) else size

    def proof(self, name: str, value: object) -> Proof:
        """Of a field of Device Control, in the words of `lspci -vv`."""
        where = f"{_PCI}/{self.function.address}/config: Device Control"
        return Proof("pci", where, f"{name} {value}")


def _own(case: Case) -> Iterator[_Own]:
    """Of the devices whose function's registers count; each function once."""
    done = set()
    for device in case.devices:
        function = function_of(device, case.evidence)
        if function is None or isinstance(function, Missing) or function.address in done:
            continue
        done.add(function.address)
        express = function.express
        if not isinstance(express, Missing) and not express.is_reserved:
            yield _Own(device.name, function, express)


def _names(found: Sequence[_Own]) -> str:
    more = f" and {len(found) - _FEW} more" if len(found) > _FEW else ""
    return " ".join(each.device for each in found[:_FEW]) + more


def _one(found: Sequence[_Own]) -> str | None:
    return found[0].device if len(found) == 1 else None


def _fill(found: Sequence[_Own]) -> dict[str, object]:
    addresses = tuple(each.function.address for each in found[:_FEW])
    return {"address": addresses, "first": addresses[0]}


@rule(
    "relaxed-ordering-off",
    Severity.WARN,
    "The adapter may not use relaxed ordering",
    "Enable Relaxed Ordering is off in the adapter's Device Control register: it then writes "
    "memory in strict order, whatever a program asks for when it registers memory. On AMD EPYC "
    "and Intel Emerald Rapids, and inside virtual machines, that can cost more than half of the "
    "bandwidth. After reset the bit is on: firmware or a tool turned it off. A note on other "
    "processors, where it mostly costs little, unless a variable asks for it. Below root ports of "
    "Haswell and Broadwell Linux itself turns it off, and nothing is found. Seen by root alone; "
    "of a virtual function the physical one's register counts.",
    (
        "https://github.com/openucx/ucx/pull/8062",
        "https://github.com/openucx/ucx/pull/10955",
        "https://github.com/NVIDIA/nccl/issues/1205",
    ),
    remedy=(
        _LOOK,
        "sudo setpci -s {address} CAP_EXP+0x8.w=0010:0010   # till the next boot",
        "# for good: the BIOS (PCI relaxed ordering)",
    ),
    needs=("devices", "PCI configuration"),
)
def relaxed_ordering_off(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding for all adapters."""
    found = [each for each in _own(case) if not each.express.relaxed_ordering]
    found = [each for each in found if not _by_the_kernel(each.function, case)]
    if not found:
        return
    cpu = _cpu(case)
    asked = [
        (row, values[row.name])
        for values in [_variables(case)]
        for row in RELAXED_ORDERING
        if values.get(row.name, "").lower() in row.relaxed_ordering
    ]
    gains = not isinstance(cpu, Missing) and (
        (cpu.vendor == _AMD and cpu.family in _ZEN) or cpu == _EMERALD_RAPIDS
    )
    why = f", and {asked[0][0].name} asks for it" if asked else ""
    on = "; this processor needs it for the whole rate" if gains else ""
    yield this.finding(
        f"{_names(found)}: relaxed ordering is off{why}{on}",
        device=_one(found),
        severity=None if gains or asked else Severity.INFO,
        evidence=[
            *(each.proof("RlxdOrd", "-") for each in found[:_FEW]),
            Proof("pci", "/sys/devices/system/cpu/modalias", _cpu_text(cpu)),
            *(Proof("process", f"environment: {row.name}", value) for row, value in asked),
        ],
        fill=_fill(found),
    )


def _by_the_kernel(function: PciConfig, case: Case) -> bool:
    """Whether Linux turned it off, for the root port."""
    root = next(bridges_above(function, case.evidence), None)
    return root is not None and (root.vendor, root.device) in NO_RELAXED_ORDERING


def _cpu(case: Case) -> Cpu | Missing:
    facts = case.evidence.pci
    return facts if isinstance(facts, Missing) else facts.cpu


def _cpu_text(cpu: Cpu | Missing) -> str:
    if isinstance(cpu, Missing):
        return seen(cpu)
    maker = {_INTEL: "Intel", _AMD: "AMD"}.get(cpu.vendor, f"vendor {cpu.vendor:#x}")
    return f"{maker}, family {cpu.family:#x}, model {cpu.model:#x}"


def _variables(case: Case) -> Mapping[str, str]:
    found = variables(case.evidence)
    return {} if isinstance(found, Missing) else found


@rule(
    "max-read-request-small",
    Severity.WARN,
    "The adapter reads memory in small requests",
    "Max_Read_Request_Size of the adapter is below the 512 bytes that it has after reset: what it "
    "sends is read from memory in many small requests, which cost bandwidth. Firmware, a tool, or "
    "pci=pcie_bus_perf on the kernel's command line makes it so. A note where adapters of one "
    "kind differ: somebody set it on some of them. Seen by root alone; of a virtual function the "
    "physical one's register counts.",
    (
        "https://docs.kernel.org/admin-guide/kernel-parameters.html",
        "https://wiki.ubuntu.com/FirmwareTestSuite/Reference/maxreadreq",
    ),
    remedy=(
        _LOOK,
        "sudo setpci -s {address} CAP_EXP+0x8.w=5000:7000   # 4096 bytes, till the next boot",
        "# for good: the BIOS (PCI maximum read request)",
    ),
    needs=("devices", "PCI configuration"),
)
def max_read_request_small(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding for all adapters."""
    known = [each for each in _own(case) if not isinstance(each.express.read_request, Missing)]
    small = [each for each in known if each.read_request < _LEAST_READ]
    if small:
        least = min(each.read_request for each in small)
        summary = f"{_names(small)}: reads memory in requests of {least} bytes"
    else:
        small = list(_below_siblings(known))
        if not small:
            return
        most = max(each.read_request for each in known)
        summary = f"{_names(small)}: smaller read requests than another of its kind, with {most}"
    yield this.finding(
        summary,
        device=_one(small),
        severity=None if small[0].read_request < _LEAST_READ else Severity.INFO,
        evidence=[each.proof("MaxReadReq", f"{each.read_request} bytes") for each in known[:_FEW]],
        fill=_fill(small),
    )


def _below_siblings(known: Sequence[_Own]) -> Iterator[_Own]:
    best: dict[tuple[object, object], int] = {}
    for each in known:
        best[each.kind] = max(best.get(each.kind, 0), each.read_request)
    for each in known:
        if each.read_request < best[each.kind]:
            yield each


@rule(
    "max-payload-differs",
    Severity.WARN,
    "Payload sizes on the way to an adapter do not fit",
    "Max_Payload_Size of the adapter is above that of a bridge on its way: the bridge treats what "
    "is larger as malformed, and the link or the host fails under load. A note where it is 128 "
    "bytes, and the adapter and each bridge above can do more: each packet's header then takes "
    "some 15 % of the link. Seen by root alone.",
    ("https://docs.kernel.org/admin-guide/kernel-parameters.html",),
    remedy=(
        _LOOK,
        "# on the kernel's command line: pci=pcie_bus_safe   # one size for each way, the largest",
    ),
    needs=("devices", "PCI configuration"),
)
def max_payload_differs(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding for all that are above a bridge's, and one for all that are small."""
    above, small = [], []
    for each in _own(case):
        own, can = each.express.payload, each.express.payload_supported
        ways = [
            bridge.express
            for bridge in bridges_above(each.function, case.evidence)
            if not isinstance(bridge.express, Missing)
        ]
        sizes = [way.payload for way in ways if not isinstance(way.payload, Missing)]
        most = [way.payload_supported for way in ways] + [can]
        if isinstance(own, Missing):
            continue
        if sizes and own > min(sizes):
            above.append((each, min(sizes)))
        elif own < _LEAST_PAYLOAD and all(
            not isinstance(size, Missing) and size >= _LEAST_PAYLOAD for size in most
        ):
            small.append((each, min(size for size in most if not isinstance(size, Missing))))
    for rows, severity, what in (
        (above, None, "payload above that of a bridge on the way"),
        (small, Severity.INFO, "payload of 128 bytes, and all on the way can do more"),
    ):
        if not rows:
            continue
        found = [each for each, _ in rows]
        yield this.finding(
            f"{_names(found)}: {what}",
            device=_one(found),
            severity=severity,
            evidence=[
                each.proof("MaxPayload", f"{seen(each.express.payload)} bytes; the way: {size}")
                for each, size in rows[:_FEW]
            ],
            fill=_fill(found),
        )


RULES: Final[tuple[Rule, ...]] = (
    relaxed_ordering_off,
    max_read_request_small,
    max_payload_differs,
)
