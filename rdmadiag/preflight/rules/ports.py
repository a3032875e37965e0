"""Link and state of ports. One cause, one finding: that of the lowest layer that is wrong."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from rdmadiag.facts import Missing, NetDev, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import NO_LID, PKEY_BASE, PKEY_FULL, PhysState, PortState
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import netdev_text, port_attribute, seen
from rdmadiag.preflight.rules.rule import UNUSED, Rule, idle_or_broken, rule, without_link
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.ethernet import down_because
from rdmadiag.view.reconcile import PortView, Protocol


def is_down(port: PortView) -> bool:
    """Whether its state is known, and is not ACTIVE."""
    if port.protocol is Protocol.THUNDERBOLT:
        return False  # a family of its own: there the cable and the peer show the cause
    states = set(port.states.values())
    return bool(states) and PortState.ACTIVE not in states


@rule(
    "link-not-up",
    Severity.CRITICAL,
    "Physical link not up",
    "The port's physical state is not LinkUp: no cable, no peer, a disabled port, or a netdev "
    "that is down. A warning where another port of the host is active and this one was not "
    "asked for with --device: it may simply be unused. A note where it seems so: its netdev has no "
    "address and never had a link, or the port has no netdev at all, and no other card of its kind "
    "has a link at the same port. An InfiniBand port must also never have had a LID.",
    ("https://docs.kernel.org/infiniband/sysfs.html",),
    remedy={
        "where its netdev is down": ("sudo ip link set dev {netdev} up",),
        "where its netdev has no carrier": (
            "ethtool {netdev} | grep -i -e 'link detected' -e speed",
            "# check the cable and that the far port is up",
        ),
        "on InfiniBand": (
            "ibstat {device} {port}",
            "# check the cable, and that the switch port is enabled",
        ),
        "on InfiniBand, where the port is disabled": (
            "ibstat {device} {port}",
            "sudo ibportstate -C {device} -P {port} -D 0 {port} enable",
        ),
        "elsewhere": (
            "rdma link show {device}/{port}",
            "# check the cable and that the far port is up",
        ),
    },
    needs=("ports", "port state", "physical state"),
)
def link_not_up(this: Rule, case: Case) -> Iterator[Finding]:
    """Ports that are down and whose physical state is known, where link-down-because is silent."""
    for device, port in case.ports:
        if not is_down(port) or not has_no_link(port):
            continue
        if down_because(device, port, case.evidence):
            continue
        netdevs = _netdevs(port, case.evidence)
        cause = _link_cause(port, netdevs)
        severity = without_link(case, device, port)
        unused = UNUSED if severity is Severity.INFO else ""
        yield this.finding(
            f"{port.name} has no link: physical state {port.phys_state}{cause.text}{unused}",
            device=port.device,
            port=port.number,
            severity=severity,
            evidence=(
                port_attribute(port, "phys_state", port.phys_state),
                port_attribute(port, "state", port.state),
                *(
                    Proof("netdev", f"{each.name} IFLA_OPERSTATE", netdev_text(each))
                    for each in netdevs
                ),
            ),
            when=cause.when,
            fill={"netdev": cause.netdev},
        )


def _netdevs(port: PortView, evidence: Evidence) -> tuple[NetDev, ...]:
    """The netdevs that this port's packets would leave by, as rtnetlink shows them."""
    if isinstance(evidence.netdev, Missing) or port.protocol is Protocol.INFINIBAND:
        return ()
    names = set(port.netdevs_here)
    if port.nldev and not isinstance(port.nldev.netdev, Missing):
        names.add(port.nldev.netdev)
    return tuple(each for each in evidence.netdev.netdevs if each.name in names)


class _Cause(NamedTuple):
    """Why a port has no link."""

    text: str
    when: str  # of the rule's remedies
    netdev: str = ""


def _link_cause(port: PortView, netdevs: tuple[NetDev, ...]) -> _Cause:
    for netdev in netdevs:
        if not netdev.admin_up:
            text = f"; its netdev {netdev.name} is administratively down"
            return _Cause(text, "where its netdev is down", netdev.name)
    for netdev in netdevs:
        if netdev.carrier is False:
            text = f"; its netdev {netdev.name} has no carrier"
            return _Cause(text, "where its netdev has no carrier", netdev.name)
    if port.protocol is not Protocol.INFINIBAND:
        return _Cause("", "elsewhere")
    if port.phys_state is PhysState.DISABLED:
        return _Cause("; the port is disabled", "on InfiniBand, where the port is disabled")
    return _Cause("", "on InfiniBand")


@rule(
    "no-subnet-manager",
    Severity.CRITICAL,
    "No subnet manager",
    "An InfiniBand port whose link is up stays in INIT, with SM LID 0, until a subnet manager "
    "has found it: no LID, no routes, no traffic.",
    ("https://docs.kernel.org/infiniband/sysfs.html",),
    remedy=(
        "sudo sminfo -C {device} -P {port}   # does a subnet manager answer?",
        "sudo systemctl enable --now opensm   # on one host of this fabric, if none does",
    ),
    needs=("ports", "port state", "physical state", "SM LID"),
)
def no_subnet_manager(this: Rule, case: Case) -> Iterator[Finding]:
    for _, port in case.ports:
        if not _waits_for_subnet_manager(port):
            continue
        yield this.finding(
            f"{port.name} waits for a subnet manager: state INIT, SM LID 0",
            device=port.device,
            port=port.number,
            evidence=(
                port_attribute(port, "state", port.state),
                port_attribute(port, "sm_lid", port.sm_lid),
                port_attribute(port, "lid", port.lid),
            ),
        )


def _waits_for_subnet_manager(port: PortView) -> bool:
    return (
        port.protocol is Protocol.INFINIBAND
        and port.state is PortState.INIT
        and is_down(port)
        and port.sm_lid in NO_LID
        and not has_no_link(port)
    )


def has_no_link(port: PortView) -> bool:
    """Whether its physical state is known, and is not LinkUp."""
    known = not isinstance(port.phys_state, Missing)
    return known and port.phys_state is not PhysState.LINK_UP


@rule(
    "port-not-active",
    Severity.CRITICAL,
    "Port not active",
    "The link is up, or its physical state is not known, and the port is not ACTIVE. On "
    "InfiniBand with a subnet manager: it has not (yet) configured the port. A warning where "
    "another port is active and this one was not asked for.",
    ("https://docs.kernel.org/infiniband/sysfs.html",),
    remedy={
        "on InfiniBand": ("sudo sminfo -C {device} -P {port}", "ibstat {device} {port}"),
        "elsewhere": ("rdma link show {device}/{port}", "sudo dmesg | tail -50"),
    },
    needs=("ports", "port state"),
)
def port_not_active(this: Rule, case: Case) -> Iterator[Finding]:
    """What neither the link nor a missing subnet manager explains."""
    for _, port in case.ports:
        if not is_down(port) or has_no_link(port) or _waits_for_subnet_manager(port):
            continue
        infiniband = port.protocol is Protocol.INFINIBAND
        managed = f" (subnet manager at LID {port.sm_lid})" if infiniband and port.sm_lid else ""
        yield this.finding(
            f"{port.name} is {seen(port.state).rpartition(' ')[2].upper()}, not ACTIVE{managed}",
            device=port.device,
            port=port.number,
            severity=idle_or_broken(case),
            evidence=(
                port_attribute(port, "state", port.state),
                port_attribute(port, "phys_state", port.phys_state),
            ),
            when="on InfiniBand" if infiniband else "elsewhere",
        )


@rule(
    "port-state-unknown",
    Severity.UNKNOWN,
    "Port state unreadable",
    "No witness could read the port's state: the driver is being unloaded, the firmware does "
    "not answer, or a copied tree is incomplete.",
    remedy={
        "": ("cat /sys/class/infiniband/{device}/ports/{port}/state",),
        "where verbs alone shows it": ("ibv_devinfo -d {device}",),
    },
    needs=("ports",),
)
def port_state_unknown(this: Rule, case: Case) -> Iterator[Finding]:
    for _, port in case.ports:
        if port.states:
            continue
        yield this.finding(
            f"{port.name}: its state could not be read",
            device=port.device,
            port=port.number,
            evidence=[port_attribute(port, "state", port.state)],
            when="" if port.sysfs else "where verbs alone shows it",
        )


@rule(
    "lid-unreadable",
    Severity.UNKNOWN,
    "LID unreadable",
    "An InfiniBand port is ACTIVE, and its LID could not be read: whether it can be reached "
    "is not known.",
    remedy=("ibstat {device} {port}",),
    needs=("ports", "port state"),
)
def lid_unreadable(this: Rule, case: Case) -> Iterator[Finding]:
    for _, port in case.ports:
        if port.protocol is not Protocol.INFINIBAND or not port.is_active or port.sysfs is None:
            continue
        if isinstance(port.lid, Missing):
            yield this.finding(
                f"{port.name}: its LID could not be read",
                device=port.device,
                port=port.number,
                evidence=[port_attribute(port, "lid", port.lid)],
            )


@rule(
    "link-layer-unreadable",
    Severity.UNKNOWN,
    "Link layer unreadable",
    "Neither the port's link layer nor the kind of its device could be read: whether it is "
    "InfiniBand, RoCE or iWARP is not known, and nothing that depends on it was looked at.",
    remedy=("cat /sys/class/infiniband/{device}/ports/{port}/link_layer",),
    needs=("ports",),
)
def link_layer_unreadable(this: Rule, case: Case) -> Iterator[Finding]:
    """Not on a Mac, where not-a-thunderbolt-port says so."""
    for _, port in case.ports:
        if port.protocol is not Protocol.UNKNOWN or port.is_foreign_on_mac:
            continue
        yield this.finding(
            f"{port.name}: whether it is InfiniBand, RoCE or iWARP could not be read",
            device=port.device,
            port=port.number,
            evidence=[port_attribute(port, "link_layer", port.link_layer)],
        )


@rule(
    "no-usable-pkey",
    Severity.CRITICAL,
    "No usable partition key",
    "An InfiniBand port belongs to partitions by the keys in its table, and a queue pair names "
    "one of them by index: programs, and rdmadiag pingpong, use index 0 unless an option says "
    "otherwise. Critical where the table holds none. A warning where index 0 holds none and "
    "another does, where it holds a limited key and another a full one, and where the port is a "
    "limited member alone: limited members do not reach each other.",
    (
        "https://github.com/NVIDIA/nccl/issues/1323",
        "https://github.com/MicrosoftDocs/azure-docs/issues/94446",
    ),
    remedy={
        "where another index has one": (
            "grep . /sys/class/infiniband/{device}/ports/{port}/pkeys/*",
            "export NCCL_IB_PKEY={index}   # an index",
            "export UCX_IB_PKEY={key}   # a key, without its highest bit",
            "# rdmadiag pingpong: --pkey-index {index}",
        ),
        "elsewhere": (
            "grep . /sys/class/infiniband/{device}/ports/{port}/pkeys/*",
            "# the subnet manager's partitions.conf decides on keys and membership",
        ),
    },
    needs=("ports", "port state", "partition keys"),
)
def no_usable_pkey(this: Rule, case: Case) -> Iterator[Finding]:
    """Active ports alone: before, the subnet manager has not written the table."""
    for _, port in case.ports:
        keys = port.sysfs.pkeys if port.sysfs else Missing(Why.ABSENT)
        if port.protocol is not Protocol.INFINIBAND or not port.is_active:
            continue
        if isinstance(keys, Missing):
            continue
        usable = {index: key for index, key in keys.items() if key & PKEY_BASE}
        full = [index for index, key in usable.items() if key & PKEY_FULL]
        best = min(full or usable, default=None)
        if best is None:
            summary = f"{port.name} has no partition key: its table is empty"
        elif 0 in full:
            continue
        elif 0 not in usable:
            summary = (
                f"{port.name} has no partition key at index 0, which programs use; "
                f"the one to use is at {best} ({usable[best]:#06x})"
            )
        elif full:
            summary = (
                f"{port.name} is a limited member at index 0 ({usable[0]:#06x}), which programs "
                f"use; it is a full one at {best} ({usable[best]:#06x})"
            )
        else:
            summary = f"{port.name} is a limited member of its partitions alone"
        yield this.finding(
            summary,
            device=port.device,
            port=port.number,
            severity=None if best is None else Severity.WARN,
            evidence=[
                port_attribute(port, f"pkeys/{index}", f"{key:#06x}")
                for index, key in list(keys.items())[:4]
            ]
            or [port_attribute(port, "pkeys/*", "0x0000")],
            when="where another index has one" if best else "elsewhere",
            fill={"index": best, "key": f"{usable[best] & PKEY_BASE:#x}" if best else None},
        )


RULES: Final[tuple[Rule, ...]] = (
    link_not_up,
    no_subnet_manager,
    port_not_active,
    port_state_unknown,
    link_layer_unreadable,
    lid_unreadable,
    no_usable_pkey,
)
