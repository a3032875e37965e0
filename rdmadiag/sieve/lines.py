"""The segments of a stream that hold words of both kinds, with the numbers of their lines.

One pass, in memory that does not grow: neither with the stream nor with its longest line.
_sieve.c does the work where it was compiled, and `re` where not: the same segments. Both stay.
Over one log, in CPU time and in turn, _sieve.c took as long as grep for 20 words (1.2 times that
on a processor without AVX2), `re` 59 times; one pass of bytes.lower alone took 1.1 times and one
of bytes.find 0.75, for one of 314 words, so that Python cannot come near. But a machine without a
compiler has logs too, and at some 24 MB/s most are read in seconds.

A segment ends at a newline or a carriage return (a progress bar), and lines are counted by
newlines, as `grep -n` counts them. Of a long one the part around its first word is given.
"""

import ctypes
import os
import re
import struct
from collections.abc import Iterator, Mapping
from ctypes import (
    POINTER,
    byref,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, Final, Protocol

from rdmadiag.frozen import dataclass

COMPILED: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_sieve.so")
"""What hatch_build.py makes of _sieve.c, where there is a compiler."""

BUFFER: Final = 1 << 20
BEFORE: Final = 1024  # bytes of a long segment before its first word …
BEHIND: Final = 3072  # … and from there on
AFTER: Final = 512  # bytes of what follows a segment
FURTHER: Final = 2048  # the same, and more: the frames of a crash
ABOVE: Final = 512  # bytes of what stands before it
CARRIED: Final = BEFORE + BEHIND + FURTHER
WHOLE: Final = 8192  # bytes of a stream that is kept
PASTE: Final = 1 << 16  # the same of a stream that is no longer

CONTEXT: Final = 1
TROUBLE: Final = 2
_LEAST: Final = 4  # bytes of a word


class Readable(Protocol):
    """What is read: a raw or buffered binary file."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """As io.RawIOBase has it."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A candidate."""

    number: int  # of its line, from 1
    line: bytes
    after: bytes  # what follows it, cut off
    above: bytes  # what stands before it, cut off
    further: bytes = b""  # the same and more of it


class Sieve:
    """Words, each with the kinds that it stands for; a segment needs both."""

    def __init__(self, words: Mapping[bytes, int], library: str | None = COMPILED) -> None:
        self._library = library
        self.look_for(words)
        self.lines = 0
        """Of the stream that was read, the last one even without a newline."""
        self.bytes = 0
        self.whole: bytes | None = None
        """The stream that was read, if it was short; else None."""
        self.paste = b""
        """The stream, if it was no longer than somebody pastes; else nothing."""
        self.end = b""
        """What it ended with: its last bytes, or all of it."""

    def look_for(self, words: Mapping[bytes, int]) -> None:
        """Other words from here on, or from the next buffer on where a stream is being read."""
        if any(len(word) < _LEAST or word != word.lower() for word in words):
            raise ValueError(f"words are lowercase and have {_LEAST} bytes or more")
        compiled = _Compiled.load(words, self._library) if self._library else None
        self._find: _Compiled | _Pattern = compiled or _Pattern(words)
        self.kind = "python" if compiled is None else "compiled"

    def segments(self, stream: Readable, size: int = BUFFER) -> Iterator[Segment]:
        """The candidates, in order."""
        self.lines = self.bytes = 0
        self.whole = None
        self.end = self.paste = b""
        buffer = bytearray(max(size, 4 * CARRIED))
        view = memoryview(buffer)
        held, start, lowest, newlines, ended_by = 0, 0, 0, 0, 0
        gone = b""  # the end of what the buffer no longer holds
        at_end = False
        while not at_end:
            got = _fill(stream, view[held:])
            held += got
            self.bytes += got
            at_end = held < len(buffer)
            if at_end:
                self.end = (self.end + view[max(held - WHOLE, 0) : held])[-WHOLE:]
                self.whole = self.end if self.bytes == held <= WHOLE else None
                self.paste = bytes(view[:held]) if self.bytes == held <= PASTE else b""
            end = held if at_end else _end_of_lines(buffer, start, held)
            found, counted, ended_by = self._find(buffer, lowest, start, end, held, ended_by)
            for begin, stop, before in found:
                below, far = stop, min(stop + FURTHER, held)
                while below < far and buffer[below] in b"\r\n":
                    below += 1
                yield Segment(
                    newlines + before + 1,
                    bytes(view[begin:stop]),
                    bytes(view[below : min(stop + AFTER, held)]),
                    (gone + view[max(begin - ABOVE, 0) : begin])[-ABOVE:],
                    bytes(view[below:far]),
                )
            newlines += counted
            if at_end:
                unended = held > 0 and buffer[held - 1] != 0x0A
                self.lines = newlines + unended
                return
            # What a long line's words may look back at stays; `start` is where to go on.
            lowest = max(end - BEFORE, 0) if buffer[end - 1] != 0x0A else end
            gone = bytes(view[max(lowest - ABOVE, 0) : lowest])
            self.end = (self.end + view[max(lowest - WHOLE, 0) : lowest])[-WHOLE:]
            view[: held - lowest] = bytes(view[lowest:held])
            held, start, ended_by = held - lowest, end - lowest, max(ended_by - lowest, 0)
            lowest = 0


def _fill(stream: Readable, view: memoryview) -> int:
    """Read until it is full or the stream ends: what is found must not hang on a pipe's pace."""
    got = 0
    while got < len(view):
        some = stream.readinto(view[got:])
        if not some:
            break
        got += some
    return got


def _end_of_lines(buffer: bytearray, start: int, held: int) -> int:
    """Behind the last whole line with enough after it, or within a line that is too long."""
    newline = buffer.rfind(b"\n", start, held - FURTHER)
    return newline + 1 if newline >= start else held - BEHIND - FURTHER


Found = tuple[list[tuple[int, int, int]], int, int]
"""(start, end, newlines before), all newlines, and up to where segments are done."""


class _Pattern:
    """In Python."""

    def __init__(self, words: Mapping[bytes, int]) -> None:
        self._any = _alternatives(words, CONTEXT | TROUBLE)
        self._kinds = (_alternatives(words, CONTEXT), _alternatives(words, TROUBLE))

    def __call__(
        self, buffer: bytearray, lowest: int, start: int, end: int, limit: int, done: int
    ) -> Found:
        hits: list[tuple[int, int, int]] = []
        newlines, counted = 0, start
        at = max(start, done)
        folded = buffer[:limit].lower()
        while (found := self._any.search(folded, at)) and found.start() < end:
            first = found.start()
            floor = max(first - BEFORE, lowest, done)
            begin = 1 + max(
                buffer.rfind(b"\n", floor, first), buffer.rfind(b"\r", floor, first), floor - 1
            )
            stop = _next_end(buffer, first, min(limit, first + BEHIND))
            if all(kind.search(folded, first, stop) for kind in self._kinds):
                newlines += buffer.count(b"\n", counted, begin) if begin > counted else 0
                counted = max(counted, begin)
                hits.append((begin, stop, newlines))
            at = done = stop
        newlines += buffer.count(b"\n", counted, end)
        return hits, newlines, done


def _next_end(buffer: bytearray, at: int, ceiling: int) -> int:
    newline = buffer.find(b"\n", at, ceiling)
    ceiling = ceiling if newline < 0 else newline
    carriage_return = buffer.find(b"\r", at, ceiling)
    return ceiling if carriage_return < 0 else carriage_return


def _alternatives(words: Mapping[bytes, int], kind: int) -> "re.Pattern[bytes]":
    """Words of this kind, in lowercase, as a tree: `re` tries no two with the same beginning."""
    tree: dict[int, Any] = {}
    for word, bits in words.items():
        if bits & kind:
            branch = tree
            for byte in word:
                branch = branch.setdefault(byte, {})
            branch[-1] = {}
    return re.compile(_branches(tree))


def _branches(tree: dict[int, Any]) -> bytes:
    if -1 in tree:  # a word ends here: what is longer says nothing more
        return b""
    parts = [re.escape(bytes((byte,))) + _branches(rest) for byte, rest in tree.items()]
    return parts[0] if len(parts) == 1 else b"(?:" + b"|".join(parts) + b")"


# --- compiled ------------------------------------------------------------------------------

_LAYOUT_REVISION: Final = 5
_BUCKET_BITS: Final = 18
_BUCKETS: Final = 1 << _BUCKET_BITS
_HITS: Final = 1024


_WORD: Final = "PII"  # struct word: its text, the length, its bits


class _Entry(ctypes.Structure):
    _fields_ = (("group", c_uint32), ("word", c_uint16), ("offset", c_uint16), ("next", c_uint32))


class _Table(ctypes.Structure):
    _fields_ = (
        ("seen", c_void_p),
        ("heads", c_void_p),
        ("entries", c_void_p),
        ("words", c_void_p),
        ("before", c_uint32),
        ("behind", c_uint32),
    )


class _Hit(ctypes.Structure):
    _fields_ = (("start", c_uint64), ("end", c_uint64), ("newlines", c_uint64))


class _Progress(ctypes.Structure):
    _fields_ = (
        ("at", c_uint64),
        ("counted", c_uint64),
        ("newlines", c_uint64),
        ("segment_end", c_uint64),
    )


class _Compiled:
    """By _sieve.c."""

    def __init__(self, library: Any, words: Mapping[bytes, int]) -> None:
        self._run = library.rdmadiag_sieve
        self._hits = (_Hit * _HITS)()
        self._texts = ctypes.create_string_buffer(b"\0".join(words))
        at = ctypes.addressof(self._texts)
        rows: list[int] = []
        for text, bits in words.items():
            rows += (at, len(text), bits)
            at += len(text) + 1
        packed = struct.pack(_WORD * len(words), *rows)  # a Structure of each takes 8 ms
        self._words = ctypes.create_string_buffer(packed, len(packed))
        self._heads = (c_uint32 * _BUCKETS)()
        self._seen = (c_uint8 * (_BUCKETS + 3))()  # four bytes are read at each
        self._entries = (_Entry * (len(words) + 1))()
        self._table = _Table(
            ctypes.addressof(self._seen),
            ctypes.addressof(self._heads),
            ctypes.addressof(self._entries),
            ctypes.addressof(self._words),
            BEFORE,
            BEHIND,
        )
        library.rdmadiag_sieve_fill(byref(self._table), len(words))

    @classmethod
    def load(cls, words: Mapping[bytes, int], library: str) -> "_Compiled | None":
        """None where it cannot be loaded or is of another version."""
        try:
            loaded = ctypes.CDLL(library)
            if loaded.rdmadiag_sieve_layout() != _LAYOUT_REVISION:
                return None
            function, fill = loaded.rdmadiag_sieve, loaded.rdmadiag_sieve_fill
        except (OSError, AttributeError):
            return None
        fill.restype = None
        fill.argtypes = (POINTER(_Table), c_uint32)
        function.restype = c_size_t
        function.argtypes = (
            POINTER(_Table),
            c_void_p,
            *(c_uint64, c_uint64, c_uint64),
            POINTER(_Progress),
            POINTER(_Hit),
            c_size_t,
        )
        return cls(loaded, words)

    def __call__(
        self, buffer: bytearray, lowest: int, start: int, end: int, limit: int, done: int
    ) -> Found:
        found: list[tuple[int, int, int]] = []
        progress = _Progress(start, start, 0, done)
        held = (ctypes.c_char * len(buffer)).from_buffer(buffer)
        try:
            while True:
                count = self._run(
                    byref(self._table),
                    ctypes.addressof(held),
                    *(lowest, end, limit),
                    byref(progress),
                    self._hits,
                    _HITS,
                )
                found += [(h.start, h.end, h.newlines) for h in self._hits[:count]]
                if count < _HITS:
                    break
        finally:
            del held
        return found, progress.newlines, progress.segment_end
