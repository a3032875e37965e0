"""Two logs, one of each end of a test: what they say together, and neither says alone.

Both print their addresses, so that two GIDs which do not fit are seen; one of them may have
waited where the other says that nobody listens, or have finished where the other still waits.
Nothing here is about ranks: of a job of more logs the story is rdmadiag.explain.job.compose's.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from rdmadiag.explain.causes import Known, Labels, all_stated
from rdmadiag.explain.job.part import Occurrence, Part
from rdmadiag.explain.log.groups import FLUSHED, TEXT_KEPT
from rdmadiag.explain.log.kind import STOPPED, Kind
from rdmadiag.explain.log.recognition.trouble import names_rdma
from rdmadiag.explain.log.text.benchmark import WAITING, Reached
from rdmadiag.explain.log.text.endings import NOT_STARTED
from rdmadiag.fleet.lines import Mark
from rdmadiag.frozen import dataclass
from rdmadiag.late import late

_REFUSES: Final = late(
    r"\b(?:not|no|cannot|can't|expired|locked|disabled|denied|refus\w+|reject\w+|unavailable"
    r"|unhealthy|drain\w*|missing|skipp?\w*|fail\w*|errors?|unexpected|abort\w*|timed out"
    r"|already|another (?:instance|copy|one))\b",
    re.IGNORECASE,
)
"""What a shell, an account or a check before a job says where it starts nothing."""
_WAITS: Final = late(
    r"\bwait(?:s|ing)? for (?:/\S+$|(?:the )?(?:file|lock|mount|barrier)\b"
    r"|\d+ (?:hosts|nodes|ranks|machines)\b)",
    re.IGNORECASE,
)
"""What a script says that starts its program when something else is there."""
_WAITS_AT_ALL: Final = late(
    r"\bwait(?:s|ing)? (?:for|until|on)\b"
    r"(?!.*\b(?:completion|repl(?:y|ies)|data|connect\w*|messages?|work|clients?)\b)",
    re.IGNORECASE,
)
"""The same where the other end waits for its client: this may be one that runs."""
_ENDS_IN_REFUSAL: Final = late(
    r"\bnot (?:supported|found|allowed|permitted|available|set)\b|\bno (?:\w+ ){1,4}without\b"
    r"|\b(?:cannot|can't|denied|refus\w+|unhealthy|drained|missing|abort\w*|expired|fail\w*"
    r"|errors?)\b",
    re.IGNORECASE,
)
_WENT_WELL: Final = late(
    r"\b(?:pass(?:ed|es)?|done|ok|success\w*|complet\w*|finished"
    r"|(?:no|0|zero) (?:\w+ )?(?:errors?|fail\w*|mismatch\w*))\b"
    r"|(?<![\d.])\d[\d.]{0,20} ?[GMk]i?[Bb]\b",
    re.IGNORECASE,
)
_HAS_RUN: Final = late(
    r"\b(?:server|client|peer|remote|connect\w*|answer\w*|repl(?:y|ied)|stream|data|epoch|step)\b",
    re.IGNORECASE,
)
"""Of a program that was started: of whom it has heard nothing."""
_BLANK: Final = 2  # bytes of a log in which nothing was said
_OF_THE_WAY: Final = frozenset(
    (
        *("firewall", "firewall-rejects", "flushed", "failed-at-peer", "no-path", "no-route"),
        *("gid-does-not-route", "mtu-too-large", "roce-port-dropped", "cm-datagrams-lost"),
    )
)
"""Causes that a line names of the way to the peer; those of the peer begin with "peer-"."""

_EMPTY_END: Final[Labels] = ("gid-row-empty", "no-gid-given", "no-usable-gid")
"""Of perftest, which takes a row by itself."""
_NO_ROW: Final[Labels] = ("no-gid-given", "gid-row-empty", "no-usable-gid")
"""Of ibv_*_pingpong, which take none: without -g they print a GID of zeros."""
_NOT_MET: Final[Labels] = ("peer-unreachable", "no-route", "firewall-rejects")
_AT_ANOTHER: Final[Labels] = ("peer-address-wrong",)
_NOT_AT_OWN_PORT: Final[Labels] = ("peer-not-listening", "peer-address-wrong")
"""The server waits: where the client went to the port that such programs take by themselves, the
server was given another one; else it is the client that may have been."""
_OTHER_OPTIONS: Final = ("arguments-differ",)
_OTHER_PORTS: Final[Labels] = ("arguments-differ", "peer-address-wrong", "peer-not-listening")
_NOT_ANSWERED: Final[Labels] = ("firewall", "peer-address-wrong", "peer-host-down", "no-path")
_NOT_LISTENED_AT: Final[Labels] = ("peer-address-wrong", "peer-refused")
_ONE_FINISHED: Final[Labels] = ("iterations-differ", "peer-gone", "peer-posts-no-receives")
_NOT_ACKNOWLEDGED: Final[Labels] = ("no-path", "roce-port-dropped", "peer-gone")
_ENDED_IN_SILENCE: Final[Labels] = ("peer-gone", "no-path", "roce-port-dropped")
_RELIABLE: Final = "RC"
_NEVER_SENT: Final[Labels] = ("roce-port-dropped", "mtu-above-port", "interface-down", "no-route")
_BROKE: Final[Labels] = ("link-lost", "device-removed", "interface-down")
_ALIKE: Final = (
    ("Connection type", "qp-types-differ"),
    ("test", "other-program"),
    ("Number of qps", "arguments-differ"),
    ("Dual-port", "arguments-differ"),
    ("Mtu", "mtu-mismatch"),
)
"""Of perftest's header what is the same at both ends, and the cause where it is not."""
_BOTH_WAYS: Final = "Bidirectional "
"""In the name of a test, by the option -b of perftest."""
_MET_ANOTHER: Final[Labels] = ("peer-address-wrong", "other-program")
_TWO_SERVERS: Final[Labels] = ("peer-not-started", "arguments-differ")
_NOBODY_CAME: Final[Labels] = ("peer-not-started", "program-not-started", "peer-address-wrong")
_SAYS_NOTHING: Final = re.compile(r"[A-Za-z][A-Za-z ,.:/_-]*$")
"""Words alone: of a test that was pasted without its head there would be numbers."""
_COMPLETED: Final = re.compile(r"\bscnt=\d+, ccnt=(\d+)")


@dataclass(frozen=True, slots=True)
class Compared:
    """What the two logs say: of which of them, and why."""

    part: Part
    seen: Occurrence
    causes: tuple[Known, ...]  # before those of the line; none: the line itself says it
    evidence: tuple[str, ...]
    is_certain: bool = False  # both logs show it, and it is no guess


def compared(parts: Sequence[Part], *, timed: bool) -> Compared | None:
    """Of two logs of two ends; None where they say no more than each by itself.

    `timed`: their lines have clocks that compare, which then say what failed first.
    """
    if len(parts) != 2 or all(each.benchmark.has_result for each in parts):
        return None
    one, other = parts
    return (
        _differ(one, other)
        or _met_another(one, other)
        or _met_another(other, one)
        or _died(one, other)
        or (None if timed else _of_itself(one, other))
        or _not_started(one, other)
        or _not_started(other, one)
        or _waited(one, other)
        or _waited(other, one)
        or _ended_in_silence(one, other)
        or _ended_in_silence(other, one)
        or _neither_met(one, other)
        or _ended(one, other)
    )


# --- what the two ends were given ------------------------------------------------------------


def _differ(one: Part, other: Part) -> Compared | None:
    pair = (one, other)
    here, there = (each.benchmark.ends.get("local") for each in pair)
    for key, label in _ALIKE:
        said = [each.benchmark.header.get(key) for each in pair]
        if all(said) and said[0] != said[1]:
            kinds = {each.replace(_BOTH_WAYS, "") for each in said if each}
            cause = "arguments-differ" if key == "test" and len(kinds) == 1 else label
            return _shown(pair, (cause,), [f"{key}: {each}" for each in said], certain=True)
    if here is None or there is None:
        return None
    if here.is_roce is not there.is_roce:
        lids = [f"LID {each.lid:#06x}" for each in (here, there)]
        return _shown(pair, ("link-layers-differ",), lids, certain=True)
    gids = [f"GID {each.gid}" for each in (here, there)]
    if not here.is_roce or here.gid is None or there.gid is None:
        return None
    if here.is_empty is not there.is_empty:
        empty = one if here.is_empty else other
        labels = _EMPTY_END if empty.benchmark.header else _NO_ROW
        if not any("remote" in e.benchmark.ends or has_failed(e) for e in pair):
            # Both wait: the one without a row may have lost its peer's address, too.
            labels = (*labels, *_TWO_SERVERS)
        return _shown((empty, *pair), labels, gids, of=pair)
    if not here.is_empty and here.gid.family is not there.gid.family:
        return _shown(pair, ("gid-families-differ", "gid-index-or-family"), gids, certain=True)
    return None


def _met_another(part: Part, other: Part) -> Compared | None:
    """What this end printed of its peer is not what the other printed of itself, which waits: it
    has met another program, at another address or port.

    A server prints its own end before anybody comes; of two that have both met, the logs are of
    two runs.
    """
    theirs, own = part.benchmark.ends.get("remote"), other.benchmark.ends.get("local")
    if theirs is None or own is None or "remote" in other.benchmark.ends:
        return None
    if None in (theirs.psn, own.psn) or (theirs.qpn, theirs.psn) == (own.qpn, own.psn):
        return None
    seen = _first(part) or _stopped(part)
    if seen is None:
        return None
    said = (
        f"{part.where}: its peer has QPN {theirs.qpn:#08x}, PSN {theirs.psn:#08x}",
        f"{other.where}: its own end has QPN {own.qpn:#08x}, PSN {own.psn:#08x}",
    )
    return Compared(part, seen, all_stated(_MET_ANOTHER), said)


def _shown(
    order: Sequence[Part],
    labels: Labels,
    said: Sequence[str],
    *,
    of: Sequence[Part] = (),
    certain: bool = False,
) -> Compared | None:
    """At the first of the parts that has a line; what each said is the evidence."""
    evidence = tuple(f"{part.where}: {text}" for part, text in zip(of or order, said, strict=False))
    for part in order:
        seen = _first(part) or _stopped(part)
        if seen is not None:
            causes = all_stated(labels, seen.meaning.what)
            return Compared(part, seen, causes, evidence, certain)
    return None


def _died(one: Part, other: Part) -> Compared | None:
    """A signal ended one of the programs, and neither failed by itself."""
    ended = [part for part in (one, other) if part.benchmark.died]
    if len(ended) != 1 or any(_own_failure(part) is not None for part in (one, other)):
        return None
    return Compared(ended[0], ended[0].died(), (), ())


# --- who failed by itself ----------------------------------------------------------------------


def _of_itself(one: Part, other: Part) -> Compared | None:
    """One end failed of its own, and the other saw that, or waited."""
    own = [part for part in (one, other) if _own_failure(part) is not None]
    if len(own) != 1:
        return None
    seen = _own_failure(own[0])
    assert seen is not None
    return Compared(own[0], seen, (), ())


def _own_failure(part: Part) -> Occurrence | None:
    first = _first(part)
    if first is None or first.meaning.kind is not Kind.FAILURE or not first.meaning.causes:
        return None
    label = first.meaning.causes[0].label
    return None if label.startswith("peer-") or label in _OF_THE_WAY else first


def _not_started(part: Part, other: Part) -> Compared | None:
    """Of one program there is only why it was not started, and the other end waited for it."""
    end = part.end
    if has_failed(part) or part.benchmark.reached is not Reached.NOTHING:
        return None
    if part.is_a_traceback and other.benchmark.reached in WAITING:
        assert end is not None
        return None if has_failed(other) else Compared(part, part.ended_by_itself(end), (), ())
    if part.last_line is None:
        return None
    if end is not None and NOT_STARTED.search(end.text):
        has_met_it = other.benchmark.reached is not Reached.NOTHING or has_failed(other)
        if other.benchmark.has_result or not has_met_it:
            return None
        return Compared(part, part.not_started(end), (), (), True)
    return _something_else(part, other)


def _something_else(part: Part, other: Part) -> Compared | None:
    """Of one end there are a few lines, none of which a test prints, and the other waits for it: a
    shell, an account or a check before it may have started nothing. Where none of them refuses
    something, it is only known that nobody has come.
    """
    line, reached = part.end or part.last_line, other.benchmark.reached
    if line is None or part.benchmark.died or has_failed(other):
        return None
    waits = _WAITS.search(line.text) is not None
    says = f"{part.where}: nothing that a test prints: {line.text[:TEXT_KEPT]}"
    if reached not in WAITING:
        is_silent = other.bytes <= _BLANK or (waits and _waits_itself(other))
        if not is_silent or not (waits or _is_of_a_script(part, line.text)):
            return None
        last = other.last_line.text[:TEXT_KEPT] if other.last_line else "nothing"
        return Compared(part, part.perhaps_not_started(line), (), (says, f"{other.where}: {last}"))
    said = (says, f"{other.where}: it waits for its client: {other.benchmark.text}")
    if waits or _WAITS_AT_ALL.search(line.text):
        return Compared(part, part.perhaps_not_started(line), (), said)
    if _REFUSES.search(line.text) and not _WENT_WELL.search(line.text):
        return Compared(part, part.not_started(line), (), said)
    seen = _stopped(other)
    if seen is None or not _SAYS_NOTHING.match(line.text):
        return None
    return Compared(other, seen, all_stated(_NOBODY_CAME, "no_peer"), said)


def _is_of_a_script(part: Part, text: str) -> bool:
    """Whether it begins with the name of what refuses, and says nothing of a program that ran."""
    is_named = part.mark is not Mark.NONE or _BY_NAME.match(text) is not None  # it is taken off
    if not is_named or names_rdma(text) or not _ENDS_IN_REFUSAL.search(text):
        return False
    return not (_HAS_RUN.search(text) or _WENT_WELL.search(text))


_BY_NAME: Final = re.compile(r"[\w./-]{1,80}: \S")


def _waits_itself(part: Part) -> bool:
    """Whether its script waits for something, and no test has printed anything."""
    line = part.last_line
    is_before = part.benchmark.reached is Reached.NOTHING and not has_failed(part)
    return is_before and line is not None and _WAITS.search(line.text) is not None


# --- how far the two came ----------------------------------------------------------------------


def _waited(part: Part, other: Part) -> Compared | None:
    """What failed or stopped in `part`, where the other end says nothing against it."""
    if has_failed(other):
        return None
    first, there = _first(part), other.benchmark.reached
    where = f"{other.where}: "
    if first is None or first.meaning.what == STOPPED:
        if not part.benchmark.is_stopped or not other.benchmark.has_result:
            return None
        seen = _stopped(part)
        assert seen is not None
        count = other.benchmark.iterations
        said = "it has its result" + (f", of {count} iterations" if count else "")
        if _sent_all(part, other):
            text = f"{part.where}: it sends {count}, and waits for what acknowledges them"
            return Compared(
                part, seen, all_stated(_NOT_ACKNOWLEDGED, "no_peer"), (text, where + said)
            )
        return Compared(part, seen, all_stated(_ONE_FINISHED), (where + said,))
    listens = there in WAITING
    if first.meaning.what == "side-channel" and listens:
        return _not_met(part, other, first)
    if first.meaning.what == "rejected" and there is Reached.NOTHING:
        label = first.meaning.causes[0].label if first.meaning.causes else None
        if label == "peer-refused" and not other.occurrences:
            said = f"{where}it says nothing of a connection that it refused"
            return Compared(part, first, all_stated(_NOT_LISTENED_AT), (said,))
    if first.meaning.what == "peer-left" and there > Reached.NOTHING:
        said = f"{where}it ends without an error"
        return Compared(part, first, all_stated(("peer-gone",)), (said,))
    if first.meaning.fields.status == FLUSHED and there >= Reached.BOTH_ENDS:
        said = f"{where}no request of that end failed"
        return Compared(part, first, all_stated(_flushed_by_itself(first), "from here"), (said,))
    return None


def _not_met(part: Part, other: Part, first: Occurrence) -> Compared:
    """The client was not let in, and the server waits for one: at another port, or out of reach."""
    said = f"{other.where}: it waits for its client: {other.benchmark.text}"
    port = part.benchmark.tried_port
    if port in part.ports and len(other.ports) == 1 and port not in other.ports:
        ports = f"{part.where}: port {port}; {other.where}: port {min(other.ports)}"
        # Possible: the one that the server's log names may be of something else.
        return Compared(part, first, all_stated(_OTHER_PORTS), (ports, said))
    if None not in (part.by_cm, other.by_cm) and part.by_cm != other.by_cm:
        with_it, without = (other, part) if other.by_cm else (part, other)
        differs = f"{with_it.where}: -R; {without.where}: no -R"
        return Compared(part, first, all_stated(_OTHER_OPTIONS), (differs, said))
    where_it_went = _NOT_AT_OWN_PORT if part.benchmark.went_to_own_port else _AT_ANOTHER
    return Compared(part, first, all_stated((*_NOT_MET, *where_it_went)), (said,))


def _sent_all(part: Part, other: Part) -> bool:
    """Whether the end that waits sends as many as the other has got.

    perftest's TX depth is the number of iterations, where that is smaller than the depth asked for
    (src/perftest_parameters.c, force_dependecies).
    """
    header, count = part.benchmark.header, other.benchmark.iterations
    is_reliable = header.get("Connection type") == _RELIABLE
    return is_reliable and count is not None and header.get("TX depth") == str(count)


def _flushed_by_itself(seen: Occurrence) -> Labels:
    """No request failed at either end: this end's device or its way out ended the queue pair."""
    found = _COMPLETED.search(seen.meaning.fields.after)
    if found and int(found[1]):
        return _BROKE
    return _NEVER_SENT


def _ended_in_silence(part: Part, other: Part) -> Compared | None:
    """`part` has exchanged addresses with this run of the other end, and waits; the other log stops
    at its own address, before what it must have got by then: its program has ended, and said
    nothing.

    Both print each step when it is done; what a killed program had not written yet is lost, too.
    """
    if any(map(has_failed, (part, other))) or other.benchmark.reached is not Reached.OWN_END:
        return None
    theirs, own = part.benchmark.ends.get("remote"), other.benchmark.ends.get("local")
    if theirs is None or own is None or theirs.psn is None or not part.benchmark.is_stopped:
        return None
    if (theirs.qpn, theirs.psn) != (own.qpn, own.psn):
        return None
    seen = _stopped(part)
    assert seen is not None
    said = (
        f"{part.where}: it has the other end's address: {part.benchmark.text}",
        f"{other.where}: it stops before it says the same: {other.benchmark.text}",
    )
    return Compared(part, seen, all_stated(_ENDED_IN_SILENCE, "no_peer"), said)


def _neither_met(one: Part, other: Part) -> Compared | None:
    """Neither says an error, and the addresses were never exchanged: TCP is not answered."""
    pair = (one, other)
    if any(map(has_failed, pair)):
        return None
    reached = [each.benchmark.reached for each in pair]
    blank = [each.bytes <= _BLANK for each in pair]
    if max(reached) > Reached.OWN_END or not max(reached):
        return None
    if any(
        step is Reached.NOTHING and not empty for step, empty in zip(reached, blank, strict=True)
    ):
        return None
    said = tuple(
        f"{each.where}: {each.benchmark.text or 'nothing'}; and then nothing" for each in pair
    )
    if min(reached) is max(reached) is Reached.WAITING:
        seen = _stopped(other)
        assert seen is not None
        return Compared(other, seen, all_stated(_TWO_SERVERS, "no_peer"), said, True)
    # The server is the one that said so; of two alike the second, as they are mostly given.
    client = one if reached[0] is not Reached.WAITING else other
    seen = _stopped(client) or _stopped(other if client is one else one)
    assert seen is not None
    return Compared(client, seen, all_stated(_NOT_ANSWERED, "no_peer"), said)


def _ended(one: Part, other: Part) -> Compared | None:
    """Neither says an error, and somebody ended one of them: that may be why, or by its hanging."""
    ended = [part for part in (one, other) if part.benchmark.is_ended and part.benchmark.is_stopped]
    if len(ended) != 1 or any(map(has_failed, (one, other))):
        return None
    seen = _stopped(ended[0])
    assert seen is not None
    return Compared(ended[0], seen, (), (f"{ended[0].where}: somebody ended it (SIGTERM)",))


def has_failed(part: Part) -> bool:
    """Whether a line of it fails, and not only nothing more is said."""
    first = _first(part)
    return first is not None and first.meaning.what != STOPPED


def _first(part: Part) -> Occurrence | None:
    """The first failure of a log, else its first consequence."""
    for kind in (Kind.FAILURE, Kind.CONSEQUENCE):
        found = _earliest(each for each in part.occurrences if each.meaning.kind is kind)
        if found is not None:
            return found
    return None


def _earliest(several: Iterable[Occurrence]) -> Occurrence | None:
    return min(several, key=lambda each: each.line, default=None)


def _stopped(part: Part) -> Occurrence | None:
    """That it said how far it was, and nothing after."""
    if part.benchmark.reached is Reached.NOTHING or part.benchmark.has_result:
        return None
    return part.stopped()
