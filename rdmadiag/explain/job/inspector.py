"""Records of NCCL Inspector: one JSON object a line, one operation of one communicator each.

Read in: NCCL plugins/profiler/inspector/inspector_json.cc, README.md, v4.0 to v4.2; RCCL's has
the same fields.

{"header":{"id":"0x7f8c496ae9f661","rank":2,"n_ranks":8,"nnodes":1},"metadata":{
 "inspector_output_format_version":"v4.0","dump_timestamp_us":1748030377748202,
 "hostname":"node2","pid":811},"coll_perf":{"coll":"AllReduce","coll_sn":1407,
 "coll_msg_size_bytes":4096,"coll_exec_time_us":61,"event_trace_ts":{"coll_stop_ts":17…}}}
"""

from collections.abc import Iterable
from typing import Any, Final

from rdmadiag.explain.job.progress import Progress
from rdmadiag.fleet.document import NotJson, decoded
from rdmadiag.frozen import dataclass

MOST_COMMUNICATORS: Final = 4_096
MEETINGS: Final = 4_096
_LONGEST: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Inspected:
    """What some of its lines say: of a long file the first and the last are enough."""

    progress: tuple[Progress, ...]
    meetings: dict[str, float]  # operation → seconds since 1970
    last: float | None  # when the last record was written, seconds since 1970
    records: int


def parse_inspector(content: bytes) -> Inspected:
    """The records among the lines; what is none is passed over."""
    return inspected(content.split(b"\n"))


def inspected(lines: Iterable[bytes]) -> Inspected:
    """The same of lines."""
    found: dict[tuple[str, int, str], Progress] = {}
    meetings: dict[str, float] = {}
    last: float | None = None
    records = 0
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
        if rank is None or number is None:
            continue
        name = str(header.get("id"))[:40]
        operation = str(performance.get("coll"))[:40]
        key = name, rank, operation
        before = found.get(key)
        if before is None and len(found) >= MOST_COMMUNICATORS:
            continue
        if before is None or (before.entered or 0) < number:
            host, pid = metadata.get("hostname"), _int(metadata.get("pid"))
            found[key] = Progress(
                "inspector",
                f"{name} {operation}",
                rank,
                host[:253] if isinstance(host, str) and host else None,
                pid,
                operation,
                number,
                number,  # it is written once it has ended
            )
        trace = performance.get("event_trace_ts")
        ended = _int(trace.get("coll_stop_ts")) if isinstance(trace, dict) else None
        if ended and len(meetings) < MEETINGS:
            meetings[f"{name} {operation} {number}"] = ended / 1e6
    return Inspected(tuple(found.values()), meetings, last, records)


def _record(line: bytes) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]] | None:
    begin = line.find(b"{")
    if begin < 0 or len(line) > _LONGEST or b"coll_perf" not in line:
        return None
    try:
        document = decoded(line[begin:])
    except NotJson:
        return None
    if not isinstance(document, dict):
        return None
    header, metadata = document.get("header"), document.get("metadata")
    performance = document.get("coll_perf")
    if isinstance(header, dict) and isinstance(metadata, dict) and isinstance(performance, dict):
        return header, metadata, performance
    return None


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
