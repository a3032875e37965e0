"""Which stacks cannot talk between two groups of hosts although they work elsewhere."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from rdmadiag.fleet.merged import Compatibility


def unlike(rows: Iterable[Compatibility]) -> tuple[Compatibility, ...]:
    """The rows that do not work, without stacks that do not work among equal hosts either.

    What fails on every host alike is each host's own matter, and its report says it. A node that
    is alone in its group has no such row: then the other group's decides, and without any the
    stack stays.
    """
    every = tuple(rows)
    among: dict[str, dict[str, bool]] = {}  # stack → group → whether it works there
    for row in every:
        if row.one == row.other:
            for stack in _stacks_of(row):
                held = among.setdefault(stack, {})
                held[row.one] = held.get(row.one, False) or row.works is True
    kept = []
    for row in every:
        if row.works is True:
            continue
        names = [name for name in row.stack.split(", ") if _is_unlike(name, row, among)]
        if names:
            kept.append(replace(row, stack=", ".join(names)))
    return tuple(kept)


def _stacks_of(row: Compatibility) -> Iterator[str]:
    """ "nccl ≥2.27, ucx": its versions stand for it, as elsewhere it may be named as a whole."""
    for name in row.stack.split(", "):
        yield name.partition(" ")[0]


def _is_unlike(name: str, row: Compatibility, among: Mapping[str, Mapping[str, bool]]) -> bool:
    held = among.get(name.partition(" ")[0], {})
    if row.one == row.other:
        return any(works for group, works in held.items() if group != row.one)
    known = [held[group] for group in (row.one, row.other) if group in held]
    return not known or any(known)
