"""How well `explain --log` reads a corpus: `python -m tests.explain.score [FILE.txt …]`.

A corpus is a text file of excerpts. A line "#= NAME KEY=VALUE…" begins one; what follows, up to
the next, is the log. A line "#=esc …" is one whose \\x1b, \\r and the like are to be decoded;
other lines that begin with "# " before the first excerpt are remarks. Keys: causes (labels, the
likeliest first; none: noise, in which nothing may be found), tool, stage, errno, status,
vendor_error, platform, device, and kind (failure, or consequence where the first is not in it).

An excerpt counts as
  named  if the first label of `causes` is among the causes of the first failure,
  first  if it is the first of them.
"""

import codecs
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rdmadiag.explain.log.account import Account, Failure
from rdmadiag.explain.log.scan import collect
from rdmadiag.explain.log.vocabulary import NEEDLES
from rdmadiag.sieve.lines import Sieve

FOLDER = Path(__file__).parent / "corpus"
CORPORA = ("failures", "seen", "held_out", "blind", "noise")
NAMED, FIRST = 0.95, 0.80
"""What has to be reached, of all excerpts that are no noise."""

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


@dataclass(frozen=True)
class Score:
    """What came of one."""

    excerpt: Excerpt
    found: Failure | None
    account: Account

    @property
    def named(self) -> bool:
        """The right cause is among those given."""
        return bool(self.found) and self.excerpt.causes[0] in self._labels

    @property
    def first(self) -> bool:
        """It is the first."""
        return self._labels[:1] == self.excerpt.causes[:1]

    @property
    def false(self) -> bool:
        """Something was found in noise."""
        return bool(self.account.first or self.account.unknown or self.account.notes)

    @property
    def _labels(self) -> tuple[str, ...]:
        return tuple(each.label for each in self.found.causes) if self.found else ()

    @property
    def wrong(self) -> dict[str, str]:
        """Fields that differ from the labels: what it should be, and what it is."""
        seen = _fields(self.found)
        return {
            key: f"{value} is {seen.get(key)}"
            for key, value in self.excerpt.labels.items()
            if key != "causes" and seen.get(key) != value
        }

    @property
    def text(self) -> str:
        """One line of what is not right."""
        label = ",".join(self._labels) or "nothing"
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


def score(excerpt: Excerpt) -> Score:
    """Explain it, as the command would."""
    collector = collect(_SIEVE.segments(io.BytesIO(excerpt.log)))
    account = collector.account(_SIEVE.lines, _SIEVE.bytes)
    found = account.first or next(iter(account.notes), None)
    return Score(excerpt, found, account)


def table(name: str, scores: Sequence[Score]) -> str:
    """One row."""
    failing = [each for each in scores if each.excerpt.causes]
    noise = [each for each in scores if not each.excerpt.causes]
    cells = [name, str(len(failing))]
    cells += [
        f"{count} ({100 * count / len(failing):.1f} %)" if failing else ""
        for count in (sum(s.named for s in failing), sum(s.first for s in failing))
    ]
    cells.append(str(sum(not s.wrong for s in failing)) if failing else "")
    cells += [str(len(noise)), str(sum(s.false for s in noise))]
    return "| " + " | ".join(f"{cell:<14}" for cell in cells) + " |"


def holds(scores: Iterable[Score]) -> bool:
    """Whether the limits are kept."""
    scores = tuple(scores)
    failing = [each for each in scores if each.excerpt.causes]
    if any(each.false for each in scores if not each.excerpt.causes):
        return False
    named, first = sum(s.named for s in failing), sum(s.first for s in failing)
    return named >= NAMED * len(failing) and first >= FIRST * len(failing)


def main(paths: Sequence[str]) -> int:
    """0 if the limits are kept over all files together."""
    files = [Path(path) for path in paths] or [FOLDER / f"{name}.txt" for name in CORPORA]
    columns = ("corpus", "failures", "cause named", "cause first", "all fields", "noise", "false")
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
        is_noise = not each.excerpt.causes
        if (is_noise and each.false) or (not is_noise and (not each.first or each.wrong)):
            what = (
                "false finding"
                if is_noise
                else "first"
                if each.first
                else ("named" if each.named else "missed")
            )
            print(f"{what:<14} {each.text}")
    print(
        f"\ncause named ≥ {NAMED:.0%}, first ≥ {FIRST:.0%}, nothing in noise: "
        f"{'holds' if holds(every) else 'DOES NOT HOLD'}"
    )
    return 0 if holds(every) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
