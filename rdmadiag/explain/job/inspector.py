"""Records of NCCL Inspector: one JSON object a line, one operation of one communicator each.

Read in: NCCL 2.30 plugins/profiler/inspector/inspector_json.cc, inspector_plugin.cc, format v4.0.
"coll_stop_ts" is when the operation was given to the GPU; that its work there ended is the last
"kernel_stop_ts". Of sends and receives ("p2p_perf") each rank counts its own: p2p_sn of two ranks
cannot be compared.

{"header":{"id":"0x7f8c496ae9f661","rank":2,"n_ranks":8,"nnodes":1},"metadata":{
 "inspector_output_format_version":"v4.0","dump_timestamp_us":1748030377748202,
 "hostname":"node2","pid":811},"coll_perf":{"coll":"AllReduce","coll_sn":1407,
 "coll_msg_size_bytes":4096,"coll_exec_time_us":61,"event_trace_ts":{"coll_stop_ts":17…,
 "kernel_events":[{"channel_id":0,"kernel_stop_ts":17…}]}}}
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from rdmadiag.explain.job.progress import Progress
from rdmadiag.fleet.document import NotJson, decoded
from rdmadiag.frozen import dataclass

MOST_COMMUNICATORS: Final = 4_096
MEETINGS: Final = 4_096
_LONGEST: Final = 1 << 20
_PERFORMANCE: Final = re.compile(rb'"(?:coll|p2p)_perf"')


@dataclass(frozen=True, slots=True)
class Inspected:
    """What some of its lines say: of a long file the first and the last are enough."""

    progress: tuple[Progress, ...]
    meetings: dict[str, float]  # operation → when it had ended, seconds since 1970
    last: float | None  # when the last record was written, seconds since 1970
    records: int
    writers: tuple[tuple[int, str | None], ...] = ()  # rank, host; those of sends alone, too


def parse_inspector(content: bytes) -> Inspected:
    """The records among the lines; what is none is passed over."""
    return inspected(content.split(b"\n"))


def inspected(lines: Iterable[bytes]) -> Inspected:
    """The progress of each rank, and when two met, from the lines of one dump."""
    found: dict[tuple[str, int, str], Progress] = {}
    meetings: dict[str, float] = {}
    last: float | None = None
    records = 0
    writers: dict[tuple[int, str | None], None] = {}
    for line in lines:
        record = _record(line)
        if record is None:
            continue
        header, metadata, performance = record
        records += 1
        written = _int(metadata.get("dump_timestamp_us"))
        if written is not None:
            last = max(last or 0.0, written / 1e6)
        rank, number = _int(header.get("rank")), _int(performance.get("coll_sn"))
        host = metadata.get("hostname")
        host = host[:253] if isinstance(host, str) and host else None
        if rank is not None and len(writers) < MOST_COMMUNICATORS:
            writers[rank, host] = None
        if rank is None or number is None:
            continue
        name = str(header.get("id"))[:40]
        operation = str(performance.get("coll"))[:40]
        key = name, rank, operation
        before = found.get(key)
        if before is None and len(found) >= MOST_COMMUNICATORS:
            continue
        if before is None or (before.entered or 0) < number:
            pid = _int(metadata.get("pid"))
            found[key] = Progress(
                "inspector",
                f"{name} {operation}",
                rank,
                host,
                pid,
                operation,
                number,
                number,  # it is written once it has ended
            )
        ended = _ended(performance.get("event_trace_ts"))
        if ended and len(meetings) < MEETINGS:
            meetings[f"{name} {operation} {number}"] = ended / 1e6
    return Inspected(tuple(found.values()), meetings, last, records, tuple(writers))


def _ended(trace: object) -> int | None:
    """When the last of its channels was through."""
    channels = trace.get("kernel_events") if isinstance(trace, dict) else None
    rows = (
        [each for each in channels if isinstance(each, dict)] if isinstance(channels, list) else []
    )
    ended = [_int(each.get("kernel_stop_ts")) or 0 for each in rows]
    return max(ended) if ended and all(each > 0 for each in ended) else None


def _record(line: bytes) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]] | None:
    begin = line.find(b"{")
    if begin < 0 or len(line) > _LONGEST or not _PERFORMANCE.search(line):
        return None
    try:
        document = decoded(line[begin:])
    except NotJson:
        return None
    if not isinstance(document, dict):
        return None
    header, metadata = document.get("header"), document.get("metadata")
    performance = document.get("coll_perf") or document.get("p2p_perf")
    if isinstance(header, dict) and isinstance(metadata, dict) and isinstance(performance, dict):
        return header, metadata, performance
    return None


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
