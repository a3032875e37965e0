"""Whether two InfiniBand ports are in one partition, by the tables of both."""

from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ib import PKEY_BASE, PKEY_FULL
from rdmadiag.view.reconcile import PortView

NOT_SHARED: Final = "no partition has both, one of them as a full member (bit 15)"
NOT_KNOWN: Final = "the partition keys of both ends are not known"

_NO_SYSFS: Final = Missing(Why.NOT_COLLECTED, "sysfs does not show the port")


def partition_keys(port: PortView) -> dict[int, int] | Missing:
    """Those of its table that are not empty, by index."""
    return port.sysfs.pkeys if port.sysfs else _NO_SYSFS


def in_one_partition(local: PortView, remote: PortView) -> bool | None:
    """Whether both are in a partition of which one is a full member; None where it is not known."""
    ours, theirs = partition_keys(local), partition_keys(remote)
    if isinstance(ours, Missing) or isinstance(theirs, Missing):
        return None
    return not _full(ours).isdisjoint(_every(theirs)) or not _full(theirs).isdisjoint(_every(ours))


def _every(keys: dict[int, int]) -> set[int]:
    return {key & PKEY_BASE for key in keys.values() if key & PKEY_BASE}


def _full(keys: dict[int, int]) -> set[int]:
    return {key & PKEY_BASE for key in keys.values() if key & PKEY_FULL and key & PKEY_BASE}
