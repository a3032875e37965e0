"""Which adapter is near which GPU, and what variables make of it."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rdmadiag.facts import Missing
from rdmadiag.gid.device_lists import Choice
from rdmadiag.gid.variables import DEVICE_LISTS, Variable, choice
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.reconcile import DeviceView
from rdmadiag.view.stack_picks import variables
from rdmadiag.view.topology import Distance, GpuView, Left, Nic, Topology, for_nccl, topology

_PCI: Final = "/sys/bus/pci/devices"
_MAP: Final = "rdmadiag topology   # the map, and the lines to export"
_FEW: Final = 8
_WORDS: Final = {
    Distance.PHB: "through a host bridge",
    Distance.NODE: "through host bridges of its NUMA node",
    Distance.SYS: "across NUMA nodes",
}


def host_topology(case: Case) -> Topology:
    """Of the devices in the case."""
    return topology(case.devices, case.evidence)


@rule(
    "gpu-nic-map",
    Severity.WARN,
    "Not every GPU has an adapter of its own near it",
    "Some GPUs have an active adapter below their own PCIe switch, and others have none: what "
    "those send passes the host bridge, or the link between processors, which is slower, and on "
    "some hosts is no GPU Direct at all. An adapter may be missing, down, or left out. A note "
    "where no GPU has one below its switch and the nearest is across NUMA nodes, and where "
    "several GPUs share an adapter: that is how many hosts are built. Adapters with the default "
    "route, BlueField beside other adapters, and virtual functions are not counted.",
    (
        "https://github.com/NVIDIA/nccl/issues/1435",
        "https://github.com/NVIDIA/nccl/issues/820",
        "https://github.com/openucx/ucx/issues/11259",
    ),
    remedy=(_MAP, "export NCCL_IB_HCA={devices:'=mlx5_0,mlx5_1'}"),
    needs=("every port", "port state", "PCI topology", "routing"),
)
def gpu_nic_map(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding for the host. Not with --device, which hides the other adapters."""
    if case.selected:
        return
    found = host_topology(case)
    nics = found.proposed
    if not found.gpus or not nics:
        return
    near = [gpu for gpu in found.gpus if gpu.nearest.is_below_a_switch]
    known = [gpu for gpu in found.gpus if gpu.nearest is not Distance.UNKNOWN]
    far = [gpu for gpu in known if not gpu.nearest.is_below_a_switch]
    across = [gpu for gpu in far if gpu.nearest is Distance.SYS]
    severity = Severity.WARN if near and far else Severity.INFO
    if near and far:
        summary = f"{_names(far)}: no active adapter below the PCIe switch; {_best(far[0])}"
    elif across:
        summary = f"{_names(across)}: {_best(across[0])}"
    elif len(nics) < len(known):
        summary = f"{len(known)} GPUs share {len(nics)} active adapter ports"
    else:
        return
    yield this.finding(
        summary,
        severity=severity,
        evidence=[
            *(_proof_of_gpu(gpu) for gpu in (far or known)[:_FEW]),
            *(_proof_of_nic(nic) for nic in nics[:_FEW]),
        ],
        fill={"devices": _value(found, "NCCL_IB_HCA")},
    )


def _names(gpus: Sequence[GpuView]) -> str:
    more = f" and {len(gpus) - _FEW} more" if len(gpus) > _FEW else ""
    return " ".join(gpu.name for gpu in gpus[:_FEW]) + more


def _best(gpu: GpuView) -> str:
    nearest = gpu.nics[0]
    return f"the nearest, {nearest.device}/{nearest.port}, is {_WORDS[nearest.distance]}"


def _proof_of_gpu(gpu: GpuView) -> Proof:
    place = gpu.function.place
    way = seen(place) if isinstance(place, Missing) else " ".join((place.root, *place.bridges))
    node = seen(gpu.function.numa_node)
    where = f"{_PCI}/{gpu.function.address}"
    return Proof("topology", where, f"{gpu.name}: {way}, NUMA node {node}")


def _proof_of_nic(nic: Nic) -> Proof:
    place = nic.place
    way = seen(place) if isinstance(place, Missing) else " ".join((place.root, *place.bridges))
    node = "not known" if nic.numa_node is None else nic.numa_node
    return Proof("topology", f"{_PCI}/{nic.address}", f"{nic.name}: {way}, NUMA node {node}")


def _value(found: Topology, variable: str) -> Any:
    return next((each.value for each in found.exports if each.variable == variable), ())


@rule(
    "env-names-far-nic",
    Severity.WARN,
    "A variable names an adapter that is not meant for the job",
    "A variable of the environment chooses devices, and one of them carries the host's default "
    "route (management), is a BlueField beside other adapters, or is farther from every GPU than "
    "an active one that the variable leaves out. The job then sends over a slower way, or fills "
    "the link that the host is managed by. How near an adapter is, is judged by PCIe switches, "
    "host bridges and NUMA nodes.",
    (
        "https://github.com/NVIDIA/nccl/issues/1435",
        "https://github.com/kvcache-ai/Mooncake/issues/35",
    ),
    remedy=(_MAP, "export {variable:NCCL_IB_HCA}={devices:'=mlx5_0,mlx5_1'}"),
    needs=("every port", "port state", "PCI topology", "routing", "environment"),
)
def env_names_far_nic(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a variable. Not with --device."""
    environment = variables(case.evidence)
    if case.selected or isinstance(environment, Missing):
        return
    found = host_topology(case)
    for row in DEVICE_LISTS:
        chosen = choice(environment, row.name)
        if chosen is None:
            continue
        unfit = dict(_unfit(chosen, found))
        if not unfit:
            continue
        first = next(iter(unfit))
        listed = "; ".join(f"{nic.name} {why}" for nic, why in list(unfit.items())[:_FEW])
        yield this.finding(
            f"{row.name}={chosen.value} uses {listed}",
            device=first.device,
            port=first.port,
            evidence=[
                Proof("process", f"environment: {row.name}", chosen.value),
                *(_proof_of_nic(nic) for nic in list(unfit)[:_FEW]),
                *(_proof_of_gpu(gpu) for gpu in found.gpus[:_FEW]),
            ],
            fill={"variable": row.name, "devices": _better(row, chosen, found)},
        )


def _unfit(chosen: Choice, found: Topology) -> Iterator[tuple[Nic, str]]:
    """The ports that the list takes and that are better left out, each with the reason."""
    taken = [nic for nic in found.nics if nic.active and chosen.has(nic.device, nic.port)]
    left = [nic for nic in found.proposed if nic not in taken]
    nearest = min((_rank(nic, found) for nic in left), default=Distance.UNKNOWN.rank)
    for nic in taken:
        if nic.left is Left.DEFAULT_ROUTE:
            yield nic, "carries the default route"
        elif nic.left is Left.BLUEFIELD:
            yield nic, "is a BlueField beside other adapters"
        elif nic.left is None:
            rank = _rank(nic, found)
            if nearest < rank < Distance.UNKNOWN.rank and rank >= Distance.PHB.rank:
                yield nic, "is farther from every GPU than one that it leaves out"


def _rank(nic: Nic, found: Topology) -> int:
    """Of the GPU that it is nearest to."""
    return min(
        (
            near.distance.rank
            for gpu in found.gpus
            for near in gpu.nics
            if (near.device, near.port) == (nic.device, nic.port)
        ),
        default=Distance.UNKNOWN.rank,
    )


def _better(row: Variable, chosen: Choice, found: Topology) -> str:
    """The proposed ports near a GPU in the variable's own form."""
    near = {name for gpu in found.gpus for name in gpu.chosen}
    nics = [nic for nic in found.proposed if nic.for_ucx in near] or list(found.proposed)
    if chosen.takes_netdevs:
        return ",".join(nic.for_ucx for nic in nics)
    names = for_nccl(nics).removeprefix("=")
    return f"{row.exact_sign}{names}"


@rule(
    "same-port-twice",
    Severity.WARN,
    "One port of an adapter is two devices, and one of them is not used",
    "Two active devices with the same system image GUID and board stand below different host "
    "bridges: an adapter that is joined to two of them (DGX Spark, Socket Direct, ConnectX-8) "
    "shows each of its ports twice, and only both together have the port's whole rate. One of "
    "them has no address, or a variable leaves it out: about half of the rate is then to be had. "
    "That the two are one port is a guess from the numbers of the functions.",
    (
        "https://github.com/NVIDIA/dgx-spark-playbooks/issues/102",
        "https://github.com/openucx/ucx/issues/5598",
    ),
    remedy=(
        "# give this one an address too, in a subnet of its own:",
        "sudo ip address add {address:ADDRESS/BITS} dev {netdev}",
        "export {variable:NCCL_IB_HCA}={devices:'=mlx5_0,mlx5_1'}   # both of them",
    ),
    needs=("every port", "port state", "PCI topology", "GID table", "environment"),
)
def same_port_twice(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a pair."""
    if case.selected:
        return
    environment = variables(case.evidence)
    known = {} if isinstance(environment, Missing) else environment
    nics = {nic.device: nic for nic in host_topology(case).nics if nic.active and nic.port == 1}
    for first, second in _twins(case.devices, nics):
        pair = (nics[first.name], nics[second.name])
        bare = [each for each in (first, second) if not _has_address(each)]
        if len(bare) == 1:
            netdev = nics[bare[0].name].netdev
            other = second if bare[0] is first else first
            yield this.finding(
                f"{first.name} and {second.name} seem to be one port, and {bare[0].name} has no "
                "address",
                device=bare[0].name,
                port=1,
                evidence=[*_identity(bare[0]), *_identity(other)],
                fill={
                    "netdev": () if isinstance(netdev, Missing) else netdev,
                    "address": "ADDRESS/BITS",
                    "variable": (),
                    "devices": (),
                },
            )
            continue
        for row in DEVICE_LISTS:
            chosen = choice(known, row.name)
            taken = [nic for nic in pair if chosen and chosen.has(nic.device, nic.port)]
            if chosen and len(taken) == 1:
                both = (*[p for p in chosen.parts if not chosen.excludes], *_parts(pair, taken))
                yield this.finding(
                    f"{first.name} and {second.name} seem to be one port, and "
                    f"{row.name}={chosen.value} leaves one out",
                    device=next(nic.device for nic in pair if nic not in taken),
                    port=1,
                    evidence=[
                        Proof("process", f"environment: {row.name}", chosen.value),
                        *_identity(first),
                        *_identity(second),
                    ],
                    lines=(this.remedies[""][2],),
                    fill={
                        "variable": row.name,
                        "devices": row.exact_sign + ",".join(map(str, both)),
                    },
                )


def _parts(pair: Sequence[Nic], taken: Sequence[Nic]) -> Iterator[str]:
    """What is to be added to the list."""
    for nic in pair:
        if nic not in taken:
            yield nic.for_ucx


def _twins(
    devices: Sequence[DeviceView], nics: dict[str, Nic]
) -> Iterator[tuple[DeviceView, DeviceView]]:
    """Pairs with equal GUID, board and function number below different host bridges."""
    alike: dict[tuple[str, ...], list[DeviceView]] = {}
    for device in devices:
        nic = nics.get(device.name)
        own = device.sysfs
        if nic is None or own is None or isinstance(nic.place, Missing):
            continue
        guid, board, address = own.sys_image_guid, own.board_id, nic.address
        if isinstance(guid, Missing) or isinstance(board, Missing) or isinstance(address, Missing):
            continue
        if guid.strip("0:"):
            alike.setdefault((guid, board, address[-1:]), []).append(device)
    for group in alike.values():
        if len(group) == 2:
            first, second = group
            places = [nics[each.name].place for each in group]
            if len({each.root for each in places if not isinstance(each, Missing)}) == 2:
                yield first, second


def _has_address(device: DeviceView) -> bool:
    """Whether a GID of a global address is in its table; InfiniBand needs none."""
    from rdmadiag.facts.gid import Scope
    from rdmadiag.view.reconcile import Protocol

    port = device.ports[0]
    if port.protocol is not Protocol.ROCE:
        return True
    return any(entry.scope is not Scope.LINK_LOCAL for entry in port.entries)


def _identity(device: DeviceView) -> Iterator[Proof]:
    own = device.sysfs
    if own:
        folder = f"/sys/class/infiniband/{device.name}"
        yield Proof("sysfs", f"{folder}/sys_image_guid", seen(own.sys_image_guid))
        yield Proof("sysfs", f"{folder}/board_id", seen(own.board_id))


RULES: Final[tuple[Rule, ...]] = (gpu_nic_map, env_names_far_nic, same_port_twice)
