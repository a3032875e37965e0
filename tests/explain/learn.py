"""Write what `explain` learned of the threads: `python -m tests.explain.learn`.

rdmadiag/explain/log/learned has then
  cases.tsv     labels, and the length of its words' vector: a line for each row that fails
  words.tsv     a word or a pair of words, its weight, and the numbers of the cases that have it
  threads.tsv   the address, what the thread found out, and one line of the log: of the same rows
  chances.tsv   what a first cause rests on, how often it was right, and of how many readings:
                of rows that are held apart, with the cases of other threads, and of those of
                the folders `fresh`, `fourth`, `fifth` and `sixth` before they were tuned to
"""

import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from rdmadiag.explain.log.learned import cases as learned_cases
from rdmadiag.explain.log.learned.cases import Cases
from rdmadiag.explain.log.learned.chances import Basis
from rdmadiag.explain.log.learned.features import features
from tests.explain.learned import Apart, Example, by_thread, examples, taught
from tests.explain.score import Excerpt, score
from tests.explain.thread_files import Row, Thread, read

FOLDER: Final = Path(learned_cases.FOLDER)
MOST: Final = 100
"""Characters of a line, and of what was found out."""
FIRST_READ: Final = {
    Basis.BOTH: (13 + 140, 19 + 161),
    Basis.RULE: (6 + 72, 16 + 140),
    Basis.WORDS: (51, 79),
}
"""Right, and of how many: open rows of `fresh`, as the program of 0c4146c9 read them; and what the
programs of d354c1f9, 80992688 and 7697f0bc made of the fourth, fifth and sixth exam that they had
not learned, weighed as explain.log.recall does with cases of other threads.
"""
COUNTED: Final = ("fourth", "fifth", "sixth")
"""The folders whose rows are all in it."""
_REMARK: Final = "# made by `python -m tests.explain.learn`: "


def table(remark: str, rows: Iterable[Sequence[str]]) -> str:
    """Values between tabs, below a remark."""
    return f"{_REMARK}{remark}\n" + "".join("\t".join(row) + "\n" for row in rows)


def telling(row: Row, cases: Cases) -> str:
    """The line whose words weigh most."""

    def weight(line: str) -> float:
        words = features(line) & cases.words.keys()
        return math.fsum(float(cases.words[each].partition("\t")[0]) for each in words) / math.sqrt(
            len(words) or 1
        )

    return _short(max(row.lines.splitlines() or [""], key=weight))


def _short(text: str) -> str:
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= MOST else text[: MOST - 1] + "\N{HORIZONTAL ELLIPSIS}"


def readings(threads: Sequence[Thread]) -> dict[Basis, list[bool]]:
    """By what a first cause rests on, whether it is right: rows that are held apart."""
    apart = Apart(by_thread, threads)
    found: dict[Basis, list[bool]] = {each: [] for each in Basis}
    for thread in threads:
        if thread.path.parent.name in COUNTED:
            continue
        for row in thread.rows:
            if thread.held and not thread.seen and row.labels:
                cases = apart.cases(thread)
                first = score(Excerpt(row.id, {}, row.lines.encode()), cases).account.first
                if first and first.rests_on:
                    right = first.causes[0].label in row.labels
                    found[Basis(first.rests_on)].append(right)
    return found


def tables(threads: Sequence[Thread]) -> dict[str, str]:
    """Each table's text by its name."""
    some: tuple[Example, ...] = examples(threads)
    cases = taught(some)
    counts = {}
    for each, several in readings(threads).items():
        right, of = FIRST_READ.get(each, (0, 0))
        counts[each] = (right + sum(several), of + len(several))
    return {
        "cases": table(
            "labels, length", ((",".join(c.labels), f"{c.length:.2f}") for c in cases.cases)
        ),
        "words": table("word, weight, cases", cases.words.items()),
        "threads": table(
            "address, found out, line",
            ((t.address, _short(row.cause), telling(row, cases)) for t, row in some),
        ),
        "chances": table(
            "rests on, right, of",
            ((each, str(right), str(of)) for each, (right, of) in counts.items()),
        ),
    }


def main() -> int:
    """Write them."""
    for name, text in tables(tuple(read())).items():
        (FOLDER / f"{name}.tsv").write_text(text, "utf-8")
        print(f"{name}.tsv: {len(text.encode())} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
