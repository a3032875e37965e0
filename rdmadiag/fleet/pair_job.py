"""What `fleet pairs` hands to the nodes of one round, on stdin: one line of JSON.

All nodes get the same line, and each finds its own pair in it. It holds the secret of the run,
and so it is never part of a command line.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from rdmadiag.facts import Missing, Why
from rdmadiag.fleet.nodes import is_name
from rdmadiag.frozen import dataclass

LONGEST: Final = 16 << 20
"""Bytes of the line: 10,000 pairs take about two MB."""
_MOST_PAIRS: Final = 100_000
_LONGEST_TEXT: Final = 255


@dataclass(frozen=True, slots=True)
class JobPair:
    """One pair of the round."""

    sender: str
    receiver: str
    address: str  # that the receiver listens at, and the sender connects to
    sender_device: str | None  # None: the one that preflight ranks first
    receiver_device: str | None

    def device(self, node: str) -> str | None:
        """Of one of the two."""
        return self.sender_device if node == self.sender else self.receiver_device


@dataclass(frozen=True, slots=True)
class Job:
    """One round."""

    secret: str
    pairs: tuple[JobPair, ...]
    payload: int  # bytes of each message
    iterations: int
    bandwidth: float  # seconds; 0: not measured
    wait: float  # seconds for the partner to come
    deadline: float  # seconds of the attempt
    busy: bool = False  # ports that programs use are tried, too

    def of(self, node: str) -> JobPair | None:
        """The pair of a node; None: it rests."""
        return next((each for each in self.pairs if node in (each.sender, each.receiver)), None)

    def line(self) -> bytes:
        """For stdin."""
        parts = {name: getattr(self, name) for name in (*_NUMBERS, "secret", "busy")}
        pairs = [[getattr(each, name) for name in _TEXTS] for each in self.pairs]
        return json.dumps({**parts, "pairs": pairs}).encode() + b"\n"


_TEXTS: Final = ("sender", "receiver", "address", "sender_device", "receiver_device")
_NUMBERS: Final[Mapping[str, tuple[float, float]]] = {
    "payload": (1, 1 << 20),
    "iterations": (1, 10_000),
    "bandwidth": (0, 60),
    "wait": (1, 3600),
    "deadline": (1, 60),
}
"""With the least and the most of each: those of pingpong's options."""


def parse_job(content: bytes) -> Job | Missing:
    """The line as it comes; whatever does not fit makes the whole of it Missing."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return Missing(Why.MALFORMED, "no JSON")
    if not isinstance(found, dict):
        return Missing(Why.MALFORMED, "no table")
    numbers: dict[str, Any] = {}
    for name, (least, most) in _NUMBERS.items():
        value = found.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return Missing(Why.MALFORMED, f"{name} is no number")
        if not least <= value <= most:
            return Missing(Why.MALFORMED, f"{name} is not between {least} and {most}")
        numbers[name] = value
    secret, pairs = found.get("secret"), found.get("pairs")
    if not isinstance(secret, str) or not isinstance(pairs, list) or len(pairs) > _MOST_PAIRS:
        return Missing(Why.MALFORMED, "no secret, or no pairs")
    busy = found.get("busy", False)
    if not isinstance(busy, bool):
        return Missing(Why.MALFORMED, "busy is neither true nor false")
    made = [_pair(each) for each in pairs]
    if None in made:
        return Missing(Why.MALFORMED, "a pair that is none")
    for name in ("payload", "iterations"):
        numbers[name] = int(numbers[name])
    return Job(secret, tuple(each for each in made if each), **numbers, busy=busy)


def _pair(value: object) -> JobPair | None:
    if not isinstance(value, list) or len(value) != len(_TEXTS):
        return None
    for text in value:
        if text is not None and not (isinstance(text, str) and 0 < len(text) <= _LONGEST_TEXT):
            return None
    sender, receiver, address, one, other = value
    if sender is None or receiver is None or address is None or sender == receiver:
        return None
    if not is_name(sender) or not is_name(receiver):
        return None
    return JobPair(sender, receiver, address, one, other)


def parse_addresses(content: bytes) -> dict[str, tuple[str, ...]] | Missing:
    """Node → its address, and its devices by rail: lines of NODE ADDRESS [DEVICE...]."""
    found: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        words = [word[:_LONGEST_TEXT] for word in line.partition("#")[0].split()]
        if words and (len(words) < 2 or not is_name(words[0])):
            return Missing(Why.MALFORMED, f"line {number} is not NODE ADDRESS [DEVICE...]")
        if words:
            found[words[0]] = tuple(words[1:])
    return found
