"""How well `explain --log` reads a corpus: `python -m tests.explain.score [FILE.txt …]`.

A corpus is a text file of excerpts. A line "#= NAME KEY=VALUE…" begins one; what follows, up to
the next, is the log. A line "#=esc …" is one whose \\x1b, \\r and the like are to be decoded;
other lines that begin with "# " before the first excerpt are remarks. Keys: causes (labels, the
likeliest first), tool, stage, errno, status, vendor_error, platform, device, and kind (failure,
or consequence where the first is not in it); source, and resolution (what its thread says of the
cause: stated, inferred, unresolved). Without causes and resolution it is noise, in which nothing
may be found.

An excerpt counts as
  named       if the first label of `causes` is among the causes of the first failure, or, where
              there is none, of the first note that has causes: a user is shown it,
  first       if it is the first of them,
  as OK       if it is a failure, and nothing is found in it: the command would exit 0,
  as unknown  if its lines are shown as not understood (3).
"""

import codecs
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rdmadiag.cli.explain import put_together
from rdmadiag.explain.log.account import Account, Failure
from rdmadiag.explain.log.collector import Collector
from rdmadiag.explain.log.ranking.learned.model import Model
from rdmadiag.explain.log.ranking.learned.trouble import Weights
from rdmadiag.explain.log.recognition.vocabulary import NEEDLES
from rdmadiag.explain.log.scan import collect
from rdmadiag.explain.log.text.beside_candidates import read_rest
from rdmadiag.sieve.lines import Sieve

FOLDER = Path(__file__).parent / "corpus"
CORPORA = ("failures", "wordings", "public_threads", "noise", "healthy")
NAMED, FIRST = 0.95, 0.80
"""What has to be reached, of all excerpts whose causes are known."""
AS_OK = 0.02
"""What may pass as a log without a failure, of all that is none."""

_SIEVE = Sieve(NEEDLES)


@dataclass(frozen=True)
class Excerpt:
    """One log with what the facts say of it."""

    name: str
    labels: dict[str, str]
    log: bytes

    @property
    def causes(self) -> tuple[str, ...]:
        """Labels; none of noise."""
        return tuple(each for each in self.labels.get("causes", "").split(",") if each)

    @property
    def fails(self) -> bool:
        """It is no noise."""
        return bool(self.causes) or "resolution" in self.labels


@dataclass(frozen=True)
class Score:
    """What came of one."""

    excerpt: Excerpt
    found: Failure | None
    account: Account

    @property
    def named(self) -> bool:
        """The right cause is among those given."""
        return bool(self.found) and self.excerpt.causes[0] in self.labels

    @property
    def first(self) -> bool:
        """It is the first."""
        return self.labels[:1] == self.excerpt.causes[:1]

    @property
    def as_ok(self) -> bool:
        """The command would exit 0."""
        return self.account.first is None and not self.account.unknown

    @property
    def as_unknown(self) -> bool:
        """It would exit 3."""
        return self.account.first is None and bool(self.account.unknown)

    @property
    def false(self) -> bool:
        """Something was found in noise."""
        return bool(self.account.first or self.account.unknown or self.account.notes)

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the causes that are shown: of the first failure, of a note, or of another failure."""
        shown = self.found or self.account.other
        return tuple(each.label for each in shown.causes) if shown else ()

    @property
    def wrong(self) -> dict[str, str]:
        """Fields that differ from the labels: what it should be, and what it is."""
        seen = _fields(self.found)
        return {
            key: f"{value} is {seen.get(key)}"
            for key, value in self.excerpt.labels.items()
            if key not in ("causes", "source", "resolution") and seen.get(key) != value
        }

    @property
    def text(self) -> str:
        """One line of what is not right."""
        label = ",".join(self.labels) or "nothing"
        wanted = ",".join(self.excerpt.causes)
        return f"{self.excerpt.name}: {wanted} -> {label} {self.wrong or ''}".rstrip()


def _fields(found: Failure | None) -> dict[str, str | None]:
    if found is None:
        return {}
    return {
        "kind": str(found.kind),
        "tool": found.tool,
        "stage": found.stage and str(found.stage),
        "errno": str(found.errno.number) if found.errno else None,
        "status": str(found.completion.number) if found.completion else None,
        "vendor_error": str(found.completion.vendor_error) if found.completion else None,
        "platform": found.platform,
        "device": found.device,
    }


def excerpts(text: str) -> Iterator[Excerpt]:
    """Those of one file."""
    name, labels, lines = "", {}, list[bytes]()
    for line in text.splitlines():
        if line.startswith("#= "):
            if name:
                yield Excerpt(name, labels, b"\n".join(lines) + b"\n")
            name, *pairs = line[3:].split()
            labels, lines = dict(pair.split("=", 1) for pair in pairs), []
        elif line.startswith("#=esc "):
            lines.append(codecs.escape_decode(line[6:].encode())[0])  # type: ignore[attr-defined]
        elif name:
            lines.append(line.encode())
    if name:
        yield Excerpt(name, labels, b"\n".join(lines) + b"\n")


def read(path: Path) -> tuple[Excerpt, ...]:
    """The excerpts of a file."""
    return tuple(excerpts(path.read_text(encoding="utf-8")))


def collected(log: bytes) -> Collector:
    """Its lines, as the vocabulary's words take them up."""
    return put_together(_SIEVE, collect(_SIEVE.segments(io.BytesIO(log))))


def score(excerpt: Excerpt, model: Model | None = None, trouble: Weights | None = None) -> Score:
    """Explain it, as the command would; with others than the package's, where given."""
    collector = collected(excerpt.log)
    read_rest(collector, _SIEVE, trouble)
    account = collector.account(_SIEVE.lines, _SIEVE.bytes, model)
    found = account.first or next((each for each in account.notes if each.causes), None)
    return Score(excerpt, found, account)


def table(name: str, scores: Sequence[Score]) -> str:
    """One row."""
    failing = [each for each in scores if each.excerpt.fails]
    known = [each for each in failing if each.excerpt.causes]
    noise = [each for each in scores if not each.excerpt.fails]
    cells = [name, str(len(failing))]
    cells += [
        str(sum(counts)) if failing else ""
        for counts in ([s.as_ok for s in failing], [s.as_unknown for s in failing])
    ]
    cells += [
        f"{count} ({100 * count / len(known):.1f} %)" if known else ""
        for count in (sum(s.named for s in known), sum(s.first for s in known))
    ]
    cells.append(str(sum(not s.wrong for s in known)) if known else "")
    cells += [str(len(noise)), str(sum(s.false for s in noise))]
    return "| " + " | ".join(f"{cell:<14}" for cell in cells) + " |"


def holds(scores: Iterable[Score]) -> bool:
    """Whether the limits are kept."""
    scores = tuple(scores)
    failing = [each for each in scores if each.excerpt.fails]
    if any(each.false for each in scores if not each.excerpt.fails):
        return False
    if sum(each.as_ok for each in failing) > AS_OK * len(failing):
        return False
    known = [each for each in failing if each.excerpt.causes]
    named, first = sum(s.named for s in known), sum(s.first for s in known)
    return named >= NAMED * len(known) and first >= FIRST * len(known)


def main(paths: Sequence[str]) -> int:
    """0 if the limits are kept over all files together."""
    files = [Path(path) for path in paths] or [FOLDER / f"{name}.txt" for name in CORPORA]
    columns = (
        *("corpus", "failures", "as OK", "as unknown", "cause named", "cause first"),
        *("all fields", "noise", "false"),
    )
    print("| " + " | ".join(f"{cell:<14}" for cell in columns) + " |")
    print("|" + "|".join("-" * 16 for _ in columns) + "|")
    every: list[Score] = []
    for path in files:
        scores = [score(each) for each in read(path)]
        print(table(path.stem, scores))
        every += scores
    print(table("all", every))
    print()
    for each in every:
        if what := _verdict(each):
            print(f"{what:<14} {each.text}")
    print(
        f"\ncause named ≥ {NAMED:.0%}, first ≥ {FIRST:.0%}, as OK ≤ {AS_OK:.0%}, nothing in noise: "
        f"{'holds' if holds(every) else 'DOES NOT HOLD'}"
    )
    return 0 if holds(every) else 1


def _verdict(one: Score) -> str | None:
    """In a word what is not right."""
    if not one.excerpt.fails:
        return "false finding" if one.false else None
    if not one.excerpt.causes:
        return "passes as OK" if one.as_ok else None
    if one.first:
        return "first" if one.wrong else None
    return "named" if one.named else "missed"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
