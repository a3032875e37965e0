"""Thunderbolt cabling of a Mac: `system_profiler SPThunderboltDataType -json`.

A list of buses, each with the tag of its receptacle and, in _items, what hangs on it. A
Mac at the other end lists its services: protocol 1 is IP, 64087 is RDMA.
"""

import json
import re
import time
from collections.abc import Iterator
from typing import Any, Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.macos import ThunderboltBus, ThunderboltFacts, ThunderboltPeer
from rdmadiag.host import Host
from rdmadiag.late import late
from rdmadiag.sources.output import parsed

SECONDS: Final = 8.0
"""system_profiler takes one to three on a healthy Mac."""

ARGV: Final = ("/usr/sbin/system_profiler", "SPThunderboltDataType", "-json")

_ROOT: Final = "SPThunderboltDataType"
_SPEED: Final = late(r"(up to )?([0-9]{1,4}) Gb/s( x[0-9])?", re.IGNORECASE)
_DEPTH: Final = 16


def read_thunderbolt(host: Host, deadline: float) -> ThunderboltFacts | Missing:
    """Buses and peers; `deadline` is absolute."""
    limit = min(deadline, time.monotonic() + SECONDS)
    return parsed(host, ARGV, limit, "system_profiler", parse_thunderbolt)


def parse_thunderbolt(raw: bytes) -> ThunderboltFacts | Missing:
    """The document → its buses, in the order of their receptacles."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return Missing(Why.MALFORMED, f"no JSON: {error}"[:200])
    entries = document.get(_ROOT) if isinstance(document, dict) else None
    if not isinstance(entries, list):
        return Missing(Why.MALFORMED, f"no list {_ROOT}")
    buses = [_bus(entry) for entry in entries if isinstance(entry, dict)]
    if len(buses) < len(entries):
        return Missing(Why.MALFORMED, f"{_ROOT} holds what is no bus")
    return ThunderboltFacts(tuple(sorted(buses, key=lambda bus: str(bus.receptacle))))


def _bus(entry: dict[str, Any]) -> ThunderboltBus:
    tags = (tag for key, tag in entry.items() if key.startswith("receptacle_"))
    tag = next((tag for tag in tags if isinstance(tag, dict)), {})
    status = _text(tag, "receptacle_status_key")
    speed = _text(tag, "current_speed_key")
    match = _SPEED.fullmatch(speed) if isinstance(speed, str) else None
    return ThunderboltBus(
        name=_name(entry),
        model=_text(entry, "device_name_key"),
        domain_uuid=_text(entry, "domain_uuid_key"),
        receptacle=_text(tag, "receptacle_id_key"),
        connected=status if isinstance(status, Missing) else _connected(status),
        speed_gbps=int(match[2]) if match else _no_speed(speed),
        speed_is_maximum=bool(match and match[1]),
        peers=tuple(_peers(entry)),
    )


def _connected(status: str) -> bool | Missing:
    words = {"receptacle_connected": True, "receptacle_no_devices_connected": False}
    return words.get(status, Missing(Why.MALFORMED, f"receptacle_status_key: {status[:40]!r}"))


def _no_speed(speed: str | Missing) -> Missing:
    if isinstance(speed, Missing):
        return speed
    return Missing(Why.MALFORMED, f"current_speed_key: {speed[:40]!r} is no speed")


def _peers(entry: dict[str, Any], depth: int = 0) -> Iterator[ThunderboltPeer]:
    items = entry.get("_items", ())
    if depth > _DEPTH or not isinstance(items, list):
        return
    for item in items:
        if not isinstance(item, dict):
            continue
        yield ThunderboltPeer(
            name=_name(item),
            model=_text(item, "device_name_key"),
            domain_uuid=_text(item, "domain_uuid_key"),
            protocols=_protocols(item),
        )
        yield from _peers(item, depth + 1)


def _protocols(item: dict[str, Any]) -> tuple[int, ...] | Missing:
    """By number: service_key_key has been seen mangled."""
    services = item.get("services_title")
    if not isinstance(services, list):
        is_host = not isinstance(_text(item, "domain_uuid_key"), Missing)
        return Missing(Why.ABSENT, "no services_title") if is_host else ()
    found = []
    unread = None
    for service in services:
        number = service.get("protocol_id_key") if isinstance(service, dict) else None
        if isinstance(number, str) and re.fullmatch(r"[0-9]{1,9}", number):
            number = int(number)
        if type(number) is int:
            found.append(number)
        else:
            unread = Missing(Why.MALFORMED, f"protocol_id_key: {str(number)[:40]!r} is no number")
    # One that cannot be read may be any protocol, but takes nothing from those that can.
    return tuple(found) if found or unread is None else unread


def _name(entry: dict[str, Any]) -> str:
    name = _text(entry, "_name")
    return "?" if isinstance(name, Missing) else name


def _text(entry: dict[str, Any], key: str) -> str | Missing:
    value = entry.get(key)
    if isinstance(value, str) and value.isprintable() and value:
        return value
    return Missing(Why.ABSENT, f"no {key}")
