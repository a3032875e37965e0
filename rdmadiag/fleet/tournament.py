"""A tournament of pairs while it goes on: who takes part, what a round asks, what nodes said."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.failures import UNTRIED
from rdmadiag.fleet.matrix import NO_LEAVES, NOTHING_EXPECTED, Expected, judge
from rdmadiag.fleet.node_answer import NodeAnswer
from rdmadiag.fleet.pair_document import bars, pair_result
from rdmadiag.fleet.pair_job import JobPair
from rdmadiag.fleet.pair_results import End, LeftOut, PairResult, Tournament
from rdmadiag.fleet.retest import retest
from rdmadiag.fleet.rounds import Round
from rdmadiag.preflight.safety import FOR_LACK_OF_EVIDENCE
from rdmadiag.quoting import printable

_SAID: Final = 200  # letters of what a node wrote
_REASONS: Final = 4


@dataclass(frozen=True, slots=True)
class Seating:
    """Where each node is reached by its peers, and its devices by rail."""

    table: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # as parse_addresses has it
    suffix: str = ""  # of a node's name, where the table has no address of it
    common: tuple[str, ...] = ()  # of nodes that have none in the table; (): what fits best

    @property
    def rails(self) -> int:
        """The most that a node has."""
        return max([1, len(self.common), *(len(each) - 1 for each in self.table.values())])

    def address(self, node: str) -> str:
        """Its own, where it listens."""
        row = self.table.get(node)
        return row[0] if row else f"{node}{self.suffix}"

    def device(self, node: str, rail: int) -> str | Missing | None:
        """None: the node chooses it; Missing: it has none on that rail."""
        named = self.table.get(node, ())[1:] or self.common
        if not named and rail == 0:
            return None
        if rail < len(named):
            return named[rail]
        return Missing(Why.ABSENT, f"no device of rail {rail}")


class Standing:
    """All that was said so far."""

    def __init__(self, seating: Seating) -> None:
        self.seating = seating
        self.results: list[PairResult] = []
        self.left_out: list[LeftOut] = []
        self._barred: set[tuple[str, int]] = set()

    def pairs(self, of: Round) -> tuple[JobPair, ...]:
        """Those of a round in which both ends still take part."""
        found = (self._pair(of, *each) for each in of.pairs)
        return tuple(each for each in found if each is not None)

    def _pair(self, of: Round, sender: str, receiver: str) -> JobPair | None:
        ends = tuple(zip((sender, receiver), of.rails, strict=True))
        if self._barred.intersection(ends):
            return None
        one, other = (self.seating.device(*end) for end in ends)
        if isinstance(one, Missing) or isinstance(other, Missing):
            return None
        return JobPair(sender, receiver, self.seating.address(receiver), one, other)

    def take(self, of: Round, pair: JobPair, answers: Mapping[str, NodeAnswer]) -> None:
        """What both nodes of a pair answered."""
        nodes = (pair.sender, pair.receiver)
        said = [_document(answers.get(node)) for node in nodes]
        ends = [
            End(node, rail, pair.device(node) or _device(each))
            for node, rail, each in zip(nodes, of.rails, said, strict=True)
        ]
        found = []
        is_known = True
        for index, (end, each) in enumerate(zip(ends, said, strict=True)):
            other, sends = ends[1 - index], index == 0
            result: PairResult | Missing = (
                each
                if isinstance(each, Missing)
                else pair_result(
                    each, node=end.node, number=of.number, rail=end.rail, partner=other, sends=sends
                )
            )
            if isinstance(result, Missing):
                self._bar_node(end.node, of.number, result.detail)
                result = PairResult(of.number, ends[0], ends[1], None, None, None, by_sender=sends)
            elif isinstance(each, Mapping) and (why := _against(each, result)):
                self._bar(end, of.number, why)
                is_known = is_known and not _lacks_evidence(each, result)
            found.append(replace(result, sender=ends[0], receiver=ends[1]))
        if is_known and not any(each.outcome in UNTRIED for each in found):
            self.results += found  # else it says nothing of the partner

    def _bar(self, end: End, number: int, why: str) -> None:
        if (end.node, end.rail) not in self._barred:
            self._barred.add((end.node, end.rail))
            name = f"{end.node}:{end.device or f'rail{end.rail}'}"
            self.left_out.append(LeftOut(name, number, why))

    def leave_out(self, node: str, why: str) -> None:
        """A node that cannot take part in any round."""
        self._bar_node(node, 0, why)

    def _bar_node(self, node: str, number: int, why: str) -> None:
        """What it is doing to its ports is not known."""
        self._barred.update((node, rail) for rail in range(self.seating.rails))
        self.left_out.append(LeftOut(node, number, why))

    def again(self, number: int, leaves: Mapping[str, str] = NO_LEAVES) -> tuple[Round, ...]:
        """Suspects with partners that passed, in rounds from `number` on; empty: all is decided."""
        return retest(self.results, number, leaves, self._barred)

    def judged(
        self,
        leaves: Mapping[str, str] = NO_LEAVES,
        expected: Expected = NOTHING_EXPECTED,
        unplayed: int = 0,
    ) -> Tournament:
        """What it adds up to."""
        found = judge(self.results, leaves, expected)
        return replace(found, left_out=tuple(self.left_out), unplayed=unplayed)


def waves(pairs: Sequence[JobPair], at_once: int) -> list[tuple[JobPair, ...]]:
    """The pairs of a round in groups whose nodes start together: both ends of each at once."""
    size = max(1, at_once // 2)
    return [tuple(pairs[start : start + size]) for start in range(0, len(pairs), size)]


def _document(answer: NodeAnswer | None) -> Mapping[str, Any] | Missing:
    """The outcome that a node printed; what makes no sense, and why there is none, as Missing."""
    if answer is None:
        return Missing(Why.ABSENT, "it was not started")
    found = _json(answer.stdout)
    if found is None:  # by srun, a long line comes in pieces, and each of them as a line
        found = _json(answer.stdout.replace(b"\n", b""))
    if isinstance(found, dict) and "outcome" in found:
        return found
    if answer.why is not None:
        return Missing(Why.ABSENT, answer.why)
    error = found.get("error") if isinstance(found, dict) else None
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return Missing(Why.MALFORMED, _line(error["message"]))
    text = _line(answer.stdout.decode("utf-8", "replace"))
    wrote = f"it wrote {text!r}" if text else "it wrote nothing"
    said = f": {answer.said}" if answer.said else ""
    code = f"exit code {answer.code}"
    return Missing(Why.MALFORMED, f"no outcome of a pingpong, {code}, {wrote}{said}")


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _against(document: Mapping[str, Any], result: PairResult) -> str | None:
    """Why an end takes no part in later rounds; nothing is tried on a device a second time."""
    summary = document.get("summary")
    said = _line(summary) if isinstance(summary, str) else ""
    if result.outcome in UNTRIED or result.outcome is Outcome.NOT_SAFE or bars(document):
        words = f"{result.outcome}: {said}" if said else str(result.outcome)
        codes = _reasons(document)[:_REASONS]
        return f"{words} ({', '.join(codes)})" if codes else words
    return None


def _lacks_evidence(document: Mapping[str, Any], result: PairResult) -> bool:
    """Whether a preflight could not look, which is no failure: nothing has been found."""
    codes = _reasons(document)
    return result.outcome is Outcome.NOT_SAFE and bool(codes) and _UNREAD.issuperset(codes)


_UNREAD: Final = frozenset(map(str, FOR_LACK_OF_EVIDENCE))


def _reasons(document: Mapping[str, Any]) -> list[str]:
    """Codes of what the preflight has against it: of the host, and of the port."""
    of_host, of_port = document.get("host_reasons"), document.get("reasons")
    found = list(of_host) if isinstance(of_host, list) else []
    if isinstance(of_port, list):
        found += [each.get("reason") for each in of_port if isinstance(each, Mapping)]
    return list(dict.fromkeys(_line(each) for each in found if isinstance(each, str)))


def _device(said: Mapping[str, Any] | Missing) -> str:
    local = {} if isinstance(said, Missing) else said.get("local")
    device = local.get("device") if isinstance(local, dict) else None
    return device[:64] if isinstance(device, str) else ""


def _line(text: str) -> str:
    return printable(text.strip())[:_SAID]
