"""Variables of this process's environment that name what is not there, or not fit."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from rdmadiag.facts import GidEntry, Missing, present
from rdmadiag.facts.gid import Scope
from rdmadiag.facts.ib import is_device_name
from rdmadiag.gid.device_lists import Choice
from rdmadiag.gid.gid_index import lenient_index
from rdmadiag.gid.misspelt import meant
from rdmadiag.gid.route import Route
from rdmadiag.gid.variables import BY_NAME, DEVICE_LISTS, RDMA_OFF, Variable, choice, set_indexes
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import port_attribute
from rdmadiag.preflight.remedy import Verbatim
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.reconcile import PortView, Protocol


def _environment(case: Case) -> Mapping[str, str]:
    process = case.evidence.process
    if isinstance(process, Missing) or isinstance(process.environment, Missing):
        return {}
    return process.environment


def _proof(variable: str, value: str) -> Proof:
    return Proof("process", f"environment: {variable}", value)


@rule(
    "env-names-absent-device",
    Severity.WARN,
    "A variable names a device that is not there",
    "A variable of the environment names RDMA devices or ports that this host does not have: it "
    "was written for another host, or the devices were renamed (mlx5_0 became rocep8s0f0 with "
    "another rdma-core or kernel). Critical where it chooses devices and none of those named is "
    "there: the program finds no device, and some then use TCP without an error. A note where "
    "the list only excludes.",
    (
        "https://github.com/linux-rdma/rdma-core/issues/487",
        "https://github.com/NVIDIA/nccl/issues/1412",
    ),
    remedy=(
        "rdma link",
        "export {variable:NCCL_IB_HCA}={devices:'=DEVICE,DEVICE'}   # those that are active here",
    ),
    needs=("every port", "environment", "netdevs of this namespace"),
)
def env_names_absent_device(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a variable. Not with --device, which hides the other devices."""
    environment = _environment(case)
    if case.selected or not case.devices:
        return
    ports = [(port.device, port.number) for _, port in case.ports]
    process = case.evidence.process
    netdevs = () if isinstance(process, Missing) else tuple(present(process.netdevs))
    for row in DEVICE_LISTS:
        variable = row.name
        chosen = choice(environment, variable)
        if chosen is None or (chosen.takes_netdevs and not netdevs):
            continue
        absent = chosen.unmatched(ports, netdevs)
        if not absent:
            continue
        none = len(absent) == len(chosen.parts)
        severity = Severity.CRITICAL if none else Severity.WARN
        if chosen.excludes:
            severity = Severity.INFO
        names = " ".join(map(str, absent))
        yield this.finding(
            f"{variable}={chosen.value}: nothing that it names is there"
            if severity is Severity.CRITICAL
            else f"{variable} {'excludes' if chosen.excludes else 'names'} {names}: not there",
            severity=severity,
            evidence=[
                _proof(variable, chosen.value),
                Proof("sysfs", "/sys/class/infiniband", " ".join(d.name for d in case.devices)),
            ],
            fill={"variable": row.name, "devices": _active_devices(row, chosen, case)},
        )


def _active_devices(row: Variable, chosen: Choice, case: Case) -> str:
    """The active ports in the variable's own form."""
    with_port = chosen.takes_netdevs
    names = [
        f"{port.device}:{port.number}" if with_port else port.device
        for _, port in case.ports
        if port.is_active and is_device_name(port.device)
    ]
    return row.exact_sign + (",".join(dict.fromkeys(names)) or "DEVICE")


@rule(
    "env-turns-rdma-off",
    Severity.WARN,
    "A variable keeps a stack from RDMA",
    "A port is active here, and a variable of the environment keeps the stack that reads it from "
    "using any: it names TCP alone (NCCL_NET=Socket, UCX_TLS, FI_PROVIDER), it says no "
    "(NCCL_IB_DISABLE, MC_FORCE_TCP), or its list of devices leaves out every active port, as "
    "UCX_NET_DEVICES=eth0 does. The stack then uses TCP, mostly without a word, or fails to "
    "connect. A note where the value has a name that is not known here. Meant so in a test, and "
    "often left over from one.",
    (
        "https://github.com/NVIDIA/nccl/issues/958",
        "https://github.com/ai-dynamo/nixl/issues/909",
        "https://github.com/openucx/ucx/issues/9908",
    ),
    remedy=(
        "unset {variable:NCCL_IB_DISABLE}",
        "export {list:UCX_NET_DEVICES}={devices:'mlx5_0:1'}   # or those that are active here",
    ),
    needs=("every port", "port state", "environment", "netdevs of this namespace"),
)
def env_turns_rdma_off(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a variable; of lists of devices not with --device, which hides the others."""
    environment = _environment(case)
    active = [port for _, port in case.ports if port.is_active]
    if not active:
        return
    proofs = [port_attribute(port, "state", port.state) for port in active[:2]]
    where = active[0].name if len(active) == 1 else f"{len(active)} ports"
    be = "is" if len(active) == 1 else "are"
    for row in RDMA_OFF:
        value = environment.get(row.name)
        off = row.rdma_off(value) if row.rdma_off and value is not None else None
        if off and value is not None:
            yield this.finding(
                f"{row.name}={value}: {off.words}; {where} {be} active, and {row.stack} uses none",
                severity=None if off.certain else Severity.INFO,
                evidence=[_proof(row.name, value), *proofs],
                fill={"variable": row.name, "list": (), "devices": ()},
            )
    for row in () if case.selected else DEVICE_LISTS:
        chosen = choice(environment, row.name)
        words = chosen and _leaves_out(chosen, case, active)
        if chosen and words:
            yield this.finding(
                f"{row.name}={chosen.value}: {words}; {row.stack} uses none of the active ports",
                evidence=[_proof(row.name, chosen.value), *proofs],
                fill={
                    "variable": row.name,
                    "list": (row.name,),
                    "devices": _active_devices(row, chosen, case),
                },
            )


def _leaves_out(chosen: Choice, case: Case, active: list[PortView]) -> str | None:
    """How the list does so; None where it does not, or where nothing that it names is there."""
    if any(chosen.has(port.device, port.number) for port in active):
        return None
    if chosen.excludes:
        return "leaves out every active port"
    ports = [(port.device, port.number) for _, port in case.ports]
    process = case.evidence.process
    netdevs = () if isinstance(process, Missing) else tuple(present(process.netdevs))
    if not chosen.unmatched(ports, ()):
        return "names no active port"
    if len(chosen.unmatched(ports, netdevs)) == len(chosen.parts):
        return None
    return "names netdevs alone" if chosen.takes_netdevs else "names no active port"


_NCCL: Final = BY_NAME["NCCL_IB_GID_INDEX"]


@rule(
    "env-gid-index",
    Severity.WARN,
    "A variable names a GID that is not fit",
    "A variable of the environment sets the GID index, and on a port that the program would use "
    "that row is empty or beyond the table (critical: RTR fails, or the peer does not answer), "
    "RoCE v1, or link-local, while a better one is there. Indexes differ between hosts and "
    "adapters, and move when addresses do.",
    (
        "https://github.com/NVIDIA/nccl/issues/1131",
        "https://github.com/NVIDIA/nccl/issues/1333",
        "https://github.com/pytorch/pytorch/issues/81628",
    ),
    remedy=(
        f"unset {{unset:{_NCCL.name}}}   # {{then:{_NCCL.unset}}}",
        "export {variable:NCCL_IB_GID_INDEX}={index}",
        "rdmadiag gids",
    ),
    needs=("ports", "port state", "GID table", "netdevs of GIDs", "environment"),
)
def env_gid_index(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a variable, of RoCE ports alone: InfiniBand routes by LID."""
    environment = _environment(case)
    for row, index in set_indexes(environment):
        chosen = choice(environment, row.ports)
        unfit: dict[_Unfit, list[PortView]] = {}
        for _, port in case.ports:
            if port.protocol is not Protocol.ROCE or not port.is_active:
                continue
            if chosen is None or chosen.has(port.device, port.number):
                reason = _unfit(port, index)
                if reason:
                    unfit.setdefault(reason, []).append(port)
        if not unfit:
            continue
        dead = {_Unfit.EMPTY, _Unfit.BEYOND} & set(unfit)
        listed = "; ".join(
            f"{reason} on {' '.join(port.name for port in ports)}"
            for reason, ports in unfit.items()
        )
        first = next(iter(unfit.values()))[0]
        yield this.finding(
            f"{row.name}={index} is {listed}",
            device=first.device,
            port=first.number,
            severity=Severity.CRITICAL if dead else None,
            evidence=[
                _proof(row.name, environment[row.name]),
                *(_row(port, index) for ports in list(unfit.values())[:2] for port in ports[:2]),
            ],
            fill=_better(row, [port for ports in unfit.values() for port in ports]),
        )


class _Unfit(StrEnum):
    """What is wrong with a row, in the words of the finding."""

    EMPTY = "an empty row"
    BEYOND = "beyond the table"
    ROCE_V1 = "RoCE v1"
    LINK_LOCAL = "link-local"


def _unfit(port: PortView, index: int) -> _Unfit | None:
    """What is wrong with the row; None for nothing, or nothing that is known."""
    if isinstance(port.gids, Missing) or index in port.gids.unreadable:
        return None
    if index >= port.gids.length:
        return _Unfit.BEYOND
    entry = _entry(port, index)
    if entry is None:
        return _Unfit.EMPTY
    better = port.route_entry
    if better is None or better.index == index:
        return None
    if entry.is_v1 and better.is_v2:
        return _Unfit.ROCE_V1
    far = better.scope is not Scope.LINK_LOCAL
    return _Unfit.LINK_LOCAL if entry.scope is Scope.LINK_LOCAL and far else None


def _entry(port: PortView, index: int) -> GidEntry | None:
    assert not isinstance(port.gids, Missing)
    return next((each for each in port.gids.entries if each.index == index), None)


def _row(port: PortView, index: int) -> Proof:
    entry = _entry(port, index)
    return port_attribute(port, f"gids/{index}", entry.gid if entry else "empty")


def _better(row: Variable, ports: list[PortView]) -> dict[str, Any]:
    """An index for all `ports`, and the variable, if its stack chooses well without it."""
    routes = {port.route.index for port in ports if isinstance(port.route, Route)}
    return {
        "unset": row.name if row.unset else (),
        "then": Verbatim(row.unset or ""),
        "variable": row.name,
        "index": tuple(routes) if len(routes) == 1 else (),
    }


_PKEY: Final = BY_NAME["NCCL_IB_PKEY"]


@rule(
    "env-pkey-index",
    Severity.CRITICAL,
    "A variable names a partition key that is not there",
    "NCCL_IB_PKEY is an index into the port's table of partition keys, and that row is empty on "
    "a port that NCCL would use: the queue pair cannot leave RESET.",
    ("https://github.com/NVIDIA/nccl/issues/1323",),
    remedy=("unset NCCL_IB_PKEY", "export NCCL_IB_PKEY={index}"),
    needs=("ports", "port state", "partition keys", "environment"),
)
def env_pkey_index(this: Rule, case: Case) -> Iterator[Finding]:
    """InfiniBand ports that NCCL would use; on RoCE the key at index 0 is always there."""
    environment = _environment(case)
    index = lenient_index(environment.get(_PKEY.name, ""))
    chosen = choice(environment, _PKEY.ports)
    for _, port in case.ports if index is not None else ():
        keys = port.sysfs.pkeys if port.sysfs else None
        if keys is None or isinstance(keys, Missing) or not keys or index in keys:
            continue
        if port.protocol is not Protocol.INFINIBAND or not port.is_active:
            continue
        if chosen is not None and not chosen.has(port.device, port.number):
            continue
        first = min(keys)
        yield this.finding(
            f"{_PKEY.name}={index} is an empty row on {port.name}; the first other is {first}",
            device=port.device,
            port=port.number,
            evidence=[
                _proof("NCCL_IB_PKEY", environment["NCCL_IB_PKEY"]),
                port_attribute(port, f"pkeys/{first}", f"{keys[first]:#06x}"),
            ],
            fill={"index": first},
        )


@rule(
    "env-misspelt",
    Severity.WARN,
    "A variable is perhaps misspelt",
    "The environment sets a name that differs from that of a known variable by one letter or one "
    "underscore, and that no stack is known to read: it is then ignored, mostly without a word, "
    "and the program does what it does without. A variable of a newer release may look so; of "
    "more than 1,100 names in NCCL, NVSHMEM, UCX, libfabric, Mooncake and rdma-core none does.",
    ("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",),
    remedy=('export {meant}="${name}"   # if this was meant', "unset {name}"),
    needs=("environment",),
)
def env_misspelt(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a variable, of those whose names a report carries."""
    for name, value in _environment(case).items():
        known = meant(name)
        if known is None:
            continue
        yield this.finding(
            f"{name} is set, and no such variable is known: did you mean {known}?",
            evidence=[_proof(name, value)],
            fill={"name": name, "meant": known},
        )


RULES: Final[tuple[Rule, ...]] = (
    env_names_absent_device,
    env_turns_rdma_off,
    env_gid_index,
    env_pkey_index,
    env_misspelt,
)
