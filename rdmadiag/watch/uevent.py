r"""The kernel's uevents: what came to sysfs, went from it, or was bound to a driver.

    add@/devices/virtual/infiniband/rxe0\0ACTION=add\0DEVPATH=/devices/virtual/…\0
    SUBSYSTEM=infiniband\0NAME=rxe0\0SEQNUM=1234\0

Of the variables those in _KEPT alone: a driver may put anything into its own.
"""

from typing import Final

from rdmadiag.watch.event import NOTHING, Action, Happened, Kind, Source, Value
from rdmadiag.watch.route import unreadable

GROUP: Final = 1
"""The kernel's own; those of udev are in group 2."""

SUBSYSTEMS: Final = frozenset(
    {"infiniband", "infiniband_cm", "infiniband_mad", "infiniband_verbs", "net", "pci"}
    | {"auxiliary", "module", "drivers", "thunderbolt"}
)
"""Those that RDMA stands on; a host's disks and inputs are not for a record."""

_ACTIONS: Final = {"add": Action.ADDED, "remove": Action.REMOVED, "move": Action.RENAMED}
_KEPT: Final = ("DRIVER", "INTERFACE", "NAME", "PCI_SLOT_NAME", "PCI_ID", "DEVPATH_OLD", "DEVNAME")
_LONGEST: Final = 200  # characters of a value


def parse_uevent(datagram: bytes) -> Happened | None:
    """One uevent; None for one of a subsystem that is not followed."""
    head, *rest = datagram.rstrip(b"\0").decode("utf-8", "backslashreplace").split("\0")
    found = dict(each.split("=", 1) for each in rest if "=" in each)
    action, path, subsystem = (found.get(name) for name in ("ACTION", "DEVPATH", "SUBSYSTEM"))
    if not action or not path or head != f"{action}@{path}":
        return unreadable(Source.UEVENT, f"no uevent: {head[:60]!r}")
    if subsystem not in SUBSYSTEMS:
        return None
    details: dict[str, Value] = {"action": action, "subsystem": subsystem, "path": path[:_LONGEST]}
    for name in _KEPT:
        if name in found:
            details[name.lower()] = found[name][:_LONGEST]
    subject = path.rpartition("/")[2][:_LONGEST]
    action_word = _ACTIONS.get(action, Action.CHANGED)
    return Happened(Source.UEVENT, Kind.OBJECT, action_word, subject, details, NOTHING)
