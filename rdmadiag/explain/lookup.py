"""One word → what it means: an errno, a status, a state, a variable, a rule, a cause.

>>> [each.subject for each in lookup(("110",), "linux")]
['errno']
>>> lookup(("INIT",), "linux")[0].subject
'state'
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from rdmadiag.documentation import page_of_errno, page_of_rule
from rdmadiag.explain.answers import (
    Answer,
    AtStage,
    CauseAnswer,
    CompletionAnswer,
    ConstantAnswer,
    ErrnoAnswer,
    RuleAnswer,
    StateAnswer,
    VariableAnswer,
)
from rdmadiag.explain.calls import ANY, after_call, causes, hanging, known
from rdmadiag.explain.causes import Known, all_stated, remedy, stated
from rdmadiag.explain.completions import (
    CompletionStatus,
    after_completion,
    completion,
    statuses,
    vendor,
)
from rdmadiag.explain.connection import StatusRow
from rdmadiag.explain.constants import EVENTS, STATUSES, Constant, constants, is_constant
from rdmadiag.explain.remedies import fill
from rdmadiag.explain.states import MEANINGS, StateMeaning, state_meanings
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.cm import RejectReason
from rdmadiag.facts.errnos import ERRNOS, Platform, errno_name
from rdmadiag.gid.misspelt import meant
from rdmadiag.gid.variables import Variable, said_of, variable

STAGES: Final = tuple(
    str(stage)
    for stage in Stage
    if stage not in (Stage.GATE, Stage.PREFLIGHT, Stage.AGREE, Stage.DONE)
)
UNDERSTOOD: Final = (
    "errno NUMBER|NAME, wc STATUS|NAME, state NUMBER|WORD, env NAME[=VALUE], reject NUMBER|NAME, "
    "a constant (IBV_EVENT_…, RDMA_CM_EVENT_…, IB_CM_REJ_…), a rule's code (docs/rules.md), "
    "a reason against RTR, a cause's label, or --log FILE"
)


PLACES: Final = {
    "on": "",
    "on_device": "",
    "device": "DEVICE",
    "port": "1",
    "netdev": "INTERFACE",
    "source": "ADDRESS",
    "target": "PEER",
}
"""What stands in a template where no device and no peer is known: for the reader to fill in."""


class NotUnderstood(Exception):
    """The words mean nothing that is known; its text is one line for the user."""


def lookup(
    words: Sequence[str],
    platform: Platform,
    stage: str | None = None,
    vendor_error: int | None = None,
) -> tuple[Answer, ...]:
    """What the words mean; raises NotUnderstood with one line that says what would be."""
    subject, rest = words[0].lower(), " ".join(words[1:])
    if rest and subject in _OF_SUBJECT:
        found = tuple(_OF_SUBJECT[subject](rest, platform, stage, vendor_error))
        if found:
            return found
        raise NotUnderstood(f"no {_NAMES[subject]} {rest!r}{_near(rest)}")
    if subject in _OF_SUBJECT and not rest:
        raise NotUnderstood(f"explain {subject} WHAT? It understands: {UNDERSTOOD}")
    word = " ".join(words)
    guesses = ("env",) if "=" in word else _GUESSES
    if vendor_error is not None:
        guesses = ("wc",)
    for guess in guesses:
        if found := tuple(_GUESSERS[guess](word, platform, stage, vendor_error)):
            return found
    near = _near(word)
    hint = near or f". It understands: {UNDERSTOOD}"
    raise NotUnderstood(f"{word!r} is nothing that is known{hint}")


# --- errno -------------------------------------------------------------------------------


def _errno(
    word: str, platform: Platform, stage: str | None, vendor_error: int | None
) -> Iterator[Answer]:
    number = _errno_number(word, platform)
    if number is None:
        return
    other: Platform = "darwin" if platform == "linux" else "linux"
    elsewhere = ERRNOS[other].get(number)
    row = ERRNOS[platform].get(number)
    stages = [stage] if stage else [*STAGES, ANY]
    yield ErrnoAnswer(
        "errno",
        number,
        errno_name(number, platform),
        row[1] if row else "no errno of this platform",
        platform,
        f"{other}: {elsewhere[0]}, {elsewhere[1]}" if elsewhere and elsewhere != row else None,
        tuple(
            _at(number, each, platform, only=stage is not None)
            for each in stages
            if _traced(number, each, platform, only=stage is not None)
        ),
        _page(number, platform),
    )


def _page(number: int, platform: Platform) -> str | None:
    traced = any(known(each, platform).get(number) for each in (*STAGES, ANY))
    return page_of_errno(errno_name(number, platform)) if number and traced else None


def _traced(number: int, stage: str, platform: Platform, *, only: bool) -> tuple[Known, ...]:
    """Of one stage alone also what can happen at any; else that has an entry of its own."""
    if only:
        return causes(number, stage, platform)
    return known(stage, platform).get(number, ())


def _at(number: int, stage: str, platform: Platform, *, only: bool) -> AtStage:
    lines = () if stage == Stage.CONNECT else after_call(number, stage, platform)
    return AtStage(stage, _traced(number, stage, platform, only=only), fill(lines, PLACES))


def _errno_number(word: str, platform: Platform) -> int | None:
    text = word.strip().removeprefix("errno").strip(" =:")
    if re.fullmatch(r"-?\d{1,4}", text):
        number = abs(int(text))
        return number if any(number in table for table in ERRNOS.values()) else None
    for number, (name, _) in ERRNOS[platform].items():
        if text.upper() == name:
            return number
    other = ERRNOS["darwin" if platform == "linux" else "linux"]
    for table in (ERRNOS[platform], other):
        for number, (_, meaning) in table.items():
            if text.lower() == meaning.lower():
                return number
    return None


# --- completion status -------------------------------------------------------------------


def _wc(
    word: str, platform: Platform, stage: str | None, vendor_error: int | None
) -> Iterator[Answer]:
    row = _status(word)
    if row is None:
        return
    adds = vendor(row.number, vendor_error) if vendor_error is not None else None
    yield CompletionAnswer(
        "wc",
        row.number,
        row.name,
        row.text,
        row.meaning,
        row.is_consequence,
        vendor_error,
        f"with {adds.provider}, vendor error {vendor_error} {adds.meaning}" if adds else None,
        row.causes,
        fill(after_completion(row.number, platform), PLACES) if row.number else (),
    )


def _status(word: str) -> CompletionStatus | None:
    text = word.strip().upper().removeprefix("IBV_WC_").replace(" ", "_").replace("-", "_")
    if re.fullmatch(r"\d{1,3}", text):
        return completion(int(text))
    for row in statuses():
        if text in (row.name, row.text.upper().replace(" ", "_")):
            return row
    short = [row for row in statuses() if row.name.startswith(f"{text}_")]
    return short[0] if len(short) == 1 else None


# --- state -------------------------------------------------------------------------------


def _state(
    word: str, platform: Platform, stage: str | None, vendor_error: int | None
) -> Iterator[Answer]:
    for row in state_meanings(word):
        yield _of_state(row)


def _of_state(row: StateMeaning) -> StateAnswer:
    return StateAnswer("state", row.kind, str(row.state), row.state.number, row.meaning, row.next)


# --- variable ----------------------------------------------------------------------------


def _env(
    word: str, platform: Platform, stage: str | None, vendor_error: int | None
) -> Iterator[Answer]:
    name, equals, value = word.partition("=")
    name = name.strip().removeprefix("$")
    row = variable(name)
    if not re.fullmatch(r"\w+\*?", name) or (is_constant(name) and not _is_one(row)):
        return
    if known := meant(name.upper()):
        raise NotUnderstood(f"no variable {name!r} is known; did you mean {known}?")
    if row:
        yield _of_variable(row, name, value if equals else None)


def _of_variable(row: Variable, name: str, value: str | None) -> VariableAnswer:
    return VariableAnswer(
        "env",
        name.upper() if row.name.upper() == row.name else name,
        row.stack,
        f"{row.meaning} {_UNLISTED}"
        if row.name.endswith("*") and name != row.name
        else row.meaning,
        value,
        said_of(row, value) if value is not None else None,
        row.pitfalls,
        row.next,
    )


def _is_one(row: Variable | None) -> bool:
    """A variable, and no family of them."""
    return row is not None and not row.name.endswith("*")


_UNLISTED: Final = "This one is not described here, and a misspelt one would look the same."


# --- constants ---------------------------------------------------------------------------


def _constant(
    word: str, platform: Platform, stage: str | None, vendor_error: int | None
) -> Iterator[Answer]:
    from rdmadiag.explain.log.recognition.signs import sign_of

    if row := STATUSES.get(word.strip().upper()):
        yield _of_status(*row, platform)
        return
    for each in constants(word) if not _is_one(variable(word)) else ():
        sign = sign_of(each.name, "linux") if each in EVENTS else None
        yield ConstantAnswer(
            "constant",
            each.name,
            each.of,
            each.number,
            each.meaning,
            each.effect,
            sign.causes if sign else (),
            fill(sign.look(platform), PLACES) if sign else (),
        )


def _of_status(constant: Constant, row: StatusRow, platform: Platform) -> ConstantAnswer:
    causes = all_stated(row.labels, str(row.status), Stage.CONNECT)
    look = remedy(row.labels[0], platform) or remedy(row.labels[0], "linux")
    return ConstantAnswer(
        "constant",
        constant.name,
        constant.of,
        constant.number,
        constant.meaning,
        constant.effect,
        causes,
        fill(look, PLACES),
    )


def _reject(
    word: str, platform: Platform, stage: str | None, vendor_error: int | None
) -> Iterator[Answer]:
    """A reason of RDMA_CM_EVENT_REJECTED, by its number or its name."""
    text = word.strip().upper().removeprefix("IB_CM_REJ_").replace(" ", "_").replace("-", "_")
    for constant, row in STATUSES.values():
        if isinstance(row.status, RejectReason) and text in (
            str(row.status.number),
            row.status.name,
        ):
            yield _of_status(constant, row, platform)


# --- rules and reasons -------------------------------------------------------------------


def _rule(
    word: str, platform: Platform, stage: str | None, vendor_error: int | None
) -> Iterator[Answer]:
    from rdmadiag.preflight.rules import CATALOGUE
    from rdmadiag.preflight.safety import FOR_LACK_OF_EVIDENCE, REASON_TEXT

    text = word.strip().lower()
    rule = CATALOGUE.get(text.replace("_", "-").replace(" ", "-"))
    reason = next((each for each in REASON_TEXT if each == text.replace("-", "_")), None)
    # Some reasons are named as a rule is: the way it is written decides, else both are said.
    if rule and not (reason and "_" in text):
        yield RuleAnswer(
            "rule",
            rule.code,
            str(rule.severity),
            rule.title,
            rule.meaning,
            rule.remedy,
            rule.references,
            page_of_rule(rule.code),
        )
    if reason and not (rule and "-" in text):
        kind = "cannot tell" if reason in FOR_LACK_OF_EVIDENCE else "will fail"
        yield RuleAnswer(
            "reason",
            str(reason),
            kind,
            "A reason against an attempt at RTR",
            f"{REASON_TEXT[reason]}.",
            (),
            (),
        )


# --- causes ------------------------------------------------------------------------------


def _cause(
    word: str, platform: Platform, stage: str | None, vendor_error: int | None
) -> Iterator[Answer]:
    label = word.strip().lower().replace("_", "-").replace(" ", "-")
    if (stated_by := _statements().get(label)) is not None:
        texts, sources = stated_by
        look = remedy(label, platform) or remedy(label, "linux") or remedy(label, "darwin")
        yield CauseAnswer("cause", label, tuple(texts), tuple(sources), fill(look, PLACES))


@cache
def _statements() -> dict[str, tuple[dict[str, None], dict[str, None]]]:
    """Of each label its sentences, and what it is known from."""
    found: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for cause, source in all_causes():
        texts, sources = found.setdefault(cause.label, ({}, {}))
        texts[cause.text] = None
        sources[source] = None
    return found


def all_causes() -> Iterator[tuple[Known, str]]:
    """Every cause as it is stated anywhere, with what it is known from."""
    from rdmadiag.explain.attempt import stated_of_outcomes
    from rdmadiag.explain.log.recognition.catalogue import messages
    from rdmadiag.explain.log.recognition.settings import SETTINGS
    from rdmadiag.explain.log.recognition.signs import SIGNS

    yield stated("no-gid-given"), "linux: no errno at rtr, of rc_pingpong"
    yield stated("gid-row-empty", "peer"), "linux: an empty GID of the peer at rtr"
    yield from _causes_of_errnos((*(each for each in Stage if each != Stage.CONNECT), ANY))
    for row in statuses():
        for cause in row.causes:
            yield cause, f"wc {row.number} ({row.name})"
    yield from _causes_of_errnos((Stage.CONNECT,))
    for sign in SIGNS:
        for cause in sign.causes:
            yield cause, f"a log's {sign.word}"
    for setting in SETTINGS:
        for label in filter(None, (setting.label, setting.shown)):
            yield stated(label), "what a log says was set"
    for cause, outcome in stated_of_outcomes():
        yield cause, f"a pingpong's {outcome}"
    for message in messages():
        for cause in all_stated(message.labels, message.stage or ""):
            yield cause, "a log's message of a known stack"


def _causes_of_errnos(stages: Sequence[str]) -> Iterator[tuple[Known, str]]:
    systems: tuple[Platform, ...] = ("linux", "darwin")
    for system in systems:
        for stage in stages:
            for number, rows in known(stage, system).items():
                what = f"errno {number} ({errno_name(number, system)})" if number else "no errno"
                where = "any stage" if stage == ANY else stage
                for cause in rows:
                    yield cause, f"{system}: {what} at {where}"
        if ANY in stages:
            for cause in hanging(system):
                yield cause, f"{system}: a call that never returns"


# --- the rest ----------------------------------------------------------------------------

_OF_SUBJECT: Final = {
    "errno": _errno,
    "wc": _wc,
    "status": _wc,
    "state": _state,
    "env": _env,
    "constant": _constant,
    "reject": _reject,
    "rule": _rule,
    "reason": _rule,
    "code": _rule,
    "cause": _cause,
}
_NAMES: Final = {
    "errno": "errno",
    "wc": "completion status",
    "status": "completion status",
    "state": "state",
    "constant": "constant",
    "reject": "reason to reject",
    "env": "variable that is known",
    "rule": "rule",
    "reason": "reason",
    "code": "rule or reason",
    "cause": "cause",
}
_GUESSES: Final = (
    *("wc_word", "queue_pair_state", "constant", "env"),
    *("rule", "state_word", "errno", "wc", "cause"),
)


def _state_word(
    word: str, platform: Platform, stage: str | None, vendor_error: int | None
) -> Iterator[Answer]:
    """A word for a state: a bare number is an errno."""
    if not word.strip().lstrip("-").isdigit():
        yield from _state(word, platform, stage, vendor_error)


def _wc_word(
    word: str, platform: Platform, stage: str | None, vendor_error: int | None
) -> Iterator[Answer]:
    """A word for a status: a bare number is an errno."""
    if not word.strip().lstrip("-").isdigit():
        yield from _wc(word, platform, stage, vendor_error)


def _queue_pair_state(
    word: str, platform: Platform, stage: str | None, vendor_error: int | None
) -> Iterator[Answer]:
    """By its constant: else the word may be a port's."""
    if word.strip().upper().startswith("IBV_QPS_"):
        yield from _state(word, platform, stage, vendor_error)


_GUESSERS: Final = _OF_SUBJECT | {
    "state_word": _state_word,
    "wc_word": _wc_word,
    "queue_pair_state": _queue_pair_state,
}


def _near(word: str) -> str:
    """Up to three known names that differ by a slip of the hand, as the end of a message."""
    names = _all_names()
    close = difflib.get_close_matches(word.strip().lower(), names, 3, 0.75)
    return f"; did you mean {' or '.join(names[each] for each in close)}?" if close else ""


@cache
def _all_names() -> dict[str, str]:
    from rdmadiag.gid.variables import VARIABLES
    from rdmadiag.preflight.rules import CATALOGUE
    from rdmadiag.preflight.safety import REASON_TEXT

    names = [name for table in ERRNOS.values() for name, _ in table.values()]
    names += [row.name for row in statuses()]
    names += [str(row.state) for row in MEANINGS]
    names += [row.name for row in VARIABLES if not row.name.endswith("*")]
    names += [*(each.name for each in EVENTS), *STATUSES]
    names += [*CATALOGUE, *map(str, REASON_TEXT)]
    names += _statements()
    return {name.lower(): name for name in names}
