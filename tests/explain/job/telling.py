"""Texts → the story, as the command line reads files."""

import io
from collections.abc import Mapping

from rdmadiag.explain.job.alone import Alone
from rdmadiag.explain.job.collected import Collected
from rdmadiag.explain.job.compose import compose
from rdmadiag.explain.job.part import NEEDLES, Collecting, Part, last_stamp
from rdmadiag.explain.job.story import JobSource, Story
from rdmadiag.explain.job.writers import named
from rdmadiag.explain.log.line.launchers import marking
from rdmadiag.explain.log.recognition.reader import Meanings
from rdmadiag.sieve.lines import Sieve

SIEVE = Sieve(NEEDLES)


def part_of(name: str, content: bytes, meanings: Meanings | None = None) -> Part:
    """One file; `meanings` may be of others of the same job."""
    part = Part(name, named(name, frozenset()), marking(content[: 64 << 10]))
    collecting = Collecting(part, meanings or Meanings(), Alone())
    collecting.read(SIEVE.segments(io.BytesIO(content)))
    collecting.read_rest(SIEVE)
    part.lines, part.bytes = SIEVE.lines, SIEVE.bytes
    part.last = last_stamp(content[-(256 << 10) :])
    return part


def placed(files: Mapping[str, str], collected: Collected | None = None) -> Story:
    """The story of these files."""
    made, meanings = collected or Collected(), Meanings()
    for name, text in files.items():
        part = part_of(name, text.encode(), meanings)
        made.parts.append(part)
        made.sources.append(JobSource(name, "log", part.lines, part.bytes, None, None, None))
    return compose(made)
