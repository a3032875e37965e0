"""llama.cpp RPC: the row of the TCP connection's local address, RoCE v2 before v1; port 1.

GGML_RDMA_GID is taken by atoi, so a word or nothing is 0, and of 0 or more unchecked; a negative
number is as none. Otherwise the local address of the TCP connection (IPv4 as ::ffff:a.b.c.d) is
looked for, byte by byte, in the table of each device, or of GGML_RDMA_DEV: the first RoCE v2 row of
it, else the first v1 row. Native InfiniBand has no such type: nothing is found. Where nothing is
found, data goes by TCP without a word.

The local address is not known here: an IPv4 address of the port is taken, else a routable IPv6 one,
else link-local. On Macs it has another transport (transport-apple.cpp), which has no row here.
"""

from typing import Final

from rdmadiag.gid.c_number import atoi, has_number
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import Answer, Environment, Pin, Stack, Version, fails, pinned
from rdmadiag.gid.stacks.rdmacm import source_row

INDEX: Final = "GGML_RDMA_GID"


def rule(table: PortTable, environment: Environment) -> Answer:
    """rdma_probe."""
    if INDEX in environment and (index := atoi(environment[INDEX])) >= 0:
        answer = pinned(index, INDEX, environment)
        if has_number(environment[INDEX]):
            return answer
        return Answer(index, f"{answer.why}, which is no number and so 0", pinned_by=INDEX)
    if table.is_infiniband:
        return fails("InfiniBand has no RoCE row: data goes by TCP")
    source = source_row(table)
    twins = [each for each in table.entries if source and each.gid == source.gid]
    found = next((each for each in twins if each.is_v2), None) or next(
        (each for each in twins if each.is_v1), None
    )
    if found is None:
        return fails("no RoCE row of the local address: data goes by TCP")
    kind = "RoCE v2" if found.is_v2 else "RoCE v1"
    assumed = (f"that the TCP connection is from {found.gid.ipv4 or found.gid}",)
    return Answer(found.index, f"first {kind} row of the local address", assumed=assumed)


STACKS: Final = (
    Stack(
        name="llama-rpc",
        title="llama.cpp RPC",
        source="ggml-org/llama.cpp@06258e85 ggml/src/ggml-rpc/transport.cpp",
        versions=(Version("any", rule),),
        pin=Pin(INDEX, automatic=True),
        variables=(INDEX,),
    ),
)
