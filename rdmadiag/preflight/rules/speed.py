"""What makes a healthy path slow: links, PCI Express, NUMA."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rdmadiag.facts import Missing, PciFunction, SysfsPort, Why, present
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import PortState
from rdmadiag.late import late
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import port_attribute, seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.reconcile import DeviceView, Protocol

if TYPE_CHECKING:
    from rdmadiag.facts.system import PciPath

_Kind = tuple[str, str, str]  # hca_type, board_id, link layer


@rule(
    "rate-below-siblings",
    Severity.WARN,
    "A port slower than its siblings",
    "An active port has a lower rate than another active port of the same board on this host. "
    "A cable, a transceiver, the far port's setting or forward error correction may be the "
    "reason; it may also be meant so. Ports are compared with each other alone: a host whose ports "
    "are all slow alike is found by below-what-both-can, on Ethernet.",
    ("https://github.com/NVIDIA/nccl/issues/1412",),
    remedy=(
        "rdma link show {device}/{port}",
        "ethtool {netdev:INTERFACE}   # Ethernet: the link modes of the port, and of its partner",
        "# compare cable, transceiver and the switch port's speed and FEC with the other's",
    ),
    needs=("ports", "sysfs", "rate", "board"),
)
def rate_below_siblings(this: Rule, case: Case) -> Iterator[Finding]:
    """Selected ports are compared with all ports."""
    best: dict[_Kind, tuple[float, str]] = {}
    for name, kind, port in _rated(case.evidence):
        assert not isinstance(port.rate_gbps, Missing)
        best[kind] = max(best.get(kind, (0.0, "")), (port.rate_gbps, f"{name}/{port.number}"))
    chosen = {(port.device, port.number): port for _, port in case.ports}
    for name, kind, port in _rated(case.evidence):
        rate, sibling = best[kind]
        view = chosen.get((name, port.number))
        assert not isinstance(port.rate_gbps, Missing)
        if view is None or port.rate_gbps >= rate:
            continue
        yield this.finding(
            f"{view.name} runs at {port.rate_gbps:g} Gb/s, and {sibling} of the same board at "
            f"{rate:g}",
            device=name,
            port=port.number,
            evidence=[port_attribute(view, "rate", port.rate)],
            fill={"netdev": () if isinstance(view.netdev, Missing) else (view.netdev,)},
        )


def _rated(evidence: Evidence) -> Iterator[tuple[str, _Kind, SysfsPort]]:
    """Active ports of boards that are known, each with its kind."""
    if isinstance(evidence.sysfs, Missing):
        return
    for device in present(evidence.sysfs.devices):
        kind, board = device.hca_type, device.board_id
        if isinstance(kind, Missing) or isinstance(board, Missing):
            continue
        for port in present(device.ports):
            if port.state is PortState.ACTIVE and not isinstance(port.rate_gbps, Missing):
                yield device.name, (kind, board, str(port.link_layer)), port


@rule(
    "narrow-link",
    Severity.WARN,
    "An InfiniBand link of one lane",
    "InfiniBand ports have two or four lanes; this link came up with one. A cable or connector "
    "with a bad lane is the likely reason.",
    ("https://docs.kernel.org/infiniband/sysfs.html",),
    remedy=(
        "sudo iblinkinfo -C {device} -P {port} --switches-only | head",
        "# reseat or replace the cable",
    ),
    needs=("ports", "rate", "port state", "software device"),
)
def narrow_link(this: Rule, case: Case) -> Iterator[Finding]:
    """InfiniBand alone: 25 Gb/s Ethernet is 1X and healthy."""
    for _, port in case.ports:
        rate = port.rate
        if port.protocol is not Protocol.INFINIBAND or not port.is_active or port.is_software:
            continue
        if isinstance(rate, Missing) or "(1X" not in rate:
            continue
        yield this.finding(
            f"{port.name} runs on one lane: {rate}",
            device=port.device,
            port=port.number,
            evidence=[port_attribute(port, "rate", rate)],
        )


# --- PCI Express ------------------------------------------------------------------------------

_GT: Final = late(r"([0-9]{1,3}(?:\.[0-9])?) GT/s")


def _speed(value: str | Missing) -> float | None:
    """ "16.0 GT/s PCIe" → 16.0; None where it is "Unknown"."""
    match = None if isinstance(value, Missing) else _GT.match(value)
    return float(match[1]) if match else None


def _width(value: int | Missing) -> int | None:
    """Lanes; a virtual function says 0, which is no width."""
    return None if isinstance(value, Missing) or not 0 < value <= 64 else value


@rule(
    "pcie-link-degraded",
    Severity.WARN,
    "PCI Express link below its maximum",
    "The link between adapter and slot runs with fewer lanes or at a lower speed than both ends "
    "can do. An adapter that is not seated well, a riser, or an error on the way makes a link "
    "train down; a lower speed alone may also be power saving on an idle host: look again under "
    "load. A note where the slot is the limit: a card of 16 lanes in a slot of 8.",
    (
        "https://github.com/NVIDIA/dgx-spark-playbooks/pull/108",
        "https://docs.kernel.org/PCI/index.html",
    ),
    remedy=(
        "sudo lspci -vv -s {address} | grep -e LnkCap -e LnkSta",
        "# under load? reseated? the right slot? newer BIOS and firmware?",
    ),
    needs=("devices", "PCI link", "way to the root complex"),
)
def pcie_link_degraded(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a card: its functions share the link."""
    done = set()
    for device in case.devices:
        if isinstance(device.pci, Missing):
            continue
        card = device.pci.address.rpartition(".")[0]
        if card not in done:
            found = _degraded(this, device, device.pci, _path(device, case.evidence))
            if found:
                done.add(card)
                yield found


def _path(device: DeviceView, evidence: Evidence) -> "PciPath | None":
    if isinstance(evidence.system, Missing):
        return None
    paths = present(evidence.system.paths)
    return next((path for path in paths if path.device == device.name), None)


def _degraded(
    this: Rule, device: DeviceView, pci: PciFunction, path: "PciPath | None"
) -> Finding | None:
    speed, most = _speed(pci.current_link_speed), _speed(pci.max_link_speed)
    width, lanes = _width(pci.current_link_width), _width(pci.max_link_width)
    if speed is None or most is None or width is None or lanes is None:
        return None
    if speed >= most and width >= lanes:
        return None
    slot_speed = _speed(path.slot_max_link_speed) if path else None
    slot_lanes = _width(path.slot_max_link_width) if path else None
    slower = speed < min(most, slot_speed or most)
    narrower = width < min(lanes, slot_lanes or lanes)
    now, best = f"{speed:g} GT/s x{width}", f"{most:g} GT/s x{lanes}"
    if slower or narrower:
        doubt = "" if narrower else "; on an idle host perhaps power saving"
        if slot_lanes is None:
            doubt += "; the slot may be the limit"
        summary = f"{device.name}: PCIe link at {now} of {best}{doubt}"
    else:
        summary = f"{device.name}: PCIe link at {now}, all that its slot has; the card has {best}"
    folder = f"/sys/bus/pci/devices/{pci.address}"
    slot = f"{seen(path.slot_max_link_speed)} x{seen(path.slot_max_link_width)}" if path else ""
    return this.finding(
        summary,
        device=device.name,
        severity=None if slower or narrower else Severity.INFO,
        evidence=[
            Proof("sysfs", f"{folder}/current_link_*", now),
            Proof("sysfs", f"{folder}/max_link_*", best),
            *([Proof("system", "max_link_* of the bridge above", slot)] if slot else []),
        ],
        fill={"address": pci.address},
    )


# --- NUMA -------------------------------------------------------------------------------------

Spans = Sequence[tuple[int, int]]


_SPAN: Final = late(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")


def spans(text: str) -> Spans:
    """ "0-15,32" → the first and last CPU of each part."""
    parts = map(_SPAN.fullmatch, text.split(","))
    return [(int(part[1]), int(part[2] or part[1])) for part in parts if part]


def overlap(one: Spans, other: Spans) -> bool:
    """Whether any CPU is in both."""
    return any(a <= d and c <= b for a, b in one for c, d in other)


def covers(whole: Spans, part: Spans) -> bool:
    """Whether every CPU of `part` is in `whole`."""
    for first, last in part:
        at = first
        for a, b in sorted(whole):
            if a <= at <= b:
                at = b + 1
        if at <= last:
            return False
    return True


@rule(
    "numa-remote",
    Severity.WARN,
    "The process is bound away from the adapter",
    "This process is bound to CPUs none of which is near the adapter: every access crosses "
    "between sockets, which can halve the rate. A note where another active adapter is near, as "
    "with one process a socket. Only where the process is bound at all.",
    ("https://fasterdata.es.net/",),
    remedy=("numactl -N {node} -m {node} PROGRAM   # near {near:DEVICE}",),
    needs=("every port", "CPUs of this process", "CPUs", "way to the root complex", "NUMA nodes"),
)
def numa_remote(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding for all adapters that are far."""
    process, system = case.evidence.process, case.evidence.system
    if isinstance(process, Missing) or isinstance(system, Missing):
        return
    allowed, online = process.cpus_allowed, system.cpus_online
    if isinstance(allowed, Missing) or isinstance(online, Missing):
        return
    mine = spans(allowed)
    if not mine or covers(mine, spans(online)):
        return
    placed = list(_placed(case))
    far = [each for each in placed if not overlap(mine, spans(str(each[1].local_cpus)))]
    if not far:
        return
    one = far[0][0].name if len(far) == 1 else None
    names = " ".join(device.name for device, _ in far)
    memory = process.mems_allowed
    yield this.finding(
        f"{names}: none of the CPUs that this process may use ({allowed}) is near",
        device=one,
        severity=Severity.INFO if len(far) < len(placed) else None,
        evidence=[
            Proof("process", "/proc/self/status: Cpus_allowed_list", allowed),
            Proof("process", "/proc/self/status: Mems_allowed_list", seen(memory)),
            *(
                Proof(
                    "system",
                    f"/sys/bus/pci/devices/{path.function}/local_cpulist",
                    f"{seen(path.local_cpus)}, NUMA node {_node(device)}",
                )
                for device, path in far
            ),
        ],
        fill={
            "node": tuple(_node(device) for device, _ in far[:2]),
            "near": tuple(device.name for device, _ in far[:2]),
        },
    )


def _placed(case: Case) -> Iterator[tuple[DeviceView, "PciPath"]]:
    """Active devices on a NUMA node that is known."""
    for device in case.devices:
        path = _path(device, case.evidence)
        if path is None or isinstance(path.local_cpus, Missing) or _node(device) < 0:
            continue
        if any(port.is_active for port in device.ports):
            yield device, path


def _node(device: DeviceView) -> int:
    node = Missing(Why.ABSENT) if isinstance(device.pci, Missing) else device.pci.numa_node
    return -1 if isinstance(node, Missing) else node


RULES: Final[tuple[Rule, ...]] = (
    pcie_link_degraded,
    narrow_link,
    rate_below_siblings,
    numa_remote,
)
