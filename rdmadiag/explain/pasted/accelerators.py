"""Network ports of accelerators: hl-smi of Gaudi."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.explain.pasted.session import Part, Shown
from rdmadiag.late import late

_ASKED: Final = late(r"\bhl-smi\b.*\blink\b")
_DOWN: Final = late(r".*\bport \d+:\s*DOWN\b")
_HANGS: Final = late(
    r"\b(?:hangs?|hung|stuck|timed? ?out|timeouts?|fail(?:s|ed|ure)?)\b", re.IGNORECASE
)
_UP: Final = late(r".*\b(?:port \d+:\s*UP|[1-9]\d* up)\b")


def of_accelerators(several: Sequence[Part]) -> Iterator[Shown]:
    """A port that is down where others are up, and something hangs or fails: else it may be without
    a cable.
    """
    texts = [line.text for part in several for line in part.lines]
    if not any(map(_HANGS.search, texts)):
        return
    for part in several:
        down = [line for line in part.lines if _DOWN.match(line.text)]
        up = [line for line in part.lines if _UP.match(line.text)]
        if _ASKED.search(part.command) and down and len(up) > len(down):
            causes = ("accelerator-port-not-configured", "port-down", "link-lost")
            yield Shown(causes, down[0], False)
