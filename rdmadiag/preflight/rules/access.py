"""Whether this process could use a device: node, libraries, locked memory."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rdmadiag.facts import DeviceNode, Limit, Missing, Why, present
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.rdma_drivers import PROVIDER_FOLDER, provider_of
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.access import (
    MEMLOCK_WARN,
    Library,
    Memlock,
    carries,
    has_stale_node,
    ignores_memlock,
    is_unnamed,
    library,
    memlock,
    named,
    node_access,
    node_number,
    unloadable,
)
from rdmadiag.view.reconcile import DeviceView

if TYPE_CHECKING:
    from rdmadiag.facts.system import Ancestor, SystemFacts


_PASS_NODE: Final = (
    "docker run --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1 IMAGE",
    "# Kubernetes: request the RDMA device plugin's resource in the pod's limits",
)
_MAKE_NODE: Final = ("sudo udevadm trigger --action=add --subsystem-match=infiniband_verbs",)
_INSTALL: Final = (
    "sudo apt-get install -y libibverbs1 ibverbs-providers   # Debian, Ubuntu",
    "sudo dnf install -y libibverbs   # Fedora, RHEL and relatives",
)


def _is_container(evidence: Evidence) -> bool:
    return not isinstance(evidence.process, Missing) and evidence.process.container is not None


@rule(
    "uverbs-node-missing",
    Severity.CRITICAL,
    "No character device",
    "The kernel has the device, and /dev/infiniband has no node for it. libibverbs then drops "
    'the device without a word, and programs say "No IB devices found".',
    (
        "https://github.com/kvcache-ai/Mooncake/issues/102",
        "https://github.com/Mellanox/k8s-rdma-shared-dev-plugin/issues/169",
    ),
    remedy={
        "in a container": _PASS_NODE,
        "where ib_uverbs does not serve the device": ("sudo modprobe ib_uverbs",),
        "elsewhere": _MAKE_NODE,
    },
    needs=("devices", "device node"),
)
def uverbs_node_missing(this: Rule, case: Case) -> Iterator[Finding]:
    for device in case.devices:
        access = node_access(device, case.evidence)
        if isinstance(access, Missing) or access.node is not None:
            continue
        name = access.name or "uverbsN"
        yield this.finding(
            f"{device.name}: /dev/infiniband/{name} does not exist; verbs programs will not see "
            "the device",
            device=device.name,
            evidence=[
                Proof("process", "/dev/infiniband", _listed(case.evidence)),
                _character_device(device, case.evidence),
            ],
            when="in a container"
            if _is_container(case.evidence)
            else "elsewhere"
            if access.name
            else "where ib_uverbs does not serve the device",
        )


def _character_device(device: DeviceView, evidence: Evidence) -> Proof:
    """By which witness the device has one, or has none."""
    value = f"{device.uverbs} is {device.name}" if device.uverbs else f"none is {device.name}"
    if isinstance(evidence.sysfs, Missing):
        return Proof("nldev", f"RDMA_NLDEV_CMD_GET_CHARDEV of {device.name}", value)
    return Proof("sysfs", "/sys/class/infiniband_verbs/*/ibdev", value)


def _listed(evidence: Evidence) -> str:
    assert not isinstance(evidence.process, Missing)
    nodes = evidence.process.nodes
    return seen(nodes) if isinstance(nodes, Missing) else " ".join(n.name for n in nodes) or "empty"


@rule(
    "uverbs-node-not-openable",
    Severity.CRITICAL,
    "Character device not openable",
    "The node is there, and its mode or owner keeps this user from opening it: "
    'programs say "Failed to open device".',
    ("https://github.com/linux-rdma/rdma-core/blob/master/Documentation/udev.md",),
    remedy={
        "where its mode forbids it": (
            "ls -l /dev/infiniband/{node:uverbsN}",
            (
                "sudo chmod 0666 /dev/infiniband/{node:uverbsN}"
                "   # the mode that the kernel asks udev for"
            ),
        ),
        "where its mode allows it": (
            "findmnt -T /dev/infiniband/{node:uverbsN}   # mounted nodev or read-only?",
            "docker run --device=/dev/infiniband IMAGE   # in a container: devices are passed in",
        ),
    },
    needs=("devices", "device node", "device node's access"),
)
def uverbs_node_not_openable(this: Rule, case: Case) -> Iterator[Finding]:
    """By access(2)."""
    for device in case.devices:
        access = node_access(device, case.evidence)
        if isinstance(access, Missing) or access.node is None or access.node.openable is not False:
            continue
        node = access.node
        path = f"/dev/infiniband/{node.name}"
        yield this.finding(
            f"{device.name}: this user may not open {path} ({node.mode})",
            device=device.name,
            evidence=[Proof("process", path, _owner(node))],
            when="where its mode allows it"
            if node.mode.endswith("rw-")
            else "where its mode forbids it",
            fill={"node": node.name},
        )


@rule(
    "uverbs-node-stale",
    Severity.CRITICAL,
    "Character device of another number",
    "The node has the right name, and its number is not the one that the kernel gave the device: "
    "a node that was made by hand or passed into a container before a driver was reloaded or the "
    "host restarted. Opening it fails, or opens another device.",
    ("https://github.com/Mellanox/k8s-rdma-shared-dev-plugin/issues/169",),
    remedy={"in a container": _PASS_NODE, "elsewhere": _MAKE_NODE},
    needs=("devices", "device node", "device node's number"),
)
def uverbs_node_stale(this: Rule, case: Case) -> Iterator[Finding]:
    """By the number of the node that has the device's name."""
    for device in case.devices:
        if not has_stale_node(device, case.evidence):
            continue
        access = node_access(device, case.evidence)
        expected = node_number(device, case.evidence)
        assert not isinstance(access, Missing)
        assert access.node
        path = f"/dev/infiniband/{access.node.name}"
        yield this.finding(
            f"{device.name}: {path} is {seen(access.node.dev)}, and the device is {expected}",
            device=device.name,
            evidence=[
                Proof("process", path, seen(access.node.dev)),
                _number(device, case.evidence, access.node, expected),
            ],
            when="in a container" if _is_container(case.evidence) else "elsewhere",
        )


def _number(
    device: DeviceView, evidence: Evidence, node: DeviceNode, expected: str | Missing
) -> Proof:
    if isinstance(evidence.sysfs, Missing):
        return Proof("nldev", f"RDMA_NLDEV_ATTR_CHARDEV of {device.name}", seen(expected))
    return Proof("sysfs", f"/sys/class/infiniband_verbs/{node.name}/dev", seen(expected))


def _owner(node: DeviceNode) -> str:
    return f"{node.mode} uid {node.uid} gid {node.gid}"


@rule(
    "verbs-library-missing",
    Severity.CRITICAL,
    "libibverbs not found",
    "libibverbs.so.1 is in none of the folders that the dynamic linker searches, or what is there "
    "cannot be loaded: an empty file, another machine's, one that needs a library which is not "
    "there. Of what cannot be loaded the status is unknown. NCCL and others then fall back to TCP "
    "without an error. A program that brings its own copy is not concerned.",
    ("https://github.com/vllm-project/vllm/issues/42075",),
    remedy=_INSTALL,
    needs=("devices", "libraries"),
)
def verbs_library_missing(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding for the host."""
    if any(library(device, case.evidence) is Library.NO_LIBIBVERBS for device in case.devices):
        yield this.finding(
            "libibverbs.so.1 is not installed where the dynamic linker looks",
            evidence=[_searched(case.evidence)],
        )
        return
    why = unloadable(case.evidence)
    if case.devices and why and _has_libibverbs(case.evidence):
        yield this.finding(
            f"libibverbs.so.1 is there and cannot be loaded: {why}",
            # By the linker alone: it fails for want of memory, too.
            severity=Severity.UNKNOWN,
            evidence=[
                Proof("verbs", "dynamic linker", f"{Why.ABSENT}: {why}"),
                _searched(case.evidence),
            ],
        )


def _has_libibverbs(evidence: Evidence) -> bool:
    process = evidence.process
    found = process if isinstance(process, Missing) else process.library
    return not isinstance(found, Missing) and bool(found.libibverbs)


def _searched(evidence: Evidence) -> Proof:
    assert not isinstance(evidence.process, Missing)
    found = evidence.process.library
    assert not isinstance(found, Missing)
    return Proof("process", "folders of the dynamic linker", " ".join(found.searched))


@rule(
    "provider-library-missing",
    Severity.CRITICAL,
    "Provider library not found",
    "libibverbs is there, and the provider library for this device's driver is not: "
    "libibverbs drops the device silently.",
    ("https://github.com/linux-rdma/rdma-core/blob/master/Documentation/libibverbs.md",),
    remedy=_INSTALL,
    needs=("devices", "libraries"),
)
def provider_library_missing(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a device."""
    for device in case.devices:
        if library(device, case.evidence) is not Library.NO_PROVIDER:
            continue
        name = provider_of(device.provider or "")
        yield this.finding(
            f"{device.name}: no provider library lib{name}-rdmav*.so for it",
            device=device.name,
            evidence=[Proof("process", "libibverbs providers", _providers(case.evidence, device))],
        )


def _providers(evidence: Evidence, device: DeviceView) -> str:
    assert not isinstance(evidence.process, Missing)
    found = evidence.process.library
    assert not isinstance(found, Missing)
    return " ".join(found.providers) or f"none; {device.name} needs one"


@rule(
    "provider-not-named",
    Severity.CRITICAL,
    "Nothing has libibverbs load a provider",
    "The provider library for this device's driver is there, and libibverbs does not load what it "
    "merely finds: a file of /etc/libibverbs.d has to name it, or RDMAV_DRIVERS. It drops the "
    "device silently. An image into which the libraries were copied, and not that folder, is so.",
    ("https://github.com/linux-rdma/rdma-core/blob/master/libibverbs/dynamic_driver.c",),
    remedy=(
        "export RDMAV_DRIVERS={provider}   # for one program",
        "echo 'driver {provider}' | sudo tee /etc/libibverbs.d/{provider}.driver",
        "IBV_SHOW_WARNINGS=1 ibv_devices",
    ),
    needs=("devices", "libraries", "names of providers to load", "environment", "provider"),
)
def provider_not_named(this: Rule, case: Case) -> Iterator[Finding]:
    """Of devices that libibverbs does not list, and whose library is there."""
    for device in case.devices:
        if not is_unnamed(device, case.evidence):
            continue
        name = provider_of(device.provider or "")
        yield this.finding(
            f"{device.name}: lib{name}-rdmav*.so is there, and nothing has libibverbs load it",
            device=device.name,
            evidence=[
                Proof("process", "libibverbs providers", _providers(case.evidence, device)),
                Proof("process", PROVIDER_FOLDER, named(device, case.evidence).by),
            ],
            fill={"provider": name},
        )


@rule(
    "memlock-too-low",
    Severity.WARN,
    "Locked-memory limit too low",
    "Verbs lock what they register. With 64 KiB not even a completion queue can be had "
    "(critical); with 8 MiB, the default of many distributions, registering application "
    "buffers fails with ENOMEM (warn). A process with CAP_IPC_LOCK is exempt, but the programs "
    "that it starts as another user are not: there the finding is one step milder. The process "
    "that this one has the limit from stands in the evidence.",
    (
        "https://github.com/openucx/ucx/issues/8229",
        "https://github.com/NVIDIA/nccl-tests/issues/206",
    ),
    remedy={
        "where it could not be read": ("ulimit -l",),
        "in a container": (
            "ulimit -l {limit:unlimited}",
            "docker run --ulimit memlock=-1 --cap-add=IPC_LOCK IMAGE",
        ),
        "elsewhere": (
            "ulimit -l {limit:unlimited}",
            (
                "echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/rdma.conf"
                "   # log in again"
            ),
            "# a service (slurmd, kubelet, sshd): LimitMEMLOCK=infinity in its unit",
        ),
    },
    needs=("devices", "process", "capabilities"),
)
def memlock_too_low(this: Rule, case: Case) -> Iterator[Finding]:
    """The limit of this process."""
    process = case.evidence.process
    level = memlock(process)
    if not case.devices or isinstance(process, Missing) or level is Memlock.ENOUGH:
        return
    limit = process.memlock
    if isinstance(limit, Missing):
        yield this.finding(
            "the limit on locked memory could not be read",
            severity=Severity.UNKNOWN,
            evidence=[Proof("process", "/proc/self/limits", seen(limit))],
            when="where it could not be read",
        )
        return
    exempt = ignores_memlock(process)
    severity = {
        (Memlock.NONE, False): Severity.CRITICAL,
        (Memlock.NONE, True): Severity.WARN,
        (Memlock.LOW, False): Severity.WARN,
        (Memlock.LOW, True): Severity.INFO,
    }[level, exempt]
    consequence = (
        "cannot create queues" if level is Memlock.NONE else "cannot register large buffers"
    )
    whom = "programs started without CAP_IPC_LOCK" if exempt else "verbs programs"
    yield this.finding(
        f"locked memory is limited to {_kib(limit)}: {whom} {consequence}",
        severity=severity,
        evidence=[
            Proof("process", "/proc/self/limits: Max locked memory", _limits(limit)),
            *_inherited(case.evidence.system, limit),
        ],
        when="in a container" if _is_container(case.evidence) else "elsewhere",
        fill={"limit": _hard_limit(limit)},
    )


def _inherited(system: "SystemFacts | Missing", limit: Limit) -> tuple[Proof, ...]:
    """The highest of the parents that have the same limit, one after the other."""
    origin = None
    if isinstance(system, Missing):
        return ()
    for parent in present(system.ancestors) if system.asked_pid is None else ():
        if isinstance(parent.memlock, Missing) or parent.memlock.soft != limit.soft:
            break
        origin = parent
    return (_of_ancestor(origin),) if origin else ()


def _of_ancestor(ancestor: "Ancestor") -> Proof:
    limit = ancestor.memlock
    shown = seen(limit) if isinstance(limit, Missing) else _limits(limit)
    path = f"/proc/{ancestor.pid}/limits: Max locked memory"
    return Proof("process", path, f"{seen(ancestor.name)}: {shown}")


@rule(
    "launcher-memlock-too-low",
    Severity.WARN,
    "Locked-memory limit of the launcher too low",
    "A job inherits the limit of the daemon that starts it, not that of your shell. With --pid "
    "the process of that number is looked at: 64 KiB are critical, up to 64 MiB a warning, as "
    "for this process itself. Without it the parents of this process are, up to but without "
    "init; one with a low limit is a note, since this process, which descends from it, was "
    "given more: whether jobs are too depends on how they are started.",
    (
        "https://github.com/openucx/ucx/issues/7930",
        "https://github.com/open-mpi/ompi/issues/12345",
    ),
    remedy={
        "": (
            "systemctl status {pid}   # which unit is it of?",
            "sudo systemctl edit UNIT   # [Service] LimitMEMLOCK=infinity, then restart it",
            "sudo prlimit --pid {pid} --memlock=unlimited:unlimited   # until it restarts",
        ),
        "where it could not be read": ("sudo grep 'Max locked memory' /proc/{pid}/limits",),
    },
    needs=("devices", "parent processes", "locked-memory limit"),
)
def launcher_memlock_too_low(this: Rule, case: Case) -> Iterator[Finding]:
    """The limit of the process of --pid, else of this one's parents."""
    system = case.evidence.system
    if not case.devices or isinstance(system, Missing):
        return
    chain = tuple(present(system.ancestors))
    if system.asked_pid is not None:
        for named in chain[:1]:
            yield from _of_pid(this, named)
        return
    low = [
        each
        for each in chain
        if each.pid != 1 and carries(each.memlock) in (Memlock.LOW, Memlock.NONE)
    ]
    if not low or memlock(case.evidence.process) is not Memlock.ENOUGH:
        return  # where this process's own limit is low, that is said
    nearest = low[0]
    assert not isinstance(nearest.memlock, Missing)
    yield this.finding(
        f"{_named(nearest)}, above this process, is limited to {_kib(nearest.memlock)} of locked "
        "memory; jobs that it starts may be too",
        severity=Severity.INFO,
        evidence=[_of_ancestor(each) for each in low],
        fill={"pid": nearest.pid},
    )


def _of_pid(this: Rule, named: "Ancestor") -> Iterator[Finding]:
    level = carries(named.memlock)
    if level is Memlock.ENOUGH:
        return
    if isinstance(named.memlock, Missing):
        yield this.finding(
            f"the limit on locked memory of process {named.pid} could not be read",
            severity=Severity.UNKNOWN,
            evidence=[_of_ancestor(named)],
            when="where it could not be read",
            fill={"pid": named.pid},
        )
        return
    none = level is Memlock.NONE
    consequence = "cannot create queues" if none else "cannot register large buffers"
    yield this.finding(
        f"{_named(named)} is limited to {_kib(named.memlock)} of locked memory: what it starts "
        f"inherits that, and {consequence}",
        severity=Severity.CRITICAL if none else Severity.WARN,
        evidence=[_of_ancestor(named)],
        fill={"pid": named.pid},
    )


def _named(ancestor: "Ancestor") -> str:
    name = "process" if isinstance(ancestor.name, Missing) else ancestor.name
    return f"{name} ({ancestor.pid})"


def _hard_limit(limit: Limit) -> int | str | tuple[()]:
    """What `ulimit -l` can raise it to, in KiB; nothing where that is too low as well."""
    if limit.hard == "unlimited":
        return limit.hard
    return limit.hard // 1024 if limit.hard >= MEMLOCK_WARN else ()


def _limits(limit: Limit) -> str:
    return f"soft {limit.soft}, hard {limit.hard}"


def _kib(limit: Limit) -> str:
    return f"{int(limit.soft) // 1024} KiB"


RULES: Final[tuple[Rule, ...]] = (
    uverbs_node_missing,
    uverbs_node_stale,
    uverbs_node_not_openable,
    verbs_library_missing,
    provider_library_missing,
    provider_not_named,
    memlock_too_low,
    launcher_memlock_too_low,
)
