"""Causes that the same log rules out: a limit that is none, a module that is loaded."""

import re
from collections.abc import Iterable
from typing import Final

from rdmadiag.explain.log.groups import Group
from rdmadiag.explain.log.kind import MAY_BE, SHOWN
from rdmadiag.explain.log.ranking.first_causes import promote
from rdmadiag.facts.attempt import Stage
from rdmadiag.late import late

MEMLOCK: Final = "memlock"
INSTEAD: Final = {
    Stage.REG_MR: ("mr-exhausted", "no-memory"),
    Stage.CREATE_QP: ("qp-too-large", "qp-exhausted", "no-memory"),
    Stage.CREATE_CQ: ("cq-too-large", "no-memory"),
}
"""What else a call that finds no memory may want."""
_OF_THE_KERNEL: Final = late(
    r"\b(?:nvme nvme\d+|nvmet_rdma|iser|isert|ib_isert|ib_srpt?|RDS/IB|rpcrdma|svcrdma|xprtrdma"
    r"|kiblnd_\w+|LNetError|rtrs_\w+|rnbd_\w+|ksmbd|smbdirect)\b"
)
"""A consumer in the kernel: RLIMIT_MEMLOCK is of processes (setrlimit(2))."""
_UNLIMITED: Final = late(
    r"\(current: unlimited\)"  # of UCX, which gives its hint whatever the limit is
    r"|^Max locked memory +unlimited +unlimited\b",  # of proc_pid_limits(5)
    re.MULTILINE,
)
"""Not ulimit -l of a shell: a job may have another limit."""
_LIMITED: Final = late(r"\(current: \d|^Max locked memory +\d|\bRLIMIT_MEMLOCK\b", re.MULTILINE)


def of_limits(groups: Iterable[Group], text: str) -> None:
    """No limit on locked memory, where the kernel itself has asked or there is none."""
    has_none = _UNLIMITED.search(text) is not None and not _LIMITED.search(text)
    for group in groups:
        if [each.label for each in group.meaning.causes[:1]] != [MEMLOCK]:
            continue
        own = _OF_THE_KERNEL.search(group.text) or _UNLIMITED.search(group.text)
        if has_none or (own and not _LIMITED.search(group.text)):
            instead = INSTEAD.get(group.meaning.fields.stage or Stage.OPEN, ("no-memory",))
            promote(group, instead, without={MEMLOCK})


_PEERMEM: Final = late(r"(?m)^nvidia_peermem +\d+ +\d+|^ +\d+ [\w,]*\bnvidia_peermem\b")
_GDR_OFF: Final = "gdr-off"


def of_modules(groups: Iterable[Group], text: str) -> None:
    """nvidia_peermem is not missing where lsmod(8) lists it."""
    if not _PEERMEM.search(text):
        return
    for group in groups:
        first, *others = [each.label for each in group.meaning.causes] or [""]
        if first == _GDR_OFF and group.meaning.what not in (SHOWN, MAY_BE):
            full = [each for each in others if each == _GPU_FULL]
            promote(group, (*full, "memory-kind", "acs-or-iommu"), without={_GDR_OFF})


_GPU_FULL: Final = "gpu-bar-exhausted"
