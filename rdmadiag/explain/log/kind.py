"""What a line of a log is in the story of its job."""

from enum import StrEnum
from typing import Final

OF_RDMA: Final = "aftermath-of-rdma"
"""What an aftermath is that says so of RDMA itself: alone in a log, it is not explained."""
IN_WORDS: Final = "words"
"""`what` of a failure that is known by its words alone (explain.log.recognition.in_words)."""
MESSAGE: Final = "message"
"""`what` of a line that is a message of explain.log.recognition.catalogue, and nothing else."""
CALL: Final = "call"
"""`what` of a call that failed without a number."""
ENDED: Final = "ended"
"""What an aftermath is whose message suggests causes, in a log that says of nothing else."""
STOPPED: Final = "stopped"
"""What a test is that printed its ends, and then neither a result nor an error."""
CRASH: Final = "crash"
"""What a crash is whose frame is of RDMA."""
HANGS: Final = "task-hangs"
"""What a task of the kernel is that waits in code of RDMA."""
SIGNAL: Final = "ended-by-signal"
"""What the end of a program by a signal is."""
NOT_STARTED: Final = "program-not-started"
"""What a line of a shell is, or of what was to start a program and did not."""
PROGRAM_ERROR: Final = "program-error"
"""The cause that says no more than that a program failed by itself."""
GPU_FAULT: Final = "gpu-fault"
DISK_FAILED: Final = "disk-failed"
"""Of the host's own: nothing that RDMA does hangs on it."""
HOST_DOWN: Final = "peer-host-down"
OF_NO_RDMA: Final = frozenset(
    {
        *("disk-full", GPU_FAULT, "gpu-memory-full", "host-memory-failed", "job-ended"),
        *("killed-for-memory", "name-not-resolved", "outside-unreachable", PROGRAM_ERROR),
        "process-limit",
    }
)
"""Causes of which no line is RDMA's, however much trouble it names."""
STARTS_NOTHING: Final = frozenset(
    {"disk-full", "name-not-resolved", "process-limit", "ssh-refused"}
)
"""Causes by which nothing is reached or begun: what waits or fails beside them follows."""
SHOWN: Final = "shown"
"""What a line of a listing is that shows what is wrong (explain.pasted)."""
MAY_BE: Final = "shown-perhaps"
"""The same, where it may be as it should be."""
LISTED: Final = frozenset({SHOWN, MAY_BE})
NO_MADS: Final = "no-mads-on-ethernet"
"""InfiniBand's management found nothing to open, on a host whose ports are of Ethernet."""
REJECTED: Final = "rejected"
"""What a connection is that the peer, or its kernel, rejected, with the reason."""
PORT_PRIVILEGED: Final = "port-privileged"
PORT_OF_PINGPONG: Final = "port-of-pingpong"
EXACT: Final = LISTED | {
    *(REJECTED, "unreachable", STOPPED, SIGNAL, NOT_STARTED, PORT_PRIVILEGED, PORT_OF_PINGPONG),
}
"""Their status says what it was, or there are no words: none add to it."""
UNSURE: Final = frozenset({IN_WORDS, STOPPED, ENDED, MAY_BE})
"""What is no failure that is known: it may be one."""


class Found(StrEnum):
    """What the lines of a log came to, before it was summed up."""

    FAILURE = "failure"  # one that is known, or what followed from one
    WORDS = "words"  # not understood, and its words suggest causes
    UNKNOWN = "unknown"  # not understood
    NOTE = "note"
    NOTHING = "nothing"


class Kind(StrEnum):
    """What a line is in the story of the job."""

    FAILURE = "failure"
    CONSEQUENCE = "consequence"  # of RDMA, and of an earlier failure
    AFTERMATH = "aftermath"  # of whatever failed: a watchdog, an abort
    NOTE = "note"  # no failure by itself
    UNKNOWN = "unknown"  # of RDMA and of trouble, and not understood
