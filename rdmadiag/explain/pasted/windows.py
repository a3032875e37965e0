"""What PowerShell lists of SMB Direct: which adapters and connections have RDMA and which not.

Get-NetAdapterRdma and Get-NetOffloadGlobalSetting of the module NetAdapter;
Get-SmbClientNetworkInterface, Get-SmbServerNetworkInterface and Get-SmbMultichannelConnection of
SmbShare.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
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
    for name, rows in _tables(lines):
        values = [value for value, _ in rows]
        is_of_rdma = name == "Enabled" or _CAPABLE.fullmatch(name)
        if is_of_rdma and values and {*values} == {"False"}:
            yield Shown(("rdma-off-on-device", "rdma-disabled"), rows[0][1], False)
            return
        down = [line for value, line in rows if name == "Operational" and value == "False"]
        if down:
            yield Shown(("port-down", "rdma-off-on-device"), down[0], False)
            return


def _tables(lines: Sequence[Line]) -> Iterator[tuple[str, list[tuple[str, Line]]]]:
    """Each column that is True or False: its name, and its values below."""
    for at, (head, dashes) in enumerate(pairwise(lines)):
        if not _DASHES.match(dashes.text):
            continue
        starts = [found.start() for found in _COLUMN.finditer(dashes.text)]
        for begin, end in zip(starts, [*starts[1:], None], strict=True):
            name = head.text[begin:end].strip()
            rows = []
            for line in lines[at + 2 :]:
                if not line.text.strip():
                    break
                rows.append((line.text[begin:end].strip(), line))
            if rows and all(value in ("True", "False") for value, _ in rows):
                yield name, rows
