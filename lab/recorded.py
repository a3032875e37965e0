"""A host's answer and its record's: equal but for what differs between two runs of a command."""

import json
import re
from typing import Any

VARIES = ("generated_at", "host")
BEFORE_PID = ('"pid": ', "/proc/", " (", "--pid ", "status ")
PROCESS = "|".join(f"(?<={re.escape(before)})" for before in BEFORE_PID)


def comparable(document: Any) -> Any:
    """What `preflight`, `gids` or `devices` printed, without times and process numbers."""
    evidence = document.get("evidence", {})
    system: Any = evidence.get("system") or {}
    parents = system.get("ancestors") if isinstance(system.get("ancestors"), list) else ()
    text = json.dumps({name: each for name, each in document.items() if name not in VARIES})
    for place, parent in enumerate(parents):
        if parent["pid"] != 1:  # every run is another process, and names it in what it says
            # Only where it is a process: a time in the log may begin with the same digits.
            text = re.sub(rf"(?:{PROCESS}){parent['pid']}\b", f"-{place}", text)
    found = json.loads(text)
    # A query is another process each time; one that was never started has none.
    found.get("evidence", {}).get("verbs", {}).pop("pid", None)
    # The window of the log moves on between the command and the record.
    for moving in ("lines", "left_out"):
        found.get("evidence", {}).get("kernel_log", {}).pop(moving, None)
    # So do its neighbours: the kernel forgets one some seconds after the last packet.
    for table in ("ipv4_neighbours", "ipv6_neighbours"):
        limits: Any = (found.get("evidence", {}).get("system") or {}).get("limits") or {}
        if table in limits:
            limits[table].pop("entries", None)
    # An entry of a multicast group comes with its first report (MLD) and needs no resolution.
    routing: Any = found.get("evidence", {}).get("routing") or {}
    if isinstance(routing.get("neighbours"), list):
        routing["neighbours"] = [each for each in routing["neighbours"] if each["state"] != "noarp"]
    return found


def differences(found: Any, wanted: Any, place: str = "") -> list[str]:
    """Where two documents differ, a line a field, for a reader of a failed test."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        return [
            line
            for name in sorted(found.keys() | wanted.keys())
            for line in differences(found.get(name), wanted.get(name), f"{place}.{name}")
        ]
    if isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        return [
            line
            for index, pair in enumerate(zip(found, wanted, strict=True))
            for line in differences(*pair, f"{place}[{index}]")
        ]
    return [] if found == wanted else [f"{place}: {found!r} instead of {wanted!r}"]
