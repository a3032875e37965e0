"""The way a device takes until a verbs program can use it, and the first step that fails.

The steps and their order are those of rdma-core's libibverbs (init.c, ibdev_nl.c, device.c):

    nldev or sysfs names the device > its character device > the node in /dev/infiniband >
    the kernel's ABI > the provider by driver id, modalias or name > its library, and what has
    it loaded > the driver's ABI > the list > the node's number and mode > ibv_open_device

A node that may not be opened comes late: libibverbs lists such a device, and fails to open it.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from rdmadiag.facts import DeviceNode, Missing, PciFunction, Why, present
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.rdma_drivers import (
    ALWAYS_RDMA,
    ALWAYS_RDMA_VENDORS,
    PROVIDER_FOLDER,
    RDMA_MODULE_OF_PCI_DRIVER,
    provider_of,
)
from rdmadiag.frozen import dataclass
from rdmadiag.late import late
from rdmadiag.view.access import (
    Library,
    Provider,
    in_other_netns,
    library,
    named,
    node_access,
    node_number,
    not_loaded,
    provider,
    uverbs_entry,
)
from rdmadiag.view.reconcile import DeviceView, no_nldev

KERNEL_ABI: Final = range(3, 7)
"""/sys/class/infiniband_verbs/abi_version that libibverbs takes (IB_USER_VERBS_*_ABI_VERSION)."""


class Stage(StrEnum):
    """One step."""

    PCI_DRIVER = "pci_driver"  # the function has a driver that can carry RDMA
    MODULE = "module"  # its RDMA half is loaded
    KERNEL = "kernel"  # the kernel names the device to this network namespace
    CHAR_DEVICE = "char_device"  # ib_uverbs serves it
    NODE = "node"  # /dev/infiniband/uverbsN
    KERNEL_ABI = "kernel_abi"
    LIBRARY = "library"  # libibverbs.so.1
    PROVIDER = "provider"  # which provider takes it
    PROVIDER_LIBRARY = "provider_library"  # it is there, and something has libibverbs load it
    DRIVER_ABI = "driver_abi"
    LISTED = "listed"  # ibv_get_device_list
    NODE_NUMBER = "node_number"  # the node is this device's
    ACCESS = "access"  # this user may open it
    OPENED = "opened"  # ibv_open_device


@dataclass(frozen=True, slots=True)
class Step:
    """A step, and what was seen of it."""

    stage: Stage
    passed: bool | Missing  # Missing: not known
    subject: str  # the file, netlink attribute or call
    value: str  # as found


@dataclass(frozen=True, slots=True)
class DiscoveryPath:
    """All steps in order."""

    steps: tuple[Step, ...]
    fails_at: Stage | None  # the first that fails; None where none is known to

    @property
    def failure(self) -> Step | None:
        """The first step that fails."""
        return next((step for step in self.steps if step.passed is False), None)

    @property
    def failure_number(self) -> int:
        """Its number, from 1; 0 where none fails."""
        stages = [step.stage for step in self.steps]
        return stages.index(self.fails_at) + 1 if self.fails_at else 0


def walk(device: DeviceView, evidence: Evidence) -> DiscoveryPath | None:
    """The way of a device that any witness shows; None on a system that has another."""
    if evidence.is_mac:
        return None
    return _path(step(device, evidence) for step in _STEPS)


def _path(steps: Iterable[Step]) -> DiscoveryPath:
    every = tuple(steps)
    return DiscoveryPath(every, next((each.stage for each in every if each.passed is False), None))


# --- what libibverbs writes on stderr -------------------------------------------------------

_REFUSAL: Final = late(
    r"Driver (?P<driver>\S+) does not support the kernel ABI of (?P<abi>[0-9]{1,9}) "
    r"\(supports (?P<low>[0-9]{1,9}) to (?P<high>[0-9]{1,9})\)"
    r"(?: for device (?:\S*/)?(?P<device>[^\s/]+))?"
)
_FATAL: Final = late(
    r"kernel ABI version (?P<abi>[0-9]{1,9}) doesn't match library version (?P<high>[0-9]{1,9})"
)


@dataclass(frozen=True, slots=True)
class AbiRefusal:
    """A provider that does not support the driver's ABI."""

    driver: str  # the provider, "bnxt_re"
    abi: int  # the kernel's
    low: int  # what the provider supports
    high: int
    device: str | None
    line: str


def parse_abi_refusals(lines: Iterable[str]) -> tuple[AbiRefusal, ...]:
    """Lines of stderr → the refusals among them.

    libibverbs: Warning: Driver bnxt_re does not support the kernel ABI of 6 (supports 1 to 1)
    for device /sys/class/infiniband/bnxt_re0
    """
    return tuple(
        AbiRefusal(
            driver=found["driver"],
            abi=int(found["abi"]),
            low=int(found["low"]),
            high=int(found["high"]),
            device=found["device"],
            line=line,
        )
        for line in lines
        if (found := _REFUSAL.search(line))
    )


def abi_refusal(device: DeviceView, evidence: Evidence) -> AbiRefusal | None:
    """The refusal that keeps `device` out of the list, if one was written."""
    verbs = evidence.verbs
    if isinstance(verbs, Missing) or device.verbs:
        return None
    own = provider_of(device.provider) if device.provider else None
    for refusal in parse_abi_refusals(verbs.warnings):
        if refusal.device == device.name or (refusal.device is None and refusal.driver == own):
            return refusal
    return None


# --- the steps ------------------------------------------------------------------------------


def _kernel(device: DeviceView, evidence: Evidence) -> Step:
    nldev = evidence.nldev
    if device.nldev:
        return Step(
            Stage.KERNEL, True, "RDMA_NLDEV_CMD_GET", f"{device.name}, index {device.nldev.index}"
        )
    if not isinstance(nldev, Missing) and not nldev.unreadable:
        shown = "sysfs shows it" if device.sysfs else "sysfs does not show it either"
        mode = f"netns mode {nldev.netns_mode}" if in_other_netns(device, evidence) else ""
        value = ", ".join(filter(None, (f"{device.name} is not in the reply", mode, shown)))
        return Step(Stage.KERNEL, False, "RDMA_NLDEV_CMD_GET", value)
    # Without RDMA netlink libibverbs reads sysfs, which SYSFS_PATH can have it look for elsewhere.
    if elsewhere := _sysfs_path(evidence):
        why = Missing(Why.NOT_COLLECTED, f"libibverbs looks in {elsewhere}, and not in /sys")
        return Step(Stage.KERNEL, why, "SYSFS_PATH", elsewhere)
    if device.sysfs:
        return Step(Stage.KERNEL, True, "/sys/class/infiniband", device.name)
    reason = nldev if isinstance(nldev, Missing) else nldev.unreadable[0]
    return Step(Stage.KERNEL, reason, "RDMA_NLDEV_CMD_GET", str(reason))


def _sysfs_path(evidence: Evidence) -> str | None:
    """What SYSFS_PATH has libibverbs look in, if that is not /sys."""
    process = evidence.process
    environment = process if isinstance(process, Missing) else process.environment
    path = None if isinstance(environment, Missing) else environment.get("SYSFS_PATH")
    return None if path is None or path.rstrip("/") == "/sys" else path.rstrip("/") or "/"


def _char_device(device: DeviceView, evidence: Evidence) -> Step:
    if device.nldev and not isinstance(device.nldev.chardev, Missing):
        chardev = device.nldev.chardev
        return Step(
            Stage.CHAR_DEVICE, True, "RDMA_NLDEV_CMD_GET_CHARDEV", f"{chardev.name} {chardev.dev}"
        )
    subject = "/sys/class/infiniband_verbs/*/ibdev"
    entry = uverbs_entry(device, evidence)
    if entry:
        return Step(Stage.CHAR_DEVICE, True, subject, f"{entry.name} {entry.dev}")
    listed = evidence.sysfs if isinstance(evidence.sysfs, Missing) else evidence.sysfs.uverbs
    if isinstance(listed, Missing) and listed.why is not Why.ABSENT:
        return Step(Stage.CHAR_DEVICE, listed, subject, str(listed))
    value = str(listed) if isinstance(listed, Missing) else f"none is {device.name}"
    if _nobody_looked(evidence.nldev) and _nobody_looked(evidence.process):
        # A copied tree of devices: what it lacks was perhaps not copied.
        return Step(Stage.CHAR_DEVICE, Missing(Why.NOT_COLLECTED, value), subject, value)
    return Step(Stage.CHAR_DEVICE, False, subject, value)


def _nobody_looked(source: object) -> bool:
    return isinstance(source, Missing) and source.why is Why.NOT_COLLECTED


def _node(device: DeviceView, evidence: Evidence) -> Step:
    subject = f"/dev/infiniband/{device.uverbs or 'uverbsN'}"
    access = node_access(device, evidence)
    if isinstance(access, Missing):
        return Step(Stage.NODE, access, subject, str(access))
    if access.node is None:
        return Step(Stage.NODE, False, subject, "not there")
    return Step(Stage.NODE, True, subject, access.node.mode)


def _kernel_abi(device: DeviceView, evidence: Evidence) -> Step:
    subject = "/sys/class/infiniband_verbs/abi_version"
    if not isinstance(evidence.verbs, Missing):
        for line in evidence.verbs.warnings:
            if _FATAL.search(line):
                return Step(Stage.KERNEL_ABI, False, "stderr of libibverbs", line)
    abi = evidence.sysfs if isinstance(evidence.sysfs, Missing) else evidence.sysfs.uverbs_abi
    if isinstance(abi, Missing):
        return Step(Stage.KERNEL_ABI, abi, subject, str(abi))
    span = f"libibverbs takes {KERNEL_ABI[0]} to {KERNEL_ABI[-1]}"
    return Step(Stage.KERNEL_ABI, abi in KERNEL_ABI, subject, f"{abi}; {span}")


def _library(device: DeviceView, evidence: Evidence) -> Step:
    subject = "libibverbs.so.1"
    if not isinstance(evidence.verbs, Missing):
        return Step(Stage.LIBRARY, True, subject, "loaded")
    process = evidence.process
    found = process if isinstance(process, Missing) else process.library
    if isinstance(found, Missing):
        return Step(Stage.LIBRARY, found, subject, str(found))
    folders = " ".join(found.libibverbs) or f"in none of {' '.join(found.searched)}"
    return Step(Stage.LIBRARY, bool(found.libibverbs), subject, folders)


def _provider(device: DeviceView, evidence: Evidence) -> Step:
    chardev = device.nldev.chardev if device.nldev else no_nldev(evidence)
    if not isinstance(chardev, Missing) and chardev.driver == device.provider:
        return Step(Stage.PROVIDER, True, "RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID", f"{device.provider}")
    entry = uverbs_entry(device, evidence)
    alias: str | Missing = entry.modalias if entry else Missing(Why.ABSENT, "no character device")
    subject = f"/sys/class/infiniband_verbs/{device.uverbs or 'uverbsN'}/device/modalias"
    if device.provider:
        by = f"PCI driver {device.driver}" if isinstance(alias, Missing) else alias
        return Step(Stage.PROVIDER, True, subject, f"{by}: {provider_of(device.provider)}")
    return Step(
        Stage.PROVIDER,
        device.driver if isinstance(device.driver, Missing) else Missing(Why.ABSENT, "no driver"),
        subject,
        str(alias),
    )


def _provider_library(device: DeviceView, evidence: Evidence) -> Step:
    name = f"lib{provider_of(device.provider)}" if device.provider else "lib*"
    subject = f"{name}-rdmav*.so"
    if device.verbs or abi_refusal(device, evidence):
        return Step(Stage.PROVIDER_LIBRARY, True, subject, "loaded")
    if line := not_loaded(device, evidence):
        return Step(Stage.PROVIDER_LIBRARY, False, subject, line)
    found = library(device, evidence)
    if found is Library.FOUND:
        who = named(device, evidence)
        if who.is_named is False:
            return Step(Stage.PROVIDER_LIBRARY, False, f"{PROVIDER_FOLDER}/*.driver", who.by)
        assert not isinstance(evidence.process, Missing)
        assert not isinstance(evidence.process.library, Missing)
        path = evidence.process.library.providers[provider_of(device.provider or "")]
        return Step(Stage.PROVIDER_LIBRARY, True, subject, path)
    if found is Library.NO_PROVIDER:
        return Step(Stage.PROVIDER_LIBRARY, False, subject, "not beside libibverbs")
    reason = Missing(Why.ABSENT if found is Library.NO_LIBIBVERBS else Why.NOT_COLLECTED, "unknown")
    return Step(Stage.PROVIDER_LIBRARY, reason, subject, str(reason))


def _driver_abi(device: DeviceView, evidence: Evidence) -> Step:
    entry = uverbs_entry(device, evidence)
    subject = f"/sys/class/infiniband_verbs/{device.uverbs or 'uverbsN'}/abi_version"
    shown = str(entry.abi_version) if entry else "no character device"
    refusal = abi_refusal(device, evidence)
    if refusal:
        supported = f"{refusal.low} to {refusal.high}"
        return Step(
            Stage.DRIVER_ABI,
            False,
            subject,
            f"{refusal.abi}; {refusal.driver} supports {supported}",
        )
    if device.verbs:
        return Step(Stage.DRIVER_ABI, True, subject, shown)
    reason = Missing(Why.NOT_COLLECTED, "libibverbs did not say")
    return Step(Stage.DRIVER_ABI, reason, subject, shown)


def _listed(device: DeviceView, evidence: Evidence) -> Step:
    subject = "ibv_get_device_list"
    verbs = evidence.verbs
    if isinstance(verbs, Missing):
        return Step(Stage.LISTED, verbs, subject, str(verbs))
    names = " ".join(each.name for each in verbs.devices) or "no device"
    if device.verbs is None and verbs.unanswered:
        reason = Missing(Why.TIMEOUT, f"{verbs.unanswered.call}: {verbs.unanswered.end}")
        return Step(Stage.LISTED, reason, subject, str(reason))
    return Step(Stage.LISTED, device.verbs is not None, subject, names)


def _seen_node(device: DeviceView, evidence: Evidence) -> tuple[str, DeviceNode | None]:
    access = node_access(device, evidence)
    node = None if isinstance(access, Missing) else access.node
    return f"/dev/infiniband/{device.uverbs or 'uverbsN'}", node


def _node_number(device: DeviceView, evidence: Evidence) -> Step:
    subject, node = _seen_node(device, evidence)
    expected = node_number(device, evidence)
    if node is None or isinstance(node.dev, Missing) or isinstance(expected, Missing):
        reason = expected if isinstance(expected, Missing) else Missing(Why.ABSENT, "no node")
        if node is not None and isinstance(node.dev, Missing):
            reason = node.dev
        return Step(Stage.NODE_NUMBER, reason, subject, str(reason))
    return Step(
        Stage.NODE_NUMBER, node.dev == expected, subject, f"{node.dev}; the device is {expected}"
    )


def _access(device: DeviceView, evidence: Evidence) -> Step:
    subject, node = _seen_node(device, evidence)
    if node is None:
        reason = Missing(Why.ABSENT, "no node")
        return Step(Stage.ACCESS, reason, subject, str(reason))
    return Step(Stage.ACCESS, node.openable, subject, f"{node.mode} uid {node.uid} gid {node.gid}")


def _opened(device: DeviceView, evidence: Evidence) -> Step:
    subject = f"ibv_open_device {device.name}"
    answer = provider(device, evidence)
    verbs = evidence.verbs
    if answer is Provider.REFUSED and not isinstance(verbs, Missing):
        failure = next(each for each in verbs.failures if each.device == device.name)
        return Step(Stage.OPENED, False, subject, f"{failure.errno} {failure.name}")
    if answer is Provider.ANSWERS:
        return Step(Stage.OPENED, True, subject, "opened")
    if answer in (Provider.WEDGED, Provider.DIED) and not isinstance(verbs, Missing):
        assert verbs.unanswered
        if verbs.unanswered.call == "ibv_open_device":
            return Step(Stage.OPENED, False, subject, verbs.unanswered.end)
    reason = verbs if isinstance(verbs, Missing) else Missing(Why.NOT_COLLECTED, "not queried")
    return Step(Stage.OPENED, reason, subject, str(reason))


_STEPS: Final = (
    _kernel,
    _char_device,
    _node,
    _kernel_abi,
    _library,
    _provider,
    _provider_library,
    _driver_abi,
    _listed,
    _node_number,
    _access,
    _opened,
)


# --- PCI functions that no RDMA device stands for ---------------------------------------------


@dataclass(frozen=True, slots=True)
class FunctionPath:
    """A function that should carry RDMA, without a device."""

    address: str
    driver: str | Missing
    discovery: DiscoveryPath


def functions_without_device(
    devices: Iterable[DeviceView], evidence: Evidence
) -> tuple[FunctionPath, ...]:
    """The functions that all carry RDMA, and that none of `devices` (all there are) is behind.

    Not those that were given to a virtual machine, nor the second port of a bond, which is
    behind one device with the first.
    """
    if isinstance(evidence.sysfs, Missing):
        return ()
    behind, bonded = set(), set()
    for device in devices:
        if not isinstance(device.pci, Missing):
            behind.add(device.pci.address)
            if "bond" in device.name:
                bonded.add(_slot(device.pci.address))
    return tuple(
        FunctionPath(each.address, each.driver, _path(_function_steps(each, evidence)))
        for each in present(evidence.sysfs.candidates)
        if (each.driver in ALWAYS_RDMA or each.vendor in ALWAYS_RDMA_VENDORS)
        and each.driver != "vfio-pci"
        and each.address not in behind
        and _slot(each.address) not in bonded
    )


def _slot(address: str) -> str:
    return address.rpartition(".")[0]


def _function_steps(function: PciFunction, evidence: Evidence) -> Iterator[Step]:
    folder = f"/sys/bus/pci/devices/{function.address}"
    driver = function.driver
    if isinstance(driver, Missing):
        bound = False if driver.why is Why.ABSENT else driver
        yield Step(Stage.PCI_DRIVER, bound, f"{folder}/driver", str(driver))
        return
    module = RDMA_MODULE_OF_PCI_DRIVER.get(driver)
    yield Step(Stage.PCI_DRIVER, module is not None, f"{folder}/driver", driver)
    if module is None:
        return
    process = evidence.process
    loaded = process if isinstance(process, Missing) else process.modules
    known = loaded if isinstance(loaded, Missing) else module in loaded
    yield Step(Stage.MODULE, known, "/proc/modules", module)
    yield Step(Stage.KERNEL, False, "/sys/class/infiniband", f"no device of {function.address}")
