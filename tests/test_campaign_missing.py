"""The campaign of missing evidence: that it finds every value of a report."""

from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, get_args

from campaign import missing
from rdmadiag.facts.evidence import Evidence


def classes(kind: Any, seen: set[Any]) -> Iterator[type]:
    """Every dataclass that an annotation holds, and theirs."""
    if not is_dataclass(kind):
        for each in get_args(kind):
            yield from classes(each, seen)
    elif kind not in seen:
        seen.add(kind)
        yield kind  # type: ignore[misc]
        for each in missing._hints(kind).values():
            yield from classes(each, seen)


def test_every_class_of_a_report_is_known_by_its_name() -> None:
    held = set(classes(Evidence, set())) - {Evidence}
    # Not by resolving alone: what describes a report gives evidence.py the names it lacks.
    assert {kind for kind in held if missing._NAMES.get(kind.__name__) is not kind} == set()
    assert len({kind.__module__ for kind in held}) > 1
