"""What strerror says in other languages than English: `ibv_create_qp: Argument invalide`.

The texts are glibc's (`errno_texts.tsv`: errno, language, text), of the errnos that calls of RDMA
give. A line that has one is read as if the English text stood behind it. The table is read when a
line has a word of it (explain.log.recognition.vocabulary, ABROAD).

>>> in_english("ibv_create_qp: Argument invalide")
'ibv_create_qp: Argument invalide (Invalid argument)'
>>> in_english("ibv_create_qp: Invalid argument")
'ibv_create_qp: Invalid argument'
"""

import os
from functools import cache
from typing import Final

from rdmadiag.explain.log.recognition.vocabulary import is_abroad
from rdmadiag.facts.errnos import ERRNOS

TABLE: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "errno_texts.tsv")


def in_english(text: str) -> str:
    """The same, with the English text behind it where it has one of another language."""
    if not is_abroad(text.encode()):
        return text
    found = next((english for other, english in _texts() if other in text), None)
    return f"{text} ({found})" if found else text


@cache
def _texts() -> tuple[tuple[str, str], ...]:
    """Longest first: one may be the beginning of another."""
    english = dict(ERRNOS["linux"].values())
    with open(TABLE, encoding="utf-8") as table:
        rows = [line.rstrip("\n").split("\t") for line in table if not line.startswith("#")]
    return tuple(
        sorted(((text, english[name]) for name, _, text in rows), key=lambda e: -len(e[0]))
    )
