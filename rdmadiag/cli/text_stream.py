"""A log as the bytes of its lines, whether logrotate compressed it or Windows wrote it as UTF-16.

RFC 1952, the formats of bzip2 and .xz (which Python's modules read), and the byte order marks of
the Unicode standard; PowerShell 5.1 writes UTF-16 with one.
"""

import codecs
import io
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


def as_text(stream: Readable) -> Readable:
    """What it holds, in an encoding whose newlines and letters are ASCII's; raises OSError.

    A NotText is raised where it is no text; other errors of what is compressed while it is read.
    """
    again = _Again(stream)
    head = again.head
    for start, what in _OTHERS:
        if head.startswith(start):
            raise NotText(0, what)
    if head.startswith(b"\x1f\x8b"):
        import gzip

        return _Unpacked(gzip.GzipFile(fileobj=io.BufferedReader(again)))
    if head.startswith(b"BZh"):
        import bz2

        return _Unpacked(bz2.BZ2File(io.BufferedReader(again)))
    if head.startswith(b"\xfd7zXZ\0"):
        import lzma

        return _Unpacked(lzma.LZMAFile(io.BufferedReader(again)))
    if encoding := _wide(head):
        return _Transcoded(again, encoding)
    is_binary = len(head) - len(head.translate(None, _CONTROL)) > MOST_CONTROL * len(head)
    if is_binary and "\ufffd" in head[:-3].decode("utf-8", "replace"):
        raise NotText(0, "it is no text")
    return again


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


class _Again(io.RawIOBase):
    """A stream whose head was looked at, from its beginning."""

    def __init__(self, stream: Readable) -> None:
        super().__init__()
        self._stream = stream
        buffer = bytearray(HEAD)
        view, got = memoryview(buffer), 0
        while got < HEAD and (some := stream.readinto(view[got:])):
            got += some
        self.head = bytes(view[:got])
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int | None:  # type: ignore[override]
        if self._at < len(self.head):
            taken = self.head[self._at : self._at + len(buffer)]
            buffer[: len(taken)] = taken
            self._at += len(taken)
            return len(taken)
        return self._stream.readinto(buffer)


class _Unpacked:
    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream = stream

    def readinto(self, buffer: memoryview, /) -> int | None:
        import lzma
        import zlib

        try:
            return self._stream.readinto(buffer)
        except (EOFError, zlib.error, lzma.LZMAError) as error:
            raise OSError(0, f"what is compressed is damaged: {error}") from error


class _Transcoded:
    def __init__(self, stream: Readable, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._left = b""

    def readinto(self, buffer: memoryview, /) -> int | None:
        raw = bytearray(len(buffer))
        while not self._left:
            got = self._stream.readinto(memoryview(raw)) or 0
            text = self._decoder.decode(bytes(raw[:got]), final=not got)
            self._left = text.encode("utf-8", "replace")
            if not got and not self._left:
                return 0
        taken, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)
