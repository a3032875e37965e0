"""Many lines → one account: what failed first, what followed, what was not understood.

Lines of one device, stage and cause are one group, however many ranks print them. Memory is
bounded: so many groups, line numbers and names are kept, and what was dropped is counted.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable
from dataclasses import field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from rdmadiag.explain.causes import Known, stated
from rdmadiag.explain.completions import completion, completion_text, vendor
from rdmadiag.explain.log.kind import ENDED, EXACT, IN_WORDS, OF_RDMA, Found, Kind
from rdmadiag.explain.log.learned.threads import Similar
from rdmadiag.explain.log.links import (
    CAME_BACK,
    LINK_DOWN,
    NEVER_UP,
    Down,
    Links,
    Other,
    first_followed,
    is_of_a_link,
    link_of,
    says_down,
)
from rdmadiag.explain.log.settings import (
    BY_SOCKETS,
    LISTED_DOWN,
    PORT_ACTIVE,
    RDMA_ASKED_FOR,
    RDMA_OFF,
    Setting,
)
from rdmadiag.explain.log.talk import Talk
from rdmadiag.explain.log.templates import facts_of
from rdmadiag.explain.remedies import DMESG_OF_RDMA, PREFLIGHT_THERE, fill
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.errnos import Platform, errno_name, errno_text
from rdmadiag.frozen import dataclass

if TYPE_CHECKING:
    from rdmadiag.explain.log.learned.cases import Cases
    from rdmadiag.explain.log.learned.chances import Basis
    from rdmadiag.explain.log.meaning import Meaning

MOST_GROUPS: Final = 200  # of failures
MOST_UNKNOWN: Final = 50  # different ones
MOST_CAUSES: Final = 5
LINES_KEPT: Final = 10  # numbers of each group's first lines
NAMES_KEPT: Final = 8  # ranks, hosts and peers of each group
TEXT_KEPT: Final = 400  # characters of a line
REMEDY: Final = 6
LIKELY: Final = 0.6
"""A first cause of this probability is not put in question."""

Key = tuple[object, ...]

_AFTER_UNKNOWN: Final = (
    PREFLIGHT_THERE,
    DMESG_OF_RDMA,
    "# the whole log, from the start of the job: what failed first may stand above this part",
)


@dataclass(frozen=True, slots=True)
class Named:
    """A number with the name that its platform, or its enum, gives it."""

    number: int
    name: str | None
    text: str
    platform: Platform | None = None
    vendor_error: int | None = None


class Standing(StrEnum):
    """What a host's report says of a cause."""

    CONFIRMED = "confirmed"
    POSSIBLE = "possible"
    CONTRADICTED = "contradicted"


@dataclass(frozen=True, slots=True)
class LikelyCause:
    """One of several that compete."""

    label: str
    text: str
    standing: str = Standing.POSSIBLE
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """One group of lines."""

    kind: Kind
    what: str  # errno, completion, call, or the word of an event
    tool: str
    stage: str | None
    call: str | None
    errno: Named | None
    completion: Named | None
    platform: Platform
    device: str | None
    port: int | None
    gid_index: int | None
    local_gid: str | None
    remote_gid: str | None
    peers: tuple[str, ...]
    speakers: tuple[str, ...]  # ranks and hosts
    count: int  # lines
    lines: tuple[int, ...]  # the first of their numbers
    last_line: int
    text: str  # the first of them
    causes: tuple[LikelyCause, ...]
    next: tuple[str, ...]
    device_in_report: bool | None = None  # None: no report, or the line names no device
    rests_on: str | None = None  # the first cause: both, rule or words; None without one
    probability: float | None = None  # that it is right; None: not known
    tells_apart: str | None = None  # what to run where the log does not decide between the causes


@dataclass(frozen=True, slots=True)
class Unknown:
    """A line of RDMA and of trouble that nothing is known of."""

    line: int
    text: str
    count: int  # of lines that differ in digits alone


@dataclass(frozen=True, slots=True)
class OtherFailure:
    """A failure of something else than RDMA."""

    line: int
    text: str
    count: int
    causes: tuple[LikelyCause, ...] = ()  # where its own words name them
    next: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Account:
    """What a log came to."""

    failures: tuple[Failure, ...]  # what failed first is first
    consequences: tuple[Failure, ...]  # of RDMA
    notes: tuple[Failure, ...]
    unknown: tuple[Unknown, ...]
    unknown_next: tuple[str, ...]  # what to look at where lines are not understood
    aftermath: int  # lines of watchdogs, aborts and the like
    aftermath_lines: tuple[int, ...]
    dropped: int  # lines that were recognised and not kept
    lines: int
    bytes: int
    other: OtherFailure | None = None  # how a program ended, in words that are not of RDMA
    similar: tuple[Similar, ...] | None = None  # None: not looked for

    @property
    def first(self) -> Failure | None:
        """What to look at."""
        return next(iter((*self.failures, *self.consequences)), None)

    @property
    def said(self) -> str:
        """The lines that it is made of, as they are kept."""
        groups = (*self.failures, *self.consequences, *self.notes)
        return "\n".join([each.text for each in groups] + [each.text for each in self.unknown])

    @property
    def unknown_before(self) -> tuple[Unknown, ...]:
        """What was said before the first failure, and perhaps is what failed first."""
        first = self.first
        return tuple(each for each in self.unknown if first and each.line < min(first.lines))


@dataclasses.dataclass
class _Group:
    meaning: "Meaning"
    number: int
    text: str
    count: int = 0
    numbers: list[int] = field(default_factory=list)
    last: int = 0
    speakers: dict[str, None] = field(default_factory=dict)
    peers: dict[str, None] = field(default_factory=dict)
    clock: tuple[str, float] | None = None
    rests_on: "Basis | None" = None
    probability: float | None = None


class Collector:
    """Takes sayings in the order of their lines."""

    def __init__(self) -> None:
        self._groups: dict[Key, _Group] = {}
        self._beside: dict[Key, _Group] = {}  # trouble beside lines of RDMA
        self._ended: dict[Key, _Group] = {}  # aftermath whose message suggests causes
        self._worded: dict[Key, _Group] = {}  # not understood, but for its words
        self._silent: dict[Key, _Group] = {}  # not understood, and no word suggests a cause
        self._unknown: dict[str, Unknown] = {}
        self._unexplained: dict[str, Unknown] = {}  # aftermath that names RDMA, of what is unseen
        self._aftermath = 0
        self._aftermath_lines: list[int] = []
        self._dropped = 0
        self._settings: dict[str, Setting] = {}
        self._end: OtherFailure | None = None
        self._apart: OtherFailure | None = None  # names its cause, with nothing of RDMA around it
        self._links = Links()
        self.talk = Talk()

    @property
    def is_explained(self) -> bool:
        """A line of RDMA was understood, or said itself that it is one of trouble."""
        return bool(self._groups or self._worded or self._unknown)

    @property
    def found(self) -> Found:
        """What was understood so far."""
        groups = self._groups.values()
        others = _others(groups)
        if others or any(self._is_lost(each, others) for each in groups):
            return Found.FAILURE
        if self._worded or self._beside or self._ended:
            return Found.WORDS
        if self._unknown or self._unexplained:
            return Found.UNKNOWN
        return Found.NOTE if self._groups else Found.NOTHING

    @property
    def says_trouble(self) -> bool:
        """Something of RDMA failed, or may have: it would not exit 0."""
        return self.found not in (Found.NOTE, Found.NOTHING)

    def forget_what_is_not_understood(self) -> None:
        """Keep failures that are known, notes and settings alone."""
        for each in (self._worded, self._beside, self._silent, self._unknown, self._unexplained):
            each.clear()

    def add(self, number: int, meaning: "Meaning") -> None:
        """One line with its number."""
        if is_of_a_link(meaning.word):
            self._links.take(number, meaning.fields, meaning.fields.who or "")
        if meaning.setting is not None:
            self._settings[meaning.setting.word] = meaning.setting
        elif meaning.kind is Kind.AFTERMATH:
            self._aftermath += 1
            if len(self._aftermath_lines) < LINES_KEPT:
                self._aftermath_lines.append(number)
            if meaning.what == OF_RDMA:
                self._add_unknown(number, meaning, self._unexplained)
                if meaning.causes:
                    worded = replace(meaning, kind=Kind.UNKNOWN, what=IN_WORDS)
                    self._add_group(number, worded, self._beside)
            elif meaning.what == ENDED:
                self._add_group(number, replace(meaning, kind=Kind.FAILURE), self._ended)
        elif meaning.kind is Kind.UNKNOWN:
            self._add_unknown(number, meaning, self._unknown)
            self._add_group(number, meaning, self._worded if meaning.causes else self._silent)
        else:
            self._add_group(number, meaning, self._groups)

    def note_end(self, number: int, text: str) -> None:
        """How a program ended."""
        self._end = OtherFailure(number, text[:TEXT_KEPT], 1)

    def note_apart(self, number: int, meaning: "Meaning") -> None:
        """A message that names its cause, where nothing says that it is of RDMA: the first."""
        if self._apart is None and meaning.kind is Kind.FAILURE and meaning.causes:
            text, causes = meaning.fields.text[:TEXT_KEPT], _likely(meaning.causes)
            self._apart = OtherFailure(number, text, 1, causes, _next(meaning))

    def _add_group(self, number: int, meaning: "Meaning", to: dict[Key, _Group]) -> None:
        found = meaning.fields
        key: Key = (
            meaning.kind,
            meaning.what,
            found.device,
            found.port,
            found.stage,
            found.errno,
            found.status,
        )
        if meaning.kind is Kind.UNKNOWN:
            key = (*key, meaning.causes)
        elif meaning.what == LINK_DOWN:
            key = (*key, link_of(found), says_down(found.text))
        group = to.get(key)
        if group is None:
            if len(to) >= MOST_GROUPS:
                self._dropped += 1
                return
            group = to[key] = _Group(meaning, number, found.text[:TEXT_KEPT])
        group.count += 1
        group.last = number
        if len(group.numbers) < LINES_KEPT and number not in group.numbers[-1:]:
            group.numbers.append(number)
        for kept, value in ((group.speakers, found.who), (group.peers, found.peer)):
            if value and len(kept) < NAMES_KEPT:
                kept[value[:64]] = None
        if found.clock and (group.clock is None or _earlier(found.clock, group.clock)):
            group.clock = found.clock

    def _add_unknown(self, number: int, meaning: "Meaning", to: dict[str, Unknown]) -> None:
        text = meaning.fields.text[:TEXT_KEPT]
        key = "".join("0" if each.isdigit() else each for each in text)
        if key in to:
            to[key] = replace(to[key], count=to[key].count + 1)
        elif len(to) < MOST_UNKNOWN:
            to[key] = Unknown(number, text, 1)
        else:
            self._dropped += 1

    def account(self, lines: int, size: int, cases: "Cases | None" = None) -> Account:
        """All of it, in order; `cases` are those that were learned, else the package's."""
        self._hear_talk()
        if BY_SOCKETS in self._settings and RDMA_ASKED_FOR not in self._settings:
            for each in self._groups.values():
                _as_fallback(each)
            self._pass_over_devices()
        groups = _in_time([each for each in self._groups.values() if self._is_meant(each)])
        groups = self._without_what_followed(self._with_links(_merged(groups)))
        worded = self._worded or (self._beside if not self._unknown else {})
        if any(each.meaning.kind is not Kind.NOTE for each in groups):
            worded = {}
        words = [_as_failure(each) for each in _in_time(list(worded.values()))]
        groups += words
        if not any(each.meaning.kind is not Kind.NOTE for each in groups):
            groups += _in_time([e for e in self._ended.values() if not self._is_told_below(e)])
        if not any(each.meaning.kind is not Kind.NOTE for each in groups):
            words = [_as_failure(each) for each in _in_time(list(self._silent.values()))[:1]]
            groups += words
        self._weigh(groups)
        self._hear(groups)
        self._recall(groups, cases)
        words = [each for each in words if each.meaning.causes]
        groups = [each for each in groups if each.meaning.what != IN_WORDS or each.meaning.causes]
        of = {kind: tuple(_failure(g) for g in groups if g.meaning.kind is kind) for kind in Kind}
        is_explained = of[Kind.FAILURE] or of[Kind.CONSEQUENCE] or self._unknown
        unknown = self._unknown if is_explained else self._unexplained
        shown = {number for each in words for number in each.numbers}
        unknown = {key: each for key, each in unknown.items() if each.line not in shown}
        return Account(
            failures=of[Kind.FAILURE],
            consequences=of[Kind.CONSEQUENCE],
            notes=of[Kind.NOTE],
            unknown=tuple(unknown.values()),
            unknown_next=_AFTER_UNKNOWN if unknown else (),
            aftermath=self._aftermath,
            aftermath_lines=tuple(self._aftermath_lines),
            dropped=self._dropped,
            lines=lines,
            bytes=size,
            other=self._other(lines),
        )

    def _other(self, lines: int) -> OtherFailure | None:
        """What names its cause, of a log that ended in trouble or is short; else how it ended."""
        from rdmadiag.explain.log.whole import MOST_LINES

        if self._apart is not None and (self._end is not None or lines <= MOST_LINES):
            return self._apart
        return self._end

    def _without_what_followed(self, groups: list[_Group]) -> list[_Group]:
        """Without consequences of a failure that is none of RDMA: of a GPU without memory."""
        apart = self._apart
        if apart is None or any(each.meaning.kind is Kind.FAILURE for each in groups):
            return groups
        consequence = Kind.CONSEQUENCE
        return [e for e in groups if e.meaning.kind is not consequence or e.number < apart.line]

    def _is_told_below(self, group: _Group) -> bool:
        """Whether a later line says what ended the program, and that is none of RDMA."""
        return self._apart is not None and self._apart.line > group.number

    def _with_links(self, groups: list[_Group]) -> list[_Group]:
        """Links that came up again, and ports that had none since the start, are no failures."""
        others = _others(groups)
        moved = False
        for each in groups:
            if not self._is_followed(each):
                continue
            down = self._down(each, others)
            if down is None:
                what = CAME_BACK if self._came_back(each) else NEVER_UP
                each.meaning = replace(each.meaning, kind=Kind.NOTE, what=what, causes=())
            elif down.number != each.number:
                each.number, each.text, each.clock = down.number, down.text[:TEXT_KEPT], down.clock
                moved = True
                later = [number for number in each.numbers if number > down.number]
                each.count -= sum(number < down.number for number in each.numbers)
                each.numbers = [down.number, *later]
        return _in_time(groups) if moved else groups

    def _is_lost(self, group: _Group, others: Iterable[Other]) -> bool:
        """Whether a link is, or counts for another reason."""
        if group.meaning.what != LINK_DOWN:
            return False
        return not self._is_followed(group) or self._down(group, others) is not None

    def _is_followed(self, group: _Group) -> bool:
        """Whether it is of a link of which all is known that was said."""
        if group.meaning.what != LINK_DOWN or len(group.speakers) >= NAMES_KEPT:
            return False
        return says_down(group.meaning.fields.text)

    def _down(self, group: _Group, others: Iterable[Other]) -> Down | None:
        """What counts of a link that went down; None: nothing does."""
        found, several = group.meaning.fields, tuple(others)
        downs = [
            self._links.lost(found, of) or first_followed(self._links.flaps(found, of), several)
            for of in group.speakers or ("",)
        ]
        return min((each for each in downs if each), key=lambda each: each.number, default=None)

    def _came_back(self, group: _Group) -> bool:
        return any(self._links.is_up(group.meaning.fields, of) for of in group.speakers or ("",))

    def _pass_over_devices(self) -> None:
        """A job that goes by sockets fails by what fails there, not for want of a device."""
        failed = [e for e in self._groups.values() if e.meaning.kind is Kind.FAILURE]
        wanted = [each for each in failed if _is_of_a_device(each)]
        if len(wanted) < len(failed):
            for each in wanted:
                each.meaning = replace(each.meaning, kind=Kind.NOTE)

    def _hear_talk(self) -> None:
        """A test that came to no result, where no line says why."""
        kinds = {each.meaning.kind for each in self._groups.values()}
        if Kind.FAILURE in kinds or self._worded or self.talk.has_result:
            return
        if self.talk.empty_end is not None:
            self.add(self.talk.line, self.talk.empty())
        elif self.talk.is_stopped and Kind.CONSEQUENCE not in kinds and not self._unknown:
            self.add(self.talk.line, self.talk.stopped())

    def _weigh(self, groups: Iterable[_Group]) -> None:
        """What was set decides between the causes that are possible."""
        for row in self._settings.values():
            for group in groups:
                meaning = group.meaning
                stage, of_linux = meaning.fields.stage, meaning.fields.platform == "linux"
                if (
                    meaning.kind is Kind.FAILURE
                    and of_linux
                    and stage in row.stages
                    and _fits(row.label, meaning)
                ):
                    first = stated(row.label)
                    rest = [each for each in meaning.causes if each.label != row.label]
                    group.meaning = replace(meaning, causes=(first, *rest)[:MOST_CAUSES])

    def _hear(self, groups: Iterable[_Group]) -> None:
        """What the words of all lines of trouble say, where a line by itself says little."""
        from rdmadiag.explain.log.in_words import likeliest, of_a_mac, weights

        lines = [(each.text, each.meaning.fields.stage) for each in groups]
        lines += [(each.text, None) for each in self._unknown.values()]
        everywhere = weights("\n".join(text for text, _ in lines)) if lines else Counter()
        for group in groups:
            meaning = group.meaning
            if meaning.kind not in (Kind.FAILURE, Kind.CONSEQUENCE):
                continue
            own = weights(group.text, meaning.fields.stage)
            own += own if meaning.what == IN_WORDS else Counter()
            own += everywhere
            if meaning.fields.platform == "darwin":
                own = of_a_mac(own, meaning.fields.stage)
            if meaning.what == IN_WORDS:
                group.meaning = replace(meaning, causes=likeliest(own, MOST_CAUSES))
                continue
            if meaning.what in EXACT:
                continue
            given = {each.label for each in meaning.causes}
            rest = [each for each in likeliest(own, 3 * MOST_CAUSES) if each.label not in given]
            group.meaning = replace(meaning, causes=(*meaning.causes, *rest)[:MOST_CAUSES])

    def _recall(self, groups: Iterable[_Group], cases: "Cases | None") -> None:
        """What similar cases of other logs had, and what similar messages tell."""
        lines = [each.text for each in groups]
        lines += [each.text for each in self._unknown.values()]
        if not lines:
            return
        from rdmadiag.explain.log.catalogue.alike import causes_alike
        from rdmadiag.explain.log.learned.cases import shipped
        from rdmadiag.explain.log.learned.chances import chance
        from rdmadiag.explain.log.meaning import used
        from rdmadiag.explain.log.recall import ALIKE, basis, named, recalled

        cases = shipped() if cases is None else cases
        said = "\n".join(dict.fromkeys(lines))
        near = cases.near(said)
        labels = cases.causes(near)
        of_messages, close = causes_alike(said)
        alike = any(each.likeness >= ALIKE and cases.cases[each.case].labels for each in near)
        for group in groups:
            meaning = group.meaning
            if meaning.kind not in (Kind.FAILURE, Kind.CONSEQUENCE) or meaning.what in EXACT:
                continue
            given = meaning.causes
            rule = meaning.what != IN_WORDS
            if not given and not alike and not close:
                continue
            at, facts = meaning.fields.platform, used(meaning.fields)
            learned = named(labels, at, facts)
            printed = named(of_messages, at, facts)
            several = recalled(given, learned, printed, MOST_CAUSES, by_rule=rule, alike=alike)
            group.meaning = replace(meaning, causes=several)
            group.rests_on = basis(several, learned, by_rule=rule and bool(given))
            group.probability = chance(group.rests_on) if group.rests_on else None

    def _is_meant(self, group: _Group) -> bool:
        """NCCL that is set to leave RDMA alone has no device, as it should.

        And of several ports that are listed one may be without a cable.
        """
        meaning = group.meaning
        if meaning.what == LISTED_DOWN and PORT_ACTIVE in self._settings:
            return False
        of_nccl = meaning.fields.tool == "nccl" and meaning.what == "no-device"
        return not (of_nccl and RDMA_OFF in self._settings)


def _others(groups: Iterable[_Group]) -> list[Other]:
    """What failed that is no link which went down."""
    return [
        (each.number, each.clock)
        for each in groups
        if each.meaning.kind is not Kind.NOTE and each.meaning.what != LINK_DOWN
    ]


def _as_fallback(group: _Group) -> None:
    """NCCL finds no device, says so for information, takes sockets: nobody asked it for RDMA.

    Where the library is missing, the device may be there.
    """
    meaning = group.meaning
    has_none = "no-rdma-device" in {each.label for each in meaning.causes[:2]}
    if meaning.fields.tool == "nccl" and has_none and " INFO " in meaning.fields.text:
        group.meaning = replace(meaning, kind=Kind.NOTE, what=BY_SOCKETS)


def _is_of_a_device(group: _Group) -> bool:
    meaning = group.meaning
    labels = [each.label for each in meaning.causes[:1]]
    return meaning.fields.tool == "nccl" and labels in _NO_DEVICE


_NO_DEVICE: Final = (["no-rdma-device"], ["verbs-library-missing"], ["provider-missing"])


def _as_failure(group: _Group) -> _Group:
    """The same, as a failure that is known by its words alone."""
    group.meaning = replace(group.meaning, kind=Kind.FAILURE, what=IN_WORDS)
    return group


def _fits(label: str, meaning: "Meaning") -> bool:
    """It is one of those named already; a device that does not open has too many to name."""
    return meaning.fields.stage is Stage.OPEN or label in {each.label for each in meaning.causes}


def _earlier(one: tuple[str, float], other: tuple[str, float]) -> bool:
    return one[0] == other[0] and one[1] < other[1]


def _in_time(groups: list[_Group]) -> list[_Group]:
    """By the clock where all have the same one, else by line: logs of ranks may follow each other.

    A clock of whole seconds leaves the order of lines within one.
    """
    ordered = sorted(groups, key=lambda each: each.number)
    kinds = {each.clock[0] if each.clock else None for each in ordered}
    if len(kinds) == 1 and None not in kinds:
        return sorted(ordered, key=lambda each: each.clock[1] if each.clock else 0.0)
    return ordered


def _sameness(group: _Group) -> Key:
    meaning = group.meaning
    what = "call" if meaning.what == "errno" else meaning.what
    if what == "completion":  # its status is its number
        return (id(group),)
    return (what, meaning.fields.stage, meaning.fields.platform)


def _merged(groups: list[_Group]) -> list[_Group]:
    """What failed without a number says less if the same failed with one.

    A call is the same if its stage is, an event if it is the same event.
    """
    exact: dict[Key, list[_Group]] = {}
    for each in groups:
        if each.meaning.fields.errno is not None:
            exact.setdefault(_sameness(each), []).append(each)
    kept: dict[int, _Group] = {}  # in the place of the first that said it
    for each in groups:
        same = each
        if each.meaning.fields.errno is None:
            several = exact.get(_sameness(each), ())
            same = next((other for other in several if _may_be_of_one_device(each, other)), each)
        if same is not each:
            same.count += each.count
            same.numbers = sorted({*same.numbers, *each.numbers})[:LINES_KEPT]
            same.last = max(same.last, each.last)
        kept.setdefault(id(same), same)
    return list(kept.values())


def _may_be_of_one_device(one: _Group, other: _Group) -> bool:
    devices = one.meaning.fields.device, other.meaning.fields.device
    return None in devices or devices[0] == devices[1]


def _failure(group: _Group) -> Failure:
    found = group.meaning.fields
    return Failure(
        kind=group.meaning.kind,
        what=group.meaning.what,
        tool=found.tool,
        stage=found.stage,
        call=found.call,
        errno=_errno(found.errno, found.platform),
        completion=_completion(found.status, found.vendor_error),
        platform=found.platform,
        device=found.device,
        port=found.port,
        gid_index=found.gid_index,
        local_gid=str(found.local_gid) if found.local_gid else None,
        remote_gid=str(found.remote_gid) if found.remote_gid else None,
        peers=tuple(group.peers),
        speakers=tuple(group.speakers),
        count=group.count,
        lines=tuple(group.numbers),
        last_line=group.last,
        text=group.text,
        causes=_likely(group.meaning.causes),
        next=_next(group.meaning),
        rests_on=group.rests_on,
        probability=group.probability,
        tells_apart=_apart(group),
    )


def _apart(group: _Group) -> str | None:
    """What to run, where the likeliest cause is not likely enough."""
    if group.meaning.kind is Kind.NOTE or (group.probability or 0) >= LIKELY:
        return None
    from rdmadiag.explain.log.apart import apart

    found = group.meaning.fields
    labels = [each.label for each in group.meaning.causes]
    look = apart(labels, found.platform, facts_of(found))
    return look.line if look else None


def _likely(causes: Iterable[Known]) -> tuple[LikelyCause, ...]:
    return tuple(LikelyCause(each.label, each.text) for each in causes)


def _next(meaning: "Meaning") -> tuple[str, ...]:
    return fill(meaning.next, facts_of(meaning.fields))[:REMEDY]


def _errno(number: int | None, platform: Platform) -> Named | None:
    if number is None:
        return None
    return Named(number, errno_name(number, platform), errno_text(number, platform), platform)


def _completion(status: int | None, vendor_error: int | None) -> Named | None:
    row = completion(status) if status else None
    if row is None:
        return None
    text = completion_text(row.number, vendor_error) if vendor_error is not None else row.text
    known = vendor(row.number, vendor_error) if vendor_error is not None else None
    if known:
        text = f"{text}, which with {known.provider} {known.meaning}"
    return Named(row.number, row.name, text, None, vendor_error)
