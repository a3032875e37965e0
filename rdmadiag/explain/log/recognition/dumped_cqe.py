"""A completion with an error as mlx5 dumps it: 64 bytes, of which two say what it was.

providers/mlx5/cq.c of rdma-core prints four lines of four words, and the kernel's
drivers/infiniband/hw/mlx5/cq.c four lines of sixteen bytes. In struct mlx5_err_cqe byte 54 is the
vendor's syndrome and byte 55 the syndrome; the upper half of the last byte says that it is one.

>>> dumped(["00000000 00000000 00000000 00000000", "00000000 00008813 08000123 0a5c12d2"])
Dumped(status=10, vendor_error=136)
>>> dumped(["00000030: 00 00 00 00 00 00 81 15 08 00 01 23 0a 5c 12 d2"])
Dumped(status=12, vendor_error=129)
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from rdmadiag.explain.log.line.statuses import OF_MLX5
from rdmadiag.late import late

DUMPS: Final = late(rb"\bgot completion with error:|\bdump error cqe\b")
"""The line above a dump."""
LINES: Final = 16
"""Below it, in which the dump is looked for: those of several processes may be mixed."""
_ROW: Final = late(
    r"(?:^|[\s\]:>|])((?:[0-9a-f]{8} ){3}[0-9a-f]{8}|(?:[0-9a-f]{2} ){15}[0-9a-f]{2})\s*$"
)
_ERRORS: Final = (13, 14)  # MLX5_CQE_REQ_ERR, MLX5_CQE_RESP_ERR
_VENDOR, _SYNDROME, _OWNER = 54 - 48, 55 - 48, 63 - 48  # of the last row


class Dumped(NamedTuple):
    """What it says."""

    status: int  # of enum ibv_wc_status
    vendor_error: int


def dumped(below: Iterable[str]) -> Dumped | None:
    """Of the lines below the one that says that it comes; None where they have no dump."""
    for line in islice(below, LINES):
        if found := _ROW.search(line):
            row = bytes.fromhex(found[1])
            status = OF_MLX5.get(row[_SYNDROME])
            if status is not None and row[_OWNER] >> 4 in _ERRORS:
                return Dumped(status, row[_VENDOR])
    return None
