"""How far a test between two hosts came, by what it prints of its ends and of its result.

A test that hangs prints no error: the log ends after the addresses, or after the header of a
result that never came. perftest's src/perftest_communication.c and perftest_parameters.c,
libibverbs/examples and librdmacm/examples of rdma-core, src/tools/perf of UCX.

>>> benchmark = Benchmark()
>>> benchmark.take(b"  local address:  LID 0x0000, QPN 0x000011, PSN 0x1, GID ::ffff:192.0.2.1", 1)
True
>>> benchmark.reached, benchmark.ends["local"].gid.ipv4, benchmark.is_stopped
(<Reached.OWN_END: 2>, '192.0.2.1', True)
"""

import re
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from rdmadiag.explain.causes import Known, Labels, all_stated
from rdmadiag.explain.log.groups import TEXT_KEPT
from rdmadiag.explain.log.kind import SIGNAL, STOPPED, Kind
from rdmadiag.explain.log.line.names import printed_gid
from rdmadiag.explain.remedies import AT_PEER, GIDS, Lines
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.gid import Gid
from rdmadiag.late import late

if TYPE_CHECKING:
    from rdmadiag.explain.log.meaning import Meaning


class Reached(IntEnum):
    """The last that a test said of itself."""

    NOTHING = 0
    WAITING = 1  # the server, for a client
    OWN_END = 2  # it waits for the other's address, over TCP
    BOTH_ENDS = 3  # the addresses were exchanged
    DATA = 4  # the header of the result
    RESULT = 5


WAITING: Final = (Reached.WAITING, Reached.OWN_END)
"""Nobody has come yet."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of a connection, as a test prints it."""

    lid: int
    qpn: int
    gid: Gid | None
    psn: int | None = None  # the first packet's number, a random one

    @property
    def is_roce(self) -> bool:
        """A port of InfiniBand has a LID; an Ethernet one has none."""
        return self.lid == 0

    @property
    def is_empty(self) -> bool:
        """It has neither a LID nor a GID to be reached by."""
        return self.is_roce and self.gid is not None and self.gid.is_zero


_STEP: Final = late(
    rb"(?P<which>local|remote) address:\s+LID (?:0x)?(?P<lid>[0-9a-f]{1,6}),?"
    rb" QPN (?:0x)?(?P<qpn>[0-9a-f]{1,8})(?:,? PSN (?:0x)?(?P<psn>[0-9a-f]{1,8}))?"
    rb"|(?P<waits>Waiting for client to connect)"
    rb"|(?P<header>Dual-port +: )"
    rb"|(?P<streams>\bname +bytes +xfers +iters +total +time\b)"  # rstream of librdmacm
    rb"|(?P<table># ?bytes +# ?iterations|#bytes +#iterations)"
    rb"|(?P<result>^ *(?P<iterations>\d{1,12}) iters in [\d.]+ seconds = )",
    re.IGNORECASE,
)
# perftest and ibv_*_pingpong, of the TCP connection: an address, or a name and a port.
_CONNECTS_TO: Final = late(
    rb"\bconnect to (?:(?P<address>[0-9a-f.:]{3,45}?)(?::(?P<port>[0-9]{1,5}))?"
    rb"|(?P<name>[a-z0-9_][a-z0-9_.-]{0,252}):(?P<its_port>[0-9]{1,5}))(?::?\s|$)",
    re.IGNORECASE,
)
_LISTENS: Final = late(rb"rdmadiag: waiting \d+ s on \[?([0-9a-f.:]{3,45}?)\]?:\d{1,5};")
# What a shell prints of a program that a signal ended: bash's "FILE: line 3: 812 Killed", or alone.
_DIED: Final = late(
    rb"^(?:(?:[^\s:]{1,200}: )?line \d{1,9}: +\d{1,9} +)?(?P<how>Killed|Bus error"
    rb"|Segmentation fault|Illegal instruction|CPU time limit exceeded|Aborted|Hangup"
    rb"|File size limit exceeded|Alarm clock|(?:Virtual|Profiling) timer expired"
    rb"|User defined signal [12])(?: *\(core dumped\))?"
    rb"(?: {2,}\S.*)?\s*$"
)
# What a batch system says that has done it.
_KILLED: Final = late(rb"\b(?:is|was|were|been|job) killed\b")
_OF_SIGNAL: Final[dict[bytes, Labels]] = {
    b"Killed": ("interrupted", "no-memory"),
    b"CPU time limit exceeded": ("interrupted",),
    b"File size limit exceeded": ("interrupted",),
    b"Hangup": ("interrupted",),
    **dict.fromkeys(
        (
            *(b"Alarm clock", b"Virtual timer expired", b"Profiling timer expired"),
            *(b"User defined signal 1", b"User defined signal 2"),
        ),
        ("interrupted", "no-path", "peer-gone"),  # what hangs is often ended so
    ),
}
_CRASHED: Final[Labels] = ("provider-fault",)
# Whoever ends a program that hangs leaves it, too: it says less than the others.
_ENDED: Final = late(
    rb"^(?:(?:[^\s:]{1,200}: )?line \d{1,9}: +\d{1,9} +)?Terminated(?: {2,}\S.*)?\s*$"
)
_OWN_PORT: Final = 18515
"""Of perftest and the pingpongs, where -p gives no other."""
_LONGEST_INDENT: Final = 4
"""What perftest itself puts before a table."""
_ROW: Final = late(rb"(?m)^ *\d+ +(?P<iterations>\d{1,12}) +(?:[\d.]+|-?inf|-?nan)\b")
_STREAMED: Final = late(rb"\w(?: +\d+(?:\.\d+)?[kmgb]?){4} +\d+\.\d+s ")
_HEADER: Final = late(
    r"(Connection type|Mtu|Number of qps|GID index|Device|TX depth|Dual-port) *: *([\w.]+)"
)
_TEST: Final = late(r"^ {4,}(\S[\w ]{2,40}(?:Test|BW|Latency)) *$", re.MULTILINE)
_IN_PINGPONG: Final = late(rb"LID 0x[0-9a-f]+, QPN")

_UNANSWERED: Final[Labels] = (
    "firewall",
    "peer-not-started",
    "peer-address-wrong",
    "peer-host-down",
)
_LOST_ON_ROCE: Final[Labels] = (
    *("roce-port-dropped", "no-path", "mtu-too-large", "peer-posts-no-receives", "peer-gone"),
)
_LOST: Final[Labels] = ("no-path", "peer-posts-no-receives", "mtu-too-large", "peer-gone")
_UNRELIABLE: Final = {"UC": "uc-reports-no-loss", "UD": "ud-reports-no-loss"}

_OVER_TCP: Final = (
    "# this is TCP between the ends, not RDMA yet: the server waits, or the client is not answered",
    "nc -vz PEER PORT   # perftest and the pingpongs: 18515, where -p gave no other",
    "ip route get PEER",
    "sudo nft list ruleset   # at both ends",
)
_AFTER_SIGNAL: Final = (
    "sudo dmesg -T | grep -i -e 'out of memory' -e oom-kill -e segfault -e traps",
    "ulimit -a   # -t: seconds of computing; -v: address space",
    "cat /sys/fs/cgroup/$(cut -d: -f3 /proc/self/cgroup)/memory.events   # oom_kill",
)
_OVER_RDMA: Final = (
    "# TCP went through, and RDMA does not: what each end printed, and its counters, show which",
    "rdmadiag pingpong --allow-rtr PEER   # distinguishes loss, a filter and an MTU",
    "sudo nft list ruleset   # RoCE v2 is UDP port 4791, at both ends and on the switch",
    GIDS,
    AT_PEER,
)


def _without_prefix(after: bytes, length: int) -> bytes:
    """Lines without what a logger or a launcher put before each of them, of so many bytes."""
    if length < _LONGEST_INDENT:
        return after
    return b"\n".join(line[length:] for line in after.split(b"\n"))


@dataclass(slots=True)
class Benchmark:
    """What one log has of the last test in it."""

    reached: Reached = Reached.NOTHING
    line: int = 0
    text: str = ""
    tool: str = "perftest"
    ends: dict[str, End] = field(default_factory=dict)
    header: dict[str, str] = field(default_factory=dict)
    iterations: int | None = None
    died: bytes = b""  # "Killed": as its shell said
    tried: str | None = None  # the address or name that it could not connect to
    tried_port: int | None = None
    listens_at: str | None = None  # the address at which `rdmadiag pingpong` says that it waits
    is_ended: bool = False  # "Terminated", which its shell said: somebody ended it

    def look(self, line: bytes, number: int) -> None:
        """At a line of whatever meaning: an address that was not reached, a signal."""
        if found := _CONNECTS_TO.search(line[:512]):
            self.tried = (found["address"] or found["name"]).decode()
            port = found["port"] or found["its_port"]
            self.tried_port = int(port) if port else None
        if found := _LISTENS.match(line[:512]):
            self.listens_at = found[1].decode()
        self.is_ended = self.is_ended or bool(_ENDED.match(line[:512]))
        died = _DIED.match(line[:512])
        if died or _KILLED.search(line[:512]):
            self.died = died["how"] if died else b"Killed"
            self.line, self.text = number, line.decode("utf-8", "replace").strip()[:TEXT_KEPT]

    def take(self, line: bytes, number: int, after: bytes = b"", above: bytes = b"") -> bool:
        """Whether the line is a step of a test."""
        found = _STEP.search(line[:512])
        if found is None:
            return False
        text = line.decode("utf-8", "replace")
        if found["waits"]:
            self._begin()
            reached = Reached.WAITING
        elif found["header"]:
            around = b"\n".join((above, line, after)).decode("utf-8", "replace")
            self.header = dict(_HEADER.findall(around))
            if test := _TEST.findall(around):
                self.header["test"] = test[-1].strip()
            return True
        elif found["streams"]:  # printed before it connects, or listens
            self.tool = "rstream"
            reached = Reached.RESULT if _STREAMED.search(after) else Reached.OWN_END
        elif which := found["which"]:
            reached = self._end(which.decode().lower(), found, line, after)
        elif found["table"]:
            row = _ROW.search(_without_prefix(after, found.start()))
            reached = Reached.RESULT if row else Reached.DATA
            self.iterations = int(row["iterations"]) if row else None
        else:
            self.iterations = int(found["iterations"])
            reached = Reached.RESULT
        self.reached = reached
        self.line, self.text = number, text.strip()[:TEXT_KEPT]
        return True

    def _begin(self) -> None:
        self.ends, self.header, self.iterations = {}, {}, None

    def _end(self, which: str, found: "re.Match[bytes]", line: bytes, after: bytes) -> Reached:
        if which == "local" and self.reached is Reached.RESULT:
            header = self.header
            self._begin()
            self.header = header  # perftest prints it before the addresses
        text = b"\n".join((line, after[:128])).decode("utf-8", "replace")
        psn = int(found["psn"], 16) if found["psn"] else None
        end = End(int(found["lid"], 16), int(found["qpn"], 16), printed_gid(text, which), psn)
        self.ends.setdefault(which, end)
        self.tool = "rc_pingpong" if _IN_PINGPONG.search(line) else "perftest"
        return Reached.OWN_END if which == "local" else Reached.BOTH_ENDS

    @property
    def went_to_own_port(self) -> bool:
        """Whether it went to the port that such programs take by themselves."""
        return self.tried_port == _OWN_PORT

    @property
    def has_met(self) -> bool:
        """The ends have each other's addresses."""
        return self.reached >= Reached.BOTH_ENDS

    @property
    def is_stopped(self) -> bool:
        """It said where it is, and of no result.

        perftest prints both addresses and the header at once, before it sends: a part of that is
        an excerpt.
        """
        least = Reached.DATA if self.tool == "perftest" else Reached.OWN_END
        return least <= self.reached <= Reached.DATA

    @property
    def has_result(self) -> bool:
        """It came to its end."""
        return self.reached is Reached.RESULT

    @property
    def empty_end(self) -> str | None:
        """The end that printed an address by which nothing reaches it."""
        return next((which for which, end in self.ends.items() if end.is_empty), None)

    def stopped(self) -> "Meaning":
        """What it means that nothing followed; for a test that has stopped."""
        over_tcp = self.reached < Reached.BOTH_ENDS
        stage = Stage.CONNECT if over_tcp else Stage.DATA
        labels = _UNANSWERED if over_tcp else self._lost()
        causes = all_stated((*labels, "interrupted") if self.is_ended else labels, "no_peer")
        look = _OVER_TCP if over_tcp else _OVER_RDMA
        return self._meaning(STOPPED, Kind.CONSEQUENCE, stage, causes, look)

    def empty(self) -> "Meaning":
        """What it means that an end printed neither a LID nor a GID."""
        own = self.empty_end == "local"
        labels = ("no-gid-given", "gid-row-empty") if own else ("gid-row-empty", "no-gid-given")
        causes = all_stated(labels, *(() if own else ("peer",)))
        look = (GIDS, *(() if own else (AT_PEER,)), "# an index that has a row: -g, of perftest -x")
        return self._meaning("empty-gid", Kind.FAILURE, Stage.RTR, causes, look)

    def ended_by_signal(self) -> "Meaning":
        """What it means that a signal ended the program."""
        causes = all_stated(_OF_SIGNAL.get(self.died, _CRASHED), "died")
        return self._meaning(SIGNAL, Kind.FAILURE, None, causes, _AFTER_SIGNAL)

    def _lost(self) -> Labels:
        local = self.ends.get("local")
        known = _LOST_ON_ROCE if local and local.is_roce else _LOST
        unreliable = _UNRELIABLE.get(self.header.get("Connection type", ""))
        return (unreliable, *known[:4]) if unreliable else known

    def _meaning(
        self, what: str, kind: Kind, stage: Stage | None, causes: tuple[Known, ...], look: Lines
    ) -> "Meaning":
        from rdmadiag.explain.log.line.fields import fields
        from rdmadiag.explain.log.meaning import Meaning

        found = replace(fields(self.text), tool=self.tool, stage=stage)
        return Meaning(kind, what, found, causes, look)
