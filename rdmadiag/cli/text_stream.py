"""A log as the bytes of its lines, whether logrotate compressed it or Windows wrote it as UTF-16.

RFC 1952, the formats of bzip2 and .xz (which Python's modules read), and the byte order marks of
the Unicode standard; PowerShell 5.1 writes UTF-16 with one.
"""

import codecs
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from rdmadiag.quoting import shell_word

HEAD: Final = 4096  # bytes by which it is known what a file is


class Readable(Protocol):
    """A raw or buffered binary file."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """As io.RawIOBase has it."""


class NotText(OSError):
    """It is something else; its text says what."""


def reason(error: OSError, path: str) -> str:
    """Why a log cannot be read, with what to do where that is known."""
    said = error.strerror or str(error)
    return said.replace("{file}", shell_word(path)) if isinstance(error, NotText) else said


_OTHERS: Final = (
    (b"\x28\xb5\x2f\xfd", "compressed by zstd: zstd -dc {file} | rdmadiag explain --log -"),
    (b"\x04\x22\x4d\x18", "compressed by lz4: lz4 -dc {file} | rdmadiag explain --log -"),
    (b"PK\x03\x04", "a zip archive: unzip -p {file} | rdmadiag explain --log -"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive, and no log"),
    (b"\x7fELF", "a program, and no log"),
    (b"\xd4\xc3\xb2\xa1", "recorded packets (pcap), and no log"),
    (b"\x0a\x0d\x0d\x0a", "recorded packets (pcapng), and no log"),
    (b"LPKSHHRH", "a journal: journalctl --file {file} | rdmadiag explain --log -"),
)
_CONTROL: Final = bytes((*range(1, 8), *range(14, 27), *range(28, 32)))
MOST_CONTROL: Final = 0.05  # of its head: a terminal's sequences are fewer


def as_text(stream: Readable, depth: int = 0) -> "Text":
    """What it holds, in an encoding whose newlines and letters are ASCII's.

    Raises NotText where it is no text, and OSError where it cannot be read.
    """
    again = _Again(stream)
    head = again.head
    what = next((what for start, what in _OTHERS if head.startswith(start)), "")
    if what or (depth and head[_OF_TAR] == b"ustar") or depth > MOST_DEPTH:
        raise NotText(0, what or "an archive of several files")
    if packed := next((make for start, make in _PACKED if head.startswith(start)), None):
        return as_text(packed(again), depth + 1)
    if head[_OF_TAR] == b"ustar":
        raise NotText(0, "an archive of several files: tar -xOf {file} | rdmadiag explain --log -")
    if encoding := _wide(head):
        return Text(_Transcoded(again, encoding), stream)
    is_binary = len(head) - len(head.translate(None, _CONTROL)) > MOST_CONTROL * len(head)
    if is_binary and "\ufffd" in head[:-3].decode("utf-8", "replace"):
        raise NotText(0, "it is no text")
    return Text(again, stream)


class Text:
    """The bytes of its lines."""

    def __init__(self, lines: Readable, source: Readable) -> None:
        self._lines = lines
        self._source = source

    def readinto(self, buffer: memoryview, /) -> int | None:
        """As io.RawIOBase has it."""
        return self._lines.readinto(buffer)

    @property
    def damage(self) -> str:
        """Why what was packed ended before its end; empty where it did not."""
        return self._source.damage if isinstance(self._source, _Unpacked) else ""


def _wide(head: bytes) -> str:
    """UTF-16, by its mark or by its NULs; else nothing."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    pairs = len(head) // 2
    if pairs and head[1::2].count(0) > pairs / 2 and head[::2].count(0) == 0:
        return "utf-16-le"
    if pairs and head[::2].count(0) > pairs / 2 and head[1::2].count(0) == 0:
        return "utf-16-be"
    return ""


class _Again:
    """A stream whose head was looked at, from its beginning."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        buffer = bytearray(HEAD)
        view, got = memoryview(buffer), 0
        while got < HEAD and (some := stream.readinto(view[got:])):
            got += some
        self.head = bytes(view[:got])
        self._at = 0
        self._has_ended = got < HEAD  # a terminal would wait for a second Ctrl-D

    def readinto(self, buffer: memoryview, /) -> int | None:
        if self._at < len(self.head):
            taken = self.head[self._at : self._at + len(buffer)]
            buffer[: len(taken)] = taken
            self._at += len(taken)
            return len(taken)
        return 0 if self._has_ended else self._stream.readinto(buffer)


class _Decompressor(Protocol):
    """Of zlib, bz2 and lzma, as far as it is used."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


class _Unpacked:
    """One member after the other; what is damaged ends it, and is said."""

    def __init__(
        self,
        stream: Readable,
        make: Callable[[], _Decompressor],
        error: type[Exception],
    ) -> None:
        self._stream = stream
        self._make = make
        self._error = error
        self._of = make()
        self._packed = b""
        self.damage = ""

    def readinto(self, buffer: memoryview, /) -> int | None:
        while not self.damage:
            if self._of.eof and not self._next():
                return 0
            at_end = False
            if not self._packed and self._needs_input():
                self._packed = self._more()
                at_end = not self._packed
            try:
                found = self._unpack(len(buffer))
            except (self._error, EOFError, MemoryError) as error:
                self.damage = f"what is packed is damaged: {error or 'no memory for it'}"
                return 0
            if found:
                buffer[: len(found)] = found
                return len(found)
            if at_end and not self._of.eof:
                self.damage = "what is packed ends early"
        return 0

    def _next(self) -> bool:
        """Whether another member follows; zeros may fill up a block of a tape."""
        rest = (self._of.unused_data or self._more()).lstrip(b"\0")
        if not rest:
            return False
        self._of, self._packed = self._make(), rest
        return True

    def _more(self) -> bytes:
        raw = bytearray(1 << 16)
        return bytes(raw[: self._stream.readinto(memoryview(raw)) or 0])

    def _needs_input(self) -> bool:
        return bool(getattr(self._of, "needs_input", True))

    def _unpack(self, most: int) -> bytes:
        packed, self._packed = self._packed, b""
        found: bytes = self._of.decompress(packed, most)  # type: ignore[attr-defined]
        self._packed = getattr(self._of, "unconsumed_tail", b"")  # of zlib, which keeps none
        return found


def _gzip(stream: Readable) -> _Unpacked:
    import zlib

    return _Unpacked(stream, lambda: zlib.decompressobj(_OF_GZIP), zlib.error)


def _bzip2(stream: Readable) -> _Unpacked:
    import bz2

    return _Unpacked(stream, bz2.BZ2Decompressor, OSError)


def _xz(stream: Readable) -> _Unpacked:
    import lzma

    make = partial(lzma.LZMADecompressor, memlimit=MOST_MEMORY)
    return _Unpacked(stream, make, lzma.LZMAError)


_OF_GZIP: Final = 31  # zlib's wbits: a window of 32 KiB, behind gzip's header
_OF_TAR: Final = slice(257, 262)
MOST_MEMORY: Final = 256 << 20  # for the dictionary of an .xz
MOST_DEPTH: Final = 2  # packed, and packed again
_PACKED: Final = ((b"\x1f\x8b", _gzip), (b"BZh", _bzip2), (b"\xfd7zXZ\0", _xz))


class _Transcoded:
    def __init__(self, stream: Readable, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._left = b""
        self._has_ended = False

    def readinto(self, buffer: memoryview, /) -> int | None:
        raw = bytearray(len(buffer))
        while not self._left and not self._has_ended:
            got = self._stream.readinto(memoryview(raw)) or 0
            self._has_ended = not got
            text = self._decoder.decode(bytes(raw[:got]), final=not got)
            self._left = text.encode("utf-8", "replace")
        taken, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)
