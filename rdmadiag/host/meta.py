"""meta.json: all of a snapshot that is not a file. Nothing in it is believed unread."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from rdmadiag.facts import Identity, Missing, Why
from rdmadiag.host.answers import NodeStat
from rdmadiag.host.layout import FORMAT, MAX_ENTRIES, META, VERSION, unfold_numbers
from rdmadiag.host.tree import SnapshotError, Tree

T = TypeVar("T")

_META_LIMIT: Final = 64 * 1024 * 1024
_MAX_ROWS: Final = 10 * MAX_ENTRIES


class Meta:
    """meta.json with every part of the shape that replay relies on."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._refused = {
            question: _table(refused, _missing)
            for question, refused in document.get("refused", {}).items()
        }
        self._identity: dict[str, Any] = _table(document.get("identity", {}), _text)
        self.lacks = _table(document.get("lacks", {}), _missing)
        rows = _Rows()
        self.listings = _table(document.get("listings", {}), rows.names)
        self.links = _table(document.get("links", {}), _text)
        self.nodes = _table(document.get("nodes", {}), _node)
        self.openable = _table(document.get("openable", {}), _boolean)
        self.environ = _table(document.get("environ", {}), _text)
        self.files = _table(document.get("files", {}), _integer)
        """Files in each folder of the record; empty in records of older versions."""
        self.runs = _table(document.get("runs", {}), _integer)
        self.repeated: dict[str, bytes] = {
            f"{_text(row['folder'])}/{name}": row["content"].encode()
            for row in document.get("repeated", ())
            for name in rows.names(row["names"])
        }

    def refused(self, question: str, subject: str) -> Missing | None:
        return self._refused.get(question, {}).get(subject)

    def identity(self, fallback: str) -> Identity:
        known = self._identity
        platform = known.get("platform", "linux")
        return Identity(
            hostname=known.get("hostname", fallback),
            platform=platform if platform in ("linux", "darwin") else "unknown",
            kernel=known.get("kernel", ""),
            machine=known.get("machine", ""),
            recorded=True,
        )


class _Rows:
    """Unfolds lists of names, of all tables together no more than _MAX_ROWS."""

    def __init__(self) -> None:
        self._left = _MAX_ROWS

    def names(self, folded: str | list[str]) -> tuple[str, ...]:
        names = tuple(map(_text, unfold_numbers(folded)))
        self._left -= len(names)
        if self._left < 0:
            raise ValueError(f"more than {_MAX_ROWS} names")
        return names


def _table(value: Mapping[str, Any], read: Callable[[Any], T]) -> dict[str, T]:
    return {_text(key): read(each) for key, each in value.items()}


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError(f"{str(value)[:60]!r} is not text")
    if not value.isascii():
        value.encode()  # raises for half of a surrogate pair, which nothing can print
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int) or not -(2**31) <= value < 2**32:
        raise TypeError(f"{str(value)[:60]!r} is not a number")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{str(value)[:60]!r} is not true or false")
    return value


def _node(value: Mapping[str, Any]) -> NodeStat:
    dev = value.get("dev")
    return NodeStat(
        mode=_integer(value["mode"]),
        uid=_integer(value["uid"]),
        gid=_integer(value["gid"]),
        dev=None if dev is None else _text(dev),
    )


def _missing(value: Mapping[str, Any]) -> Missing:
    return Missing(Why(value["why"]), _text(value.get("detail", "")))


def read_meta(tree: Tree, prefix: str, path: str) -> Meta | None:
    """meta.json, or None where there is none; raises SnapshotError for one of no use."""
    if tree.kind(f"{prefix}{META}") is None:
        return None
    content = tree.read(f"{prefix}{META}", _META_LIMIT)
    if isinstance(content, Missing):
        raise SnapshotError(f"{path}: {META}: {content.detail}")
    try:
        document = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"{path}: {META} is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise SnapshotError(f"{path}: {META} is not that of a snapshot")
    if document.get("version") != VERSION:
        raise SnapshotError(f"{path}: snapshot version {document.get('version')} is not {VERSION}")
    try:
        return Meta(document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SnapshotError(f"{path}: {META} is damaged: {error!r}") from error
