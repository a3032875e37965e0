"""The asynchronous events that came while something ran."""

from collections.abc import Iterator, Sequence

from rdmadiag.facts.attempt import SeenEvent
from rdmadiag.render.plain import counted, printable


def event_lines(events: Sequence[SeenEvent]) -> Iterator[str]:
    """A line for each kind of event of each device, in the order of the first of it."""
    groups: dict[tuple[str, int], list[SeenEvent]] = {}
    for each in events:
        groups.setdefault((each.device, each.number), []).append(each)
    for (device, number), group in groups.items():
        first = group[0]
        name = first.name or f"asynchronous event {number}"
        where = printable(device) if first.port is None else f"{printable(device)}/{first.port}"
        times = f" {counted(len(group), 'time')}" if len(group) > 1 else ""
        yield f"{name} at {where}{times}: {first.meaning or 'newer than rdmadiag'}"
