"""How the verbs library answered about each device."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.explain.remedies import RDMA_CGROUP
from rdmadiag.facts import Missing, known, present
from rdmadiag.facts.verbs import Unanswered, VerbsFacts
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.access import (
    Library,
    Provider,
    has_stale_node,
    is_unnamed,
    library,
    node_access,
    provider,
)
from rdmadiag.view.cabling import cabling
from rdmadiag.view.reconcile import DeviceView, Protocol


def _unlisted(case: Case) -> tuple[DeviceView, ...]:
    """The devices that the library looked for and does not list."""
    return tuple(
        device for device in case.devices if provider(device, case.evidence) is Provider.NOT_LISTED
    )


def _call(stopped: Unanswered) -> str:
    where = f" of {stopped.device}" if stopped.device else ""
    return f"{stopped.call}{where}"


def _stopped(case: Case, kind: Provider) -> Unanswered | None:
    """The call that ended the query, if it did so in this way."""
    verbs = known(case.evidence.verbs)
    if verbs is None or verbs.unanswered is None:
        return None
    # Without a device it has stopped before it named one.
    concerned = any(provider(each, case.evidence) is kind for each in case.devices or (None,))
    return verbs.unanswered if concerned else None


@rule(
    "provider-wedged",
    Severity.CRITICAL,
    "The provider hangs",
    "A call that takes milliseconds did not return, and the child that made it was killed. On a "
    "Mac this is the sign of a wedged driver, for which only a replug or a reboot has helped; "
    "each further program that opens the device hangs too. On Linux the driver or the firmware "
    "does not answer.",
    (
        "https://github.com/exo-explore/exo/issues/1711",
        "https://github.com/exo-explore/exo/issues/1973",
    ),
    remedy={
        "on Linux": (
            "cat /proc/{pid}/stack   # as root, while that process is still there",
            "sudo dmesg | tail -50",
        ),
        "on a Mac": (
            "# start no other RDMA program: it would hang too, and make it worse",
            "# unplug the cable, wait ten seconds, plug it in; then look once:",
            "rdmadiag preflight",
            "sudo shutdown -r now   # if it still hangs; nothing less has helped",
        ),
        "on a Mac where a bridge holds the port": (
            "# start no other RDMA program: it would hang too, and make it worse",
            "# no replug while {bridge} holds the port: that wedges it too",
            "sudo shutdown -r now",
        ),
    },
    needs=("verbs",),
)
def provider_wedged(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding for the query."""
    stopped = _stopped(case, Provider.WEDGED)
    if stopped is None:
        return
    cables = (cabling(device.name, case.evidence) for device in case.devices)
    bridges = sorted({cable.bridge for cable in cables if cable.bridge})
    left = "; it cannot be killed" if stopped.unkillable else ""
    yield this.finding(
        f"the RDMA provider hangs: {_call(stopped)} did not return in {stopped.seconds:.0f} s",
        device=stopped.device,
        port=stopped.port,
        evidence=[
            Proof("verbs", _call(stopped), f"{stopped.end}, process {stopped.pid}{left}"),
        ],
        when="on Linux"
        if not _on_mac(case)
        else "on a Mac where a bridge holds the port"
        if bridges
        else "on a Mac",
        fill={"pid": stopped.pid, "bridge": min(bridges, default="")},
    )


def _on_mac(case: Case) -> bool:
    verbs = known(case.evidence.verbs)
    return verbs is not None and verbs.platform == "darwin"


@rule(
    "provider-died",
    Severity.CRITICAL,
    "The provider crashes",
    "The process that called the verbs library was ended inside one of its calls. A program of "
    "yours would have been ended there too.",
    ("https://github.com/ml-explore/mlx/issues/4485",),
    remedy=("ibv_devinfo   # does it crash as well?",),
    needs=("verbs",),
)
def provider_died(this: Rule, case: Case) -> Iterator[Finding]:
    """A signal, or an exit in the middle of a call."""
    stopped = _stopped(case, Provider.DIED)
    if stopped is None:
        return
    verbs = known(case.evidence.verbs)
    said = verbs.warnings[-1] if verbs and verbs.warnings else ""
    yield this.finding(
        f"the RDMA provider crashes: {_call(stopped)} {stopped.end}",
        device=stopped.device,
        port=stopped.port,
        evidence=[Proof("verbs", _call(stopped), f"{stopped.end} {said}".strip())],
    )


@rule(
    "provider-late",
    Severity.UNKNOWN,
    "The verbs query was not finished",
    "The deadline came while calls were still being answered: a slow or busy host, or many "
    "devices. What was not queried is unknown.",
    remedy=("rdmadiag preflight   # the default time distinguishes a slow call from a hang",),
    needs=("verbs",),
)
def provider_late(this: Rule, case: Case) -> Iterator[Finding]:
    """Killed before the call had run for long enough to count as hung."""
    stopped = _stopped(case, Provider.LATE)
    if stopped is None:
        return
    yield this.finding(
        f"the verbs query was cut off in {_call(stopped)}: the rest was not queried",
        evidence=[Proof("verbs", _call(stopped), f"{stopped.end} after {stopped.seconds:.1f} s")],
    )


@rule(
    "device-open-failed",
    Severity.CRITICAL,
    "Device cannot be opened",
    "ibv_open_device failed: every verbs program will say so of this device. EAGAIN is what a "
    "full rdma cgroup gives (rdma.max: in a container or a job, as its limits are), and mlx5 "
    "while the device is being reset.",
    remedy={
        "where the rdma cgroup may be full": (RDMA_CGROUP, "ibv_devinfo -d {device}"),
        "elsewhere": ("ibv_devinfo -d {device}",),
    },
    needs=("devices", "provider"),
)
def device_open_failed(this: Rule, case: Case) -> Iterator[Finding]:
    """Where the node's mode does not explain it already."""
    verbs = known(case.evidence.verbs)
    for device in case.devices:
        if verbs is None or provider(device, case.evidence) is not Provider.REFUSED:
            continue
        access = node_access(device, case.evidence)
        if not isinstance(access, Missing) and (
            access.node is None or access.node.openable is False
        ):
            continue
        if has_stale_node(device, case.evidence):
            continue
        failure = next(each for each in verbs.failures if each.device == device.name)
        full = (verbs.platform, failure.name) == ("linux", "EAGAIN")
        cause = ": the rdma cgroup is full, or the device is being reset" if full else ""
        yield this.finding(
            f"{device.name}: ibv_open_device failed with {failure.name} ({failure.errno}){cause}",
            device=device.name,
            evidence=[
                Proof("verbs", f"ibv_open_device {device.name}", f"{failure.errno} {failure.name}"),
                *_warnings(verbs),
            ],
            when="where the rdma cgroup may be full" if full else "elsewhere",
        )


_VERSIONS: Final = (
    "cat /sys/class/infiniband_verbs/{node:uverbsN}/abi_version; "
    "dpkg -l ibverbs-providers || rpm -q libibverbs"
)


@rule(
    "driver-abi-mismatch",
    Severity.CRITICAL,
    "Provider library and kernel driver do not fit",
    "libibverbs found the provider library of a device, and the library does not support the ABI "
    "of the driver that the kernel runs: it drops the device, and programs say that there is "
    "none, or fall back to TCP. It happens where a container brings its own rdma-core and the "
    "host has a vendor's driver, newer or older. The kernel cannot change inside a container, "
    "so the library has to.",
    (
        "https://github.com/k8snetworkplumbingwg/sriov-cni/issues/348",
        "https://github.com/sgl-project/sglang/issues/16242",
        "https://github.com/vllm-project/vllm/issues/42750",
    ),
    remedy={
        "in a container": (
            _VERSIONS,
            "# an image whose rdma-core comes from the vendor of the host's driver",
        ),
        "elsewhere": (
            _VERSIONS,
            "# the rdma-core that came with the driver, or the kernel's own driver",
        ),
    },
    needs=("devices", "provider"),
)
def driver_abi_mismatch(this: Rule, case: Case) -> Iterator[Finding]:
    """By the line that libibverbs writes on stderr."""
    if not _unlisted(case):
        return
    from rdmadiag.view.discovery_path import abi_refusal

    container = (
        None if isinstance(case.evidence.process, Missing) else case.evidence.process.container
    )
    for device in case.devices:
        refusal = abi_refusal(device, case.evidence)
        if refusal is None:
            continue
        supported = (
            f"{refusal.low}" if refusal.low == refusal.high else f"{refusal.low} to {refusal.high}"
        )
        yield this.finding(
            f"{device.name}: the kernel's driver has ABI {refusal.abi}, and the provider library "
            f"{refusal.driver} supports {supported}",
            device=device.name,
            evidence=[Proof("verbs", "stderr", refusal.line)],
            when="in a container" if container else "elsewhere",
            fill={"node": device.uverbs or "uverbsN"},
        )


@rule(
    "device-not-in-verbs",
    Severity.CRITICAL,
    "The verbs library does not list a device",
    "The kernel has the device, its node is there, and libibverbs does not show it, though its "
    "provider library is installed. Every step that could be looked at, from the kernel's list "
    "to libibverbs's, stands in `rdmadiag devices --json`; what the library wrote on stderr "
    "stands in the evidence. It may be that the provider does not know this model, or that a "
    "library of another version was found first.",
    ("https://github.com/k8snetworkplumbingwg/sriov-cni/issues/348",),
    remedy={
        "on Linux": (
            "ibv_devices   # what it writes on stderr names the reason",
            "dpkg -l ibverbs-providers || rpm -q libibverbs   # as new as the kernel?",
        ),
        "on a Mac": ("ibv_devices", "rdma_ctl status"),
    },
    needs=("devices", "provider", "device node", "libraries", "nldev"),
)
def device_not_in_verbs(this: Rule, case: Case) -> Iterator[Finding]:
    """Only what no other rule explains."""
    verbs = known(case.evidence.verbs)
    unlisted = _unlisted(case)
    if verbs is None or not unlisted:
        return
    from rdmadiag.view.discovery_path import Stage, abi_refusal, walk

    for device in unlisted:
        access = node_access(device, case.evidence)
        registered = verbs.platform == "darwin"  # it is the registry that names it
        node = None if isinstance(access, Missing) else access.node
        if not registered and (device.nldev is None or node is None):
            continue  # no node, or another namespace's: rules of their own
        if library(device, case.evidence) in (Library.NO_LIBIBVERBS, Library.NO_PROVIDER):
            continue
        if abi_refusal(device, case.evidence) or is_unnamed(device, case.evidence):
            continue
        path = None if registered else walk(device, case.evidence)
        step = path.failure if path else None
        listed = " ".join(each.name for each in verbs.devices) or "none"
        failed = [
            Proof("verbs", each.call, f"{each.errno} {each.name}")
            for each in verbs.failures
            if each.device is None
        ]
        yield this.finding(
            f"{device.name}: the kernel has it and {verbs.library} does not list it"
            + (
                f"; fails at {step.subject}: {step.value}"
                if step and step.passed is False and step.stage is not Stage.LISTED
                else ""
            ),
            device=device.name,
            evidence=[Proof("verbs", "ibv_get_device_list", listed), *failed, *_warnings(verbs)],
            when="on a Mac" if registered else "on Linux",
        )


def _warnings(verbs: VerbsFacts) -> tuple[Proof, ...]:
    return tuple(Proof("verbs", "stderr", line) for line in verbs.warnings[:3])


@rule(
    "ports-not-shown",
    Severity.UNKNOWN,
    "A device shows fewer ports than it has",
    "The verbs library opened the device and showed none of its ports, or fewer than the device "
    "says it has. Where sysfs shows them, nothing is said.",
    remedy=("ibv_devinfo -d {device}",),
    needs=("provider",),
)
def ports_not_shown(this: Rule, case: Case) -> Iterator[Finding]:
    """For devices that verbs alone can show."""
    for device in case.devices:
        verbs = device.verbs
        if device.sysfs or verbs is None:
            continue
        if provider(device, case.evidence) is not Provider.ANSWERS:
            continue
        shown = len(tuple(present(verbs.ports)))
        count = 1 if isinstance(verbs.port_count, Missing) else verbs.port_count
        if shown < max(1, count):
            yield this.finding(
                f"{device.name}: {shown} of {max(1, count)} ports are shown",
                device=device.name,
                evidence=[
                    Proof("verbs", f"ibv_query_device {device.name}: phys_port_cnt", str(count))
                ],
            )


@rule(
    "verbs-call-failed",
    Severity.UNKNOWN,
    "A question to the verbs library failed",
    "The device was opened, and a read-only call about it failed: what it would have shown is "
    "unknown.",
    remedy=("ibv_devinfo -v -d {device}",),
    needs=("provider",),
)
def verbs_call_failed(this: Rule, case: Case) -> Iterator[Finding]:
    """Queries alone; opening has its own rule."""
    verbs = known(case.evidence.verbs)
    names = {device.name for device in case.devices}
    for failure in verbs.failures if verbs else ():
        if failure.device not in names or failure.call == "ibv_open_device":
            continue
        port = f"/{failure.port}" if failure.port else ""
        yield this.finding(
            f"{failure.device}{port}: {failure.call} failed with {failure.name} ({failure.errno})",
            device=failure.device,
            port=failure.port,
            evidence=[
                Proof(
                    "verbs", f"{failure.call} {failure.device}", f"{failure.errno} {failure.name}"
                )
            ],
        )


@rule(
    "few-memory-regions",
    Severity.INFO,
    "Few memory regions",
    "A Thunderbolt device allows about a hundred memory regions; the next registration returns "
    "NULL. Register few, large buffers.",
    ("https://github.com/ml-explore/mlx/issues/3162",),
    needs=("ports", "provider"),
)
def few_memory_regions(this: Rule, case: Case) -> Iterator[Finding]:
    """Of devices with an active Thunderbolt port."""
    for device in case.devices:
        usable = any(
            port.protocol is Protocol.THUNDERBOLT and port.is_active for port in device.ports
        )
        if device.verbs is None or isinstance(device.verbs.limits, Missing) or not usable:
            continue
        limits = device.verbs.limits
        if not 0 < limits.max_mr <= _FEW:
            continue
        yield this.finding(
            f"{device.name} allows {limits.max_mr} memory regions and {limits.max_qp} queue pairs",
            device=device.name,
            evidence=[
                Proof("verbs", f"ibv_query_device {device.name}: max_mr", seen(limits.max_mr))
            ],
        )


_FEW: Final = 256

RULES: Final[tuple[Rule, ...]] = (
    provider_wedged,
    provider_died,
    provider_late,
    device_open_failed,
    driver_abi_mismatch,
    device_not_in_verbs,
    ports_not_shown,
    verbs_call_failed,
    few_memory_regions,
)
