"""A short log of the kernel that a mail wrapped, with its lines put together again.

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

from typing import Final

from rdmadiag.late import late

_WIDEST: Final = 80
_NARROWEST: Final = 60
"""Columns in which a line and the next one's first word do not fit; hosts' names are often cut."""
_BEGUN: Final = 3
"""Lines with a time that there have to be."""
_RUN: Final = 2
"""Lines that one line may have been wrapped to, beside its first, but for lists."""
_LIST: Final = late(rb"\bModules linked in:|\bCode: ")
_KERNEL: Final = late(
    rb"[\s>|*-]{0,12}(?:<\d>)?"
    rb"(?:\[\s*\d+\.\d+\]|\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d"
    rb"|\w{3} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,64} kernel:)",
)


def unwrapped(text: bytes) -> bytes:
    """The same text, or one with a line's rest at its end, and an empty line where that stood.

    Only of the kernel's log, where no line is wider than a mail's, the first has a time, and what
    has none did not fit in the line above: once at the least between two that have one, since
    what a program has printed stands below them all.
    """
    lines = text.split(b"\n")
    begin = [_KERNEL.match(line) is not None for line in lines]
    if not begin[0] or sum(begin) < _BEGUN or max(map(len, lines)) > _WIDEST:
        return text
    if all(begin[: len(begin) - begin[::-1].index(True)]):
        return text
    found: list[bytes] = []
    head = run = 0  # where the line begins that may go on, and how often it has
    for above, line, begins in zip([b"", *lines], lines, begin, strict=False):
        if begins or not line.strip():
            head, run = len(found), 0
            found.append(line)
            continue
        run += 1
        fits = len(above) + 1 + len(line.split()[0]) <= _NARROWEST and above[-1:] not in b":,="
        many = run > _RUN and not _LIST.search(found[head])
        if fits or many or line[:1].isspace():
            return text
        found[head] = found[head].rstrip() + b" " + line.strip()
        found.append(b"")
    return b"\n".join(found)
