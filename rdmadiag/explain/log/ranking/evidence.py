"""What decides between the causes of a failure: settings, words, similar messages."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rdmadiag.explain.calls import causes
from rdmadiag.explain.causes import Known, remedy, stated
from rdmadiag.explain.causes.cause import MAKING
from rdmadiag.explain.completions import completion
from rdmadiag.explain.log.groups import LINES_KEPT, Group
from rdmadiag.explain.log.kind import (
    CALL,
    CRASH,
    EXACT,
    HANGS,
    HOST_DOWN,
    IN_WORDS,
    MAY_BE,
    MESSAGE,
    NO_MADS,
    Kind,
)
from rdmadiag.explain.log.meaning import MOST_CAUSES
from rdmadiag.explain.log.ranking.first_causes import labels_of, promote
from rdmadiag.explain.log.recognition.settings import (
    LAYERS_MIXED,
    ON_INFINIBAND,
)
from rdmadiag.explain.log.text.observed import (
    COMPLAINT,
    GID_INDEX_0,
    MANUAL,
)
from rdmadiag.facts.attempt import Stage
from rdmadiag.late import late

if TYPE_CHECKING:
    from rdmadiag.explain.log.line.fields import Fields
    from rdmadiag.explain.log.meaning import Meaning
    from rdmadiag.explain.log.ranking.learned.model import Model
    from rdmadiag.explain.log.recognition.settings import Setting


def weigh(groups: Iterable[Group], settings: Iterable["Setting"]) -> None:
    """What was set decides between the causes that are possible."""
    given = list(settings)
    of_roce = all(row.word != ON_INFINIBAND for row in given)
    for row in given:
        for group in groups:
            meaning = group.meaning
            stage, of_linux = meaning.fields.stage, meaning.fields.platform == "linux"
            if (
                meaning.kind is Kind.FAILURE
                and of_linux
                and stage in row.stages
                and _fits(row, meaning, of_roce=of_roce)
            ):
                promote(group, (row.label,))
                group.is_decided = True


OF_THE_HOST: Final[Mapping[str, frozenset[str]]] = {
    HOST_DOWN: frozenset({"no-path", "gid-does-not-route", "peer-gone", "link-lost"}),
    "pcie-error": frozenset({"firmware-failed", "firmware-silent", "device-resetting"}),
    # of PSM2, whose next line is of a unit that it cannot open, whatever failed
    "too-many-contexts": frozenset({"uverbs-node-not-openable", "device-removed"}),
    "neighbour-table-full": frozenset(
        {"peer-unreachable", "no-route", "no-path", "peer-interface-down"}
    ),
    "interface-down": frozenset({"lnet-nids-differ"}),
    "killed-for-memory": frozenset({"peer-gone", "launcher-mismatch"}),
    "bounce-buffers-full": frozenset({"memlock", "gdr-off", "mr-exhausted", "no-memory"}),
}
"""What is said of a host by one line, and the causes in whose place it then is."""


def inherit(groups: Sequence[Group], reasons: Collection[str]) -> None:
    """What a kernel or a batch system says of a host is why calls of the same log fail.

    `reasons` are labels that no group has.
    """
    said = [each.meaning.causes for each in groups if each.meaning.kind is Kind.FAILURE]
    by_one_line = {each[0].label for each in said if len(each) == 1}
    for label in sorted(OF_THE_HOST.keys() & (by_one_line | {*reasons})):
        for group in groups:
            meaning = group.meaning
            fails = meaning.kind in (Kind.FAILURE, Kind.CONSEQUENCE)
            if fails and not OF_THE_HOST[label].isdisjoint(labels_of(meaning)):
                promote(group, (label,))
                group.is_decided = True


def _fits(row: "Setting", meaning: "Meaning", *, of_roce: bool) -> bool:
    """It is one of those named already; a device that does not open has too many to name.

    Row 0 of a port of RoCE fails at RTR by any errno of a way.
    """
    if row.status is not None:
        return meaning.fields.status == row.status
    found = meaning.fields
    if row.word == GID_INDEX_0 and found.stage is Stage.RTR and not _DLID.search(found.text):
        return of_roce and (found.errno_symbol in _OF_A_WAY or row.label in labels_of(meaning))
    if row.word == LAYERS_MIXED:
        named = found.local_gid or found.remote_gid
        return found.errno_symbol in ("EINVAL", "ENODEV") and named is None
    return found.stage is Stage.OPEN or row.label in labels_of(meaning)


_DLID: Final = late(r"\bd?lid[ =]+(?:0x0*)?[1-9a-f]", re.IGNORECASE)
"""That of a peer on InfiniBand."""


_OF_A_WAY: Final = ("ETIMEDOUT", "ENETUNREACH", "EHOSTUNREACH", "EINVAL")


_PEERS_END: Final = late(r"(?m)^((?:client read/write|server read): )(?!Connection )[A-Z][\w ]+$")


def _said(group: Group) -> str:
    """Its line, without the name of an errno that is one of an earlier call.

    The pingpongs print errno where the peer has sent less than an address, or closed
    (pp_client_exch_dest of rdma-core's libibverbs/examples): read(2) had not failed.
    """
    return _PEERS_END.sub(r"\1", group.text)


def hear(groups: Iterable[Group], unknown: Sequence[str]) -> None:
    """What the words of all lines of trouble say, where a line by itself says little."""
    from rdmadiag.explain.log.recognition.in_words import likeliest, of_a_mac, weights

    lines = [(_said(each), each.meaning.fields.stage) for each in groups]
    lines += [(each, None) for each in unknown]
    everywhere = weights("\n".join(text for text, _ in lines)) if lines else Counter()
    for group in groups:
        meaning = group.meaning
        if meaning.kind not in (Kind.FAILURE, Kind.CONSEQUENCE):
            continue
        own = weights(_said(group), meaning.fields.stage)
        own += own if meaning.what == IN_WORDS else Counter()
        own += everywhere
        if meaning.fields.platform == "darwin":
            own = of_a_mac(own, meaning.fields.stage)
        if meaning.what == IN_WORDS:
            group.meaning = replace(meaning, causes=likeliest(own, MOST_CAUSES))
            continue
        if meaning.what in EXACT:
            continue
        group.has_one_cause = len(meaning.causes) == 1
        given = {each.label for each in meaning.causes}
        if _was_not_flushed(group):
            given.add(_FLUSHED)
        rest = [each for each in likeliest(own, 3 * MOST_CAUSES) if each.label not in given]
        group.meaning = replace(meaning, causes=(*meaning.causes, *rest)[:MOST_CAUSES])


def recall(
    groups: Iterable[Group],
    unknown: Sequence[str],
    whole: str,
    around: str,
    model: "Model | None",
) -> None:
    """What the log's words say of each cause, and what similar messages do.

    `whole` is all of a short log; of a longer one, where it is empty, the lines that are kept stand
    for it, and what is `around` the first of them.
    """
    lines = [*map(_said, groups), *unknown]
    if not lines:
        return
    whole = _PEERS_END.sub(r"\1", whole)
    from rdmadiag.explain.log.meaning import used
    from rdmadiag.explain.log.ranking.combined import LIKELY, basis, recalled, voted
    from rdmadiag.explain.log.ranking.learned.chances import chance
    from rdmadiag.explain.log.ranking.learned.model import shipped
    from rdmadiag.explain.log.recognition.catalogue.alike import votes_alike

    said = "\n".join(dict.fromkeys(lines))
    shares = (shipped() if model is None else model).shares(whole or f"{around}\n{said}")
    of_messages, close = votes_alike(said)
    for group in groups:
        meaning = group.meaning
        if meaning.kind not in (Kind.FAILURE, Kind.CONSEQUENCE) or meaning.what in EXACT:
            continue
        given = meaning.causes
        at, facts = meaning.fields.platform, used(meaning.fields)
        learned = voted(_without_others(shares, group), at, facts)
        if not given and not close and max(learned.values(), default=0.0) < LIKELY:
            continue
        rule = meaning.what != IN_WORDS and bool(given)
        printed = voted(_without_others(of_messages, group), at, facts)
        several = recalled(given, learned, printed, MOST_CAUSES, _weight(group))
        look = meaning.next
        if several[:1] != given[:1] or meaning.what == CALL:
            look = tuple(dict.fromkeys((*remedy(several[0].label, at), *look)))
        group.meaning = replace(meaning, causes=several, next=look)
        group.rests_on = basis(several, given, learned, by_rule=rule)
        group.probability = chance(group.rests_on) if group.rests_on else None


def _without_others(shares: "Mapping[str, float]", group: Group) -> "Mapping[str, float]":
    """The words of ENOSPC say of a disk only where a file of it is named, or a message knows it;
    and what completed with another status was not flushed.
    """
    labels = labels_of(group.meaning)
    without = set[str]()
    if _DISK_FULL not in labels and not _FILE.search(group.text):
        without.add(_DISK_FULL)
    if _was_not_flushed(group):
        without.add(_FLUSHED)
    return {label: share for label, share in shares.items() if label not in without}


def _was_not_flushed(group: Group) -> bool:
    """Whether it completed with another status, and nothing but its words says so."""
    return group.meaning.fields.status is not None and _FLUSHED not in labels_of(group.meaning)


_DISK_FULL: Final = "disk-full"
_FLUSHED: Final = "flushed"
_FILE: Final = late(r"(?<![\w/.])/(?!dev/)[\w.-]+/[\w.-]|\bfiles?\b")
SLOW: Final = frozenset(
    {
        *("gdr-off", "no-rdma-device", "slow-path", "rdma-off-by-variable", "pcie-link-narrow"),
        *("provider-missing", "provider-release", "abi-mismatch", "traffic-not-lossless"),
        *("openib-not-used", "network-plugin-missing", "mtu-above-port"),
    }
)
"""What a job goes on with, more slowly."""


def with_observed(groups: Sequence[Group], seen: Collection[str]) -> list[Group]:
    """Without how a program is started, of its manual; where nothing failed and somebody says that
    it is slow, what a note says of that is why.
    """
    if MANUAL in seen:
        usage = (stated("argument-refused"),)
        groups = [each for each in groups if each.meaning.causes[:1] != usage]
    if COMPLAINT in seen and all(each.meaning.kind is Kind.NOTE for each in groups):
        for group in groups:
            meaning = group.meaning
            if meaning.causes and meaning.causes[0].label in SLOW:
                group.meaning = replace(meaning, kind=Kind.FAILURE, what=MAY_BE)
    return sorted(groups, key=_is_of_the_slot)  # last: of many hosts it is as they were built


def _is_of_the_slot(group: Group) -> bool:
    return [each.label for each in group.meaning.causes[:1]] == ["pcie-link-narrow"]


def of_mads(groups: Sequence[Group]) -> list[Group]:
    """Tools of InfiniBand's management, on a host of Ethernet: nothing to open, and one note."""
    tools = [each for each in groups if _OF_MADS.search(each.text)]
    if not tools:
        return list(groups)
    first, *others = tools
    first.meaning = replace(first.meaning, kind=Kind.NOTE, what=NO_MADS, causes=())
    for each in others:
        first.count += each.count
        first.numbers = sorted({*first.numbers, *each.numbers})[:LINES_KEPT]
        first.last = max(first.last, each.last)
    return [each for each in groups if each is first or each not in tools]


_OF_MADS: Final = late(
    r"^(?:ibwarn: |\S*ibnetdisc\.c:).*\bcan't open (?:[SG][MS]I )?(?:UMAD|MAD) port \(\(null\)"
    r"|^\S{0,80}: iberror: failed: (?:Failed to open '\(null\)' port|discover failed)"
)
"""infiniband-diags and libibnetdisc, where no device was given."""


def flapping(causes: Sequence[Known]) -> tuple[Known, ...]:
    """Those of a link that was lost, where it was lost again and again."""
    first = stated("link-flaps")
    return (first, *(each for each in causes if each.label != first.label))


def _weight(group: Group) -> float:
    """Of the first cause that is given."""
    from rdmadiag.explain.log.ranking.combined import (
        OF_COMPLETION,
        OF_DECIDED,
        OF_RULE,
        OF_SURE,
        OF_WORDS,
    )

    what, found = group.meaning.what, group.meaning.fields
    if what == IN_WORDS or not group.meaning.causes:
        return OF_WORDS
    if group.is_decided or what in (CRASH, HANGS):
        return OF_DECIDED
    if found.errno_symbol == "ENOSPC" and found.stage in MAKING:
        return OF_DECIDED  # a table of the device is full, and no limit of a process
    if group.has_one_cause:
        return OF_SURE
    usual = _usual(found) if what != MESSAGE else ()
    if usual and group.meaning.causes[0].label != usual[0].label:
        return OF_DECIDED
    if found.status is not None:
        return OF_COMPLETION
    return OF_SURE if what != MESSAGE and found.errno else OF_RULE


def _usual(found: "Fields") -> tuple[Known, ...]:
    """The causes of its number, whatever stands around it."""
    if found.status and (row := completion(found.status)):
        return row.causes
    if found.errno and found.stage:
        return causes(found.errno, found.stage, found.platform)
    return ()
