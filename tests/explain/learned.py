"""What `explain` learns of the threads, and how it is held apart when it is measured.

A reading of a row may use cases of other threads alone, or of other stacks: threads, or stacks,
are drawn into ten folds by a hash, and the cases of nine are the table for the tenth.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from hashlib import blake2b
from typing import Final

from rdmadiag.explain.causes import CAUSES
from rdmadiag.explain.log.learned.cases import Cases, made
from tests.explain.thread_files import Row, Thread, read

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


class Apart:
    """For each row the cases of other threads, or of other stacks."""

    def __init__(
        self, apart: Callable[[Thread], str], threads: Sequence[Thread] | None = None
    ) -> None:
        self._apart = apart
        some = examples(read() if threads is None else threads)

        @cache
        def without(number: int) -> Cases:
            return taught([each for each in some if fold(apart(each[0])) != number])

        self._without = without

    def cases(self, thread: Thread) -> Cases:
        """None of its own among them."""
        return self._without(fold(self._apart(thread)))
