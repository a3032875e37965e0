"""Each pure parser on inputs by example, table and mutation: it ends, soon, with a value.

The examples are what hosts have answered: of all that the recorded machines hold, each parser
starts from what it understands.
"""

import hashlib
import os
import resource
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from campaign.corpus import blobs
from campaign.mutation import Mutator
from campaign.pure import Parser, parsers
from campaign.result import Held, Result
from rdmadiag.facts import Missing

SHORT: Final = 2_000  # inputs of each parser
LONG: Final = 120_000
_BLOCK: Final = 1_000

SECONDS: Final = 0.5  # of processor time, for an input of at most some 100 KiB
_HANGS: Final = 10.0
_MEMORY: Final = 2 << 30
_KEPT: Final = 5  # violations of each parser and kind
_SEEDS: Final = 60

_VALUE: Final = "a parser returns a value, or raises its own error, whatever it is given"
_SOON: Final = f"it takes less than {SECONDS:g} s of processor time and {_MEMORY >> 30} GiB"
_TEXT: Final = "all text in its value can be written as UTF-8"


class _Hung(BaseException):
    """Beyond every measure: the parser is interrupted."""


@dataclass
class _Found:
    """What one block of inputs came to."""

    inputs: int = 0
    texts: int = 0
    broken: list[tuple[str, str, str, bytes]] = field(default_factory=list)


class _Block(NamedTuple):
    parser: str
    number: int
    seed: int
    inputs: int


def run(short: bool, seed: int, folder: Path, seconds: float) -> Result:
    """See campaign.result; what broke a parser is a file in `folder`."""
    began = time.monotonic()
    each = SHORT if short else LONG
    every = parsers()
    blocks = [
        _Block(name, number, seed, _BLOCK) for number in range(each // _BLOCK) for name in every
    ]
    inputs = texts = 0
    broken: dict[str, list[str]] = {_VALUE: [], _SOON: [], _TEXT: []}
    kinds: dict[tuple[str, str], int] = {}
    workers = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(workers, get_context("fork"), _bound) as pool:
        for block, found in pool.map(_within(began + seconds), blocks, chunksize=4):
            inputs += found.inputs
            texts += found.texts
            for what, kind, line, content in found.broken:
                kinds[block.parser, kind] = kinds.get((block.parser, kind), 0) + 1
                if kinds[block.parser, kind] <= _KEPT:
                    broken[what].append(f"{line}: {_kept(folder, block.parser, content)}")
    return Result(
        "parsers",
        inputs,
        [
            Held(_VALUE, inputs, broken[_VALUE]),
            Held(_SOON, inputs, broken[_SOON]),
            Held(_TEXT, texts, broken[_TEXT]),
        ],
        time.monotonic() - began,
    )


@dataclass(frozen=True)
class _within:  # noqa: N801  # a function that travels to a worker
    """Nothing more after `limit`, on time.monotonic's clock; each parser has had as much."""

    limit: float

    def __call__(self, block: _Block) -> tuple[_Block, _Found]:
        return _attack(block) if time.monotonic() < self.limit else (block, _Found())


def _kept(folder: Path, parser: str, content: bytes) -> Path:
    plain = "".join(letter if letter.isalnum() else "-" for letter in parser)
    path = folder / f"{plain}-{hashlib.sha256(content).hexdigest()[:12]}"
    path.write_bytes(content)
    return path


def _bound() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    signal.signal(signal.SIGVTALRM, _interrupt)


def _interrupt(*_: object) -> None:
    raise _Hung


@cache
def _seeds(name: str) -> tuple[bytes, ...]:
    """The parser's own, and what it understands of all that machines have answered."""
    parser = parsers()[name]
    if parser.seeds:
        return parser.seeds
    found: list[bytes] = []
    values: set[str] = set()
    for blob in blobs():
        try:
            value = parser.parse(blob)
        except parser.may_raise:
            continue
        key = repr(value)[:200]
        if isinstance(value, Missing) or not value or key in values:
            continue
        values.add(key)
        found.append(blob)
        if len(found) == _SEEDS:
            break
    return tuple(found) or blobs()[:_SEEDS]


def _attack(block: _Block) -> tuple[_Block, _Found]:
    parser = parsers()[block.parser]
    random = Random(f"{block.seed} {block.parser} {block.number}")
    mutator = Mutator(random, _seeds(block.parser))
    found = _Found()
    for _ in range(block.inputs):
        content = mutator.next()
        found.inputs += 1
        _try(parser, content, found, look=found.inputs % 8 == 0)
    return block, found


def _try(parser: Parser, content: bytes, found: _Found, *, look: bool) -> None:
    value: Any = None
    began = time.thread_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, _HANGS)
    try:
        value = parser.parse(content)
    except parser.may_raise:
        pass
    except _Hung:
        found.broken.append((_SOON, "hangs", f"{parser.name} hangs", content))
        return
    except MemoryError:
        found.broken.append((_SOON, "memory", f"{parser.name}: MemoryError", content))
    except Exception as error:  # noqa: BLE001  # that is what is looked for
        line = f"{parser.name}: {error!r:.160}"
        found.broken.append((_VALUE, type(error).__name__, line, content))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    took = time.thread_time() - began
    if took > SECONDS:
        found.broken.append((_SOON, "slow", f"{parser.name}: {took:.1f} s", content))
    if look:
        found.texts += 1
        for text in _texts(value):
            try:
                text.encode()
            except UnicodeEncodeError:
                line = f"{parser.name}: {text!a:.80}"
                found.broken.append((_TEXT, "surrogate", line, content))
                return


def _texts(value: Any, most: int = 500) -> Iterator[str]:
    """Every text in a value, of a very large one the first."""
    left: list[Any] = [value]
    while left and most:
        most -= 1
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif is_dataclass(each) and not isinstance(each, type):
            left += [getattr(each, part.name) for part in fields(each)]
        elif isinstance(each, dict):
            left += [*each.keys(), *each.values()]
        elif isinstance(each, Sequence | set | frozenset) and not isinstance(
            each, bytes | bytearray
        ):
            left += list(each)
