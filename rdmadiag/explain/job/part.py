"""What one file of a job says: who failed at what, when, towards whom; who is who.

Of each writer and kind of failure the first line is kept and how many there were, so that a
storm takes no memory; what lines mean is `explain.log.recognition.recognise`'s.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from rdmadiag.explain.causes import all_stated, remedy
from rdmadiag.explain.job import stamps
from rdmadiag.explain.job.alone import Alone
from rdmadiag.explain.job.stamps import Stamp, stamp_of
from rdmadiag.explain.job.writers import (
    NOBODY,
    Joined,
    Using,
    Writer,
    introduction,
    labelled,
    short,
    writer_of,
)
from rdmadiag.explain.log.collector import Collector
from rdmadiag.explain.log.groups import TEXT_KEPT, Group
from rdmadiag.explain.log.kind import NOT_STARTED, PROGRAM_ERROR, STOPPED, Kind
from rdmadiag.explain.log.line.fields import fields
from rdmadiag.explain.log.line.launchers import unmarked
from rdmadiag.explain.log.line.names import local_gid_of, peer_of, printed_gid, remote_gid_of
from rdmadiag.explain.log.meaning import Meaning
from rdmadiag.explain.log.recognition.job_words import is_of_a_job, stands_in_a_job
from rdmadiag.explain.log.recognition.links import (
    LINK_DOWN,
    Links,
    again_and_again,
    is_of_a_link,
    link_of,
    says_down,
)
from rdmadiag.explain.log.recognition.reader import Candidate, Lines, Meanings, around, says_nothing
from rdmadiag.explain.log.recognition.settings import OF_THE_WAY
from rdmadiag.explain.log.recognition.vocabulary import NEEDLES as OF_FAILURES
from rdmadiag.explain.log.scan import take
from rdmadiag.explain.log.text.benchmark import Benchmark
from rdmadiag.explain.log.text.beside_candidates import Kept
from rdmadiag.explain.log.text.endings import (
    End,
    Ending,
    end_of,
    is_own_fault,
    last_message,
    meaning_of_last,
    numbered,
)
from rdmadiag.explain.log.text.short_text import MOST_LINES
from rdmadiag.fleet.lines import Label, Mark

NEEDLES: Final = {
    **OF_FAILURES,
    b" - init start": 3,
    b" - init complete": 3,
    b"net/ib : using": 3,
    b"srun: error: ": 3,
    b"nvrm: xid": 3,
    b"out of memory: kill": 3,
    b"----------": 3,
    b"killed": 3,
    b"segmentation fault": 3,
    b"bus error": 3,
    b"illegal instruction": 3,
    b"limit exceeded": 3,
    b"aborted": 3,
    b"hangup": 3,
    b"terminated": 3,
    b"rdmadiag: waiting ": 3,
}
"""Words that a line is looked at for; those of who is who beside those of failures."""

MOST_SIGHTINGS: Final = 4_000  # of one file
MOST_WRITERS: Final = 100_000
OF_A_TRACEBACK: Final = 40  # lines
OF_A_START: Final = 5  # different lines of a shell, or a script, whose program was not started
_WRAPPED: Final = 1024  # bytes after which srun -l breaks a line (MAX_MSG_LEN)


@dataclass(slots=True)
class Occurrence:
    """Lines of one writer that say the same; the first of them."""

    where: str  # the file
    line: int
    writer: Writer
    stamp: Stamp | None
    meaning: Meaning
    local_gid: str | None
    remote_gid: str | None
    peer: str | None
    count: int = 1
    last_line: int = 0
    # Of a link that came up again: when it went down.
    flaps: tuple[Stamp | None, ...] = ()

    @property
    def text(self) -> str:
        """The line, cut off."""
        return self.meaning.fields.text[:TEXT_KEPT]


@dataclass(slots=True)
class Elsewhere:
    """A line of how a process or a GPU ended, which is nothing of RDMA."""

    where: str
    line: int
    writer: Writer
    stamp: Stamp | None
    text: str


@dataclass(slots=True)
class Part:
    """What one file says."""

    where: str
    own: Writer = NOBODY  # whose it is where its lines do not say
    mark: Mark = Mark.NONE
    lines: int = 0
    bytes: int = 0
    occurrences: list[Occurrence] = field(default_factory=list)
    elsewhere: list[Elsewhere] = field(default_factory=list)
    joined: dict[Writer, tuple[int, int]] = field(default_factory=dict)  # → ranks, its rank
    using: dict[str, Using] = field(default_factory=dict)  # by host
    meetings: dict[str, list[tuple[Writer, Stamp]]] = field(default_factory=dict)
    twice_timed: list[tuple[str, Stamp, Stamp]] = field(default_factory=list)  # (host, …)
    aftermath: dict[Writer, int] = field(default_factory=dict)
    dropped: int = 0
    last: Stamp | None = None  # of the last line that has one
    end: End | None = None  # how a program ended that failed, by the end of the file
    last_line: End | None = None  # the last that is not blank, of a file that says little
    ports: frozenset[int] = frozenset()  # that its lines name, of a file of a few lines
    by_cm: bool | None = None  # whether perftest was started with -R (rdma_cm); None: not shown
    fails_last: bool = False  # `end` is of RDMA, and fails as nothing goes on below it
    is_a_traceback: bool = False  # of Python, by a fault of its program, and nothing else
    benchmark: Benchmark = field(default_factory=Benchmark)  # how far a test between two hosts came

    @property
    def writers(self) -> set[Writer]:
        """Everybody who said anything that was kept."""
        return {
            *(each.writer for each in self.occurrences),
            *self.joined,
            *self.aftermath,
            *([self.own] if self.own != NOBODY else []),
        }

    def stopped(self) -> Occurrence:
        """That a test said how far it is, and nothing after, as if it were a line."""
        return self._of_benchmark(self.benchmark.stopped())

    def died(self) -> Occurrence:
        """That a signal ended the program."""
        return self._of_benchmark(self.benchmark.ended_by_signal())

    def not_started(self, end: End) -> Occurrence:
        """That the program was not started: by the line that says why."""
        found = fields(end.text)
        causes, look = all_stated((NOT_STARTED,)), remedy(NOT_STARTED, found.platform)
        meaning = Meaning(Kind.FAILURE, NOT_STARTED, found, causes, look)
        return self._of_end(end, meaning)

    def perhaps_not_started(self, end: End) -> Occurrence:
        """The same of a line that may be of something else: it is no failure that is known."""
        seen = self.not_started(end)
        seen.meaning = replace(seen.meaning, what=STOPPED)
        return seen

    def ended_by_itself(self, end: End) -> Occurrence:
        """That the program ended by a fault of its own, which the line names."""
        found = replace(fields(end.text), errno=None, status=None, stage=None)
        causes, look = all_stated((PROGRAM_ERROR,)), remedy(PROGRAM_ERROR, found.platform)
        meaning = Meaning(Kind.FAILURE, PROGRAM_ERROR, found, causes, look)
        return self._of_end(end, meaning)

    def failed_last(self) -> Occurrence | None:
        """What it fails by, of a file that `fails_last`."""
        end = self.end if self.fails_last else None
        meaning = meaning_of_last(end.text) if end else None
        if end is None or meaning is None:
            return None
        return self._of_end(end, meaning)

    def _of_end(self, end: End, meaning: Meaning) -> Occurrence:
        return Occurrence(
            self.where, end.number, self.own, None, meaning, None, None, None, 1, end.number
        )

    def _of_benchmark(self, meaning: Meaning) -> Occurrence:
        benchmark = self.benchmark
        local, remote = (benchmark.ends.get(which) for which in _WHICH)
        return Occurrence(
            self.where,
            benchmark.line,
            self.own,
            None,
            meaning,
            str(local.gid) if local and local.gid else None,
            str(remote.gid) if remote and remote.gid else None,
            None,
            1,
            benchmark.line,
        )


_ENDED: Final = re.compile(
    r"^srun: error: (?P<host>[A-Za-z0-9][\w.-]{0,252}): tasks? (?P<task>\d{1,9}): (?P<how>.{1,160})"
    r"|NVRM: Xid .{1,160}|Out of memory: Killed process .{1,120}"
)
_PORT: Final = re.compile(
    r"\bport[ :=]{1,3}([1-9]\d{3,4})\b"
    r"|\b(?:ib|ibv|raw)_\w+ .*(?<=\s)(?:-p|--port)[ =]?([1-9]\d{3,4})\b",
    re.IGNORECASE,
)
"""One that a user's program may have; not that of a device, which has a digit or two."""
_PERFTEST: Final = re.compile(
    r"(?:^|[#$%>+] )(?:\S*/)?ib_(?:write|read|send|atomic)_(?:bw|lat)(?P<options>(?: .*)?)$"
)
"""As it is typed, or as `set -x` prints it."""
_BY_CM: Final = re.compile(r"(?<=\s)(?:-\w*R\w*|--rdma_cm)\b")
"""Of perftest: it connects by rdma_cm, where else both ends meet over TCP."""
_DASHES: Final = re.compile(rb"-{10,200}\r?")
_END: Final = re.compile(rb"\s{0,4}(local|remote) address: LID ")
_WHICH: Final = ("local", "remote")
_PRINT_ENDS: Final = ("perftest", "rc_pingpong")
_MEETINGS: Final = 64  # of each kind in one file


class Collecting:
    """Takes the candidates of one file; `meanings` and `alone` may have others of the same job."""

    def __init__(self, part: Part, meanings: Meanings, alone: Alone) -> None:
        self.part = part
        self._meanings = meanings
        self._alone = alone
        self._collector = Collector()  # the file by itself
        self._collector.benchmark = part.benchmark
        self._kept: dict[tuple[object, ...], Occurrence] = {}
        self._ends: dict[str, str] = {}  # local, remote → its GID
        self._links = Links()
        self._stamps: dict[int, Stamp | None] = {}  # of lines of links that went down
        self._block: Label | None = None  # clush -b: the header that stands above

    def read(self, candidates: Iterable[Candidate]) -> Part:
        """Takes the lines in turn, each as it is dated and attributed to a rank."""
        for each in candidates:
            self._one(each)
        self._give_ends()
        self._settle_links()
        self._stop()
        return self.part

    def read_rest(self, kept: Kept) -> None:
        """What is read of a file beside its candidates."""
        self._read_end(kept.end, kept.lines)
        if self.part.mark is not Mark.NONE:  # of several processes
            return
        found = self._alone.read(self._collector, kept)
        for each in self.part.occurrences if not found.fails else ():
            if each.meaning.kind in (Kind.FAILURE, Kind.CONSEQUENCE) and not each.flaps:
                each.meaning = replace(each.meaning, kind=Kind.NOTE)
        self.part.occurrences += map(self._of_listing, found.shown)

    def _of_listing(self, group: Group) -> Occurrence:
        host = next(iter(group.speakers), None)
        writer = Writer(None, host).over(self.part.own) if host else self.part.own
        return Occurrence(
            self.part.where, group.number, writer, None, group.meaning, None, None, None
        )

    def _read_end(self, text: bytes, lines: int) -> None:
        """How a program ended; `text` is the end of a file of so many lines."""
        mark = self.part.mark
        if mark is not Mark.NONE:
            rows = (unmarked(each, mark)[1] for each in text.split(b"\n"))
            text = b"\n".join(rows)
        end = self.part.end = end_of(text, lines)
        if end is None or end.what is Ending.TROUBLE:
            message = last_message(text, lines)
            known = meaning_of_last(message.text) if message and mark is Mark.NONE else None
            is_of_rdma = known is not None and not known.is_other
            self.part.fails_last = is_of_rdma and is_of_a_job(text.decode("utf-8", "replace"))
            if message and (end is None or self.part.fails_last):
                end = self.part.end = message
        if end and lines <= OF_A_TRACEBACK and is_own_fault(end.text):
            last = max(n for n, line in numbered(text, lines) if line.strip())
            begins = text.lstrip().startswith(b"Traceback (most recent call last):")
            is_own = begins and last == end.number and "AssertionError" not in end.text
            self.part.is_a_traceback = is_own
        if lines <= MOST_LINES and mark is Mark.NONE:
            named = (_PORT.finditer(line) for _, line in numbered(text, lines))
            self.part.ports = frozenset(int(e[1] or e[2]) for several in named for e in several)
            typed = (_PERFTEST.search(line) for _, line in numbered(text, lines))
            options = [found["options"] for found in typed if found]
            self.part.by_cm = bool(_BY_CM.search(options[-1])) if options else None
        several = [End(Ending.TROUBLE, n, line) for n, line in numbered(text, lines) if line]
        if lines <= MOST_LINES and len({each.text for each in several}) <= OF_A_START:
            self.part.last_line = max(several, key=lambda each: each.number, default=None)

    def _settle_links(self) -> None:
        """A link that came up again counts where something else failed soon after it had gone."""
        for each in self.part.occurrences:
            found, of = each.meaning.fields, str(each.writer)
            if each.meaning.what != LINK_DOWN or not says_down(found.text):
                continue
            down = self._links.lost(found, of) or again_and_again(self._links.flaps(found, of))
            if down is not None:
                if down.number != each.line:
                    each.line, each.stamp = down.number, self._stamps.get(down.number)
                    each.meaning = replace(each.meaning, fields=replace(found, text=down.text))
            elif flaps := self._links.flaps(found, of):
                each.flaps = tuple(self._stamps.get(flap.number) for flap in flaps)
            else:
                each.meaning = replace(each.meaning, kind=Kind.NOTE)

    def _stop(self) -> None:
        """A test of one process that hangs prints no error."""
        part = self.part
        if part.mark is Mark.NONE and part.benchmark.is_stopped and not part.occurrences:
            part.occurrences.append(part.stopped())

    def _give_ends(self) -> None:
        """What perftest prints of its ends may stand below its errors: stdout is written late."""
        if self.part.mark is not Mark.NONE or len(self._ends) != len(_WHICH):
            return
        for each in self.part.occurrences:
            if each.meaning.fields.tool in _PRINT_ENDS and not (each.remote_gid or each.peer):
                each.local_gid, each.remote_gid = (self._ends[which] for which in _WHICH)

    def _is_end(self, candidate: Candidate) -> bool:
        """The two lines that say what one end is; of several connections none is kept."""
        found = _END.match(candidate.line)
        if found is None:
            return False
        text = b"\n".join((candidate.line, candidate.after[:128])).decode("utf-8", "replace")
        which = found[1].decode()
        gid = printed_gid(text, which)
        if gid is not None and self._ends.setdefault(which, str(gid)) != str(gid):
            self._ends["another"] = str(gid)
        return True

    def _one(self, candidate: Candidate) -> None:
        if _DASHES.fullmatch(candidate.line):
            self._header(candidate)
            return
        label, own = self._unmarked(candidate)
        if says_nothing(own):
            return
        found = self._meanings.of(own)
        if found is not None and self.part.mark is Mark.NONE:
            take(self._collector, own, found)
        # Which way a rank goes is read as what introduces it.
        is_way = found and found.setting and found.setting.word in OF_THE_WAY
        meaning = None if is_way else found
        self.part.benchmark.look(own.line, candidate.number)
        if meaning is None:
            self.part.benchmark.take(own.line, candidate.number, own.after, own.above)
            if self._is_end(candidate):
                return
            text = own.line[:2048].decode("utf-8", "replace")
            if self._introduced(label, candidate, text):
                return
            self._ended(label, candidate, text)
            return
        self._sighted(label, candidate, own, meaning)

    def _unmarked(self, candidate: Candidate) -> tuple[Label | None, Candidate]:
        """A line without its launcher's label, and of its neighbours those with the same one."""
        mark = self.part.mark
        label, line = unmarked(candidate.line, mark)
        if mark is Mark.NONE:
            return label, candidate
        after, further = (self._stripped(label, e) for e in (candidate.after, candidate.further))
        above = self._stripped(label, candidate.above[candidate.above.find(b"\n") + 1 :])
        if len(line) >= _WRAPPED:  # the next piece belongs to this line
            more, _, after = after.partition(b"\n")
            line, further = line + more, further.partition(b"\n")[2]
        return label, Lines(candidate.number, line, after, further, above)

    def _stripped(self, label: Label | None, lines: bytes) -> bytes:
        """Of lines those of the same label, without it."""
        kept = []
        for each in lines.split(b"\n"):
            other, rest = unmarked(each, self.part.mark)
            if other == label:
                kept.append(rest)
        return b"\n".join(kept)

    def _header(self, candidate: Candidate) -> None:
        """The first of three lines that clush -b and dshbak write, or a rule of dashes."""
        from rdmadiag.fleet.lines import Blocks

        blocks = Blocks()
        below = candidate.after.split(b"\n")[:2]
        for each in (candidate.line, *below):
            blocks.take(each.removesuffix(b"\r"))
        if blocks.label.mark is Mark.BLOCK:
            self._block = blocks.label

    def _writer(self, label: Label | None, text: str) -> Writer:
        of_launcher = labelled(label) if label else NOBODY
        if self._block is not None and self.part.mark is Mark.NONE:
            of_launcher = labelled(self._block)
        return writer_of(text).over(of_launcher).over(self.part.own)

    def _stamp(self, candidate: Candidate, text: str) -> Stamp | None:
        found = stamp_of(text)
        if found is None and self.part.mark is not Mark.NONE:  # kubectl logs --timestamps
            found = stamp_of(candidate.line[: 2 * stamps.LOOKED_AT].decode("utf-8", "replace"))
        return found

    def _sighted(
        self,
        label: Label | None,
        candidate: Candidate,
        own: Candidate,
        meaning: Meaning,
    ) -> None:
        if is_of_a_link(meaning.word):
            self._linked(label, candidate, own.line)
        if meaning.setting is not None or meaning.is_other:
            return
        if meaning.is_beside and not stands_in_a_job(candidate):
            return
        text = own.line[:2048].decode("utf-8", "replace")
        writer = self._writer(label, text)
        if meaning.kind is Kind.AFTERMATH:
            if writer in self.part.aftermath or len(self.part.aftermath) < MOST_WRITERS:
                self.part.aftermath[writer] = self.part.aftermath.get(writer, 0) + 1
            return
        found = meaning.fields
        below, _ = around(own)
        remote = remote_gid_of(text) or remote_gid_of(below.decode("utf-8", "replace"))
        remote = remote or found.remote_gid
        peer = peer_of(text)
        key = (
            writer,
            meaning.kind,
            meaning.what,
            found.device,
            found.port,
            found.stage,
            found.errno,
            found.status,
            remote or peer or (link_of(fields(text)) if meaning.what == LINK_DOWN else None),
        )
        before = self._kept.get(key)
        if before is not None:
            before.count += 1
            before.last_line = candidate.number
            return
        if len(self._kept) >= MOST_SIGHTINGS:
            self.part.dropped += 1
            return
        said = self._meanings.own(own) or meaning
        local = local_gid_of(text) or said.fields.local_gid
        made = Occurrence(
            self.part.where,
            candidate.number,
            writer,
            self._stamp(candidate, text),
            said,
            str(local) if local else None,
            str(remote) if remote else None,
            peer,
            1,
            candidate.number,
        )
        self._kept[key] = made
        self.part.occurrences.append(made)
        self._timed_twice(writer, text)

    def _linked(self, label: Label | None, candidate: Candidate, line: bytes) -> None:
        text = line[:2048].decode("utf-8", "replace")
        self._links.take(candidate.number, fields(text), str(self._writer(label, text)))
        if len(self._stamps) < MOST_SIGHTINGS:
            self._stamps[candidate.number] = self._stamp(candidate, text)

    def _timed_twice(self, writer: Writer, text: str) -> None:
        """A syslog of a kernel has two clocks in a line."""
        found = list(stamps.stamps_of(text))
        if len(found) > 1 and writer.host and len(self.part.twice_timed) < _MEETINGS:
            self.part.twice_timed.append((writer.host, found[0], found[1]))

    def _introduced(self, label: Label | None, candidate: Candidate, text: str) -> bool:
        found = introduction(text)
        if found is None:
            return False
        writer = self._writer(label, text)
        if isinstance(found, Using):
            if writer.host and len(self.part.using) < MOST_WRITERS:
                self.part.using[writer.host] = found
            return True
        self._joined(writer, found, self._stamp(candidate, text))
        return True

    def _joined(self, writer: Writer, found: Joined, stamp: Stamp | None) -> None:
        before = self.part.joined.get(writer)
        if before is None and len(self.part.joined) >= MOST_WRITERS:
            return
        if before is None or before[0] < found.ranks:  # the largest communicator is the job's
            self.part.joined[writer] = found.ranks, found.rank
        if stamp is not None and found.is_complete:
            key = f"communicator {found.communicator}"
            if key in self.part.meetings or len(self.part.meetings) < _MEETINGS:
                self.part.meetings.setdefault(key, []).append((writer, stamp))

    def _ended(self, label: Label | None, candidate: Candidate, text: str) -> None:
        found = _ENDED.search(text)
        if found is None or len(self.part.elsewhere) >= _MEETINGS:
            return
        writer = self._writer(label, text)
        if found["task"]:
            writer = Writer(int(found["task"]), short(found["host"])).over(writer)
        self.part.elsewhere.append(
            Elsewhere(
                self.part.where,
                candidate.number,
                writer,
                self._stamp(candidate, text),
                text.strip()[:TEXT_KEPT],
            )
        )


def last_stamp(tail: bytes) -> Stamp | None:
    """Of the end of a file: the last line that names a time."""
    for line in reversed(tail.split(b"\n")[-200:]):
        if found := stamp_of(line[:512].decode("utf-8", "replace")):
            return found
    return None
