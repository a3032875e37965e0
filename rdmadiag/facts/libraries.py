"""Libraries that a process has mapped, and their versions."""

from rdmadiag.facts import Missing
from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class MappedLibrary:
    """One of them: a file that the dynamic linker, or dlopen(3), brought in."""

    name: str  # "nccl"
    path: str  # as the process sees it: "/usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5"
    version: str | Missing  # "2.21.5": of the file's name, else of the Python wheel around it


@dataclass(frozen=True, slots=True)
class LibrariesFacts:
    """/proc/PID/maps of the process that --pid names."""

    pid: int
    mapped: tuple[MappedLibrary, ...]  # () where it has none of those that are looked for
