"""Virtual functions (SR-IOV): what their physical function has not given them."""

from collections.abc import Iterator
from typing import Any, Final

from rdmadiag.facts import Missing, known, or_else, present
from rdmadiag.facts.vfs import LinkPolicy, PhysicalFunction, VirtualFunction
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import device_attribute, seen
from rdmadiag.preflight.remedy import Verbatim
from rdmadiag.preflight.rules.rule import Rule, rule, without_link
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.reconcile import DeviceView, Protocol

_ZERO: Final = "0000:0000:0000:0000"
_GUIDS: Final = (
    "sudo ip link set dev {pf:PF} vf {vf:N} node_guid {guid:GUID}   # 8 bytes, no other's",
    "sudo ip link set dev {pf:PF} vf {vf:N} port_guid {guid:GUID}",
)
_REBIND: Final = (
    "echo {address:0000:08:00.2} | sudo tee {driver:/sys/bus/pci/drivers/mlx5_core/unbind}",
    "echo {address:0000:08:00.2} | sudo tee {binding:/sys/bus/pci/drivers/mlx5_core/bind}",
)


@rule(
    "vf-without-guid",
    Severity.WARN,
    "A virtual function without a GUID",
    "The node GUID of a device is zero: its physical function's driver gives a virtual function "
    "none until somebody sets one. On InfiniBand its port then does not come up, and no subnet "
    "manager gives it a LID; on RoCE rdma_cm and programs that distinguish devices by GUID fail or "
    "take two for one. A new GUID counts once the function is bound anew. On the host of the "
    "physical function those that no RDMA device stands for here are a note, and those whose port "
    "nobody seems to use: they may be unused.",
    (
        "https://github.com/k8snetworkplumbingwg/sriov-network-device-plugin/issues/269",
        "https://github.com/k8snetworkplumbingwg/ib-sriov-cni/issues/66",
        "https://github.com/torvalds/linux/blob/v6.1/net/core/rtnetlink.c",
    ),
    remedy={
        "its physical function is here": (*_GUIDS, *_REBIND),
        "its physical function is elsewhere": (
            "# on the host that has the physical function, as root; GUID: 8 bytes, no other's",
            "sudo ip link set dev PF vf N node_guid GUID",
            "sudo ip link set dev PF vf N port_guid GUID",
            "# then start this machine, or bind the function, anew",
        ),
        "no device here": (
            *_GUIDS,
            "# before it is given to a machine or container; else bind it anew there",
        ),
    },
    needs=("ports", "port state", "node GUID", "virtual functions"),
)
def vf_without_guid(this: Rule, case: Case) -> Iterator[Finding]:
    """A device's own, then one finding a physical function for those without a device."""
    for device in case.devices:
        guid = _node_guid(device)
        if guid != _ZERO or not any(port.protocol in _NAMED for port in device.ports):
            continue
        above = _above(device, case)
        functions = () if isinstance(case.evidence.vfs, Missing) else case.evidence.vfs.virtual
        kind = "a virtual function" if device.name in functions else "its function"
        yield this.finding(
            f"{device.name} has no GUID: {kind} was given none",
            device=device.name,
            evidence=[device_attribute(device, "node_guid", _ZERO)],
            when=f"its physical function is {'here' if above else 'elsewhere'}",
            severity=_severity(device, case),
            fill=_fill(*above, device) if above else {},
        )
    bound = _bound(case)
    for physical in _physical(case):
        without = [
            each
            for each in present(physical.functions)
            if each.node_guid == _ZERO and each.address not in bound
        ]
        if without:
            yield this.finding(
                f"{physical.netdev} has {len(without)} virtual functions without a GUID: "
                f"{_numbers(without)}",
                evidence=[_proof(physical, without, "IFLA_VF_IB_NODE_GUID", _ZERO)],
                when="no device here",
                severity=Severity.INFO,
                fill={"pf": physical.netdev, "vf": without[0].number, "guid": _GUID},
            )


@rule(
    "vf-link-policy-down",
    Severity.WARN,
    "A virtual function whose link is set to down",
    "The physical function's driver shows the virtual function a link that is down, whatever its "
    "own is: IFLA_VF_LINK_STATE is disable. mlx5 sets InfiniBand's so until somebody changes it. "
    "Of functions that no RDMA device stands for here it is a note: they may be unused.",
    (
        "https://github.com/k8snetworkplumbingwg/sriov-network-operator/issues/307",
        "https://man7.org/linux/man-pages/man8/ip-link.8.html",
    ),
    remedy=("sudo ip link set dev {pf:PF} vf {vf:N} state auto",),
    needs=("ports", "port state", "virtual functions"),
)
def vf_link_policy_down(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a physical function for those with a device here, one for the others."""
    bound = _bound(case)
    for physical in _physical(case):
        down = [each for each in present(physical.functions) if each.link is LinkPolicy.DISABLE]
        for found, severity in (
            ([each for each in down if each.address in bound], Severity.WARN),
            ([each for each in down if each.address not in bound], Severity.INFO),
        ):
            if found:
                device = bound.get(or_else(found[0].address, ""))
                yield this.finding(
                    f"{physical.netdev} shows {len(found)} virtual functions a link that is down: "
                    f"{_numbers(found)}",
                    device=device,
                    evidence=[_proof(physical, found, "IFLA_VF_LINK_STATE", "disable")],
                    severity=severity,
                    fill={
                        "pf": physical.netdev,
                        "vf": tuple(each.number for each in found[:_SHOWN]),
                    },
                )


_NAMED: Final = (Protocol.INFINIBAND, Protocol.ROCE)
_GUID: Final = Verbatim("GUID")
_SHOWN: Final = 8


def _severity(device: DeviceView, case: Case) -> Severity:
    """An InfiniBand port without a GUID stays down; a RoCE port works in part, or is unused."""
    if any(port.is_active for port in device.ports):
        return Severity.WARN
    if any(port.protocol is Protocol.INFINIBAND for port in device.ports):
        return Severity.CRITICAL
    several = {without_link(case, device, port) for port in device.ports}
    if several == {Severity.INFO}:
        return Severity.INFO
    return Severity.UNKNOWN if several <= {Severity.INFO, Severity.UNKNOWN} else Severity.WARN


def _node_guid(device: DeviceView) -> str | None:
    shown = (each.node_guid for each in (device.sysfs, device.nldev, device.verbs) if each)
    return next((each for each in shown if not isinstance(each, Missing)), None)


def _physical(case: Case) -> tuple[PhysicalFunction, ...]:
    """Where devices were chosen, none: they are not about one of them."""
    vfs = case.evidence.vfs
    return () if isinstance(vfs, Missing) or case.selected else vfs.physical


def _bound(case: Case) -> dict[str, str]:
    """PCI function → the RDMA device on it."""
    pairs = ((known(device.pci), device.name) for device in case.devices)
    return {pci.address: name for pci, name in pairs if pci}


def _above(device: DeviceView, case: Case) -> tuple[PhysicalFunction, VirtualFunction] | None:
    """The physical function that has it, and which of its virtual ones it is."""
    vfs, pci = case.evidence.vfs, known(device.pci)
    for physical in () if isinstance(vfs, Missing) else vfs.physical:
        for each in present(physical.functions):
            if pci and each.address == pci.address:
                return physical, each
    return None


def _fill(
    physical: PhysicalFunction, function: VirtualFunction, device: DeviceView
) -> dict[str, Any]:
    driver = f"/sys/bus/pci/drivers/{seen(device.driver)}"
    pci = known(device.pci)
    if pci and not isinstance(pci.driver, Missing):
        driver = f"/sys/bus/pci/drivers/{pci.driver}"
    return {
        "pf": physical.netdev,
        "vf": function.number,
        "guid": _GUID,
        "address": or_else(function.address, ""),
        "driver": f"{driver}/unbind",
        "binding": f"{driver}/bind",
    }


def _numbers(functions: list[VirtualFunction]) -> str:
    """ "0 1 2 and 5 more"."""
    shown = " ".join(str(each.number) for each in functions[:_SHOWN])
    more = len(functions) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _proof(
    physical: PhysicalFunction, functions: list[VirtualFunction], name: str, value: str
) -> Proof:
    return Proof("vfs", f"{physical.netdev} vf {_numbers(functions)} {name}", value)


RULES: Final[tuple[Rule, ...]] = (vf_without_guid, vf_link_policy_down)
