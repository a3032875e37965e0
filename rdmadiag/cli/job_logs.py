"""All logs of a job and all reports of its hosts, read for one story: `explain --log`."""

import glob
import math
import os
import re
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

from rdmadiag.cli.exits import Refused
from rdmadiag.cli.log_paths import SNAPSHOT, is_pattern
from rdmadiag.cli.text_stream import as_text, reason
from rdmadiag.explain.job.collected import Collected
from rdmadiag.explain.job.compose import compose
from rdmadiag.explain.job.hosts import KnownHost, canonical, newest, places_of
from rdmadiag.explain.job.part import NEEDLES, Collecting, Part, last_stamp
from rdmadiag.explain.job.stamps import Stamp
from rdmadiag.explain.job.story import FirstFailure, JobSource, Story
from rdmadiag.explain.job.writers import NOBODY, Writer, named, short
from rdmadiag.explain.log.line.launchers import marking
from rdmadiag.host.layout import META, ROOT
from rdmadiag.quoting import shell_word

if TYPE_CHECKING:
    from io import FileIO

    from rdmadiag.cli.text_stream import Readable
    from rdmadiag.explain.job.alone import Alone
    from rdmadiag.explain.log.account import Failure
    from rdmadiag.explain.log.recognition.reader import Meanings
    from rdmadiag.fleet.document import Reader
    from rdmadiag.sieve.lines import Sieve
    from rdmadiag.view.ends import HostEnd
    from rdmadiag.view.reconcile import DeviceView

HEAD: Final = 64 << 10  # bytes by which a file is known
TAIL: Final = 256 << 10  # … and that its last time is looked for in
MOST_FILES: Final = 100_000
MOST_HELD: Final = 128 << 20  # of a dump, or an answer of RAS
_SECONDS: Final = 120.0  # for the reports of a folder


class NotRead(Exception):
    """Of what is named nothing can be read; one line."""


def files_of(paths: Sequence[str], deadline: float) -> list[str]:
    """The files that are meant: of a folder all below it, of a pattern all that it matches.

    In a child, which a file system that has gone may hold; raises Refused.
    """
    from rdmadiag.host.given_file import understood

    try:
        found = understood(paths[0], lambda: list(files_below(paths, deadline)), NotRead, deadline)
    except NotRead as error:
        raise Refused(str(error)) from error.__cause__
    if not found:
        raise Refused(f"{paths[0]}: no file there is called so")
    return found


def files_below(paths: Sequence[str], deadline: float = math.inf) -> Iterator[str]:
    """What `files_of` gives, in this process; a byte of each is read.

    `deadline` is absolute on time.monotonic's clock. Raises NotRead.
    """
    from rdmadiag.host.given_file import begin

    count = 0
    seen: set[str] = set()
    for path in paths:
        for each in _below(path):
            if each in seen:
                continue
            seen.add(each)
            count += 1
            if count > MOST_FILES:
                raise NotRead(f"{path}: more than {MOST_FILES} files{_fewer(path)}")
            if time.monotonic() > deadline:
                there = f"{path}: more files than can be looked at in time, {count} so far"
                raise NotRead(f"{there}{_fewer(path)}")
            with suppress(OSError):
                begin(each)
            yield each


def _fewer(path: str) -> str:
    such = "" if is_pattern(path) else f", such as {shell_word(os.path.join(path, '*.log'))}"
    return f": name the logs alone{such}"


def _below(path: str) -> Iterator[str]:
    try:
        kind = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        if is_pattern(path):
            matched = sorted(glob.glob(path))
            for each in matched:
                yield from _below(each)
            return
        raise NotRead(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if not stat.S_ISDIR(kind):
        yield path
        return
    for folder, folders, names in os.walk(path):
        if META in names and ROOT in folders:  # its files are no logs
            if folder == path:
                how = f"rdmadiag preflight --from {shell_word(path)}"
                raise NotRead(f"{path}: a snapshot, and no log: {how}")
            folders.clear()
            continue
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield os.path.join(folder, name)


# --- reports ----------------------------------------------------------------------------------


def read_reports(path: str, deadline: float, *, quiet: bool) -> tuple[list[KnownHost], list[str]]:
    """Each host's, and what of the folder is none; in a child, since others have written it.

    Reports, documents of counters and snapshots are known by what is in them. Raises Refused.
    """
    from rdmadiag.cli.progress import progress
    from rdmadiag.host.given_file import understood

    until = max(deadline, time.monotonic() + _SECONDS)
    with progress(time.monotonic(), until, quiet=quiet) as waiting:
        try:
            return understood(path, lambda: reports_below(path, until), NotRead, until, waiting)
        except NotRead as error:
            raise Refused(str(error)) from error


def reports_below(path: str, deadline: float) -> tuple[list[KnownHost], list[str]]:
    """What `read_reports` gives, in this process; raises NotRead."""
    from rdmadiag.fleet.document import Reader
    from rdmadiag.host.many_files import NotRead as NothingThere
    from rdmadiag.host.many_files import texts

    reader = Reader(lambda _: {})
    hosts: list[KnownHost] = []
    unused: list[str] = []
    snapshots = list(_snapshots(path))
    try:
        for each in texts(path, deadline):
            if any(f"{each.where}/".startswith(f"{folder}/") for folder in snapshots):
                continue
            if each.content is None:
                if each.chunks is not None:
                    for _ in each.chunks:
                        pass
                unused.append(f"{each.where}: {each.refused or 'too long for a report'}")
                continue
            _documents(reader, each.where, each.content, hosts, unused)
    except NothingThere as error:
        raise NotRead(str(error)) from error
    for folder in snapshots:
        found = _of_snapshot(reader, folder, deadline)
        hosts.extend(found if isinstance(found, list) else ())
        unused.extend(() if isinstance(found, list) else (found,))
    return list(newest(hosts).values()), unused


def _documents(
    reader: "Reader", where: str, content: bytes, hosts: list[KnownHost], unused: list[str]
) -> None:
    """One document a file, or one a line, with a launcher's labels or without."""
    from rdmadiag.fleet.document import NotJson, decoded
    from rdmadiag.fleet.lines import split

    try:
        documents = [decoded(content)]
    except NotJson as error:
        documents = []
        for line in content.split(b"\n"):
            begin = split(line)[1] if line[:1] != b"{" else line
            if begin[:1] == b"{":
                try:
                    documents.append(decoded(begin))
                except NotJson:
                    continue
        if not documents:
            unused.append(f"{where}: {str(error)[:120]}")
            return
    for document in documents:
        found = _known(reader, where, document)
        if isinstance(found, str):
            unused.append(f"{where}: {found}")
        else:
            hosts.append(found)


def _known(reader: "Reader", where: str, document: object) -> KnownHost | str:
    from rdmadiag.fleet.document import Said

    said = reader.said(document, lambda: b"")
    if not isinstance(said, Said):
        return getattr(said, "detail", "an outcome of pingpong")
    assert isinstance(document, dict)
    name = short(said.hostname)
    return KnownHost(
        name,
        where,
        said.generated_at,
        said.status,
        said.findings,
        places_of(name, document),
        "evidence" in document,
    )


def _snapshots(path: str) -> Iterator[str]:
    """Folders and archives of `rdmadiag snapshot`, no deeper than one folder."""
    try:
        with os.scandir(path) as found:
            entries = sorted(found, key=lambda each: each.name)
    except OSError as error:
        raise NotRead(f"{path}: {error.strerror}") from error
    for each in entries:
        if (
            each.is_dir(follow_symlinks=False)
            and any(os.path.exists(os.path.join(each.path, name)) for name in SNAPSHOT)
        ) or each.name.endswith((".tar.gz", ".tgz")):
            yield each.path


def _of_snapshot(reader: "Reader", path: str, deadline: float) -> list[KnownHost] | str:
    from rdmadiag.host.recorded import open_snapshot
    from rdmadiag.host.tree import SnapshotError
    from rdmadiag.preflight.judge import judge
    from rdmadiag.render.json import document
    from rdmadiag.sources.run import gather
    from rdmadiag.sources.table import Depth

    try:
        host = open_snapshot(path)
        evidence = gather(host, deadline, None, Depth(), None, None)
    except SnapshotError as error:
        return f"{path}: {error}"
    parts = {"host": host.identity, "verdict": judge(evidence), "evidence": evidence}
    from rdmadiag.fleet.document import decoded

    found = _known(reader, path, decoded(document(parts).encode()))
    return f"{path}: {found}" if isinstance(found, str) else [found]


# --- logs -------------------------------------------------------------------------------------


def read_job(
    paths: Sequence[str],
    reports: tuple[list[KnownHost], list[str]] | None,
    deadline: float,
    *,
    quiet: bool,
) -> Story:
    """The story of all that is named. Raises Refused where nothing can be read."""
    from rdmadiag.cli.progress import meanwhile
    from rdmadiag.explain.job.alone import Alone
    from rdmadiag.explain.log.recognition.reader import Meanings
    from rdmadiag.sieve.lines import Sieve

    collected = Collected()
    if reports is not None:
        collected.hosts = {each.name: each for each in reports[0]}
        collected.unused_reports = reports[1]
    files = ["-"] if tuple(paths) == ("-",) else files_of(paths, deadline)
    sieve, meanings, alone = Sieve(NEEDLES), Meanings(), Alone()
    done = [0, 0]

    def say(seconds: float) -> str:
        megabytes = (done[1] + sieve.bytes) / 1e6
        return f"read {done[0]} of {len(files)} files, {megabytes:.0f} MB in {seconds:.0f} s"

    hosts = frozenset(collected.hosts)
    with meanwhile(say, quiet=quiet):
        for path in files:
            _read(collected, sieve, (meanings, alone), path, hosts, deadline)
            done[0] += 1
            done[1] += sieve.bytes
    if not any(each.bytes for each in collected.sources) and collected.sources:
        problems = [each for each in collected.sources if each.problem]
        if len(problems) == len(collected.sources):
            raise Refused(f"{problems[0].name}: {problems[0].problem}")
    return compose(collected)


def _read(
    collected: Collected,
    sieve: "Sieve",
    known: "tuple[Meanings, Alone]",
    path: str,
    hosts: frozenset[str],
    deadline: float,
) -> None:
    own = NOBODY if path == "-" else named(path, hosts)
    try:
        stream = _open(path, deadline)
    except OSError as error:
        problem = error.strerror or str(error)
        collected.sources.append(JobSource(path, "log", 0, 0, own.rank, own.host, problem))
        return
    with stream:
        peeked = Peeked(stream)
        kind = kind_of(peeked.head)
        if kind != "log":
            collected.sources.append(_record(collected, kind, path, own, peeked, stream))
            return
        try:
            lines = as_text(peeked)
            text = Peeked(lines)
        except OSError as error:
            problem = reason(error, path)
            collected.sources.append(JobSource(path, "log", 0, 0, own.rank, own.host, problem))
            return
        part = Part(path, own, marking(text.head))
        try:
            collecting = Collecting(part, *known)
            collecting.read(sieve.segments(text))
            collecting.read_rest(sieve)
            problem = lines.damage
        except OSError as error:
            problem = error.strerror or str(error)
        part.lines, part.bytes = sieve.lines, sieve.bytes
        is_plain = text.head == peeked.head
        part.last = _last(stream) if is_plain else last_stamp(sieve.end)
        collected.parts.append(part)
        collected.sources.append(
            JobSource(path, "log", part.lines, part.bytes, own.rank, own.host, problem or None)
        )


def _open(path: str, deadline: float) -> "FileIO":
    if path == "-":
        if sys.stdin is None:
            raise Refused("there is no standard input")
        return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
    from rdmadiag.host.given_file import open_log

    return open_log(path, deadline)


def kind_of(head: bytes) -> str:
    """What a file is, by its beginning: "log" where it is nothing else that is known."""
    from rdmadiag.explain.job.ras import is_watched

    start = head.lstrip()
    if is_watched(start):
        return "ras"
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05" and len(head) > 1:
        return "flight-recorder"
    if start[:1] == b"{":
        if b'"inspector_output_format_version"' in head:
            return "inspector"
        if b'"communicators"' in head and b'"nccl_version"' in head:
            return "ras"
        if b'"pg_config"' in head or b'"pg_status"' in head:
            return "flight-recorder"
    if b"Job summary\n===" in head or b"Communicators... (" in head:
        return "ras"
    return "log"


class Peeked:
    """A stream whose beginning was looked at, and is read again."""

    def __init__(self, stream: "Readable") -> None:
        self.stream = stream
        self.head = _fill(stream, HEAD)
        self._at = 0
        self._has_ended = len(self.head) < HEAD  # a terminal would wait for a second Ctrl-D

    def readinto(self, buffer: memoryview, /) -> int | None:
        """As io.RawIOBase has it."""
        if self._at < len(self.head):
            taken = self.head[self._at : self._at + len(buffer)]
            buffer[: len(taken)] = taken
            self._at += len(taken)
            return len(taken)
        return 0 if self._has_ended else self.stream.readinto(buffer)

    def whole(self, most: int) -> bytes:
        """All of it, at most so many bytes and one."""
        return self.head + _fill(self.stream, max(0, most + 1 - len(self.head)))


def _fill(stream: "Readable", size: int) -> bytes:
    pieces = []
    buffer = memoryview(bytearray(min(size, 1 << 20)))
    while size > 0 and (got := stream.readinto(buffer[:size])):
        pieces.append(bytes(buffer[:got]))
        size -= got
    return b"".join(pieces)


def _last(stream: "FileIO") -> Stamp | None:
    """The last time in a regular file; of a pipe, which is gone, none."""
    tail = _tail(stream)
    return last_stamp(tail) if tail else None


def _tail(stream: "FileIO") -> bytes:
    try:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode):
            return b""
        return os.pread(stream.fileno(), TAIL, max(0, found.st_size - TAIL))
    except OSError:
        return b""


def _record(
    collected: Collected, kind: str, path: str, own: Writer, peeked: Peeked, stream: "FileIO"
) -> JobSource:
    """What is no log."""
    from rdmadiag.explain.job.flight_recorder import NotADump
    from rdmadiag.explain.job.inspector import parse_inspector
    from rdmadiag.explain.job.ras import NotRas, parse_ras

    size, problem = len(peeked.head), ""
    rank, host = own.rank, own.host
    try:
        if kind == "inspector":
            content = peeked.head + b"\n" + _tail(stream)
            size = len(content)
            found = parse_inspector(content)
            collected.progress.extend(found.progress)
            for each in found.writers[:1]:
                rank, host = each
            for key, seconds in found.meetings.items():
                writer = Writer(rank, host)
                collected.meetings.setdefault(key, []).append((writer, Stamp("utc", seconds)))
        else:
            content = peeked.whole(MOST_HELD)
            size = len(content)
            if size > MOST_HELD:
                problem = f"longer than {MOST_HELD >> 20} MiB"
            elif kind == "ras":
                answer = parse_ras(content)
                collected.progress.extend(answer.progress)
                collected.processes.extend(answer.processes)
            else:
                rank = _of_dump(collected, path, own, content)
    except (NotADump, NotRas) as error:
        problem = str(error)
    return JobSource(path, kind, content.count(b"\n"), size, rank, host, problem or None)


def _of_dump(collected: Collected, path: str, own: Writer, content: bytes) -> int:
    from rdmadiag.explain.job.flight_recorder import NotADump, parse_dump

    rank = own.rank
    if rank is None:  # as torch's own loader takes it
        found = re.search(r"(\d{1,7})(?:\.\w{1,8}){0,2}$", os.path.basename(path))
        if found is None:
            raise NotADump("its name does not end in a rank, and a dump does not say whose it is")
        rank = int(found[1])
    dump = parse_dump(content, rank)
    collected.dumped.add(rank)
    collected.progress.extend(replace(each, host=own.host) for each in dump.progress)
    for name, ranks in dump.groups.items():
        collected.groups.setdefault(name, ranks)
    for key, seconds in dump.meetings.items():
        writer = Writer(rank, own.host)
        collected.meetings.setdefault(key, []).append((writer, Stamp("utc", seconds)))
    return rank


# --- causes -----------------------------------------------------------------------------------


def ranked(story: Story, reports: Sequence[KnownHost], deadline: float) -> Story:
    """The causes of what failed first, in the order that the report of its host gives them.

    Where no clock says who was first, it is whose report confirms why it failed.
    """
    first = story.first
    if first is None:
        return story
    first = _by_report(first, reports, deadline)
    if not _is_confirmed(first):
        for place, each in enumerate(story.also_first):
            found = _by_report(each, reports, deadline)
            if _is_confirmed(found):
                others = (*story.also_first[:place], first, *story.also_first[place + 1 :])
                return replace(story, first=found, also_first=others)
    return replace(story, first=first)


def _is_confirmed(first: FirstFailure) -> bool:
    return any(each.standing == "confirmed" for each in first.failure.causes[:1])


def _by_report(first: FirstFailure, reports: Sequence[KnownHost], deadline: float) -> FirstFailure:
    host = next((each for each in reports if each.name == first.who.host), None)
    if host is None or not host.has_evidence:
        return first
    failure = _ranked(first.failure, host.where, deadline)
    return first if failure is None else replace(first, failure=failure)


def _elsewhere(views: "Sequence[DeviceView]") -> frozenset[str]:
    """Devices of other network namespaces, where there is one of this: they are not the job's."""
    from rdmadiag.view.ends import at_home
    from rdmadiag.view.reconcile import ports

    here = {each.device for each in at_home(ports(views))}
    return frozenset(each.name for each in views if each.name not in here) if here else frozenset()


MOST_PAIRS: Final = 6
"""Of hosts, whose reports are held against each other: each report is read anew."""


def beside(story: Story, reports: Sequence[KnownHost], deadline: float) -> Story:
    """What the reports of the hosts that could not reach each other show together."""
    from rdmadiag.explain.job.ends import with_names, with_reports
    from rdmadiag.explain.job.odd_host import OddHost
    from rdmadiag.facts import known as read
    from rdmadiag.preflight.judge_ends import judge
    from rdmadiag.view.ends import HostEnd, all_addresses, has
    from rdmadiag.view.unusual import odd_one

    known = {each.name: each for each in reports if each.has_evidence}
    pairs = _pairs(story, sorted(known))
    names = dict.fromkeys(name for pair in pairs for name in pair)
    ends: dict[str, HostEnd | None] = {name: _end(known[name], deadline) for name in names}
    files = {name: read(end.evidence.naming) for name, end in ends.items() if end is not None}
    story = with_names(story, {name: each for name, each in files.items() if each is not None})
    judged, odd = {}, []
    for pair in pairs:
        here, there = (ends[name] for name in pair)
        if here is not None and there is not None:
            judged[pair] = judge(here, there, _used(story, known))
            if (alone := odd_one(here, there)) is not None:
                odd.append(OddHost(alone[0].name, alone[1]))
    seen = {name: end for name, end in ends.items() if end is not None}
    own = {name: all_addresses(end.evidence) for name, end in seen.items()}
    present = {name: has(end) for name, end in seen.items()}
    found = {name: known[name].findings for name in seen}
    return with_reports(story, judged, own, present, found, odd)


def _pairs(story: Story, names: Sequence[str]) -> list[tuple[str, str]]:
    """The first pair that failed; without one, of few hosts, each with each."""
    first = story.first
    hosts = [end.host for end in (first.who, first.whom) if end] if first else []
    named = [each for each in hosts if each in names]
    if len(set(named)) > 1:
        return [(str(named[0]), str(named[1]))]
    among = [
        (one, other)
        for one, other in combinations(names, 2)
        if not named or named[0] in (one, other)
    ]
    return among if len(among) <= MOST_PAIRS else []


def _used(story: Story, known: Mapping[str, KnownHost]) -> frozenset[str]:
    """The addresses that the first failure names; where it names none, those of the rows of GID
    tables that both ends printed.
    """
    from rdmadiag.explain.job.ends import tried

    first = story.first
    ends = [end for end in (first.who, first.whom) if end] if first else []
    found = [each for end in ends for each in (end.gid, end.address) if each]
    found += filter(None, [tried(story)])
    if not found and first is not None:
        rows = [(each, known[each.host]) for each in story.printed if each.host in known]
        found = [
            address
            for each, host in rows
            for address, place in host.places.items()
            if each.gid_index is not None
            and (place.device, place.gid_index) == (each.device, each.gid_index)
        ]
    return frozenset(map(canonical, found))


def _end(host: KnownHost, deadline: float) -> "HostEnd | None":
    from rdmadiag.cli.options import recorded
    from rdmadiag.view.ends import HostEnd
    from rdmadiag.view.reconcile import devices

    try:
        evidence = recorded(host.where, deadline).evidence()
    except Refused:  # one of several in a file
        return None
    return HostEnd(host.name, evidence, tuple(devices(evidence)))


def _ranked(failure: "Failure", path: str, deadline: float) -> "Failure | None":
    from rdmadiag.cli.options import recorded
    from rdmadiag.explain.log.account import Account
    from rdmadiag.explain.log.ranking.by_report import ranked as by_report
    from rdmadiag.preflight.judge import judge
    from rdmadiag.view.reconcile import devices

    try:
        reading = recorded(path, deadline)
    except Refused:  # one of several in a file
        return None
    evidence = reading.evidence()
    alone = Account((failure,), (), (), (), (), 0, (), 0, 0, 0)
    views = devices(evidence)
    elsewhere = _elsewhere(views)
    findings = [each for each in judge(evidence).findings if each.device not in elsewhere]
    found = by_report(alone, findings, views, reading.identity.platform)
    return found.failures[0]
