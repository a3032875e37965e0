"""TCP ports of this host, looked up and not tried: a server may take a try for its one peer."""

import time

from lab.failure import EX_LATE, LabFailure

_LISTEN = "0A"  # in the fourth column of /proc/net/tcp


def wait_listening(port: int, timeout: float) -> None:
    """Until something on this host listens on the port; LabFailure after `timeout` seconds."""
    late = time.monotonic() + timeout
    while not listening(port):
        if time.monotonic() > late:
            raise LabFailure(f"nothing listens on port {port} after {timeout:g} s", EX_LATE)
        time.sleep(0.05)


def listening(port: int) -> bool:
    """Whether something on this host listens on the port."""
    return port in listeners()


def listeners() -> set[int]:
    """The ports on which something on this host listens."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as rows:
            for row in rows:
                columns = row.split()
                if columns[3] == _LISTEN:
                    found.add(int(columns[1].rpartition(":")[2], 16))
    return found
