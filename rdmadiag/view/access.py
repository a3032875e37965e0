"""What stands between this process and a device: node, libraries, locked memory, provider."""

import re
from enum import StrEnum
from typing import Final

from rdmadiag.facts import (
    DeviceNode,
    Limit,
    Missing,
    ProcessFacts,
    UverbsEntry,
    VerbsLibrary,
    Why,
    present,
)
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import NetnsMode
from rdmadiag.facts.rdma_drivers import PROVIDER_FOLDER, provider_of
from rdmadiag.frozen import dataclass
from rdmadiag.view.reconcile import DeviceView, no_nldev

MEMLOCK_CRITICAL: Final = 64 * 1024
"""Bytes. Linux's default before 5.16; ibv_create_cq fails with it (openucx/ucx#8229)."""

MEMLOCK_WARN: Final = 64 * 1024 * 1024
"""Bytes. The largest limit reported to fail is 8 MiB, Debian's default (NVIDIA/nccl-tests#206)."""


class Memlock(StrEnum):
    """How far the limit on locked memory carries."""

    ENOUGH = "enough"
    LOW = "low"  # small programs run; registering application buffers fails
    NONE = "none"  # not even a completion queue can be had
    UNKNOWN = "unknown"


def memlock(process: ProcessFacts | Missing) -> Memlock:
    """The soft limit of the process that looks, whatever its capabilities."""
    return Memlock.UNKNOWN if isinstance(process, Missing) else carries(process.memlock)


def carries(limit: Limit | Missing) -> Memlock:
    """How far one limit carries."""
    if isinstance(limit, Missing):
        return Memlock.UNKNOWN
    soft = limit.soft
    if soft == "unlimited" or soft >= MEMLOCK_WARN:
        return Memlock.ENOUGH
    return Memlock.NONE if soft <= MEMLOCK_CRITICAL else Memlock.LOW


def ignores_memlock(process: ProcessFacts | Missing) -> bool:
    """Whether the kernel exempts this process: CAP_IPC_LOCK of the initial user namespace."""
    if isinstance(process, Missing) or isinstance(process.capabilities, Missing):
        return False
    return "CAP_IPC_LOCK" in process.capabilities and process.initial_userns is True


@dataclass(frozen=True, slots=True)
class NodeAccess:
    """The character device of an RDMA device, as this process finds it."""

    name: str | None  # "uverbs0"; None where no witness names one
    node: DeviceNode | None  # None: /dev/infiniband has no such node


def node_access(device: DeviceView, evidence: Evidence) -> NodeAccess | Missing:
    """The device's node in /dev/infiniband, or why it is not known whether it has one."""
    if isinstance(evidence.process, Missing):
        return evidence.process
    nodes = evidence.process.nodes
    if isinstance(nodes, Missing):
        return NodeAccess(device.uverbs, None) if nodes.why is Why.ABSENT else nodes
    if device.uverbs is None and (unread := _unnamed(device, evidence)):
        return unread
    found = {node.name: node for node in nodes}
    return NodeAccess(device.uverbs, found.get(device.uverbs or ""))


def _unnamed(device: DeviceView, evidence: Evidence) -> Missing | None:
    """Why it is not known which character device is its own; None where it has none."""
    chardev = device.nldev.chardev if device.nldev else None
    if isinstance(chardev, Missing) and chardev.why is Why.ABSENT:
        return None
    if isinstance(evidence.sysfs, Missing):
        return evidence.sysfs
    listed = evidence.sysfs.uverbs
    return listed if isinstance(listed, Missing) and listed.why is not Why.ABSENT else None


def uverbs_entry(device: DeviceView, evidence: Evidence) -> UverbsEntry | None:
    """The device's folder in /sys/class/infiniband_verbs."""
    if isinstance(evidence.sysfs, Missing):
        return None
    entries = present(evidence.sysfs.uverbs)
    return next((entry for entry in entries if entry.device == device.name), None)


def node_number(device: DeviceView, evidence: Evidence) -> str | Missing:
    """The number that the device's node must have: "231:192"."""
    entry = uverbs_entry(device, evidence)
    if entry and not isinstance(entry.dev, Missing):
        return entry.dev
    if device.nldev and not isinstance(device.nldev.chardev, Missing):
        return device.nldev.chardev.dev
    if entry:
        return entry.dev
    return _unnamed(device, evidence) or Missing(Why.ABSENT, "no character device")


def has_stale_node(device: DeviceView, evidence: Evidence) -> bool:
    """Whether the node of the device's name has another number than the device."""
    access = node_access(device, evidence)
    node = None if isinstance(access, Missing) else access.node
    found = node.dev if node else None
    expected = node_number(device, evidence)
    if found is None or isinstance(found, Missing) or isinstance(expected, Missing):
        return False
    return found != expected


def in_other_netns(device: DeviceView, evidence: Evidence) -> bool:
    """Whether exclusive netns mode keeps a device, which sysfs shows, from this process."""
    nldev = evidence.nldev
    if isinstance(nldev, Missing) or nldev.unreadable or device.nldev:
        return False
    return nldev.netns_mode is NetnsMode.EXCLUSIVE


WEDGED_AFTER: Final = 2.0
"""Seconds in one call after which it counts as hung: a healthy one takes milliseconds."""


class Provider(StrEnum):
    """How the verbs library answered about a device."""

    ANSWERS = "answers"
    WEDGED = "wedged"  # a call did not return
    DIED = "died"  # the child ended inside a call
    LATE = "late"  # the deadline came while calls were still being answered
    REFUSED = "refused"  # ibv_open_device failed
    NOT_LISTED = "not_listed"
    UNKNOWN = "unknown"


def provider(device: DeviceView | None, evidence: Evidence) -> Provider:
    """What became of the questions about `device`, or of the query as such.

    A call that hangs ends the query: Apple's provider is one for all devices, so one
    that is wedged is wedged for each of them. On Linux each device has its own.
    """
    verbs = evidence.verbs
    if isinstance(verbs, Missing):
        return Provider.UNKNOWN
    stopped = verbs.unanswered
    name = device.name if device else None
    if stopped and (verbs.platform == "darwin" or stopped.device in (None, name)):
        if not stopped.was_killed:
            return Provider.DIED
        return Provider.WEDGED if stopped.seconds >= WEDGED_AFTER else Provider.LATE
    if device is None:
        return Provider.UNKNOWN
    if device.verbs is None:
        return Provider.UNKNOWN if stopped else Provider.NOT_LISTED
    opened = ("ibv_open_device", device.name)
    if any((failure.call, failure.device) == opened for failure in verbs.failures):
        return Provider.REFUSED
    return Provider.ANSWERS


class Library(StrEnum):
    """Whether a verbs program started here would find its libraries."""

    FOUND = "found"
    NO_LIBIBVERBS = "no_libibverbs"
    NO_PROVIDER = "no_provider"
    UNKNOWN = "unknown"


def unloadable(evidence: Evidence) -> str | None:
    """Why libibverbs cannot be loaded, in the dynamic linker's words; None where it was loaded.

    None, too, where there is nothing to load it for: without ib_uverbs nothing loads it.
    """
    verbs, sysfs = evidence.verbs, evidence.sysfs
    if not isinstance(verbs, Missing) or verbs.why is not Why.ABSENT:
        return None
    is_loaded = not isinstance(sysfs, Missing) and not isinstance(sysfs.uverbs, Missing)
    return verbs.detail if is_loaded else None


def library(device: DeviceView, evidence: Evidence) -> Library:
    """libibverbs, and the provider library for this device's driver."""
    process = evidence.process
    if isinstance(process, Missing) or isinstance(process.library, Missing):
        return Library.UNKNOWN
    if not process.library.libibverbs:
        return Library.NO_LIBIBVERBS
    if device.provider is None:
        return Library.UNKNOWN
    known = provider_of(device.provider) in process.library.providers
    return Library.FOUND if known else Library.NO_PROVIDER


_SYSTEM: Final = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")
_NO_FOLDER: Final = "couldn't open config directory"
_NOT_LOADED: Final = "couldn't load driver"


@dataclass(frozen=True, slots=True)
class Named:
    """Who makes libibverbs load a provider: load_drivers of rdma-core."""

    by: str  # the file or the variable; else where it is not named
    is_named: bool | Missing


def named(device: DeviceView, evidence: Evidence) -> Named:
    """Whether anything has libibverbs load the provider of a device.

    It loads no provider that it merely finds: /etc/libibverbs.d has to name it, or
    RDMAV_DRIVERS, or where that is not set IBV_DRIVERS.
    """
    process = evidence.process
    found = process if isinstance(process, Missing) else process.library
    if device.provider is None or isinstance(process, Missing) or isinstance(found, Missing):
        reason = found if isinstance(found, Missing) else Missing(Why.ABSENT, "no driver is known")
        return Named(PROVIDER_FOLDER, reason)
    name = provider_of(device.provider)
    return _by_variable(name, process.environment) or _by_folder(name, process, found, evidence)


def _by_variable(name: str, environment: dict[str, str] | Missing) -> Named | None:
    variables = {} if isinstance(environment, Missing) else environment
    for variable in ("RDMAV_DRIVERS", "IBV_DRIVERS"):
        value = variables.get(variable)
        if value is not None:
            names = (each.rpartition("/lib")[2] for each in re.split("[:;]", value))
            return Named(f"{variable}={value}", is_named=True) if name in names else None
    return None


def _by_folder(name: str, process: ProcessFacts, found: VerbsLibrary, evidence: Evidence) -> Named:
    configured = found.configured
    if isinstance(configured, Missing):
        if configured.why is Why.ABSENT and stderr_of(evidence, _NO_FOLDER):
            return Named("no such folder", is_named=False)
        return Named(PROVIDER_FOLDER, Missing(Why.NOT_COLLECTED, str(configured)))
    files = {each.name.rpartition("/lib")[2]: each.file for each in configured}
    if name in files:
        return Named(files[name], is_named=True)
    if not all(path.startswith(_SYSTEM) for path in found.libibverbs):
        return Named(PROVIDER_FOLDER, Missing(Why.NOT_COLLECTED, "libibverbs of another prefix"))
    if isinstance(process.environment, Missing):
        return Named("RDMAV_DRIVERS", process.environment)
    count = len(set(files.values()))
    return Named(f"{name} is in none of {count} files", is_named=False)


def is_unnamed(device: DeviceView, evidence: Evidence) -> bool:
    """Whether that is why libibverbs does not list a device whose provider's library is there."""
    return (
        provider(device, evidence) is Provider.NOT_LISTED
        and library(device, evidence) is Library.FOUND
        and named(device, evidence).is_named is False
    )


def not_loaded(device: DeviceView, evidence: Evidence) -> str | None:
    """What libibverbs wrote where the dynamic linker refused the provider's library."""
    name = provider_of(device.provider) if device.provider else None
    lines = stderr_of(evidence, _NOT_LOADED)
    return next((line for line in lines if name and f"lib{name}-rdmav" in line), None)


def stderr_of(evidence: Evidence, words: str) -> tuple[str, ...]:
    """The lines of libibverbs on stderr that have these words."""
    verbs = evidence.verbs
    return () if isinstance(verbs, Missing) else tuple(w for w in verbs.warnings if words in w)


def library_need(device: DeviceView, evidence: Evidence) -> Missing | None:
    """Why `library` does not know."""
    process = evidence.process
    found = process if isinstance(process, Missing) else process.library
    if isinstance(found, Missing):
        return found
    if not found.libibverbs:
        return None
    if isinstance(evidence.nldev, Missing):
        return evidence.nldev
    # nldev names the driver that libibverbs goes by; the PCI function's is a guess at it.
    chardev = device.nldev.chardev if device.nldev else no_nldev(evidence)
    if isinstance(chardev, Missing):
        return None if chardev.why is Why.ABSENT else chardev
    driver = chardev.driver
    return driver if isinstance(driver, Missing) and driver.why is not Why.ABSENT else None
