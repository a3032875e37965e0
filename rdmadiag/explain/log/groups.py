"""Lines of one device, stage and cause are one group, however many ranks print them.

Memory is bounded: so many line numbers and names of each are kept.
"""

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final

from rdmadiag.explain.causes import Known
from rdmadiag.explain.completions import completion, completion_text, vendor
from rdmadiag.explain.log.account import LIKELY, Failure, KnownMessage, LikelyCause, Named
from rdmadiag.explain.log.kind import (
    CALL,
    CRASH,
    HANGS,
    IN_WORDS,
    MESSAGE,
    SHOWN,
    SIGNAL,
    STOPPED,
    Kind,
)
from rdmadiag.explain.log.recognition.links import LINK_DOWN, Other
from rdmadiag.explain.log.recognition.settings import BY_SOCKETS
from rdmadiag.explain.log.templates import facts_of
from rdmadiag.explain.remedies import fill
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.errnos import Platform, errno_name, errno_text
from rdmadiag.late import late

if TYPE_CHECKING:
    from rdmadiag.explain.log.meaning import Meaning
    from rdmadiag.explain.log.ranking.learned.chances import Basis
    from rdmadiag.explain.log.text.outcome import Outcome

LINES_KEPT: Final = 10  # numbers of each group's first lines
NAMES_KEPT: Final = 8  # ranks, hosts and peers of each group
TEXT_KEPT: Final = 400  # characters of a line
REMEDY: Final = 6
SENTENCE: Final = 4
"""Words of a message's condition; fewer only name what it is of."""

_PLAIN: Final = 2  # of them that are no names and numbers
_ABOVE: Final = "as above"
"""What a row says of the one above it: the same."""

Key = tuple[object, ...]


@dataclasses.dataclass
class Group:
    """Lines that say the same, and the first of them."""

    meaning: "Meaning"
    number: int
    text: str
    count: int = 0
    numbers: list[int] = field(default_factory=list)
    last: int = 0
    speakers: dict[str, None] = field(default_factory=dict)
    peers: dict[str, None] = field(default_factory=dict)
    clock: tuple[str, float] | None = None
    has_one_cause: bool = False  # that the rule names
    is_decided: bool = False  # what was set decides between its causes
    rests_on: "Basis | None" = None
    probability: float | None = None


def others_of(groups: Iterable[Group]) -> list[Other]:
    """What failed that is no link which went down."""
    return [
        (each.number, each.clock)
        for each in groups
        if each.meaning.kind is not Kind.NOTE and each.meaning.what != LINK_DOWN
    ]


def as_fallback(group: Group, *, takes_sockets: bool = True) -> None:
    """NCCL finds no device, or no library, and takes sockets: nobody asked it for RDMA.

    Of a device it says so for information, and goes on whether the log says how or not; of the
    library old releases warn on every host.
    """
    meaning = group.meaning
    first = [each.label for each in meaning.causes[:1]]
    has_none = "no-rdma-device" in {each.label for each in meaning.causes[:2]}
    of_device = meaning.fields.tool == "nccl" and has_none and " INFO " in meaning.fields.text
    of_library = (
        takes_sockets
        and first == ["verbs-library-missing"]
        and _NCCLS_OWN.search(meaning.fields.text)
    )
    if of_device or of_library:
        group.meaning = replace(meaning, kind=Kind.NOTE, what=BY_SOCKETS)


_NCCLS_OWN: Final = late(r"\bFailed to open libibverbs\.so\[\.1\]")


def is_of_a_device(group: Group) -> bool:
    """Whether NCCL wants for one, or for the library that lists them."""
    meaning = group.meaning
    labels = [each.label for each in meaning.causes[:1]]
    return meaning.fields.tool == "nccl" and labels in _NO_DEVICE


_NO_DEVICE: Final = (["no-rdma-device"], ["verbs-library-missing"], ["provider-missing"])


def wants_a_device(group: Group) -> bool:
    """Whether a program has no RDMA device by it: none is there, or no library opens it."""
    return any(each.label in _WITHOUT_DEVICE for each in group.meaning.causes[:1])


_WITHOUT_DEVICE: Final = frozenset(
    {
        *("abi-mismatch", "container-without-device", "no-rdma-device", "provider-missing"),
        *("provider-release", "uverbs-node-missing", "verbs-library-missing"),
    }
)


def is_done_without(meaning: "Meaning") -> bool:
    """Whether a program can do without what failed: it was tried, and nobody had asked for it."""
    found = meaning.fields
    return (
        meaning.kind in (Kind.FAILURE, Kind.UNKNOWN)
        and meaning.what not in _NOT_DONE_WITHOUT
        and found.stage in (None, Stage.OPEN)
        and found.status is None
        and found.tool != "kernel"
        and not is_error(found.text)
    )


def is_error(text: str) -> bool:
    """Whether the program itself marks the line as an error."""
    return _IS_ERROR.search(text) is not None


_NOT_DONE_WITHOUT: Final = frozenset(
    {CRASH, HANGS, SIGNAL, STOPPED, LINK_DOWN, "transport-not-usable"}
)
"""What ends a program, a link that was there, and a transport or a device that was named."""
_IS_ERROR: Final = late(r"\b(?:ERROR|FATAL|CRITICAL)\b|\w(?:Error|Exception):|<error>")


def is_lived_through(group: Group, outcome: "Outcome") -> bool:
    """Whether what came to its end below it did so in spite of it.

    That a job ended with 0 says nothing of data that a fork may have corrupted.
    """
    if _SWEEP.search(group.text):
        return group.last < outcome.subnet_up
    if _GIVES_UP.search(group.text):
        return False
    if group.meaning.fields.status == FLUSHED and outcome.left_well:
        return group.number > outcome.left_well and not _OF_A_REQUEST.search(group.text)
    if _OTHERS_DRIVER.search(group.text) and outcome.since < group.number < outcome.tested:
        return True
    first = next((each.label for each in group.meaning.causes), None)
    ended = max(outcome.went_on, outcome.ended_well)
    if _WITHOUT_IT.search(group.text):
        return group.last < max(outcome.ended_well, outcome.job_completed)
    if first == "openib-not-used":
        return group.last < max(ended, outcome.job_completed)
    return first == "fork-unsafe" and group.last < ended


FLUSHED: Final = 5
"""IBV_WC_WR_FLUSH_ERR, of receives that are left when a peer has gone."""
_OF_A_REQUEST: Final = late(r"\b(?:send|write|read|chunk)", re.IGNORECASE)
"""What one end had asked for, and not a receive that was left."""
_OTHERS_DRIVER: Final = late(r"\bcouldn't load driver '")
"""Of libibverbs: a provider that is named in its configuration, of whichever device."""
_SWEEP: Final = late(r"\bErrors during initialization\s*$")  # of opensm
_GIVES_UP: Final = late(r"\babort|\bfatal\b", re.IGNORECASE)
_WITHOUT_IT: Final = late(
    # of UCX: memory of GPUs and of this host, where it has a transport of RDMA
    r"\btransport '(?:cuda|gdr|rocm|ze|xpmem|cma|knem|sysv|posix|mm|sm)\w*' is not available"
    r".*\b(?:rc|dc|ud)_(?:mlx5|verbs|v|x)\b"
)


def breaks_nothing(group: Group) -> bool:
    """Whether it is an event that a program lives through, unless something fails by it."""
    return group.meaning.what == "gid-table-change"


def as_failure(group: Group) -> Group:
    """The same, as a failure that is known by its words alone."""
    group.meaning = replace(group.meaning, kind=Kind.FAILURE, what=IN_WORDS)
    return group


def is_earlier(one: tuple[str, float], other: tuple[str, float]) -> bool:
    """By the same clock."""
    return one[0] == other[0] and one[1] < other[1]


def in_time(groups: list[Group]) -> list[Group]:
    """By the clock where all have the same one, else by line: logs of ranks may follow each other.

    A clock of whole seconds leaves the order of lines within one. What a listing shows comes first.
    """
    ordered = sorted(groups, key=lambda each: (each.meaning.what != SHOWN, each.number))
    kinds = {each.clock[0] if each.clock else None for each in ordered}
    if len(kinds) == 1 and None not in kinds:
        return sorted(ordered, key=lambda each: each.clock[1] if each.clock else 0.0)
    return ordered


def _sameness(group: Group) -> Key:
    meaning = group.meaning
    what = CALL if meaning.what == "errno" else meaning.what
    if what in ("completion", MESSAGE):  # its status is its number, and its words are its own
        return (id(group),)
    return (what, meaning.kind, meaning.fields.stage, meaning.fields.platform)


def merged(groups: list[Group]) -> list[Group]:
    """What failed without a number says less if the same failed with one.

    A call is the same if its stage is, an event if it is the same event.
    """
    exact: dict[Key, list[Group]] = {}
    for each in groups:
        if each.meaning.fields.errno is not None:
            exact.setdefault(_sameness(each), []).append(each)
    kept: dict[int, Group] = {}  # in the place of the first that said it
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


def _may_be_of_one_device(one: Group, other: Group) -> bool:
    devices = one.meaning.fields.device, other.meaning.fields.device
    return None in devices or devices[0] == devices[1]


def failure_of(group: Group) -> Failure:
    """What is shown of a group."""
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
        causes=likely(group.meaning.causes),
        next=next_of(group.meaning),
        rests_on=group.rests_on,
        probability=group.probability,
        tells_apart=_apart(group),
        message=known_message(group.text),
    )


def known_message(line: str) -> KnownMessage | None:
    """What is known of when a stack prints it, where that is a sentence."""
    from rdmadiag.explain.log.recognition.catalogue import message_of

    found = message_of(line)
    if found is None or found.is_healthy or found.condition.startswith(_ABOVE):
        return None
    words = found.condition.split()
    if len(words) < SENTENCE or sum(each.islower() and each.isalpha() for each in words) < _PLAIN:
        return None
    return KnownMessage(found.stack, found.condition)


def _apart(group: Group) -> str | None:
    """What to run, where the likeliest cause is not likely enough."""
    if group.meaning.kind is Kind.NOTE or (group.probability or 0) >= LIKELY:
        return None
    from rdmadiag.explain.log.ranking.separating_check import apart

    found = group.meaning.fields
    labels = [each.label for each in group.meaning.causes]
    look = apart(labels, found.platform, facts_of(found))
    return look.line if look else None


def likely(causes: Iterable[Known]) -> tuple[LikelyCause, ...]:
    """Causes as they are shown."""
    return tuple(LikelyCause(each.label, each.text) for each in causes)


def next_of(meaning: "Meaning") -> tuple[str, ...]:
    """What to look at, with the names that the line has."""
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
