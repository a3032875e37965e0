"""What listings show that is none of RDMA: Slurm's accounting, disks, nodes, GPUs, a BMC's log."""

from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.explain.pasted.session import Part, Shown
from rdmadiag.late import late

_OUT_OF_MEMORY: Final = late(r"\s*[\d_]+(?:\.\S+)?\s.*\bOUT_OF_ME")
_TIMEOUT: Final = late(r"\s*[\d_]+\s.*\bTIMEOUT\b")
_FULL: Final = late(r"\S+ +[\d.]+\w? +[\d.]+\w? +[\d.]+\w? +100% +(/\S*)$")  # of df
_READ_ONLY: Final = late(r"^/dev/(?:loop|sr)\d|/snap/|squashfs|iso9660|^overlay ")
_GPU: Final = late(
    r"\s*Remapping Failure Occurred\s*: Yes|\s*(?:DRAM|SRAM) Uncorrectable\w*\s*: [1-9]"
    r"|\s*GPU requires reset\s*: Yes|\|.*\bERR!"
)
_DISK: Final = late(r"\s*DiskPressure\s+True\b")  # a condition of a node of Kubernetes
_MEMORY: Final = late(r".*\bUncorrectable (?:machine check|ECC|memory)\b.*\bAsserted\b")


def of_others(several: Sequence[Part]) -> Iterator[Shown]:
    """What they show, in order."""
    for part in several:
        for line in part.lines:
            if "sacct" in part.command and _OUT_OF_MEMORY.match(line.text):
                yield Shown(("killed-for-memory",), line)
            elif "sacct" in part.command and _TIMEOUT.match(line.text):
                yield Shown(("job-ended",), line)
            elif _DISK.match(line.text):
                yield Shown(("disk-full",), line)
            elif (full := _FULL.match(line.text)) and not _READ_ONLY.search(line.text):
                yield Shown(
                    ("shm-too-small",) if full[1].endswith("/shm") else ("disk-full",), line
                )
            elif "fabricmanager" in part.command and line.text.strip() in ("failed", "inactive"):
                yield Shown(("fabric-manager-down",), line)
            elif _GPU.match(line.text):
                yield Shown(("gpu-fault",), line)
            elif _MEMORY.match(line.text):
                yield Shown(("host-memory-failed",), line)
