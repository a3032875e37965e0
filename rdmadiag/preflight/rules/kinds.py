"""What kind of device it is, where that decides how it is used."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.ib import NetnsMode
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import device_attribute, seen
from rdmadiag.preflight.rules.discovery import SHARE_NETNS
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
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
    iwarp_device,
    efa_device,
)
