"""One rank's dump of PyTorch's flight recorder, as pickle or JSON.

Read in: torch/csrc/distributed/c10d/FlightRecorder.hpp (dump, dump_json; versions 2.1 to 2.10),
torch/distributed/flight_recorder/components/{loader,types}.py. A dump does not say whose it is:
the name of its file ends in the rank.

{"version": "2.5", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
 "pg_status": {"0": {"last_enqueued_collective": 2, "last_completed_collective": 1}},
 "entries": [{"process_group": ["0", "default_pg"], "pg_id": 0, "collective_seq_id": 2,
   "profiling_name": "nccl:all_reduce", "state": "started", "is_p2p": false,
   "time_created_ns": 1741903561000000000, "time_discovered_completed_ns": null}]}
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from rdmadiag.explain.job.plain_pickle import parse_plain_pickle
from rdmadiag.explain.job.progress import Progress
from rdmadiag.fleet.document import NotJson, decoded
from rdmadiag.frozen import dataclass

MOST_ENTRIES: Final = 100_000
MOST_GROUPS: Final = 2_000
MEETINGS: Final = 32
"""Operations of each group whose ends all ranks saw at about one time."""


class NotADump(ValueError):
    """No dump of the flight recorder, or a damaged one; one line."""


@dataclass(frozen=True, slots=True)
class Dump:
    """A dump of one rank: its groups, and the collectives that it had begun."""

    version: str
    groups: Mapping[str, tuple[int, ...]]  # name → the ranks that belong to it
    progress: tuple[Progress, ...]
    meetings: Mapping[str, float]  # operation → seconds since 1970 at which it was seen to end


def parse_dump(content: bytes, rank: int) -> Dump:
    """Of the rank that its file is called after; raises NotADump."""
    try:
        is_pickle = content[:1] == b"\x80"
        document = parse_plain_pickle(content) if is_pickle else decoded(content)
    except NotJson as error:
        raise NotADump(f"no JSON: {error}"[:160]) from error
    except ValueError as error:
        raise NotADump(str(error)) from error
    if not isinstance(document, dict) or not _is_dump(document):
        raise NotADump("no dump of the flight recorder: it has no pg_config and entries")
    entries = [
        each for each in _list(document.get("entries"))[-MOST_ENTRIES:] if isinstance(each, dict)
    ]
    return Dump(
        str(document.get("version"))[:20],
        _groups(document.get("pg_config")),
        _progress(document, entries, rank),
        _meetings(entries),
    )


def _is_dump(document: Mapping[Any, Any]) -> bool:
    return "version" in document and ("entries" in document or "pg_status" in document)


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _int(value: object) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _groups(config: object) -> dict[str, tuple[int, ...]]:
    found = {}
    if isinstance(config, dict):
        for name, group in list(config.items())[:MOST_GROUPS]:
            if isinstance(group, dict):
                # text in all versions but the first: "[0, 1]"
                ranks = group.get("ranks")
                several = re.findall(r"\d{1,9}", ranks) if isinstance(ranks, str) else _list(ranks)
                found[str(name)[:64]] = tuple(
                    number for each in several if (number := _int(each)) is not None
                )
    return found


def _group_of(entry: Mapping[Any, Any]) -> str:
    group = _list(entry.get("process_group"))
    name = str(group[0]) if group else str(entry.get("pg_id"))
    desc = str(group[1]) if len(group) > 1 else ""
    return (f"{name} ({desc})" if desc and desc != "undefined" else name)[:100]


def _progress(
    document: Mapping[Any, Any], entries: list[dict[Any, Any]], rank: int
) -> tuple[Progress, ...]:
    entered: dict[str, int] = {}
    completed: dict[str, int] = {}
    names: dict[tuple[str, int], str] = {}
    numbers: dict[str, str] = {}  # pg_id → group
    for each in entries:
        sequence = _int(each.get("collective_seq_id"))
        if sequence is None or each.get("is_p2p") is True:
            continue
        group = _group_of(each)
        numbers[str(each.get("pg_id"))] = group
        entered[group] = max(entered.get(group, sequence), sequence)
        names[group, sequence] = str(each.get("profiling_name"))[:80]
        if each.get("state") == "completed":
            completed[group] = max(completed.get(group, sequence), sequence)
    status = document.get("pg_status")
    if isinstance(status, dict):  # it outlives the ring of entries
        for number, each in list(status.items())[:MOST_GROUPS]:
            name = numbers.get(str(number))
            if name is None or not isinstance(each, dict):
                continue
            for key, into in (
                ("last_enqueued_collective", entered),
                ("last_completed_collective", completed),
            ):
                last = _int(each.get(key))
                if last is not None and last >= 0:
                    into[name] = max(into.get(name, last), last)
    return tuple(
        Progress(
            "flight-recorder",
            group,
            rank,
            operation=names.get((group, last)),
            entered=last,
            completed=completed.get(group, 0),
        )
        for group, last in list(entered.items())[:MOST_GROUPS]
    )


def _meetings(entries: list[dict[Any, Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    kept: dict[str, int] = {}
    for each in reversed(entries):
        ended = _int(each.get("time_discovered_completed_ns"))
        sequence = _int(each.get("collective_seq_id"))
        if not ended or sequence is None or each.get("is_p2p") is True:
            continue
        group = _group_of(each)
        if kept.get(group, 0) < MEETINGS and len(kept) < MOST_GROUPS:
            kept[group] = kept.get(group, 0) + 1
            found[f"collective {group} {sequence}"] = ended / 1e9
    return found
