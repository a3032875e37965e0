"""What a stack's traffic class comes to on each port: a class that no PFC keeps from loss."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from rdmadiag.facts import Missing
from rdmadiag.gid.traffic_class import BY_STACK
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.remedy import Verbatim
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.lossless import Cell, Chain, LosslessPort, lossless_dscps, lossless_ports
from rdmadiag.view.stack_picks import variables

_RESTS_ON: Final = "# the same on every host and on every switch port between them"
_CLASS: Final = (
    "export {variable:NCCL_IB_TC}={class:NUMBER}   # DSCP {fitting:DSCP} x 4",
    "{option:ib_write_bw --tclass NUMBER}   # the same",
    "sudo mkdir -p /sys/kernel/config/rdma_cm/{cm:DEVICE}   # what rdma_cm sends with",
    "echo {class:NUMBER} | sudo tee {tos:rdma_cm/DEVICE/ports/N/default_roce_tos}",
    "echo {class:NUMBER} | sudo tee /sys/class/infiniband/{driver:DEVICE}/tc/{port}/traffic_class",
)
_NO_PFC: Final = (
    "sudo dcb pfc set dev {netdev} prio-pfc all:off {priority}:on",
    "sudo mlnx_qos -i {netdev} --pfc {mask:0,0,0,1,0,0,0,0}   # mlx5 as NVIDIA delivers it",
)
_MAP: Final = (
    "sudo dcb app replace dev {netdev} dscp-prio {dscp}:{lossless:PRIORITY}",
    "sudo mlnx_qos -i {netdev} --dscp2prio set,{dscp},{lossless:PRIORITY}   # mlx5 by NVIDIA",
)


@rule(
    "traffic-class-not-lossless",
    Severity.WARN,
    "A stack's packets are in no lossless priority",
    "The traffic class that a stack sends with (its variable, its default, the driver's own, "
    "rdma_cm's default_roce_tos) comes to a priority without priority flow control on this NIC "
    "or, as it says by DCBX, on the switch, or to a buffer of no size: under congestion its "
    "packets are dropped, and RoCE slows down by much at little loss. The chain is class, DSCP, "
    "what the NIC trusts, priority, PFC, buffer; the finding names the cell that breaks it. "
    "`preflight` judges stacks that a variable of this process, the driver or default_roce_tos "
    "sets a class for, and those of --stack; `lossless` all of them. A network may be lossy on "
    "purpose, with ECN and retransmission in the NIC: then this is to be expected. What else the "
    "switches do is not seen from here.",
    (
        "https://github.com/NVIDIA/nccl/issues/378",
        "https://github.com/NVIDIA/nccl/issues/2383",
        "https://github.com/openucx/ucx/issues/6000",
        "https://github.com/torvalds/linux/blob/v6.1/net/dcb/dcbnl.c",
    ),
    remedy={
        "the class": (*_CLASS, _RESTS_ON),
        "what the NIC trusts": (
            *_MAP,
            "sudo dcb apptrust set dev {netdev} order dscp pcp   # where the driver has a table",
            "sudo mlnx_qos -i {netdev} --trust dscp   # mlx5 as NVIDIA delivers it",
            _RESTS_ON,
        ),
        "the priority": (*_MAP, "# or send with a DSCP that is lossless:", *_CLASS, _RESTS_ON),
        "PFC": (
            "# unless this network is lossy on purpose:",
            *_NO_PFC,
            _RESTS_ON,
        ),
        "the switch": (
            "# on the switch: PFC for priority {priority} on this port",
            "sudo lldptool -t -n -i {netdev} -V PFC   # what it sends",
        ),
        "the buffer": ("sudo dcb buffer show dev {netdev}", "sudo mlnx_qos -i {netdev}"),
    },
    needs=(
        "ports",
        "port state",
        "GID table",
        "netdev",
        "bonds of netdevs",
        "environment, where it is recorded",
        "DCB settings",
    ),
)
def traffic_class_not_lossless(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a port, of all stacks that the same cell stops there."""
    for port in chains(case):
        stopped: dict[tuple[Cell | None, Any], list[Chain]] = {}
        for each in port.chains:
            if each.lossless is False:
                stopped.setdefault((each.cell, each.priority), []).append(each)
        for found in stopped.values():
            yield _finding(this, case, port, found)


def chains(case: Case) -> tuple[LosslessPort, ...]:
    """Of the stacks that were asked for; else of those that something sets a class for."""
    asked = {stack.name for stack, _ in case.stacks}
    found = lossless_ports(case.devices, case.evidence, variables(case.evidence), asked or None)
    if asked:
        return found
    return tuple(_set_alone(each) for each in found)


def _set_alone(port: LosslessPort) -> LosslessPort:
    return replace(port, chains=tuple(each for each in port.chains if each.class_is_set))


def _finding(this: Rule, case: Case, port: LosslessPort, found: list[Chain]) -> Finding:
    first = found[0]
    return this.finding(
        f"{_names(found)}: {text_of(first, port)} on {port.name}",
        device=port.device,
        port=port.port,
        evidence=list(_proofs(first, port)),
        when=_WHEN[first.cell or Cell.PFC],
        fill=_fill(case, port, found),
    )


def _names(found: list[Chain]) -> str:
    """ "NCCL", "NCCL, RCCL and 5 more"."""
    titles = [BY_STACK[each.stack].title for each in found]
    more = f" and {len(titles) - 2} more" if len(titles) > 3 else ""
    return ", ".join(titles[:2] if more else titles) + more


def text_of(chain: Chain, port: LosslessPort) -> str:
    """The chain to the cell that breaks it: "DSCP 0 → priority 0: PFC is on for 3 alone"."""
    pfc = () if isinstance(port.pfc, Missing) else port.pfc
    sends = f"DSCP {chain.dscp}" if chain.dscp is not None else "no DSCP"
    leads = f"{sends} → priority {chain.priority}"
    on = " ".join(map(str, pfc))
    if chain.cell is Cell.PFC:
        return "PFC is off for every priority"
    if chain.cell is Cell.TRUST:
        return f"{sends} is not looked at, PCP is trusted → priority {chain.priority}, PFC on {on}"
    if chain.cell is Cell.BUFFER:
        return f"{leads}: its buffer {chain.buffer} has no room"
    if chain.cell is Cell.SWITCH:
        return f"{leads}, for which the switch has no PFC, as it says by DCBX"
    return f"{leads}, PFC on {on}"


_WHEN: Final = {
    Cell.CLASS: "the class",
    Cell.TRUST: "what the NIC trusts",
    Cell.PRIORITY: "the priority",
    Cell.PFC: "PFC",
    Cell.BUFFER: "the buffer",
    Cell.SWITCH: "the switch",
}


def _proofs(chain: Chain, port: LosslessPort) -> Iterator[Proof]:
    whose = f"of {port.netdev}"
    title = BY_STACK[chain.stack].title
    sent = f"{seen(chain.traffic_class)} ({chain.class_from})"
    yield Proof("process", f"traffic class of {title}", sent)
    yield Proof("dcb", f"trust {whose}", f"{seen(port.trust)} ({port.trust_from})")
    yield Proof("dcb", f"priority {whose}", f"{seen(chain.priority)} ({chain.priority_from})")
    pfc = port.pfc
    on = seen(pfc) if isinstance(pfc, Missing) else " ".join(map(str, pfc)) or "none"
    yield Proof("dcb", f"DCB_ATTR_IEEE_PFC {whose}", f"on for priorities: {on}")
    if chain.cell is Cell.BUFFER:
        yield Proof("dcb", f"DCB_ATTR_DCB_BUFFER {whose}", f"buffer {chain.buffer}: 0 bytes")
    if chain.cell is Cell.SWITCH and not isinstance(port.peer_pfc, Missing):
        peer = " ".join(map(str, port.peer_pfc)) or "none"
        yield Proof("dcb", f"DCB_ATTR_IEEE_PEER_PFC {whose}", f"on for priorities: {peer}")


def _fill(case: Case, port: LosslessPort, found: list[Chain]) -> Mapping[str, Any]:
    """Values for the lines; an empty tuple leaves a line out."""
    pfc = () if isinstance(port.pfc, Missing) else port.pfc
    dscps = lossless_dscps(port, case.evidence.dcb)
    fitting = _USUAL if _USUAL in dscps or not dscps else dscps[0]
    first = found[0]
    by_driver = [each for each in found if each.class_by_driver]
    own = [BY_STACK[each.stack] for each in found if each not in by_driver]
    by_cm = any(each.by_rdma_cm for each in own)
    wanted = first.priority if isinstance(first.priority, int) and first.priority else _PRIORITY
    options = (each.option for each in own if each.option)
    return {
        "netdev": port.netdev,
        "variable": tuple(dict.fromkeys(each.variable for each in own if each.variable)),
        "option": tuple(Verbatim(each.replace("NUMBER", str(fitting * 4))) for each in options),
        "cm": (port.device,) if by_cm else (),
        "tos": (f"{_CONFIGFS}/{port.device}/ports/{port.port}/default_roce_tos",) if by_cm else (),
        "driver": (port.device,) if by_driver else (),
        "class": fitting * 4,
        "fitting": fitting,
        "dscp": first.dscp or fitting,
        "lossless": pfc[0] if pfc else wanted,
        "priority": wanted,
        "mask": ",".join("1" if each == wanted else "0" for each in range(8)),
    }


_CONFIGFS: Final = "/sys/kernel/config/rdma_cm"
_USUAL: Final = 26
_PRIORITY: Final = 3
"""RoCE's in vendors' guides: DSCP 26 (class 104, or 106 with a bit of ECN), priority 3."""


RULES: Final[tuple[Rule, ...]] = (traffic_class_not_lossless,)
