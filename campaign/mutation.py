"""Inputs out of inputs: bytes and JSON changed a little, or a lot, the same way for a seed."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final

HOSTILE: Final[tuple[bytes, ...]] = (
    b"",
    b"\0",
    b"\n",
    b"\r\n",
    b"\x1b]0;x\x07\x1b[2J",
    "\u202e\u2066\u0085\u009b31m".encode(),
    b"\xff\xfe\x80",
    b"\xed\xa0\x80",  # half of a surrogate pair
    b"$(touch canary)`touch canary`",
    b"'\";|&<>{}[]()*?~#!\\%",
    b"../../../../etc/passwd",
    b"0",
    b"-1",
    b"00",
    b"+7",
    b"0x",
    b"0x7fffffffffffffff",
    b"255",
    b"256",
    b"65536",
    b"2147483648",
    b"4294967296",
    b"9223372036854775808",
    b"18446744073709551616",
    b"9" * 5000,
    b"1e999",
    b"nan",
    b"inf",
    "٣²½Ⅷ".encode(),  # digits to some, numbers to none
    b"a" * 3000,
    b" " * 2000,
    b"\t\x0b\x0c\x1c\x1d\x1e\x85",
    b"[" * 400,
    b"{" * 400,
    b"<a>" * 200,
    b":" * 300,
    b"(" * 300 + b")" * 300,
    b"=" * 300,
    b",," * 300,
    b"/" * 600,
)
_MOST: Final = 100_000  # bytes of an input
_LENGTHS: Final = (0, 1, 3, 4, 5, 15, 16, 17, 255, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)


class Mutator:
    """Changes seeds; the same `Random` gives the same inputs."""

    def __init__(self, random: Random, seeds: Sequence[bytes]) -> None:
        self._random = random
        self._seeds = seeds or (b"",)
        self._ways: tuple[Callable[[bytes], bytes], ...] = (
            self._flip,
            self._flip,
            self._replace,
            self._insert,
            self._insert,
            self._delete,
            self._truncate,
            self._repeat,
            self._splice,
            self._length,
            self._attribute,
            self._attribute,
            self._json,
            self._json,
            self._json,
            self._swap,
        )

    def next(self) -> bytes:
        """One input of at most some 100 KiB."""
        random = self._random
        kind = random.random()
        if kind < 0.03:
            return random.randbytes(random.randrange(200))
        if kind < 0.05:
            return b"".join(random.choices(HOSTILE, k=random.randrange(4)))
        return self.changed(random.choice(self._seeds))[:_MOST]

    def changed(self, content: bytes) -> bytes:
        """The same with one change or several."""
        for _ in range(1 + int(self._random.expovariate(0.7))):
            content = self._random.choice(self._ways)(content)
        return content

    def _at(self, content: bytes) -> int:
        return self._random.randrange(len(content) + 1)

    def _flip(self, content: bytes) -> bytes:
        if not content:
            return content
        at = self._random.randrange(len(content))
        return (
            content[:at]
            + bytes((content[at] ^ (1 << self._random.randrange(8)),))
            + content[at + 1 :]
        )

    def _replace(self, content: bytes) -> bytes:
        at = self._at(content)
        size = self._random.randrange(1, 9)
        return content[:at] + self._random.randbytes(size) + content[at + size :]

    def _insert(self, content: bytes) -> bytes:
        at = self._at(content)
        return content[:at] + self._random.choice(HOSTILE) + content[at:]

    def _delete(self, content: bytes) -> bytes:
        at = self._at(content)
        return content[:at] + content[at + self._random.randrange(1, 40) :]

    def _truncate(self, content: bytes) -> bytes:
        return content[: self._at(content)]

    def _repeat(self, content: bytes) -> bytes:
        at = self._at(content)
        part = content[at : at + self._random.randrange(1, 120)]
        return content[:at] + part * self._random.randrange(2, 40) + content[at:]

    def _splice(self, content: bytes) -> bytes:
        other = self._random.choice(self._seeds)
        return content[: self._at(content)] + other[self._random.randrange(len(other) + 1) :]

    def _length(self, content: bytes) -> bytes:
        """Two or four bytes, aligned as in a netlink message, become a length that is not."""
        size = self._random.choice((2, 4))
        at = self._at(content) // size * size
        value = self._random.choice(_LENGTHS) & ((1 << 8 * size) - 1)
        return content[:at] + value.to_bytes(size, "little") + content[at + size :]

    def _attribute(self, content: bytes) -> bytes:
        """Another content in what may be an attribute of a netlink message, lengths in order."""
        message, start = 0, 0
        while message + 16 <= len(content):  # the message that a random place is in
            length = int.from_bytes(content[message : message + 4], "little")
            if not 16 <= length <= len(content) - message:
                return content
            if self._random.random() < 0.4 or message + length + 16 > len(content):
                start = message
                break
            message += (length + 3) // 4 * 4
        at = message + 16 + self._random.randrange(max(1, (len(content) - message) // 4)) * 4
        size = int.from_bytes(content[at : at + 2], "little")
        if not 4 <= size <= 2000 or at + size > len(content):
            return content
        odd = self._random.choice(HOSTILE)[:2000]
        new = self._random.choice((odd, self._random.randbytes(self._random.randrange(24))))
        rest = content[at + (size + 3) // 4 * 4 :]
        padded = new + b"\0" * (-len(new) % 4)
        changed = content[:at] + (len(new) + 4).to_bytes(2, "little") + content[at + 2 : at + 4]
        grown = len(padded) + 4 - (size + 3) // 4 * 4
        whole = int.from_bytes(content[start : start + 4], "little") + grown
        changed = changed[:start] + max(whole, 0).to_bytes(4, "little") + changed[start + 4 :]
        return changed + padded + rest

    def _json(self, content: bytes) -> bytes:
        """Of a document of JSON, or of lines of it, a value."""
        if len(content) > _MOST:
            return content
        for lines in ([content], content.split(b"\n")):
            at = self._random.randrange(len(lines))
            with suppress(ValueError, RecursionError):
                document = json.loads(lines[at])
                lines[at] = dumped(mutated_json(self._random, document, 1, longer=(2, 40)))
                return b"\n".join(lines)
        return content

    def _swap(self, content: bytes) -> bytes:
        first, second = sorted((self._at(content), self._at(content)))
        middle = (first + second) // 2
        return content[:first] + content[middle:second] + content[first:middle] + content[second:]


def mutated_json(
    random: Random, document: Any, changes: int, longer: Sequence[int] = (2, 40, 3000)
) -> Any:
    """The document with so many of its values replaced, removed, repeated or nested.

    A list becomes as many times as long as one of `longer`.
    """
    whole = [document]
    for _ in range(changes):
        holder: Any = whole
        key: Any = 0
        while True:
            value = holder[key]
            if isinstance(value, dict | list) and value and random.random() < 0.96:
                holder = value
                key = (
                    random.choice(list(value))
                    if isinstance(value, dict)
                    else random.randrange(len(value))
                )
                continue
            break
        _change(random, holder, key, longer)
    return whole[0]


def _change(random: Random, holder: Any, key: Any, longer: Sequence[int]) -> None:
    kind = random.random()
    value = holder[key]
    if kind < 0.1 and isinstance(holder, dict):
        del holder[key]
    elif kind < 0.15 and isinstance(holder, dict):
        holder[odd_text(random)] = value
    elif kind < 0.25 and isinstance(value, list) and value:
        holder[key] = value * (random.choice(longer) if len(value) < 1_000 else 2)
    elif kind < 0.3:
        for _ in range(random.choice((1, 60))):
            value = [value] if random.random() < 0.5 else {"x": value}
        holder[key] = value
    else:
        holder[key] = odd_value(random)


def odd_text(random: Random) -> str:
    """Text that a field should not hold, half of a surrogate pair included."""
    if random.random() < 0.05:
        return "\ud800"
    return random.choice(HOSTILE).decode("utf-8", "replace")


def odd_value(random: Random) -> Any:
    """A value of JSON that a field should not hold."""
    return random.choice(
        (
            None,
            True,
            False,
            [],
            {},
            0,
            -1,
            1.5,
            -0.0,
            1e308,
            2**31,
            2**32,
            2**63,
            2**64,
            -(2**63) - 1,
            10**400,
            odd_text(random),
            [odd_text(random)],
            {"why": "denied", "detail": odd_text(random)},
        )
    )


def dumped(document: Any) -> bytes:
    """As JSON, surrogates escaped."""
    return json.dumps(document).encode()
