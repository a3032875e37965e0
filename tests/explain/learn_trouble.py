"""Write what `explain` learned of lines of trouble: `python -m tests.explain.learn_trouble`.

Of all threads but those of the newest exam, and of the excerpts of `corpus`: a text counts by the
lines of most weight in it (a softened maximum), for it is not known which of its lines speak of
trouble; those of logs without trouble speak of none. Each step goes against the error of one text,
and the steps of a weight become the smaller, the more of them it had (Adagrad). Both kinds of texts
count the same in sum. Weights that are next to nothing are left out.

The first line of the table has a digest of those lines, which a test compares. With "apart" it
writes nothing: it prints how weights learned of nine tenths, by thread and by
stack, weigh the texts of the tenth. So are threads scored: by weights of others.
"""

import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Final

from rdmadiag.explain.log.ranking.learned.trouble import Weights, features_of
from rdmadiag.explain.log.text.short_text import lines_of, needs_look
from rdmadiag.frozen import dataclass
from tests.explain.learn import FOLDER, table
from tests.explain.learned import by_others, by_stack, by_thread, digest
from tests.explain.score import CORPORA, Excerpt, collected
from tests.explain.score import FOLDER as CORPUS
from tests.explain.score import read as read_corpus
from tests.explain.thread_files import Thread, read

ROUNDS: Final = 8
STEP: Final = 0.1
SHRINK: Final = 0.2
"""Of a weight, over all texts of a round."""
FEWEST: Final = 3
"""Texts that must have a feature."""
LIGHTEST: Final = 0.02
"""A weight that is kept."""
MOST_LINES: Final = 40
_SHARP: Final = 2.0


@dataclass(frozen=True, slots=True)
class Text:
    """Lines that are known to fail, or not to."""

    fails: bool
    lines: tuple[frozenset[str], ...]  # features
    thread: Thread | None = None  # None: of the corpus


def text_of(lines: str, fails: bool, thread: Thread | None = None) -> Text:
    """With its lines' features, as explain would see them."""
    text = "\n".join([each for each in lines.splitlines() if each.strip()][:MOST_LINES]).encode()
    collector, some = collected(text), lines_of(text)
    needs_look(collector, some)
    return Text(fails, features_of([line for _, line in some], collector.found), thread)


def texts(threads: Iterable[Thread] | None = None) -> tuple[Text, ...]:
    """Threads and excerpts; nothing that the project knew before, or of the newest exam."""
    rows = [text_of(lines, fails, thread) for lines, fails, thread in _of_threads(threads)]
    return (*rows, *_of_corpus())


def source() -> str:
    """The digest of the lines that the table is learned from."""
    rows = [(lines, fails) for lines, fails, _ in _of_threads()]
    excerpts = [(each.log, each.fails) for each in _excerpts()]
    return digest((*rows, *excerpts, ROUNDS, STEP, SHRINK, FEWEST, LIGHTEST, MOST_LINES))


def _of_threads(threads: Iterable[Thread] | None = None) -> list[tuple[str, bool, Thread]]:
    every = read() if threads is None else threads
    some = [each for each in every if not (each.unread or each.seen)]
    return [(row.lines, row.fails, thread) for thread in some for row in thread.rows]


def _excerpts() -> list[Excerpt]:
    names = (*CORPORA, "stacks")
    return [each for name in names for each in read_corpus(CORPUS / f"{name}.txt")]


@cache
def _of_corpus() -> tuple[Text, ...]:
    return tuple(text_of(e.log.decode("utf-8", "replace"), e.fails) for e in _excerpts())


def taught(some: Sequence[Text]) -> Weights:
    """The weights that these texts give, the same each time."""
    having = Counter(each for text in some for each in frozenset().union(*text.lines))
    words = {each for each, count in having.items() if count >= FEWEST}
    kept = [
        (text.fails, [sorted(line & words) for line in text.lines]) for text in some if text.lines
    ]
    share = sum(fails for fails, _ in kept) / len(kept)
    of, steps = dict.fromkeys(sorted(words), 0.0), dict.fromkeys(words, 1e-8)
    alone, alone_steps = 0.0, 1e-8
    order = random.Random(0)
    for _ in range(ROUNDS):
        order.shuffle(kept)
        for fails, lines in kept:
            roots = [math.sqrt(len(line) + 1) for line in lines]
            weights = [
                alone + sum(of[each] for each in line) / root
                for line, root in zip(lines, roots, strict=True)
            ]
            shares = _softened(weights)
            whole = sum(weight * part for weight, part in zip(weights, shares, strict=True))
            slope = 1 / (1 + math.exp(-whole)) - fails
            slope *= 0.5 / share if fails else 0.5 / (1 - share)
            alone_steps += slope * slope
            alone -= STEP * slope / math.sqrt(alone_steps)
            for line, root, part in zip(lines, roots, shares, strict=True):
                if part < 0.01:
                    continue
                for each in line:
                    down = slope * part / root + SHRINK * of[each] / len(kept)
                    steps[each] += down * down
                    of[each] -= STEP * down / math.sqrt(steps[each])
    return Weights(alone, {each: weight for each, weight in of.items() if abs(weight) >= LIGHTEST})


def _softened(weights: Sequence[float]) -> list[float]:
    most = max(weights)
    shares = [math.exp(_SHARP * (each - most)) for each in weights]
    return [each / sum(shares) for each in shares]


def most_of(weights: Weights, text: Text) -> float:
    """The weight of its heaviest line."""
    return max((weights.weight(each) for each in text.lines), default=-math.inf)


def apart(some: Sequence[Text], by: Callable[[Thread], str]) -> list[tuple[Text, float]]:
    """Each text of a thread with what weights of other threads, or stacks, say."""
    weights = by_others(by, some, taught)
    return [(e, most_of(weights(e.thread), e)) for e in some if e.thread]


def main(arguments: Sequence[str]) -> int:
    """Write the table, or print what it is worth."""
    some = texts()
    if "apart" in arguments:
        for by in (by_thread, by_stack):
            found = apart(some, by)
            for least in (1.5, 1.2, 1.0, 0.8, 0.6, 0.4):
                shares = [
                    sum(weight >= least for text, weight in found if text.fails is fails)
                    / sum(text.fails is fails for text, _ in found)
                    for fails in (True, False)
                ]
                print(f"{by.__name__} {least}: {shares[0]:.0%} of failures, {shares[1]:.0%} others")
        return 0
    weights = taught(some)
    rows = [("", f"{weights.alone:.2f}"), *((e, f"{w:.2f}") for e, w in weights.of.items())]
    text = table(f"feature, weight; {source()}", rows).replace(
        "tests.explain.learn`", f"{__spec__.name}`"
    )
    (FOLDER / "trouble.tsv").write_text(text, "utf-8")
    print(f"trouble.tsv: {len(rows)} rows, {len(text.encode())} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
