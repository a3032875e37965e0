"""What `explain` learns of the threads, and how it is held apart when it is measured.

A reading of a row may use what other threads alone taught, or other stacks: threads, or stacks,
are drawn into ten folds by a hash, and nine of them teach what reads the tenth.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from hashlib import blake2b
from typing import Final, Protocol, TypeVar

from rdmadiag.explain.causes import CAUSES
from rdmadiag.explain.log.ranking.learned.cases import Cases, made
from tests.explain.thread_files import Row, Thread

FOLDS: Final = 10
Example = tuple[Thread, Row]


def examples(threads: Iterable[Thread]) -> tuple[Example, ...]:
    """Every row that fails, in the order of the files; none of the newest exam."""
    return tuple(
        (thread, row) for thread in threads if not thread.unread for row in thread.rows if row.fails
    )


def labels_of(row: Row) -> tuple[str, ...]:
    """Those that are of the registry."""
    return tuple(each for each in row.labels if each in CAUSES)


def taught(some: Sequence[Example]) -> Cases:
    """The table that these rows give."""
    return made([(labels_of(row), row.lines) for _, row in some])


def by_thread(thread: Thread) -> str:
    """Threads are held apart."""
    return thread.address


def by_stack(thread: Thread) -> str:
    """Whole stacks are."""
    return thread.stack


def fold(name: str) -> int:
    """Which tenth a thread, or a stack, is of."""
    return int(blake2b(name.encode(), digest_size=4).hexdigest(), 16) % FOLDS


class _Taught(Protocol):
    @property
    def thread(self) -> Thread | None: ...


Of = TypeVar("Of", bound=_Taught)
Table = TypeVar("Table")


def by_others(
    by: Callable[[Thread], str], some: Sequence[Of], taught: Callable[[Sequence[Of]], Table]
) -> Callable[[Thread], Table]:
    """For each thread what other threads, or other stacks, teach; those of none teach all."""

    @cache
    def without(number: int) -> Table:
        return taught([e for e in some if not e.thread or fold(by(e.thread)) != number])

    return lambda thread: without(fold(by(thread)))


def digest(said: Iterable[object]) -> str:
    """Of what a table was learned from, for its first line: a test compares it."""
    found = blake2b(digest_size=12)
    for each in said:
        found.update(f"{each!r}\n".encode())
    return found.hexdigest()
