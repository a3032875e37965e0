"""The programs of docs/verbs.md."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "verbs.md"


def programs() -> dict[str, str]:
    """By their first line: every block of the page that has a docstring."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return {block.splitlines()[0].strip('"'): block for block in blocks if block.startswith('"""')}


CHAIN, PACKETS, RAW, MANUAL = (
    "The resource chain of gordma, twice, connected; a SEND with its receive, and a WRITE.",
    "Ten packets of a header and a payload, received with four work requests.",
    "Frames of one EtherType to one address, by a raw packet queue pair and a flow rule.",
    "RDMA_RC_example: SEND, READ and WRITE over a reliable connection.",
)

PRINTED = {
    CHAIN: (
        "1 SEND None",
        "2 RECV 5",
        "b'hello'",
        "['RDMA_WRITE'] b'hello'",
    ),
    PACKETS: (
        "XRC: False",
        "10 {242}",
        str(list(range(10))),
        str(list(range(100, 110))),
    ),
    RAW: ("64 b'hello'",),
    MANUAL: (
        "completion: SEND",
        "completion: RECV",
        "client has: b'SEND operation      '",
        "completion: RDMA_READ",
        "client read: b'RDMA read operation '",
        "completion: RDMA_WRITE",
        "server has: b'RDMA write operation'",
    ),
}
"""The lines of each, in any order: which of two completions is polled first is nobody's word."""
