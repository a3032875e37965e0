"""Keyed pseudonyms: numbers that keep their common prefixes, and words.

Prefixes are kept as by Crypto-PAn (Xu, Fan, Ammar, Moon: Prefix-Preserving IP Address
Anonymization, 2002): whether a bit is inverted depends on the key and on the bits before it.
So two numbers have as many leading bits in common after it as before, and no two become one.
The function of the bits is BLAKE2b with a key, RFC 7693.
"""

import secrets
from base64 import b32encode
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

KEY_BYTES: Final = 32

_AT_ONCE: Final = 8  # bits: a digest of 256 bits has one for each of the 255 nodes of their tree
_LETTERS: Final = 8  # 40 bits of a word


def new_key() -> bytes:
    """One that nobody has had before."""
    return secrets.token_bytes(KEY_BYTES)


class Pseudonyms:
    """What one key makes of numbers and words; the same each time."""

    def __init__(self, key: bytes) -> None:
        """Raises ValueError for a key of another length than KEY_BYTES."""
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
        self._key = key
        self._numbers: dict[tuple[str, int, int], int] = {}

    def _digest(self, kind: str, content: bytes, size: int) -> bytes:
        return blake2b(
            content, digest_size=size, key=self._key, person=kind.encode()[:16].ljust(16, b"\0")
        ).digest()

    def number(
        self,
        kind: str,
        value: int,
        bits: int,
        keeps: Callable[[int, int], bool] | None = None,
    ) -> int:
        """A number of as many bits; `keeps` is of the bits before one, and how many they are.

        Numbers of one `kind` have their common leading bits in common again.
        """
        known = self._numbers.get((kind, value, bits))
        if known is not None:
            return known
        result = 0
        inversions = b""
        for done in range(bits):
            before = value >> (bits - done)
            level = done % _AT_ONCE
            if not level:  # one digest has the inversions below this one, for all that may follow
                inversions = self._digest(kind, b"%d/%x" % (done, before), 32)
            bit = value >> (bits - done - 1) & 1
            if keeps is None or not keeps(before, done):
                node = 1 << level | before & ((1 << level) - 1)
                bit ^= inversions[node >> 3] >> (node & 7) & 1
            result = result << 1 | bit
        self._numbers[kind, value, bits] = result
        return result

    def word(self, kind: str, word: str) -> str:
        """ "host-4k7mz2qa" for a name of this kind, whatever its capitals."""
        digest = self._digest("word", f"{kind}\0{word.casefold()}".encode("utf-8", "replace"), 5)
        return f"{kind}-{b32encode(digest).decode().lower()[:_LETTERS]}"

    def digits(self, kind: str, text: str) -> str:
        """Hexadecimal digits for as many of them; all else in the text stays where it is."""
        count = sum(each.isalnum() for each in text)
        digest = self._digest(kind, text.casefold().encode("utf-8", "replace"), 32).hex()
        digits = iter((digest * (count // len(digest) + 1))[:count])
        upper = any(each.isupper() for each in text)
        made = "".join(next(digits) if each.isalnum() else each for each in text)
        return made.upper() if upper else made
