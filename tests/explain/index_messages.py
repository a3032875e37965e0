"""Write by what messages are looked up: `python -m tests.explain.index_messages`.

index.tsv of rdmadiag/explain/log/recognition/catalogue has a line for each row of the tables, in
their order: two words that stand beside each other, or a long one, and behind a tab what a log
must be searched for where the words of explain.log.recognition.vocabulary do not take it up.

words.tsv beside it has a line for each word that several rows have: it, its weight, and the numbers
of these rows, from 0.
"""

import math
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

from rdmadiag.explain.log.ranking.learned.features import features
from rdmadiag.explain.log.recognition.catalogue import INDEX, SINGLE, Message, rows
from rdmadiag.explain.log.recognition.catalogue.alike import MOST, WORDS
from rdmadiag.explain.log.recognition.vocabulary import is_taken_up

NEEDLE: Final = 40
"""Characters that are searched for, at most."""
_PAIR: Final = re.compile(r"(?=(?<![a-z0-9_*])([a-z0-9_]+)[^a-z0-9_*]+([a-z0-9_]+)(?![a-z0-9_*]))")
_WHOLE: Final = re.compile(r"(?<![a-z0-9_*])[a-z0-9_]+(?![a-z0-9_*])")


def keys(message: Message) -> list[str]:
    """Words that every line with the message has, beside each other; none at a `*`."""
    pairs = [f"{found[1]} {found[2]}" for found in _PAIR.finditer(message.template)]
    return pairs or [each for each in _WHOLE.findall(message.template) if len(each) >= SINGLE]


def needle(message: Message) -> str:
    """The longest of its pieces, or the beginning of that; empty where it needs none.

    What healthy hosts print matters where something else takes a line up.
    """
    if message.is_last or message.is_healthy or is_taken_up("\n".join(message.pieces).encode()):
        return ""
    return max(message.pieces, key=len)[:NEEDLE].strip()


def index() -> str:
    """The text of the file."""
    messages = [Message(row) for row in rows()]
    often = Counter(key for each in messages for key in set(keys(each)))
    lines = []
    for each in messages:
        # A message may end within a word ("symbol mlx5_"): its last one is the last resort.
        sure = [key for key in keys(each) if not each.template.endswith(key.split()[-1])]
        key = min(sure or keys(each), key=lambda one: (often[one], -len(one), one))
        lines.append(f"{key}\t{needle(each)}\n")
    return "".join(lines)


def words() -> str:
    """The text of the table of words; rows that have no causes are none of it."""
    having: defaultdict[str, list[int]] = defaultdict(list)
    some = [(number, each) for number, each in enumerate(map(Message, rows())) if each.labels]
    for number, each in some:
        for word in features("\n".join((*each.pieces, each.condition))):
            having[word].append(number)
    lines = []
    squares = [0.0] * len(rows())
    for word, numbers in sorted(having.items()):
        if 1 < len(numbers) <= MOST:
            weight = round(math.log((len(some) + 1) / (len(numbers) + 0.5)), 2)
            lines.append(f"{word}\t{weight:.2f}\t{' '.join(map(str, numbers))}\n")
            for number in numbers:
                squares[number] += weight**2
    lengths = " ".join(f"{math.sqrt(each):.1f}" for each in squares)
    return "".join([f"{lengths}\n", *lines])


def main() -> int:
    """Write the files."""
    text = index()
    Path(INDEX).write_text(text, "utf-8")
    Path(WORDS).write_text(words(), "utf-8")
    found = [line.partition("\t")[2].strip() for line in text.splitlines()]
    print(f"index.tsv: {len(found)} messages, {sum(map(bool, found))} searched for")
    return 0


if __name__ == "__main__":
    sys.exit(main())
