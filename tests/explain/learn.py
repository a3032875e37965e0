"""Write what `explain` learned of the threads: `python -m tests.explain.learn`.

rdmadiag/explain/log/ranking/learned has then
  cases.tsv     labels, and the length of its words' vector: a line for each row that fails
  words.tsv     a word, its weight, and the numbers of the cases that have it
  threads.tsv   the address, what the thread found out, and one line of the log: of the same rows,
                and nothing of those without an address
  chances.tsv   what a first cause rests on, how often it was right, and of how many readings
"""

import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from rdmadiag.explain.log.ranking.learned import cases as learned_cases
from rdmadiag.explain.log.ranking.learned.cases import Cases
from rdmadiag.explain.log.ranking.learned.chances import Basis
from rdmadiag.explain.log.ranking.learned.features import features
from tests.explain.learned import Example, examples, taught
from tests.explain.thread_files import NO_ADDRESS, Row, Thread, read

FOLDER: Final = Path(learned_cases.FOLDER)
MOST: Final = 100
"""Characters of a line, and of what was found out."""
FIRST_READ: Final = {
    Basis.BOTH: (18 + 27, 21 + 31),
    Basis.RULE: (20 + 8, 34 + 14),
    Basis.WORDS: (28 + 0, 54 + 1),
}
"""Right, and of how many: of the ninth exam with a model that had not learned it, and of the tenth,
which nobody had read. Where no rule is met, of the seventh and eighth as well, with such models.
"""
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


def _shown(thread: Thread, row: Row, cases: Cases) -> tuple[str, str, str]:
    """Nothing of a thread that nobody could look up."""
    if thread.address.startswith(NO_ADDRESS):
        return "", "", ""
    return thread.address, _short(row.cause), telling(row, cases)


def tables(threads: Sequence[Thread]) -> dict[str, str]:
    """Each table's text by its name."""
    some: tuple[Example, ...] = examples(threads)
    cases = taught(some)
    return {
        "cases": table(
            "labels, length",
            ((",".join(c), f"{n:.2f}") for c, n in zip(cases.labels, cases.lengths, strict=True)),
        ),
        "words": table("word, weight, cases", cases.words.items()),
        "threads": table(
            "address, found out, line",
            (_shown(thread, row, cases) for thread, row in some),
        ),
        "chances": table(
            "rests on, right, of",
            ((each, str(right), str(of)) for each, (right, of) in FIRST_READ.items()),
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
