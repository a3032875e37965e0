"""Many lines → one account.

Memory is bounded: so many groups are kept, and what was dropped is counted.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rdmadiag.explain.log.account import Account, Unknown
from rdmadiag.explain.log.groups import (
    LINES_KEPT,
    NAMES_KEPT,
    TEXT_KEPT,
    Group,
    Key,
    as_failure,
    as_fallback,
    breaks_nothing,
    failure_of,
    in_time,
    is_done_without,
    is_earlier,
    is_error,
    is_lived_through,
    is_of_a_device,
    merged,
    others_of,
    wants_a_device,
)
from rdmadiag.explain.log.kind import (
    DISK_FAILED,
    ENDED,
    GPU_FAULT,
    IN_WORDS,
    MESSAGE,
    OF_NO_RDMA,
    OF_RDMA,
    SHOWN,
    Found,
    Kind,
)
from rdmadiag.explain.log.lost_links import is_lost, with_links
from rdmadiag.explain.log.other_reasons import OtherReasons
from rdmadiag.explain.log.ranking.evidence import (
    hear,
    inherit,
    of_mads,
    recall,
    weigh,
    with_observed,
)
from rdmadiag.explain.log.ranking.excluded import of_limits, of_modules
from rdmadiag.explain.log.ranking.first_causes import (
    of_crashes,
    of_flaps,
    of_layer,
    of_lengths,
    of_listings,
    of_losses,
    of_lost_links,
    of_own_gids,
    of_requests,
    of_steps,
    of_the_way,
)
from rdmadiag.explain.log.recognition.catalogue import message_of
from rdmadiag.explain.log.recognition.links import (
    LINK_DOWN,
    Links,
    is_of_a_link,
    link_of,
    says_down,
)
from rdmadiag.explain.log.recognition.settings import (
    ASKS_FOR_RDMA,
    BY_SOCKETS,
    LISTED_DOWN,
    PORT_ACTIVE,
    RDMA_OFF,
    SETTINGS,
    Setting,
)
from rdmadiag.explain.log.recognition.trouble import names_rdma
from rdmadiag.explain.log.text.benchmark import Benchmark
from rdmadiag.explain.log.text.observed import observed
from rdmadiag.explain.remedies import DMESG_OF_RDMA, PREFLIGHT_THERE
from rdmadiag.late import late

if TYPE_CHECKING:
    from rdmadiag.explain.log.meaning import Meaning
    from rdmadiag.explain.log.ranking.learned.model import Model
    from rdmadiag.explain.log.text.outcome import Outcome

MOST_GROUPS: Final = 200  # of failures
MOST_UNKNOWN: Final = 50  # different ones
MOST_AROUND: Final = 3  # lines of trouble with those around them

_AFTER_UNKNOWN: Final = (
    PREFLIGHT_THERE,
    DMESG_OF_RDMA,
    "# the whole log, from the start of the job: what failed first may stand above this part",
)


class Collector:
    """Takes sayings in the order of their lines."""

    def __init__(self) -> None:
        self.whole = ""
        """All of a short log."""
        self.is_of_ethernet = False
        """It is a session on one host, of whose RDMA ports all are of Ethernet."""
        self.is_page = False
        """It is a page of the manual, in which no program has printed what it names."""
        self._around: list[bytes] = []  # what stands around the first lines that were taken
        self._groups: dict[Key, Group] = {}
        self._beside: dict[Key, Group] = {}  # trouble beside lines of RDMA
        self._ended: dict[Key, Group] = {}  # aftermath whose message suggests causes
        self._worded: dict[Key, Group] = {}  # not understood, but for its words
        self._silent: dict[Key, Group] = {}  # not understood, and no word suggests a cause
        self._unknown: dict[str, Unknown] = {}
        self._unexplained: dict[str, Unknown] = {}  # aftermath that names RDMA, of what is unseen
        self._aftermath = 0
        self._aftermath_lines: list[int] = []
        self._dropped = 0
        self._settings: dict[str, Setting] = {}
        self._noted: tuple[int, Meaning] | None = None  # a setting that names a cause
        self._of_the_way: list[tuple[str, ...]] = []  # causes, where nothing was acknowledged
        self._outcome: Outcome | None = None
        self._links = Links()
        self.benchmark = Benchmark()
        self.reasons = OtherReasons()

    @property
    def is_explained(self) -> bool:
        """A line of RDMA was understood, or said itself that it is one of trouble."""
        return bool(self._groups or self._worded or self._unknown)

    @property
    def found(self) -> Found:
        """What was understood so far."""
        groups = [each for each in self._groups.values() if self._is_meant(each)]
        others = others_of(groups)
        if others or any(is_lost(each, others, self._links) for each in groups):
            return Found.FAILURE
        if self._worded or self._beside or self._ended:
            return Found.WORDS
        if self._unknown or self._unexplained:
            return Found.UNKNOWN
        return Found.NOTE if groups else Found.NOTHING

    @property
    def says_trouble(self) -> bool:
        """Something of RDMA failed, or may have: it would not exit 0."""
        return self.found not in (Found.NOTE, Found.NOTHING)

    @property
    def is_quiet(self) -> bool:
        """No line said of trouble, nor of what a log may note."""
        return self.found is Found.NOTHING

    @property
    def went_on(self) -> int:
        """The line of the last result; 0 without one, or where it was not looked for."""
        return self._outcome.went_on if self._outcome else 0

    @property
    def ended_well(self) -> int:
        """The line in which a program says that it came to its end; 0 without one."""
        found = self._outcome
        return max(found.went_on, found.ended_well, found.tested) if found else 0

    @property
    def has_outcome(self) -> bool:
        """How the rest of the log went is known."""
        return self._outcome is not None

    def forget_what_is_not_understood(self) -> None:
        """Keep failures that are known, notes and settings alone."""
        for each in (self._worded, self._beside, self._silent, self._unknown, self._unexplained):
            each.clear()

    def forget_all(self) -> None:
        """Of a page of the manual."""
        self._forget(lambda _: True)
        self.reasons.forget()
        self.is_page = True

    def add(self, number: int, meaning: "Meaning") -> None:
        """One line with its number."""
        if is_of_a_link(meaning.word):
            self._links.take(number, meaning.fields, meaning.fields.who or "")
        if meaning.setting is not None:
            self._settings[meaning.setting.word] = meaning.setting
            if meaning.causes and self._noted is None:
                self._noted = (number, replace(meaning, setting=None))
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

    def look_around(self, text: bytes) -> None:
        """A line of trouble and what stands above and below it: of the first few."""
        if len(self._around) < MOST_AROUND:
            self._around.append(text)

    def note_of_the_way(self, labels: tuple[str, ...]) -> None:
        """Why a transfer may have got no answer, by a listing beside it."""
        self._of_the_way.append(labels)

    def take_outcome(self, outcome: "Outcome") -> None:
        """What the rest of the log says of its lines of trouble."""
        self._outcome = outcome
        if outcome.went_on:
            self._pass_over_what_was_tried(outcome.went_on, outcome.since)
        for each in self._groups.values():
            if is_lived_through(each, outcome):
                each.meaning = replace(each.meaning, kind=Kind.NOTE)
        if outcome.other:
            self._pass_over_what_followed()
        if outcome.over_tcp:
            self._forget(lambda _: True)
        if outcome.is_whole:
            self._pass_over_fallbacks()

    def is_passed_over(self, number: int, meaning: "Meaning") -> bool:
        """Whether the rest of the log says that the line is none of RDMA's trouble."""
        outcome = self._outcome
        if outcome is None:
            return False
        return outcome.over_tcp or (number < outcome.went_on and is_done_without(meaning))

    @property
    def _is_asked_for(self) -> bool:
        """Whether RDMA was set as the transport, or a device is there."""
        asks = self._outcome is not None and self._outcome.asks_for_rdma
        return asks or not ASKS_FOR_RDMA.isdisjoint(self._settings)

    def _pass_over_fallbacks(self) -> None:
        """Of NCCL, where nobody asked it for RDMA."""
        outcome = self._outcome
        if self._is_asked_for:
            return
        by_sockets = BY_SOCKETS in self._settings
        fails = outcome is not None and outcome.nccl_warns
        if by_sockets or (outcome and outcome.is_whole and not fails):
            for each in self._groups.values():
                as_fallback(each, takes_sockets=by_sockets and not fails)
        if by_sockets:
            self._pass_over_devices()

    def _pass_over_what_was_tried(self, before: int, since: int) -> None:
        """What programs do without, where results follow it that were printed `since` a line.

        Of a long log the end alone was looked at: what is not understood in it stays.
        """
        before_it = [e for e in self._groups.values() if e.last < before and e.number > since]
        for each in before_it:
            if is_done_without(each.meaning) and not self._is_wanted(each):
                each.meaning = replace(each.meaning, kind=Kind.NOTE)
        if self._outcome is None or not self._outcome.is_whole:
            return
        for groups in (self._worded, self._beside, self._silent):
            tried = [k for k, e in groups.items() if e.last < before and is_done_without(e.meaning)]
            for key in tried:
                del groups[key]
        self._ended = {key: each for key, each in self._ended.items() if each.last > before}
        for several in (self._unknown, self._unexplained):
            passed = [t for t, e in several.items() if e.line < before and not is_error(e.text)]
            for text in passed:
                del several[text]

    def _is_wanted(self, group: Group) -> bool:
        """Whether results do not show that it was done without as somebody meant it."""
        if group.meaning.what == SHOWN:
            return True
        if BY_SOCKETS in self._settings and self._is_asked_for and wants_a_device(group):
            return True
        first = next((cause.label for cause in group.meaning.causes), None)
        if first == "network-plugin-unfit":  # somebody installed it
            return True
        by_others = self._outcome is not None and self._outcome.benchmarks_others
        return by_others and first == "provider-missing"

    def _pass_over_what_followed(self) -> None:
        """What is said of the peers of a program that ended by something else than RDMA."""
        assert self._outcome is not None
        assert self._outcome.other is not None
        number, groups = self._outcome.other[0], self._groups.values()
        if any(e.meaning.kind is Kind.FAILURE and not breaks_nothing(e) for e in groups):
            return
        for each in groups:
            if breaks_nothing(each):
                each.meaning = replace(each.meaning, kind=Kind.NOTE)
        self._groups = {
            key: each
            for key, each in self._groups.items()
            if each.meaning.kind is not Kind.CONSEQUENCE or each.number < number
        }
        self._forget(lambda said: not names_rdma(said), known=False)

    def _forget(self, which: Callable[[str], bool], *, known: bool = True) -> None:
        """Lines of trouble by their texts; those that are understood only if `known`."""
        several = (self._worded, self._beside, self._silent, self._ended)
        for groups in (*several, self._groups) if known else several:
            for key in [k for k, each in groups.items() if which(each.text)]:
                del groups[key]
        for unknown in (self._unknown, self._unexplained):
            for text in [t for t, each in unknown.items() if which(each.text)]:
                del unknown[text]

    def _add_group(self, number: int, meaning: "Meaning", to: dict[Key, Group]) -> None:
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
        elif meaning.what == MESSAGE and len(meaning.causes) == 1:
            key = (*key, meaning.causes)  # it says why, and others of its stage may not
        group = to.get(key)
        if group is None:
            if len(to) >= MOST_GROUPS:
                self._dropped += 1
                return
            group = to[key] = Group(meaning, number, found.text[:TEXT_KEPT])
        group.count += 1
        group.last = number
        if len(group.numbers) < LINES_KEPT and number not in group.numbers[-1:]:
            group.numbers.append(number)
        for kept, value in ((group.speakers, found.who), (group.peers, found.peer)):
            if value and len(kept) < NAMES_KEPT:
                kept[value[:64]] = None
        if found.clock and (group.clock is None or is_earlier(found.clock, group.clock)):
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

    @property
    def groups(self) -> tuple[Group, ...]:
        """Of what was understood, in the order of their first lines."""
        return tuple(self._groups.values())

    def settle(self) -> None:
        """Decide by all lines together which of them say of nothing that was needed."""
        self._take_benchmark()
        # NCCL takes EFA and the like by a plugin: then it has RDMA of its own switched off, too.
        if self._noted and BY_SOCKETS in self._settings:
            self._add_group(*self._noted, self._groups)
        self._pass_over_fallbacks()

    def account(self, lines: int, size: int, model: "Model | None" = None) -> Account:
        """All of it, in order; `model` is what was learned of causes, else the package's."""
        self.settle()
        groups = in_time([each for each in self._groups.values() if self._is_meant(each)])
        groups = self.reasons.without_what_followed(with_links(merged(groups), self._links))
        apart, reason = self.reasons.apart, self.reasons.first
        if reason and reason.causes and reason.causes[0].label in OF_NO_RDMA:
            _pass_over_what_is_beside(groups, reason.causes[0].label)
        is_apart = apart and (apart.causes[0].label in OF_NO_RDMA or self._names_no_rdma())
        named = (apart.line,) if apart and is_apart else ()
        worded = self._worded or (self._beside if not self._unknown else {})
        worded = {key: each for key, each in worded.items() if each.number not in named}
        if named:
            worded = {key: each for key, each in worded.items() if _may_be_of_rdma(each.text)}
        if any(each.meaning.kind is not Kind.NOTE for each in groups):
            worded = {}
        words = [as_failure(each) for each in in_time(list(worded.values()))]
        groups += words
        if not any(each.meaning.kind is not Kind.NOTE for each in groups):
            groups += in_time([e for e in self._ended.values() if not self.reasons.has_ended(e)])
        if not any(each.meaning.kind is not Kind.NOTE for each in groups):
            words = [as_failure(each) for each in in_time(list(self._silent.values()))[:1]]
            groups += words
        seen = observed(self.whole)
        groups = with_observed(groups, seen)
        groups = of_mads(groups) if self.is_of_ethernet else groups
        given = {**self._settings, **{row.word: row for row in SETTINGS if row.word in seen}}
        weigh(groups, given.values())
        of_lengths(groups)
        said = reason.causes[:1] if reason else ()
        inherit(groups, {*self.reasons.of_hosts, *(each.label for each in said)})
        hear(groups, [each.text for each in self._unknown.values()])
        around = b"\n".join(self._around).decode("utf-8", "replace")
        recall(groups, [e.text for e in self._unknown.values()], self.whole, around, model)
        all_seen = {*self._settings, *seen}
        of_requests(groups, all_seen)
        of_losses(groups, all_seen)
        of_the_way(groups, self._of_the_way)
        of_layer(groups, all_seen)
        of_own_gids(groups, all_seen)
        of_steps(groups, seen)
        of_flaps(groups, is_short=bool(self.whole))
        of_listings(groups, is_active=PORT_ACTIVE in self._settings)
        of_lost_links(groups)
        of_crashes(groups)
        of_limits(groups, self.whole)
        of_modules(groups, self.whole)
        words = [each for each in words if each.meaning.causes]
        groups = [each for each in groups if each.meaning.what != IN_WORDS or each.meaning.causes]
        of = {kind: tuple(failure_of(g) for g in groups if g.meaning.kind is kind) for kind in Kind}
        is_explained = of[Kind.FAILURE] or of[Kind.CONSEQUENCE] or self._unknown
        unknown = self._unknown if is_explained else self._unexplained
        failed = (*of[Kind.FAILURE], *of[Kind.CONSEQUENCE])
        if failed and apart and apart.causes[0].label == DISK_FAILED:
            self.reasons.apart = None  # nothing ended by it
        shown = {number for each in words for number in each.numbers} | {*named}
        unknown = {key: each for key, each in unknown.items() if each.line not in shown}
        if named:
            unknown = {key: each for key, each in unknown.items() if _may_be_of_rdma(each.text)}
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
            other=self.reasons.fault_before(failed) or self.reasons.said(lines, self.went_on),
        )

    def _names_no_rdma(self) -> bool:
        """Whether the text is whole, and no line has a word of RDMA."""
        return self.whole != "" and not any(map(names_rdma, self.whole.splitlines()))

    def _pass_over_devices(self) -> None:
        """A job that goes by sockets fails by what fails there, not for want of a device."""
        failed = [e for e in self._groups.values() if e.meaning.kind is Kind.FAILURE]
        wanted = [each for each in failed if is_of_a_device(each)]
        if len(wanted) < len(failed):
            for each in wanted:
                each.meaning = replace(each.meaning, kind=Kind.NOTE)

    def _take_benchmark(self) -> None:
        """A test that came to no result, where no line says why."""
        kinds = {each.meaning.kind for each in self._groups.values()}
        if Kind.FAILURE in kinds or self._worded or self.benchmark.has_result:
            return
        if self.benchmark.empty_end is not None:
            self.add(self.benchmark.line, self.benchmark.empty())
        elif self.reasons.has_kept_from_starting(self.benchmark):
            return
        elif self.benchmark.is_stopped and Kind.CONSEQUENCE not in kinds and not self._unknown:
            self.add(self.benchmark.line, self.benchmark.stopped())

    def _is_meant(self, group: Group) -> bool:
        """NCCL that is set to leave RDMA alone has no device, as it should.

        And of several ports that are listed one may be without a cable.
        """
        meaning = group.meaning
        if meaning.what == LISTED_DOWN and PORT_ACTIVE in self._settings:
            return False
        of_nccl = meaning.fields.tool == "nccl" and meaning.what == "no-device"
        return not (of_nccl and RDMA_OFF in self._settings)


def _may_be_of_rdma(text: str) -> bool:
    """Whether a line that is not understood is of RDMA, in a log whose end has another reason."""
    found = message_of(text)
    is_other = found is not None and found.is_other
    return names_rdma(text) and not is_other and not _ABORTS.match(text)


_ABORTS: Final = late(r"zsh: abort {2,}")
"""A shell of a Mac, of whatever the command was."""


def _pass_over_what_is_beside(groups: Iterable[Group], reason: str) -> None:
    """Notes of a job that ended by something else.

    Open MPI 4 says of each host that openib is not used, and takes UCX. A GPU that is gone from
    its slot is an error of the port above it.
    """
    for each in groups:
        first = [cause.label for cause in each.meaning.causes[:1]]
        of_gpu = reason == GPU_FAULT and first == ["pcie-error"] and "pcieport " in each.text
        if first == ["openib-not-used"] or of_gpu:
            each.meaning = replace(each.meaning, kind=Kind.NOTE)
