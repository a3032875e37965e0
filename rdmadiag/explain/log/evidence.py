"""What decides between the causes of a failure: settings, words, similar messages."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rdmadiag.explain.calls import causes
from rdmadiag.explain.causes import Known, all_stated, remedy, stated
from rdmadiag.explain.causes.cause import MAKING
from rdmadiag.explain.completions import completion
from rdmadiag.explain.log.groups import LINES_KEPT, MOST_CAUSES, Group
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
from rdmadiag.explain.log.links import CAME_BACK, LINK_DOWN
from rdmadiag.explain.log.observed import (
    COMPLAINT,
    GID_INDEX_0,
    HAS_WORKED,
    MANUAL,
    RECOVERS,
    RESOLVED,
)
from rdmadiag.explain.log.settings import (
    LAYERS_MIXED,
    LISTED_DOWN,
    ON_INFINIBAND,
    ON_ROCE,
    RETRIES_EXCEEDED,
)
from rdmadiag.explain.log.signs.listings import LISTED_INITIALIZING
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.gid import Gid, Scope
from rdmadiag.late import late

if TYPE_CHECKING:
    from rdmadiag.explain.log.fields import Fields
    from rdmadiag.explain.log.learned.model import Model
    from rdmadiag.explain.log.meaning import Meaning
    from rdmadiag.explain.log.settings import Setting


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
                first = stated(row.label)
                rest = [each for each in meaning.causes if each.label != row.label]
                look = meaning.next
                if row.status is not None:
                    look = tuple(dict.fromkeys((*remedy(row.label, "linux"), *look)))
                several = (first, *rest)[:MOST_CAUSES]
                group.meaning = replace(meaning, causes=several, next=look)
                group.is_decided = True


LENGTH_ERROR: Final = 1
"""IBV_WC_LOC_LEN_ERR."""
INVALID_REQUEST: Final = 9
"""IBV_WC_REM_INV_REQ_ERR."""


def of_lengths(groups: Iterable[Group]) -> None:
    """One end got more than its receive has room for, and the other is told that it is invalid."""
    several = [each for each in groups if each.meaning.kind is Kind.FAILURE]
    both = [e for e in several if e.meaning.fields.status in (LENGTH_ERROR, INVALID_REQUEST)]
    if {each.meaning.fields.status for each in both} == {LENGTH_ERROR, INVALID_REQUEST}:
        for each in both:
            first = stated("peer-buffer-small")
            rest = [e for e in each.meaning.causes if e.label != first.label]
            each.meaning = replace(each.meaning, causes=(first, *rest)[:MOST_CAUSES])
            each.is_decided = True


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
            if fails and not OF_THE_HOST[label].isdisjoint(_labels(meaning)):
                rest = [each for each in meaning.causes if each.label != label]
                look = tuple(dict.fromkeys((*remedy(label, "linux"), *meaning.next)))
                several = (stated(label), *rest)[:MOST_CAUSES]
                group.meaning = replace(meaning, causes=several, next=look)
                group.is_decided = True


def _fits(row: "Setting", meaning: "Meaning", *, of_roce: bool) -> bool:
    """It is one of those named already; a device that does not open has too many to name.

    Row 0 of a port of RoCE fails at RTR by any errno of a way.
    """
    if row.status is not None:
        return meaning.fields.status == row.status
    found = meaning.fields
    if row.word == GID_INDEX_0 and found.stage is Stage.RTR and not _DLID.search(found.text):
        return of_roce and (found.errno_symbol in _OF_A_WAY or row.label in _labels(meaning))
    if row.word == LAYERS_MIXED:
        named = found.local_gid or found.remote_gid
        return found.errno_symbol in ("EINVAL", "ENODEV") and named is None
    return found.stage is Stage.OPEN or row.label in _labels(meaning)


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
    from rdmadiag.explain.log.in_words import likeliest, of_a_mac, weights

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
    from rdmadiag.explain.log.catalogue.alike import votes_alike
    from rdmadiag.explain.log.learned.chances import chance
    from rdmadiag.explain.log.learned.model import shipped
    from rdmadiag.explain.log.meaning import used
    from rdmadiag.explain.log.recall import LIKELY, basis, recalled, voted

    said = "\n".join(dict.fromkeys(lines))
    shares = (shipped() if model is None else model).shares(whole or f"{around}\n{said}")
    of_messages, close = votes_alike(said)
    for group in groups:
        meaning = group.meaning
        if meaning.kind not in (Kind.FAILURE, Kind.CONSEQUENCE) or meaning.what in EXACT:
            continue
        given = meaning.causes
        at, facts = meaning.fields.platform, used(meaning.fields)
        learned = voted(_without_disk_full(shares, group), at, facts)
        if not given and not close and max(learned.values(), default=0.0) < LIKELY:
            continue
        rule = meaning.what != IN_WORDS and bool(given)
        printed = voted(_without_disk_full(of_messages, group), at, facts)
        several = recalled(given, learned, printed, MOST_CAUSES, _weight(group))
        look = meaning.next
        if several[:1] != given[:1] or meaning.what == CALL:
            look = tuple(dict.fromkeys((*remedy(several[0].label, at), *look)))
        group.meaning = replace(meaning, causes=several, next=look)
        group.rests_on = basis(several, given, learned, by_rule=rule)
        group.probability = chance(group.rests_on) if group.rests_on else None


def _without_disk_full(shares: "Mapping[str, float]", group: Group) -> "Mapping[str, float]":
    """The words of ENOSPC say of a disk only where a file of it is named, or a message knows it."""
    if _DISK_FULL in _labels(group.meaning) or _FILE.search(group.text):
        return shares
    return {label: share for label, share in shares.items() if label != _DISK_FULL}


_DISK_FULL: Final = "disk-full"
_FILE: Final = late(r"(?<![\w/.])/(?!dev/)[\w.-]+/[\w.-]|\bfiles?\b")
OTHER_LAYER: Final = {
    ON_INFINIBAND: frozenset(
        {
            *("gid-does-not-route", "gid-types-differ", "no-gid-given", "roce-port-dropped"),
            *("roce-udp-port-taken", "traffic-not-lossless"),
        }
    ),
    ON_ROCE: frozenset({"duplicate-guid", "fabric-changed", "no-subnet-manager"}),
}
"""By the link layer of all devices: causes that the other one alone has."""


def of_layer(groups: Sequence[Group], settings: Collection[str]) -> None:
    """Where all devices are of one link layer, causes of the other are none."""
    layers = [each for each in OTHER_LAYER if each in settings]
    for group in groups if len(layers) == 1 else ():
        meaning = group.meaning
        several = tuple(e for e in meaning.causes if e.label not in OTHER_LAYER[layers[0]])
        if several and several != meaning.causes:
            look = meaning.next
            if several[0] != meaning.causes[0]:
                look = remedy(several[0].label, meaning.fields.platform)
            group.meaning = replace(meaning, causes=several, next=look)


def of_own_gids(groups: Iterable[Group], seen: Collection[str]) -> None:
    """Link-local GIDs that MACs give, in the line of a transfer without an answer: before all else.

    In one segment they carry, but NCCL takes them where a port has no better ones.
    """
    for group in groups if {ON_INFINIBAND, HAS_WORKED}.isdisjoint(seen) else ():
        meaning, found = group.meaning, group.meaning.fields
        unanswered = meaning.kind is Kind.FAILURE and found.status == RETRIES_EXCEEDED
        both = _of_a_mac(found.local_gid) and _of_a_mac(found.remote_gid)
        is_free = both and not group.is_decided
        if unanswered and is_free and meaning.causes[:1] != (stated(_NOT_ROUTED),):
            rest = [each for each in meaning.causes if each.label != _NOT_ROUTED]
            look = tuple(dict.fromkeys((*remedy(_NOT_ROUTED, "linux"), *meaning.next)))
            several = (stated(_NOT_ROUTED), *rest)[:MOST_CAUSES]
            group.meaning = replace(meaning, causes=several, next=look)


def _of_a_mac(gid: Gid | None) -> bool:
    """Whether its interface identifier is made of a MAC (EUI-64, RFC 4291), but not of Hyper-V,
    whose virtual functions of InfiniBand have such GUIDs, too.
    """
    if gid is None or gid.scope is not Scope.LINK_LOCAL or gid.raw[11:13] != b"\xff\xfe":
        return False
    return gid.raw[8:11] != b"\x02\x15\x5d" and gid.raw[8:11] != b"\x00\x15\x5d"


_NOT_ROUTED: Final = "gid-does-not-route"
NOT_AFTER_STEPS: Final = frozenset(
    {
        *("gid-does-not-route", "gid-index-0", "gid-index-or-family", "gid-families-differ"),
        *("gid-types-differ", "no-gid-given", "mtu-too-large", "subnets-differ", "no-path"),
        *("roce-port-dropped", "firewall", "ack-timeout-short", "arguments-differ"),
    }
)
"""Of how hosts and network are set up: what has worked for a while had none of it."""


def of_steps(groups: Iterable[Group], seen: Collection[str]) -> None:
    """Of a job that has done steps of its work, what ends is behind a transfer that fails."""
    for group in groups if HAS_WORKED in seen else ():
        meaning = group.meaning
        if meaning.kind is not Kind.FAILURE or meaning.fields.stage is not Stage.DATA:
            continue
        if group.is_decided:
            continue
        last = [each for each in meaning.causes if each.label in NOT_AFTER_STEPS]
        first = [each for each in meaning.causes if each.label not in NOT_AFTER_STEPS]
        if first and last and meaning.causes[0] in last:
            look = (*remedy(first[0].label, meaning.fields.platform), *meaning.next)
            look = tuple(dict.fromkeys(look))
            group.meaning = replace(meaning, causes=(*first, *last), next=look)


def of_losses(groups: Iterable[Group], seen: Collection[str]) -> None:
    """A connection that is lost again and again, and recovers: a link that flaps, or loses."""
    for group in groups if RECOVERS in seen else ():
        meaning = group.meaning
        if meaning.kind is Kind.FAILURE and meaning.fields.status == RETRIES_EXCEEDED:
            lossy = ("traffic-not-lossless",) if ON_ROCE in seen else ()
            first = all_stated((*lossy, "link-flaps"))
            rest = [each for each in meaning.causes if each not in first]
            look = tuple(dict.fromkeys((*remedy(first[0].label, "linux"), *meaning.next)))
            group.meaning = replace(meaning, causes=(*first, *rest)[:MOST_CAUSES], next=look)


def of_the_way(groups: Iterable[Group], shown: Sequence[Sequence[str]]) -> None:
    """What a listing shows of the way, the likeliest first, is why a transfer has no answer."""
    first = all_stated(tuple(dict.fromkeys(label for labels in shown for label in labels)))
    for group in groups if first else ():
        meaning = group.meaning
        unanswered = meaning.kind is Kind.FAILURE and meaning.fields.status == RETRIES_EXCEEDED
        if unanswered and not group.is_decided:
            rest = [each for each in meaning.causes if each not in first]
            look = tuple(dict.fromkeys((*remedy(first[0].label, "linux"), *meaning.next)))
            group.meaning = replace(meaning, causes=(*first, *rest)[:MOST_CAUSES], next=look)


def of_requests(groups: Iterable[Group], seen: Collection[str]) -> None:
    """Of an address that was resolved the kernel knows the neighbour: requests are lost behind."""
    for group in groups if RESOLVED in seen else ():
        meaning = group.meaning
        if "RDMA_CM_EVENT_UNREACHABLE" in group.text and not group.is_decided:
            roce = ("roce-port-dropped",) if ON_ROCE in seen else ()
            first = all_stated((*roce, "firewall", "cm-datagrams-lost"))
            rest = [e for e in meaning.causes if e not in first and e.label != "peer-unreachable"]
            look = tuple(dict.fromkeys((*remedy(first[0].label, "linux"), *meaning.next)))
            group.meaning = replace(meaning, causes=(*first, *rest)[:MOST_CAUSES], next=look)


def of_flaps(groups: Sequence[Group], *, is_short: bool) -> None:
    """Of a few lines in which a link went and came back, that is why a transfer failed."""
    if not is_short or not any(each.meaning.what == CAME_BACK for each in groups):
        return
    for group in groups:
        meaning = group.meaning
        if meaning.kind is Kind.FAILURE and meaning.fields.status == RETRIES_EXCEEDED:
            first = stated("link-flaps")
            rest = [each for each in meaning.causes if each.label != first.label]
            look = tuple(dict.fromkeys((*remedy(first.label, "linux"), *meaning.next)))
            group.meaning = replace(meaning, causes=(first, *rest)[:MOST_CAUSES], next=look)


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


def listed(groups: Sequence[Group], *, is_active: bool) -> None:
    """Where the same log lists a port there is a device, and if it is not up why it is not used.

    `is_active`: one that is active is listed.
    """
    ports = [each.meaning for each in groups if each.meaning.what in _LISTINGS]
    if not ports and not is_active:
        return
    why = ports[0].causes[:1] if ports else ()
    for group in groups:
        meaning = group.meaning
        if meaning.what in _LISTINGS or _labels(meaning).isdisjoint({_NO_DEVICE}):
            continue
        rest = [each for each in meaning.causes if each not in why and each.label != _NO_DEVICE]
        last = [each for each in meaning.causes if each.label == _NO_DEVICE]
        group.meaning = replace(meaning, causes=(*why, *rest, *last)[:MOST_CAUSES])


_LISTINGS: Final = frozenset({LISTED_DOWN, LISTED_INITIALIZING})
_NO_DEVICE: Final = "no-rdma-device"


def cut(groups: Sequence[Group]) -> None:
    """Where the same log says that a link was lost, what stopped at the way stopped by that."""
    links = [e.meaning.causes for e in groups if e.meaning.what == LINK_DOWN and e.meaning.causes]
    if not links:
        return
    flap = all(causes[0].label == "link-flaps" for causes in links)
    lost = stated("link-flaps" if flap else "link-lost")
    for group in groups:
        meaning = group.meaning
        if meaning.kind is Kind.FAILURE and meaning.fields.status == RETRIES_EXCEEDED:
            rest = [each for each in meaning.causes if each.label != lost.label]
            group.meaning = replace(meaning, causes=(lost, *rest)[:MOST_CAUSES])


def flapping(causes: Sequence[Known]) -> tuple[Known, ...]:
    """Those of a link that was lost, where it was lost again and again."""
    first = stated("link-flaps")
    return (first, *(each for each in causes if each.label != first.label))


_ENDS_ITSELF: Final = late(r"\buct_\w+_(?:completion_with_err|ep_handle_failure)\b")
"""A frame of UCX where it gives up, since a transfer has failed."""


def suspect(groups: Sequence[Group]) -> None:
    """Where code of RDMA crashed in the same log, what failed beside may be its fault, too."""
    crashes = [each for each in groups if each.meaning.what == CRASH]
    if all(each.count == 1 and _ENDS_ITSELF.search(each.text) for each in crashes):
        return
    fault = stated("program-fault")
    for group in groups:
        meaning = group.meaning
        if meaning.kind is Kind.FAILURE and meaning.causes and fault.label not in _labels(meaning):
            first, *rest = meaning.causes
            group.meaning = replace(meaning, causes=(first, fault, *rest)[:MOST_CAUSES])


def _labels(meaning: "Meaning") -> set[str]:
    return {each.label for each in meaning.causes}


def _weight(group: Group) -> float:
    """Of the first cause that is given."""
    from rdmadiag.explain.log.recall import (
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
