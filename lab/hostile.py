"""Documents of a host in which every text that may be any text has something harmful behind it."""

from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

Document = dict[str, Any]
Accepts = Callable[[Document], Document | None]
"""What a reader makes of a document, as it writes it again; None where it refuses it."""

Path = tuple[str | int, ...]


class Free(NamedTuple):
    """What a host may choose: not a word of a list of words, not an address."""

    texts: frozenset[str]
    keys: frozenset[str]  # of tables by name

    def only(self, names: Collection[str]) -> "Free":
        """Of these alone."""
        return Free(self.texts & frozenset(names), self.keys & frozenset(names))


def free(document: Document, accepts: Accepts) -> Free:
    """The texts of a document that a reader takes whatever they are, wherever they stand."""
    texts: set[str] = set()
    bound: set[str] = set()
    keys: set[str] = set()
    fields: set[str] = set()
    for path, text in _texts(document, ()):
        is_free = accepts(_changed(document, path, f"{text}~")) is not None
        (texts if is_free else bound).add(text)
    for path, key in _keys(document, ()):
        renamed = accepts(_renamed(document, path, key, f"{key}~"))
        is_free = renamed is not None and f"{key}~" in _at(renamed, path)
        (keys if is_free else fields).add(key)
    return Free(frozenset(texts - bound), frozenset(keys - fields))


def poisoned(value: Any, chosen: Free, payload: str) -> Any:
    """The same with the payload behind each of those texts: equal names stay equal."""
    if isinstance(value, str):
        return value + payload if value in chosen.texts else value
    if isinstance(value, list):
        return [poisoned(each, chosen, payload) for each in value]
    if isinstance(value, dict):
        return {
            key + payload if key in chosen.keys else key: poisoned(each, chosen, payload)
            for key, each in value.items()
        }
    return value


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    for key, each in _members(value):
        yield from _texts(each, (*path, key))


def _keys(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    for key, each in _members(value):
        if isinstance(key, str):
            yield path, key
        yield from _keys(each, (*path, key))


def _members(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _changed(value: Any, path: Path, text: str) -> Any:
    if not path:
        return text
    copy = value.copy()
    copy[path[0]] = _changed(value[path[0]], path[1:], text)
    return copy


def _renamed(value: Any, path: Path, key: str, name: str) -> Any:
    if not path:
        return {name if each == key else each: found for each, found in value.items()}
    copy = value.copy()
    copy[path[0]] = _renamed(value[path[0]], path[1:], key, name)
    return copy
