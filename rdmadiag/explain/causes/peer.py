"""Causes at the peer, and between what the two ends agreed on."""

from typing import Final

from rdmadiag.explain.causes.cause import Cause, Of, Used
from rdmadiag.explain.remedies import (
    ASK_PEER,
    AT_ONCE,
    AT_PEER,
    CAUSE_AT_PEER,
    DMESG,
    LISTENING_AT_PEER,
    MAC_LOG,
    PATH,
    PING_OF_MTU,
    PREFLIGHT_AT_PEER,
)

ROWS: Final = (
    Cause(
        "connection-stale",
        "the peer still has a connection of the same queue pair number, perhaps in timewait: a "
        "later attempt, or another queue pair, passes",
        linux=("rdma resource show cm_id   # at the peer", AT_PEER),
    ),
    Cause(
        "flushed",
        "an earlier request failed, here or at the peer: its status is the one to look for",
        linux=(ASK_PEER, DMESG, AT_ONCE, *PATH["linux"]),
        darwin=(ASK_PEER, MAC_LOG),
        of=Of.PEER,
    ),
    Cause(
        "payload-mismatch",
        "the two ends disagree about the payload",
        linux=("# compare payload and path MTU of both ends", PING_OF_MTU),
        of=Of.BOTH,
    ),
    Cause(
        "peer-buffer-small",
        "the peer's receive buffer is smaller than the message",
        linux=(CAUSE_AT_PEER, DMESG),
        darwin=(CAUSE_AT_PEER, MAC_LOG),
        of=Of.PEER,
    ),
    Cause(
        "peer-fault",
        "perhaps a fault of the peer's device or driver",
        of=Of.PEER,
        linux=(CAUSE_AT_PEER, PREFLIGHT_AT_PEER),
    ),
    Cause(
        "peer-forbids",
        "the peer's queue pair does not allow the operation",
        of=Of.PEER,
        linux=(
            CAUSE_AT_PEER,
            "# there: qp_access_flags (REMOTE_WRITE, READ, ATOMIC), max_dest_rd_atomic above 0",
        ),
    ),
    Cause(
        "peer-gone",
        "the peer's process ended or failed first: look at what it printed",
        {
            "wc 12": "the peer's program ended, or its queue pair has an error",
            "peer_lost": "the peer's program was ended, or hangs",
            "no_data": "the peer's program hangs or is stopped",
        },
        excluded_by=(Used.ONE_HOST,),
        linux=(AT_PEER,),
        darwin=(CAUSE_AT_PEER, MAC_LOG),
        of=Of.PEER,
    ),
    Cause(
        "peer-not-listening",
        "nobody listens there: not started yet, ended, or another port",
        {"no_peer": "nobody listens there: the other end is not started yet, or has given up"},
        linux=(AT_PEER,),
        of=Of.PEER,
    ),
    Cause(
        "peer-not-ready",
        "the peer was not ready to process requests",
        {
            "ends-connection-not-taken": "the peer's program takes no connection: it is stopped, "
            "frozen, or hangs",
            "ends-program-stopped": "the peer's program is stopped, or frozen with its cgroup",
        },
        of=Of.PEER,
        linux=(
            AT_PEER,
            "ps -eo pid,stat,wchan:32,args   # at the peer: T is stopped, D waits in the kernel",
            "# stopped: kill -CONT PID; where it is only late, a later attempt passes",
        ),
    ),
    Cause(
        "peer-not-there",
        "the peer is not up yet, or its address is another one",
        of=Of.PEER,
        linux=(
            "ping -c 1 {target}   # is the host up?",
            "ip neigh show {target}",
            LISTENING_AT_PEER,
            "# its right address; and start it before this end",
        ),
        darwin=PATH["darwin"],
    ),
    Cause(
        "peer-out-of-resources",
        "the peer has no queue pair, memory or outstanding READs left for one more connection",
        linux=("rdmadiag resources   # at the peer", AT_PEER),
        of=Of.PEER,
    ),
    Cause(
        "peer-posts-no-receives",
        "the peer posts no receives, or too few, or too late",
        {
            # rxe_comp.c of the kernel: 7 is never counted down
            "no_data": "the peer posts no receive: this queue pair then retries without end "
            "(rnr_retry 7)"
        },
        linux=(ASK_PEER, "# at the peer: is its program stopped, or its host overloaded?"),
        darwin=(ASK_PEER,),
        of=Of.PEER,
    ),
    Cause(
        "peer-qp-error",
        "the peer's queue pair has an error of its own",
        linux=(CAUSE_AT_PEER, DMESG),
        darwin=(CAUSE_AT_PEER, MAC_LOG),
        of=Of.PEER,
    ),
    Cause(
        "peer-refused",
        "the peer's program, or its kernel, refused the connection: what it printed says why",
        linux=(AT_PEER,),
        of=Of.PEER,
    ),
    Cause(
        "peer-receive-malformed",
        "a receive that the peer posted is malformed",
        of=Of.PEER,
        linux=(
            CAUSE_AT_PEER,
            "# there: address, length and lkey of the buffers of its receives (ibv_post_recv)",
        ),
    ),
)
