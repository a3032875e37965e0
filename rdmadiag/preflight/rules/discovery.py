"""Whether there is an RDMA device at all, and which step is missing where there is none."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rdmadiag.facts import Missing, PciFunction, Why, known, present
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import NetnsMode
from rdmadiag.facts.rdma_drivers import ALWAYS_RDMA, RDMA_MODULE_OF_PCI_DRIVER, SOFTWARE_MODULES
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.cabling import (
    RDMA_GBPS,
    SHOW_SPEED,
    TN3205,
    Generation,
    generation,
    is_before_rdma,
)

SHARE_NETNS: Final = (
    "sudo rdma system set netns shared   # refused while other network namespaces exist"
)


@rule(
    "no-rdma-device",
    Severity.UNKNOWN,
    "No RDMA device",
    "Neither sysfs nor nldev shows an RDMA device. The summary names the first step that is "
    "missing: no PCI function whose driver can carry RDMA, the RDMA module not loaded, or a "
    "device that lives in another network namespace. Unknown rather than critical: on a host "
    "that was never meant to have one, this is the expected answer.",
    ("https://github.com/linux-rdma/rdma-core/blob/master/Documentation/libibverbs.md",),
    remedy={
        "where its module is not loaded": ("sudo modprobe {module}", "rdma link"),
        "where it may be in another network namespace": ("sudo nsenter -t 1 -n rdma dev",),
        "where netns mode is exclusive": (
            "rdma system show",
            "sudo nsenter -t {init:1} -n rdma dev",
            SHARE_NETNS,
        ),
        "where its PCI function has no driver": (
            "lspci -k -s {address}",
            "sudo dmesg | grep {address}",
        ),
        "where its driver registered none": ("sudo dmesg | grep -i -e {driver} -e {address}",),
        "where its PCI function has another driver": ("lspci -k -s {address}",),
        "where a software driver has no link": (
            (
                "sudo rdma link add {kind:rxe}0 type {kind:rxe} netdev eth0"
                "   # the netdev of your choice"
            ),
        ),
        "where PCI could not be read": ("lspci -nn",),
        "where no PCI function is known": (
            "lspci -nn | grep -i -e infiniband -e ethernet   # is the adapter seen at all?",
        ),
    },
    needs=("devices",),
)
def no_rdma_device(this: Rule, case: Case) -> Iterator[Finding]:
    """Where no source names a device."""
    evidence = case.evidence
    if case.devices or isinstance(evidence.sysfs, Missing):
        return
    devices = evidence.sysfs.devices
    if isinstance(devices, Missing) and devices.why is not Why.ABSENT:
        return  # "could not look" is another rule's
    step = _missing_step(evidence)
    proofs = [Proof("sysfs", "/sys/class/infiniband", seen(devices) if devices else "empty")]
    proofs += [
        Proof("sysfs", f"/sys/bus/pci/devices/{each.address}", f"driver {seen(each.driver)}")
        for each in present(evidence.sysfs.candidates)
    ]
    if not isinstance(evidence.process, Missing):
        modules = evidence.process.modules
        named = seen(modules) if isinstance(modules, Missing) else " ".join(modules)
        proofs.append(Proof("process", "/proc/modules", named or "no RDMA module"))
    yield this.finding(
        f"no RDMA device: {step.text}",
        evidence=(*proofs, *step.proofs),
        when=step.when,
        fill=step.fill,
        severity=Severity.INFO if _none_is_expected(case) else None,
    )


def _none_is_expected(case: Case) -> bool:
    return any(each.key == "devices" and each.met is True for each in case.expected)


class _Step(NamedTuple):
    """The first missing step from hardware to device."""

    text: str
    when: str  # of the rule's remedies
    fill: Mapping[str, Any] = {}
    proofs: tuple[Proof, ...] = ()


def _missing_step(evidence: Evidence) -> _Step:
    assert not isinstance(evidence.sysfs, Missing)
    candidates = tuple(present(evidence.sysfs.candidates))
    process = evidence.process
    modules = Missing(Why.NOT_COLLECTED) if isinstance(process, Missing) else process.modules
    loaded = frozenset(present(modules))
    elsewhere = _other_namespace(evidence)
    unbound = [each for each in candidates if isinstance(each.driver, Missing)]
    sure = [each for each in candidates if each.driver in ALWAYS_RDMA]
    maybe = [
        each for each in candidates if each.driver in RDMA_MODULE_OF_PCI_DRIVER and each not in sure
    ]
    if elsewhere and _served(evidence):
        return elsewhere
    # What is built into the kernel is not in /proc/modules.
    built_in = not isinstance(evidence.nldev, Missing) and "ib_core" not in loaded
    if not built_in and not isinstance(modules, Missing):
        for function in (*sure, *maybe):
            if RDMA_MODULE_OF_PCI_DRIVER[str(function.driver)] not in loaded:
                return _not_loaded(function, doubted=function in maybe)
    if candidates and elsewhere:
        return elsewhere
    if candidates:
        return _of_function(sure + maybe, unbound, candidates)
    if elsewhere and (elsewhere.proofs or loaded & _DEVICE_MODULES):
        return elsewhere
    if loaded & SOFTWARE_MODULES:
        module = min(loaded & SOFTWARE_MODULES)
        return _Step(
            f"{module} is loaded and no link was added",
            "where a software driver has no link",
            {"kind": module.removeprefix("rdma_")},
        )
    if isinstance(evidence.sysfs.candidates, Missing):
        return _Step("the PCI functions could not be read", "where PCI could not be read")
    return _Step("no PCI function known to an RDMA driver", "where no PCI function is known")


def _of_function(
    served: Sequence[PciFunction], unbound: Sequence[PciFunction], every: Sequence[PciFunction]
) -> _Step:
    """Where there are functions that could carry RDMA: what became of the first of them."""
    for function in unbound:
        return _Step(
            f"PCI {function.address} ({seen(function.vendor)}) has no driver bound",
            "where its PCI function has no driver",
            {"address": function.address},
        )
    for function in served:
        return _Step(
            f"none was registered for PCI {function.address} ({function.driver})",
            "where its driver registered none",
            {"driver": function.driver, "address": function.address},
        )
    function = every[0]
    return _Step(
        f"PCI {function.address} is bound to {function.driver}, not to an RDMA driver",
        "where its PCI function has another driver",
        {"address": function.address},
    )


def _not_loaded(function: PciFunction, *, doubted: bool) -> _Step:
    module = RDMA_MODULE_OF_PCI_DRIVER[str(function.driver)]
    doubt = ", if that function carries RDMA at all" if doubted else ""
    return _Step(
        f"module {module} is not loaded for PCI {function.address} ({function.driver}){doubt}",
        "where its module is not loaded",
        {"module": module},
    )


def _other_namespace(evidence: Evidence) -> _Step | None:
    """Where a device may be instead: only stated when something hints at it.

    In shared mode every namespace sees every device.
    """
    mode = None if isinstance(evidence.nldev, Missing) else evidence.nldev.netns_mode
    process = evidence.process
    initial = Missing(Why.NOT_COLLECTED) if isinstance(process, Missing) else process.initial_netns
    if mode is NetnsMode.EXCLUSIVE:
        proofs = [Proof("nldev", "RDMA_NLDEV_SYS_ATTR_NETNS_MODE", seen(mode))]
        # Of the character devices sysfs shows each namespace all.
        served = _served(evidence)
        proofs += [
            Proof("sysfs", f"/sys/class/infiniband_verbs/{name}/ibdev", device)
            for name, device in served.items()
        ]
        names = ", ".join(served.values())
        has = f"has {names}" if names else "may have a device"
        return _Step(
            f"the RDMA subsystem is in exclusive netns mode; another network namespace {has}",
            "where netns mode is exclusive",
            {"init": () if initial is True else (1,)},
            tuple(proofs),
        )
    if initial is False and mode is not NetnsMode.SHARED:
        return _Step(
            "this process is not in the initial network namespace, where the device may be",
            "where it may be in another network namespace",
        )
    return None


def _served(evidence: Evidence) -> dict[str, str]:
    """The character devices that sysfs shows: "uverbs0" → "mlx5_0"."""
    entries = () if isinstance(evidence.sysfs, Missing) else present(evidence.sysfs.uverbs)
    return {each.name: each.device for each in entries if isinstance(each.device, str)}


_DEVICE_MODULES: Final = frozenset(RDMA_MODULE_OF_PCI_DRIVER.values()) | SOFTWARE_MODULES


@rule(
    "device-unreadable",
    Severity.UNKNOWN,
    "Device without readable ports",
    "sysfs names the device, and its ports could not be read: the driver is being loaded or "
    "unloaded, the class link dangles, or a copied tree is incomplete.",
    remedy=("ls -l /sys/class/infiniband/{device}/", "sudo dmesg | tail -50"),
    needs=("devices",),
)
def device_unreadable(this: Rule, case: Case) -> Iterator[Finding]:
    """Devices that sysfs names and shows no port of."""
    for device in case.devices:
        if device.ports or device.sysfs is None:
            continue  # a device that verbs alone shows has ports-not-shown
        value = device.sysfs.ports
        yield this.finding(
            f"{device.name}: no port can be read",
            device=device.name,
            evidence=[
                Proof(
                    "sysfs",
                    f"/sys/class/infiniband/{device.name}/ports",
                    seen(value) if isinstance(value, Missing) else "empty",
                )
            ],
        )


@rule(
    "no-thunderbolt-rdma-device",
    Severity.UNKNOWN,
    "librdma lists no device",
    "The library was queried and lists no device, though RDMA is switched on and the hardware may "
    "well have it. Where the switch, the release or the hardware explains it, that is said "
    "instead.",
    (TN3205,),
    remedy=("rdma_ctl status", f"{SHOW_SPEED}   # {RDMA_GBPS} Gb/s or more?"),
    needs=("provider",),
)
def no_thunderbolt_rdma_device(this: Rule, case: Case) -> Iterator[Finding]:
    """Only what no other rule explains."""
    verbs = case.evidence.verbs
    if case.devices or isinstance(verbs, Missing) or verbs.platform != "darwin":
        return
    mac = known(case.evidence.macos)
    off = mac is not None and (mac.rdma_enabled is False or is_before_rdma(mac))
    if off or verbs.unanswered or generation(case.evidence) is Generation.OLDER:
        return
    yield this.finding(
        "no RDMA device: librdma lists none",
        evidence=[
            Proof("verbs", "ibv_get_device_list", "no device"),
            *(Proof("verbs", each.call, f"{each.errno} {each.name}") for each in verbs.failures),
        ],
    )


RULES: Final[tuple[Rule, ...]] = (
    no_rdma_device,
    no_thunderbolt_rdma_device,
    device_unreadable,
)
