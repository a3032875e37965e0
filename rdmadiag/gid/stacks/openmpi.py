"""Open MPI 4's openib: btl_openib_gid_index, 0 by default.

Its test is off by one: an index equal to the length of the table passes. 5.x has no openib
any more and goes through UCX or libfabric.
"""

from typing import Final

from rdmadiag.gid.c_number import has_number, strtol, to_int
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import (
    Answer,
    Environment,
    Pin,
    Stack,
    Version,
    by_lid,
    fails,
    pinned,
)

INDEX: Final = "OMPI_MCA_btl_openib_gid_index"


def openib(table: PortTable, environment: Environment) -> Answer:
    """btl_openib_component: gid_index > gid_tbl_len is refused."""
    text = environment.get(INDEX)
    if text is not None and not has_number(text):
        return fails(f"{INDEX}={text} is no number", pinned_by=INDEX)
    value = strtol(text or "0")
    index = to_int(-1 if value is None else value)
    by = INDEX if text is not None else None
    if not 0 <= index <= table.length:
        return fails(f"{INDEX}={text} is beyond the table", pinned_by=by)
    if table.is_infiniband:
        return by_lid("InfiniBand: by LID", index, by)
    if text is None:
        return Answer(0, "index 0 unless btl_openib_gid_index is set")
    return pinned(index, INDEX, environment)


STACKS: Final = (
    Stack(
        name="openmpi",
        title="Open MPI openib",
        source="open-mpi/ompi@v4.1.x opal/mca/btl/openib/btl_openib_mca.c",
        versions=(Version("4.x", openib, since=(4,), until=(5,)),),
        pin=Pin(INDEX),
        variables=(INDEX,),
    ),
)
