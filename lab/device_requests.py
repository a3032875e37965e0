"""What reaches the device nodes of RDMA, as the kernel gets it.

Of RDMA_VERBS_IOCTL strace prints a pointer alone, and libibverbs writes nothing. The kernel
itself is asked therefore: probes at the two entries of ib_uverbs read the header there.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TRACEFS = Path("/sys/kernel/tracing")
PROBES = """
p:lab/verbs_write ib_uverbs_write command=+u0($arg2):u32
p:lab/verbs_ioctl ib_uverbs_ioctl object=+u2($arg3):u16 method=+u4($arg3):u16 \
attr=+u24($arg3):u16 value=+u32($arg3):u64
"""
EVENT = re.compile(r"-(?P<pid>\d+) +\[\d+\].* verbs_(?P<entry>ioctl|write): \(.*?\) (?P<rest>.*)")

# rdma/ib_user_ioctl_cmds.h; a method that is not here makes, changes or removes something.
OBJECT_DEVICE = 0
INVOKE_WRITE = 0
ATTR_WRITE_CMD = 2
QUERIES = {
    (OBJECT_DEVICE, 2): "QUERY_PORT",
    (OBJECT_DEVICE, 3): "GET_CONTEXT",
    (OBJECT_DEVICE, 4): "QUERY_CONTEXT",
    (OBJECT_DEVICE, 5): "QUERY_GID_TABLE",
    (OBJECT_DEVICE, 6): "QUERY_GID_ENTRY",
    (16, 0): "ASYNC_EVENT_ALLOC",  # the context's own descriptor, which ends with it
}
# rdma/ib_user_verbs.h: commands of write(), and of the ioctl that stands for it.
COMMANDS = {0: "GET_CONTEXT", 1: "QUERY_DEVICE", 2: "QUERY_PORT"}
EXTENDED = 0x80000000
COMMAND_BITS = 0xFF


@dataclass(frozen=True)
class Sent:
    """One request to a device node, as the kernel got it."""

    pid: int
    query: str | None  # what it asks; None for all that does more than ask
    text: str


def sent_to_nodes(trace: str) -> list[Sent]:
    """Out of the kernel's trace; AssertionError for a line that is none of these probes'."""
    sent = []
    for line in trace.splitlines():
        event = None if line.startswith("#") else EVENT.search(line)
        if event is None:
            assert line.startswith("#") or not line.strip(), line
            continue
        numbers = {
            name: int(value) for name, value in re.findall(r"(\w+)=(\d+)(?!\S)", event["rest"])
        }
        query = _query(event["entry"], numbers)
        sent.append(Sent(int(event["pid"]), query, f"{event['entry']} {event['rest']}"))
    return sent


def _query(entry: str, numbers: dict[str, int]) -> str | None:
    """A number that the probe could not read is absent: then it is no query."""
    if entry == "write":
        return _written(numbers.get("command", -1))
    method = numbers.get("object", -1), numbers.get("method", -1)
    if method != (OBJECT_DEVICE, INVOKE_WRITE):
        return QUERIES.get(method)
    # libibverbs puts the attribute that names the command first.
    return _written(numbers.get("value", -1)) if numbers.get("attr") == ATTR_WRITE_CMD else None


def _written(command: int) -> str | None:
    if command & ~(EXTENDED | COMMAND_BITS):
        return None
    return COMMANDS.get(command & COMMAND_BITS)


def available() -> bool:
    """Whether this kernel has probes: User Mode Linux has none."""
    return (TRACEFS / "kprobe_events").exists()


@contextmanager
def probes() -> Iterator[Callable[[], list[Sent]]]:
    """Yields what was sent to device nodes since the last call."""
    trace = TRACEFS / "trace"
    events = TRACEFS / "kprobe_events"
    enable = TRACEFS / "events" / "lab" / "enable"
    events.write_text(PROBES)

    def taken() -> list[Sent]:
        sent = sent_to_nodes(trace.read_text())
        trace.write_text("")
        return sent

    try:
        enable.write_text("1")
        taken()
        yield taken
    finally:
        enable.write_text("0")
        events.write_text("")
