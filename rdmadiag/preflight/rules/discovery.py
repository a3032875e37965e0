"""Whether there is an RDMA device at all, and which step is missing where there is none."""

from collections.abc import Iterable, Iterator
from typing import Final

from rdmadiag.facts import Missing, PciFunction, Why, present
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import NetnsMode
from rdmadiag.facts.rdma_drivers import ALWAYS_RDMA, RDMA_MODULE_OF_PCI_DRIVER, SOFTWARE_MODULES
from rdmadiag.preflight.rules.rule import Case, Rule, Speaker, rule, seen
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.quoting import shell_word
from rdmadiag.view.cabling import (
    RDMA_GBPS,
    SHOW_SPEED,
    TN3205,
    Generation,
    generation,
    is_before_rdma,
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
    remedy=(
        "lspci -nn | grep -i -e infiniband -e ethernet",
        "sudo modprobe MODULE   # the one that the summary names",
        "rdma link",
    ),
)
def no_rdma_device(speaker: Speaker, case: Case) -> Iterator[Finding]:
    """Nothing that any witness names."""
    evidence = case.evidence
    if case.devices or isinstance(evidence.sysfs, Missing):
        return
    devices = evidence.sysfs.devices
    if isinstance(devices, Missing) and devices.why is not Why.ABSENT:
        return  # "could not look" is another rule's
    cause, remedy = _missing_step(evidence)
    proofs = [Proof("sysfs", "/sys/class/infiniband", seen(devices) if devices else "empty")]
    proofs += [
        Proof("sysfs", f"/sys/bus/pci/devices/{each.address}", f"driver {seen(each.driver)}")
        for each in present(evidence.sysfs.candidates)
    ]
    if not isinstance(evidence.process, Missing):
        modules = evidence.process.modules
        named = seen(modules) if isinstance(modules, Missing) else " ".join(modules)
        proofs.append(Proof("process", "/proc/modules", named or "no RDMA module"))
    yield speaker.finding(
        f"no RDMA device: {cause}",
        evidence=proofs,
        remedy=remedy,
        severity=Severity.INFO if _none_is_expected(case) else None,
    )


def _none_is_expected(case: Case) -> bool:
    return any(each.key == "devices" and each.met is True for each in case.expected)


def _missing_step(evidence: Evidence) -> tuple[str, Iterable[str]]:
    """The first missing step from hardware to device, and what to do about it."""
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
    foreign = [each for each in candidates if each not in sure + maybe + unbound]
    for function in (*sure, *maybe):
        module = RDMA_MODULE_OF_PCI_DRIVER[str(function.driver)]
        if module not in loaded and not isinstance(modules, Missing):
            text = f"module {module} is not loaded for PCI {function.address} ({function.driver})"
            doubt = "" if function in sure else ", if that function carries RDMA at all"
            return f"{text}{doubt}", (f"sudo modprobe {shell_word(module)}", "rdma link")
    if candidates and elsewhere:
        return elsewhere
    if unbound:
        return _unbound(unbound[0])
    if sure + maybe:
        function = (sure + maybe)[0]
        return (
            f"none was registered for PCI {function.address} ({function.driver})",
            (f"sudo dmesg | grep -i -e {function.driver} -e {shell_word(function.address)}",),
        )
    if foreign:
        function = foreign[0]
        text = f"PCI {function.address} is bound to {function.driver}, not to an RDMA driver"
        return text, (f"lspci -k -s {shell_word(function.address)}",)
    if elsewhere and loaded & _DEVICE_MODULES:
        return elsewhere
    if loaded & SOFTWARE_MODULES:
        module = min(loaded & SOFTWARE_MODULES)
        kind = module.removeprefix("rdma_")
        return f"{module} is loaded and no link was added", (
            f"sudo rdma link add {kind}0 type {kind} netdev eth0   # the netdev of your choice",
        )
    if isinstance(evidence.sysfs.candidates, Missing):
        return "the PCI functions could not be read", ("lspci -nn",)
    return "no PCI function known to an RDMA driver", (
        "lspci -nn | grep -i -e infiniband -e ethernet   # is the adapter seen at all?",
    )


SHARE_NETNS: Final = (
    "sudo rdma system set netns shared   # refused while other network namespaces exist"
)

_DEVICE_MODULES: Final = frozenset(RDMA_MODULE_OF_PCI_DRIVER.values()) | SOFTWARE_MODULES


def _unbound(function: PciFunction) -> tuple[str, tuple[str, ...]]:
    text = f"PCI {function.address} ({seen(function.vendor)}) has no driver bound"
    return text, (
        f"lspci -k -s {shell_word(function.address)}",
        f"sudo dmesg | grep {shell_word(function.address)}",
    )


def _other_namespace(evidence: Evidence) -> tuple[str, tuple[str, ...]] | None:
    """Where a device may be instead: only stated when something hints at it."""
    mode = None if isinstance(evidence.nldev, Missing) else evidence.nldev.netns_mode
    process = evidence.process
    initial = Missing(Why.NOT_COLLECTED) if isinstance(process, Missing) else process.initial_netns
    look = () if initial is True else ("sudo nsenter -t 1 -n rdma dev",)
    if mode is NetnsMode.EXCLUSIVE:
        return (
            "the RDMA subsystem is in exclusive netns mode; a device may be in another namespace",
            ("rdma system show", *look, SHARE_NETNS),
        )
    if initial is False:
        return (
            "this process is not in the initial network namespace, where the device may be",
            look,
        )
    return None


@rule(
    "device-unreadable",
    Severity.UNKNOWN,
    "Device without readable ports",
    "sysfs names the device, and its ports could not be read: the driver is being loaded or "
    "unloaded, the class link dangles, or a copied tree is incomplete.",
    remedy=(
        "ls -l /sys/class/infiniband/DEVICE/",
        "sudo dmesg | tail -50",
    ),
)
def device_unreadable(speaker: Speaker, case: Case) -> Iterator[Finding]:
    """A name with nothing behind it."""
    for device in case.devices:
        if device.ports or device.sysfs is None:
            continue  # of a device that verbs alone shows another rule speaks
        value = device.sysfs.ports
        yield speaker.finding(
            f"{device.name}: no port can be read",
            device=device.name,
            evidence=[
                Proof(
                    "sysfs",
                    f"/sys/class/infiniband/{device.name}/ports",
                    seen(value) if isinstance(value, Missing) else "empty",
                )
            ],
            remedy=(
                f"ls -l /sys/class/infiniband/{shell_word(device.name)}/",
                "sudo dmesg | tail -50",
            ),
        )


@rule(
    "no-thunderbolt-rdma-device",
    Severity.UNKNOWN,
    "librdma lists no device",
    "The library was asked and lists no device, though RDMA is switched on and the hardware may "
    "well have it. Where the switch, the release or the hardware explains it, that is said "
    "instead.",
    (TN3205,),
    remedy=(
        "rdma_ctl status",
        "system_profiler SPThunderboltDataType | grep Speed",
    ),
)
def no_thunderbolt_rdma_device(speaker: Speaker, case: Case) -> Iterator[Finding]:
    """Nothing that another rule explains."""
    verbs, macos = case.evidence.verbs, case.evidence.macos
    if case.devices or isinstance(verbs, Missing) or verbs.platform != "darwin":
        return
    known = None if isinstance(macos, Missing) else macos
    off = known is not None and (known.rdma_enabled is False or is_before_rdma(known))
    if off or verbs.unanswered or generation(case.evidence) is Generation.OLDER:
        return
    yield speaker.finding(
        "no RDMA device: librdma lists none",
        evidence=[
            Proof("verbs", "ibv_get_device_list", "no device"),
            *(Proof("verbs", each.call, f"{each.errno} {each.name}") for each in verbs.failures),
        ],
        remedy=(
            "rdma_ctl status",
            f"{SHOW_SPEED}   # {RDMA_GBPS} Gb/s or more?",
        ),
    )


RULES: Final[tuple[Rule, ...]] = (
    no_rdma_device,
    no_thunderbolt_rdma_device,
    device_unreadable,
)
