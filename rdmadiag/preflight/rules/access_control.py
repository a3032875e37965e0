"""Access Control Services of the bridges between GPUs and adapters."""

from collections.abc import Iterable, Iterator
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.pci import AcsBit, PciConfig
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.access_control import AccessControl, Layout, WrongBridge, access_control

_PCI: Final = "/sys/bus/pci/devices"
_FEW: Final = 8
_WHERE: Final = {
    Layout.DATA_DIRECT: "with ConnectX-8 data direct",
    Layout.INLINE: "with GPUs below the switch of a ConnectX, and adapters without ATS",
    Layout.INLINE_VIRTUAL: "with GPUs below the switch of a ConnectX, and adapters with ATS",
    Layout.ROOT_PORTS: "with GPUs below root ports of Grace or Vera",
    Layout.SWITCH: "with GPU and adapter below one switch",
}
_TO_SET: Final = (
    "sudo setpci -s {bridge:0000:00:01.0} ECAP_ACS+0x6.w={bits:0000:000c}   # till the next boot"
)
_AT_BOOT: Final = "# Linux 6.11 and later, on the kernel's command line: pci=config_acs={masks}"


@rule(
    "acs-for-this-topology",
    Severity.WARN,
    "Access control of PCI bridges does not fit how GPUs and adapters are joined",
    "Access Control Services (ACS) of a bridge say whether requests between what is below it may "
    "pass directly. Below a switch that GPU and adapter share they must not be redirected: "
    "redirected, each passes the root complex, which is slow, and on some hosts fails "
    "(completion status 4, vendor error 81) or hangs; where the sender translates addresses "
    "(ATS) and the port lets these pass, nothing is redirected. With ConnectX-8, Grace and Vera "
    "some bits must be on, and which depends on the place: to clear all of them breaks these "
    "hosts. So do IOMMU groups that differ where they must not. The bits are those of "
    "rdma-core's rdma_topo. Of bridges above GPUs and adapters; seen by root alone. Meant so where "
    "virtual machines own devices behind other makers' switches.",
    (
        "https://github.com/NVIDIA/nccl/issues/304",
        "https://github.com/NVIDIA/nccl/issues/2079",
        "https://github.com/linux-rdma/rdma-core/blob/master/kernel-boot/rdma_topo",
        "https://docs.kernel.org/admin-guide/kernel-parameters.html",
    ),
    remedy={
        "below a switch": (
            _TO_SET,
            _AT_BOOT,
            "# no other bridge, and not where virtual machines own devices",
        ),
        "with ConnectX-8, Grace or Vera": (
            "sudo rdma_topo check   # of rdma-core since 2025-10",
            _TO_SET,
            _AT_BOOT,
        ),
        "where IOMMU groups are wrong": (
            "sudo rdma_topo check   # of rdma-core since 2025-10",
            "# groups are formed at boot: set the bits there, by pci=config_acs= or in the BIOS",
        ),
        "where adapters must not translate addresses": (
            "sudo mlxconfig -d {adapter:0000:01:00.0} set ATS_ENABLED=0   # then power off and on",
        ),
    },
    needs=("PCI access control",),
)
def acs_for_this_topology(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding each for the bits, the groups, and ATS. Not with --device."""
    facts = case.evidence.pci
    if case.selected or isinstance(facts, Missing):
        return
    found = access_control(facts)
    if found.bridges:
        yield _bits(this, found)
    yield from _groups(this, found)
    yield from _translating(this, found)


def _bits(this: Rule, found: AccessControl) -> Finding:
    wrong = found.bridges
    count = "1 bridge" if len(wrong) == 1 else f"{len(wrong)} bridges"
    below = found.layout is Layout.SWITCH
    if below:
        summary = f"ACS of {count} sends requests between GPU and adapter up to the root complex"
    else:
        summary = f"ACS of {count} is not what a host {_WHERE[found.layout]} needs"
    return this.finding(
        summary,
        evidence=[_proof(each) for each in wrong[:_FEW]],
        when="below a switch" if below else "with ConnectX-8, Grace or Vera",
        fill={
            "bridge": tuple(each.bridge.address for each in wrong),
            "bits": tuple("{:04x}:{:04x}".format(*each.wanted.value_and_mask) for each in wrong),
            "masks": ";".join(f"{each.wanted.text}@{each.bridge.address}" for each in wrong),
        },
    )


def _proof(each: WrongBridge) -> Proof:
    parts = []
    if each.missing:
        parts.append(f"{_words(each.missing)} must be on")
    if each.excess:
        parts.append(f"{_words(each.excess)} must be off")
    where = f"{_PCI}/{each.bridge.address}/config: ACS Control"
    return Proof("pci", where, f"{_words(each.enabled) or 'none'}; {', '.join(parts)}")


def _words(bits: Iterable[AcsBit]) -> str:
    return " ".join(bits)


def _groups(this: Rule, found: AccessControl) -> Iterator[Finding]:
    if not found.groups:
        return
    first = found.groups[0]
    names = " and ".join(each.address for each in first.functions[:_FEW])
    must = (
        "must be in one IOMMU group" if first.must_share else "must be in IOMMU groups of their own"
    )
    more = f", and {len(found.groups) - 1} more of these" if len(found.groups) > 1 else ""
    yield this.finding(
        f"{names}{more} {must}, {_WHERE[found.layout]}",
        evidence=[_group(each) for groups in found.groups[:_FEW] for each in groups.functions],
        when="where IOMMU groups are wrong",
    )


def _group(each: PciConfig) -> Proof:
    return Proof("pci", f"{_PCI}/{each.address}/iommu_group", seen(each.iommu_group))


def _translating(this: Rule, found: AccessControl) -> Iterator[Finding]:
    wrong = found.translating
    if not wrong:
        return
    count = "1 adapter" if len(wrong) == 1 else f"{len(wrong)} adapters"
    has = "has" if len(wrong) == 1 else "have"
    yield this.finding(
        f"{count} {has} address translation (ATS), which must be off {_WHERE[found.layout]}",
        evidence=[
            Proof("pci", f"{_PCI}/{each.address}/config: ATS", seen(each.ats))
            for each in wrong[:_FEW]
        ],
        when="where adapters must not translate addresses",
        fill={"adapter": tuple(each.address for each in wrong)},
    )


RULES: Final[tuple[Rule, ...]] = (acs_for_this_topology,)
