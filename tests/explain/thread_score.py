"""How well `explain --log` reads threads of the field: `python -m tests.explain.thread_score`
(with scikit-learn, since models are learned: `pip install --group learn`).

A row counts
  named, first  of the rows with a label: it, or another that is as true, is among the causes of
                the first failure; it is the first of them
  as OK         of all rows that fail: nothing is found, and the command would exit 0
  false         of the rows of noise: something is found

Threads stand in parts: those that rules were written from, those held apart, those that
the project knew before, those of the folder `fresh`, gathered after the rules were written, and
those of the folders EXAMS, gathered one after the other to be read once: of the newest only
sums are printed, and nothing is learned. With the name of such a folder, or "open", as its
argument it reads that part alone.

`explain` is read with what was learned of other threads, of other stacks, and of none.
Two baselines stand beside it: grep for words of trouble, which names no cause; and always the
commonest causes of the same status or errno, counted over all other threads, and over all other
stacks.
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from rdmadiag.explain.log.ranking.learned.chances import Basis
from rdmadiag.explain.log.ranking.learned.model import NOTHING, Model
from rdmadiag.explain.log.ranking.learned.trouble import Weights
from rdmadiag.frozen import dataclass
from tests.explain import learn_model, learn_trouble
from tests.explain.learned import by_others, by_stack, by_thread, fold
from tests.explain.score import Excerpt, score
from tests.explain.thread_files import EXAMS, Row, Thread, read

MOST: Final = 5
"""Causes that a guess may name, as many as explain does."""


@dataclass(frozen=True, slots=True)
class Case:
    """One row, with what was said of it."""

    thread: Thread
    row: Row
    causes: tuple[str, ...]  # the likeliest first
    found: bool  # it would not exit 0
    false: bool  # something was found at all, if only a note
    rests_on: str | None = None  # what the first cause does

    @property
    def named(self) -> bool:
        """A right cause is among those given."""
        return not set(self.row.labels).isdisjoint(self.causes)

    @property
    def first(self) -> bool:
        """It is the first."""
        return self.causes[:1] != () and self.causes[0] in self.row.labels

    @property
    def part(self) -> str:
        """Which part it stands in."""
        return part_of(self.thread)


def part_of(thread: Thread) -> str:
    """Where it stands: some go by the folder, whatever the hash drew."""
    if thread.seen:
        return "known before"
    if thread.exam:
        return thread.path.parent.name
    if thread.fresh:
        return "fresh"
    return "held apart" if thread.held else "open"


def explained(
    thread: Thread, row: Row, model: Model | None = None, trouble: Weights | None = None
) -> Case:
    """Explain it, as the command would; with what was learned of others, where it is given."""
    one = score(Excerpt(row.id, {}, row.lines.encode()), model, trouble)
    rests_on = one.found.rests_on if one.found else None
    return Case(thread, row, one.labels, not one.as_ok, one.false, rests_on)


_WORDS: Final = re.compile(
    r"\b(?:error|fail\w*|fatal|abort\w*|unable|cannot|timed? ?out|errno|invalid|refused"
    r"|unreachable|exceeded|not found|no such|denied|status[= ]\d+)\b",
    re.IGNORECASE,
)


def grepped(thread: Thread, row: Row) -> Case:
    """What grep says of it: a line with a word of trouble."""
    found = _WORDS.search(row.lines) is not None
    return Case(thread, row, (), found, found)


_STATUS: Final = re.compile(
    r"(?:status|error|syndrome?)\s*[=:(]?\s*(\d{1,2})\b|(IBV_WC_\w+|RDMA_CM_EVENT_\w+)"
)
_ERRNO: Final = re.compile(r"errno[ =:(]*-?(\d{1,3})|(\bE[A-Z]{3,14}\b)|failed with[ a-z]* -?(\d+)")


def number_of(lines: str) -> str:
    """The first status or errno as it is written; empty where there is none."""
    for kind, pattern in (("status", _STATUS), ("errno", _ERRNO)):
        if found := pattern.search(lines):
            return f"{kind} {next(each for each in found.groups() if each)}"
    return ""


def commonest(
    rows: Sequence[tuple[Thread, Row]], apart: Callable[[Thread], str]
) -> tuple[Case, ...]:
    """Guess the commonest causes of the same number, counted where `apart` is another."""
    every: dict[str, Counter[str]] = defaultdict(Counter)
    of: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for thread, row in rows:
        if row.labels:
            number = number_of(row.lines)
            every[number][row.label] += 1
            of[apart(thread), number][row.label] += 1
    cases = []
    for thread, row in rows:
        number = number_of(row.lines)
        counts = Counter(every[number])
        counts.subtract(of[apart(thread), number])
        causes = tuple(label for label, count in counts.most_common(MOST) if count > 0)
        cases.append(Case(thread, row, causes, bool(number), bool(number)))
    return tuple(cases)


COLUMNS: Final = (
    *("", "threads", "with label", "named", "first", "failing", "as OK", "nobody knows", "as OK"),
    *("noise", "false"),
)


def cells(name: str, cases: Sequence[Case]) -> tuple[str, ...]:
    """One line of a table."""
    known = [each for each in cases if each.row.labels]
    failing = [each for each in cases if each.row.fails]
    unresolved = [each for each in failing if each.row.basis == "unresolved"]
    noise = [each for each in cases if not each.row.fails]
    return (
        name,
        str(len({each.thread.address for each in cases})),
        str(len(known)),
        _share(sum(each.named for each in known), len(known)),
        _share(sum(each.first for each in known), len(known)),
        str(len(failing)),
        _share(sum(not each.found for each in failing), len(failing)),
        str(len(unresolved)),
        _share(sum(not each.found for each in unresolved), len(unresolved)),
        str(len(noise)),
        _share(sum(each.false for each in noise), len(noise)),
    )


def _share(count: int, of: int) -> str:
    return f"{count} ({100 * count / of:.0f} %)" if of else ""


def table(lines: Iterable[tuple[str, ...]]) -> str:
    """In Markdown."""
    rows = [COLUMNS, *lines]
    widths = [max(len(row[at]) for row in rows) for at in range(len(COLUMNS))]
    texts = [
        "| "
        + " | ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        + " |"
        for row in rows
    ]
    return "\n".join([texts[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *texts[1:]])


def reliability(cases: Sequence[Case]) -> str:
    """What a half of the rows tells, and how it was in the other; halves are drawn by a hash."""
    lines = ["| rests on | half told from | told | the other half | so it was |", "|" + "---|" * 5]
    known = [e for e in cases if e.row.labels and e.thread.held and not e.thread.seen]
    for rests_on in Basis:
        some = [each for each in known if each.rests_on == rests_on]
        for half in (0, 1):
            told = [each for each in some if fold(each.thread.address) % 2 == half]
            rest = [each for each in some if fold(each.thread.address) % 2 != half]
            counts = [(sum(each.first for each in part), len(part)) for part in (told, rest)]
            shares = [f"{100 * right / of:.0f} %" if of else "" for right, of in counts]
            cells = (str(rests_on), str(len(told)), shares[0], str(len(rest)), shares[1])
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


PARTS: Final = ("open", "held apart", "known before", "fresh", *EXAMS)


def by_part(name: str, cases: Sequence[Case]) -> Iterable[tuple[str, ...]]:
    """A line for each part, and one for all that the project did not know."""
    for part in PARTS:
        yield cells(f"{name}, {part}", [each for each in cases if each.part == part])
    yield cells(f"{name}, all unknown before", [e for e in cases if not e.thread.seen])
    untuned = [e for e in cases if e.thread.held and not e.thread.seen]
    yield cells(f"{name}, all held apart", untuned)


def main(arguments: Sequence[str]) -> int:
    """Print the tables; with "open" or the name of an exam, those of this part alone."""
    only = next((part for part in ("open", *EXAMS) if part in arguments), "")
    every = list(read())
    threads = [each for each in every if only in ("", part_of(each))]
    rows = [(thread, row) for thread in threads for row in thread.rows]
    some, texts = learn_model.known(every), learn_trouble.texts(every)
    lines, readings = [], []
    for name, by in (("other threads", by_thread), ("other stacks", by_stack)):
        model = by_others(by, some, learn_model.taught)
        trouble = by_others(by, texts, learn_trouble.taught)
        cases = [explained(thread, row, model(thread), trouble(thread)) for thread, row in rows]
        lines += by_part(f"explain, {name}", cases)
        readings.append(cases)
    cases = readings[0]
    nothing = Weights(0.0, {})
    lines += by_part("nothing learned", [explained(*each, NOTHING, nothing) for each in rows])
    lines += by_part("grep", [grepped(thread, row) for thread, row in rows])
    lines += by_part("commonest, other threads", commonest(rows, lambda each: each.address))
    lines += by_part("commonest, other stacks", commonest(rows, lambda each: each.stack))
    print(table(lines))
    print("\nHow often the first cause is right, by what it rests on, of rows held apart:\n")
    print(reliability(cases))
    names = sorted({each.stack for each in threads if not each.seen})
    for part in ("open", "held apart", "fresh", *EXAMS):
        chosen = [each for each in cases if each.part == part]
        print(f"\nBy stack, {part}:\n")
        parts = ((stack, [e for e in chosen if e.thread.stack == stack]) for stack in names)
        print(table(cells(stack, of) for stack, of in parts if of))
    if "rows" in arguments:
        print(
            "\n" + "\n".join(_text(each) for each in cases if each.part == "open" and _wrong(each))
        )
    return 0


def _wrong(case: Case) -> str:
    """In a word what is not right."""
    if not case.row.fails:
        return "false finding" if case.false else ""
    if not case.found:
        return "passes as OK"
    if not case.row.labels or case.first:
        return ""
    return "named" if case.named else "missed"


def _text(case: Case) -> str:
    wanted, given = ",".join(case.row.labels), ",".join(case.causes) or "nothing"
    return f"{_wrong(case):<14} {case.row.id}: {wanted or case.row.label} -> {given}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
