"""What two values that have parts differ in: keys of objects, items of lists."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from rdmadiag.fleet.changed import Part
from rdmadiag.fleet.fact_table import plain

MOST: Final = 256
"""Of one value; a longer one is another list."""

_DEEPEST: Final = 8


def parts(before: Any, after: Any) -> tuple[Part, ...]:
    """Of values as JSON has them. () where one of them has no parts, or they are of two kinds."""
    return tuple(islice(_parts("", before, after, 0), MOST))


def _parts(name: str, before: Any, after: Any, depth: int) -> Iterator[Part]:
    if type(before) is list and type(after) is list:
        gone, new = (Counter(str(plain(each)) for each in value) for value in (before, after))
        yield from (Part(name, each, None) for each in (gone - new).elements())
        yield from (Part(name, None, each) for each in (new - gone).elements())
    elif _is_object(before) and _is_object(after):
        for key in sorted(before | after):
            one, other = before.get(key), after.get(key)
            if key.endswith("_number") or (key in before and key in after and one == other):
                continue
            below = f"{name}.{key}" if name else key
            found = tuple(_parts(below, one, other, depth + 1)) if depth < _DEEPEST else ()
            yield from found or (Part(below, _text(key, before), _text(key, after)),)


def _is_object(value: Any) -> bool:
    return type(value) is dict and value.keys() != {"why", "detail"}


def _text(key: str, values: dict[str, Any]) -> str | None:
    return str(plain(values[key])) if key in values else None
