"""Write the model of causes that `explain` ships: `python -m tests.explain.learn_model`.

It needs scikit-learn (`pip install --group learn`), whose logistic regression over all causes it
is: of every row of the threads that fails and has a label, but for the newest exam's, of the
excerpts of `corpus`, and of the logs of `usual`. A row counts for its first label, and less for
those that are as true. Weights that are next to nothing are left out, and the others stand in
tenths.

The first line of a table has a digest of all that was learned from, which a test compares.
"""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final

from rdmadiag.explain.causes import CAUSES
from rdmadiag.explain.log.ranking.learned.features import features
from rdmadiag.explain.log.ranking.learned.model import STEPS, Model
from rdmadiag.frozen import dataclass
from tests.explain.learn import FOLDER, table
from tests.explain.learned import digest, examples, labels_of
from tests.explain.score import FOLDER as CORPUS
from tests.explain.score import read as read_corpus
from tests.explain.thread_files import Thread, read
from tests.explain.usual_logs import LOGS, fails

ALSO: Final = 0.3
"""What a row counts for a label that is as true as the first."""
FEWEST: Final = 2
"""Rows that must have a word."""
LOOSE: Final = 20.0
"""The inverse of how much great weights cost."""
LIGHTEST: Final = 0.3
"""A weight that is kept."""
ROUNDS: Final = 60


@dataclass(frozen=True, slots=True)
class Example:
    """A log, and its causes, the first of which is the true one."""

    labels: tuple[str, ...]
    words: frozenset[str]
    thread: Thread | None = None  # None: of the corpus, or usual


def known(threads: Iterable[Thread] | None = None) -> tuple[Example, ...]:
    """All that is learned from."""
    some = [
        Example(labels, features(row.lines), thread)
        for thread, row in examples(read() if threads is None else threads)
        if (labels := labels_of(row))
    ]
    return (*some, *_of_corpus(), *_of_usual())


@cache
def _of_corpus() -> tuple[Example, ...]:
    return tuple(
        Example(causes, features(each.log.decode("utf-8", "replace")))
        for path in sorted(CORPUS.glob("*.txt"))
        for each in read_corpus(path)
        if (causes := tuple(label for label in each.causes if label in CAUSES))
    )


@cache
def _of_usual() -> tuple[Example, ...]:
    return tuple(
        Example(causes, features(row["text"]))
        for row in LOGS
        if fails(row) and (causes := tuple(label for label in row["labels"] if label in CAUSES))
    )


def source(some: Sequence[Example]) -> str:
    """The digest of all that decides what the tables are."""
    rows = [(each.labels, sorted(each.words)) for each in some]
    return digest((*rows, ALSO, FEWEST, LOOSE, LIGHTEST, ROUNDS, STEPS))


def taught(some: Sequence[Example]) -> Model:
    """What these teach."""
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression

    having = Counter(word for each in some for word in each.words)
    numbers = {word: n for n, word in enumerate(sorted(w for w in having if having[w] >= FEWEST))}
    rows = [
        (sorted(each.words & numbers.keys()), label, ALSO if place else 1.0)
        for each in some
        for place, label in enumerate(each.labels)
    ]
    starts = [0]
    for several, _, _ in rows:
        starts.append(starts[-1] + len(several))
    of = [1 / math.sqrt(len(several)) for several, _, _ in rows for _ in several]
    at = [numbers[word] for several, _, _ in rows for word in several]
    matrix = csr_matrix((of, at, starts), shape=(len(rows), len(numbers)))
    fit = LogisticRegression(C=LOOSE, max_iter=ROUNDS, tol=1e-3)
    fit.fit(matrix, [label for _, label, _ in rows], sample_weight=[w for _, _, w in rows])
    return Model(
        tuple(str(each) for each in fit.classes_),
        tuple(round(float(each), 2) for each in fit.intercept_),
        dict(_kept(numbers, fit.coef_)),
    )


def _kept(numbers: Iterable[str], weights: Any) -> Iterator[tuple[str, str]]:
    for n, word in enumerate(numbers):
        column = [(label, float(each)) for label, each in enumerate(weights[:, n])]
        rest = [f"{label}:{round(w * STEPS)}" for label, w in column if abs(w) >= LIGHTEST]
        if rest:
            yield word, " ".join(rest)


def main() -> int:
    """Write the tables."""
    some = known()
    model = taught(some)
    made = source(some)
    labels = zip(model.labels, map(str, model.alone), strict=True)
    for name, columns, rows in (
        ("labels", f"label, alone; {made}", labels),
        ("weights", f"word, labels; {made}", model.words.items()),
    ):
        text = table(columns, rows).replace("tests.explain.learn`", f"{__spec__.name}`")
        (FOLDER / f"{name}.tsv").write_text(text, "utf-8")
        print(f"{name}.tsv: {len(text.encode())} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
