"""What kind of device it is, where that decides how it is used."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing, NetDev, Why, present
from rdmadiag.facts.ib import NetnsMode
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import device_attribute, netdev_text, seen
from rdmadiag.preflight.rules.discovery import SHARE_NETNS
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.bonds import Bond, bond_of
from rdmadiag.view.reconcile import DeviceView, Protocol


def _of_protocol(case: Case, protocol: Protocol) -> Iterator[DeviceView]:
    for device in case.devices:
        if any(port.protocol is protocol and port.is_active for port in device.ports):
            yield device


@rule(
    "iwarp-device",
    Severity.INFO,
    "iWARP",
    "iWARP connects by rdma_cm and IP address: there is no GID to choose and no RTR to set by "
    "hand. Programs that bring queue pairs up themselves (NCCL, UCX's ib transports, "
    "ibv_rc_pingpong) do not work with it.",
    ("https://github.com/ggml-org/llama.cpp/pull/28494",),
    remedy=("rdmadiag pingpong --cm --allow-rtr --device {device}",),
    needs=("ports",),
)
def iwarp_device(this: Rule, case: Case) -> Iterator[Finding]:
    for device in _of_protocol(case, Protocol.IWARP):
        seen_by = device.sysfs or device.nldev or device.verbs
        node = seen_by.node_type if seen_by else Missing(Why.ABSENT)
        yield this.finding(
            f"{device.name} is iWARP: connections by rdma_cm alone",
            device=device.name,
            evidence=[device_attribute(device, "node_type", seen(node))],
        )


@rule(
    "efa-device",
    Severity.INFO,
    "Elastic Fabric Adapter",
    "EFA has SRD and UD queue pairs, and is used through libfabric, which knows the device by "
    "another name: the kernel's followed by -rdm or -dgrm. Its security group must allow all "
    "traffic with itself, in and out; where it does not, peers time out.",
    (
        "https://github.com/awslabs/awsome-distributed-ai/issues/1088",
        "https://github.com/NVIDIA/NVSentinel/pull/1750",
    ),
    remedy=("fi_info -p efa -t FI_EP_RDM",),
    needs=("ports",),
)
def efa_device(this: Rule, case: Case) -> Iterator[Finding]:
    for device in _of_protocol(case, Protocol.EFA):
        yield this.finding(
            f"{device.name} is EFA: used through libfabric, as {device.name}-rdm",
            device=device.name,
            evidence=[device_attribute(device, "driver", seen(device.driver))],
        )


@rule(
    "bonded-ports",
    Severity.INFO,
    "A bond of ports",
    "One RDMA device stands for the ports of a bond, or on one leg of it. A queue pair uses one "
    "port: a program with few queue pairs may reach half of the bandwidth, and more of them "
    "spread over all, perhaps evenly. A device on one leg is down when that leg is, whatever the "
    "others do.",
    ("https://github.com/openucx/ucx/issues/10430",),
    remedy={
        "": (
            "cat /proc/net/bonding/*",
            "export NCCL_IB_QPS_PER_CONNECTION=4   # NCCL's default is 1",
        ),
        "on one leg": ("cat /proc/net/bonding/{bond}",),
    },
    needs=("ports", "port state", "netdev", "bonds of netdevs"),
)
def bonded_ports(this: Rule, case: Case) -> Iterator[Finding]:
    """By the device's name, or by the netdev that it stands on; bond-leg-down says more."""
    for device, bond in _bonds(case):
        if _down(bond):
            continue
        legs = f" ({', '.join(leg.name for leg in bond.legs)})" if bond.legs else ""
        if bond.leg:
            summary = f"{device.name} is on {bond.leg}, one leg of {bond.name}{legs}"
        else:
            name = f"{bond.name}{legs}, " if bond.name else ""
            summary = f"{device.name} is over {name}a bond: one queue pair uses one of its ports"
        proof = device_attribute(device, "name", device.name)
        if bond.leg:
            proof = Proof("netdev", f"{bond.leg} IFLA_MASTER", f"{bond.name}")
        elif bond.name:
            proof = Proof("netdev", f"{bond.name} IFLA_INFO_KIND", "bond")
        yield this.finding(
            summary,
            device=device.name,
            evidence=[proof],
            when="on one leg" if bond.leg else "",
            fill={"bond": bond.name},
        )


@rule(
    "bond-leg-down",
    Severity.WARN,
    "A leg of a bond is down",
    "The bond below a device works on with the legs that are left: at a part of its bandwidth, "
    "and perhaps without a spare.",
    ("https://docs.kernel.org/networking/bonding.html",),
    remedy=(
        "cat /proc/net/bonding/{bond}",
        "sudo ip link set dev {leg} up",
        "# no carrier: check the cable, and the far port",
    ),
    needs=("ports", "port state", "netdev", "bonds of netdevs"),
)
def bond_leg_down(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a bond; of a device whose own leg is down link-not-up says so."""
    done = set()
    for device, bond in _bonds(case):
        down = _down(bond)
        if not down or bond.name in done:
            continue
        done.add(bond.name)
        names = ", ".join(leg.name for leg in down)
        yield this.finding(
            f"{bond.name}, below {device.name}, has {len(down)} of {len(bond.legs)} legs down: "
            f"{names}",
            device=device.name,
            evidence=[
                Proof("netdev", f"{leg.name} IFLA_OPERSTATE", netdev_text(leg)) for leg in down
            ],
            fill={"bond": bond.name, "leg": tuple(leg.name for leg in down)},
        )


def _down(bond: Bond) -> tuple[NetDev, ...]:
    return tuple(leg for leg in bond.legs if not leg.admin_up or leg.carrier is False)


def _bonds(case: Case) -> Iterator[tuple[DeviceView, Bond]]:
    """Devices with an active port, over a bond."""
    for device in case.devices:
        if any(port.is_active for port in device.ports):
            bond = bond_of(device, case.evidence)
            if bond:
                yield device, bond


@rule(
    "firmware-differs",
    Severity.WARN,
    "Adapters of one kind with different firmware",
    "Two adapters of the same board on this host run different firmware. It may be meant so; "
    "more often one was replaced, or an update stopped half way.",
    ("https://github.com/AMD-AGI/Primus/pull/712",),
    remedy=("grep . /sys/class/infiniband/*/fw_ver", "# bring the outlier to the others'"),
    needs=("devices", "sysfs", "board"),
)
def firmware_differs(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a board."""
    boards: dict[tuple[str, str], dict[str, list[str]]] = {}
    for device in case.devices:
        known = device.sysfs
        if known is None:
            continue
        board, kind, firmware = known.board_id, known.hca_type, known.firmware
        if isinstance(board, Missing) or isinstance(kind, Missing) or isinstance(firmware, Missing):
            continue
        boards.setdefault((kind, board), {}).setdefault(firmware, []).append(device.name)
    for (kind, board), versions in boards.items():
        if len(versions) < 2:
            continue
        versions_text = "; ".join(
            f"{' '.join(names)} {version}" for version, names in versions.items()
        )
        yield this.finding(
            f"adapters {kind} ({board}) run different firmware: {versions_text}",
            evidence=[
                Proof("sysfs", f"/sys/class/infiniband/{name}/fw_ver", version)
                for version, names in versions.items()
                for name in names
            ],
        )


@rule(
    "netns-exclusive",
    Severity.INFO,
    "Exclusive netns mode",
    "The RDMA subsystem is in exclusive mode: a device belongs to one network namespace, and a "
    "container sees it only if it was moved there. It comes back when the container ends, "
    "sometimes late.",
    (
        "https://github.com/Mellanox/k8s-rdma-shared-dev-plugin/issues/84",
        "https://github.com/kubernetes-sigs/dranet/issues/177",
    ),
    remedy=("rdma system show", SHARE_NETNS),
    needs=("devices", "netns mode"),
)
def netns_exclusive(this: Rule, case: Case) -> Iterator[Finding]:
    """Where all devices are seen; where one is not, device-in-one-source has a finding."""
    nldev = case.evidence.nldev
    if isinstance(nldev, Missing) or nldev.netns_mode is not NetnsMode.EXCLUSIVE:
        return
    if not case.devices or any(device.nldev is None for device in case.devices):
        return
    yield this.finding(
        "netns mode is exclusive: other network namespaces do not see these devices",
        evidence=[Proof("nldev", "RDMA_NLDEV_SYS_ATTR_NETNS_MODE", seen(nldev.netns_mode))],
    )


@rule(
    "function-without-device",
    Severity.INFO,
    "An adapter's function without an RDMA device",
    "A PCI function of a kind that always carries RDMA has no RDMA device, while others have. "
    "RDMA may be switched off for it on purpose (devlink's enable_roce or enable_rdma), or its "
    "driver failed on the way; the summary names the first step that is missing.",
    ("https://docs.kernel.org/networking/devlink/mlx5.html",),
    remedy=("devlink dev param show pci/{address}", "sudo dmesg | grep {address}"),
    needs=("every device", "PCI functions"),
)
def function_without_device(this: Rule, case: Case) -> Iterator[Finding]:
    """Where there is no device at all, no-rdma-device has the finding."""
    if case.selected or not case.devices or not _has_spare_function(case):
        return
    from rdmadiag.view.discovery_path import functions_without_device

    for function in functions_without_device(case.devices, case.evidence):
        step = function.discovery.failure
        if step is None:
            continue
        yield this.finding(
            f"PCI {function.address} ({seen(function.driver)}) has no RDMA device: "
            f"fails at {step.stage.replace('_', ' ')}",
            evidence=[Proof("sysfs", step.subject, step.value)],
            fill={"address": function.address},
        )


def _has_spare_function(case: Case) -> bool:
    """Whether there is any function that no device is behind: mostly there is not."""
    sysfs = case.evidence.sysfs
    candidates = () if isinstance(sysfs, Missing) else present(sysfs.candidates)
    behind = {each.pci.address for each in case.devices if not isinstance(each.pci, Missing)}
    return any(each.address not in behind for each in candidates)


RULES: Final[tuple[Rule, ...]] = (
    function_without_device,
    netns_exclusive,
    firmware_differs,
    bond_leg_down,
    bonded_ports,
    iwarp_device,
    efa_device,
)
