"""A short log that a mail or a terminal of 80 columns wrapped, with its lines put together again.

>>> print(unwrapped(b'''[  7.1] mlx5_core 0000:41:00.0: firmware version: 16.31
... [  7.2] BUG: kernel NULL pointer dereference, address:
... 0000000000000010
... [  7.3] RIP:
... 0010:mlx5_ib_post_send+0x5a/0x80 [mlx5_ib]
... ''').decode(), end="")
[  7.1] mlx5_core 0000:41:00.0: firmware version: 16.31
[  7.2] BUG: kernel NULL pointer dereference, address: 0000000000000010
<BLANKLINE>
[  7.3] RIP: 0010:mlx5_ib_post_send+0x5a/0x80 [mlx5_ib]
<BLANKLINE>
"""

import re
from io import BytesIO
from typing import TYPE_CHECKING, Final

from rdmadiag.explain.log.scan import collect
from rdmadiag.late import late

if TYPE_CHECKING:
    from rdmadiag.explain.log.collector import Collector
    from rdmadiag.sieve.lines import Sieve

_WIDEST: Final = 80
_BEGUN: Final = 3
"""Lines with a time that there have to be."""
_TIME: Final = late(
    rb"[\s>|*-]{0,12}(?:<\d>)?"
    rb"(?:\[\s*\d+\.\d+\]|\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d|\w{3} [ \d]\d \d\d:\d\d:\d\d "
    rb"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d)",
    re.IGNORECASE,
)


def unwrapped(text: bytes) -> bytes:
    """The same text, or one with a line's rest at its end, and an empty line where that stood.

    Only where no line is wider than a mail's, several begin with a time, and the first one does.
    """
    lines = text.split(b"\n")
    begin = [_TIME.match(line) is not None for line in lines]
    if not begin[0] or sum(begin) < _BEGUN or max(map(len, lines)) > _WIDEST:
        return text
    found: list[bytes] = []
    head = 0  # of the line that may go on
    for line, begins in zip(lines, begin, strict=True):
        if begins or not line.strip():
            head = len(found)
            found.append(line)
        else:
            found[head] = found[head].rstrip() + b" " + line.strip()
            found.append(b"")
    return b"\n".join(found)


def put_together(sieve: "Sieve", collector: "Collector") -> "Collector":
    """What the sieve has read, read again where it was short and wrapped."""
    text = sieve.whole or b""
    whole = unwrapped(text)
    return collector if whole == text else collect(sieve.segments(BytesIO(whole)))
