"""What is read of a log beside its candidates: a short text whole, a paste, the end."""

from typing import TYPE_CHECKING, Protocol

from rdmadiag.explain.log.text.endings import read_end
from rdmadiag.explain.log.text.of_pasted import add_possible, read_pasted
from rdmadiag.explain.log.text.outcome import read_outcome
from rdmadiag.explain.log.text.short_text import read_whole

if TYPE_CHECKING:
    from rdmadiag.explain.log.collector import Collector
    from rdmadiag.explain.log.ranking.learned.trouble import Weights


class Kept(Protocol):
    """What the sieve keeps of a log; rdmadiag.sieve.lines.Sieve."""

    lines: int
    whole: bytes | None
    paste: bytes
    end: bytes


def read_rest(collector: "Collector", kept: Kept, learned: "Weights | None" = None) -> None:
    """Add it; `learned` are other weights of lines of trouble than the package's."""
    possible = read_pasted(collector, kept.paste) if kept.paste else ()
    if kept.whole:
        read_whole(collector, kept.whole, learned)
    read_outcome(collector, kept.end, kept.lines)
    read_end(collector, kept.end, kept.lines)
    add_possible(collector, possible)
