"""Causes that only a connection by the connection manager (rdma_cm) meets."""

from typing import Final

from rdmadiag.explain.causes.cause import Cause, Of
from rdmadiag.explain.remedies import AT_PEER

CM_NODE: Final = "ls -l /dev/infiniband/rdma_cm"
CM_IDS: Final = "rdma resource show cm_id   # who listens, at which address and port"

ROWS: Final = (
    Cause(
        "rdma-ucm-not-loaded",
        "the module rdma_ucm is not loaded, or the container was not given its node",
        linux=(
            CM_NODE,
            "sudo modprobe rdma_ucm",
            "# in a container: docker run --device=/dev/infiniband --cap-add=IPC_LOCK IMAGE",
        ),
    ),
    Cause(
        "rdma-cm-node-not-openable",
        "this user may not open /dev/infiniband/rdma_cm",
        linux=(CM_NODE, "id   # is this user the owner, or in the group?"),
    ),
    Cause(
        "rdmacm-library-missing",
        "librdmacm is not where the dynamic linker looks",
        linux=("ldconfig -p | grep librdmacm", "sudo apt-get install librdmacm1"),
    ),
    Cause(
        "cm-port-taken",
        "another program listens at that port of rdma_cm; on iWARP, perhaps at that TCP port",
        linux=(CM_IDS, "ss -tln", "# or another port: --listen ADDRESS:PORT"),
    ),
    Cause(
        "cm-datagrams-lost",
        "the connection manager's datagrams do not get through: a firewall, a VLAN or a switch",
        linux=("sudo nft list ruleset   # RoCE v2 is UDP port 4791; iWARP is TCP", AT_PEER),
        of=Of.WAY,
    ),
)
