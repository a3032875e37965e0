"""Texts → the story, as the command line reads files."""

import io
from collections.abc import Mapping

from rdmadiag.explain.job.heard import Heard
from rdmadiag.explain.job.part import NEEDLES, Collecting, Part, last_stamp
from rdmadiag.explain.job.speakers import marking, named
from rdmadiag.explain.job.tale import Tale
from rdmadiag.explain.job.tell import tell
from rdmadiag.sieve.lines import Sieve

SIEVE = Sieve(NEEDLES)


def part_of(name: str, content: bytes) -> Part:
    """One file."""
    part = Part(name, named(name, frozenset()), marking(content[: 64 << 10]))
    Collecting(part).read(SIEVE.segments(io.BytesIO(content)))
    part.lines, part.bytes = SIEVE.lines, SIEVE.bytes
    part.last = last_stamp(content[-(256 << 10) :])
    return part


def told(files: Mapping[str, str], heard: Heard | None = None) -> Tale:
    """The story of these files."""
    made = heard or Heard()
    made.parts.extend(part_of(name, text.encode()) for name, text in files.items())
    return tell(made)
