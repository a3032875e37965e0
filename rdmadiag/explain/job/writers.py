"""Which rank, host and process wrote a line, and what a job says of who is who.

Read in: NCCL src/debug.cc (the prefix), src/init.cc (Init START, COMPLETE),
src/transport/net_ib/init.cc (Using); UCX src/ucs/debug/log.c; torchrun's and mpirun's tags.
"""

import re
from typing import Final

from rdmadiag.fleet.lines import Label, Mark
from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Writer:
    """Who wrote a line, as far as is known."""

    rank: int | None = None
    host: str | None = None
    pid: int | None = None

    def over(self, other: "Writer") -> "Writer":
        """This one, with what it lacks taken from the other."""
        return Writer(
            self.rank if self.rank is not None else other.rank,
            self.host or other.host,
            self.pid if self.pid is not None else other.pid,
        )


NOBODY: Final = Writer()
_DIGITS: Final = r"\d{1,9}"
_HOST: Final = r"[A-Za-z0-9](?:[\w.-]{0,251}\w)?"
_RANK: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"^\[{_DIGITS},({_DIGITS})\]<std(?:err|out)>",  # mpirun --tag-output
        rf"^\W{{0,2}}\[?(?:default)?\[?rank ?({_DIGITS})\]?[:\]]",  # torch
        rf"^rank ({_DIGITS})\b",
    )
)
_PROCESS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:^|[\s\]>:])({_HOST}):({_DIGITS}):{_DIGITS} \[\d+\]",  # NCCL
        rf"\[({_HOST}):({_DIGITS}) *(?::[\w ]+(?::\d+)?)?\]",  # UCX, Open MPI
    )
)
_OF_SYSLOG: Final = re.compile(
    rf"^(?:\w{{3}} +\d+ \d\d:\d\d:\d\d|\d{{4}}-\d\d-\d\dT\S+) ({_HOST}) [\w./-]+(?:\[\d+\])?:"
)
_RAY: Final = re.compile(r"\((?:\w+ )?pid=(\d{1,9}), ip=([\d.]{7,15})\)")


_ADDRESS: Final = re.compile(r"[0-9.]+|.*:.*")


def is_name(host: str) -> bool:
    """Whether it is no address."""
    return _ADDRESS.fullmatch(host) is None


def short(host: str) -> str:
    """Without its domain, as NCCL and syslog name a host; an address as it is."""
    return host.partition(".")[0] or host if is_name(host) else host


def writer_of(text: str) -> Writer:
    """What the line itself says of who wrote it."""
    head = text[:512]
    rank = next((int(found[1]) for each in _RANK if (found := each.search(head))), None)
    for each in _PROCESS:
        if found := each.search(head):
            return Writer(rank, short(found[1]), int(found[2]))
    if found := _OF_SYSLOG.search(head):
        return Writer(rank, short(found[1]))
    if found := _RAY.search(head):
        return Writer(rank, found[2], int(found[1]))
    return Writer(rank)


def labelled(label: Label) -> Writer:
    """What a launcher says of it."""
    if label.mark is Mark.TASK:
        return Writer(rank=int(label.text))
    if label.mark is Mark.NONE or "[" in label.text:
        return NOBODY
    return Writer(host=short(label.text))


_OF_NAME: Final = re.compile(r"(?:rank|task|proc)[-_.=]?(\d{1,7})(?!\d)", re.IGNORECASE)
_PID_OF_NAME: Final = re.compile(r"-pid(\d{1,9})\b")


def named(path: str, hosts: frozenset[str]) -> Writer:
    """What a file is called after: a rank, and one of the hosts that are known."""
    parts = path.split("/")
    rank = pid = host = None
    for part in reversed(parts[-4:]):
        if rank is None and (found := _OF_NAME.search(part)):
            rank = int(found[1])
        if pid is None and (found := _PID_OF_NAME.search(part)):
            pid = int(found[1])
        if host is None:
            words = re.split(r"[^A-Za-z0-9-]+", part)
            tried = (part, part.partition(".")[0], *words, *part.split("-"), *part.split("_"))
            host = next((each for each in tried if each in hosts), None)
    return Writer(rank, host, pid)


# --- who is who -----------------------------------------------------------------------------

_INIT: Final = re.compile(
    r"\brank (\d{1,7}) nranks (\d{1,7}) .{0,200}?"
    r"commId (0x[0-9a-f]{1,32}).{0,80}? - Init (START|COMPLETE)"
)
_USING: Final = re.compile(
    r"NET/IB : Using (?P<devices>(?:\[\d+\][^\s;]{1,120} ?)*)[^;]{0,80}; "
    r"OOB (?P<netdev>[^\s:]{1,32}):(?P<address>[0-9A-Fa-f.:%\w]{2,64})<\d+>"
)
_DEVICE: Final = re.compile(r"\[\d+\]([A-Za-z][\w.+-]{0,63})(?::\d+)?/")


@dataclass(frozen=True, slots=True)
class Joined:
    """A rank of a communicator says that it begins, or is there."""

    rank: int
    ranks: int
    communicator: str
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Using:
    """The NICs that NCCL took on a host, and its address out of band."""

    devices: tuple[str, ...]
    address: str


def introduction(text: str) -> Joined | Using | None:
    """What a line of NCCL_DEBUG=INFO says of who is who."""
    if found := _INIT.search(text):
        return Joined(int(found[1]), int(found[2]), found[3], found[4] == "COMPLETE")
    if found := _USING.search(text):
        devices = tuple(each[1] for each in _DEVICE.finditer(found["devices"]))
        return Using(devices[:64], found["address"])
    return None
