"""Files of a job, reports of its hosts → its story.

What failed first is the earliest failure on one scale of time; where that host is not the one
that most of the first failing pairs have in common, that one is named beside it: it is where the
path broke, and the others only saw that it broke.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from rdmadiag.explain.causes import remedy, stated
from rdmadiag.explain.completions import completion
from rdmadiag.explain.job.both_ends import Compared, compared, has_failed
from rdmadiag.explain.job.collected import Collected
from rdmadiag.explain.job.hosts import KnownHost, Place, canonical
from rdmadiag.explain.job.members import Members
from rdmadiag.explain.job.part import Occurrence, Part
from rdmadiag.explain.job.progress import behind
from rdmadiag.explain.job.silence import silent
from rdmadiag.explain.job.stamps import stamp_of
from rdmadiag.explain.job.story import (
    CommonEnd,
    Ended,
    FirstFailure,
    JobEnd,
    JobGroup,
    JobReport,
    NotUnderstood,
    PrintedEnd,
    Silent,
    Step,
    Story,
)
from rdmadiag.explain.job.times import Times
from rdmadiag.explain.job.writers import writer_of
from rdmadiag.explain.log.account import Account, Failure, LikelyCause, Standing
from rdmadiag.explain.log.collector import Collector
from rdmadiag.explain.log.groups import TEXT_KEPT, known_message, likely
from rdmadiag.explain.log.kind import STARTS_NOTHING, STOPPED, Kind
from rdmadiag.explain.log.ranking.by_report import MOST_WITH_REPORT
from rdmadiag.explain.log.recognition.links import FOLLOWS, LINK_DOWN
from rdmadiag.explain.log.text.benchmark import WAITING
from rdmadiag.explain.log.text.endings import (
    End,
    Ending,
    is_own_fault,
    meaning_of_end,
    meaning_of_last,
)
from rdmadiag.explain.remedies import fill
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.errnos import errno_name
from rdmadiag.fleet.lines import Mark
from rdmadiag.preflight.verdict import Finding, Severity
from rdmadiag.quoting import shell_word

WINDOW: Final = 60.0
"""Seconds after the first failure in which others are of the same break: NCCL's and UCX's retries
take up to half of it (timeout 20, 7 retries)."""

SPANS: Final = (0.0, 1.0, 10.0, 60.0, 600.0, float("inf"))
_MOST: Final = 50  # groups of each kind
_NAMES: Final = 8
_BESIDE: Final = 8  # files
_FINDINGS: Final = 6
_GRAVE: Final = (Severity.CRITICAL, Severity.WARN)

PEER_GONE: Final = "peer-gone"
OF_OWN_END: Final = frozenset(
    (
        *("link-lost", "port-went-down", "port-down", "interface-down", "device-removed"),
        *("firmware-failed", "firmware-silent", "pcie-error", "driver-going", "device-resetting"),
        *("gid-changed", "gid-row-removed", "driver-wedged", "port-in-bridge"),
    )
)
"""Causes that are of the host whose line has them, where that line names no peer."""


def compose(collected: Collected) -> Story:
    """What the parts of a job say together, in one order of time."""
    return _Composer(collected).story()


class _Placed:
    """One occurrence with all that is known of it."""

    __slots__ = ("at", "host", "rank", "seen", "there", "who")

    def __init__(
        self,
        seen: Occurrence,
        rank: int | None,
        host: str | None,
        at: float | None,
        there: Place | None,
        who: tuple[object, ...],
    ) -> None:
        self.seen, self.rank, self.host, self.at, self.there, self.who = (
            *(seen, rank, host),
            *(at, there, who),
        )

    @property
    def far(self) -> str | None:
        """The other end: its host, or its address where nothing says whose that is."""
        if self.there is not None:
            return self.there.host
        address = self.seen.peer or self.seen.remote_gid
        return canonical(address) if address else None

    @property
    def is_own(self) -> bool:
        """Whether it is of this end alone."""
        labels = [each.label for each in self.seen.meaning.causes[:1]]
        names_peer = self.there is not None or self.seen.peer or self.seen.remote_gid
        return not names_peer and any(each in OF_OWN_END for each in labels)


class _Composer:
    def __init__(self, collected: Collected) -> None:
        self._collected = collected
        self._members = Members(collected)
        self._times = Times(collected, self._members)
        self._placed = [
            self._one(part, seen) for part in collected.parts for seen in part.occurrences
        ]
        self._faults = tuple(self._of_own_faults())

    def _one(self, part: Part, seen: Occurrence) -> _Placed:
        rank, host = self._members.identity(seen.writer)
        return _Placed(
            seen,
            rank,
            host,
            self._times.at(seen.writer, seen.stamp, part.where),
            self._members.there(seen),
            self._members.who(seen.writer, part.where),
        )

    # --- the story ----------------------------------------------------------------------

    def story(self) -> Story:
        """The first failure, what followed it, and what every rank did last."""
        self._settle_flaps()
        failed = [each for each in self._placed if each.seen.meaning.kind is Kind.FAILURE]
        followed = [each for each in self._placed if each.seen.meaning.kind is Kind.CONSEQUENCE]
        first = self._first(failed) or self._first(followed)
        reason = self._reason(first) if first else None
        if reason is not None and not failed:
            first = None  # it only saw that another program was gone
        ended = self._ended(first)
        aftermath = sum(sum(part.aftermath.values()) for part in self._collected.parts)
        both = compared(self._collected.parts, timed=bool(first and first.at is not None))
        waits = [each.seen.meaning.what == STOPPED for each in (first, both) if each]
        if waits and all(waits) and self._names_its_reason():
            first, both = None, None  # it waited for one that says why it ended
        if both is not None:
            first = self._one(both.part, both.seen)
        if first is None and reason is None and (last := self._by_its_last_message()):
            failed, first = [last], last
        shown = self._first_failure(first) if first else None
        if shown is not None and both is not None:
            shown = replace(shown, failure=_as_both_say(shown.failure, both))
        elif shown is not None and reason is not None:
            shown = replace(shown, failure=_as_of_one_that_ended(shown.failure, reason))
        common = self._common_end(failed or followed, first) if first else None
        other = reason or (None if first else self._other() or next(iter(ended), None))
        return Story(
            ranks=len(self._voices()),
            world_size=self._members.world_size,
            hosts=tuple(sorted(self._members.hosts_heard())),
            first=shown,
            failed_after=self._failed_after(first, failed + followed),
            common_end=common,
            wavefront=self._wavefront(first, failed + followed),
            failures=self._groups(failed, first),
            consequences=self._groups(followed, first),
            aftermath=aftermath,
            silent=self._silent_of(first),
            behind=behind(self._collected.progress),
            ended=ended,
            clocks=self._times.scale.settings[:_MOST],
            not_understood=self._not_understood(),
            next=(*(_next_of(other) if other else ()), *_next(shown, common)),
            reports=tuple(
                JobReport(each.name, each.where, each.status)
                for each in sorted(self._collected.hosts.values(), key=lambda each: each.name)
            ),
            unused_reports=tuple(self._collected.unused_reports[:_MOST]),
            sources=tuple(self._collected.sources),
            dropped=sum(part.dropped for part in self._collected.parts),
            printed=tuple(self._printed()),
            also_first=() if both is not None and both.is_certain else self._beside(first),
            other=other,
        )

    def _settle_flaps(self) -> None:
        """A link that came up again counts where something else failed soon after it had gone."""
        graver = (Kind.FAILURE, Kind.CONSEQUENCE)
        failed = [each for each in self._placed if each.seen.meaning.kind in graver]
        others = [each.at for each in failed if each.seen.meaning.what != LINK_DOWN]
        for each in failed:
            seen = each.seen
            downs = [self._times.at(seen.writer, stamp, seen.where) for stamp in seen.flaps]
            is_followed = any(
                at is None or down is None or 0 <= at - down <= FOLLOWS
                for at in others
                for down in downs
            )
            if downs and not is_followed:
                seen.meaning = replace(seen.meaning, kind=Kind.NOTE)

    def _other(self) -> Ended | None:
        """The end that says most, of all files."""
        several = [part for part in self._collected.parts if part.end]
        part = min(several, key=lambda each: each.end.what if each.end else 0, default=None)
        if part is None or part.end is None:
            return None
        return self._by_its_end(part, part.end)

    def _by_its_last_message(self) -> _Placed | None:
        """What a file fails by that says no more; where another says why it ended, that does."""
        ends = [part for part in self._collected.parts if part.end]
        if any(e.end and e.end.what is Ending.REASON and not e.fails_last for e in ends):
            return None
        seen = ((part, part.failed_last()) for part in ends)
        return next((self._one(part, each) for part, each in seen if each), None)

    def _names_its_reason(self) -> bool:
        """Whether a file says why it reached nobody. The end of a job may be since it hung."""
        if any(part.benchmark.has_met for part in self._collected.parts):
            return False
        found = self._other()
        return found is not None and any(e.label in STARTS_NOTHING for e in found.causes[:1])

    def _reason(self, first: _Placed) -> Ended | None:
        """What ended the program at the other end by itself, or where that is not known one of
        another file: the first may only have seen that it was gone.
        """
        if PEER_GONE not in {each.label for each in first.seen.meaning.causes}:
            return None
        for ended, at in self._faults:
            is_later = at is not None and first.at is not None and at > first.at
            if ended.where == first.seen.where or is_later:
                continue
            if None in (first.far, ended.host) or first.far == ended.host:
                return ended
        for ended in self._ended(first):
            is_of_it = None in (first.far, ended.host) or first.far == ended.host
            if ended.is_before and is_of_it and is_own_fault(ended.text):
                return _with_causes(ended)
        return None

    def _of_own_faults(self) -> Iterator[tuple[Ended, float | None]]:
        """Programs that ended by themselves, and of nothing that RDMA did; with when, if known."""
        for part in self._collected.parts:
            end, kinds = part.end, {each.meaning.kind for each in part.occurrences}
            if end is not None and Kind.FAILURE not in kinds and is_own_fault(end.text):
                at = self._times.at(part.own, stamp_of(end.text), part.where)
                yield self._by_its_end(part, end), at

    def _by_its_end(self, part: Part, end: End) -> Ended:
        text = end.text[:TEXT_KEPT]
        rank, host = self._members.identity(writer_of(text).over(part.own))
        if host is None:  # the file's, where it is of one
            hosts = {*part.using, *(self._members.identity(e)[1] for e in part.writers)} - {None}
            host = hosts.pop() if len(hosts) == 1 else None
        return _with_causes(Ended(host, rank, None, None, text, part.where, end.number))

    def _printed(self) -> Iterator[PrintedEnd]:
        """Of files of one process each, whose host is known."""
        for part in self._collected.parts[:_BESIDE]:
            host, own = self._members.identity(part.own)[1], part.benchmark.ends.get("local")
            device = part.benchmark.header.get("Device")
            tried, listens_at = part.benchmark.tried, part.benchmark.listens_at
            row = part.benchmark.header.get("GID index", "")
            waits = part.benchmark.reached in WAITING and not has_failed(part)
            if (
                host is not None
                and part.mark is Mark.NONE
                and (device or own or tried or listens_at or waits)
            ):
                gid = str(own.gid) if own and own.gid and not own.gid.is_zero else None
                index = int(row) if row.isdecimal() else None
                yield PrintedEnd(
                    *(host, part.where, device, gid, tried),
                    gid_index=index,
                    listens_at=listens_at,
                    waits=waits,
                )

    def _beside(self, first: _Placed | None) -> tuple[FirstFailure, ...]:
        """The first failure of each other file, where none has a clock."""
        if first is None or first.at is not None or len(self._collected.parts) > _BESIDE:
            return ()
        found: dict[str, _Placed] = {}
        for each in self._placed:
            known = found.get(each.seen.where)
            if each.seen.meaning.kind is Kind.FAILURE and (
                known is None or each.seen.line < known.seen.line
            ):
                found[each.seen.where] = each
        found.pop(first.seen.where, None)
        return tuple(map(self._first_failure, found.values()))

    def _first(self, placed: Sequence[_Placed]) -> _Placed | None:
        """The earliest; of one second those that are of their own end alone."""
        timed = [each for each in placed if each.at is not None]
        if timed:
            return min(timed, key=lambda each: (each.at, not each.is_own, each.seen.line))
        if len(self._collected.parts) == 1:
            return min(placed, key=lambda each: each.seen.line, default=None)
        return min(
            placed,
            key=lambda each: (not each.is_own, each.there is None, each.seen.where, each.seen.line),
            default=None,
        )

    def _first_failure(self, first: _Placed) -> FirstFailure:
        seen, found = first.seen, first.seen.meaning.fields
        local = canonical(seen.local_gid) if seen.local_gid else None
        place = self._members.place(local) if local else None
        who = JobEnd(
            first.rank,
            first.host,
            found.device or (place.device if place else None),
            found.port if found.port is not None else (place.port if place else None),
            found.gid_index
            if found.gid_index is not None
            else (place.gid_index if place else None),
            seen.local_gid,
            None,
        )
        timed = first.at is not None and not (
            len({each.host for each in self._placed}) > 1
            and any(each.at is None for each in self._placed)
        )
        return FirstFailure(
            who,
            self._whom(first),
            self._times.shown(first.at),
            seen.where,
            seen.line,
            timed,
            self._with_row(failure_of(seen), seen),
        )

    def _with_row(self, failure: Failure, seen: Occurrence) -> Failure:
        """With the device and the row of its GID table that perftest printed in its header."""
        part = next((each for each in self._collected.parts if each.where == seen.where), None)
        header = part.benchmark.header if part and part.mark is Mark.NONE else {}
        row = header.get("GID index", "")
        if failure.stage != Stage.RTR or failure.gid_index is not None or not row.isdecimal():
            return failure
        return replace(failure, gid_index=int(row), device=failure.device or header.get("Device"))

    def _whom(self, first: _Placed) -> JobEnd | None:
        seen, place = first.seen, first.there
        if place is None:
            address = seen.remote_gid or seen.peer
            if address is None:
                return None
            return JobEnd(None, None, None, None, None, seen.remote_gid, seen.peer or address)
        device, port, index, rank = place.device, place.port, place.gid_index, None
        back = next(
            (
                each
                for each in self._placed
                if each.host == place.host and each.there and each.there.host == first.host
            ),
            None,
        )
        if back is not None:
            rank = back.rank
            found = back.seen.meaning.fields
            device, port = device or found.device, port if port is not None else found.port
            index = index if index is not None else found.gid_index
        if device is None:
            own = {
                each.seen.meaning.fields.device
                for each in self._placed
                if each.host == place.host and each.is_own and each.seen.meaning.fields.device
            }
            device = next(iter(own)) if len(own) == 1 else None
        if rank is None:
            ranks = [each for each, host in self._members.host_of.items() if host == place.host]
            rank = ranks[0] if len(ranks) == 1 else None
        return JobEnd(rank, place.host, device, port, index, seen.remote_gid, seen.peer)

    def _in_window(self, placed: Iterable[_Placed], first: _Placed) -> list[_Placed]:
        if first.at is None:
            return list(placed)
        return [each for each in placed if each.at is None or each.at - first.at <= WINDOW]

    def _common_end(self, placed: Sequence[_Placed], first: _Placed) -> CommonEnd | None:
        """The host that the first failing pairs share, or the one whose own port failed."""
        early = self._in_window(placed, first)
        pairs: set[tuple[str, str]] = set()
        for each in early:
            if each.host and each.far and each.far != each.host:
                low, high = sorted((each.host, each.far))
                pairs.add((low, high))
        degree = Counter(end for pair in pairs for end in pair)
        why: dict[str, list[str]] = {}
        for each in early:
            if each.is_own and each.host:
                why.setdefault(each.host, []).append(
                    f"{each.seen.where}:{each.seen.line}: {each.seen.text}"
                )
        for host, reason in self._without_a_line(first):
            if host in degree:
                why.setdefault(host, []).append(reason)
        for host in degree:
            known = self._collected.hosts.get(host)
            if known and (grave := _grave(known)):
                why.setdefault(host, []).extend(
                    f"{known.where}: {each.rule}: {each.summary}" for each in grave[:2]
                )
        strong = {host: why[host] for host in why if self._is_worst(host, early)}
        alone = _only(strong, degree) or (None if strong else _only(why, degree))
        chosen = self._shared(degree, len(pairs)) or alone
        if chosen is None:
            return None
        host = chosen
        devices = {
            *(
                each.seen.meaning.fields.device
                for each in early
                if each.host == host and each.seen.meaning.fields.device
            ),
            *(each.there.device for each in early if each.there and each.there.host == host),
        }
        known = self._collected.hosts.get(host)
        return CommonEnd(
            host,
            tuple(sorted(each for each in devices if each))[:_NAMES],
            degree.get(host, 0),
            len(pairs),
            tuple(why.get(host, ()))[:_NAMES],
            tuple(_grave(known)[:_FINDINGS]) if known else (),
        )

    def _is_worst(self, host: str, early: Sequence[_Placed]) -> bool:
        """Its own port failed, or its report has a critical finding; silence says less."""
        known = self._collected.hosts.get(host)
        critical = known is not None and any(
            each.severity is Severity.CRITICAL for each in known.findings
        )
        return critical or any(each.is_own and each.host == host for each in early)

    def _without_a_line(self, first: _Placed) -> Iterator[tuple[str, str]]:
        """Hosts of which no line is of RDMA, since their program ended or they are silent."""
        for ended, _ in self._faults:
            if ended.host:
                yield ended.host, f"{ended.where}:{ended.line}: {ended.text}"
        for one in self._silent_of(first):
            if one.host:
                yield one.host, f"{one.why}: {one.detail}"

    @staticmethod
    def _shared(degree: Counter[str], pairs: int) -> str | None:
        if pairs < 2:
            return None
        (best, most), *others = degree.most_common(2)
        next_most = others[0][1] if others else 0
        return best if most * 5 >= pairs * 4 and most > next_most else None

    def _voices(self) -> set[tuple[object, ...]]:
        """Ranks that said anything; processes or files where no rank is named."""
        found = {
            self._members.who(writer, part.where)
            for part in self._collected.parts
            for writer in part.writers
        }
        ranks = {each for each in found if each[0] == "rank"}
        ranks |= {("rank", each) for each in self._collected.dumped}
        return ranks or {each for each in found if each[0] != "host"} or found

    def _failed_after(self, first: _Placed | None, placed: Sequence[_Placed]) -> int:
        if first is None:
            return 0
        who = {each.who for each in placed}
        for part in self._collected.parts:
            who |= {self._members.who(each, part.where) for each in part.aftermath}
        ranks = {each for each in who if each[0] == "rank"}
        counted = ranks or {each for each in who if each[0] != "host"} or who
        return len(counted - {first.who})

    def _wavefront(self, first: _Placed | None, placed: Sequence[_Placed]) -> tuple[Step, ...]:
        """Each writer once, by its first line of failure."""
        if first is None:
            return ()
        earliest: dict[tuple[object, ...], _Placed] = {}
        for each in placed:
            before = earliest.get(each.who)
            if before is None or _order(each) < _order(before):
                earliest[each.who] = each
        steps: list[Step] = []
        start = first.at
        spans = list(pairwise(SPANS)) if start is not None else []
        for begin, end in spans:
            assert start is not None
            among = [
                each
                for each in earliest.values()
                if each.at is not None and begin <= each.at - start < end
            ]
            if among:
                steps.append(_step(among, begin, None if end == float("inf") else end))
        if rest := [each for each in earliest.values() if each.at is None or start is None]:
            steps.append(_step(rest, None, None))
        return tuple(steps)

    def _groups(self, placed: Sequence[_Placed], first: _Placed | None) -> tuple[JobGroup, ...]:
        found: dict[tuple[object, ...], list[_Placed]] = {}
        for each in placed:
            meaning = each.seen.meaning
            key = meaning.what, meaning.fields.stage, meaning.fields.errno, meaning.fields.status
            found.setdefault(key, []).append(each)
        start = first.at if first else None
        made = []
        for several in found.values():
            several.sort(key=_order)
            lead = several[0]
            failure = failure_of(lead.seen)
            hosts = sorted({each.host for each in several if each.host})
            cause = failure.causes[0] if failure.causes else None
            after = lead.at - start if lead.at is not None and start is not None else None
            group = JobGroup(
                failure.kind,
                failure.what,
                failure.stage,
                failure.errno,
                failure.completion,
                sum(each.seen.count for each in several),
                len({each.who for each in several}),
                len(hosts),
                tuple(hosts[:_NAMES]),
                None if after is None else round(after, 3),
                lead.seen.text,
                lead.seen.where,
                lead.seen.line,
                cause.label if cause else None,
                cause.text if cause else None,
            )
            made.append((_order(lead), group))
        made.sort(key=lambda each: each[0])
        return tuple(group for _, group in made[:_MOST])

    def _silent_of(self, first: _Placed | None) -> tuple[Silent, ...]:
        peers = {each.there.host for each in self._placed if each.there}
        at = first.at if first else None
        found = silent(self._collected, self._members, self._times, peers, at)
        ended = {each.host for each, _ in self._faults} - {None}
        return tuple(each for each in found if each.host not in ended)

    # --- beside -------------------------------------------------------------------------

    def _ended(self, first: _Placed | None) -> tuple[Ended, ...]:
        made = []
        for part in self._collected.parts:
            for each in part.elsewhere:
                rank, host = self._members.identity(each.writer)
                at = self._times.at(each.writer, each.stamp, part.where)
                before = None
                if first is not None and first.at is not None and at is not None:
                    before = at < first.at
                elif first is not None and first.seen.where == each.where:
                    before = each.line < first.seen.line
                made.append(
                    Ended(
                        host, rank, self._times.shown(at), before, each.text, each.where, each.line
                    )
                )
        made.sort(key=lambda each: (each.is_before is not True, each.at or "", each.line))
        return tuple(made[:_MOST])

    def _not_understood(self) -> tuple[NotUnderstood, ...]:
        found: dict[str, NotUnderstood] = {}
        for each in self._placed:
            if each.seen.meaning.kind is not Kind.UNKNOWN:
                continue
            text = each.seen.text
            key = "".join("0" if letter.isdigit() else letter for letter in text)
            before = found.get(key)
            count = each.seen.count + (before.count if before else 0)
            lead = before or NotUnderstood(each.seen.where, each.seen.line, text, 0)
            found[key] = NotUnderstood(lead.where, lead.line, lead.text, count)
            if len(found) >= _MOST:
                break
        return tuple(found.values())


def _as_of_one_that_ended(failure: Failure, reason: Ended) -> Failure:
    """That the peer is gone comes first, with the line by which its program ended."""
    proof = f"{reason.where}:{reason.line}: {reason.text}"
    gone = LikelyCause(PEER_GONE, stated(PEER_GONE).text, Standing.POSSIBLE, (proof,))
    others = tuple(each for each in failure.causes if each.label != PEER_GONE)
    return replace(
        failure,
        causes=(gone, *others)[:MOST_WITH_REPORT],
        rests_on=None,
        probability=None,
        tells_apart=None,
    )


def _as_both_say(failure: Failure, both: Compared) -> Failure:
    """The causes that only both logs together name come first."""
    if not both.causes:
        return failure
    standing = Standing.CONFIRMED if both.is_certain else Standing.POSSIBLE
    named = {each.label for each in both.causes}
    causes = [
        LikelyCause(each.label, each.text, standing if not order else Standing.POSSIBLE)
        for order, each in enumerate(both.causes)
    ]
    causes[0] = replace(causes[0], evidence=both.evidence)
    rest = [each for each in failure.causes if each.label not in named]
    lines = remedy(both.causes[0].label, failure.platform)
    steps = fill(lines, {"on": "", "on_device": "", "target": "PEER", "source": "ADDRESS"})
    steps = tuple(dict.fromkeys((*steps, *failure.next)))
    return replace(failure, causes=(*causes, *rest)[:MOST_WITH_REPORT], next=steps[:8])


def failure_of(seen: Occurrence) -> Failure:
    """The occurrence as `explain --log` would report it."""
    collector = Collector()
    collector.add(seen.line, seen.meaning)
    account: Account = collector.account(seen.line, 0)
    found = account.first
    assert found is not None, "a failure or a consequence"
    return found


def _order(placed: _Placed) -> tuple[bool, float, str, int]:
    return placed.at is None, placed.at or 0.0, placed.seen.where, placed.seen.line


def _step(among: Sequence[_Placed], begin: float | None, end: float | None) -> Step:
    hosts = sorted({each.host for each in among if each.host})
    said = Counter(_said(each) for each in among)
    return Step(
        begin, end, len(among), len(hosts), tuple(hosts[:_NAMES]), said.most_common(1)[0][0]
    )


def _said(placed: _Placed) -> str:
    meaning = placed.seen.meaning
    found = meaning.fields
    if found.status and (row := completion(found.status)):
        return f"completion status {row.number} ({row.name})"
    what = found.call or meaning.what.replace("-", " ")
    name = errno_name(found.errno, found.platform) if found.errno else None
    return f"{what}: {name}" if name else what


def _grave(host: KnownHost) -> list[Finding]:
    found = [each for each in host.findings if each.severity in _GRAVE]
    return sorted(found, key=lambda each: each.severity is not Severity.CRITICAL)


def _only(why: Mapping[str, Sequence[str]], degree: Counter[str]) -> str | None:
    """The one end that shows trouble of its own; None where both do, or neither."""
    among = [host for host in why if not degree or host in degree]
    return among[0] if len(among) == 1 else None


def _with_causes(ended: Ended) -> Ended:
    """With what its words are known for."""
    meaning = meaning_of_end(ended.text) or meaning_of_last(ended.text)
    causes = likely(meaning.causes) if meaning else ()
    return replace(ended, causes=causes, message=known_message(ended.text))


def _next_of(other: Ended) -> tuple[str, ...]:
    """What to look at of a failure of something else, on its host."""
    if not other.causes:
        return ()
    lines = fill(remedy(other.causes[0].label, "linux"), {"on": ""})
    host = (f"# on {shell_word(other.host)}",) if other.host and lines else ()
    return (*host, *lines)


def _next(first: FirstFailure | None, common: CommonEnd | None) -> tuple[str, ...]:
    """What to look at, and on which host: what is wrong at the common end comes first."""
    lines: list[str] = []
    if common is not None:
        grave = [each for each in common.findings if each.severity is Severity.CRITICAL]
        if remedy := [line for each in grave for line in each.remedy[:2]]:
            lines += [f"# on {shell_word(common.host)}", *remedy[:4]]
    if first is not None and first.failure.next:
        host = f"# on {shell_word(first.who.host)}" if first.who.host else ""
        lines += [*([host] if host else []), *first.failure.next]
    return tuple(dict.fromkeys(lines))
