"""One sign: a failure that is neither an errno nor a status."""

import re
from enum import StrEnum
from typing import Final

from rdmadiag.explain.causes import Known, Labels, all_stated, remedy
from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.remedies import Lines
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.errnos import Platform
from rdmadiag.frozen import dataclass
from rdmadiag.late import late


class Errno(StrEnum):
    """Where the causes of an errno stand that is in the same line."""

    FIRST = "first"  # it says more than the sign
    LAST = "last"  # it is that of the message, or adds little
    STALE = "stale"  # of an earlier call: the program prints it where none had failed
    REPLACES_SIGN = "replaces_sign"  # it names the stage, and the sign is a hint beside it


@dataclass(frozen=True, slots=True)
class Sign:
    """How a line is recognised, what it means, and what to look at."""

    word: str  # what happened, as a stable label
    kind: Kind
    stage: Stage | None
    pattern: "re.Pattern[str]"
    only: "re.Pattern[str] | None"  # something else that the line must have
    labels: Labels  # of causes, the likeliest first
    next: Lines | None  # templates; None: the remedy of the first cause
    platform: Platform | None  # only there
    errno: Errno
    names_row: bool  # a GID index in the line is that of a row that could not be used

    def fits(self, lowercase: str, platform: str) -> bool:
        """Whether a line of that platform has it."""
        return bool(
            self.platform in (None, platform)
            and self.pattern.search(lowercase)
            and (self.only is None or self.only.search(lowercase))
        )

    @property
    def causes(self) -> tuple[Known, ...]:
        """The likeliest first."""
        return all_stated(self.labels, self.word, self.stage or "")

    def look(self, platform: str) -> Lines:
        """Templates of what to look at."""
        if self.next is not None:
            return self.next
        return remedy(self.labels[0], platform) or remedy(self.labels[0], "linux")


def sign(
    word: str,
    kind: Kind,
    stage: Stage | None,
    pattern: str,
    labels: Labels,
    look: Lines | None = None,
    *,
    only: str | None = None,
    platform: Platform | None = None,
    errno: Errno | None = None,
    names_row: bool = False,
) -> Sign:
    """A row from its patterns, which are matched against lowercase text."""
    return Sign(
        word,
        kind,
        stage,
        _lowercase(pattern),
        _lowercase(only) if only else None,
        labels,
        look,
        platform,
        errno or (Errno.FIRST if stage is Stage.CONNECT else Errno.LAST),
        names_row,
    )


def _lowercase(pattern: str) -> "re.Pattern[str]":
    """Of lowercase text: several times as fast as a pattern that ignores case."""
    if re.search(r"\\[A-Z]", pattern):
        raise ValueError(f"{pattern!r} would mean something else in lowercase")
    return late(pattern.lower())


FAILS: Final = (
    r"fail|error|unable|could ?n[o']t|cannot|can't|not found|no such|invalid|no available|missing"
)
OF_RDMA: Final = (
    r"\bIB\b|ibv|verbs|rdma|infiniband|\bHCA|RoCE|RNIC|NET/IB|openfabrics|mlx[45]|uverbs"
)
OF_DRIVER: Final = r"mlx[45]|bnxt|irdma|\bice\b|ionic|qedr|qede|hns3|hfi1|infiniband|\bib\d|rdma"
CRASH: Final = r"SIGSEGV|segmentation|signal 11|crash|EXC_BAD"
