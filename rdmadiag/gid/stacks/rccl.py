"""RCCL: NCCL's rule under NCCL's variables.

The code in ROCm/rocm-systems, for both of its network plugins, is that of current NCCL. The
older ROCm/rccl has NCCL 2.21's: no FLID, and an empty row whose type has to be read is an
error.
"""

from functools import partial
from typing import Final

from rdmadiag.gid.stack import Pin, Stack, Version
from rdmadiag.gid.stacks import nccl

STACKS: Final = (
    Stack(
        name="rccl",
        title="RCCL",
        source="ROCm/rocm-systems@07d6aba9 projects/rccl/src/transport/net_ib/connect.cc",
        versions=(
            Version("rocm-systems", partial(nccl.with_flid, fatal=False)),
            Version(
                "rccl",
                nccl.without_flid,
                source="ROCm/rccl@0cbce2a7 src/transport/net_ib.cc",
            ),
        ),
        pin=Pin(nccl.INDEX, automatic=True, family=nccl.FAMILY),
        variables=nccl.VARIABLES,
    ),
)
