"""The unified log of a Mac: what the RDMA driver wrote lately.

    {"timestamp":"2026-05-21 10:15:02.123456-0700","eventMessage":"Failed INIT->RTR",…}

One JSON object a line (`log show --style ndjson`), and at the end one that only counts.
"""

import json
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.macos import LogFacts, LogLine
from rdmadiag.host import Host
from rdmadiag.sources.output import parsed

SECONDS: Final = 5.0
"""For `log show`, as in x/rdma."""

LAST: Final = "1m"
LINES: Final = 20

SUBSYSTEM: Final = "com.apple.AppleThunderboltRDMA"
_DRIVER: Final = "AppleThunderboltRDMA"
_PREDICATE: Final = (
    f'subsystem == "{SUBSYSTEM}" OR senderImagePath CONTAINS "{_DRIVER}" OR '
    '(process == "kernel" AND eventMessage CONTAINS[c] "RDMA")'
)
_FAILED_KEPT: Final = 100


def argv(last: str) -> tuple[str, ...]:
    """The command that prints the last `last` ("1m", "2h") of RDMA lines."""
    return (
        "/usr/bin/log", "show", "--last", last, "--style", "ndjson", "--info", "--debug",
        "--predicate", _PREDICATE,
    )  # fmt: skip


def read_mac_log(
    host: Host, deadline: float, log_last: str = LAST, log_lines: int = LINES
) -> LogFacts | Missing:
    """The window's lines; `deadline` is absolute."""
    limit = min(deadline, time.monotonic() + SECONDS)
    parse = partial(parse_log, window=log_last, lines=log_lines)
    return parsed(host, argv(log_last), limit, f"log show --last {log_last}", parse)


def parse_log(raw: bytes, window: str, lines: int = LINES) -> LogFacts | Missing:
    """ndjson → the last `lines` entries, and every failed RTR whatever its age.

    Missing where there is text and not one line of it is JSON.
    """
    found: list[LogLine] = []
    unreadable = readable = 0
    for row in raw.splitlines():
        if not row.strip():
            continue
        entry = _entry(row)
        if entry is None:
            unreadable += 1
            continue
        readable += 1
        message = entry.get("eventMessage")
        if isinstance(message, str):
            stamp = entry.get("timestamp")
            text = _writable(stamp) if isinstance(stamp, str) else ""
            found.append(LogLine(text, parse_timestamp(text), _writable(message)))
    if unreadable and not readable:
        shown = raw.strip()[:80].decode("utf-8", "replace")
        return Missing(Why.MALFORMED, f"{shown!r} is no ndjson")
    return LogFacts(window, len(found), tuple(_kept(found, lines)), unreadable)


def _entry(row: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(row)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _writable(text: str) -> str:
    """JSON can spell half a character, UTF-8 cannot."""
    return text.encode("utf-8", "backslashreplace").decode()


def _kept(found: list[LogLine], lines: int) -> Iterator[LogLine]:
    # The model cuts before it looks: a failure 20 lines ago would pass for health.
    first = len(found) - max(lines, 1)
    failed = [at for at, line in enumerate(found) if line.is_failed_rtr]
    kept = set(failed[-_FAILED_KEPT:])
    for at, line in enumerate(found):
        if at >= first or at in kept:
            yield line


def parse_timestamp(text: str) -> float | Missing:
    """ "2026-05-21 10:15:02.123456-0700" → seconds since the epoch."""
    try:
        when = datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f%z")
        return when.timestamp()
    except (ValueError, OverflowError):
        return Missing(Why.MALFORMED, f"{text[:40]!r} is no time of the log")
