"""Counters over time as one line of blocks: the last samples of what a port sent and received."""

from collections import deque
from collections.abc import Sequence
from typing import Final

BLOCKS: Final = " ▁▂▃▄▅▆▇█"
SAMPLES: Final = 60


class Strip:
    """The pace of one counter, sample by sample."""

    def __init__(self) -> None:
        self.paces: deque[float | None] = deque(maxlen=SAMPLES)  # a second; None: not known
        self._before: tuple[float, int] | None = None

    def add(self, seconds: float, value: int | None) -> None:
        """What the counter was at `seconds`; None where it could not be read.

        The first gives no pace. One that fell was reset or wrapped: its pace is not known.
        """
        before, self._before = self._before, None if value is None else (seconds, value)
        if before is None or value is None:
            if value is None or self.paces:
                self.paces.append(None)
            return
        then, last = before
        if value < last or seconds <= then:
            self.paces.append(None)
            return
        self.paces.append((value - last) / (seconds - then))


def drawn(paces: Sequence[float | None], width: int) -> str:
    """The last `width` samples as blocks, the highest of them full; "?" for what is not known."""
    shown = list(paces)[-width:] if width > 0 else []
    most = max((pace for pace in shown if pace is not None), default=0.0)
    return "".join("?" if pace is None else _block(pace, most) for pace in shown)


def _block(pace: float, most: float) -> str:
    """Something is never drawn as nothing."""
    if pace <= 0 or most <= 0:
        return BLOCKS[0]
    return BLOCKS[max(1, min(len(BLOCKS) - 1, round(pace / most * (len(BLOCKS) - 1))))]
