"""A dump that the kernel marked as inconsistent is no list."""

import struct
import time

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.host import netlink
from rdmadiag.sources.dump import dump

DENIED = Missing(Why.DENIED, "EACCES")


def message(flags: int) -> bytes:
    """struct nlmsghdr of include/uapi/linux/netlink.h: length, type, flags, sequence, port."""
    return struct.pack("=IHHII", 16, 16, flags, 0, 0)


WHOLE, TORN = message(0x2), message(0x2 | 0x10)  # NLM_F_MULTI, NLM_F_DUMP_INTR


class Kernel:
    """What it replies, in turn; the rest of a host is not looked at."""

    def __init__(self, *replies: bytes | Missing) -> None:
        self.replies = list(replies)
        self.names: list[str] = []

    def netlink(self, name: str, protocol: int, request: bytes, deadline: float) -> object:
        self.names.append(name)
        return self.replies.pop(0)


@pytest.mark.parametrize(
    ("replies", "expected", "names"),
    [
        pytest.param([WHOLE], WHOLE, ["links"], id="whole at once"),
        pytest.param([TORN, WHOLE], WHOLE, ["links", "links-again"], id="whole the second time"),
        pytest.param([DENIED], DENIED, ["links"], id="refused"),
        pytest.param([TORN, DENIED], DENIED, ["links", "links-again"], id="refused meanwhile"),
        pytest.param([b""], b"", ["links"], id="of no row"),
    ],
)
def test_a_dump_is_requested_once_more_where_it_was_interrupted(
    replies: list[bytes | Missing], expected: bytes | Missing, names: list[str]
) -> None:
    kernel = Kernel(*replies)
    found = dump(kernel, "links", netlink.NETLINK_ROUTE, b"", time.monotonic())  # type: ignore[arg-type]
    assert found == expected
    assert kernel.names == names


@pytest.mark.parametrize(
    "replies",
    [
        pytest.param([TORN, TORN], id="interrupted twice"),
        pytest.param([b"\1\2\3"], id="cut off"),
        pytest.param([TORN, b"\1\2\3"], id="cut off the second time"),
    ],
)
def test_rows_that_may_be_absent_are_not_the_table(replies: list[bytes | Missing]) -> None:
    found = dump(Kernel(*replies), "links", netlink.NETLINK_ROUTE, b"", time.monotonic())  # type: ignore[arg-type]
    assert isinstance(found, Missing)
    assert found.why is Why.MALFORMED
