"""Asynchronous events of verbs, as the child that has the devices open writes them.

{"device": "mlx5_0", "event": 10, "element": 1}
{"device": "mlx5_0", "failed": "ibv_open_device: EACCES"}
"""

import json
from typing import Any

from rdmadiag.facts.events import AsyncEvent, Element
from rdmadiag.watch.event import NOTHING, Action, Happened, Kind, Source, Value
from rdmadiag.watch.route import unreadable


def parse_async(line: bytes) -> Happened:
    """An event of a device, from the line of JSON that the child wrote."""
    try:
        found: Any = json.loads(line)
        device, failed = found["device"], found.get("failed")
        number = found.get("event", 0)
        element = found.get("element", 0)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return unreadable(Source.ASYNC, f"no event: {line[:60]!r}")
    if not isinstance(device, str) or type(number) is not int or type(element) is not int:
        return unreadable(Source.ASYNC, f"no event: {line[:60]!r}")
    if failed is not None:
        why: dict[str, Value] = {"why": str(failed)[:200]}
        return Happened(Source.ASYNC, Kind.ASYNC_EVENT, Action.FAILED, device, why, NOTHING)
    known = AsyncEvent.from_number(number)
    port = element if known and known.of is Element.PORT else None
    details: dict[str, Value] = {
        "number": number,
        "event": known.constant if known else None,
        "meaning": known.text if known else "newer than rdmadiag",
        "port": port,
    }
    subject = device if port is None else f"{device}/{port}"
    return Happened(Source.ASYNC, Kind.ASYNC_EVENT, Action.NOTIFIED, subject, details, NOTHING)
