"""What a line of a log is in the story of its job."""

from enum import StrEnum


class Kind(StrEnum):
    """What a line is in the story of the job."""

    FAILURE = "failure"
    CONSEQUENCE = "consequence"  # of RDMA, and of an earlier failure
    AFTERMATH = "aftermath"  # of whatever failed: a watchdog, an abort
    NOTE = "note"  # no failure by itself
    UNKNOWN = "unknown"  # of RDMA and of trouble, and not understood
