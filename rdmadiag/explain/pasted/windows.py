"""What PowerShell lists of SMB Direct: which adapters and connections have RDMA and which not.

Get-NetAdapterRdma and Get-NetOffloadGlobalSetting of the module NetAdapter;
Get-SmbClientNetworkInterface, Get-SmbServerNetworkInterface and Get-SmbMultichannelConnection of
SmbShare.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Final

from rdmadiag.explain.pasted.session import Line, Part, Shown
from rdmadiag.late import late

_DASHES: Final = late(r"\s*-{3,}(?: +-{3,})+\s*$")
_COLUMN: Final = late(r"-{3,}")
_CAPABLE: Final = late(r"(?:Client ?)?RDMA ?Capable", re.IGNORECASE)
_OFF: Final = late(r"NetworkDirect\s+: Disabled\s*$")


def of_windows(several: Sequence[Part]) -> Iterator[Shown]:
    """What they show; an adapter that is not meant for SMB may be without RDMA."""
    lines = [line for part in several for line in part.lines]
    for line in lines:
        if _OFF.match(line.text):
            yield Shown(("rdma-off-on-device", "rdma-disabled"), line)
            return
    for head, dashes, below in _tables(lines):
        starts = [found.start() for found in _COLUMN.finditer(dashes)]
        for begin, end in zip(starts, [*starts[1:], None], strict=True):
            name = head[begin:end].strip()
            if name in _OF_ADAPTERS or _CAPABLE.fullmatch(name):
                cells = [(line.text[begin:end].strip(), line) for line in below]
                off = [line for value, line in cells if value == "False"]
                if off and len(off) == len(cells) and name != "Operational":
                    yield Shown(("rdma-off-on-device", "rdma-disabled"), off[0], False)
                    return
                if off and name == "Operational":
                    yield Shown(("port-down", "rdma-off-on-device"), off[0], False)
                    return


def _tables(lines: Sequence[Line]) -> Iterator[tuple[str, str, list[Line]]]:
    """Those of RDMA, by the names of their columns: head, dashes, and the rows below."""
    for at, (head, dashes) in enumerate(pairwise(lines)):
        of_rdma = _OF_RDMA.search(head.text) or _CAPABLE.search(head.text)
        if of_rdma and _DASHES.match(dashes.text):
            below = takewhile(lambda line: line.text.strip(), lines[at + 2 : at + 2 + MOST_ROWS])
            yield head.text, dashes.text, list(below)


_OF_ADAPTERS: Final = frozenset({"Enabled", "Operational"})
_OF_RDMA: Final = late(r"\bEnabled\b.*\b(?:Operational|PFC|ETS)\b|^Name\s+Enabled\s*$")
MOST_ROWS: Final = 64
