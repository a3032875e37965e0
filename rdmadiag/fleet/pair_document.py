"""Documents of `pingpong --json` as results of pairs: no model, as there may be 100,000 of them."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.pair_results import End, PairResult

_LONGEST: Final = 255  # letters of a name
_OUTCOMES: Final = {outcome.value: outcome for outcome in Outcome}


def pair_result(
    document: Mapping[str, Any],
    *,
    node: str | None = None,
    number: int = 0,
    rail: int = 0,
    partner: End | None = None,
    sends: bool | None = None,
) -> PairResult | Missing:
    """What one end's document says; Missing where it is none of a pair.

    `node` is its name as the launcher knows it, else the document's host; `number` the round;
    `partner` the other end where that is known, else what the document has of it: a GID as the
    node's name. The end that connects is the sender: it took the times.
    """
    outcome = _OUTCOMES.get(_text(document.get("outcome")) or "")
    if outcome is None:
        return Missing(Why.MALFORMED, "no outcome of a pingpong")
    role = document.get("role")
    if sends is not None:
        role = "connect" if sends else "listen"
    if role not in ("listen", "connect"):
        return Missing(Why.ABSENT, "both ends are on one host")
    local, remote = _table(document, "local"), _table(document, "remote")
    name = node or _text(_table(document, "host").get("hostname"))
    if not name:
        return Missing(Why.MALFORMED, "no host")
    mine = End(name, rail, _text(local.get("device")) or "")
    if partner is None:
        other = _text(remote.get("gid"))
        if not other:
            return Missing(Why.ABSENT, "it names no other end")
        partner = End(other, rail, _text(remote.get("device")) or "")
    ends = (mine, partner) if role == "connect" else (partner, mine)
    return PairResult(
        number,
        *ends,
        outcome,
        _figure(_table(document, "latency_us").get("median")),
        _figure(_table(document, "bandwidth").get("gbps")),
        by_sender=role == "connect",
    )


def bars(document: Mapping[str, Any]) -> bool:
    """Whether its port takes no part in later rounds: a call on it failed, or never returned."""
    return document.get("outcome") in _BARRING


_BARRING: Final = (
    Outcome.CALL_FAILED,
    Outcome.TEARDOWN_FAILED,
    Outcome.DIED,
    Outcome.WATCHDOG,
)


def paired(documents: Iterable[tuple[str, Mapping[str, Any]]]) -> list[PairResult]:
    """Results of (node, document) from anywhere: what two of them say of each other is a pair.

    Both ends of an attempt name both queue pairs, by GID, number and first PSN. Devices of a
    node are its rails in their natural order; an end is in one attempt a round, by their times.
    """
    held = [
        (node, _needed(each))
        for node, each in documents
        if each.get("role") in ("listen", "connect")
    ]
    held.sort(key=lambda one: _text(one[1].get("generated_at")) or "")
    by_queue_pair = {key: index for index, (_, each) in enumerate(held) if (key := _key(each))}
    rails = _rails(held)
    met: dict[End, int] = defaultdict(int)
    numbers: dict[int, int] = {}  # index of a document → the round of its attempt
    found = []
    for index, (node, each) in enumerate(held):
        other = by_queue_pair.get(_key(each, swapped=True) or ())
        partner = None
        if other is not None:
            name, device = held[other][0], _device(held[other][1])
            partner = End(name, rails[name, device], device)
        result = pair_result(each, node=node, rail=rails[node, _device(each)], partner=partner)
        if not isinstance(result, PairResult):
            continue
        if index not in numbers:
            ends = (result.sender, result.receiver)
            number = max(met[end] for end in ends) + 1
            met.update(dict.fromkeys(ends, number))
            numbers |= dict.fromkeys((index, index if other is None else other), number)
        found.append(replace(result, round=numbers[index]))
    return found


def _needed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is not read here: of 100,000 documents that is most of the memory."""
    found = {name: document.get(name) for name in ("role", "outcome", "generated_at")}
    for name, members in _MEMBERS.items():
        table = _table(document, name)
        found[name] = {member: table.get(member) for member in members}
    return found


_MEMBERS: Final = {
    "local": ("device", "gid", "queue_pair", "psn"),
    "remote": ("device", "gid", "queue_pair", "psn"),
    "latency_us": ("median",),
    "bandwidth": ("gbps",),
}


def _rails(held: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[tuple[str, str], int]:
    devices: dict[str, set[str]] = defaultdict(set)
    for node, each in held:
        devices[node].add(_device(each))
    return {
        (node, device): rail
        for node, names in devices.items()
        for rail, device in enumerate(sorted(names, key=_natural))
    }


def _device(document: Mapping[str, Any]) -> str:
    return _text(_table(document, "local").get("device")) or ""


def _key(document: Mapping[str, Any], *, swapped: bool = False) -> tuple[Any, ...] | None:
    """Both queue pairs, this end's first; None where it did not come so far."""
    ends = (_table(document, "local"), _table(document, "remote"))
    key = tuple(
        _plain(end.get(name))
        for end in (reversed(ends) if swapped else ends)
        for name in ("gid", "queue_pair", "psn")
    )
    return None if None in key else key


def _plain(value: object) -> str | int | None:
    return value if isinstance(value, str | int) else None


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value[:_LONGEST] if isinstance(value, str) else None


def _figure(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < float("inf") else None


def _natural(name: str) -> list[tuple[bool, int, str]]:
    return [
        (part.isdigit(), int(part) if part.isdigit() else 0, part)
        for part in re.split(r"([0-9]{1,9})", name)
    ]
