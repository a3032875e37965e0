"""The secret of two ends: random bytes in hexadecimal, from --new-secret or openssl rand -hex."""

import secrets
from typing import Final

LEAST_BYTES: Final = 16
_NEW_BYTES: Final = 32
_LEAST_VARIETY: Final = 8
"""Different bytes among those of a secret: 16 random ones have fewer once in 10^11."""


def made() -> str:
    """A new secret: 32 random bytes in hexadecimal."""
    return secrets.token_hex(_NEW_BYTES)


def parse(content: bytes) -> bytes:
    """The secret of a file; white space around it is an editor's.

    Words that people choose are guessed by trying: raises ValueError, one line, for whatever
    is not at least LEAST_BYTES random bytes in hexadecimal.
    """
    try:
        found = bytes.fromhex(content.decode("ascii").strip())
    except ValueError:
        found = b""
    if len(found) < LEAST_BYTES or len(set(found)) < _LEAST_VARIETY:
        raise ValueError(f"no secret of {LEAST_BYTES} or more random bytes in hexadecimal")
    return found
