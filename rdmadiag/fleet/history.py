"""What merges said of each node, in time: a database that holds what changed, and no repeat.

A run is one merge: its time, and a bit for each node that was in it. What a run says of a node
has a row where it is not what the run before it said that had the node; facts likewise, one by
one, against those that are known of the node. So a year of daily merges of hosts that stay as
they are is a year of bits.

A value that could not be read is no change: the one that is known stays.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import blake2b
from itertools import compress
from operator import ne
from typing import Any, Final, NamedTuple

from rdmadiag.facts import Missing
from rdmadiag.fleet.fact_table import NOT_SET, VARIABLE, VARIABLES, Value, named_values
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.verdict import Status
from rdmadiag.quoting import printable

MOST_FACT_BYTES: Final = 8 * 1024 * 1024
"""Of a base, unpacked."""

DAY: Final = 86_400

_APPLICATION: Final = 0x72646D61  # "rdma"
_VERSION: Final = 1
_NOT_THERE: Final = "(not there)"
_STEADY: Final = 0.05
"""A figure of pairs that differs by no more than that from the one that is kept is no news."""

_TABLES: Final = (
    "CREATE TABLE member_sets (id INTEGER PRIMARY KEY, bits BLOB NOT NULL UNIQUE)",
    (
        "CREATE TABLE runs (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, "
        "content BLOB NOT NULL UNIQUE, members INTEGER NOT NULL REFERENCES member_sets)"
    ),
    "CREATE TABLE nodes (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    (
        "CREATE TABLE said (node INTEGER NOT NULL, run INTEGER NOT NULL, status TEXT, "
        "reasons TEXT NOT NULL, odd TEXT NOT NULL, PRIMARY KEY (node, run)) WITHOUT ROWID"
    ),
    "CREATE TABLE bases (id INTEGER PRIMARY KEY, packed BLOB NOT NULL)",
    (
        "CREATE TABLE facts (node INTEGER PRIMARY KEY, digest BLOB NOT NULL, "
        "base INTEGER NOT NULL, own TEXT NOT NULL, gone TEXT NOT NULL)"
    ),
    (
        "CREATE TABLE changes (node INTEGER NOT NULL, run INTEGER NOT NULL, fact TEXT NOT NULL, "
        "before TEXT NOT NULL, after TEXT NOT NULL, PRIMARY KEY (node, run, fact)) WITHOUT ROWID"
    ),
    (
        "CREATE TABLE pairs (node INTEGER NOT NULL, run INTEGER NOT NULL, "
        "tried INTEGER NOT NULL, failed INTEGER NOT NULL, latency_us REAL, gbps REAL, "
        "PRIMARY KEY (node, run)) WITHOUT ROWID"
    ),
)


class HistoryError(Exception):
    """A file that is no history, or cannot be used as one; the message is one line."""


@dataclass(frozen=True, slots=True)
class PairFigures:
    """What a tournament's pairs say of one node: of those that it took part in."""

    tried: int
    failed: int  # or never reported
    latency_us: float | None  # the median
    gbps: float | None


@dataclass(frozen=True, slots=True)
class Said:
    """What one merge says of one node."""

    status: Status | None  # None: it never reported
    reasons: tuple[str, ...]  # codes of rules, and Gap
    odd: Mapping[str, str]  # facts of which most others have another value, and its own
    facts: Mapping[str, Value]
    pairs: PairFigures | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A fact that two merges in a row saw differently."""

    at: int  # seconds since the epoch; of the later one
    fact: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Seen:
    """One merge that the node was in."""

    at: int
    status: Status | None
    reasons: tuple[str, ...]
    odd: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Past:
    """All that is known of one node, the earliest first."""

    node: str
    seen: tuple[Seen, ...]
    changes: tuple[Change, ...]
    pairs: tuple[tuple[int, PairFigures], ...]  # when they changed


# --- the file ---------------------------------------------------------------------------


@contextmanager
def _checked(connection: sqlite3.Connection, *, write: bool) -> Iterator[None]:
    """One transaction, on a database that is a history; a new one becomes one."""
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        try:
            _require_history(connection, write=write)
            yield
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # some errors have ended the transaction
                connection.execute("ROLLBACK")
            raise
    except sqlite3.OperationalError as error:
        raise HistoryError(f"the history cannot be used: {_line(error)}") from error
    except _DAMAGED as error:
        raise HistoryError(f"no history, or a damaged one: {_line(error)}") from error


def _line(error: Exception) -> str:
    return printable(str(error)[:_SHOWN])


_SHOWN: Final = 200  # letters: an error may quote what is in the file
_DAMAGED: Final = (
    *(sqlite3.Error, zlib.error, ValueError, TypeError, LookupError),
    *(OverflowError, RecursionError),
)


def _require_history(connection: sqlite3.Connection, *, write: bool) -> None:
    """Exactly our tables: what else a schema holds (triggers, views) would run with them."""
    found = {
        row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql NOTNULL")
    }
    application = _one(connection, "PRAGMA application_id")
    version = _one(connection, "PRAGMA user_version")
    if not found and application == version == 0:
        if not write:
            raise HistoryError("nothing was ever written to this history")
        for table in _TABLES:
            connection.execute(table)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {_VERSION}")
        return
    if application != _APPLICATION:
        raise HistoryError("a database, but no history of rdmadiag's")
    if version != _VERSION:
        raise HistoryError(f"a history of version {version}, and this rdmadiag reads {_VERSION}")
    if found != set(_TABLES):
        raise HistoryError("a history with other tables than those that rdmadiag makes")


def _one(connection: sqlite3.Connection, query: str, *values: object) -> Any:
    row = connection.execute(query, values).fetchone()
    return None if row is None else row[0]


# --- adding -----------------------------------------------------------------------------


def add(connection: sqlite3.Connection, at: int, merge: Mapping[str, Said]) -> bool:
    """Adds one merge, whole or not at all; False where it is in the history already.

    `at` is its time in seconds since the epoch. Merges are added in the order of their times;
    one that is up to a day older than the newest, as of two that ran side by side, counts as of
    the newest's time. Raises HistoryError, also for one that is older than that.
    """
    with _checked(connection, write=True):
        digests = {node: _facts_digest(said.facts) for node, said in merge.items()}
        content = _digest_of(at, merge, digests)
        if _one(connection, "SELECT 1 FROM runs WHERE content = ?", content):
            return False
        newest = _one(connection, "SELECT max(at) FROM runs")
        if newest is not None and at < newest:
            if at < newest - DAY:
                raise HistoryError(
                    "these reports are more than a day older than the newest in the history: "
                    "merges are added in the order of their times"
                )
            at = newest
        _add(connection, at, content, merge, digests)
        return True


def _digest_of(at: int, merge: Mapping[str, Said], digests: Mapping[str, bytes]) -> bytes:
    digest = blake2b(str(at).encode(), digest_size=16)
    for node, said in sorted(merge.items()):
        row = (node, said.status, said.reasons, sorted(said.odd.items()), said.pairs)
        digest.update(repr(row).encode(errors="backslashreplace"))
        digest.update(digests[node])
    return digest.digest()


def _add(
    connection: sqlite3.Connection,
    at: int,
    content: bytes,
    merge: Mapping[str, Said],
    digests: Mapping[str, bytes],
) -> None:
    connection.executemany(
        "INSERT OR IGNORE INTO nodes (name) VALUES (?)", ((_clean(node),) for node in merge)
    )
    numbers = dict(connection.execute("SELECT name, id FROM nodes"))
    by_number = {numbers[_clean(node)]: said for node, said in merge.items()}
    bits = _bits(by_number)
    connection.execute("INSERT OR IGNORE INTO member_sets (bits) VALUES (?)", (bits,))
    members = _one(connection, "SELECT id FROM member_sets WHERE bits = ?", bits)
    run = connection.execute(
        "INSERT INTO runs (at, content, members) VALUES (?, ?, ?)", (at, content, members)
    ).lastrowid
    assert run is not None
    _add_said(connection, run, by_number)
    by_digest = {numbers[_clean(node)]: digest for node, digest in digests.items()}
    _add_facts(connection, run, by_number, by_digest)
    _add_pairs(connection, run, by_number)


def _clean(name: str) -> str:
    """As UTF-8 has it, which a name of a host may not be."""
    return name.encode(errors="backslashreplace").decode()


def _bits(numbers: Iterable[int]) -> bytes:
    """Bit N%8 of byte N//8 of each number."""
    whole = bytearray()
    for number in numbers:
        byte = number // 8
        if byte >= len(whole):
            whole.extend(bytes(byte + 1 - len(whole)))
        whole[byte] |= 1 << number % 8
    return bytes(whole)


def _last(connection: sqlite3.Connection, table: str, columns: str) -> dict[int, tuple[Any, ...]]:
    """The newest row of each node."""
    query = (  # by the primary key, once a node: all rows of a year are not looked at
        f"SELECT t.node, {columns} FROM nodes JOIN {table} t ON t.node = nodes.id AND t.run ="  # noqa: S608  # names of ours
        f" (SELECT max(run) FROM {table} WHERE node = nodes.id)"
    )
    return {row[0]: row[1:] for row in connection.execute(query)}


def _add_said(connection: sqlite3.Connection, run: int, merge: Mapping[int, Said]) -> None:
    before = _last(connection, "said", "status, reasons, odd")
    rows = (
        (node, (said.status and str(said.status), _words(said.reasons), _json(dict(said.odd))))
        for node, said in merge.items()
    )
    connection.executemany(
        "INSERT INTO said VALUES (?, ?, ?, ?, ?)",
        ((node, run, *row) for node, row in rows if before.get(node) != row),
    )


@lru_cache(maxsize=4096)
def _words(reasons: tuple[str, ...]) -> str:
    return _json(reasons)


def _json(value: object) -> str:
    return _ENCODER.encode(value) if value else "[]" if isinstance(value, list | tuple) else "{}"


_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def _add_facts(
    connection: sqlite3.Connection,
    run: int,
    merge: Mapping[int, Said],
    now_digests: Mapping[int, bytes],
) -> None:
    digests = dict(connection.execute("SELECT node, digest FROM facts"))
    bases = _Bases(connection)
    changes: list[tuple[int, int, str, str, str]] = []
    rows: list[tuple[int, bytes, int, str, str]] = []
    for node, said in merge.items():
        digest = now_digests[node]
        if said.status is None or digests.get(node) == digest:
            continue
        if node in digests:
            held = bases.held(node)
            now, changed = _followed(held, bases.apart(held.base, said.facts), said.facts, bases)
            changes += (
                (node, run, _clean(name), _clean(before), _clean(after))
                for name, before, after in changed
            )
            kept = bases.kept(now)
        else:
            kept = bases.best(said.facts)
        rows.append((node, digest, kept.base, _json(kept.own), _json(sorted(kept.gone))))
    connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", changes)
    connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?, ?, ?, ?)", rows)


@dataclass(frozen=True, slots=True)
class _Apart:
    """A node's facts as those of a base, but for these."""

    base: int
    own: Mapping[str, str]
    gone: AbstractSet[str]  # what is in the base alone

    def text(self, name: str, common: Mapping[str, str]) -> str | None:
        """A fact of the node; `common` is what is in the base. None: it has not got it."""
        if name in self.gone:
            return None
        return self.own.get(name, common.get(name))


def _followed(
    before: _Apart, now: _Apart, facts: Mapping[str, Value], bases: "_Bases"
) -> tuple[_Apart, list[tuple[str, str, str]]]:
    """What is known after `facts`, and what changed: names, and texts before and after.

    Where neither differs from the base they are equal, so that no other fact is looked at: a new
    kernel on all hosts changes one of hundreds.
    """
    common = bases.texts(now.base)
    own: dict[str, str] = {}
    gone: set[str] = set()
    changed = []
    for name in {*before.own, *before.gone, *now.own, *now.gone}:
        old, new = before.text(name, common), now.text(name, common)
        if new is None and old is not None:
            new = _gone(name, facts) or old
        seen = _NOT_THERE if old is None else old
        if new is not None and new != seen:
            changed.append((name, seen, new))
        if new is None or new == _NOT_THERE:
            if name in common:
                gone.add(name)
        elif new != common.get(name):
            own[name] = new
    return _Apart(now.base, own, gone), changed


class _Bases:
    """Facts that many nodes have in common, of which each keeps only what is its own."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[int, dict[str, str]] = {}
        self._rows: dict[tuple[int, tuple[str, ...]], _Row] = {}

    def held(self, node: int) -> _Apart:
        """What is known of a node."""
        query = "SELECT base, own, gone FROM facts WHERE node = ?"
        base, own, gone = self._connection.execute(query, (node,)).fetchone()
        return _Apart(base, _texts(own), frozenset(_list(gone)))

    def apart(self, base: int, facts: Mapping[str, Value]) -> _Apart:
        """Facts beside those of a base; what could not be read is gone."""
        names, values = named_values(facts)
        row = self._row(base, names)
        own: dict[str, str] = {}
        gone = set(row.others)
        differ = map(ne, values, row.texts)
        for name, value, common in compress(zip(names, values, row.texts, strict=True), differ):
            if isinstance(value, str):
                own[name] = value
            elif common is not None:
                gone.add(name)
        return _Apart(base, own, gone)

    def kept(self, known: _Apart) -> _Apart:
        """The same facts, by the same base while they are much alike."""
        common = self.texts(known.base)
        if _distance(known) <= len(common) // 4:
            return known
        whole = {name: text for name, text in common.items() if name not in known.gone}
        return self.best(whole | dict(known.own))

    def best(self, facts: Mapping[str, Value]) -> _Apart:
        """By the base that is nearest to them, or by a new one."""
        size = len(facts)
        best: _Apart | None = None
        for base in self._newest():
            found = self.apart(base, facts)
            if best is None or _distance(found) < _distance(best):
                best = found
            if _distance(found) <= size // 4:
                break
        if best is None or (_distance(best) > size // 2 and self._room()):
            return _Apart(self._new(facts), {}, frozenset())
        return best

    def texts(self, number: int) -> Mapping[str, str]:
        """A base."""
        if number not in self._known:
            query = "SELECT packed FROM bases WHERE id = ?"
            packed = _one(self._connection, query, number)
            unpacked = zlib.decompressobj().decompress(packed, MOST_FACT_BYTES)
            self._known[number] = _texts(unpacked.decode())
        return self._known[number]

    def _row(self, base: int, names: tuple[str, ...]) -> "_Row":
        """Of the hosts of one shape, once."""
        found = self._rows.get((base, names))
        if found is None:
            common = self.texts(base)
            found = _Row(tuple(map(common.get, names)), frozenset(common.keys() - set(names)))
            if len(self._rows) < _MOST_ROWS:
                self._rows[base, names] = found
        return found

    def _newest(self) -> list[int]:
        query = "SELECT id FROM bases ORDER BY id DESC LIMIT ?"
        return [base for (base,) in self._connection.execute(query, (_TRIED,))]

    def _new(self, facts: Mapping[str, Value]) -> int:
        texts = {name: text for name, text in facts.items() if isinstance(text, str)}
        packed = zlib.compress(_json(texts).encode(), 1)
        made = self._connection.execute("INSERT INTO bases (packed) VALUES (?)", (packed,))
        assert made.lastrowid is not None
        self._known[made.lastrowid] = texts
        return made.lastrowid

    def _room(self) -> bool:
        return bool(_one(self._connection, "SELECT count(*) < ? FROM bases", _MOST_BASES))


class _Row(NamedTuple):
    """A base beside the names of facts."""

    texts: tuple[str | None, ...]  # None: it has not got that name
    others: frozenset[str]  # its names that are not among those


def _distance(found: _Apart) -> int:
    return 2 * len(found.own) + len(found.gone)


_MOST_ROWS: Final = 1000
_TRIED: Final = 8
_MOST_BASES: Final = 1000


def _texts(text: str) -> dict[str, str]:
    found = json.loads(text)
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise TypeError("facts of another shape")
    return found


def _list(text: str) -> list[str]:
    found = json.loads(text)
    if not isinstance(found, list):
        raise TypeError("facts of another shape")
    return found


def _facts_digest(facts: Mapping[str, Value]) -> bytes:
    """Equal where nothing has changed; the details of a Missing are no part of it."""
    names, values = named_values(facts)
    texts = [f"\1{each.why}" if isinstance(each, Missing) else each for each in values]
    whole = "\0".join(texts).encode(errors="backslashreplace")
    return blake2b(_names_digest(names) + whole, digest_size=16).digest()


@lru_cache(maxsize=4096)
def _names_digest(names: tuple[str, ...]) -> bytes:
    whole = "\0".join(names).encode(errors="backslashreplace")
    return blake2b(whole, digest_size=16).digest()


def _gone(name: str, now: Mapping[str, Value]) -> str | None:
    """What has become of a fact that was known; None where nobody knows."""
    if name in now:
        return None
    if name.startswith(VARIABLE):
        return None if VARIABLES in now else NOT_SET
    for word, number in (("adapter[", "adapters"), ("gpu[", "gpus")):
        if name.startswith(word):
            return _NOT_THERE if isinstance(now.get(number), str) else None
    return None


def _add_pairs(connection: sqlite3.Connection, run: int, merge: Mapping[int, Said]) -> None:
    before = _last(connection, "pairs", "tried, failed, latency_us, gbps")
    rows = []
    for node, said in merge.items():
        now = said.pairs
        if now is not None and _is_news(before.get(node), now):
            rows.append((node, run, now.tried, now.failed, now.latency_us, now.gbps))
    connection.executemany("INSERT INTO pairs VALUES (?, ?, ?, ?, ?, ?)", rows)


def _is_news(before: tuple[Any, ...] | None, now: PairFigures) -> bool:
    if before is None or bool(before[1]) != bool(now.failed):
        return True
    figures = ((before[2], now.latency_us), (before[3], now.gbps))
    return any(
        (old is None) != (new is None)
        or (old is not None and new is not None and abs(new - old) > _STEADY * abs(old))
        for old, new in figures
    )


# --- asking -----------------------------------------------------------------------------


def past(connection: sqlite3.Connection, nodes: Sequence[str]) -> dict[str, Past]:
    """What is known of these nodes; one that no merge had is not among them.

    Raises HistoryError.
    """
    found = {}
    with _checked(connection, write=False):
        for name in nodes:
            node = _one(connection, "SELECT id FROM nodes WHERE name = ?", _clean(name))
            if node is not None:
                found[name] = _past(connection, name, node)
    return found


def span(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """How many runs there are, and the times of the first and the last; raises HistoryError."""
    with _checked(connection, write=False):
        row = connection.execute("SELECT count(*), min(at), max(at) FROM runs").fetchone()
        return _whole(row[0]), _whole(row[1]), _whole(row[2])


def _past(connection: sqlite3.Connection, name: str, node: int) -> Past:
    sets = {
        key
        for key, byte in connection.execute(
            "SELECT id, substr(bits, ?, 1) FROM member_sets", (node // 8 + 1,)
        )
        if byte and byte[0] >> node % 8 & 1
    }
    times = {
        run: _whole(at)
        for run, at, members in connection.execute("SELECT id, at, members FROM runs ORDER BY id")
        if members in sets
    }
    rows = {
        run: _said(*row)
        for run, *row in connection.execute(
            "SELECT run, status, reasons, odd FROM said WHERE node = ? ORDER BY run", (node,)
        )
    }
    seen: list[Seen] = []
    held: tuple[Status | None, tuple[str, ...], Mapping[str, str]] | None = None
    for run, at in times.items():
        held = rows.get(run, held)
        if held is not None:
            seen.append(Seen(at, *held))
    changes = tuple(
        Change(times[run], str(fact), str(before), str(after))
        for run, fact, before, after in connection.execute(
            "SELECT run, fact, before, after FROM changes WHERE node = ? ORDER BY run, fact",
            (node,),
        )
        if run in times
    )
    pairs = tuple(
        (times[run], PairFigures(_whole(tried), _whole(failed), _real(latency), _real(gbps)))
        for run, tried, failed, latency, gbps in connection.execute(
            "SELECT run, tried, failed, latency_us, gbps FROM pairs WHERE node = ? ORDER BY run",
            (node,),
        )
        if run in times
    )
    return Past(name, tuple(seen), changes, pairs)


def _said(
    status: Any, reasons: Any, odd: Any
) -> tuple[Status | None, tuple[str, ...], Mapping[str, str]]:
    words, facts = json.loads(reasons), json.loads(odd)
    if not isinstance(words, list) or not isinstance(facts, dict):
        raise TypeError("reasons of another shape")
    return (
        None if status is None else Status(status),
        tuple(map(str, words)),
        {str(name): str(value) for name, value in facts.items()},
    )


def _whole(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 48:
        raise ValueError("a number out of range")
    return value


def _real(value: object) -> float | None:
    if value is not None and not isinstance(value, float):
        raise ValueError("no number")
    return value
