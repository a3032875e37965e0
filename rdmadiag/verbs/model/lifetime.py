"""Objects of a device that cannot be used wrongly: closed, in use, another's, of another process.

The library answers such a use by a crash or by silence. Here it is an exception, raised
before the library is called.
"""

import ctypes
import os
from threading import RLock
from types import TracebackType
from typing import Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

from rdmadiag.verbs.lib import CallFailed, Library


class VerbsError(Exception):
    """What is refused here, before the library is called."""


class Closed(VerbsError):
    """An object that has been closed."""


class InUse(VerbsError):
    """An object that others stand on: they are closed first."""


class Forked(VerbsError):
    """An object of the parent in a child made by fork(): its requests would be the parent's."""


class Mismatch(VerbsError):
    """Objects that do not go together: of two devices, or of two protection domains."""


T = TypeVar("T", bound="Destroyed")

_NEVER_FREED: Final[list[object]] = []
"""Memory whose deregistration failed: the device may still write there."""


class _ProcessLock:
    """A lock of one process: in a forked child it may be held by a thread that is not there."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._process = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this process made it."""
        return os.getpid() == self._process

    def __enter__(self) -> None:
        if not self.is_ours:
            raise Forked("the device was opened by the parent process")
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Session:
    """A loaded library and an open device's lock, shared by all that is made on it.

    One call at a time: closing in one thread waits for a poll in another.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.lock = _ProcessLock()
        self.open: dict[int, Held[Any]] = {}  # in the order in which they were made

    @property
    def is_ours(self) -> bool:
        """Whether this process opened the device."""
        return self.lock.is_ours

    def call(self, name: str, device: str, *arguments: Any) -> Any:
        """A call by name, on behalf of a device; raises CallFailed."""
        with self.lock:
            return self.library.call(name, *arguments)


class Held(Generic[T]):
    """An object of the library with what it stands on and what stands on it."""

    kind: ClassVar[str] = "object"

    def __init__(self, session: Session, made: T, *stands_on: "Held[Any]") -> None:
        self.session = session
        self._made: T | None = made
        self._stands_on = stands_on
        self.used_by: dict[int, Held[Any]] = {}
        session.open[id(self)] = self
        for each in stands_on:
            each.used_by[id(self)] = self

    def __repr__(self) -> str:
        return f"<{self.kind}{self._label()}{' (closed)' if self.closed else ''}>"

    def _label(self) -> str:
        return ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether it is gone."""
        return self._made is None

    @property
    def made(self) -> T:
        """What the library has; raises Closed and Forked."""
        if self._made is None:
            raise Closed(f"this {self.kind} is closed")
        if not self.session.is_ours:
            raise Forked(f"this {self.kind} is the parent process's")
        return self._made

    @property
    def address(self) -> int:
        """Where the library has it; raises Closed and Forked."""
        made: Any = self.made
        return ctypes.cast(made.handle, ctypes.c_void_p).value or 0

    @property
    def users(self) -> "tuple[Held[Any], ...]":
        """What was made with it and is still open."""
        return tuple(self.used_by.values())

    def close(self) -> None:
        """Destroy it, once; raises InUse and CallFailed. In a forked child it does nothing."""
        if not self.session.is_ours:
            if self._made is not None:
                self.let_go()
            return
        with self.session.lock:
            if self._made is None:
                return
            if self.used_by:
                names = ", ".join(sorted(repr(each) for each in self.used_by.values()))
                raise InUse(f"{self!r} is in use by {names}: close that first")
            self.settle()
            destroy(self.let_go())

    def settle(self) -> None:
        """What must happen before it can be destroyed; raises InUse where that cannot be now."""

    def let_go(self) -> T:
        """Mark it closed, and leave what it stood on."""
        made = self._made
        assert made is not None
        self._made = None
        self.session.open.pop(id(self), None)
        for each in self._stands_on:
            each.used_by.pop(id(self), None)
        return made


class Destroyed(Protocol):
    """An object, or all objects, of verbs.objects."""

    def close(self) -> None:
        """Raises CallFailed."""


def destroy(made: Destroyed) -> None:
    """Destroy what was let go; raises CallFailed."""
    try:
        made.close()
    except CallFailed:
        _NEVER_FREED.append(made)
        raise


def same(one: Held[Any], other: Held[Any], what: str) -> None:
    """Raises Mismatch where two objects are of different devices."""
    if one.session is not other.session:
        raise Mismatch(f"{what} is of another device")
